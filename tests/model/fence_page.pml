/* The fence page: one signaller writes it, followers map it read-only. rule: X2 X3 X21 X24
 *
 * The signaller submits VALUES pieces of work in turn; the driver may refuse one (the device is
 * lost); the GPU ends them in order; the signaller's service thread publishes that. The signaller's
 * process may die at any step. Follower f sleeps for value f + 1, until it is reached or can no
 * longer come. A follower cannot raise seq: its own service thread is notified of the death and
 * wakes until every sleeper has left.
 *
 * Asserted: completed never runs ahead of the GPU; a success is true; no failure is reported for a
 * value that came before the end; the driver has every value that `queued` shows to other queues;
 * at the standstill no follower is left waiting.
 */

#ifndef FOLLOWERS
#define FOLLOWERS       2
#endif
#define VALUES          FOLLOWERS
#define BIT(i)          (1 << (i))

#define LIVE            0
#define LOST            1
#define CLOSED          2

/* The page. seq is kept as one bit a follower: it moved since f read it (page.inc says why). */
byte queued = 0, completed = 0, status = LIVE;
byte seq_moved = 255;
byte asleep = 0;

byte accepted = 0;                      /* the driver has the work of values up to this one */
byte counter = 0;                       /* the semaphore: the GPU has done it */

bool dead = false;                      /* the signaller's process */
byte inside = 0;                        /* bit f: f is between entering and leaving its wait (its process knows) */
byte watching = 0;                      /* bit f: f's process watches the signaller */

inline publish() {                      /* the changes were written before */
#ifndef DROP_BUMP                       /* a wake alone misses a thread that is about to sleep */
    seq_moved = 255;
#endif
#ifdef DROP_WAKE_ALL                    /* (*) one sleeper is woken, whichever value it waits for */
    if
    :: asleep & BIT(0) -> asleep = asleep & ~BIT(0)
    :: asleep & BIT(1) -> asleep = asleep & ~BIT(1)
    :: asleep == 0
    fi
#else
    asleep = 0
#endif
}

proctype Signaller() {
    byte v = 1;
    {
        do
        :: v <= VALUES ->
#ifdef DROP_QUEUED_AFTER                /* published before the driver has the work */
            queued = v;
#endif
            if
            :: accepted = v
            :: break                    /* refused: the device is lost */
            fi;
#ifndef DROP_QUEUED_AFTER
            queued = v;
#endif
            publish();
            v++
        :: else -> break
        od;
        if
        :: v <= VALUES
        :: v > VALUES -> completed == VALUES            /* close() waits for its own work */
        fi;
        status = (v <= VALUES -> LOST : CLOSED);
        publish()
    } unless { atomic { dead -> v = 0 } }
}

/* The GPU ends its work also when the process is gone. */
proctype Gpu() {
    do
    :: atomic { counter < accepted -> counter++ }
    od
}

/* The signaller's service thread. */
proctype Publisher() {
    {
        do
#ifdef DROP_COMPLETED_AFTER             /* published when handed to the driver, not when seen done */
        :: atomic { completed < accepted -> completed = accepted };
#else
        :: atomic { completed < counter -> completed = counter };
#endif
            publish()
        od
    } unless { dead }
}

proctype Follower(byte f) {
    byte value = f + 1;
    bool over;
    inside = inside | BIT(f);
look:
#ifndef DROP_SEQ_FIRST                  /* X3: seq, then the test, then the sleep on that seq */
    seq_moved = seq_moved & ~BIT(f);
#endif
    if
    :: completed >= value -> goto success
    :: else
    fi;
    atomic {
        over = (status != LIVE || dead);
        watching = watching | BIT(f);
#ifdef DROP_LOOK_AGAIN                  /* the value came between the two tests, and then the end */
        if
        :: over -> goto failure
        :: else
        fi
#endif
    };
    if
    :: over && completed >= value -> goto success
    :: atomic { over && completed < value -> goto failure }
    :: !over
    fi;
#ifdef DROP_SEQ_FIRST
    seq_moved = seq_moved & ~BIT(f);
#endif
    if                                                  /* FUTEX_WAIT(seq as read) */
    :: atomic { !(seq_moved & BIT(f)) -> asleep = asleep | BIT(f) }
    :: else -> goto look
    fi;
    atomic { !(asleep & BIT(f)) -> seq_moved = seq_moved | BIT(f); goto look };
success:
    assert(counter >= value);
    goto out;
failure:
    /* A value that came before the end counts. A lost device may still end its work, and publish
     * it, a moment later. */
    assert(completed < value || status == LOST);
out:
    atomic { inside = inside & ~BIT(f); over = false; seq_moved = seq_moved | BIT(f) }
}

/* The service thread of follower f's process: notified of the death by pidfd, early or late. */
proctype NotifiedSleeper(byte f) {
    dead && (watching & BIT(f));
#ifdef DROP_WAKE_UNTIL_GONE             /* one wake: a thread that has tested and not yet slept sleeps forever */
    asleep = asleep & ~BIT(f)
#else
    do
    :: atomic { asleep & BIT(f) -> asleep = asleep & ~BIT(f) }
    :: !(inside & BIT(f)) -> break
    od
#endif
}

/* Kills the signaller, or does not. Checks the assertions at any moment, and at the standstill. */
active proctype Judge() {
    bool mercy;
    do
    :: atomic { completed > counter -> assert(false) }
    :: atomic { queued > accepted && status == LOST -> assert(false) }  /* a GPU that waits for it waits for ever */
    :: atomic { !dead && !mercy -> dead = true }
    :: atomic { !dead && !mercy -> mercy = true }
    :: timeout -> assert(inside == 0); break
    od
}

init {
    byte f;
    atomic {
        run Signaller(); run Gpu(); run Publisher();
        for (f : 0 .. FOLLOWERS - 1) { run Follower(f); run NotifiedSleeper(f) }
    }
}
