/* Contexts and backward passes: calls under a context build a graph over several workers, passes run over it, and the
   context ends.

   Under a context each request and each reply is a hop: a send node at its sender, a recv node at its receiver. A pass
   begins at one worker, its root, which finds all hops that the pass has to go through, tells their senders, and
   decides how it ends. The context ends when nothing holds it at its creator; then all who know it release it.
   Sessions deliver in order, and announce a death once (S1, S2: session.pml); they are the wires here. What is claimed:
   - A1: where there is a recv node there is a send node;
   - A3: at the end nothing is left, anywhere;
   - AH: what runs under a context has it; and as long as nothing goes wrong, the context does not end before all that
     runs under it is over: no call is refused, no pass fails;
   - AN: a creator never makes its own context again, and who gets a reply in time has its context;
   - B1: a hop is planned exactly if a path leads to it from a root;
   - B2: no worker begins before the plan is complete;
   - B3: in a pass that ends well, each planned hop got exactly one gradient;
   - B5: no one waits for ever, and as long as the root lives, all who began end as it does.

   To be read from top to bottom, and each file where it is included: state; wires; calls and contexts
   (backward_contexts.pml); passes (backward_passes.pml); messages; failures; how a story ends; the processes. Each
   thing that can happen is an `inline` with one indivisible step; a process only chooses what happens, and to whom.

   Options, and the mutants that show each rule to be needed, are in backward_options.h; README.md has the table. */

#include "notation.h"
#include "backward_options.h"

/* Witness: see session_witnesses.h. Model: nothing about contexts; a bound of the model is too small. */
hidden byte A1 = 1, A3 = 2, AH = 3, AN = 4, B1 = 5, B2 = 6, B3 = 7, B5 = 8, Witness = 9, Model = 10;

/* ---- State ---- */

/* Over{call}; Reply{call, flags}; Member and End{context}; of a pass: Ask, Reached and Begin{pass, hops},
   Gradient{pass, hop}, Done and Fail{pass}. */
mtype = { Request, Reply, Over, Member, End, Ask, Reached, Begin, Gradient, Done, Fail }
chan wire[WORKERS * WORKERS] = [WIRE] of { mtype, byte, byte };
#define wire_to(to, from) wire[(from) * WORKERS + (to)]
#define SAYS_MORE 1
#define REFUSED   2
byte under_way;                 /* messages on all wires */

/* What runs under a context is a frame: frame i is the function of call i, frame main_of(c) the program that has made
   context c. A frame is there as long as its code runs, or a call that it has made is not over. */
#define FRAMES     (CALLS + CONTEXTS)
#define main_of(c) (CALLS + (c))
#define creator(c) (c)          /* context c is that of worker c */
#define ABSENT     0
#define RUNS       1            /* may call and begin passes; a function has not answered */
#define RUNS_ON    2            /* has answered, and what it left behind may do the same */
#define LEFT       3            /* its code has ended */
#define ENDED      4
#define UNSTARTED  5            /* only in a mutant */
byte frame[FRAMES];
byte place[FRAMES];             /* where it runs */
byte context[FRAMES];
byte received[FRAMES];          /* hops whose tensors it has */
byte awaits[FRAMES];            /* how many of its calls are not answered */
byte keeps[FRAMES];             /* how many of its calls are not over */

#define AWAITED  1
#define ANSWERED 2              /* with `more`: Over will follow (AO) */
#define OVER     3
byte calls;                     /* how many were made */
byte call[CALLS];
byte parent[CALLS];             /* the frame that has made it */
byte caller[CALLS];             /* where that is */
#define callee(i) place[i]
byte queued;                    /* calls whose requests wait for room */
byte said_more;                 /* calls whose replies said so */

/* Hops. Passes run under context 0, and so hops are made only there. */
#define HOPS           (2 * CALLS)
#define request_hop(i) (2 * (i))
#define reply_hop(i)   (2 * (i) + 1)
#define sender(hop)    ((hop) % 2 == 0 -> caller[(hop) / 2] : callee((hop) / 2))
#define receiver(hop)  ((hop) % 2 == 0 -> callee((hop) / 2) : caller[(hop) / 2])
byte made;                      /* those that there are */
byte reach[HOPS];               /* what its tensors depend on at the sender: hops that were received there */
byte open;                      /* those without lineage: who wants to know what they depend on has to ask the sender */

/* Contexts. */
byte known[CONTEXTS];           /* the workers that have it */
byte ending[CONTEXTS];          /* those that have heard of its end, or of its creator's death */
byte members[CONTEXTS];         /* at the creator: those that are to be told of the end */
byte holds[CONTEXTS * WORKERS]; /* how many things hold it at a worker (AH) */
#define holds_at(w, c) holds[(c) * WORKERS + (w)]
byte sends[WORKERS];            /* send nodes of context 0 */
byte at_hand[WORKERS];          /* SHARED: hops whose tensors a function may have put aside */
byte poisoned;                  /* workers where a pass over context 0 has failed */

/* Passes. What one worker has of a pass: */
#define NONE   0
#define PLANS  1                /* at the root */
#define BEGUN  2
#define DONE   3
#define FAILED 4
byte status[ROOM * WORKERS];
byte missing[ROOM * WORKERS];   /* hops planned here whose gradients have not come */
byte kept[ROOM * WORKERS];      /* hops whose gradients came before Begin */
byte landing[ROOM * WORKERS];   /* hops whose gradients are coming in (S4) */
byte due[ROOM * WORKERS];       /* hops received here whose gradients are to be sent back */
byte ready[ROOM * WORKERS];     /* those of them that wait for no other gradient */
#define status_at(p, w)  status[(p) * WORKERS + (w)]
#define missing_at(p, w) missing[(p) * WORKERS + (w)]
#define kept_at(p, w)    kept[(p) * WORKERS + (w)]
#define landing_at(p, w) landing[(p) * WORKERS + (w)]
#define due_at(p, w)     due[(p) * WORKERS + (w)]
#define ready_at(p, w)   ready[(p) * WORKERS + (w)]
#define in_progress(p, w) (status_at(p, w) == PLANS || status_at(p, w) == BEGUN)
/* What its root has: */
#define NOBODY 9
byte passes;                    /* how many were begun */
byte root[ROOM];
byte root_frame[ROOM] = NOBODY; /* that has begun it, and waits for its end */
byte starts[ROOM];              /* hops that the roots depend on */
byte plan[ROOM];
byte expanded[ROOM];            /* hops of the plan that are in it with what they depend on, or were asked about */
byte asked[ROOM];               /* workers that have not answered */
byte participants[ROOM];
byte not_done[ROOM];

/* Failures. */
bool gone[WORKERS];
byte sessions[WORKERS];         /* the workers that w has, or had, a session with: of their death it hears */
byte dead_to[WORKERS];          /* the workers that w holds for dead, for its life */
byte cut_from[WORKERS];         /* living workers that hold w for dead, or will */
byte deaths = DEATHS, cuts = CUTS, timeouts = TIMEOUTS, throws = THROWS;

/* For the claims only. */
bool disturbed;                 /* something went wrong */
byte sent_back[ROOM], arrived[ROOM];                     /* hops whose gradients left, and came */
byte done_at[ROOM], failed_at[ROOM];                     /* workers where the pass has ended so */
byte told_late[ROOM];           /* workers that had not begun, or had released the context since, when Fail came */
bool asked_again, left_out;     /* only witnesses use these */
byte told[CONTEXTS];            /* workers that have sent Member: a mutant sends it once */

/* Scratch, without meaning between two steps. What is chosen, before a step, no step changes: going back to another
   choice, spin would not know. */
hidden byte chosen_worker, chosen_peer, chosen_context, chosen_frame, chosen_call, chosen_pass, chosen_hop;
hidden byte tensors, lineage, goes_on;
hidden mtype kind;
hidden byte which, what, to, from, number, more, set, before, trouble;
hidden byte hop, other, each, pass;

#define is_dead(w, q)     has(dead_to[w], q)
#define unreachable(w, q) (gone[q] || is_dead(w, q) || is_dead(q, w))
#define knows(w, c)       has(known[c], w)
#define in_pass(f)        (root_frame[0] == (f) || root_frame[ROOM - 1] == (f))
#define acts(f)           ((frame[f] == RUNS || frame[f] == RUNS_ON) && !in_pass(f))

/* ---- Wires ---- */

/* Opens a session, if there is none. What is sent to one who is gone, or holds the sender for dead, vanishes. */
inline send(w, q, message, first, second) {
  when(DEATHS + CUTS > 0, add(sessions[w], q));
  if
  :: unreachable(w, q)
  :: else ->
     when(DEATHS + CUTS > 0, add(sessions[q], w));
     claim(Model, nfull(wire_to(q, w)));
     wire_to(q, w)!message, first, second;
     under_way++
  fi
}

inline lose_messages(w, q) {
  do
  :: nempty(wire_to(w, q)) -> wire_to(w, q)?kind, which, what; under_way--
  :: empty(wire_to(w, q)) -> break
  od
}

#include "backward_contexts.pml"
#include "backward_passes.pml"

/* ---- Messages ---- */

inline receive(w, q) {
  d_step {
    wire_to(w, q)?kind, which, what;
    under_way--;
    printf("%d receives %e(%d, %d) from %d\n", w, kind, which, what, q);
    if
    :: kind == Request -> take_request(w, q)
    :: kind == Reply -> take_reply(w, q)
    :: kind == Over -> when(call[which] == ANSWERED, end_call(which))
    :: kind == Member -> take_member(w, q)
    :: kind == End -> take_end(w)
    :: kind == Ask -> take_ask(w, q)
    :: kind == Reached -> take_reached(w, q)
    :: kind == Begin -> take_begin(w, q)
    :: kind == Gradient -> take_gradient(w)
    :: kind == Done -> when(status_at(which, w) == BEGUN, remove(not_done[which], q))
    :: kind == Fail -> take_fail(w)
    fi
  }
}

/* ---- Failures ---- */

/* What it has sent may still arrive, until its death is heard of. */
inline die(w) {
  d_step {
    printf("%d dies\n", w);
    deaths--;
    disturbed = true;
    gone[w] = true;
    for (other : 0 .. WORKERS - 1) {
      lose_messages(w, other)
    }
    for (each : 0 .. FRAMES - 1) {
      when(place[each] == w,
           frame[each] = (frame[each] == ABSENT -> ABSENT : ENDED);
           received[each] = 0;
           awaits[each] = 0;
           keeps[each] = 0)
    }
    for (each : 0 .. CALLS - 1) {
      when(each < calls && caller[each] == w, call[each] = OVER; remove(queued, each))
    }
    for (each : 0 .. CONTEXTS - 1) {
      remove(known[each], w);
      remove(ending[each], w);
      holds_at(w, each) = 0;
      when(w == creator(each), members[each] = 0)
    }
    sends[w] = 0;
    at_hand[w] = 0;
    sessions[w] = 0;
    dead_to[w] = 0;
    for (pass : 0 .. ROOM - 1) {
      status_at(pass, w) = NONE;
      kept_at(pass, w) = 0;
      landing_at(pass, w) = 0;
      clear_part(pass, w);
      if
      :: pass < passes && root[pass] == w ->
         clear_plan(pass);
         participants[pass] = 0;
         done_at[pass] = 0;
         failed_at[pass] = 0;
         told_late[pass] = 0
      :: else
      fi
    }
    skip
  }
}

/* A false suspicion: one declares the other dead, and the other is told, by Fenced. Which is first is open. */
inline cut(w, q) {
  d_step {
    printf("%d and %d are cut off from each other\n", w, q);
    cuts--;
    disturbed = true;
    add(cut_from[w], q);
    add(cut_from[q], w)
  }
}

#define dies_to(w, q) \
  (!gone[w] && has(sessions[w], q) && !is_dead(w, q) && (gone[q] || has(cut_from[w], q)))

inline hear_of_death(w, q) {
  d_step {
    printf("%d hears that %d is dead\n", w, q);
    add(dead_to[w], q);
    lose_messages(w, q);
    lose_calls(w, q);
    lose_passes(w, q);
    lose_contexts(w, q);
    skip
  }
}

/* Nothing more goes wrong. A step of its own, because the end is looked at when nothing else can happen. */
#define RESTS(f) && !acts(f)
inline calm_down() {
  d_step {
    deaths + cuts + timeouts + throws > 0 && under_way == 0 ON_EACH_FRAME(RESTS) ->
    deaths = 0;
    cuts = 0;
    timeouts = 0;
    throws = 0
  }
}

/* ---- How a story ends ---- */

inline check_pass(p) {
  if
  :: p < passes && !gone[root[p]] ->
     claim(B5, has(done_at[p] | failed_at[p], root[p]));
     claim(AH, disturbed || has(done_at[p], root[p]));
     for (other : 0 .. WORKERS - 1) {
       if
       :: other != root[p] && has(participants[p], other) && !gone[other] && !has(cut_from[other], root[p]) ->
          claim(B5, !has(done_at[p], root[p]) || has(done_at[p], other));
          claim(B5, !has(failed_at[p], root[p]) || !has(done_at[p], other) || has(told_late[p], other))
       :: else
       fi
     }
  :: else
  fi;
  for (other : 0 .. WORKERS - 1) {
    claim(B5, !in_progress(p, other));
    claim(A3, status_at(p, other) == NONE && kept_at(p, other) == 0 && landing_at(p, other) == 0)
  }
}

/* The programs have dropped their contexts, and nothing can happen any more. */
proctype Ending() {
  timeout;
  d_step {
    for (pass : 0 .. ROOM - 1) {
      check_pass(pass)
    }
    for (each : 0 .. CONTEXTS - 1) {
      claim(A3, known[each] == 0 && members[each] == 0)
    }
    for (other : 0 .. WORKERS - 1) {
      claim(A3, sends[other] == 0)
    }
    for (each : 0 .. CALLS - 1) {
      claim(Model, each >= calls || call[each] == OVER);
      claim(Model, frame[each] == ABSENT || frame[each] == ENDED)
    }
    claim(Model, under_way == 0 && queued == 0)
  }
}

/* ---- The processes ---- */

/* Each choice is between those to whom the thing can happen; then it happens, in the same step. */

proctype Network() {
end:
  do
#define DELIVER(w, q) :: nempty(wire_to(w, q)) -> chosen_worker = w; chosen_peer = q
#define DELIVER_TO(w) ON_EACH_WORKER_WITH(DELIVER, w)
  :: atomic { if ON_EACH_WORKER(DELIVER_TO) fi; receive(chosen_worker, chosen_peer) }
#if QUEUES
#define LEAVE(i) :: has(queued, i) -> chosen_call = i
  :: atomic { if ON_EACH_CALL(LEAVE) fi; leave_queue(chosen_call) }
#endif
#if LATE_BYTES
#define LAND_IN(h, p) :: has(landing_at(p, sender(h)), h) -> chosen_hop = h; chosen_pass = p
#define LAND(h) ON_EACH_PASS_WITH(LAND_IN, h)
  :: atomic { if ON_EACH_HOP(LAND) fi; land_gradient(chosen_pass, chosen_hop) }
#endif
#if DEATHS + CUTS > 0
#define ANNOUNCE(w, q) :: w != q && dies_to(w, q) -> chosen_worker = w; chosen_peer = q
#define ANNOUNCE_TO(w) ON_EACH_WORKER_WITH(ANNOUNCE, w)
  :: atomic { if ON_EACH_WORKER(ANNOUNCE_TO) fi; hear_of_death(chosen_worker, chosen_peer) }
#endif
  od
}

/* Main programs and functions. */
proctype Programs() {
end:
  do
#define CALL(f, q) :: may_call(f, q) -> chosen_frame = f; chosen_peer = q
#define CALL_FROM(f) ON_EACH_WORKER_WITH(CALL, f)
  :: atomic { if ON_EACH_FRAME(CALL_FROM) fi; choose_tensors(chosen_frame); make_call(chosen_frame, chosen_peer) }
#define ANSWER(i) :: may_answer(i) -> chosen_call = i
  :: atomic { if ON_EACH_CALL(ANSWER) fi; choose_tensors(chosen_call); choose_going_on(); answer(chosen_call) }
#define STOP(f) :: may_stop(f) -> chosen_frame = f
  :: atomic { if ON_EACH_FRAME(STOP) fi; stop(chosen_frame) }
#if PASSES > 0
#define START(f) :: may_start_pass(f) -> chosen_frame = f
  :: atomic { if ON_EACH_FRAME(START) fi; start_pass(chosen_frame) }
#endif
#if MUTANT_UNSTARTED_HOLDS_NOTHING
#define START_FUNCTION(i) :: frame[i] == UNSTARTED -> chosen_call = i
  :: atomic { if ON_EACH_CALL(START_FUNCTION) fi; start_function(chosen_call) }
#endif
  od
}

/* What each worker has of the contexts and the passes. */
proctype Parts() {
end:
  do
#define RELEASE(w, c) :: may_release(w, c) -> chosen_worker = w; chosen_context = c
#define RELEASE_ONE(w) ON_EACH_CONTEXT_WITH(RELEASE, w)
  :: atomic { if ON_EACH_WORKER(RELEASE_ONE) fi; release(chosen_worker, chosen_context) }
#if PASSES > 0
#define SEND_BACK_IN(h, p) :: has(ready_at(p, receiver(h)), h) -> chosen_hop = h; chosen_pass = p
#define SEND_BACK(h) ON_EACH_PASS_WITH(SEND_BACK_IN, h)
  :: atomic { if ON_EACH_HOP(SEND_BACK) fi; send_gradient(chosen_pass, chosen_hop) }
#define FINISH_IN(w, p) :: is_finished(p, w) -> chosen_worker = w; chosen_pass = p
#define FINISH(w) ON_EACH_PASS_WITH(FINISH_IN, w)
  :: atomic { if ON_EACH_WORKER(FINISH) fi; finish(chosen_pass, chosen_worker) }
#endif
  od
}

proctype Fate() {
end:
  do
#if DEATHS > 0
#define DIE(w) :: deaths > 0 && !gone[w] -> chosen_worker = w
  :: atomic { if ON_EACH_WORKER(DIE) fi; die(chosen_worker) }
#endif
#if CUTS > 0
#define CUT(w, q) \
  :: w < q && cuts > 0 && !gone[w] && !gone[q] && !has(cut_from[w], q) -> chosen_worker = w; chosen_peer = q
#define CUT_FROM(w) ON_EACH_WORKER_WITH(CUT, w)
  :: atomic { if ON_EACH_WORKER(CUT_FROM) fi; cut(chosen_worker, chosen_peer) }
#endif
#if TIMEOUTS > 0
#define TIME_OUT(i) :: timeouts > 0 && call[i] == AWAITED -> chosen_call = i
  :: atomic { if ON_EACH_CALL(TIME_OUT) fi; time_out(chosen_call) }
#endif
#if THROWS > 0
#define THROW_IN(w, p) :: throws > 0 && in_progress(p, w) -> chosen_worker = w; chosen_pass = p
#define THROW(w) ON_EACH_PASS_WITH(THROW_IN, w)
  :: atomic { if ON_EACH_WORKER(THROW) fi; throw(chosen_pass, chosen_worker) }
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
    for (each : 0 .. CONTEXTS - 1) {
      frame[main_of(each)] = RUNS;
      place[main_of(each)] = creator(each);
      context[main_of(each)] = each;
      add(known[each], creator(each));
      hold(creator(each), each)
    }
    skip
  }
  atomic {
    run Network();
    run Programs();
    run Parts();
    run Fate();
    run Ending();
    run Observer()
  }
}
