/* The steps of those who hold what lives elsewhere. Part of rref.pml, which has the state. */

/* A handle or a pin is gone. If others remain, theirs will be the mark that counts. */
inline mark(p) { when(known[p] && !holds(p) && pins[p] == 0, marked[p] = true) }

/* Releases go together, some time after the last handle has died. */
inline tidy(p) {
  d_step {
    marked[p] ->
    marked[p] = false;
    if
    :: known[p] && !holds(p) && pins[p] == 0 ->
       printf("%d releases forks %d\n", p, forks[p]);
       when(forks[p] != 0, send(p, OWNER, Release, forks[p]));
       forget(p)
    :: else
    fi
  }
}

inline forget(p) {
  known[p] = false;
  forks[p] = 0;
  confirmed[p] = 0;
  in_doubt[p] = 0;
  lost[p] = false
}

/* It may have waited for very long: meanwhile an empty entry was there only as long as it was needed (R2). */
inline creation_leaves() {
  d_step {
    creation_queued ->
    claim(R2, entry != EMPTY || needed || owner_marked);
    printf("the creation leaves the creator's queue\n");
    creation_queued = false;
    send(CREATOR, OWNER, Creation, 0);
    mark(CREATOR)
  }
}

/* Only a mutant gets here. */
inline creation_is_withdrawn() {
  d_step {
    MUTANT_CREATION_WITHDRAWN && creation_queued ->
    printf("the creation is withdrawn\n");
    creation_queued = false;
    mark(CREATOR)
  }
}

/* A request: it joins the queue, with its section written, and leaves it later, behind earlier requests. Adopt, Release
   and replies pass it. */
inline fetch(p) {
  d_step {
    handle[p] && fetches_left > 0 && !awaits_value[p] && !is_dead(p, OWNER) ->
    printf("%d fetches\n", p);
    fetches_left--;
    awaits_value[p] = true;
    fetch_queued[p] = (lost[p] -> LostFetch : Fetch);
    fetch_forks[p] = forks[p] | in_doubt[p]
  }
}

inline fetch_leaves(p) {
  d_step {
    fetch_queued[p] != 0 && !(p == CREATOR && creation_queued) ->
    what = fetch_queued[p];
    fetch_queued[p] = 0;
    if
    :: what == Fetch -> send(p, OWNER, Fetch, fetch_forks[p])
    :: else -> send(p, OWNER, LostFetch, fetch_forks[p])
    fi;
    fetch_forks[p] = 0;
    mark(p)
  }
}

/* In a reply, which waits for nothing: the creator's may pass the creation. */
inline give_to_owner(p) {
  d_step {
    handle[p] && !lost[p] && ids_left > 0 && !is_dead(p, OWNER) ->
    printf("%d gives the reference to its owner\n", p);
    ids_left--;
    send(p, OWNER, Id, forks[p] | in_doubt[p])
  }
}

/* RG: the pin is set in the step that queues the message. One whose owner is dead can only pass on that it is lost. */
inline give(p, q) {
  d_step {
    handle[p] && next_fork < FORKS && (p != q || SELF_GIVES) && (!is_dead(p, q) || MUTANT_PIN_FOR_THE_DEAD) ->
    if
    :: lost[p] || is_dead(p, OWNER) ->
       printf("%d gives the reference to %d as lost\n", p, q);
       send(p, q, Lost, 0)
    :: else ->
       printf("%d gives fork %d to %d\n", p, next_fork, q);
       giver[next_fork] = p;
       holder[next_fork] = q;
       parents[next_fork] = forks[p];
       when(!MUTANT_NO_PIN && !(p == q && MUTANT_NO_PIN_TO_ONESELF), add(pins[p], next_fork));
       send(p, q, Child, next_fork)
    fi;
    next_fork++
  }
}

inline drop(p) {
  d_step {
    handle[p] ->
    printf("%d drops its last handle\n", p);
    handle[p] = false;
    mark(p)
  }
}

#define may_short_cut(p) (confirmed[p] != 0 || (forks[p] != 0 && MUTANT_UNCONFIRMED_SHORT_CUT))

inline take_child(p, from) {
  if
  :: from == p ->                                        /* nothing to adopt: it was there all the time */
     claim(R1, !fresh || is_dead(p, OWNER));
     remove(pins[p], what);
     forget_given(what)
  :: from != p && is_dead(p, OWNER) -> when(!MUTANT_SILENT_AFTER_OWNERS_DEATH, send(p, from, Adopted, what))
  :: from != p && !is_dead(p, OWNER) && may_short_cut(p) ->
     when(confirmed[p] == 0, add(in_doubt[p], what));
     short_cut[p] = WITNESSES;
     send(p, from, Adopted, what)
  :: else ->
     add(forks[p], what);
     add(adopting[p], what);
     send(p, OWNER, Adopt, what);
     when(MUTANT_ADOPTED_BEFORE_ANSWER, send(p, from, Adopted, what))
  fi
}

/* RG: at once, and before anything later of that session, whether a function keeps the reference or the message is
   discarded (late, cancelled, for no such function). */
inline take_reference(p, from, kept) {
  fresh = !known[p];
  known[p] = true;
  if
  :: kind == Lost -> lost[p] = lost[p] || fresh; given_as_lost[p] = WITNESSES
  :: kind == Given -> add(forks[p], what); add(confirmed[p], what)
  :: kind == Child -> take_child(p, from)
  fi;
  when(kind != Lost && from != p && !MUTANT_LOST_STICKS, lost[p] = false);
  if
  :: kept -> handle[p] = true
  :: else -> mark(p)
  fi
}

/* RN: entered or not. */
inline take_answer(p) {
  claim(Surprise, has(adopting[p], what));
  remove(adopting[p], what);
  if
  :: kind == Entered && has(forks[p], what) -> add(confirmed[p], what)
  :: kind == Entered && !has(forks[p], what)             /* released meanwhile */
  :: kind == NotEntered -> remove(forks[p], what)
  fi;
  when(!(kind == NotEntered && MUTANT_SILENT_WHEN_LOST) && !MUTANT_ADOPTED_BEFORE_ANSWER,
       send(p, giver[what], Adopted, what))
}

inline take_adopted(p) {
  claim(Surprise, has(pins[p], what) || is_dead(p, OWNER) || MUTANT_NO_PIN);
  remove(pins[p], what);
  forget_given(what);
  mark(p)
}

#define brings_reference(p, from) \
  (wire_to(p, from)?[Given, _] || wire_to(p, from)?[Child, _] || wire_to(p, from)?[Lost, _])

inline receive(p, from, kept) {
  d_step {
    !gone[p] && nempty(wire_to(p, from)) && (kept || brings_reference(p, from)) ->
    wire_to(p, from)?kind, what;
    printf("%d receives %e(%d) from %d, keeps %d\n", p, kind, what, from, kept);
    if
    :: kind == Given || kind == Child || kind == Lost ->
       when(kept || !MUTANT_DISCARDED_UNHANDLED, take_reference(p, from, kept))
    :: kind == Entered || kind == NotEntered -> take_answer(p)
    :: kind == Adopted -> take_adopted(p)
    :: kind == Made -> when(has(forks[p], 0), add(confirmed[p], 0))
    :: kind == Value || kind == LostValue -> claim(Surprise, awaits_value[p]); awaits_value[p] = false
    fi
  }
}

/* RN: whoever gave what this owner will not enter any more need not keep it. */
inline lose_owner(p) {
  when(p == CREATOR, creation_queued = false);
  fetch_queued[p] = 0;
  fetch_forks[p] = 0;
  awaits_value[p] = false;                               /* OwnerGoneError */
  forks[p] = 0;
  confirmed[p] = 0;
  in_doubt[p] = 0;
  pins[p] = 0;
  each = 1;
  do
  :: each < next_fork ->
     when(has(adopting[p], each) && !MUTANT_SILENT_AT_OWNERS_DEATH, send(p, giver[each], Adopted, each));
     each++
  :: else -> break
  od;
  adopting[p] = 0
}

inline lose_child(p, q) {
  each = 1;
  do
  :: each < next_fork -> when(giver[each] == p && holder[each] == q, remove(pins[p], each)); each++
  :: else -> break
  od
}

inline hear_of_death(p, q) {
  d_step {
    !gone[p] && has(news[p], q) ->
    printf("%d hears that %d is dead\n", p, q);
    remove(news[p], q);
    add(dead_to[p], q);
    lose_messages(p, q);
    if
    :: q == OWNER -> lose_owner(p)
    :: else -> lose_child(p, q)
    fi;
    mark(p)
  }
}
