/* Options, mutants and witnesses of rref.pml; `spin -DNAME` or `spin -DNAME=value` sets one. */

/* ---- What the story contains ---- */

#ifndef USERS /* workers besides the owner, 2 or 3; the first of them is the creator */
#define USERS 2
#endif
#ifndef FORKS /* forks in all, the creator's first one included: at most 4 */
#define FORKS 3
#endif
#ifndef OWNER_MADE /* 1: the owner itself has made the reference, and no creation comes */
#define OWNER_MADE 0
#endif
#ifndef FETCHES /* fetches that users begin */
#define FETCHES 1
#endif
#ifndef IDS_TO_OWNER /* times that a holder gives the reference to its owner */
#define IDS_TO_OWNER 1
#endif
#ifndef SELF_GIVES /* 1: workers may give it to themselves too */
#define SELF_GIVES 0
#endif
#ifndef DEATHS /* workers that die */
#define DEATHS 0
#endif
#ifndef CUTS /* pairs of living workers that take each other for dead */
#define CUTS 0
#endif
#ifndef WIRE /* messages under way from one worker to another */
#define WIRE (2 * FORKS + 1)
#endif

/* ---- Mutants: each breaks one rule, and must make spin find an error ---- */

#ifndef MUTANT_NO_PIN /* the giver does not pin its own fork */
#define MUTANT_NO_PIN 0
#endif
#ifndef MUTANT_NO_PIN_TO_ONESELF /* the same, for a message to oneself */
#define MUTANT_NO_PIN_TO_ONESELF 0
#endif
#ifndef MUTANT_ADOPTED_BEFORE_ANSWER /* the child tells the giver before the owner has answered its Adopt */
#define MUTANT_ADOPTED_BEFORE_ANSWER 0
#endif
#ifndef MUTANT_UNCONFIRMED_SHORT_CUT /* a child with any fork, confirmed or not, does not adopt */
#define MUTANT_UNCONFIRMED_SHORT_CUT 0
#endif
#ifndef MUTANT_UNKNOWN_ALWAYS_WAITS /* RW: a mention of an unknown reference waits for a creation, seen or not */
#define MUTANT_UNKNOWN_ALWAYS_WAITS 0
#endif
#ifndef MUTANT_UNKNOWN_NEVER_WAITS /* RW: a mention of an unknown reference is lost */
#define MUTANT_UNKNOWN_NEVER_WAITS 0
#endif
#ifndef MUTANT_EMPTY_ENTRIES_STAY /* RC: a creator's death does not fail its empty entries */
#define MUTANT_EMPTY_ENTRIES_STAY 0
#endif
#ifndef MUTANT_DEAD_CREATOR_AWAITED /* RC: a mention after the creator's death waits for the creation */
#define MUTANT_DEAD_CREATOR_AWAITED 0
#endif
#ifndef MUTANT_CREATOR_NOT_MET /* RC: the owner opens no session to the creator of an empty entry */
#define MUTANT_CREATOR_NOT_MET 0
#endif
#ifndef MUTANT_SILENT_AT_OWNERS_DEATH /* RN: adoptions under way at the owner's death are forgotten */
#define MUTANT_SILENT_AT_OWNERS_DEATH 0
#endif
#ifndef MUTANT_SILENT_AFTER_OWNERS_DEATH /* RN: what arrives when the owner is dead is not answered */
#define MUTANT_SILENT_AFTER_OWNERS_DEATH 0
#endif
#ifndef MUTANT_SILENT_WHEN_LOST /* RN: the giver is not told that the fork was not entered */
#define MUTANT_SILENT_WHEN_LOST 0
#endif
#ifndef MUTANT_RELEASE_PASSES_CREATION /* RQ: a creation that waits for room holds nothing */
#define MUTANT_RELEASE_PASSES_CREATION 0
#endif
#ifndef MUTANT_CREATION_WITHDRAWN /* RQ: a creation that waits for room may be taken back */
#define MUTANT_CREATION_WITHDRAWN 0
#endif
#ifndef MUTANT_RELEASE_PASSES_FETCH /* RQ: a fetch that waits for room holds nothing */
#define MUTANT_RELEASE_PASSES_FETCH 0
#endif
#ifndef MUTANT_OWN_MESSAGE_HOLDS_NOTHING /* RQ: an owner's message to itself holds nothing */
#define MUTANT_OWN_MESSAGE_HOLDS_NOTHING 0
#endif
#ifndef MUTANT_FETCH_KEEPS_NO_ENTRY /* a fetch that waits for the value does not keep the entry */
#define MUTANT_FETCH_KEEPS_NO_ENTRY 0
#endif
#ifndef MUTANT_DISCARDED_UNHANDLED /* RG: the references in a discarded message are not handled */
#define MUTANT_DISCARDED_UNHANDLED 0
#endif
#ifndef MUTANT_FORK_FOR_THE_DEAD /* RG: the owner enters a fork for a peer that is dead to it */
#define MUTANT_FORK_FOR_THE_DEAD 0
#endif
#ifndef MUTANT_PIN_FOR_THE_DEAD /* RG: a holder pins for a peer that is dead to it */
#define MUTANT_PIN_FOR_THE_DEAD 0
#endif
#ifndef MUTANT_RESOLVED_LATE /* RG: the owner looks at a message's references when its function runs */
#define MUTANT_RESOLVED_LATE 0
#endif
#ifndef MUTANT_EMPTY_ENTRY_KEPT /* R2: an empty entry that no one needs waits on for its creation */
#define MUTANT_EMPTY_ENTRY_KEPT 0
#endif
#ifndef MUTANT_LOST_STICKS /* what came as lost stays so, although a fork came after it */
#define MUTANT_LOST_STICKS 0
#endif

/* ---- Situations that the search must reach (session_witnesses.h says why) ---- */

#ifdef WITNESS_EMPTY_MADE_AGAIN /* an empty entry was deleted while its creation waited */
#define WITNESS (empty_deleted && entry == CREATED)
#endif
#ifdef WITNESS_CREATORS_ADOPT_PASSES_CREATION /* the creator's own adoption makes the empty entry */
#define WITNESS (entry == EMPTY && creation_queued && (entered & confirmed[CREATOR]) != 0)
#endif
#ifdef WITNESS_ID_PASSES_CREATION /* a reply of the creator does */
#define WITNESS (entry == EMPTY && creation_queued && entered == 0 && owner_handle)
#endif
#ifdef WITNESS_RELEASED_UNANSWERED /* a fork was released before its Adopt was answered */
#define WITNESS (adopting[2] != 0 && !known[2] && !gone[2])
#endif
#ifdef WITNESS_ONLY_A_PIN_HOLDS /* the value lives by a pin alone, while its only user adopts it */
#define WITNESS \
  (entry == CREATED && entered == bit(0) && !holds(CREATOR) && pins[CREATOR] != 0 && handle[2] && adopting[2] != 0)
#endif
#ifdef WITNESS_SHORT_CUT /* a holder with a confirmed fork gets another, and the giver's fork is released */
#define WITNESS (short_cut[CREATOR] && confirmed[CREATOR] != 0 && !known[2] && pins[CREATOR] == 0)
#endif
#ifdef WITNESS_LOST_CHILD /* an adoption comes too late: the giver died, and the value with it */
#define WITNESS (created && entry == ABSENT && gone[CREATOR] && handle[2] && known[2] && forks[2] == 0)
#endif
#ifdef WITNESS_LOST_AND_FOUND /* the creator is cut off and gives it as lost; then the owner gives it too */
#define WITNESS (given_as_lost[2] && handle[2] && confirmed[2] != 0)
#endif
#ifdef WITNESS_CREATOR_DIES_WAITED_FOR /* a fetch waits at an empty entry, and the creator is found dead */
#define WITNESS (is_dead(OWNER, CREATOR) && !created && wire_to(2, OWNER)?[LostValue, _])
#endif
#ifdef WITNESS_FENCED_HOLDER /* the value was deleted, and a living user that was cut off still has its fork */
#define WITNESS (created && entry == ABSENT && is_dead(OWNER, 2) && !gone[2] && handle[2] && confirmed[2] != 0)
#endif
#ifdef WITNESS_ALL_FORKS /* every fork was entered, and all is over */
#define WITNESS (ever_entered == bit(FORKS) - 1 && created && entry == ABSENT && deaths + cuts == 0)
#endif
#ifdef WITNESS
#define WITNESSES true
#else
#define WITNESSES false
#define WITNESS false
#endif
