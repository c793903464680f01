/* Backward passes: plan, begin, gradients, and how they end. Part of backward.pml, which has the state. */

inline hold_for_pass(w) { when(!MUTANT_PASS_HOLDS_NOTHING, hold(w, 0)) }
inline let_go_for_pass(w) { when(!MUTANT_PASS_HOLDS_NOTHING, let_go(w, 0)) }

/* What no one will ask for any more is set to 0, so that equal situations are equal states. */
inline clear_part(p, w) {
  missing_at(p, w) = 0;
  due_at(p, w) = 0;
  ready_at(p, w) = 0
}
inline clear_plan(p) {
  root_frame[p] = NOBODY;
  starts[p] = 0;
  plan[p] = 0;
  expanded[p] = 0;
  asked[p] = 0;
  not_done[p] = 0;
  sent_back[p] = 0;
  arrived[p] = 0
}

/* The same, when the last pass begins: what none of them can reach. */
inline forget_unreached() {
  each = 0;
  for (pass : 0 .. ROOM - 1) {
    find_all_reached(starts[pass] | plan[pass]);
    each = each | (in_progress(pass, root[pass]) || has(done_at[pass], root[pass]) -> set : 255)
  }
  for (hop : 0 .. HOPS - 1) {
    when(!has(each, hop), reach[hop] = 0)
  }
  left_out = WITNESSES && (made & ~each) != 0;
  made = made & each;
  open = open & each;
  for (other : 0 .. WORKERS - 1) {
    sends[other] = sends[other] & each;
    at_hand[other] = 0
  }
  for (other : 0 .. FRAMES - 1) {
    received[other] = 0
  }
}

/* ---- Plan ---- */

#define may_start_pass(f) \
  (passes < PASSES && (frame[f] == RUNS || frame[f] == RUNS_ON) && context[f] == 0 && has_received(f) != 0 && \
   !has(ending[0], place[f]) && !has(poisoned, place[f]))

inline start_pass(f) {
  d_step {
    number = passes;
    printf("a pass begins in frame %d at %d\n", f, place[f]);
    passes++;
    root[number] = place[f];
    root_frame[number] = f;
    starts[number] = has_received(f);
    plan[number] = has_received(f);
    status_at(number, place[f]) = PLANS;
    hold_for_pass(place[f]);
    when(no_pass_comes, forget_unreached());
    extend_plan(number, place[f])
  }
}

/* What is known here: of a hop that was sent from here by a walk, of others by their lineage. Hops whose lineage is not
   known are asked about, all at once, and when all have answered it goes on. */
inline extend_plan(p, w) {
  do
  :: before = expanded[p];
     for (hop : 0 .. HOPS - 1) {
       if
       :: has(plan[p] & ~expanded[p], hop) && (sender(hop) == w || !has(open, hop)) ->
          add(expanded[p], hop);
          when(!(MUTANT_OWN_HOP_NOT_WALKED && has(open, hop)), plan[p] = plan[p] | reach[hop])
       :: else
       fi
     }
     if
     :: expanded[p] == before -> break
     :: else
     fi
  od;
  trouble = false;
  for (other : 0 .. WORKERS - 1) {
    hops_sent_by(other, plan[p] & ~expanded[p]);
    if
    :: set != 0 ->
       trouble = trouble || is_dead(w, other);
       expanded[p] = expanded[p] | set;
       add(asked[p], other);
       send(w, other, Ask, p, set)
    :: else
    fi
  }
  if
  :: trouble -> fail_at_root(p, w)
  :: !trouble && (asked[p] == 0 || MUTANT_ANSWERS_NOT_AWAITED) -> begin_pass(p, w)
  :: else -> when(MUTANT_BEGUN_WHILE_PLANNING, tell_participants(p, w))
  fi
}

inline hops_sent_by(w, among) {
  set = 0;
  for (hop : 0 .. HOPS - 1) {
    when(has(among, hop) && sender(hop) == w, add(set, hop))
  }
}

#define lacks(w, hops) (!knows(w, 0) || ((hops) & ~sends[w]) != 0)
#define ends_early(w)  (MUTANT_CREATOR_ENDS_EARLY && w == creator(0) && frame[main_of(0)] != RUNS)

/* AX: it is always answered. */
inline take_ask(w, q) {
  if
  :: lacks(w, what) || ends_early(w) ->
     when(!MUTANT_UNKNOWN_ASK_DROPPED, send(w, q, Fail, which, 0))
  :: else ->
     find_reached(what);
     send(w, q, Reached, which, set)
  fi
}

inline find_reached(hops) {
  set = 0;
  for (hop : 0 .. HOPS - 1) {
    when(has(hops, hop), set = set | reach[hop])
  }
}

inline take_reached(w, q) {
  if
  :: status_at(which, w) == PLANS && has(asked[which], q) ->
     remove(asked[which], q);
     plan[which] = plan[which] | what;
     when(asked[which] == 0, extend_plan(which, w); asked_again = WITNESSES && (asked_again || asked[which] != 0))
  :: else
  fi
}

/* ---- Begin ---- */

/* B1: all that a path leads to. */
inline find_all_reached(hops) {
  set = hops;
  do
  :: before = set;
     for (hop : 0 .. HOPS - 1) {
       when(has(set, hop), set = set | reach[hop])
     }
     if
     :: set == before -> break
     :: else
     fi
  od
}

inline tell_participants(p, w) {
  for (other : 0 .. WORKERS - 1) {
    hops_sent_by(other, plan[p]);
    when(other != w && set != 0, send(w, other, Begin, p, set))
  }
}

inline begin_pass(p, w) {
  printf("the plan is %d\n", plan[p]);
  find_all_reached(starts[p]);
  claim(B1, plan[p] == set);
  trouble = false;
  for (other : 0 .. WORKERS - 1) {
    hops_sent_by(other, plan[p]);
    if
    :: other == w -> missing_at(p, w) = set
    :: other != w && set != 0 -> add(participants[p], other); trouble = trouble || is_dead(w, other)
    :: else
    fi
  }
  if
  :: (missing_at(p, w) & ~sends[w]) != 0 -> fail_at_root(p, w)
  :: else ->
     status_at(p, w) = BEGUN;
     not_done[p] = participants[p];
     if
     :: trouble -> fail_at_root(p, w)
     :: else ->
        tell_participants(p, w);
        find_reached(missing_at(p, w));
        due_at(p, w) = set | starts[p];
        find_ready(p, w);
        starts[p] = 0;
        expanded[p] = 0
     fi
  fi
}

/* A recv node runs when each node that leads to it has: when all gradients have come that it depends on. */
inline find_ready(p, w) {
  find_reached(missing_at(p, w));
  ready_at(p, w) = due_at(p, w) & ~set
}

#define unneeded(h) (MUTANT_UNNEEDED_HOP_NOT_AWAITED && reach[h] == 0)

/* AX, and AH: under an ending context no pass begins. */
inline take_begin(w, q) {
  if
  :: has(ending[0], w) || ends_early(w) || (lacks(w, what) && !(knows(w, 0) && MUTANT_UNKNOWN_HOP_BEGUN)) ->
     when(!MUTANT_UNKNOWN_BEGIN_DROPPED, send(w, q, Fail, which, 0))
  :: else ->
     claim(B2, status_at(which, root[which]) != PLANS);
     claim(B1, (kept_at(which, w) & ~what) == 0);
     status_at(which, w) = BEGUN;
     hold_for_pass(w);
     find_reached(what);
     due_at(which, w) = set;
     missing_at(which, w) = what & ~kept_at(which, w);
     kept_at(which, w) = 0;
     find_ready(which, w);
     trouble = false;
     for (hop : 0 .. HOPS - 1) {
       trouble = trouble || (has(missing_at(which, w), hop) && is_dead(w, receiver(hop)));
       when(unneeded(hop), remove(missing_at(which, w), hop))
     }
     when(trouble && !MUTANT_DEAD_AWAITED, fail_at_participant(which, w))
  fi
}

/* ---- Gradients ---- */

/* Within one worker nothing is sent. Sending to one who is known to be dead fails the pass. */
inline send_gradient(p, h) {
  d_step {
    to = sender(h);
    from = receiver(h);
    printf("%d sends back the gradient of hop %d, pass %d\n", from, h, p);
    when(in_progress(p, root[p]), claim(B3, !has(sent_back[p], h)); add(sent_back[p], h));
    remove(due_at(p, from), h);
    remove(ready_at(p, from), h);
    if
    :: to == from -> deliver(p, from, h)
    :: to != from && is_dead(from, to) -> fail_here(p, from)
    :: else -> send(from, to, Gradient, p, h)
    fi
  }
}

inline note_arrival(p, h) {
  when(in_progress(p, root[p]), claim(B3, !has(arrived[p], h)); add(arrived[p], h))
}

inline deliver(p, w, h) {
  claim(B3, has(missing_at(p, w), h) || unneeded(h));
  note_arrival(p, h);
  remove(missing_at(p, w), h);
  find_ready(p, w)
}

/* S4: the bytes of its tensors may follow later than other messages. */
inline take_gradient(w) {
  if
  :: LATE_BYTES -> add(landing_at(which, w), what)
  :: else -> accept_gradient(which, w, what)
  fi
}

inline land_gradient(p, h) {
  d_step {
    to = sender(h);
    printf("the gradient of hop %d, pass %d, has landed at %d\n", h, p, to);
    remove(landing_at(p, to), h);
    accept_gradient(p, to, h)
  }
}

/* AX: what is not known here, or has ended here, is dropped. */
#define is_dropped(p, w, h)                                                                                     \
  ((!knows(w, 0) && !MUTANT_UNKNOWN_GRADIENT_KEPT) || (knows(w, 0) && !has(sends[w], h)) || status_at(p, w) == DONE || \
   status_at(p, w) == FAILED)

/* One that comes before Begin is kept. */
inline accept_gradient(p, w, h) {
  if
  :: is_dropped(p, w, h)
  :: !is_dropped(p, w, h) && status_at(p, w) == BEGUN -> deliver(p, w, h)
  :: else ->
     claim(B1, w != root[p]);
     when(!MUTANT_EARLY_GRADIENT_DROPPED, note_arrival(p, h); add(kept_at(p, w), h))
  fi
}

/* ---- The end ---- */

/* The engine is through, and a gradient has come for each planned hop, needed or not. */
#define is_finished(p, w) \
  (status_at(p, w) == BEGUN && due_at(p, w) == 0 && missing_at(p, w) == 0 && (w != root[p] || not_done[p] == 0))

inline finish(p, w) {
  d_step {
    printf("%d is done with pass %d\n", w, p);
    status_at(p, w) = DONE;
    add(done_at[p], w);
    clear_part(p, w);
    let_go_for_pass(w);
    if
    :: w == root[p] ->
       claim(B3, sent_back[p] == plan[p] && arrived[p] == plan[p]);
       claim(B5, (participants[p] & ~done_at[p]) == 0);
       clear_plan(p)
    :: else -> send(w, root[p], Done, p, 0)
    fi
  }
}

inline end_badly(p, w) {
  printf("pass %d fails at %d\n", p, w);
  when(in_progress(p, w), let_go_for_pass(w));
  status_at(p, w) = FAILED;
  remove(done_at[p], w);
  add(failed_at[p], w);
  clear_part(p, w)
}

/* B5: all who may have begun are told. Before that nothing has been touched. */
inline fail_at_root(p, w) {
  when(status_at(p, w) == BEGUN && !MUTANT_FAILURE_KEPT_SECRET,
       add(poisoned, w);
       for (other : 0 .. WORKERS - 1) {
         when(has(participants[p], other), send(w, other, Fail, p, 0))
       });
  end_badly(p, w);
  clear_plan(p)
}

inline fail_at_participant(p, w) {
  add(poisoned, w);
  end_badly(p, w);
  send(w, root[p], Fail, p, 0)
}

inline fail_here(p, w) {
  if
  :: w == root[p] -> fail_at_root(p, w)
  :: else -> fail_at_participant(p, w)
  fi
}

/* A node throws, or the root loses patience. */
inline throw(p, w) {
  d_step {
    printf("pass %d throws at %d\n", p, w);
    throws--;
    disturbed = true;
    fail_here(p, w)
  }
}

inline take_fail(w) {
  if
  :: w == root[which] ->
     claim(B5, !has(done_at[which], w));
     when(in_progress(which, w), fail_at_root(which, w))
  :: else ->
     when(knows(w, 0), add(poisoned, w));
     if
     :: status_at(which, w) == NONE -> add(told_late[which], w)
     :: status_at(which, w) == BEGUN || (status_at(which, w) == DONE && !MUTANT_FAIL_AFTER_DONE_IGNORED) ->
        end_badly(which, w)
     :: else
     fi
  fi
}

inline waits_for(p, w, q) {
  trouble = false;
  for (hop : 0 .. HOPS - 1) {
    trouble = trouble || (has(missing_at(p, w), hop) && receiver(hop) == q)
  }
}

inline lose_passes(w, q) {
  for (pass : 0 .. ROOM - 1) {
    if
    :: pass < passes ->
       waits_for(pass, w, q);
       for (hop : 0 .. HOPS - 1) {
         when(has(landing_at(pass, w), hop) && receiver(hop) == q, remove(landing_at(pass, w), hop))
       }
       if
       :: w == root[pass] ->
          when((status_at(pass, w) == PLANS && has(asked[pass], q)) ||
               (status_at(pass, w) == BEGUN && has(participants[pass], q)),
               fail_at_root(pass, w))
       :: w != root[pass] && q == root[pass] && !MUTANT_ROOTS_DEATH_IGNORED ->
          kept_at(pass, w) = 0;
          when(status_at(pass, w) == BEGUN, add(poisoned, w); end_badly(pass, w))
       :: else -> when(status_at(pass, w) == BEGUN && trouble && !MUTANT_DEAD_AWAITED, fail_at_participant(pass, w))
       fi
    :: else
    fi
  }
}
