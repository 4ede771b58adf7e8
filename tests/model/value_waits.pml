/* The counters of the mutex page and their futex. Several processes raise
 * `completed` (a compare-and-swap that only goes up); value_seq is the futex word; value_want is
 * set while a thread may sleep on it. `queued` is raised in the same way. Two parties complete
 * their pending values, in any order, and may die at any step. A third process, which may die too,
 * detects deaths. In a fourth process one sleeper waits for a value, and recover() waits until no
 * live slot has a pending value.
 * rule: X2 X3 X9 K18 K27
 *
 * Asserted: completed never falls. At the standstill no thread sleeps whose value has come or whose
 * signaller is dead, or that waits for values that are complete or whose signallers are dead.
 */
#define BIT(i)          (1 << (i))
#define SIGNALLERS         2
#define VALUE(p)        ((p) + 1)       /* the value that party p announced */
#define FOR_VALUE       0               /* the sleepers */
#define FOR_PENDING       1
#ifndef DEATHS
#define DEATHS          2               /* 1: of party 1 only */
#endif
#ifndef SLEEPERS
#define SLEEPERS        3               /* both */
#endif
#define OURS            0               /* the service threads: of the sleepers' process, and of the third process */
#define OTHERS          1

byte completed = 0;
byte pending_value = BIT(0) | BIT(1);            /* slot p: a value is pending */
byte claimed = BIT(0) | BIT(1);         /* slots in use */
byte dead = 0;
bool handler_dead = false;

bool want = false;                      /* value_want */
byte seq_moved = 255;                   /* bit s: value_seq moved since sleeper s read it (page.inc) */
byte asleep = 0;
byte through = 0;                       /* bit s: sleeper s has returned */

/* No thread can go to sleep on the old seq between bump and wake, so they are one step. */
inline bump_and_wake() { d_step { seq_moved = 255; asleep = 0 } }

inline wake_value_waiters() {
    if
    :: atomic { !want -> skip }
    :: atomic { want ->
#ifndef DROP_CLEAR_FIRST                /* a thread that comes after the bump was not woken by it, so its value_want must stay */
        want = false
#endif
       };
        bump_and_wake();
#ifdef DROP_CLEAR_FIRST
        want = false
#endif
    fi
}

proctype Signaller(byte me) {
    byte seen;
    {
        /* ---- raise completed ---- */
        do
#ifdef DROP_RAISE_ONLY                  /* (*) */
        :: atomic { assert(completed < VALUE(me)); completed = VALUE(me); break }
#else
        :: atomic {
            seen = completed;
            if
            :: seen >= VALUE(me) -> seen = 0; break
            :: else
            fi
           };
            atomic {
                if
                :: completed == seen -> completed = VALUE(me); seen = 0; break
                :: else -> seen = 0
                fi
            }
#endif
        od;
#ifdef DROP_PENDING_BEFORE_WAKE            /* recover() is woken while the value is still pending */
        wake_value_waiters();
        pending_value = pending_value & ~BIT(me)
#else
        pending_value = pending_value & ~BIT(me);
        wake_value_waiters()
#endif
    } unless { atomic { (dead & BIT(me)) -> seen = 0 } }
}

/* The handling of a death for pending values; keyed_mutex.pml has the word. All wakes come before
 * the slot is free. */
inline handle_death(p) {
    if
    :: claimed & BIT(p) ->
#ifdef DROP_WAKE_BEFORE_FREE            /* killed between the two: the next process finds the slot free and does nothing */
        claimed = claimed & ~BIT(p);
        bump_and_wake()
#else
#ifndef DROP_DEATH_WAKE
        bump_and_wake();
#endif
        claimed = claimed & ~BIT(p)
#endif
    :: else
    fi
}

proctype Handler(byte h) {
    byte handled;
    {
        do
        :: atomic { (dead & ~handled & BIT(0)) -> handled = handled | BIT(0) }; handle_death(0)
        :: atomic { (dead & ~handled & BIT(1)) -> handled = handled | BIT(1) }; handle_death(1)
        od
    } unless { atomic { (h == OTHERS && handler_dead) -> handled = 0 } }
}

#define VALUE_CAME      (completed >= VALUE(1) || (dead & BIT(1)))
#define PENDING_LEFT      (claimed & pending_value & ~dead)

inline over() {
    if
    :: satisfied -> satisfied = false; through = through | BIT(me); seq_moved = seq_moved | BIT(me); goto out
    :: else
    fi
}

proctype Sleeper(byte me) {
    bool satisfied;
    do
    ::
#ifndef DROP_SEQ_FIRST                  /* X3 */
        seq_moved = seq_moved & ~BIT(me);
#endif
#ifndef DROP_WANT_FIRST                 /* set before the test, or the raiser does not wake */
        want = true;
#endif
        if
        :: atomic { me == FOR_VALUE -> satisfied = (completed >= VALUE(1)) };
            atomic { satisfied = (satisfied || (dead & BIT(1))); over() }
        :: atomic { me == FOR_PENDING -> satisfied = !(PENDING_LEFT & BIT(0)) };
            atomic { satisfied = (satisfied && !(PENDING_LEFT & BIT(1))); over() }
        fi;
#ifdef DROP_SEQ_FIRST
        seq_moved = seq_moved & ~BIT(me);
#endif
#ifdef DROP_WANT_FIRST
        want = true;
#endif
        if                                              /* FUTEX_WAIT(value_seq as read) */
        :: atomic { !(seq_moved & BIT(me)) -> asleep = asleep | BIT(me) };
            atomic { !(asleep & BIT(me)) -> seq_moved = seq_moved | BIT(me) }
        :: else
        fi
    od;
out:
    skip
}

active proctype Fate() {
    bool done;
    do
    :: atomic { !done && !(dead & BIT(0)) && DEATHS > 1 -> dead = dead | BIT(0) }
    :: atomic { !done && !(dead & BIT(1)) -> dead = dead | BIT(1) }
    :: atomic { !done && !handler_dead -> handler_dead = true }
    :: atomic { !done -> done = true }
    :: timeout ->
        assert((through & BIT(FOR_VALUE)) || !VALUE_CAME);
        assert((through & BIT(FOR_PENDING)) || PENDING_LEFT);
        break
    od
}

init {
    atomic {
        run Signaller(0); run Signaller(1);
        run Handler(OURS); run Handler(OTHERS);
        if
        :: SLEEPERS & BIT(FOR_VALUE) -> run Sleeper(FOR_VALUE)
        :: else -> through = through | BIT(FOR_VALUE)
        fi;
        if
        :: SLEEPERS & BIT(FOR_PENDING) -> run Sleeper(FOR_PENDING)
        :: else -> through = through | BIT(FOR_PENDING)
        fi
    }
}
