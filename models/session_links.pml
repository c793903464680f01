/* Links, for session.pml: what is written to one and read from it, and how the two sides agree on one (L1-L5). */

/* ---- Frames on a link ---- */

#define from(s, link)    wire[2 * (link) + (s)]
#define towards(s, link) wire[2 * (link) + 1 - (s)]
#define end_at(s, link)  end_state[2 * (link) + (s)]
#define swallowed_from(s, link) swallows[2 * (link) + (s)]
#define damaged(link)    (swallows[2 * (link)] || swallows[2 * (link) + 1])
#define works(link)      (!damaged(link) && end_at(0, link) != CLOSED && end_at(1, link) != CLOSED)

/* What is written to a broken link, or to one that the peer has closed, vanishes without a sign. */
#define vanishes(s, link) (swallowed_from(s, link) || end_at(1 - s, link) == CLOSED)
#define can_write(s)      (current[s] != NO_LINK && (vanishes(s, current[s]) || len(from(s, current[s])) < WIRE))

inline write(s, link, frame, a, b, c, d) {
  if
  :: vanishes(s, link) -> skip
  :: else -> claim(Model, len(from(s, link)) < WIRE); from(s, link)!frame, a, b, c, d
  fi
}

inline lose_frames(channel) {
  do
  :: nempty(channel) -> channel?kind, _, _, _, _
  :: empty(channel) -> break
  od
}

/* The peer may still read what is under way to it, and then sees the end. */
inline close_end(s, link) {
  end_at(s, link) = CLOSED;
  lose_frames(towards(s, link));
  if
  :: end_at(1 - s, link) == CLOSED ->
     lose_frames(from(s, link));
     swallowed_from(0, link) = false; swallowed_from(1, link) = false; noticeable[link] = false; link_rank[link] = 0
  :: else
  fi
}

/* Everything up to the end was read, or the break shows. */
#define sees_end(s, link) (noticeable[link] || (empty(towards(s, link)) && end_at(1 - s, link) == CLOSED && \
                                                !swallowed_from(1 - s, link)))

/* A step for each link, in a list of steps. */
#if LINKS == 2
#define ON_EACH_LINK(step) step(0) step(1)
#elif LINKS == 3
#define ON_EACH_LINK(step) step(0) step(1) step(2)
#elif LINKS == 4
#define ON_EACH_LINK(step) step(0) step(1) step(2) step(3)
#elif LINKS == 5
#define ON_EACH_LINK(step) step(0) step(1) step(2) step(3) step(4)
#elif LINKS == 6
#define ON_EACH_LINK(step) step(0) step(1) step(2) step(3) step(4) step(5)
#endif

/* ---- Stopping, sampling, resuming (L2, L6) ---- */

/* Before it samples, a side may handle what it has read completely, or drop it. Here it is dropped: handling it first
   is the story in which it was handled just before this step. */
inline drop_unhandled(s) {
  do
  :: nempty(unhandled[s]) -> unhandled[s]?kind, _, _, _
  :: empty(unhandled[s]) -> break
  od
}

inline close_current(s) {
  when(current[s] != NO_LINK, close_end(s, current[s]); current[s] = NO_LINK)
}

inline stop_current(s) {
  close_current(s);
  unless_mutant(OLD_READER_GOES_ON, drop_unhandled(s))
}

inline stop_dialling(s) {
  when(dialling[s] != NO_LINK, close_end(s, dialling[s]); dialling[s] = NO_LINK)
}

/* What s says in its Hello. */
inline sample(s) {
  hello_last = (MUTANT_SAMPLE_LAST_READ -> last_read[s] : handled[s]);
  sample_cargo(s)
}

/* s adopts the link; hello_* is the peer's Hello. */
inline resume(s, link) {
  current[s] = link;
  waiting[s] = false;
  claim(L3, current[1 - s] == NO_LINK || current[1 - s] == link);          /* one link at a time */
  claim(L6, hello_last >= acknowledged[s] && hello_last <= made[s]);       /* else it were a gap */
  acknowledged[s] = hello_last;
  if
  :: MUTANT_RESUME_AFTER_WRITTEN || (MUTANT_DIALLER_SENDS_EARLY && written[s] > hello_last) -> skip
  :: else -> written[s] = hello_last
  fi;
  handled_told[s] = handled[s];
  resume_cargo(s)
}

/* ---- Dialling and accepting (L1-L4) ---- */

inline raise_top(s, rank) {
  top[s] = rank;
  when(told[s] <= attempt_of(top[s]), told[s] = 0)        /* it says no more than top does */
}

inline next_attempt(s) {
  if
  :: MUTANT_OWN_COUNTERS -> own_attempts[s]++; attempt = own_attempts[s]
  :: else -> attempt = 1 + (told[s] > attempt_of(top[s]) -> told[s] : attempt_of(top[s]))
  fi
}

/* The last condition holds but in mutants that dial for ever. */
#define may_dial(s) (lives(s) && dialling[s] == NO_LINK && !waiting[s] && \
                     (current[s] == NO_LINK || (MUTANT_DIAL_BEFORE_STOP && damaged(current[s]))) && \
                     (made[s] > acknowledged[s] || !MUTANT_DIAL_ON_DEMAND) && dials < 16)

/* Connecting and sending Hello are one step: a connection without its Hello does nothing to the peer. */
inline dial(s) {
  d_step {
    may_dial(s) && !gone[1 - s] ->
    slot = 0;
    do
    :: slot < LINKS && (end_at(0, slot) != CLOSED || end_at(1, slot) != CLOSED) -> slot++
    :: else -> break
    od;
    claim(Model, slot < LINKS);
    dials++;
    claim(L1, dials <= disturbances + DIALS);               /* few dials, then both have the same link */
    next_attempt(s);
    when(rank_of(attempt, s) > top[s], raise_top(s, rank_of(attempt, s)));
    link_rank[slot] = rank_of(attempt, s);
    dialling[s] = slot;
    end_at(s, slot) = OPEN;
    end_at(1 - s, slot) = KNOCKING;
    sample(s);
    printf("side %d dials link %d: Hello{rank %d, last handled %d}\n", s, slot, link_rank[slot], hello_last);
    write(s, slot, Hello, link_rank[slot], hello_last, hello_bulk, hello_segment);
    when(MUTANT_DIALLER_SENDS_EARLY, written[s] = acknowledged[s])
  }
}

inline find_address_refusing(s) {
  d_step {
    may_dial(s) && gone[1 - s] ->
    printf("side %d finds the address refusing\n", s);
    declare(s, DIED)
  }
}

#define fences(s)  (verdict[s] != ALIVE && !MUTANT_DEATH_FORGOTTEN)
#define too_low(s) (MUTANT_COMPARE_HELD_LINKS -> (current[s] != NO_LINK && hello_rank <= link_rank[current[s]]) || \
                                                 (dialling[s] != NO_LINK && hello_rank <= link_rank[dialling[s]]) : \
                                                 hello_rank <= top[s])

/* A stranger's numbers: no honest side says them. */
#define FORGED 200

/* L6, L7: what this Hello says was handled and has come was never written, or was acknowledged already. */
inline check_numbers(s) {
  cannot_be = (hello_last < acknowledged[s] || hello_last > written[s]);
  check_bulk(s)
}

/* A Hello in a connection of a stranger's, who does not wait for the answer. Its rank is that of the peer's next. */
inline forge_hello(s, last, bulk) {
  d_step {
    forgeries > 0 && !gone[s] && (BULK || (bulk) != FORGED) ->
    forgeries--;
    slot = 0;
    do
    :: slot < LINKS && (end_at(0, slot) != CLOSED || end_at(1, slot) != CLOSED) -> slot++
    :: else -> break
    od;
    claim(Model, slot < LINKS);
    printf("a stranger dials side %d on link %d\n", s, slot);
    link_rank[slot] = rank_of(attempt_of(top[s]) + 1, 1 - s);
    end_at(s, slot) = KNOCKING;
    from(1 - s, slot)!Hello, link_rank[slot], last, bulk, 0
  }
}

inline accept(s, link) {
  d_step {
    end_at(s, link) == KNOCKING && nempty(towards(s, link)) && half_adopted[s] == NO_LINK ->
    towards(s, link)?kind, hello_rank, hello_last, hello_bulk, hello_segment;
    check_numbers(s);
    if
    :: fences(s) ->
       printf("side %d answers link %d: Fenced\n", s, link);
       unless_mutant(NO_FENCED, write(s, link, Fenced, 0, 0, 0, 0));
       close_end(s, link)
    :: !fences(s) && too_low(s) ->
       printf("side %d answers link %d: Refused, top is %d\n", s, link, top[s]);
       /* A dial that its dialler still wants is never refused for the sake of a broken link. */
       claim(L3, !works(link) || current[s] == NO_LINK || works(current[s]));
       unless_mutant(NO_REFUSED, write(s, link, Refused, attempt_of(top[s]), 0, 0, 0));
       close_end(s, link)
    :: !fences(s) && !too_low(s) && !MUTANT_FORGERY_BELIEVED && cannot_be ->
       printf("side %d answers link %d: Fenced, because its Hello cannot be true\n", s, link);
       claim(L6, hello_last == FORGED || hello_bulk == FORGED);            /* an honest one can */
       when(MUTANT_FORGERY_RAISES_TOP, raise_top(s, hello_rank));
       when(MUTANT_CHECK_AFTER_STOP, stop_current(s); stop_dialling(s));
       when(MUTANT_FORGERY_ENDS_SESSION, declare(s, DIED));
       write(s, link, Fenced, 0, 0, 0, 0);
       close_end(s, link);
       turned_away = true
    :: else ->
       when(hello_rank > top[s], raise_top(s, hello_rank));
       if
       :: MUTANT_CHECK_THEN_ADOPT -> half_adopted[s] = link; half_adopted_last[s] = hello_last
       :: else -> adopt_accepted(s, link)
       fi
    fi
  }
}

inline adopt_accepted(s, link) {
  printf("side %d adopts link %d (peer's last handled %d) and answers Hello{last handled %d}\n",
         s, link, hello_last, handled[s]);
  old_end[s] = (MUTANT_OLD_LINK_COUNTS && current[s] != NO_LINK);
  stop_current(s);
  unless_mutant(DIAL_OUTLIVES_ADOPTION, stop_dialling(s));
  end_at(s, link) = OPEN;
  resume(s, link);
  sample(s);
  write(s, link, Hello, 0, hello_last, hello_bulk, hello_segment)
}

/* Only a mutant gets here. */
inline complete_adoption(s) {
  d_step {
    half_adopted[s] != NO_LINK ->
    slot = half_adopted[s];
    half_adopted[s] = NO_LINK;
    hello_last = half_adopted_last[s];
    hello_bulk = 0;
    hello_segment = 0;
    adopt_accepted(s, slot)
  }
}

inline read_answer(s) {
  d_step {
    dialling[s] != NO_LINK && nempty(towards(s, dialling[s])) ->
    slot = dialling[s];
    towards(s, slot)?kind, attempt, hello_last, hello_bulk, hello_segment;
    if
    :: kind == Hello ->
       printf("side %d has the answer on link %d: Hello{last handled %d}\n", s, slot, hello_last);
       dialling[s] = NO_LINK;
       when(MUTANT_DIAL_BEFORE_STOP || MUTANT_DIAL_OUTLIVES_ADOPTION, stop_current(s));
       claim(L2, current[s] == NO_LINK);
       check_numbers(s);
       claim(L6, !cannot_be);
       resume(s, slot)
    :: kind == Refused ->
       printf("side %d has the answer on link %d: Refused{%d}\n", s, slot, attempt);
       stop_dialling(s);
       waiting[s] = !MUTANT_REFUSED_DIALS_AT_ONCE;
       if
       :: MUTANT_REFUSED_RAISES_TOP && rank_of(attempt, 1 - s) > top[s] -> raise_top(s, rank_of(attempt, 1 - s))
       :: !MUTANT_REFUSED_RAISES_TOP && attempt > attempt_of(top[s]) && attempt > told[s] -> told[s] = attempt
       :: else
       fi
    :: kind == Fenced ->
       printf("side %d has the answer on link %d: Fenced\n", s, slot);
       declare(s, DIED)
    fi
  }
}

/* ---- Noticing (L5) ---- */

inline notice_link_ended(s) {
  d_step {
    current[s] != NO_LINK && sees_end(s, current[s]) ->
    printf("side %d sees the end of link %d\n", s, current[s]);
    stop_current(s)
  }
}

inline notice_dial_ended(s) {
  d_step {
    dialling[s] != NO_LINK && sees_end(s, dialling[s]) ->
    printf("side %d sees the end of its dial, link %d\n", s, dialling[s]);
    stop_dialling(s)
  }
}

/* Only a mutant gets here. */
inline mistake_old_end(s) {
  d_step {
    old_end[s] && current[s] != NO_LINK ->
    printf("side %d takes the end of an old link for that of link %d\n", s, current[s]);
    old_end[s] = false;
    stop_current(s)
  }
}

inline notice_knock_ended(s, link) {
  d_step {
    end_at(s, link) == KNOCKING && sees_end(s, link) && half_adopted[s] != link ->
    close_end(s, link)
  }
}
