/* Options, mutants and witnesses of backward.pml; `spin -DNAME` or `spin -DNAME=value` sets one. */

/* ---- What the story contains ---- */

#ifndef WORKERS /* 2 or 3 */
#define WORKERS 3
#endif
#ifndef CALLS /* calls in all, 2 to 4 */
#define CALLS 3
#endif
#ifndef CONTEXTS /* 2: worker 1 has a context of its own too */
#define CONTEXTS 1
#endif
#ifndef PASSES /* backward passes, at most 2 */
#define PASSES 1
#endif
#ifndef DETACHED /* 1: functions answer before the calls that they made, and leave work behind that goes on */
#define DETACHED 0
#endif
#ifndef QUEUES /* 1: requests wait for room */
#define QUEUES 0
#endif
#ifndef SELF_CALLS /* 1: workers may call themselves too */
#define SELF_CALLS 0
#endif
#ifndef PLAIN /* 1: a message may have no differentiable tensors */
#define PLAIN 0
#endif
#ifndef INDEPENDENT /* 1: a message's tensors may depend on nothing that was received */
#define INDEPENDENT 0
#endif
#ifndef SHARED /* 1: functions of one worker use what others there have received */
#define SHARED 0
#endif
#ifndef UNKNOWN /* hops whose lineage is not known: 0 none, 1 all, 2 any */
#define UNKNOWN 0
#endif
#ifndef LATE_BYTES /* 1: the tensors of a gradient may come after later messages of its sender */
#define LATE_BYTES 0
#endif
#ifndef DEATHS /* workers that die */
#define DEATHS 0
#endif
#ifndef CUTS /* pairs of living workers that take each other for dead */
#define CUTS 0
#endif
#ifndef TIMEOUTS /* calls that time out */
#define TIMEOUTS 0
#endif
#ifndef THROWS /* nodes that throw, or roots that lose patience */
#define THROWS 0
#endif
#ifndef WIRE /* messages under way from one worker to another */
#define WIRE (CALLS * (1 + DETACHED) + 3 * ROOM)
#endif
#if PASSES == 2
#define ROOM 2
#else
#define ROOM 1
#endif

/* ---- Mutants: each breaks one rule, and must make spin find an error ---- */

#ifndef MUTANT_CALLS_HOLD_NOTHING /* AH: a frame is over when its code is, whatever calls it has made */
#define MUTANT_CALLS_HOLD_NOTHING 0
#endif
#ifndef MUTANT_UNSTARTED_HOLDS_NOTHING /* AH: a request holds the context only once its function has started */
#define MUTANT_UNSTARTED_HOLDS_NOTHING 0
#endif
#ifndef MUTANT_PASS_HOLDS_NOTHING /* AH: a pass does not hold the context */
#define MUTANT_PASS_HOLDS_NOTHING 0
#endif
#ifndef MUTANT_KEPT_GRADIENT_HOLDS /* AH: a gradient that is kept for its Begin holds the context */
#define MUTANT_KEPT_GRADIENT_HOLDS 0
#endif
#ifndef MUTANT_ENDS_WITH_OBJECT /* AH: the creator tells the members when the Context object dies */
#define MUTANT_ENDS_WITH_OBJECT 0
#endif
#ifndef MUTANT_CREATOR_ENDS_EARLY /* AH: from then on it answers neither Ask nor Begin */
#define MUTANT_CREATOR_ENDS_EARLY 0
#endif
#ifndef MUTANT_RELEASED_BY_END /* AH: a member releases the context as soon as it hears of the end */
#define MUTANT_RELEASED_BY_END 0
#endif
#ifndef MUTANT_CREATORS_DEATH_IGNORED /* AH: a member does not take the creator's death for the end */
#define MUTANT_CREATORS_DEATH_IGNORED 0
#endif
#ifndef MUTANT_NO_OVER /* AO: no reply says `more` */
#define MUTANT_NO_OVER 0
#endif
#ifndef MUTANT_MORE_NOT_PASSED_ON /* AO: a reply says `more` for what its own function left behind, not for calls */
#define MUTANT_MORE_NOT_PASSED_ON 0
#endif
#ifndef MUTANT_REPLY_MAKES_CONTEXT /* AN: a late reply makes its context */
#define MUTANT_REPLY_MAKES_CONTEXT 0
#endif
#ifndef MUTANT_MEMBER_TOLD_ONCE /* AN: who makes a context again does not tell the creator again */
#define MUTANT_MEMBER_TOLD_ONCE 0
#endif
#ifndef MUTANT_MEMBER_UNTOLD /* AN: who was called by another than the creator does not tell it */
#define MUTANT_MEMBER_UNTOLD 0
#endif
#ifndef MUTANT_MEMBER_UNANSWERED /* AN: a creator does not answer Member for a context that has ended */
#define MUTANT_MEMBER_UNANSWERED 0
#endif
#ifndef MUTANT_CREATOR_MAKES_AGAIN /* AN: a late request makes the context at its creator */
#define MUTANT_CREATOR_MAKES_AGAIN 0
#endif
#ifndef MUTANT_CALLED_IS_NO_MEMBER /* AN: the creator does not count those it calls itself as members */
#define MUTANT_CALLED_IS_NO_MEMBER 0
#endif
#ifndef MUTANT_DEAD_CREATOR_JOINED /* AN: a context whose creator is dead is made like any other */
#define MUTANT_DEAD_CREATOR_JOINED 0
#endif
#ifndef MUTANT_UNMET_CREATOR_AWAITED /* AS: a creator with whom no session can be opened is not taken for dead */
#define MUTANT_UNMET_CREATOR_AWAITED 0
#endif
#ifndef MUTANT_QUEUED_HOLDS_NOTHING /* AQ: a request that waits for room does not keep its frame */
#define MUTANT_QUEUED_HOLDS_NOTHING 0
#endif
#ifndef MUTANT_UNKNOWN_ASK_DROPPED /* AX: Ask is not answered if the context or a hop is not known */
#define MUTANT_UNKNOWN_ASK_DROPPED 0
#endif
#ifndef MUTANT_UNKNOWN_BEGIN_DROPPED /* AX: the same of Begin */
#define MUTANT_UNKNOWN_BEGIN_DROPPED 0
#endif
#ifndef MUTANT_UNKNOWN_HOP_BEGUN /* AX: Begin is heeded although a hop is not known */
#define MUTANT_UNKNOWN_HOP_BEGUN 0
#endif
#ifndef MUTANT_UNKNOWN_GRADIENT_KEPT /* AX: a gradient is kept although the context is not known */
#define MUTANT_UNKNOWN_GRADIENT_KEPT 0
#endif
#ifndef MUTANT_OWN_HOP_NOT_WALKED /* B1: the root does not look what a hop of its own depends on, if the message did \
                                     not tell */
#define MUTANT_OWN_HOP_NOT_WALKED 0
#endif
#ifndef MUTANT_ANSWERS_NOT_AWAITED /* B1: the pass begins before all that were asked have answered */
#define MUTANT_ANSWERS_NOT_AWAITED 0
#endif
#ifndef MUTANT_BEGUN_WHILE_PLANNING /* B2: who is known to take part is told before the plan is complete */
#define MUTANT_BEGUN_WHILE_PLANNING 0
#endif
#ifndef MUTANT_EARLY_GRADIENT_DROPPED /* B3: a gradient that comes before Begin is dropped */
#define MUTANT_EARLY_GRADIENT_DROPPED 0
#endif
#ifndef MUTANT_UNNEEDED_HOP_NOT_AWAITED /* B3: done without the gradient of a hop that the engine has no use for */
#define MUTANT_UNNEEDED_HOP_NOT_AWAITED 0
#endif
#ifndef MUTANT_FAIL_AFTER_DONE_IGNORED /* B5: after its Done a participant does not heed Fail */
#define MUTANT_FAIL_AFTER_DONE_IGNORED 0
#endif
#ifndef MUTANT_FAILURE_KEPT_SECRET /* B5: the root does not tell the participants of a failure */
#define MUTANT_FAILURE_KEPT_SECRET 0
#endif
#ifndef MUTANT_DEAD_AWAITED /* B5: a participant waits for the gradient of one who is dead to it */
#define MUTANT_DEAD_AWAITED 0
#endif
#ifndef MUTANT_ROOTS_DEATH_IGNORED /* B5: a participant does not heed the root's death */
#define MUTANT_ROOTS_DEATH_IGNORED 0
#endif

/* ---- Each of them ---- */

#if WORKERS == 2
#define ON_EACH_WORKER(step) step(0) step(1)
#define ON_EACH_WORKER_WITH(step, one) step(one, 0) step(one, 1)
#else
#define ON_EACH_WORKER(step) step(0) step(1) step(2)
#define ON_EACH_WORKER_WITH(step, one) step(one, 0) step(one, 1) step(one, 2)
#endif
#if CALLS == 2
#define ON_EACH_CALL(step) step(0) step(1)
#define ON_EACH_HOP(step) step(0) step(1) step(2) step(3)
#elif CALLS == 3
#define ON_EACH_CALL(step) step(0) step(1) step(2)
#define ON_EACH_HOP(step) step(0) step(1) step(2) step(3) step(4) step(5)
#else
#define ON_EACH_CALL(step) step(0) step(1) step(2) step(3)
#define ON_EACH_HOP(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7)
#endif
#if CONTEXTS == 1
#define ON_EACH_FRAME(step) ON_EACH_CALL(step) step(main_of(0))
#define ON_EACH_CONTEXT_WITH(step, one) step(one, 0)
#else
#define ON_EACH_FRAME(step) ON_EACH_CALL(step) step(main_of(0)) step(main_of(1))
#define ON_EACH_CONTEXT_WITH(step, one) step(one, 0) step(one, 1)
#endif
#if PASSES == 2
#define ON_EACH_PASS_WITH(step, one) step(one, 0) step(one, 1)
#else
#define ON_EACH_PASS_WITH(step, one) step(one, 0)
#endif

/* ---- Situations that the search must reach (session_witnesses.h says why) ---- */

#ifdef WITNESS_EARLY_GRADIENT /* a gradient is kept for its Begin */
#define WITNESS (kept_at(0, 2) != 0)
#endif
#ifdef WITNESS_ASKED_AGAIN /* an answer leads to a further question, and the pass ends well */
#define WITNESS (asked_again && has(done_at[0], root[0]))
#endif
#ifdef WITNESS_LEFT_OUT /* a hop that no path leads to is left out of a pass that ends well */
#define WITNESS (left_out && has(done_at[0], root[0]))
#endif
#ifdef WITNESS_ROOT_ELSEWHERE /* a pass that another than the creator began takes in all workers, and ends well */
#define WITNESS (root[0] == 2 && participants[0] == (bit(0) | bit(1)) && has(done_at[0], 2))
#endif
#ifdef WITNESS_OWN_HOPS /* the root has hops to wait for itself, and the other two take part */
#define WITNESS \
  (passes == 1 && status_at(0, root[0]) == BEGUN && missing_at(0, root[0]) != 0 && participants[0] == (bit(1) | bit(2)))
#endif
#ifdef WITNESS_LEFT_BEHIND /* a pass ends well of what a function left behind, which is all that keeps the context */
#define WITNESS (frame[main_of(0)] == LEFT && frame[0] == RUNS_ON && root[0] == 1 && has(done_at[0], 1))
#endif
#ifdef WITNESS_MORE_ABOVE_MORE /* a reply says `more` because of a call whose reply did */
#define WITNESS (parent[1] == 0 && call[0] == ANSWERED && call[1] == ANSWERED && frame[0] == LEFT)
#endif
#ifdef WITNESS_TWO_ROOTS /* two passes, each with its own root, are under way at both */
#define WITNESS                                                                                                    \
  (status_at(0, 0) == BEGUN && status_at(0, 1) == BEGUN && status_at(1, 0) == BEGUN && status_at(1, 1) == BEGUN && \
   root[0] != root[1])
#endif
#ifdef WITNESS_MADE_AFTER_END /* a late request makes a context that has ended */
#define WITNESS (!knows(0, 0) && !gone[0] && knows(2, 0) && wire_to(0, 2)?[Member, _, _])
#endif
#ifdef WITNESS_REFUSED_CALL /* a late request comes to the creator */
#define WITNESS (wire_to(1, 0)?[Reply, _, REFUSED])
#endif
#ifdef WITNESS_QUEUED_OUTLIVES_CALL /* a request that still waits is all that keeps the context */
#define WITNESS (has(queued, 0) && call[0] == OVER && calls == 1 && frame[main_of(0)] == LEFT)
#endif
#ifdef WITNESS_BEGIN_WHEN_ENDING /* Begin comes to a context that is held, and ending */
#define WITNESS (has(ending[0], 1) && holds_at(1, 0) > 0 && wire_to(1, 2)?[Begin, _, _])
#endif
#ifdef WITNESS_FAIL_AFTER_DONE /* Fail comes to a participant that is done */
#define WITNESS (status_at(0, 1) == DONE && wire_to(1, 0)?[Fail, _, _])
#endif
#ifdef WITNESS_TOLD_LATE /* it comes to one that was done and has released the context */
#define WITNESS (has(told_late[0] & done_at[0], 1))
#endif
#ifdef WITNESS_ROOT_DIES /* the root is dead: one participant was done, and the other fails */
#define WITNESS (gone[0] && status_at(0, 1) == DONE && status_at(0, 2) == FAILED && root[0] == 0)
#endif
#ifdef WITNESS
#define WITNESSES true
#else
#define WITNESSES false
#define WITNESS false
#endif
