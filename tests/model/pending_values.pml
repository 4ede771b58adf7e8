/* Pending values: GPU work that outlives the ownership in which it was announced. Party 0 passes the
 * surface to 1 and 1 to 2, each with work still to run; processes die, devices are lost, and one
 * recover() follows.
 * rule: K9 K18 K27 X2 X9 X21
 *
 * Two ways to wait for the previous owner's work. Over the bridge (the default) a submission is
 * held until `completed` has reached its value. NATIVE: the parties' queues share one semaphore; a
 * submission goes to the driver as soon as the driver has the signal that it waits for (`queued`),
 * and the GPU waits.
 *
 * Asserted: no two pieces of work run at once; work and CPU views that build on work that never ran
 * are poisoned before they count as complete; every signal of the semaphore increases it; at the
 * standstill no live party is held, orphaned or waiting. value_waits.pml and keyed_mutex.pml model the
 * sleeps.
 */
#include "page.inc"

#ifndef LOSSES
#define LOSSES          0               /* submissions of living processes that fail: cancelled, device lost */
#endif
#ifndef DEATHS
#define DEATHS          1
#endif
#ifndef RECOVERIES
#define RECOVERIES      1
#endif

/* State beside the word. Values: 1, 2, 3 for the hand-overs, more after recover(). */
byte value = 0;
byte signaller = NO_PARTY;                   /* slots.pml says why the page keeps its incarnation too */
byte turn = 0;                          /* the key: the party that may acquire */
byte queued = 0, completed = 0;         /* raised only */
byte pending_value[N];                           /* slot p: the first pending value of p; 0: none */

byte counter = 0;                       /* NATIVE: the shared semaphore */

/* The submission of party p, as its device sees it. */
#define NONE            0
#define HELD            1
#define WAITING         2               /* NATIVE: in the driver's queue, which waits for the semaphore */
#define RUNNING         3
#define RAN             4
#define FAILED          5
#define STALLED         6               /* held by something unrelated to this surface */
byte job[N];
byte after[N];                          /* the value that it waits for */
byte after_whom[N];                     /* the signaller of that value */
byte brings[N];                         /* the value that it signals */

/* Ground truth, for assertions. */
byte whole = BIT(0);                    /* bit v: the work of value v has really run */
byte in_wait = 0;                       /* bit p: party p is in a wait that must end */
byte recoveries = 0;

#define PENDING_BELOW(q, v)      (!IS_DEAD(q) && pending_value[q] != 0 && pending_value[q] < (v))
#define ANY_PENDING_BELOW(v)   (PENDING_BELOW(0, v) || PENDING_BELOW(1, v) || PENDING_BELOW(2, v))
#ifdef NATIVE
#define COMES(v)        (completed >= (v) || queued >= (v))
#else
#define COMES(v)        (completed >= (v))
#endif
/* The wait point that came with the word is complete, or has no signaller (IDLE). */
#define IS_COMPLETE(v, q)   ((q) == NO_PARTY || completed >= (v))
#define RUNS(q)         (job[q] == RUNNING)
#define MARKED          (STATE(word) == ABANDONED || IS_POISONED(word))
/* (*) Where failed values complete at once, earlier work may still run, and its signal would lower
 * the semaphore. So in a poisoned chain, work waits until no party has a pending value up to the
 * one that it waits for. */
#if defined(NATIVE) && defined(COMPLETE_AT_ONCE) && !defined(DROP_HOLD_MARKED)
#define MAY_FALL        (MARKED && ANY_PENDING_BELOW(after[me] + 1))
#else
#define MAY_FALL        false
#endif

#ifdef DROP_RAISE_ONLY                  /* (*) a plain store: a late completion lowers the counter */
inline raise(field, v) { d_step { assert(field <= v); field = v } }
#else
inline raise(field, v) { d_step { field = (field < v -> v : field) } }
#endif

/* (*) Poisons the chain: FREE becomes ABANDONED, an owner's release will abandon. */
inline poison(t) {
    do
    ::  load_word(t, w);
        if
        :: STATE(w) == FREE -> swap_word(t, w, WORD(SLOT(w), ABANDONED), ENDS, ok)
        :: STATE(w) == OWNED -> swap_word(t, w, w | POISONED, GOES_ON, ok)
        :: else -> atomic { forget_word(t); ok = true }
        fi;
        if
        :: atomic { ok -> w = 0; ok = false; break }
        :: else
        fi
    od
}

/* ---- the GPUs ---- */

inline start(p) {
#ifdef COMPLETE_AT_ONCE
    assert(!RUNS(0) && !RUNS(1) && !RUNS(2) || MARKED); /* rule: K18, in a chain that is not poisoned */
#else
    assert(!RUNS(0) && !RUNS(1) && !RUNS(2));           /* rule: K18 */
#endif
    job[p] = RUNNING
}

inline finish(p) {
    whole = whole | ((whole & BIT(after[p])) -> BIT(brings[p]) : 0);
#ifdef NATIVE
    assert(counter < brings[p]);
    counter = brings[p];
#endif
    job[p] = RAN
}

inline next_of(p) {
#ifdef NATIVE
    if
    :: job[p] == WAITING && counter >= after[p] -> start(p)
    :: job[p] == RUNNING -> finish(p)
    fi
#else
    job[p] == RUNNING -> finish(p)
#endif
}

active proctype Gpus() {
    do
    :: atomic { next_of(0) }
    :: atomic { next_of(1) }
    :: atomic { next_of(2) }
    od
}

/* ---- a party's thread ---- */

proctype Party(byte me) {
    byte w, seen, from;
    bool ok;
    {
        skip;
        /* ---- acquire ---- */
look:
        atomic {
            (STATE(word) == FREE && turn == me) || STATE(word) == ABANDONED ->
            load_word(me, w);
            if
            :: STATE(w) == ABANDONED -> goto lost
            :: else
            fi
        };
        atomic { seen = value; from = signaller };
        atomic {
            swap_word(me, w, WORD(me, OWNED), GOES_ON, ok);
            w = 0;
            if
            :: ok -> ok = false
            :: else -> goto look
            fi
        };

        /* ---- a CPU view, or none. rule: X9 whole or AbandonedError ---- */
        if
        :: atomic { in_wait = in_wait | BIT(me) };
            if
            :: atomic { IS_COMPLETE(seen, from) -> in_wait = in_wait & ~BIT(me) };
#ifndef DROP_POISONED_CHECK
                if
                :: IS_POISONED(word)
                :: else -> assert(whole & BIT(seen))
                fi
#else
                assert(whole & BIT(seen))
#endif
            :: atomic { from != NO_PARTY && IS_DEAD(from) && completed < seen -> in_wait = in_wait & ~BIT(me) };
                poison(me)
            fi
        :: skip
        fi;

promise:
#ifdef IDLE
        /* ---- a hand-over without work: the value grows, no party signals it and no slot has it
         * pending ---- */
        if
        :: atomic { IS_COMPLETE(seen, from) ->
                whole = whole | ((whole & BIT(seen)) -> BIT(seen + 1) : 0);
                value = seen + 1; signaller = NO_PARTY; turn = me + 1
            };
            goto free
        :: skip
        fi;
#endif
        /* ---- submit, release: the value is announced before the word is free ---- */
        atomic {
            assert(job[me] == NONE && pending_value[me] == 0);
            after[me] = seen; after_whom[me] = from; brings[me] = seen + 1;
            pending_value[me] = seen + 1
        };
        if
        :: job[me] = HELD
#ifdef STALLS
        :: job[me] = STALLED
#endif
        fi;
        atomic { value = seen + 1; signaller = me; turn = me + 1 };
free:
        do
        ::  load_word(me, w);
            atomic {
                swap_word(me, w, WORD(me, (IS_POISONED(w) -> ABANDONED : FREE)), ENDS, ok);
                w = 0;
                if
                :: ok -> ok = false; break
                :: else
                fi
            }
        od;
        goto out;

        /* ---- recover() ---- */
lost:
        atomic {
            if
            :: recoveries < RECOVERIES
            :: forget_word(me); w = 0; goto out
            fi
        };
        atomic {
            swap_word(me, w, WORD(me, OWNED) | POISONED, ENDS, ok);
            w = 0;
            if
            :: ok -> ok = false; recoveries++; in_wait = in_wait | BIT(me)
            :: else -> goto out
            fi
        };
#ifndef DROP_RECOVER_WAITS              /* (*) until no live slot has a pending value, its own included */
        !ANY_PENDING_BELOW(255);
#endif
        atomic { in_wait = in_wait & ~BIT(me); seen = (value > completed -> value : completed) + 1; from = NO_PARTY };
        d_step { value = seen; signaller = NO_PARTY };
#ifdef NATIVE
        atomic {                        /* a dead owner may have submitted and died before it wrote `value` */
#ifdef DROP_SIGNAL_CHECK                /* (*) */
            assert(counter < seen);
#endif
            counter = (counter < seen -> seen : counter)
        };
        raise(queued, seen);
#endif
        atomic { raise(completed, seen); whole = whole | BIT(seen) };
        d_step { assert(STATE(word) == OWNED && SLOT(word) == me); word = WORD(me, OWNED) };
        goto promise;
out:
        atomic { seen = 0; from = 0; ok = false }
    } unless { atomic { IS_DEAD(me) -> w = 0; seen = 0; from = 0; ok = false } }
}

/* ---- the process's service thread: its submission, and the deaths of others ---- */

proctype Service(byte me) {
    byte w, d;
    bool ok, signalled;
    {
        skip;
ready:
        if
        /* The wait point is complete: run at once. */
        :: atomic { job[me] == HELD && IS_COMPLETE(after[me], after_whom[me]) && !MAY_FALL -> start(me) };
#ifdef NATIVE
submitted:
            raise(queued, brings[me])
        /* The driver has the signal: the GPU waits. */
#ifdef DROP_QUEUED_FIRST                /* any live signaller is trusted to submit */
        :: atomic { job[me] == HELD && completed < after[me] -> job[me] = WAITING }; goto submitted
#else
        :: atomic { job[me] == HELD && queued >= after[me] && !IS_COMPLETE(after[me], after_whom[me]) -> job[me] = WAITING };
            goto submitted
#endif
        /* An orphaned wait: the submission is in the driver and its value will never be signalled,
         * because the dead signaller's work was dropped, or the live one could not run it and
         * reported that. Then no live party has a pending value up to it; a lower signal would
         * still come. The process that waits signals for itself, after it has poisoned the chain. */
#ifndef DROP_ORPHANED
#ifdef DROP_SIGNAL_IN_ORDER
        :: job[me] == WAITING && counter < after[me] && (IS_DEAD(after_whom[me]) || completed >= after[me]) ->
#else
        :: atomic { job[me] == WAITING && counter < after[me] && !ANY_PENDING_BELOW(after[me] + 1) };
#endif
#ifndef DROP_MARK_BEFORE_SIGNAL         /* (*) */
            poison(SERVICE(me));
#endif
            atomic {
                if
                :: job[me] == WAITING && counter < after[me] -> counter = after[me]
                :: else
                fi
            };
#ifdef DROP_MARK_BEFORE_SIGNAL
            poison(SERVICE(me))
#endif
#endif
#endif
        /* The wait point can never complete: the signaller died. */
#ifndef DROP_SIGNALLER                     /* (*) the signaller is unknown, so its death is not detected */
        :: atomic {
            job[me] == HELD && after_whom[me] != NO_PARTY && IS_DEAD(after_whom[me]) && !COMES(after[me]) -> job[me] = FAILED
           }
#endif
#ifdef DROP_OWN_QUEUE_ONLY              /* (*) every process that detects the death signals for orphaned waits */
        :: atomic { signaller != NO_PARTY && IS_DEAD(signaller) && counter < value && !signalled -> signalled = true; d = value };
            if
            :: counter < d -> atomic { assert(counter < d); counter = d; d = 0 }
            :: else -> d = 0
            fi
#endif
        /* The work ran: its value completes. */
        :: atomic {
            job[me] == RAN ->
            assert((whole & BIT(after[me])) || MARKED);
            raise(completed, brings[me])
           };
            d_step { pending_value[me] = 0; job[me] = NONE; after[me] = 0; after_whom[me] = 0; brings[me] = 0 }
        /* The work failed: (*) poison first, then complete, in the order of the values. */
        :: job[me] == FAILED ->
#if !defined(DROP_MARK_FIRST) && !defined(DROP_POISON)
            poison(SERVICE(me));
#endif
#if !defined(DROP_COMPLETE_IN_ORDER) && !defined(COMPLETE_AT_ONCE)
            !ANY_PENDING_BELOW(brings[me]);
#endif
            raise(completed, brings[me]);
#ifdef DROP_MARK_FIRST
            poison(SERVICE(me));
            skip;
#endif
            d_step { pending_value[me] = 0; job[me] = NONE; after[me] = 0; after_whom[me] = 0; brings[me] = 0 }
        /* A death: the dead process owned the surface, or it is free with a value that only the
         * dead process could signal. */
        :: atomic { STATE(word) == OWNED && IS_DEAD(SLOT(word)) -> load_word(SERVICE(me), w) };
            atomic { swap_word(SERVICE(me), w, WORD(SLOT(w), ABANDONED), ENDS, ok); w = 0; ok = false }
#ifndef FREE_PENDING_UNMARKED
        :: atomic { STATE(word) == FREE && signaller != NO_PARTY && IS_DEAD(signaller) && completed < value -> load_word(SERVICE(me), w) };
            atomic { swap_word(SERVICE(me), w, WORD(SLOT(w), ABANDONED), ENDS, ok); w = 0; ok = false }
#endif
        fi;
        goto ready
    } unless { atomic { IS_DEAD(me) -> w = 0; d = 0; ok = false } }
}

/* ---- death, loss, and the standstill ---- */

/* A pidfd reports a death after the driver has released the process: work of its queue has run by
 * then, or never will. */
inline reap(p) {
    if
    :: RUNS(p) -> finish(p)
#ifdef NATIVE
    :: job[p] == WAITING && counter >= after[p] -> start(p); finish(p)
#endif
    :: true
    fi;
    job[p] = NONE
}

inline kill(p) {
    if
    :: !IS_DEAD(p) ->
        deaths++;
#ifdef DROP_REAPED                      /* the death is reported while its work still runs */
        if
        :: job[p] == RUNNING || job[p] == WAITING
        :: else -> job[p] = NONE
        fi;
#else
        reap(p);
#endif
        dead = dead | BIT(p); in_wait = in_wait & ~BIT(p);
        forget_word(p); forget_word(SERVICE(p))
    :: else
    fi
}

inline lose(p) {
    if
    :: !IS_DEAD(p) && (job[p] == HELD || job[p] == WAITING || job[p] == RUNNING) -> losses++; job[p] = FAILED
    :: else
    fi
}

inline judge(p) {
    if
    :: IS_DEAD(p)
    :: else ->
        assert(job[p] == NONE || job[p] == STALLED || stalled && (job[p] == HELD || job[p] == FAILED));
        assert((in_wait & BIT(p)) == 0 || stalled)
    fi
}

active proctype Fate() {
    byte deaths, losses, p;
    bool stalled, done;
    do
    :: atomic { !done && deaths < DEATHS -> any_party(p); kill(p); p = 0 }
    :: atomic { !done && losses < LOSSES -> any_party(p); lose(p); p = 0 }
    :: atomic { !done -> done = true; deaths = 0; losses = 0 }
    :: atomic { timeout ->
        stalled = (job[0] == STALLED || job[1] == STALLED || job[2] == STALLED);
        judge(0); judge(1); judge(2);
        assert(STATE(word) != OWNED || !IS_DEAD(SLOT(word)) || dead == EVERYONE);
        break
      }
    od
}

init {
    atomic {
        run Party(0); run Service(0);
        run Party(1); run Service(1);
        run Party(2); run Service(2)
    }
}
