/* Calls, what they keep, and the end of contexts. Part of backward.pml, which has the state. */

/* ---- Holds (AH) ---- */

inline hold(w, c) { holds_at(w, c)++ }
inline let_go(w, c) {
  claim(Model, holds_at(w, c) > 0);
  holds_at(w, c)--
}

/* ---- Calls ---- */

/* The tensors of a message: none is differentiable; they depend on nothing that came from elsewhere; or on all that the
   frame has received. */
#define PLAIN_ONES       0
#define INDEPENDENT_ONES 1
#define DEPENDENT_ONES   2
#define has_received(f)  (SHARED -> at_hand[place[f]] : received[f])

/* Then hops that are made make no difference, and none are. */
#define no_pass_comes (passes == PASSES)

inline choose_tensors(f) {
  if
  :: context[f] != 0 || no_pass_comes || PLAIN -> tensors = PLAIN_ONES
  :: context[f] == 0 && !no_pass_comes && INDEPENDENT && has_received(f) != 0 -> tensors = INDEPENDENT_ONES
  :: context[f] == 0 && !no_pass_comes -> tensors = DEPENDENT_ONES
  fi;
  if
  :: UNKNOWN != 1 || tensors != DEPENDENT_ONES || has_received(f) == 0 -> lineage = true
  :: UNKNOWN != 0 && tensors == DEPENDENT_ONES && has_received(f) != 0 -> lineage = false
  fi
}

/* AQ: send node and section are made in the step that queues the message. */
inline board(w, f, h) {
  claim(AH, knows(w, context[f]));
  if
  :: tensors == PLAIN_ONES
  :: else ->
     add(made, h);
     add(sends[w], h);
     reach[h] = (tensors == DEPENDENT_ONES -> has_received(f) : 0);
     when(!lineage, add(open, h))
  fi
}

/* Without a context of its own worker 1 is like worker 2: it is called first. */
#define in_turn(q) ((q) < 2 || calls > 0 || CONTEXTS == 2)
#define may_call(f, q) \
  (calls < CALLS && acts(f) && !is_dead(place[f], q) && (place[f] != q || SELF_CALLS) && in_turn(q))

inline make_call(f, q) {
  d_step {
    number = calls;
    calls++;
    printf("frame %d at %d makes call %d to %d, tensors %d, lineage %d\n", f, place[f], number, q, tensors, lineage);
    call[number] = AWAITED;
    parent[number] = f;
    caller[number] = place[f];
    place[number] = q;
    context[number] = context[f];
    awaits[f]++;
    keeps[f]++;
    board(place[f], f, request_hop(number));
    when(place[f] == creator(context[f]) && place[f] != q && !MUTANT_CALLED_IS_NO_MEMBER, add(members[context[f]], q));
    if
    :: QUEUES -> add(queued, number)
    :: else -> send(place[f], q, Request, number, 0)
    fi
  }
}

/* AH, AO: a frame is over when its code has ended and its calls are over. */
inline settle(f) {
  if
  :: frame[f] == LEFT && (keeps[f] == 0 || MUTANT_CALLS_HOLD_NOTHING) ->
     printf("frame %d is over\n", f);
     frame[f] = ENDED;
     let_go(place[f], context[f]);
     when((f) < CALLS && has(said_more, f), remove(said_more, f); send(callee(f), caller[f], Over, f, 0))
  :: else
  fi
}
inline keep_no_longer(f) {
  keeps[f]--;
  settle(f)
}

/* Requests wait for room; all other messages pass them. AQ: what waits keeps the frame that it came from. */
inline leave_queue(i) {
  d_step {
    printf("request %d leaves the queue\n", i);
    remove(queued, i);
    send(caller[i], callee(i), Request, i, 0);
    when(call[i] == OVER && !MUTANT_QUEUED_HOLDS_NOTHING, keep_no_longer(parent[i]))
  }
}

/* By a reply, Over, a timeout or a death. */
inline end_call(i) {
  when(call[i] == AWAITED, awaits[parent[i]]--);
  call[i] = OVER;
  when(!has(queued, i) || MUTANT_QUEUED_HOLDS_NOTHING, keep_no_longer(parent[i]))
}

/* The function goes on: it is only told that no one waits. */
inline time_out(i) {
  d_step {
    printf("call %d times out\n", i);
    timeouts--;
    disturbed = true;
    end_call(i)
  }
}

/* AN: each making tells the creator anew. AS: that opens a session, so that the creator's death is heard of. */
inline make_context(w, q, c) {
  printf("%d makes context %d\n", w, c);
  claim(AN, w != creator(c));
  add(known[c], w);
  if
  :: q == creator(c) || w == creator(c)
  :: q != creator(c) && is_dead(w, creator(c)) -> when(!MUTANT_DEAD_CREATOR_JOINED, add(ending[c], w))
  :: else ->
     if
     :: MUTANT_MEMBER_UNTOLD || (MUTANT_MEMBER_TOLD_ONCE && has(told[c], w))
     :: MUTANT_UNMET_CREATOR_AWAITED && gone[creator(c)] && !has(sessions[w], creator(c))
     :: else -> send(w, creator(c), Member, c, 0)
     fi;
     when(MUTANT_MEMBER_TOLD_ONCE, add(told[c], w))
  fi
}

inline begin_function(i) {
  frame[i] = RUNS;
  hold(place[i], context[i])
}

/* AN: only a request makes a context, and not at its creator: there it has ended. */
inline take_request(w, q) {
  if
  :: knows(w, context[which])
  :: !knows(w, context[which]) && w == creator(context[which]) && !MUTANT_CREATOR_MAKES_AGAIN
  :: else -> make_context(w, q, context[which])
  fi;
  if
  :: knows(w, context[which]) ->
     when(has(made, request_hop(which)), receive_tensors(w, q, which, request_hop(which)));
     if
     :: MUTANT_UNSTARTED_HOLDS_NOTHING -> frame[which] = UNSTARTED
     :: else -> begin_function(which)
     fi
  :: else ->
     printf("%d refuses call %d: its context has ended\n", w, which);
     claim(AH, disturbed);
     frame[which] = ENDED;
     send(w, q, Reply, which, REFUSED)
  fi
}

/* Only a mutant gets here. */
inline start_function(i) {
  d_step {
    claim(AH, knows(place[i], context[i]));
    begin_function(i)
  }
}

/* A recv node is made, and its tensors are the frame's. */
inline receive_tensors(w, q, f, h) {
  claim(A1, disturbed || has(sends[q], h));
  when(!no_pass_comes, add(received[f], h); when(SHARED, add(at_hand[w], h)))
}

/* AN: a late reply is dropped, whatever is in it. */
inline take_reply(w, q) {
  if
  :: call[which] == AWAITED ->
     claim(AN, knows(w, context[which]));
     when(what != REFUSED && has(made, reply_hop(which)) && frame[parent[which]] < LEFT,
          receive_tensors(w, q, parent[which], reply_hop(which)));
     if
     :: what == SAYS_MORE -> call[which] = ANSWERED; awaits[parent[which]]--
     :: else -> end_call(which)
     fi
  :: else ->
     when(MUTANT_REPLY_MAKES_CONTEXT && !knows(w, context[which]), make_context(w, q, context[which]))
  fi
}

/* A function that is not detached waits for its calls. */
#define may_answer(i) (frame[i] == RUNS && !in_pass(i) && (DETACHED || awaits[i] == 0))

inline choose_going_on() {
  if
  :: goes_on = false
  :: DETACHED -> goes_on = true
  fi
}

#define is_more(i) ((goes_on || (keeps[i] > 0 && !MUTANT_MORE_NOT_PASSED_ON)) && !MUTANT_NO_OVER)

/* AO: `more`, if anything goes on under the frame. */
inline answer(i) {
  d_step {
    more = is_more(i);
    printf("%d answers call %d, goes on %d, more %d, tensors %d, lineage %d\n", callee(i), i, goes_on, more, tensors,
           lineage);
    board(callee(i), i, reply_hop(i));
    frame[i] = (goes_on -> RUNS_ON : LEFT);
    when(!goes_on, received[i] = 0);
    when(more, add(said_more, i));
    send(callee(i), caller[i], Reply, i, (more -> SAYS_MORE : 0));
    settle(i)
  }
}

/* What a function has left behind ends; a program drops its Context object, at any time. */
#define may_stop(f) ((frame[f] == RUNS_ON && !in_pass(f)) || ((f) >= CALLS && frame[f] == RUNS))

inline stop(f) {
  d_step {
    printf("frame %d stops\n", f);
    frame[f] = LEFT;
    received[f] = 0;
    when(MUTANT_ENDS_WITH_OBJECT && (f) >= CALLS, tell_end(context[f]));
    settle(f)
  }
}

/* ---- Members, and the end ---- */

inline take_member(w, q) {
  if
  :: knows(w, which) -> add(members[which], q)
  :: else -> when(!MUTANT_MEMBER_UNANSWERED, send(w, q, End, which, 0))
  fi
}

inline take_end(w) {
  when(knows(w, which) && w != creator(which),
       add(ending[which], w);
       when(MUTANT_RELEASED_BY_END, forget(w, which)))
}

inline tell_end(c) {
  for (other : 0 .. WORKERS - 1) {
    when(has(members[c], other), send(creator(c), other, End, c, 0))
  }
  members[c] = 0
}

#define kept_holds(w) (MUTANT_KEPT_GRADIENT_HOLDS && (kept_at(0, w) | kept_at(ROOM - 1, w)) != 0)
#define may_release(w, c) \
  (knows(w, c) && holds_at(w, c) == 0 && (w == creator(c) || has(ending[c], w)) && !kept_holds(w))

/* Nothing has gone wrong: all that ran under it is over. */
inline check_all_over(c) {
  for (each : 0 .. CALLS - 1) {
    if
    :: each < calls && context[each] == c -> claim(AH, call[each] == OVER && frame[each] == ENDED)
    :: else
    fi
  }
  for (pass : 0 .. ROOM - 1) {
    for (other : 0 .. WORKERS - 1) {
      claim(AH, c != 0 || !in_progress(pass, other))
    }
  }
}

inline release(w, c) {
  d_step {
    printf("%d releases context %d\n", w, c);
    if
    :: w == creator(c) ->
       when(!disturbed, check_all_over(c));
       tell_end(c)
    :: else
    fi;
    forget(w, c)
  }
}

inline forget(w, c) {
  remove(known[c], w);
  remove(ending[c], w);
  if
  :: c == 0 ->
     sends[w] = 0;
     at_hand[w] = 0;
     remove(poisoned, w);
     for (pass : 0 .. ROOM - 1) {
       when(!in_progress(pass, w), status_at(pass, w) = NONE);
       kept_at(pass, w) = 0
     }
  :: else
  fi
}

/* ---- A death ---- */

inline lose_calls(w, q) {
  for (each : 0 .. CALLS - 1) {
    if
    :: each < calls && caller[each] == w && callee(each) == q ->
       if
       :: has(queued, each) ->
          remove(queued, each);
          when(call[each] == OVER && !MUTANT_QUEUED_HOLDS_NOTHING, keep_no_longer(parent[each]))
       :: else
       fi;
       when(call[each] != OVER, end_call(each))
    :: else
    fi
  }
}

inline lose_contexts(w, q) {
  for (each : 0 .. CONTEXTS - 1) {
    when(w == creator(each), remove(members[each], q));
    when(q == creator(each) && knows(w, each) && !MUTANT_CREATORS_DEATH_IGNORED, add(ending[each], w))
  }
}
