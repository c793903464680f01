/* Sessions and links between two incarnations, side 0 and side 1.

   A session carries numbered messages both ways, exactly once and in order (S1), over one link at a time. Links
   break, either side dials anew, both may dial at once. The rules L1-L9 say how the two agree on a link and where
   sending goes on. Here the two sides, the network and the clock take their steps in every possible order.

   To be read from top to bottom, and each file where it is included: state; links (session_links.pml); bulks and
   segments (session_cargo.pml); messages; death and goodbye; the network and the clock; how a story may end; at last
   the processes. Each thing that can happen is an `inline` with one indivisible step; a process only lists its steps.

   Options, and the mutants that show each rule to be needed, are in session_options.h; README.md has the table. */

#include "notation.h"
#include "session_options.h"
#include "session_witnesses.h"

/* What claims state. Ending: how a story may end. Witness: see session_witnesses.h. Model: nothing about sessions; a
   bound of the model is too small. */
hidden byte S1 = 1, S2 = 2, L1 = 3, L2 = 4, L3 = 5, L4 = 6, L6 = 7, L7 = 8, L9 = 9, Segments = 10, Ending = 11,
            Witness = 12, Model = 13;

/* ---- State: [s] belongs to side s, guarded by its session's lock ---- */

#define NO_LINK 9

/* The rank of a link, (attempt, dialler's incarnation), as one number: side 1 has the higher incarnation. */
#define rank_of(attempt, dialler) (2 * (attempt) + (dialler))
#define attempt_of(rank)          ((rank) / 2)

/* Hello{rank, last handled, unfinished bulk, segment}, Refused{attempt}, Fenced, Message{number, cargo, descriptor},
   Acknowledge{last handled}, Chunk{offset}, BulkFinished */
mtype:frame = { Hello, Refused, Fenced, Message, Acknowledge, Chunk, BulkFinished, UnnumberedFree }
mtype:cargo = { Plain, Lent, Free, Goodbye }
chan wire[2 * LINKS] = [WIRE] of { mtype:frame, byte, byte, byte, byte };
chan unhandled[2] = [UNREAD] of { mtype:frame, byte, byte, byte };

#define CLOSED   0
#define OPEN     1
#define KNOCKING 2              /* at the acceptor, which has not read the Hello yet */
byte end_state[2 * LINKS];
bool swallows[2 * LINKS];       /* the network loses what is written in this direction */
bool noticeable[LINKS];         /* each side may see the break at any time, and will in the end */
byte link_rank[LINKS];

byte current[2]  = NO_LINK;     /* the adopted link */
byte dialling[2] = NO_LINK;     /* one's own dial: Hello sent, no answer yet */
bool waiting[2];                /* L4: was refused, waits for the peer's link */
byte top[2];                    /* L1: the highest rank sent in a Hello or adopted */
byte told[2];                   /* L1: the highest attempt in a Refused, where above top's */

byte made[2];                   /* last number given to a message */
byte ordinary[2];               /* how many of them may have to wait for room: all but free and goodbye */
byte written[2];                /* last number written to the current link */
byte acknowledged[2];           /* last number that the peer acknowledged: the outbox begins behind it */
byte handled[2];                /* last number handled: the one effect that a message has */
byte handled_told[2];           /* the last of them that the peer was told of on the current link */
byte goodbye[2];                /* number of the goodbye, 0 before it */

#define ALIVE 0
#define LEFT  1
#define DIED  2
byte verdict[2];                /* L8: what s holds of the other incarnation, for its process's life */
byte announced[2];
bool gone[2];                   /* process s has ended and its address refuses */

byte breaks = BREAKS, early_timers = EARLY_TIMERS, suspicions = SUSPICIONS, crashes = CRASHES, forgeries = FORGERIES;
bool turned_away;               /* a side has answered a Hello that cannot be true */
byte disturbances;              /* breaks, early timers and deaths so far */
byte dials;                     /* since the last of them */
bool violence;                  /* someone was suspected, crashed or lost patience */

/* Only mutants use these. */
byte last_read[2], own_attempts[2], half_adopted_last[2], half_adopted[2] = NO_LINK;
bool old_end[2];

/* Scratch, without meaning between two steps. */
hidden mtype:frame kind;
hidden byte slot, number, cargo, descriptor, attempt, hello_rank, hello_last, hello_bulk, hello_segment;
hidden byte cannot_be;

#define lives(s) (verdict[s] == ALIVE && !gone[s])

#include "session_links.pml"
#include "session_cargo.pml"

/* ---- Making and writing messages ---- */

/* S3: an ordinary message waits for room in the outbox. */
inline make(s) {
  d_step {
    lives(s) && goodbye[s] == 0 && ordinary[s] < MESSAGES && made[s] - acknowledged[s] < WINDOW ->
    ordinary[s]++;
    made[s]++;
    when(SEGMENT && s == GIVER, lend_segment())
  }
}

inline write_message(s) {
  d_step {
    can_write(s) && written[s] < made[s] ->
    write_next(s, current[s])
  }
}

inline write_next(s, link) {
  written[s]++;
  cargo = Plain;
  descriptor = false;
  if
  :: goodbye[s] == written[s] -> cargo = Goodbye
  :: SEGMENT && s == GIVER && carrier == written[s] && !streamed -> cargo = Lent; descriptor = !passed; passed = true
  :: SEGMENT && s == TAKER && free_number == written[s] -> cargo = Free
  :: else
  fi;
  printf("side %d writes message %d on link %d\n", s, written[s], link);
  write(s, link, Message, written[s], cargo, descriptor, 0)
}

/* Only a mutant gets here. */
inline write_early(s) {
  d_step {
    MUTANT_DIALLER_SENDS_EARLY && dialling[s] != NO_LINK && written[s] < made[s] &&
    (vanishes(s, dialling[s]) || len(from(s, dialling[s])) < WIRE) ->
    write_next(s, dialling[s])
  }
}

inline write_acknowledgement(s) {
  d_step {
    can_write(s) && handled_told[s] < (MUTANT_ACKNOWLEDGE_LAST_READ -> last_read[s] : handled[s]) ->
    handled_told[s] = (MUTANT_ACKNOWLEDGE_LAST_READ -> last_read[s] : handled[s]);
    write(s, current[s], Acknowledge, handled_told[s], 0, 0, 0)
  }
}

/* ---- Reading and handling ---- */

/* Reading stops while `unhandled` is full (S3). */
inline read(s) {
  d_step {
    current[s] != NO_LINK && nempty(towards(s, current[s])) && nfull(unhandled[s]) ->
    towards(s, current[s])?kind, number, cargo, descriptor, _;
    if
    :: kind == Message ->
       when(MUTANT_SAMPLE_LAST_READ || MUTANT_ACKNOWLEDGE_LAST_READ, last_read[s] = number);
       unhandled[s]!kind, number, cargo, descriptor
    :: kind == Chunk -> unhandled[s]!kind, number, 0, 0
    :: kind == Acknowledge ->
       claim(S1, number <= handled[1 - s]);
       claim(L6, number >= acknowledged[s]);
       acknowledged[s] = number;
       end_loan_at_acknowledgement()
    :: kind == BulkFinished -> release_bulk()
    :: kind == UnnumberedFree -> take_free()
    fi
  }
}

/* L6: comparing, handling and counting are one step. */
inline handle(s, discards) {
  d_step {
    nempty(unhandled[s]) && (!(discards) || (SEGMENT && unhandled[s]?[Message, _, Lent, _])) ->
    unhandled[s]?kind, number, cargo, descriptor;
    claim(S2, lives(s));
    if
    :: kind == Chunk -> take_chunk(s)
    :: kind == Message ->
       printf("side %d handles message %d\n", s, number);
       claim(S1, number == handled[s] + 1);
       handled[s] = number;
       if
       :: cargo == Lent -> take_segment(discards)
       :: cargo == Free -> take_free()
       :: cargo == Goodbye -> take_goodbye(s)
       :: else
       fi
    fi
  }
}

/* ---- Death (L8) and goodbye (L9) ---- */

/* One step: mark, stop link and dial, drop what is unhandled, announce. To a side that has said goodbye the other has
   left, whatever the way that it learns of it: it asks no more of it. */
inline declare(s, reason) {
  claim(S2, verdict[s] == ALIVE);
  verdict[s] = (goodbye[s] > 0 -> LEFT : reason);
  announced[s]++;
  disturb();
  printf("side %d announces that the other is gone (%d)\n", s, verdict[s]);
  close_current(s);
  unless_mutant(DEATH_KEEPS_UNHANDLED, drop_unhandled(s));
  stop_dialling(s);
  waiting[s] = false
}

inline suspect(s) {
  d_step {
    suspicions > 0 && lives(s) ->
    suspicions--;
    violence = true;
    declare(s, DIED)
  }
}

#define leaves(s) ((LEAVERS >> (s)) & 1)
/* Goodbye is the last message; it is small and would overtake the chunks of a bulk, so it waits for them. */
#define bytes_are_out(s) (s == TAKER || !bulk_begun || bulk_released || MUTANT_GOODBYE_BEFORE_BYTES)

inline say_goodbye(s) {
  d_step {
    leaves(s) && lives(s) && goodbye[s] == 0 && bytes_are_out(s) ->
    made[s]++;                                           /* control: never waits for room */
    goodbye[s] = made[s];
    printf("side %d says goodbye: message %d\n", s, goodbye[s])
  }
}

inline take_goodbye(s) {
  claim(L9, s == GIVER || !bulk_open);                   /* all that the leaver sent has arrived */
  if
  :: can_write(s) -> write(s, current[s], Acknowledge, handled[s], 0, 0, 0)
  :: else                                                /* the leaver will dial, and read Fenced */
  fi;
  declare(s, LEFT)
}

#define CLOSE_KNOCK(link) ; when(end_at(s, link) == KNOCKING, close_end(s, link))
inline close_knocks(s) { skip ON_EACH_LINK(CLOSE_KNOCK) }

inline end_process(s) {
  printf("process %d ends\n", s);
  gone[s] = true;
  stop_current(s);
  stop_dialling(s);
  waiting[s] = false;
  close_knocks(s)
}

inline end_after_goodbye(s) {
  d_step {
    goodbye[s] > 0 && !gone[s] && (acknowledged[s] >= goodbye[s] || verdict[s] != ALIVE ||
                                   (MUTANT_GOODBYE_NOT_AWAITED && written[s] == goodbye[s])) ->
    end_process(s)
  }
}

inline crash(s) {
  d_step {
    crashes > 0 && !gone[s] ->
    crashes--;
    violence = true;
    end_process(s)
  }
}

/* ---- The network and the clock ---- */

inline disturb() {
  disturbances++;
  dials = 0
}

/* What is written from now on vanishes. Seen or not, the two sides may still read what is under way; if it is lost too,
   a Hello may never arrive. */
inline break_link(link, from_0, from_1, seen, lost) {
  d_step {
    breaks > 0 && (end_at(0, link) != CLOSED || end_at(1, link) != CLOSED) && !damaged(link) ->
    printf("link %d breaks: from side 0 %d, from side 1 %d, noticeable %d, losing what is under way %d\n",
           link, from_0, from_1, seen, lost);
    breaks--;
    disturb();
    swallowed_from(0, link) = from_0;
    swallowed_from(1, link) = from_1;
    noticeable[link] = seen;
    when(lost && from_0, lose_frames(from(0, link)));
    when(lost && from_1, lose_frames(from(1, link)))
  }
}

inline dial_timer(s) { stop_dialling(s) }
inline wait_timer(s) { waiting[s] = false }
inline silence_timer(s) { stop_current(s) }

#define early(condition) (early_timers > 0 && (condition))
inline take_early_timer(s) { early_timers--; disturb(); printf("a timer of side %d runs out early\n", s) }

inline run_early_dial_timer(s)    { d_step { early(dialling[s] != NO_LINK) -> take_early_timer(s); dial_timer(s) } }
inline run_early_wait_timer(s)    { d_step { early(waiting[s]) -> take_early_timer(s); wait_timer(s) } }
inline run_early_silence_timer(s) { d_step { early(current[s] != NO_LINK) -> take_early_timer(s); silence_timer(s) } }
inline lose_patience(s) {
  d_step { early(goodbye[s] > 0 && !gone[s]) -> take_early_timer(s); violence = true; end_process(s) }
}

#define WIRE_IS_EMPTY(link) && empty(wire[2 * (link)]) && empty(wire[2 * (link) + 1])
#define nothing_under_way (true ON_EACH_LINK(WIRE_IS_EMPTY))

/* Nothing more goes wrong. A step of its own, because the clock acts when nothing else can happen. Then nothing is
   under way, so it need not be offered at other times. */
inline calm_down() {
  d_step {
    breaks + early_timers + suspicions + crashes + lost_descriptors + forgeries > 0 && nothing_under_way ->
    breaks = 0; early_timers = 0; suspicions = 0; crashes = 0; lost_descriptors = 0; forgeries = 0
  }
}

/* ---- How a story may end ---- */

inline check_ending() {
  if
  :: lives(0) && lives(1) ->
     claim(Ending, current[0] != NO_LINK && current[0] == current[1] && !damaged(current[0]));
     claim(Ending, ordinary[0] == MESSAGES && handled[1] == made[0] && acknowledged[0] == made[0]);
     claim(Ending, ordinary[1] == MESSAGES && handled[0] == made[1] && acknowledged[1] == made[1]);
     claim(L9, !leaves(0) && !leaves(1));
     claim(L7, !BULK || (bulk_released && bulk_delivered == 1 - bulk_refused));
     claim(Segments, carrier == 0 && reading == 0)
  :: else ->
     claim(Ending, (gone[0] || announced[0] == 1) && (gone[1] || announced[1] == 1));
     check_farewell(0);
     check_farewell(1)
  fi
}

/* L9: where nobody was suspected, crashed or lost patience, those who stay have seen the others leave. */
inline check_farewell(s) {
  claim(L9, goodbye[s] == 0 || gone[s]);
  claim(L9, violence || gone[s] || (verdict[s] == LEFT && handled[s] == goodbye[1 - s]));
  claim(L9, verdict[s] != LEFT || leaves(s) || handled[s] == goodbye[1 - s])
}

/* ---- The processes ---- */

proctype Side(byte s) {
end:
  do
#define ACCEPT(link) :: accept(s, link) :: notice_knock_ended(s, link)
  ON_EACH_LINK(ACCEPT)
  :: dial(s)
  :: find_address_refusing(s)
  :: read_answer(s)
  :: complete_adoption(s)
  :: make(s)
  :: write_message(s)
  :: write_early(s)
  :: write_acknowledgement(s)
  :: read(s)
  :: handle(s, false)
  :: handle(s, true)
  :: notice_link_ended(s)
  :: notice_dial_ended(s)
  :: mistake_old_end(s)
  :: say_goodbye(s)
  :: end_after_goodbye(s)
  :: write_chunk(s)
  :: refuse_bulk(s)
  :: write_bulk_finished(s)
  :: drop_tensor(s)
  /* What goes wrong on a side. */
  :: suspect(s)
  :: crash(s)
  :: lose_descriptor(s)
  :: run_early_dial_timer(s)
  :: run_early_wait_timer(s)
  :: run_early_silence_timer(s)
  :: lose_patience(s)
  od
}

proctype Network() {
end:
  do
#define BREAK_BOTH_WAYS(link) :: break_link(link, true, true, true, false)
  ON_EACH_LINK(BREAK_BOTH_WAYS)
#if HALF_OPEN
#define BREAK_SILENTLY(link) :: break_link(link, true, true, false, false) :: break_link(link, true, true, false, true)
  ON_EACH_LINK(BREAK_SILENTLY)
#endif
#if ONE_WAY
#define BREAK_ONE_WAY(link) \
  :: break_link(link, true, false, true, false)  :: break_link(link, false, true, true, false) \
  :: break_link(link, true, false, false, false) :: break_link(link, false, true, false, false) \
  :: break_link(link, true, false, false, true)  :: break_link(link, false, true, false, true)
  ON_EACH_LINK(BREAK_ONE_WAY)
#endif
#if FORGERIES
  :: forge_hello(0, FORGED, 0) :: forge_hello(0, handled[1], FORGED)
  :: forge_hello(1, FORGED, 0) :: forge_hello(1, handled[0], FORGED)
#endif
  :: calm_down()
  od
}

#define silent(s) (current[s] != NO_LINK && swallowed_from(1 - s, current[s]) && !MUTANT_NO_SILENCE_TIMER)

/* Two dials that cross settle without help from the clock. */
inline run_wait_timer(s) {
  d_step {
    waiting[s] && !MUTANT_REFUSED_WAITS_FOR_EVER ->
    claim(L4, disturbances > 0);
    wait_timer(s)
  }
}

/* Timers run out in time: when nothing else can happen. When none is left to run out, the story is over. (There is no
   `end` label here: a story that stops unchecked is an error.) */
proctype Clock() {
  do
  :: timeout ->
     claim(Model, nothing_under_way);
     if
#define KNOCK_TIMER(link) \
     :: d_step { end_at(0, link) == KNOCKING -> close_end(0, link) } \
     :: d_step { end_at(1, link) == KNOCKING -> close_end(1, link) }
     ON_EACH_LINK(KNOCK_TIMER)
     :: d_step { dialling[0] != NO_LINK -> dial_timer(0) }
     :: d_step { dialling[1] != NO_LINK -> dial_timer(1) }
     :: run_wait_timer(0)
     :: run_wait_timer(1)
     :: d_step { silent(0) -> silence_timer(0) }
     :: d_step { silent(1) -> silence_timer(1) }
     :: else -> d_step { check_ending() }; break
     fi
  od
}

proctype Observer() {
end:
  d_step { WITNESS -> claim(Witness, false) }
}

init { atomic { run Side(0); run Side(1); run Network(); run Clock(); run Observer() } }
