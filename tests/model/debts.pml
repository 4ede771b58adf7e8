/* Debts: GPU work that outlives the ownership under which it was promised. Party 0 hands the surface to 1, that one to 2,
 * each with work still to be done; processes die, devices are lost, and one recover() picks up the pieces.
 * rule: K9 K18 K27 X2 X9 X21
 *
 * Two ways to wait for the previous owner's work. Over the bridge (the default) a submission is held until `completed`
 * has reached its value. NATIVE: the parties' queues share one semaphore; a submission goes to the driver as soon as
 * the driver has the signal that it waits for (`queued`), and the GPU waits.
 *
 * Asserted: no two pieces of work run at once; work and CPU views that build on work that never ran are marked broken
 * before they count as done; every signal of the semaphore increases it; at the standstill nothing that lives is held,
 * stuck or waiting. Sleeping itself is settle.pml's and keyed_mutex.pml's. */
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

/* Beside the word. Values: 1, 2, 3 for the hand-overs, more after recover(). */
byte value = 0;
byte debtor = NOBODY;                   /* slots.pml says why the page keeps its incarnation too */
byte turn = 0;                          /* the key: whose acquire it is */
byte queued = 0, completed = 0;         /* raised only */
byte owes[N];                           /* slot p: the oldest value that p promised and has not settled; 0: none */

byte counter = 0;                       /* NATIVE: the shared semaphore */

/* The submission of party p, as its device sees it. */
#define NONE            0
#define HELD            1
#define WAITING         2               /* NATIVE: in the driver's queue, which waits for the semaphore */
#define RUNNING         3
#define RAN             4
#define FAILED          5
#define STALLED         6               /* kept back by something that has nothing to do with this surface */
byte job[N];
byte after[N];                          /* the value that it waits for */
byte after_whom[N];                     /* its debtor */
byte brings[N];                         /* the value that it promised */

/* Truth. */
byte whole = BIT(0);                    /* bit v: what value v stands for is really there */
byte in_wait = 0;                       /* bit p: party p is in a wait that must end */
byte recoveries = 0;

#define OWES(q, v)      (!IS_DEAD(q) && owes[q] != 0 && owes[q] < (v))
#define LOWER_OWED(v)   (OWES(0, v) || OWES(1, v) || OWES(2, v))
#ifdef NATIVE
#define COMES(v)        (completed >= (v) || queued >= (v))
#else
#define COMES(v)        (completed >= (v))
#endif
/* What came with the word has nothing to wait for: it is done, or no work was to bring it (IDLE). */
#define SETTLED(v, q)   ((q) == NOBODY || completed >= (v))
#define RUNS(q)         (job[q] == RUNNING)
#define MARKED          (STATE(word) == ABANDONED || IS_BROKEN(word))
/* (*) Where promises are settled as soon as they fail, earlier work may run still, whose signal would take the semaphore
 * back from a later one: in a chain that is marked, work waits until nobody owes as little as it waits for. */
#if defined(NATIVE) && defined(SETTLE_AT_ONCE) && !defined(DROP_HOLD_MARKED)
#define MAY_FALL        (MARKED && LOWER_OWED(after[me] + 1))
#else
#define MAY_FALL        false
#endif

#ifdef DROP_RAISE_ONLY                  /* (*) a plain store: a late settler takes back what later work said */
inline raise(field, v) { d_step { assert(field <= v); field = v } }
#else
inline raise(field, v) { d_step { field = (field < v -> v : field) } }
#endif

/* (*) The chain ends here: FREE becomes ABANDONED, an owner's release will abandon. */
inline break_chain(t) {
    do
    ::  load_word(t, w);
        if
        :: STATE(w) == FREE -> swap_word(t, w, WORD(SLOT(w), ABANDONED), ENDS, ok)
        :: STATE(w) == OWNED -> swap_word(t, w, w | BROKEN, GOES_ON, ok)
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
#ifdef SETTLE_AT_ONCE
    assert(!RUNS(0) && !RUNS(1) && !RUNS(2) || MARKED); /* rule: K18, in a chain that is whole */
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
        atomic { seen = value; from = debtor };
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
            :: atomic { SETTLED(seen, from) -> in_wait = in_wait & ~BIT(me) };
#ifndef DROP_BROKEN_CHECK
                if
                :: IS_BROKEN(word)
                :: else -> assert(whole & BIT(seen))
                fi
#else
                assert(whole & BIT(seen))
#endif
            :: atomic { from != NOBODY && IS_DEAD(from) && completed < seen -> in_wait = in_wait & ~BIT(me) };
                break_chain(me)
            fi
        :: skip
        fi;

promise:
#ifdef IDLE
        /* ---- nothing to draw, nothing to wait for: the value grows, and nobody owes it or signals it ---- */
        if
        :: atomic { SETTLED(seen, from) ->
                whole = whole | ((whole & BIT(seen)) -> BIT(seen + 1) : 0);
                value = seen + 1; debtor = NOBODY; turn = me + 1
            };
            goto free
        :: skip
        fi;
#endif
        /* ---- submit, release: the promise is known before the word is free ---- */
        atomic {
            assert(job[me] == NONE && owes[me] == 0);
            after[me] = seen; after_whom[me] = from; brings[me] = seen + 1;
            owes[me] = seen + 1
        };
        if
        :: job[me] = HELD
#ifdef STALLS
        :: job[me] = STALLED
#endif
        fi;
        atomic { value = seen + 1; debtor = me; turn = me + 1 };
free:
        do
        ::  load_word(me, w);
            atomic {
                swap_word(me, w, WORD(me, (IS_BROKEN(w) -> ABANDONED : FREE)), ENDS, ok);
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
            swap_word(me, w, WORD(me, OWNED) | BROKEN, ENDS, ok);
            w = 0;
            if
            :: ok -> ok = false; recoveries++; in_wait = in_wait | BIT(me)
            :: else -> goto out
            fi
        };
#ifndef DROP_RECOVER_WAITS              /* (*) until no live slot owes a value, our own included */
        !LOWER_OWED(255);
#endif
        atomic { in_wait = in_wait & ~BIT(me); seen = (value > completed -> value : completed) + 1; from = NOBODY };
        d_step { value = seen; debtor = NOBODY };
#ifdef NATIVE
        atomic {                        /* a dead owner may have submitted, and died before it wrote `value` */
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

/* ---- its process's service thread: the submission's way, and the deaths of others ---- */

proctype Service(byte me) {
    byte w, d;
    bool ok, signalled;
    {
        skip;
ready:
        if
        /* Certain by the CPU: run at once. */
        :: atomic { job[me] == HELD && SETTLED(after[me], after_whom[me]) && !MAY_FALL -> start(me) };
#ifdef NATIVE
submitted:
            raise(queued, brings[me])
        /* Certain by the driver: the GPU waits. */
#ifdef DROP_QUEUED_FIRST                /* a stranger that is alive is trusted to submit */
        :: atomic { job[me] == HELD && completed < after[me] -> job[me] = WAITING }; goto submitted
#else
        :: atomic { job[me] == HELD && queued >= after[me] && !SETTLED(after[me], after_whom[me]) -> job[me] = WAITING };
            goto submitted
#endif
        /* In the driver, and what it waits for will never be signalled: the dead one's work was dropped, or the living
         * one could not run it and said so. No living one owes it then, nor less: a lower signal would still be to come.
         * Whoever stands there helps himself, and marks the chain first. */
#ifndef DROP_STUCK
#ifdef DROP_SIGNAL_IN_ORDER
        :: job[me] == WAITING && counter < after[me] && (IS_DEAD(after_whom[me]) || completed >= after[me]) ->
#else
        :: atomic { job[me] == WAITING && counter < after[me] && !LOWER_OWED(after[me] + 1) };
#endif
#ifndef DROP_MARK_BEFORE_SIGNAL         /* (*) */
            break_chain(SERVICE(me));
#endif
            atomic {
                if
                :: job[me] == WAITING && counter < after[me] -> counter = after[me]
                :: else
                fi
            };
#ifdef DROP_MARK_BEFORE_SIGNAL
            break_chain(SERVICE(me))
#endif
#endif
#endif
        /* Never certain: the debtor died. */
#ifndef DROP_DEBTOR                     /* (*) nobody knows whose death to look for */
        :: atomic {
            job[me] == HELD && after_whom[me] != NOBODY && IS_DEAD(after_whom[me]) && !COMES(after[me]) -> job[me] = FAILED
           }
#endif
#ifdef DROP_OWN_QUEUE_ONLY              /* (*) whoever hears of the death signals for those who may be stuck */
        :: atomic { debtor != NOBODY && IS_DEAD(debtor) && counter < value && !signalled -> signalled = true; d = value };
            if
            :: counter < d -> atomic { assert(counter < d); counter = d; d = 0 }
            :: else -> d = 0
            fi
#endif
        /* The promise is kept. */
        :: atomic {
            job[me] == RAN ->
            assert((whole & BIT(after[me])) || MARKED);
            raise(completed, brings[me])
           };
            d_step { owes[me] = 0; job[me] = NONE; after[me] = 0; after_whom[me] = 0; brings[me] = 0 }
        /* The promise is broken: (*) marked first, then settled, in the order of the values. */
        :: job[me] == FAILED ->
#if !defined(DROP_MARK_FIRST) && !defined(DROP_BREAK)
            break_chain(SERVICE(me));
#endif
#if !defined(DROP_SETTLE_IN_ORDER) && !defined(SETTLE_AT_ONCE)
            !LOWER_OWED(brings[me]);
#endif
            raise(completed, brings[me]);
#ifdef DROP_MARK_FIRST
            break_chain(SERVICE(me));
            skip;
#endif
            d_step { owes[me] = 0; job[me] = NONE; after[me] = 0; after_whom[me] = 0; brings[me] = 0 }
        /* A death: the surface was the dead one's, or lies free with a debt that only the dead one could pay. */
        :: atomic { STATE(word) == OWNED && IS_DEAD(SLOT(word)) -> load_word(SERVICE(me), w) };
            atomic { swap_word(SERVICE(me), w, WORD(SLOT(w), ABANDONED), ENDS, ok); w = 0; ok = false }
#ifndef FREE_DEBT_UNMARKED
        :: atomic { STATE(word) == FREE && debtor != NOBODY && IS_DEAD(debtor) && completed < value -> load_word(SERVICE(me), w) };
            atomic { swap_word(SERVICE(me), w, WORD(SLOT(w), ABANDONED), ENDS, ok); w = 0; ok = false }
#endif
        fi;
        goto ready
    } unless { atomic { IS_DEAD(me) -> w = 0; d = 0; ok = false } }
}

/* ---- death, loss, and the standstill ---- */

/* A pidfd tells of a death after the driver has let go of the process: what its queue had has run by then or never will. */
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
#ifdef DROP_REAPED                      /* the death is told while its work still runs */
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
