/* The owner's steps: who holds what lives there, and when it is deleted. Part of rref.pml, which has the state. */

#define fetches_that_keep (MUTANT_FETCH_KEEPS_NO_ENTRY -> 0 : fetches)
#define own_message_holds (!MUTANT_OWN_MESSAGE_HOLDS_NOTHING && len(wire_to(OWNER, OWNER)) > 0)
#define needed            (entered != 0 || owner_handle || own_message_holds || fetches_that_keep != 0)

/* R2. Of an empty entry nothing stays either: if its creation comes later, it makes a new one. */
inline sweep() {
  if
  :: entry == CREATED && !needed ->
     printf("the owner deletes the value\n");
     check_no_one_needs_it();
     claim(R3, fetches == 0);
     entry = ABSENT
  :: entry == EMPTY && !needed && !MUTANT_EMPTY_ENTRY_KEPT ->
     printf("the owner deletes the empty entry\n");
     claim(R3, fetches == 0);
     empty_deleted = WITNESSES;
     entry = ABSENT
  :: else
  fi
}

/* A handle has died. As long as there are forks or handles, the mark would change nothing. */
inline mark_owner() { when(entry != ABSENT && !needed, owner_marked = true) }

inline tidy_owner() {
  d_step {
    owner_marked ->
    owner_marked = false;
    sweep()
  }
}

#define creation_never_comes \
  ((created && !MUTANT_UNKNOWN_ALWAYS_WAITS) || MUTANT_UNKNOWN_NEVER_WAITS || \
   (is_dead(OWNER, CREATOR) && !MUTANT_DEAD_CREATOR_AWAITED))

/* RW, RC: afterwards there is an entry, or the reference is lost. */
inline mention() {
  when(entry == ABSENT && !creation_never_comes,
       printf("the owner makes an empty entry\n");
       entry = EMPTY;
       when(!MUTANT_CREATOR_NOT_MET, knows_creator = true))
}

#define ANSWER_FETCH(p) when(has(fetches, p), send(OWNER, p, answer, 0));
inline answer_fetches(answer) {
  ON_EACH_USER(ANSWER_FETCH)
  fetches = 0
}

inline take_creation() {
  claim(Surprise, !created);
  created = true;
  entry = CREATED;
  add(entered, 0);
  add(ever_entered, 0);
  send(OWNER, CREATOR, Made, 0);
  answer_fetches(Value)
}

inline take_adopt(p) {
  mention();
  if
  :: entry == ABSENT ->
     check_loss(p, bit(what) | forks[p] | in_doubt[p]);
     add(ever_refused, what);
     send(OWNER, p, NotEntered, what)
  :: else ->
     add(entered, what);
     add(ever_entered, what);
     send(OWNER, p, Entered, what)
  fi;
  parents[what] = 0
}

inline take_fetch(p) {
  mention();
  if
  :: entry == ABSENT -> check_loss(p, what); send(OWNER, p, LostValue, 0)
  :: entry == EMPTY -> add(fetches, p)
  :: entry == CREATED -> send(OWNER, p, Value, 0); mark_owner()
  fi
}

inline take_id(p, held) {
  mention();
  if
  :: entry == ABSENT -> check_loss(p, held)
  :: else -> owner_handle = true
  fi
}

inline owner_receives(p) {
  d_step {
    !gone[OWNER] && nempty(wire_to(OWNER, p)) ->
    wire_to(OWNER, p)?kind, what;
    printf("the owner receives %e(%d) from %d\n", kind, what, p);
    if
    :: kind == Creation -> take_creation()
    :: kind == Adopt -> take_adopt(p)
    :: kind == Fetch -> take_fetch(p)
    :: kind == LostFetch -> check_loss(p, what); send(OWNER, p, LostValue, 0)
    :: kind == Id && !MUTANT_RESOLVED_LATE -> take_id(p, what)
    :: kind == Id && MUTANT_RESOLVED_LATE -> claim(Model, late_from == 0); late_from = p; late_forks = what
    :: kind == Release ->
       claim(Surprise, (what & ~seen_by_owner) == 0);
       entered = entered & ~what;
       forget_released(what);
       sweep()
    fi
  }
}

/* What no one will ask for any more is set to 0, so that equal situations are equal states: the holder of a released
   fork, once its giver does not wait for it. */
inline forget_released(set) {
  each = 1;
  do
  :: each < next_fork -> when(has(set, each) && giver[each] == OWNER, holder[each] = 0); each++
  :: else -> break
  od
}
/* The same, when the giver waits no more. */
inline forget_given(number) {
  when(has(seen_by_owner, number) || !has(forks[holder[number]] | in_doubt[holder[number]], number),
       giver[number] = OWNER;
       parents[number] = 0;
       when(has(seen_by_owner, number) && !has(entered, number), holder[number] = 0))
}

/* Only a mutant gets here. */
inline resolve_late() {
  d_step {
    late_from != 0 ->
    printf("the owner looks up the id that %d sent\n", late_from);
    take_id(late_from, late_forks);
    late_from = 0;
    late_forks = 0
  }
}

/* RG: the fork is entered in the step that queues the message. */
inline owner_gives(q) {
  d_step {
    owner_handle && next_fork < FORKS && (!is_dead(OWNER, q) || MUTANT_FORK_FOR_THE_DEAD) ->
    printf("the owner gives fork %d to %d\n", next_fork, q);
    giver[next_fork] = OWNER;
    holder[next_fork] = q;
    add(entered, next_fork);
    add(ever_entered, next_fork);
    send(OWNER, q, Given, next_fork);
    next_fork++
  }
}

/* As the argument of a call of its own. The message holds the entry (RQ). */
inline owner_gives_itself() {
  d_step {
    SELF_GIVES && owner_handle && ids_left > 0 ->
    printf("the owner gives the reference to itself\n");
    ids_left--;
    send(OWNER, OWNER, Id, 0)
  }
}

inline owner_receives_its_own() {
  d_step {
    nempty(wire_to(OWNER, OWNER)) ->
    wire_to(OWNER, OWNER)?kind, what;
    claim(R1, entry != ABSENT || (!created && broken(CREATOR, OWNER)));
    when(entry != ABSENT, owner_handle = true)
  }
}

inline drop_owner_handle() {
  d_step {
    owner_handle ->
    printf("the owner drops its handle\n");
    owner_handle = false;
    mark_owner()
  }
}

inline owner_hears_of_death(p) {
  d_step {
    !gone[OWNER] && has(news[OWNER], p) && (p != CREATOR || knows_creator) ->
    printf("the owner hears that %d is dead\n", p);
    remove(news[OWNER], p);
    add(dead_to[OWNER], p);
    lose_messages(OWNER, p);
    if
    :: p == CREATOR && entry == EMPTY && !MUTANT_EMPTY_ENTRIES_STAY ->     /* RC */
       printf("the owner fails the empty entry\n");
       check_no_one_needs_it();
       answer_fetches(LostValue);
       entered = 0;
       owner_handle = false;
       entry = ABSENT
    :: else ->
       each = 0;
       do
       :: each < next_fork -> when(holder[each] == p, remove(entered, each)); each++
       :: else -> break
       od;
       sweep()
    fi
  }
}
