/* Options and mutants of session.pml; `spin -DNAME` or `spin -DNAME=value` sets one. */

/* ---- What the story contains ---- */

#ifndef MESSAGES /* ordinary messages that each side sends */
#define MESSAGES 2
#endif
#ifndef WINDOW /* S3: unacknowledged messages beyond which an ordinary one waits for room */
#define WINDOW 2
#endif
#ifndef UNREAD /* S3: messages read but not yet handled */
#define UNREAD 1
#endif
#ifndef WIRE /* frames under way in one direction of a link */
#define WIRE 3
#endif
#ifndef BREAKS /* times that the network breaks a link */
#define BREAKS 1
#endif
#ifndef HALF_OPEN /* 1: a break may be noticed by no one, and may lose what was under way */
#define HALF_OPEN 0
#endif
#ifndef ONE_WAY /* 1: a break may swallow one direction only */
#define ONE_WAY 0
#endif
#ifndef EARLY_TIMERS /* timers that run out too early; all others only when nothing else can happen */
#define EARLY_TIMERS 0
#endif
#ifndef FORGERIES /* times that a stranger dials with a Hello that cannot be true */
#define FORGERIES 0
#endif
#ifndef LINKS /* links that exist at once, dying ones included; 2 to 6 */
#define LINKS (2 + BREAKS + EARLY_TIMERS + FORGERIES)
#endif
#ifndef SUSPICIONS /* times that a side declares a living peer dead */
#define SUSPICIONS 0
#endif
#ifndef CRASHES /* processes that end without a word */
#define CRASHES 0
#endif
#ifndef LEAVERS /* sides that say goodbye: 1 is side 0, 2 is side 1, 3 is both */
#define LEAVERS 0
#endif
#ifndef BULK /* 1: the giver's message 1 has a large tensor, sent in chunks */
#define BULK 0
#endif
#ifndef SEGMENT /* 1: the giver lends a shared segment to its messages, whenever it is free */
#define SEGMENT 0
#endif
#ifndef LOST_DESCRIPTORS /* times that passing the segment's descriptor fails */
#define LOST_DESCRIPTORS 0
#endif
#ifndef GIVER /* the side that sends the bulk and lends the segment */
#define GIVER 0
#endif
#ifndef DIALS /* L1: after b disturbances there are at most b + DIALS more dials */
#define DIALS 2
#endif

/* ---- Mutants: each breaks one rule, and must make spin find an error ---- */

#ifndef MUTANT_COMPARE_HELD_LINKS /* L1: no top; ranks are compared with the links now held */
#define MUTANT_COMPARE_HELD_LINKS 0
#endif
#ifndef MUTANT_OWN_COUNTERS /* L1: a side counts its own attempts only */
#define MUTANT_OWN_COUNTERS 0
#endif
#ifndef MUTANT_DIAL_ON_DEMAND /* L1: a side with nothing to send does not dial */
#define MUTANT_DIAL_ON_DEMAND 0
#endif
#ifndef MUTANT_SAMPLE_LAST_READ /* L2: Hello says what was read, not what was handled */
#define MUTANT_SAMPLE_LAST_READ 0
#endif
#ifndef MUTANT_OLD_READER_GOES_ON /* L2: what was read from a stopped link is handled after the sample */
#define MUTANT_OLD_READER_GOES_ON 0
#endif
#ifndef MUTANT_DIAL_BEFORE_STOP /* L2: the old link is read on until the new one is there */
#define MUTANT_DIAL_BEFORE_STOP 0
#endif
#ifndef MUTANT_DIAL_OUTLIVES_ADOPTION /* L2: adopting the peer's link leaves one's own dial under way */
#define MUTANT_DIAL_OUTLIVES_ADOPTION 0
#endif
#ifndef MUTANT_NO_REFUSED /* L3: a dial whose rank is too low is closed without a word */
#define MUTANT_NO_REFUSED 0
#endif
#ifndef MUTANT_NO_FENCED /* L3: a dial from a dead peer is closed without a word */
#define MUTANT_NO_FENCED 0
#endif
#ifndef MUTANT_CHECK_AFTER_STOP /* L3: the link is stopped first, and then Hello's numbers are looked at */
#define MUTANT_CHECK_AFTER_STOP 0
#endif
#ifndef MUTANT_FORGERY_RAISES_TOP /* L3: top is raised by a Hello that cannot be true */
#define MUTANT_FORGERY_RAISES_TOP 0
#endif
#ifndef MUTANT_FORGERY_ENDS_SESSION /* L3: a Hello that cannot be true ends the session */
#define MUTANT_FORGERY_ENDS_SESSION 0
#endif
#ifndef MUTANT_FORGERY_BELIEVED /* L6, L7: Hello's numbers are not looked at */
#define MUTANT_FORGERY_BELIEVED 0
#endif
#ifndef MUTANT_CHECK_THEN_ADOPT /* L3: the rank is checked in one step, the link adopted in another */
#define MUTANT_CHECK_THEN_ADOPT 0
#endif
#ifndef MUTANT_DIALLER_SENDS_EARLY /* L4: the dialler sends messages right behind its Hello */
#define MUTANT_DIALLER_SENDS_EARLY 0
#endif
#ifndef MUTANT_REFUSED_RAISES_TOP /* L4: Refused raises top, instead of counting for the next dial only */
#define MUTANT_REFUSED_RAISES_TOP 0
#endif
#ifndef MUTANT_REFUSED_DIALS_AT_ONCE /* L4: after Refused the dialler does not wait for the peer's link */
#define MUTANT_REFUSED_DIALS_AT_ONCE 0
#endif
#ifndef MUTANT_REFUSED_WAITS_FOR_EVER /* L4: the wait after Refused has no timer */
#define MUTANT_REFUSED_WAITS_FOR_EVER 0
#endif
#ifndef MUTANT_OLD_LINK_COUNTS /* L5: the end of a replaced link is taken for the end of the current one */
#define MUTANT_OLD_LINK_COUNTS 0
#endif
#ifndef MUTANT_NO_SILENCE_TIMER /* L5: a silent link is not taken for broken */
#define MUTANT_NO_SILENCE_TIMER 0
#endif
#ifndef MUTANT_ACKNOWLEDGE_LAST_READ /* L6: messages are acknowledged when read, not when handled */
#define MUTANT_ACKNOWLEDGE_LAST_READ 0
#endif
#ifndef MUTANT_RESUME_AFTER_WRITTEN /* L6: sending goes on behind what was written to the old link */
#define MUTANT_RESUME_AFTER_WRITTEN 0
#endif
#ifndef MUTANT_BULK_NOT_LISTED /* L7: Hello does not list the unfinished bulk */
#define MUTANT_BULK_NOT_LISTED 0
#endif
#ifndef MUTANT_BULK_FROM_START /* L7: a listed bulk starts at 0 again */
#define MUTANT_BULK_FROM_START 0
#endif
#ifndef MUTANT_REFUSED_BULK_UNANSWERED /* L7: a bulk no longer wanted is not acknowledged as finished */
#define MUTANT_REFUSED_BULK_UNANSWERED 0
#endif
#ifndef MUTANT_REFUSAL_LOST_AT_ADOPTION /* L7: a bulk refused between Hello and adoption is not acknowledged */
#define MUTANT_REFUSAL_LOST_AT_ADOPTION 0
#endif
#ifndef MUTANT_DEATH_KEEPS_UNHANDLED /* L8: what was read before the death is handled after it */
#define MUTANT_DEATH_KEEPS_UNHANDLED 0
#endif
#ifndef MUTANT_DEATH_FORGOTTEN /* L8: the mark is not kept: a dead peer's dial is adopted */
#define MUTANT_DEATH_FORGOTTEN 0
#endif
#ifndef MUTANT_GOODBYE_NOT_AWAITED /* L9: the leaver ends once its goodbye is written */
#define MUTANT_GOODBYE_NOT_AWAITED 0
#endif
#ifndef MUTANT_GOODBYE_BEFORE_BYTES /* L9: the goodbye does not wait for the leaver's own bulks */
#define MUTANT_GOODBYE_BEFORE_BYTES 0
#endif
#ifndef MUTANT_SEGMENT_REUSED_AT_ACKNOWLEDGEMENT /* Segments: an acknowledgement counts as free */
#define MUTANT_SEGMENT_REUSED_AT_ACKNOWLEDGEMENT 0
#endif
#ifndef MUTANT_FREE_UNNUMBERED /* Segments: free is not a numbered message */
#define MUTANT_FREE_UNNUMBERED 0
#endif
#ifndef MUTANT_DESCRIPTOR_PASSED_ONCE /* Segments: the set of passed segments outlives its link */
#define MUTANT_DESCRIPTOR_PASSED_ONCE 0
#endif
#ifndef MUTANT_DISCARDED_DESCRIPTOR /* Segments: no descriptor is taken from a discarded message */
#define MUTANT_DISCARDED_DESCRIPTOR 0
#endif
