/* The queue page's futex: `seq`, `want`, and the producer end. SLEEPERS threads of one process
 * share the consumer end. Producer 0 has the other end open, commits PAIRS, and may close it. Then
 * producer 1 opens it, in its own process, and commits one more. A process of VICTIMS may die at
 * any step. The consumer's process is notified of a death if it watches the process. Left out: an
 * end that was never open, beside which a sleeper watches no process; the opening wakes it or, if
 * the opener dies before its wake, the next opening. rule: X2 X3 Q16 Q18
 *
 * Asserted: at the standstill no thread sleeps beside a pair, beside a closed end, or beside a dead
 * producer.
 */
#ifndef PAIRS
#define PAIRS           1
#endif
#ifndef SLEEPERS
#define SLEEPERS        2
#endif
#ifndef VICTIMS
#define VICTIMS         1
#endif
#define BIT(i)          (1 << (i))

#define OPEN(p)         (p)             /* the producer end's word */
#define CLOSED          2
byte end = OPEN(0);
byte committed = 0, taken = 0;
bool want = false;
byte seq_moved = 255;                   /* bit s: seq moved since sleeper s read it (page.inc says why) */
byte asleep = 0;

byte dead = 0;                          /* bit p: producer p's process */
byte watched = 0;                       /* bit p: the consumer's process watches p */
byte over = 0;                          /* bit s: sleeper s had a ClosedError */

/* Wakes for an opening, a closing or a death: ignores `want`, and leaves it set. */
inline wake_all() { seq_moved = 255; asleep = 0 }

/* Wakes for a commit. */
inline wake_wanting() {
#ifdef DROP_CLEAR_FIRST                 /* cleared after the bump: it may belong to a sleeper that has read the new seq */
    seq_moved = 255;
#endif
    if
    :: atomic { !want -> skip }
    :: want ->
        want = false;
#ifndef DROP_CLEAR_FIRST
        seq_moved = 255;
#endif
#ifdef DROP_WAKE_ALL                    /* the woken thread may find the pair taken, or be about to return an error */
        if
        :: atomic { asleep & BIT(0) -> asleep = asleep & ~BIT(0) }
        :: atomic { asleep & BIT(1) -> asleep = asleep & ~BIT(1) }
        :: atomic { asleep == 0 -> skip }
        fi
#else
        asleep = 0
#endif
    fi
}

#ifdef DROP_PLAIN_WAKE                  /* a process that is not watched clears `want`, and dies */
#define wake_others     wake_wanting
#else
#define wake_others     wake_all
#endif

/* Run by each process that detects the death, in any order. */
inline handle_death(p) {
    if
    :: atomic { end == OPEN(p) -> end = CLOSED };
        wake_others()
    :: atomic { end != OPEN(p) -> skip };
#ifndef DROP_DEATH_WAKE                 /* dead between its clearing of `want` and its wake, or between close and wake */
        wake_others()
#endif
    fi
}

proctype Producer(byte me) {
    byte n = 0;
    {
        if
        :: me == 0
        :: me == 1 ->
            if                                          /* Q4: the end is free, or its holder is dead */
            :: end == CLOSED
            :: (dead & BIT(0)) -> handle_death(0)
            fi;
            atomic { end == CLOSED -> end = OPEN(1) };
            wake_others()
        fi;
        do
        :: n < (me == 0 -> PAIRS : 1) -> committed++; n++; wake_wanting()
        :: n == (me == 0 -> PAIRS : 1) -> break
        od;
        if
        :: true                                         /* it stays open, and no further wake comes */
        :: atomic { end == OPEN(me) -> end = CLOSED };
            wake_others()
        fi
    } unless { atomic { (dead & BIT(me)) -> n = 0 } }
}

proctype Service() {
    byte handled;
    do
    :: atomic { (dead & watched & ~handled & BIT(0)) -> handled = handled | BIT(0) }; handle_death(0)
    :: atomic { (dead & watched & ~handled & BIT(1)) -> handled = handled | BIT(1) }; handle_death(1)
    od
}

proctype Sleeper(byte me) {
    bool closed;
    do
    ::
#ifndef DROP_SEQ_FIRST                  /* X3 */
        seq_moved = seq_moved & ~BIT(me);
#endif
#ifndef DROP_WANT_FIRST                 /* set before the check, or a commit does not wake */
        want = true;
#endif
        atomic {                        /* the end first, so that pairs committed before the close are seen */
            closed = (end == CLOSED);
            if
            :: end == OPEN(0) -> watched = watched | BIT(0)
            :: end == OPEN(1) -> watched = watched | BIT(1)
            :: else
            fi
        };
        if
        :: atomic { taken < committed -> taken++; closed = false; seq_moved = seq_moved | BIT(me) };
            if
            :: true                                     /* dequeues again */
            :: true -> break
            fi
        :: atomic { taken == committed && closed -> over = over | BIT(me); seq_moved = seq_moved | BIT(me); break }
        :: taken == committed && !closed ->
#ifdef DROP_SEQ_FIRST
            seq_moved = seq_moved & ~BIT(me);
#endif
#ifdef DROP_WANT_FIRST
            want = true;
#endif
            if                                          /* FUTEX_WAIT(seq as read) */
            :: atomic { !(seq_moved & BIT(me)) -> asleep = asleep | BIT(me) };
                atomic { !(asleep & BIT(me)) -> seq_moved = seq_moved | BIT(me) }
            :: seq_moved & BIT(me)
            fi
        fi
    od
}

active proctype Fate() {
    bool done;
    do
    :: atomic { !done && (VICTIMS & ~dead & BIT(0)) -> dead = dead | BIT(0) }
    :: atomic { !done && (VICTIMS & ~dead & BIT(1)) -> dead = dead | BIT(1) }
    :: atomic { !done -> done = true }
    :: timeout ->
        assert(asleep == 0 || taken == committed);
        assert(asleep == 0 || end != CLOSED);
        assert(asleep == 0 || end != OPEN(0) || !(dead & BIT(0)));
        assert(asleep == 0 || end != OPEN(1) || !(dead & BIT(1)));
        break
    od
}

init {
    byte s;
    atomic {
        run Producer(0); run Producer(1); run Service();
        for (s : 0 .. SLEEPERS - 1) { run Sleeper(s) }
    }
}
