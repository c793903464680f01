/* Situations that session.pml must be able to reach: a search that finds no error proves nothing about a situation that
   never comes up. `spin -DWITNESS_NAME` makes reaching one an error, and check expects that error. */

#ifdef WITNESS_BOTH_DIAL /* two dials cross */
#define WITNESS (dialling[0] != NO_LINK && dialling[1] != NO_LINK)
#endif
#ifdef WITNESS_GIVEN_UP_DIAL /* a side adopts a dial that its dialler has given up, while the next one knocks */
#define WITNESS (current[0] != NO_LINK && end_at(1, current[0]) == CLOSED && dialling[1] != NO_LINK)
#endif
#ifdef WITNESS_HIGHER_SIDE_REFUSED /* the side with the higher incarnation is the one that waits */
#define WITNESS (waiting[1])
#endif
#ifdef WITNESS_REFUSAL_TEACHES /* a Refused names an attempt above one's own top */
#define WITNESS (told[0] > 0)
#endif
#ifdef WITNESS_HALF_OPEN /* both sides trust a link that carries nothing */
#define WITNESS (silent(0) && silent(1) && current[0] == current[1] && made[0] > acknowledged[0])
#endif
#ifdef WITNESS_ONE_WAY /* a link that both sides have carries one direction only */
#define WITNESS (current[0] != NO_LINK && current[0] == current[1] && silent(0) && !silent(1) && handled[1] == 1)
#endif
#ifdef WITNESS_FORGERY_ON_A_HEALTHY_LINK /* a stranger is turned away, and the link of before carries a message */
#define WITNESS                                                                                           \
  (turned_away && disturbances == 0 && dials == 1 && current[0] != NO_LINK && current[0] == current[1] && \
   acknowledged[0] == MESSAGES && forgeries == 0)
#endif
#ifdef WITNESS_HANDLED_UNKNOWN /* no link, and a message was handled that its sender thinks may be lost */
#define WITNESS (current[0] == NO_LINK && current[1] == NO_LINK && handled[1] > acknowledged[0])
#endif
#ifdef WITNESS_ALL_AFTER_BREAKS /* every break was used, and everything arrived */
#define WITNESS                                                                                        \
  (disturbances == BREAKS && current[0] != NO_LINK && current[0] == current[1] && works(current[0]) && \
   acknowledged[0] == MESSAGES && acknowledged[1] == MESSAGES)
#endif
#ifdef WITNESS_SUSPECT_IS_TOLD /* a living side learns from Fenced that it was declared dead */
#define WITNESS (suspicions == 0 && verdict[0] == DIED && verdict[1] == DIED && handled[0] > 0 && handled[1] > 0)
#endif
#ifdef WITNESS_LEAVER_FENCED /* the acknowledgement of a goodbye is lost, and the leaver learns from Fenced */
#define WITNESS (gone[1] && goodbye[1] > 0 && acknowledged[1] < goodbye[1] && verdict[0] == LEFT)
#endif
#ifdef WITNESS_BOTH_LEFT /* two that leave at once, neither of which waits for the other */
#define WITNESS (gone[0] && gone[1] && goodbye[0] > 0 && goodbye[1] > 0)
#endif
#ifdef WITNESS_PATIENCE_LOST /* a leaver gives up, and the other sees it die */
#define WITNESS (gone[1] && goodbye[1] > 0 && verdict[0] == DIED)
#endif
#ifdef WITNESS_BULK_CUT /* a bulk is cut in the middle and goes on elsewhere */
#define WITNESS (disturbances == 1 && bulk_arrived == 1 && current[0] == current[1] && works(current[0]))
#endif
#ifdef WITNESS_SEGMENT_LENT_AGAIN /* the segment came back and is lent again, over a new link, without its descriptor \
                                   */
#define WITNESS (disturbances == 1 && carrier > 1 && passed && reading == carrier)
#endif
#ifdef WITNESS_STREAMED /* a message that began as a segment ends as a stream */
#define WITNESS (streamed && handled[TAKER] == carrier)
#endif

#ifndef WITNESS
#define WITNESS false
#endif
