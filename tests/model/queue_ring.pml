/* The queue's ring and the words of its surfaces. Frames go one way, from a sender that stays
 * alive, over two surfaces, to receivers, one after the other. Each receiver except the last may
 * die at any step. The next one opens the end once the death is reported, recovers the surfaces
 * that the dead one owned, and returns them. The way back is a ring too, of which only the
 * differences are modelled: surfaces come in any order, and a pair can be pending.
 * rule: Q9 Q16 Q18 K27
 *
 * Asserted: a receiver sees with each pair the pixels that were drawn for it, each frame once, in
 * order; a ring never holds more pairs than it has places; at the standstill each frame was sent
 * and no surface is lost.
 */
#define SURFACES        2
#ifndef FRAMES
#define FRAMES          3
#endif
#define RECEIVERS       2
#define PLACES          4               /* a power of two, twice the surfaces */
#define BIT(i)          (1 << (i))

/* Per surface: its word, and the sender's view of it. */
#define FREE            0
#define OWNED           1
#define ABANDONED       2
#define SENDER          RECEIVERS       /* beside the receivers, an owner */
byte state[SURFACES], owner[SURFACES], epoch[SURFACES];
byte pixels[SURFACES];
bool back[SURFACES];                    /* it is in the way back, committed */
byte back_epoch[SURFACES];              /* the epoch of its release for that place */
byte pending = 0;                       /* 1 + the surface of an uncommitted pair there */
bool outdated[SURFACES];                /* the sender's handle does not know the generation */

/* The ring. */
byte entry_surface[PLACES], entry_epoch[PLACES], entry_frame[PLACES];
byte written = 0, committed = 0, taken = 0;

byte dead = 0, buried = 0;              /* bit r: receiver r; and every process has handled its death */
byte sent = 0, seen = 0;                /* the last frame */

/* Whether a pair's surface was owned or recovered since the pair was written. */
#define IS_STALE(s, e)  (epoch[s] > (e) + (state[s] == ABANDONED -> 1 : 0))
#define IS_HERE(s, e)   (state[s] == FREE && epoch[s] == (e))

inline free(s) { epoch[s]++; state[s] = FREE }

/* Put, release, commit: the next receiver adopts pairs that this one did not commit. */
inline give_back(s) {
    atomic { back_epoch[s] = epoch[s] + 1; pending = s + 1 };
    atomic { free(s) };
    atomic { back[s] = true; pending = 0 }
}

inline adopt() {
    atomic {
        if
        :: pending && IS_HERE(pending - 1, back_epoch[pending - 1]) -> back[pending - 1] = true
        :: else
        fi;
        pending = 0
    }
}

inline recover_any() {
    if
    :: atomic { state[0] == ABANDONED -> state[0] = OWNED; owner[0] = SENDER; s = 0 }
    :: atomic { state[1] == ABANDONED -> state[1] = OWNED; owner[1] = SENDER; s = 1 }
    fi;
    outdated[s] = false
}

proctype Sender() {
    byte s = 0, frame = 1;
    do
    :: frame <= FRAMES ->
        if                                              /* a surface: dequeued from the way back, or recovered */
        :: atomic { back[0] && IS_STALE(0, back_epoch[0]) -> back[0] = false }; goto again
        :: atomic { back[1] && IS_STALE(1, back_epoch[1]) -> back[1] = false }; goto again
        :: atomic { back[0] && IS_HERE(0, back_epoch[0]) -> s = 0 }
        :: atomic { back[1] && IS_HERE(1, back_epoch[1]) -> s = 1 }
        :: recover_any(); goto draw
        fi;
        atomic {                                        /* K27: AbandonedError once, and the pair stays where it is */
            if
            :: outdated[s] -> outdated[s] = false;
#ifdef DROP_NOTICE_KEEPS                /* the notice consumes the pair, and the surface is lost */
                back[s] = false;
#endif
                goto again
            :: !outdated[s] -> back[s] = false; state[s] = OWNED; owner[s] = SENDER
            fi
        };
draw:
        pixels[s] = frame;
        d_step {                                        /* put */
            assert(written - taken < PLACES);
            entry_surface[written % PLACES] = s;
            entry_epoch[written % PLACES] = epoch[s] + 1;
            entry_frame[written % PLACES] = frame;
            written++
        };
        atomic { free(s) };                             /* release */
        committed++;
        frame++;
again:
        s = 0
    :: frame > FRAMES -> sent = FRAMES; break
    od
}

proctype Receiver(byte me) {
    byte s = 0, place = 0, n = 0;
    {
        if                                              /* the end is free */
        :: me == 0
        :: me > 0 -> (buried & BIT(me - 1));
            adopt();
            do                                          /* pairs that an earlier receiver left */
            :: n < SURFACES ->
                if
                :: atomic { state[n] == ABANDONED -> state[n] = OWNED; owner[n] = me };
                    outdated[n] = true;
                    give_back(n)
                :: state[n] != ABANDONED
                fi;
                n++
            :: n == SURFACES -> break
            od
        fi;
        do
        :: taken < committed ->
            place = taken % PLACES;
            s = entry_surface[place];
#ifdef DROP_TAKEN_LAST                  /* the pair leaves the ring before its surface is owned: a death loses both */
            taken++;
#endif
            if
#ifdef DROP_EPOCH                       /* acquires in any epoch: another frame, which comes again */
            :: atomic { state[s] == FREE -> state[s] = OWNED; owner[s] = me };
#else
            :: atomic { state[s] == FREE && epoch[s] == entry_epoch[place] -> state[s] = OWNED; owner[s] = me };
#endif
#ifndef DROP_TAKEN_LAST
                taken++;                                /* kill point 22 is before this */
#endif
                atomic {
                    assert(pixels[s] == entry_frame[place]);
                    assert(pixels[s] > seen);
                    seen = pixels[s]
                };
                give_back(s)
            :: atomic { state[s] == ABANDONED && epoch[s] == entry_epoch[place] + 1 -> taken++ }        /* AbandonedError */
#ifndef DROP_STALE                      /* the pair stays forever, with the pairs behind it */
            :: atomic { IS_STALE(s, entry_epoch[place]) -> taken++ }
#endif
            fi
        od
    } unless { atomic { (dead & BIT(me)) -> s = 0; place = 0; n = 0 } }
}

/* Handles a death, in the sender's process or the next receiver's: the words first. */
proctype Service() {
    byte r = 0, s = 0;
    do
    :: r < RECEIVERS - 1 && (dead & BIT(r)) ->
        do
        :: s < SURFACES ->
            atomic {
                if
                :: state[s] == OWNED && owner[s] == r -> epoch[s]++; state[s] = ABANDONED
                :: else
                fi;
                s++
            }
        :: s == SURFACES -> break
        od;
        s = 0;
        buried = buried | BIT(r);
        r++
    :: r == RECEIVERS - 1 -> break
    od
}

active proctype Fate() {
    bool done;
    do
    :: atomic { !done && !(dead & BIT(0)) -> dead = dead | BIT(0) }
    :: atomic { !done -> done = true }
    :: timeout ->
        assert(sent == FRAMES);
        assert(taken == committed);
        assert(state[0] == ABANDONED || back[0] && IS_HERE(0, back_epoch[0]));
        assert(state[1] == ABANDONED || back[1] && IS_HERE(1, back_epoch[1]));
        break
    od
}

init {
    byte s;
    atomic {
        for (s : 0 .. SURFACES - 1) { back[s] = true }
        run Sender(); run Service();
        run Receiver(0); run Receiver(1)
    }
}
