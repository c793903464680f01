/* A worker that restarts at its old address, under its old name.

   X talks to the worker named Y. Y's process crashes at some time and comes back: incarnation FIRST, then SECOND, two
   lives with no order between them. The meeting point keeps one record under the name; a life writes it some time after
   it has begun to listen. What X may conclude from all this:
   - L3, L4: only the address can say that an incarnation is over, by refusing, by NotMe or by Fenced;
   - L8: another incarnation under the name, in a record or in a Hello, proves nothing;
   - so nothing meant for one life reaches the other, and a death is announced once, of the right one (S2).

   Numbers, ranks and breaks are session.pml's matter. Here a link accepted later replaces an earlier one, and a message
   is sent again until it was handled. */

#include "notation.h"

#define LINKS 4         /* links that exist at once, dying ones included */
#define WIRE  2         /* frames under way in one direction of a link */
#define ON_EACH_LINK(step) step(0) step(1) step(2) step(3)

/* ---- Mutants ---- */

#ifndef MUTANT_YOURS_NOT_CHECKED /* L3: the acceptor does not look at whom the Hello is meant for */
#define MUTANT_YOURS_NOT_CHECKED 0
#endif
#ifndef MUTANT_KILL_BY_HELLO     /* L8: a Hello of one incarnation is taken for the other's death */
#define MUTANT_KILL_BY_HELLO 0
#endif
#ifndef MUTANT_KILL_BY_RECORD    /* L8: a record under the name is taken for the other incarnation's death */
#define MUTANT_KILL_BY_RECORD 0
#endif
#ifndef MUTANT_NOT_ME_IGNORED    /* L4: NotMe is no more than the end of a dial */
#define MUTANT_NOT_ME_IGNORED 0
#endif
#ifndef MUTANT_DEATH_FORGOTTEN   /* L8: a Hello that a dead incarnation left behind is accepted */
#define MUTANT_DEATH_FORGOTTEN 0
#endif

/* Two situations that must be able to come up (session_witnesses.h says why). */
#ifdef WITNESS_LATE_HELLO        /* X hears of the first life after the second has begun to talk to it */
#define WITNESS (current[FIRST] != NO_LINK && current[SECOND] != NO_LINK && handled_by_x[SECOND])
#endif
#ifdef WITNESS_UNHEARD_OF        /* X never hears of the first life */
#define WITNESS (handled_by_x[SECOND] && verdict[FIRST] == UNKNOWN && record == SECOND)
#endif
#ifndef WITNESS
#define WITNESS false
#endif

/* What claims state; Identity: nothing meant for one life reaches another. */
hidden byte Identity = 1, S2 = 2, L4 = 3, L8 = 4, Ending = 5, Witness = 6, Model = 7;

/* ---- State ---- */

#define NO_LINK 9
#define NOBODY  0
#define FIRST   1
#define SECOND  2
#define other(life) (FIRST + SECOND - (life))

mtype = { Hello, NotMe, Fenced, Message }       /* Hello{mine, yours}, Message{meant for} */
chan to_x[LINKS] = [WIRE] of { mtype, byte, byte };
chan to_y[LINKS] = [WIRE] of { mtype, byte, byte };

#define CLOSED   0
#define OPEN     1
#define KNOCKING 2                              /* at the acceptor, which has not read the Hello yet */
byte x_end[LINKS], y_end[LINKS];

/* X: one session for each incarnation that it has heard of. */
#define UNKNOWN 0
#define ALIVE   1
#define DEAD    2
byte verdict[3], announced[3];
byte current[3] = NO_LINK, dialling[3] = NO_LINK;
bool handled_by_x[3];
byte told_not_me[3];

/* Y: the process that now has the address, and its session with X. */
byte life = FIRST;
bool up = true;
byte record = FIRST;                            /* under the name, at the meeting point */
byte y_current = NO_LINK, y_dialling = NO_LINK;
bool y_fenced;
bool handled_by_y;

/* Scratch, without meaning between two steps. */
hidden mtype kind;
hidden byte slot, who, mine, yours;

/* ---- Links ---- */

inline lose_frames(channel) {
  do
  :: nempty(channel) -> channel?kind, _, _
  :: empty(channel) -> break
  od
}

/* The other end may still read what is under way to it. */
inline close_x(link) {
  x_end[link] = CLOSED;
  lose_frames(to_x[link]);
  when(y_end[link] == CLOSED, lose_frames(to_y[link]))
}
inline close_y(link) {
  y_end[link] = CLOSED;
  lose_frames(to_y[link]);
  when(x_end[link] == CLOSED, lose_frames(to_x[link]))
}

inline write_to_y(link, frame, a, b) { when(y_end[link] != CLOSED, to_y[link]!frame, a, b) }
inline write_to_x(link, frame, a, b) { when(x_end[link] != CLOSED, to_x[link]!frame, a, b) }

inline find_slot() {
  slot = 0;
  do
  :: slot < LINKS && (x_end[slot] != CLOSED || y_end[slot] != CLOSED) -> slot++
  :: else -> break
  od;
  claim(Model, slot < LINKS)
}

/* ---- What X does; `peer` is an incarnation ---- */

inline stop(peer) {
  when(current[peer] != NO_LINK, close_x(current[peer]); current[peer] = NO_LINK);
  when(dialling[peer] != NO_LINK, close_x(dialling[peer]); dialling[peer] = NO_LINK)
}

inline declare_dead(peer) {
  printf("X announces the death of %d\n", peer);
  claim(L8, !(up && life == peer));             /* it lives */
  verdict[peer] = DEAD;
  announced[peer]++;
  claim(S2, announced[peer] == 1);
  stop(peer)
}

/* X wants to call the worker of that name. */
inline look_up_name() {
  d_step {
    verdict[record] == UNKNOWN || (MUTANT_KILL_BY_RECORD && verdict[other(record)] == ALIVE) ->
    printf("X finds incarnation %d under the name\n", record);
    when(verdict[record] == UNKNOWN, verdict[record] = ALIVE);
    when(MUTANT_KILL_BY_RECORD && verdict[other(record)] == ALIVE, declare_dead(other(record)))
  }
}

#define x_may_dial(peer) (verdict[peer] == ALIVE && current[peer] == NO_LINK && dialling[peer] == NO_LINK)

inline x_dials(peer) {
  d_step {
    x_may_dial(peer) && up ->
    find_slot();
    printf("X dials link %d: Hello{yours %d}\n", slot, peer);
    dialling[peer] = slot;
    x_end[slot] = OPEN;
    y_end[slot] = KNOCKING;
    to_y[slot]!Hello, NOBODY, peer
  }
}

inline x_finds_address_refusing(peer) {
  d_step {
    x_may_dial(peer) && !up ->
    declare_dead(peer)
  }
}

inline x_accepts(link) {
  d_step {
    x_end[link] == KNOCKING && nempty(to_x[link]) ->
    to_x[link]?kind, who, _;
    if
    :: verdict[who] == DEAD && !MUTANT_DEATH_FORGOTTEN ->
       printf("X answers link %d from incarnation %d: Fenced\n", link, who);
       write_to_y(link, Fenced, 0, 0);
       close_x(link)
    :: else ->
       printf("X adopts link %d from incarnation %d\n", link, who);
       when(MUTANT_KILL_BY_HELLO && verdict[other(who)] == ALIVE, declare_dead(other(who)));
       stop(who);
       verdict[who] = ALIVE;
       current[who] = link;
       x_end[link] = OPEN;
       write_to_y(link, Hello, NOBODY, who)
    fi
  }
}

inline x_reads_answer(peer) {
  d_step {
    dialling[peer] != NO_LINK && nempty(to_x[dialling[peer]]) ->
    slot = dialling[peer];
    to_x[slot]?kind, mine, _;
    printf("X, calling incarnation %d, reads %e of %d on link %d\n", peer, kind, mine, slot);
    dialling[peer] = NO_LINK;
    if
    :: kind == Hello -> current[peer] = slot
    :: kind == NotMe && MUTANT_NOT_ME_IGNORED -> close_x(slot); told_not_me[peer]++; claim(L4, told_not_me[peer] <= 3)
    :: (kind == NotMe && !MUTANT_NOT_ME_IGNORED) || kind == Fenced -> close_x(slot); declare_dead(peer)
    fi
  }
}

inline x_writes(peer) {
  d_step {
    current[peer] != NO_LINK && empty(to_y[current[peer]]) && y_end[current[peer]] != CLOSED &&
    !(up && life == peer && handled_by_y) ->
    write_to_y(current[peer], Message, peer, 0)
  }
}

inline x_reads(peer) {
  d_step {
    current[peer] != NO_LINK && nempty(to_x[current[peer]]) ->
    to_x[current[peer]]?kind, mine, _;
    claim(S2, verdict[peer] == ALIVE);
    claim(Identity, kind == Message && mine == peer);
    handled_by_x[peer] = true
  }
}

#define x_sees_end(link) (x_end[link] != CLOSED && empty(to_x[link]) && y_end[link] == CLOSED)

inline x_notices_end(peer) {
  d_step {
    current[peer] != NO_LINK && x_sees_end(current[peer]) -> close_x(current[peer]); current[peer] = NO_LINK
  }
}
inline x_notices_dial_end(peer) {
  d_step {
    dialling[peer] != NO_LINK && x_sees_end(dialling[peer]) -> close_x(dialling[peer]); dialling[peer] = NO_LINK
  }
}

/* ---- What Y's process does ---- */

inline y_dials() {
  d_step {
    up && !y_fenced && y_current == NO_LINK && y_dialling == NO_LINK ->
    find_slot();
    printf("incarnation %d dials link %d\n", life, slot);
    y_dialling = slot;
    y_end[slot] = OPEN;
    x_end[slot] = KNOCKING;
    to_x[slot]!Hello, life, NOBODY
  }
}

inline y_accepts(link) {
  d_step {
    y_end[link] == KNOCKING && nempty(to_y[link]) ->
    to_y[link]?kind, _, yours;
    if
    :: yours != life && !MUTANT_YOURS_NOT_CHECKED ->
       printf("incarnation %d answers link %d: NotMe\n", life, link);
       write_to_x(link, NotMe, life, 0);
       close_y(link)
    :: else ->
       if
       :: y_fenced -> write_to_x(link, Fenced, life, 0); close_y(link)
       :: else ->
          printf("incarnation %d adopts link %d\n", life, link);
          when(y_current != NO_LINK, close_y(y_current));
          when(y_dialling != NO_LINK, close_y(y_dialling); y_dialling = NO_LINK);
          y_current = link;
          y_end[link] = OPEN;
          write_to_x(link, Hello, life, 0)
       fi
    fi
  }
}

inline y_reads_answer() {
  d_step {
    y_dialling != NO_LINK && nempty(to_y[y_dialling]) ->
    slot = y_dialling;
    to_y[slot]?kind, _, _;
    y_dialling = NO_LINK;
    if
    :: kind == Hello -> y_current = slot
    :: kind == Fenced -> close_y(slot); y_fenced = true
    fi
  }
}

inline y_writes() {
  d_step {
    y_current != NO_LINK && empty(to_x[y_current]) && x_end[y_current] != CLOSED && !handled_by_x[life] ->
    write_to_x(y_current, Message, life, 0)
  }
}

inline y_reads() {
  d_step {
    y_current != NO_LINK && nempty(to_y[y_current]) ->
    to_y[y_current]?kind, yours, _;
    printf("incarnation %d reads a message meant for %d\n", life, yours);
    claim(Identity, kind == Message && yours == life);
    handled_by_y = true
  }
}

#define y_sees_end(link) (y_end[link] != CLOSED && empty(to_y[link]) && x_end[link] == CLOSED)

inline y_notices_end() {
  d_step {
    y_current != NO_LINK && y_sees_end(y_current) -> close_y(y_current); y_current = NO_LINK
  }
}
inline y_notices_dial_end() {
  d_step {
    y_dialling != NO_LINK && y_sees_end(y_dialling) -> close_y(y_dialling); y_dialling = NO_LINK
  }
}

inline crash() {
  d_step {
    up && life == FIRST ->
    printf("incarnation %d crashes\n", life);
    up = false;
    slot = 0;
    do
    :: slot < LINKS -> when(y_end[slot] != CLOSED, close_y(slot)); slot++
    :: else -> break
    od;
    y_current = NO_LINK; y_dialling = NO_LINK; handled_by_y = false; y_fenced = false
  }
}

inline restart() { d_step { !up -> life = SECOND; up = true; printf("incarnation %d starts\n", life) } }
inline publish() {
  d_step { up && record != life -> record = life; printf("incarnation %d publishes its record\n", life) }
}

/* ---- The processes ---- */

proctype X() {
end:
  do
  :: look_up_name()
#define X_ON_LINK(link) \
  :: x_accepts(link) :: d_step { x_end[link] == KNOCKING && x_sees_end(link) -> close_x(link) }
  ON_EACH_LINK(X_ON_LINK)
#define X_WITH(peer) \
  :: x_dials(peer) :: x_finds_address_refusing(peer) :: x_reads_answer(peer) :: x_writes(peer) :: x_reads(peer) \
  :: x_notices_end(peer) :: x_notices_dial_end(peer)
  X_WITH(FIRST)
  X_WITH(SECOND)
  od
}

proctype Y() {
end:
  do
  :: y_dials()
#define Y_ON_LINK(link) \
  :: y_accepts(link) :: d_step { y_end[link] == KNOCKING && y_sees_end(link) -> close_y(link) }
  ON_EACH_LINK(Y_ON_LINK)
  :: y_reads_answer()
  :: y_writes()
  :: y_reads()
  :: y_notices_end()
  :: y_notices_dial_end()
  :: crash()
  :: restart()
  :: publish()
  od
}

/* When nothing more can happen, X and the living incarnation have talked, and the other is unknown or known to be
   dead. */
proctype Clock() {
  timeout;
  d_step {
    claim(Ending, up && life == SECOND && verdict[life] == ALIVE && !y_fenced);
    claim(Ending, current[life] != NO_LINK && current[life] == y_current && handled_by_x[life] && handled_by_y);
    claim(Ending, verdict[FIRST] != ALIVE && announced[FIRST] == (verdict[FIRST] == DEAD))
  }
}

proctype Observer() {
end:
  d_step { WITNESS -> claim(Witness, false) }
}

init { atomic { run X(); run Y(); run Clock(); run Observer() } }
