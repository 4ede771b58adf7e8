/* Slots of the mutex page and their incarnations. Process 1 holds a slot and owns the surface, then
 * the processes 2 and 3; each may die at any step, and the slot is taken again. Two service
 * threads, in processes with slots of their own, are notified of each death; one of them may die
 * too. One more party acquires the surface when it is free, and waits for the signaller's work.
 * rule: K9 X9
 *
 * Asserted: a slot has one live holder; a live owner does not lose its ownership; at the standstill
 * no dead owner stands in the word, and no thread waits for a signaller that is gone.
 */
#include "page.inc"

#ifndef HOLDERS
#define HOLDERS         3
#endif
#ifndef TAKERS
#define TAKERS          1
#endif
#ifndef MORTAL_HANDLERS
#define MORTAL_HANDLERS 1
#endif

#define HANDLER(h)      (4 + (h))       /* threads: 1 to 3 are the processes, 4 and 5 the service threads */
#define TAKER           6
#define TAKERS_SLOT     1

/* The slot's identity {incarnation, process}. A free slot keeps its incarnation, so that the next
 * holder's differs. */
#define IDENTITY(n, p)  ((n) * 4 + (p))
#define INCARNATION(id) ((id) / 4)
#define PROCESS(id)     ((id) & 3)
byte identity = IDENTITY(1, 1);

/* State beside the word. Each holder announces one value; its incarnation serves as the value. */
byte signaller = 0;                        /* identity of the holder whose work signals `value` */
byte value = 0, completed = 0;

byte inside = BIT(1);                   /* ground truth: processes that hold the slot */
byte handled[2];                          /* [h]: deaths that service thread h has handled */
bool handler_dead = false;

#ifdef DROP_SIGNALLER_INCARNATION          /* the page names the signaller's slot without its incarnation */
#define HOLDS_STILL(id) (PROCESS(identity) != 0 && !(dead & BIT(PROCESS(identity))))
#else
#define HOLDS_STILL(id) (identity == (id) && !(dead & BIT(PROCESS(id))))
#endif

proctype Holder(byte me) {
    byte w, id;
    bool ok;
    {
        if
        :: atomic { me == 1 -> id = IDENTITY(1, 1); goto owning }
        :: me != 1
        fi;

        /* ---- join: a swap of the identity ---- */
        atomic { PROCESS(identity) == 0 -> id = identity };
        atomic {
#ifndef DROP_CLAIM_SWAP                 /* two processes see the slot free, and both take it */
            if
            :: identity != id -> goto out
            :: else
            fi;
#endif
            id = IDENTITY(INCARNATION(id) + 1, me);
            identity = id;
            assert((inside & ~dead) == 0);
            inside = inside | BIT(me)
        };

        /* ---- acquire, or recover ---- */
        atomic {
            load_word(me, w);
            if
            :: STATE(w) == OWNED -> forget_word(me); w = 0; goto leave
            :: else
            fi
        };
        atomic {
            swap_word(me, w, WORD(0, OWNED), STATE(w) == ABANDONED, ok);
            w = 0;
            if
            :: ok -> ok = false
            :: else -> goto leave
            fi
        };
owning:
        /* ---- release, and its work ---- */
        signaller = id;
        value = INCARNATION(id);
        d_step { assert(word == WORD(0, OWNED)); word = WORD(0, FREE); moved = 255 };
        d_step { completed = (completed < INCARNATION(id) -> INCARNATION(id) : completed) };
leave:
        if
        :: goto out                                     /* stays, without a pending value */
        :: atomic { assert(identity == id); identity = IDENTITY(INCARNATION(id), 0); inside = inside & ~BIT(me) }
        fi;
out:
        atomic { w = 0; id = 0; ok = false }
    } unless { d_step { dead & BIT(me) -> inside = inside & ~BIT(me); w = 0; id = 0; ok = false } }
}

/* Service thread h: one death after the other, each when it likes. */
proctype Handler(byte h) {
    byte w, id, p;
    bool ok, ends;
    {
        skip;
notified:
        atomic {
            if
            :: (dead & ~handled[h]) & BIT(1) -> p = 1
            :: (dead & ~handled[h]) & BIT(2) -> p = 2
            :: (dead & ~handled[h]) & BIT(3) -> p = 3
            fi
        };
        atomic {
            id = identity;
            if
            :: PROCESS(id) != p -> goto over            /* another process was quicker, or it had left */
            :: else
            fi
        };
#ifdef DROP_RECLAIM_LAST                /* (*) the slot is freed before the word is checked */
        atomic {
            if
            :: identity == id -> identity = IDENTITY(INCARNATION(id), 0)
            :: else
            fi
        };
#endif
again:
        atomic {
            load_word(HANDLER(h), w);
            if
            :: STATE(w) == OWNED && SLOT(w) == 0
            :: STATE(w) == FREE && signaller == id && completed < value
            :: else -> forget_word(HANDLER(h)); w = 0; goto checked
            fi
        };
#if !defined(DROP_INCARNATION) && !defined(DROP_RECLAIM_LAST)
        atomic {                        /* (*) the incarnation is read after the word */
            if
            :: identity != id -> forget_word(HANDLER(h)); w = 0; goto checked
            :: else
            fi
        };
#endif
        atomic {
            swap_word(HANDLER(h), w, WORD(0, ABANDONED), ENDS, ok);
            w = 0; ok = false;
            goto again
        };
checked:
#ifdef DROP_RECLAIM_SWAP                /* a slow service thread frees the slot of a live party */
        identity = IDENTITY(INCARNATION(id), 0);
#else
        atomic {
            if
            :: identity == id -> identity = IDENTITY(INCARNATION(id), 0)
            :: else
            fi
        };
#endif
over:
        atomic { handled[h] = handled[h] | BIT(p); w = 0; id = 0; p = 0; ok = false; goto notified }
    } unless { d_step { (h == 0 && handler_dead) -> w = 0; id = 0; p = 0; ok = false } }
}

/* The party of another slot. rule: X9; the signaller as it was when the word was read, which the
 * successful swap proves valid. */
bool waits = false;
proctype Taker() {
    byte w, signalled_by, until;
    bool ok;
    do
    :: atomic { STATE(word) == FREE -> load_word(TAKER, w) };
        signalled_by = signaller;
        until = value;
        atomic {
            swap_word(TAKER, w, WORD(TAKERS_SLOT, OWNED), GOES_ON, ok);
            w = 0;
            if
            :: ok -> break
            :: else -> signalled_by = 0; until = 0
            fi
        }
    od;
    waits = true;
    completed >= until || !HOLDS_STILL(signalled_by);
    waits = false
}

active proctype Fate() {
    bool done;
    do
    :: atomic { !done && !(dead & BIT(1)) -> dead = dead | BIT(1); forget_word(1) }
    :: atomic { !done && !(dead & BIT(2)) -> dead = dead | BIT(2); forget_word(2) }
    :: atomic { !done && !handler_dead && MORTAL_HANDLERS -> handler_dead = true; forget_word(HANDLER(0)) }
    :: atomic { !done -> done = true }
    :: timeout ->
        assert(!waits);
        assert(word != WORD(0, OWNED) || !(dead & BIT(PROCESS(identity))) && PROCESS(identity) != 0);
        break
    od
}

init {
    atomic {
        word = WORD(0, OWNED);
        run Holder(1); run Holder(2);
        run Handler(0); run Handler(1);
        if
        :: HOLDERS > 2 -> run Holder(3)
        :: else
        fi;
        if
        :: TAKERS -> run Taker()
        :: else
        fi
    }
}
