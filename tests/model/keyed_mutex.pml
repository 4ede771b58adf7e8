/* The keyed mutex page: acquire, release, deadlines, abandonment, death of any process at any step, recover(), and
 * death detection on demand (a process watches the others only from the moment that it is about to sleep).
 * rule: K7 K8 K9 K10 K11 K15 K27 K29 X3 X9
 *
 * Asserted at every grant: one owner, the right key, no abandonment hidden from the new owner.
 * Asserted when nothing moves any more: no thread sleeps that has an event to handle.
 *
 * A scenario:
 *     KEY0..2, NEXT0..2  the keys that each party acquires and releases with (any, if not said), FIRST_KEY, ROUNDS
 *     DEATHS, VICTIMS    how many processes may be killed, and which (a mask)
 *     EXPIRIES           how many deadlines may pass during a sleep
 *     RECOVERIES         how many recover() there may be
 *     CLOSES             an owner may close its handle instead of releasing
 *     LATE               the party that joins the page while the others are at work
 *     WITNESS            a party that acquires nothing, although its process watches others
 *     BYSTANDER          a party that does nothing, and watches no process. */
#include "page.inc"

#ifndef ROUNDS
#define ROUNDS          1
#endif
#ifndef FIRST_KEY
#define FIRST_KEY       0
#endif
#ifndef VICTIMS
#define VICTIMS         EVERYONE
#endif

#define BUCKET(k)       ((k) & 1)       /* keys 0, 1, 2: 0 and 2 share a bucket */
#define CONTROL         2               /* the bit of every sleeper, beside its key's bucket */

byte key = FIRST_KEY;
byte want = 0;                          /* bit b: a thread may sleep on bucket b */
byte outdated = 0;                      /* bit p: `generation` is not the one that p's handle knows */
#ifdef LATE
byte claimed = EVERYONE & ~BIT(LATE);   /* slots in use */
#else
byte claimed = EVERYONE;
#endif

/* The futex word `seq` and its sleepers. */
byte seq_moved = 255;                   /* bit p: seq grew since party p read it */
byte asleep = 0;
byte expired = 0;                       /* bit p: p's deadline passed while it slept */
byte sleeps_on[N];                      /* the key that p sleeps for */
byte join_count_moved = EVERYONE;            /* bit p: a party joined since p checked the slots */
byte watched[N];                        /* [p]: slots that p's service thread watches */

/* Ground truth, for assertions only. */
byte owner = NO_PARTY;
byte unnotified = 0;                        /* bit p: the surface was abandoned and p has had no AbandonedError since */
byte finished = 0;
byte recoveries = 0;

inline any_key(k) { if :: k = 0 :: k = 1 :: k = 2 fi }
#ifdef NEXT0
inline released_key(k) { k = (me == 0 -> NEXT0 : (me == 1 -> NEXT1 : NEXT2)) }
#else
inline released_key(k) { any_key(k) }
#endif
#ifdef KEY0
inline wanted_key(k) { k = (me == 0 -> KEY0 : (me == 1 -> KEY1 : KEY2)) }
#else
inline wanted_key(k) { any_key(k) }
#endif

inline read_seq()   { seq_moved = seq_moved & ~BIT(me) }
inline forget_seq() { seq_moved = seq_moved | BIT(me) }
inline bump_seq()   { seq_moved = 255 }

inline wake(bucket) {                   /* FUTEX_WAKE_BITSET: every sleeper that matches */
    d_step {
        for (i : 0 .. N - 1) {
            if
            :: (asleep & BIT(i)) && (bucket == CONTROL || BUCKET(sleeps_on[i]) == bucket) -> wake_one(i)
            :: else
            fi
        }
        i = 0
    }
}

inline wake_one(bucket) {               /* what wake() must not be: some one sleeper that matches */
    atomic {
        if
        :: (asleep & BIT(0)) && BUCKET(sleeps_on[0]) == bucket -> wake_one(0)
        :: (asleep & BIT(1)) && BUCKET(sleeps_on[1]) == bucket -> wake_one(1)
        :: (asleep & BIT(2)) && BUCKET(sleeps_on[2]) == bucket -> wake_one(2)
        :: else
        fi
    }
}

inline wake_one(p) { asleep = asleep & ~BIT(p); sleeps_on[p] = 0 }

inline wake_everyone() { bump_seq(); wake(CONTROL) }

/* The watches of a process: on demand, of every slot holder, from just before its first sleep. It
 * checks the slots again only if a party has joined since. */
inline watch_others() {
#if defined(DROP_WATCH_ALL) || defined(REJECTED_OWNER_WAKES)    /* only of the owner that the word names */
    atomic {
        if
        :: STATE(word) == OWNED -> watched[me] = (watched[me] | BIT(SLOT(word))) & ~BIT(me)
        :: else
        fi
    }
#else
    if
    :: atomic { join_count_moved & BIT(me) -> join_count_moved = join_count_moved & ~BIT(me) };
        watched[me] = (watched[me] | claimed) & ~BIT(me)
    :: else
    fi
#endif
}

#define GRANTED         1
#define TIMED_OUT       2
#define LOST            3               /* AbandonedError */

proctype Party(byte me) {
    byte w, k, result, i, round;
    bool fits, old, ok;
    {
        skip;
#ifdef LATE
        /* A slot is claimed, then the join count moves, then the sleepers are woken, and only then
         * the word is accessed. */
        if
#ifdef DROP_COUNT_LAST                 /* a sleeper reads the new join count and the old slots */
        :: atomic { me == LATE -> join_count_moved = EVERYONE };
            claimed = claimed | BIT(me)
#else
        :: atomic { me == LATE -> claimed = claimed | BIT(me) };
            join_count_moved = EVERYONE
#endif
#ifndef DROP_JOIN_WAKE
            ;
            wake_everyone()
#endif
        :: me != LATE
        fi;
#endif
#ifdef BYSTANDER
        if
        :: me == BYSTANDER -> goto out
        :: me != BYSTANDER
        fi;
#endif
#ifdef WITNESS
        if
        :: atomic { me == WITNESS -> watched[me] = claimed & ~BIT(me); goto out }
        :: me != WITNESS
        fi;
#endif
next:
        atomic {
            if
            :: round < ROUNDS -> round++; wanted_key(k)
            :: else -> goto out
            fi
        };

        /* ---- acquire(k) ---- */
look:
#ifndef DROP_SEQ_FIRST                  /* X3: seq is read before anything that is tested */
        read_seq();
#endif
        want = want | BIT(BUCKET(k));
#ifndef DROP_WATCH_FIRST                /* the watches stand before the word is tested */
        watch_others();
#endif
#ifdef DROP_WORD_FIRST                  /* key and generation are read before the word that proves them valid */
        d_step { fits = (key == k); old = ((outdated & BIT(me)) != 0) };
        atomic {
            load_word(me, w);
#else
        load_word(me, w);
        atomic {
            d_step { fits = (key == k); old = ((outdated & BIT(me)) != 0) };
#endif
            if
            :: STATE(w) == ABANDONED -> result = LOST; goto acquired
            :: STATE(w) != ABANDONED && old -> outdated = outdated & ~BIT(me); result = LOST; goto acquired
            :: STATE(w) == FREE && fits && !old -> fits = false
            :: else -> forget_word(me); w = 0; fits = false; old = false; goto doze
            fi
        };
        atomic {
            swap_word(me, w, WORD(me, OWNED), GOES_ON, ok);
            if
            :: ok ->
                assert(owner == NO_PARTY);                /* rule: K10 */
                assert(key == k);                       /* rule: K11 */
                assert(!(unnotified & BIT(me)));            /* rule: K27 */
                owner = me; result = GRANTED
            :: else -> w = 0; goto look
            fi
        };
#ifdef REJECTED_OWNER_WAKES             /* instead of watching all: a new owner wakes the sleepers, which then watch it */
        wake_everyone();
#endif
        goto acquired;
doze:
#ifdef DROP_SEQ_FIRST
        read_seq();
#endif
        if                                              /* FUTEX_WAIT_BITSET(seq as read, {bucket of k, control}) */
        :: d_step { !(seq_moved & BIT(me)) -> asleep = asleep | BIT(me); sleeps_on[me] = k }
        :: atomic { else -> forget_seq(); goto look }
        fi;
#ifdef DROP_WATCH_FIRST
        watch_others();
#endif
        atomic {
            !(asleep & BIT(me)) ->
            if
            :: expired & BIT(me) -> expired = expired & ~BIT(me); result = TIMED_OUT; goto acquired
            :: else -> forget_seq(); goto look
            fi
        };
acquired:
        atomic {
            forget_word(me); forget_seq(); w = 0; fits = false; old = false; ok = false; k = 0;
            if
            :: result == LOST -> unnotified = unnotified & ~BIT(me); result = 0
            :: result == GRANTED -> result = 0; goto holding
            :: result == TIMED_OUT -> result = 0; goto next
            fi
        };

        /* ---- recover(): ABANDONED to owned by me. Pending values are in pending_values.pml. rule: K27 ---- */
        atomic {
            load_word(me, w);
            if
            :: recoveries < RECOVERIES && STATE(w) == ABANDONED
            :: forget_word(me); w = 0; goto next        /* the caller need not recover */
            fi
        };
        atomic {
            swap_word(me, w, WORD(me, OWNED) | POISONED, ENDS, ok);
            w = 0;
            if
            :: ok -> assert(owner == NO_PARTY); owner = me; ok = false; recoveries++
            :: else -> goto next
            fi
        };
#ifndef DROP_GENERATION
        outdated = EVERYONE & ~BIT(me);
#endif
        d_step { assert(word == (WORD(me, OWNED) | POISONED)); word = WORD(me, OWNED) };
#ifndef DROP_RECOVER_WAKE
        wake_everyone();
#endif
        unnotified = unnotified & ~BIT(me);

holding:
        if
        /* ---- release(k): only the owner gets here ---- */
        :: atomic { released_key(k); key = k };
            d_step {
                assert(word == WORD(me, OWNED) && owner == me);
                word = WORD(me, FREE); moved = 255; owner = NO_PARTY
            };
            atomic {
                if
                :: want & BIT(BUCKET(k)) -> want = want & ~BIT(BUCKET(k))
                :: else -> k = 0; goto next
                fi
            };
            bump_seq();
#ifdef DROP_WAKE_ALL                    /* (*) */
            wake_one(BUCKET(k));
#else
            wake(BUCKET(k));
#endif
            atomic { k = 0; goto next }
#ifdef CLOSES
        /* ---- close() of a handle that owns. rule: K7. release() of a POISONED word goes the same way ---- */
        :: d_step {
                assert(word == WORD(me, OWNED) && owner == me);
                word = WORD(me, ABANDONED); moved = 255; owner = NO_PARTY; unnotified = EVERYONE
            };
#ifdef DROP_ABANDON_WAKE                /* only the bucket of the key, not everyone */
            bump_seq(); wake(BUCKET(0));
#else
            wake_everyone();
#endif
            goto next
#endif
        fi;
out:
        atomic { finished = finished | BIT(me); w = 0; round = 0 }
    } unless {
        d_step { IS_DEAD(me) -> w = 0; k = 0; result = 0; i = 0; round = 0; fits = false; old = false; ok = false }
    }
}

/* The service thread of process `me`: notified of a death by pidfd, whether it came before or after
 * the watch. rule: K9 */
proctype Service(byte me) {
    byte w, i, d = NO_PARTY;
    bool ok, won, silent;
    {
        skip;
notified:
        atomic {
            if
            :: watched[me] & dead & BIT(0) -> d = 0
            :: watched[me] & dead & BIT(1) -> d = 1
            :: watched[me] & dead & BIT(2) -> d = 2
            fi;
            goto check
        };
again:  skip;
check:  atomic {
            load_word(SERVICE(me), w);
            if
            :: STATE(w) == OWNED && SLOT(w) == d
            :: else ->
                d_step {
                    /* (*) Wake in any case: the dead process, or a service that won and died, may
                     * have left a wake undone. */
#ifdef DROP_NON_OWNER_WAKE
                    silent = (!won && STATE(w) != ABANDONED);
#endif
#ifdef DROP_LOSER_WAKE
                    silent = (!won && STATE(w) == ABANDONED);
#endif
                    forget_word(SERVICE(me)); w = 0; won = false
                }
                goto checked
            fi
        };
        atomic {
            swap_word(SERVICE(me), w, WORD(d, ABANDONED), ENDS, ok);
            if
            :: ok -> won = true; unnotified = EVERYONE; owner = NO_PARTY
            :: else
            fi;
            w = 0; ok = false;
            goto again
        };
checked:
        if
        :: atomic { !silent -> bump_seq() }; wake(CONTROL)
        :: silent
        fi;
        /* Only now may the slot be used again. */
        atomic {
            claimed = claimed & ~BIT(d);
            watched[me] = watched[me] & ~BIT(d); silent = false; d = NO_PARTY;
            goto notified
        }
    } unless {
        d_step { IS_DEAD(me) -> w = 0; i = 0; d = 0; ok = false; won = false; silent = false }
    }
}

#define RESTING         ((asleep | finished | dead) == EVERYONE)
#define HEARD(p)        (IS_DEAD(p) || (watched[p] & dead) == 0)

/* Kills processes and lets deadlines pass; checks the assertions at the standstill. */
active proctype Fate() {
    byte deaths, expiries, p;
    do
    :: atomic {
        deaths < DEATHS -> any_party(p);
        if
        :: !IS_DEAD(p) && (VICTIMS & BIT(p)) ->
            deaths++;
            dead = dead | BIT(p);
            wake_one(p);
            watched[p] = 0; expired = expired & ~BIT(p);
            forget_word(p); forget_word(SERVICE(p)); seq_moved = seq_moved | BIT(p)
        :: else
        fi;
        p = 0
      }
    :: atomic {
        expiries < EXPIRIES && asleep != 0 -> any_party(p);
        if
        :: asleep & BIT(p) -> expiries++; wake_one(p); expired = expired | BIT(p)
        :: else
        fi;
        p = 0
      }
    :: atomic { RESTING && HEARD(0) && HEARD(1) && HEARD(2) ->
        for (p : 0 .. N - 1) {
            if
            :: asleep & BIT(p) ->
                assert(STATE(word) != ABANDONED);                       /* rule: K8 */
                assert(STATE(word) != OWNED || !IS_DEAD(SLOT(word)));   /* rule: K9 */
                assert(STATE(word) != FREE || key != sleeps_on[p]);     /* rule: K10 K15 */
                assert(!(outdated & BIT(p)))                            /* rule: K27 */
            :: else
            fi
        }
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
