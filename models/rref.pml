/* One reference: its owner, its creator, and others that use it.

   The owner keeps the value and the set of forks, each with its holder. Whoever holds a fork may give the reference on:
   it pins its own fork until the other's is entered at the owner. Sessions deliver in order, and announce a death once
   (S1, S2: session.pml); they are the wires here. What is claimed:
   - R1: the value is not deleted, and no one is told that it is lost, while a living worker that is not cut off holds
     or pins a fork; but for the one loss that cannot be prevented (find_excused);
   - R2: at the end nothing is left, anywhere;
   - R3: at the end no fetch waits;
   - Surprise: nothing arrives that its receiver could not expect. The code would ignore it, or call it malformed.

   To be read from top to bottom, and each file where it is included: state; wires; the one loss; the owner
   (rref_owner.pml); the users (rref_users.pml); failures; how a story ends; the processes. Each thing that can happen is
   an `inline` with one indivisible step; a process only lists its steps.

   Options, and the mutants that show each rule to be needed, are in rref_options.h; README.md has the table. */

#include "notation.h"
#include "rref_options.h"

/* Witness: see session_witnesses.h. Model: nothing about references; a bound of the model is too small. */
hidden byte R1 = 1, R2 = 2, R3 = 3, Surprise = 4, Witness = 5, Model = 6;

#define OWNER   0
#define CREATOR 1
#define WORKERS (USERS + 1)
#if USERS == 2
#define ON_EACH_USER(step) step(1) step(2)
#else
#define ON_EACH_USER(step) step(1) step(2) step(3)
#endif
#define ON_EACH_WORKER(step) step(OWNER) ON_EACH_USER(step)

/* ---- State ---- */

/* To the owner: Creation, Adopt{fork}, Release{forks}, Id and Fetch{forks held by the sender: for the claims only},
   LostFetch. From the owner: Made (reply to the creation), Given{fork, which is entered}, Entered and NotEntered{fork}
   (answers to Adopt), Value, LostValue (replies to Fetch). Between holders: Child{fork, to be adopted},
   Lost (the reference, with no fork), Adopted{fork}. */
mtype = { Creation, Made, Id, Given, Child, Lost, Adopt, Entered, NotEntered, Adopted, Release, Fetch, LostFetch, Value,
          LostValue }
chan wire[WORKERS * WORKERS] = [WIRE] of { mtype, byte };
#define wire_to(to, from) wire[(from) * WORKERS + (to)]

/* The owner. */
#define ABSENT  0
#define EMPTY   1               /* mentioned, its creation has not come (RW) */
#define CREATED 2
byte entry = ABSENT;
byte entered;                   /* forks in the entry; holder[] has their holders */
bool owner_handle;              /* its functions have copies */
byte fetches;                   /* users whose Fetch waits for the value: each is a handle */
bool created;                   /* RW: the creation's number is not above the highest seen */
bool knows_creator;             /* it has a session with the creator, or the creator with it */
bool owner_marked;              /* a handle has died: the next tidying looks whether the entry is still needed */

/* User p, in [p]. */
bool handle[WORKERS];           /* its functions have copies */
bool known[WORKERS];            /* it has an entry for the reference; forks and pins are in it */
byte forks[WORKERS];
byte confirmed[WORKERS];        /* those that it knows to be entered */
byte pins[WORKERS];             /* forks made of its own that the owner may not know yet; holder[] has for whom */
byte adopting[WORKERS];         /* forks whose Adopt was not answered; giver[] has who waits for the answer */
bool lost[WORKERS];             /* it came as lost, and no fork came */
bool marked[WORKERS];           /* handles or pins are gone: the next tidying looks whether to release */
byte fetch_queued[WORKERS];     /* 0, or the request that waits for room: Fetch or LostFetch */
byte fetch_forks[WORKERS];      /* what it will say */
bool awaits_value[WORKERS];
bool creation_queued;           /* at the creator: the creation has its number (RW) and waits for room */
byte ids_left = IDS_TO_OWNER, fetches_left = FETCHES;

/* Forks; the creator's first one is 0. */
byte next_fork = 1;
byte giver[FORKS], holder[FORKS];

/* Failures. */
bool gone[WORKERS];
byte dead_to[WORKERS];          /* the workers that p holds for dead, for its life */
byte news[WORKERS];             /* deaths that p has not heard of */
byte cut_from[WORKERS];         /* living workers that hold p for dead, or will */
byte deaths = DEATHS, cuts = CUTS;

/* For the claims only. */
byte parents[FORKS];            /* the giver's forks when it gave this one, until the owner has seen it */
byte ever_entered, ever_refused;
byte in_doubt[WORKERS];         /* given to p and not adopted, although p had none confirmed: only in a mutant */
bool empty_deleted, short_cut[WORKERS], given_as_lost[WORKERS];              /* only witnesses use these */

/* Only a mutant uses these. */
byte late_from, late_forks;

/* Scratch, without meaning between two steps. */
hidden mtype kind;
hidden byte what, each, excused, fresh;

#define seen_by_owner     (ever_entered | ever_refused)
#define is_dead(p, q)     has(dead_to[p], q)
#define unreachable(p, q) (gone[q] || is_dead(p, q) || is_dead(q, p))
#define broken(p, q)      (gone[p] || has(cut_from[p], q))
/* RQ: requests that wait for room hold what is in them. */
#define holds(p)                                                          \
  (handle[p] || (fetch_queued[p] != 0 && !MUTANT_RELEASE_PASSES_FETCH) || \
   (p == CREATOR && creation_queued && !MUTANT_RELEASE_PASSES_CREATION))

/* ---- Wires ---- */

/* What is sent to one who holds the sender for dead vanishes. As long as the creator has sent nothing, the owner has
   no session with it, and does not hear of its death (RC). */
inline send(from, to, message, content) {
  when((from) == CREATOR && (to) == OWNER, knows_creator = true);
  when((from) == OWNER && (to) == CREATOR, knows_creator = true);
  if
  :: unreachable(from, to)
  :: else ->
     claim(Model, nfull(wire_to(to, from)));
     wire_to(to, from)!message, content
  fi
}

inline lose_messages(to, from) {
  do
  :: nempty(wire_to(to, from)) -> wire_to(to, from)?kind, what
  :: empty(wire_to(to, from)) -> break
  od
}

/* ---- The one loss that cannot be prevented ---- */

/* Excused are the forks that the owner never knew and whose giver died, or was cut off from the owner or from the
   child; those given by one who had only such forks; and all, if the creator was gone before its creation arrived. */
inline find_excused() {
  excused = ever_refused;
  if
  :: !created && broken(CREATOR, OWNER) -> excused = 255
  :: else ->
     each = 1;
     do
     :: each < next_fork ->
        when(!has(ever_entered, each) && giver[each] != OWNER &&
             (broken(giver[each], OWNER) || broken(giver[each], holder[each]) || (parents[each] & ~excused) == 0),
             add(excused, each));
        each++
     :: else -> break
     od
  fi
}

#define counts(p) (!gone[p] && !broken(p, OWNER))

#define DOES_NOT_NEED_IT(p) \
  claim(R1, !counts(p) || !(holds(p) || pins[p] != 0) || ((forks[p] | in_doubt[p]) & ~excused) == 0);
/* The value goes, or will never come. */
inline check_no_one_needs_it() {
  find_excused();
  ON_EACH_USER(DOES_NOT_NEED_IT)
  skip
}

/* The owner tells p that the reference is lost; p had these forks when it sent what is answered. */
inline check_loss(p, of_forks) {
  find_excused();
  claim(R1, !counts(p) || ((of_forks) & ~excused) == 0)
}

#include "rref_owner.pml"
#include "rref_users.pml"

/* ---- Failures ---- */

#define BRING_NEWS(q) when(q != p, lose_messages(p, q); when(!gone[q] && !is_dead(q, p), add(news[q], p)));
/* What it has sent may still arrive, until its death is heard of. */
inline die(p) {
  d_step {
    deaths > 0 && !gone[p] ->
    printf("%d dies\n", p);
    deaths--;
    gone[p] = true;
    ON_EACH_WORKER(BRING_NEWS)
    lose_messages(p, p);
    news[p] = 0;
    dead_to[p] = 0;
    if
    :: p == OWNER ->
       entry = ABSENT;
       entered = 0;
       owner_handle = false;
       fetches = 0;
       owner_marked = false;
       late_from = 0;
       late_forks = 0
    :: else ->
       forget(p);
       handle[p] = false;
       pins[p] = 0;
       adopting[p] = 0;
       marked[p] = false;
       fetch_queued[p] = 0;
       fetch_forks[p] = 0;
       awaits_value[p] = false;
       when(p == CREATOR, creation_queued = false)
    fi
  }
}

/* A false suspicion: one declares the other dead, and the other is told (R4), by Fenced. Which is first is open. */
inline cut(p, q) {
  d_step {
    cuts > 0 && p < q && !gone[p] && !gone[q] && !has(cut_from[p], q) ->
    printf("%d and %d are cut off from each other\n", p, q);
    cuts--;
    add(cut_from[p], q);
    add(cut_from[q], p);
    add(news[p], q);
    add(news[q], p)
  }
}

#define WIRE_IS_EMPTY(from, to) && empty(wire_to(to, from))
#define WIRES_ARE_EMPTY(p) WIRE_IS_EMPTY(p, OWNER) WIRE_IS_EMPTY(OWNER, p) WIRE_IS_EMPTY(p, 1) WIRE_IS_EMPTY(p, 2)
#define IS_QUIET(p) && !handle[p] && fetch_queued[p] == 0 && !marked[p]
#if USERS == 2
#define nothing_under_way (empty(wire_to(OWNER, OWNER)) ON_EACH_USER(WIRES_ARE_EMPTY))
#else
#define TO_AND_FROM_THIRD(p) WIRE_IS_EMPTY(p, 3)
#define nothing_under_way \
  (empty(wire_to(OWNER, OWNER)) ON_EACH_USER(WIRES_ARE_EMPTY) ON_EACH_USER(TO_AND_FROM_THIRD))
#endif
#define no_one_acts (!creation_queued && !owner_handle && !owner_marked ON_EACH_USER(IS_QUIET))

/* Nothing more goes wrong. A step of its own, because the end is looked at when nothing else can happen. */
inline calm_down() {
  d_step {
    deaths + cuts > 0 && nothing_under_way && no_one_acts ->
    deaths = 0;
    cuts = 0
  }
}

/* ---- How a story ends ---- */

#define LEFT_NOTHING(p)                                               \
  claim(R3, !awaits_value[p]);                                        \
  claim(R2, !known[p] && forks[p] == 0 && pins[p] == 0 && adopting[p] == 0);
/* Everyone has dropped its handles, and nothing can happen any more. */
proctype Ending() {
  timeout;
  d_step {
    claim(Model, nothing_under_way && no_one_acts);
    ON_EACH_USER(LEFT_NOTHING)
    claim(R3, fetches == 0);
    claim(R2, entry == ABSENT && entered == 0)
  }
}

/* ---- The processes ---- */

proctype Owner() {
end:
  do
#define OWNER_WITH(user) :: owner_receives(user) :: owner_gives(user) :: owner_hears_of_death(user)
  ON_EACH_USER(OWNER_WITH)
  :: owner_gives_itself()
  :: owner_receives_its_own()
  :: drop_owner_handle()
  :: tidy_owner()
  :: resolve_late()
  od
}

proctype User(byte p) {
end:
  do
#define RECEIVE(other) :: receive(p, other, true) :: receive(p, other, false) :: hear_of_death(p, other)
  ON_EACH_WORKER(RECEIVE)
#define GIVE(other) :: give(p, other)
  ON_EACH_USER(GIVE)
  :: give_to_owner(p)
  :: fetch(p)
  :: fetch_leaves(p)
  :: drop(p)
  :: tidy(p)
  od
}

/* The creator's queue towards the owner. */
proctype Queue() {
end:
  do
  :: creation_leaves()
  :: creation_is_withdrawn()
  od
}

proctype Fate() {
end:
  do
#if DEATHS > 0
#define DIE(p) :: die(p)
  ON_EACH_WORKER(DIE)
#endif
#if CUTS > 0
#define CUT_FROM_ALL(p) :: cut(OWNER, p) :: cut(1, p) :: cut(2, p)
  ON_EACH_USER(CUT_FROM_ALL)
#endif
  :: calm_down()
  od
}

proctype Observer() {
end:
  d_step { WITNESS -> claim(Witness, false) }
}

init {
  d_step {
    giver[0] = CREATOR;
    holder[0] = CREATOR;
    if
    :: OWNER_MADE ->
       created = true;
       entry = CREATED;
       owner_handle = true
    :: else ->
       creation_queued = true;
       handle[CREATOR] = true;
       known[CREATOR] = true;
       forks[CREATOR] = bit(0)
    fi
  }
  atomic {
    run Owner();
    run User(1);
    run User(2);
#if USERS == 3
    run User(3);
#endif
    run Queue();
    run Fate();
    run Ending();
    run Observer()
  }
}
