/* The counters of the mutex page and their futex: `completed` is raised by several processes (a swap that only goes up),
 * settle_seq is the futex word, settle_want says that somebody may sleep on it. `queued` is raised in the same way. Two
 * parties settle what they owe, in any order, and may die at any step; a third process, mortal too, hears of deaths.
 * In a fourth one sleeper waits for a value, and recover() until no live slot owes any.
 * rule: X2 X3 X9 K18 K27
 *
 * Asserted: completed never falls; at the standstill nobody sleeps whose value has come, whose debtor is dead, or who
 * waits for debts that are paid or whose debtors are dead. */
#define BIT(i)          (1 << (i))
#define DEBTORS         2
#define VALUE(p)        ((p) + 1)       /* what party p promised */
#define FOR_VALUE       0               /* the sleepers */
#define FOR_DEBTS       1
#ifndef DEATHS
#define DEATHS          2               /* 1: of party 1 only */
#endif
#ifndef SLEEPERS
#define SLEEPERS        3               /* both */
#endif
#define OURS            0               /* the service threads: of the sleepers' process, and of the mortal one */
#define OTHERS          1

byte completed = 0;
byte owes = BIT(0) | BIT(1);            /* slot p: a promise is not settled */
byte claimed = BIT(0) | BIT(1);         /* slots in use */
byte dead = 0;
bool handler_dead = false;

bool want = false;                      /* settle_want */
byte seq_moved = 255;                   /* bit s: settle_seq moved since sleeper s read it (page.inc) */
byte asleep = 0;
byte through = 0;                       /* bit s: sleeper s has what it wanted */

/* Between bump and wake nobody can go to sleep on the old seq, so they are one step. */
inline bump_and_wake() { d_step { seq_moved = 255; asleep = 0 } }

inline wake_value_waiters() {
    if
    :: atomic { !want -> skip }
    :: atomic { want ->
#ifndef DROP_CLEAR_FIRST                /* who comes after the bump has not been woken by it, and must stay announced */
        want = false
#endif
       };
        bump_and_wake();
#ifdef DROP_CLEAR_FIRST
        want = false
#endif
    fi
}

proctype Debtor(byte me) {
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
#ifdef DROP_OWES_BEFORE_WAKE            /* recover() is woken to find the debt still there */
        wake_value_waiters();
        owes = owes & ~BIT(me)
#else
        owes = owes & ~BIT(me);
        wake_value_waiters()
#endif
    } unless { atomic { (dead & BIT(me)) -> seen = 0 } }
}

/* A death as far as the debts go; the word is keyed_mutex.pml's. All wakes come before the slot is free. */
inline handle_death(p) {
    if
    :: claimed & BIT(p) ->
#ifdef DROP_WAKE_BEFORE_FREE            /* killed between the two: the next to hear finds the slot free, and does nothing */
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
    byte heard;
    {
        do
        :: atomic { (dead & ~heard & BIT(0)) -> heard = heard | BIT(0) }; handle_death(0)
        :: atomic { (dead & ~heard & BIT(1)) -> heard = heard | BIT(1) }; handle_death(1)
        od
    } unless { atomic { (h == OTHERS && handler_dead) -> heard = 0 } }
}

#define VALUE_CAME      (completed >= VALUE(1) || (dead & BIT(1)))
#define DEBTS_LEFT      (claimed & owes & ~dead)

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
#ifndef DROP_WANT_FIRST                 /* announced before the test, or the raiser does not wake */
        want = true;
#endif
        if
        :: atomic { me == FOR_VALUE -> satisfied = (completed >= VALUE(1)) };
            atomic { satisfied = (satisfied || (dead & BIT(1))); over() }
        :: atomic { me == FOR_DEBTS -> satisfied = !(DEBTS_LEFT & BIT(0)) };
            atomic { satisfied = (satisfied && !(DEBTS_LEFT & BIT(1))); over() }
        fi;
#ifdef DROP_SEQ_FIRST
        seq_moved = seq_moved & ~BIT(me);
#endif
#ifdef DROP_WANT_FIRST
        want = true;
#endif
        if                                              /* FUTEX_WAIT(settle_seq as read) */
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
        assert((through & BIT(FOR_DEBTS)) || DEBTS_LEFT);
        break
    od
}

init {
    atomic {
        run Debtor(0); run Debtor(1);
        run Handler(OURS); run Handler(OTHERS);
        if
        :: SLEEPERS & BIT(FOR_VALUE) -> run Sleeper(FOR_VALUE)
        :: else -> through = through | BIT(FOR_VALUE)
        fi;
        if
        :: SLEEPERS & BIT(FOR_DEBTS) -> run Sleeper(FOR_DEBTS)
        :: else -> through = through | BIT(FOR_DEBTS)
        fi
    }
}
