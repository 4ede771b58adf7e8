/* The versions of a mirror's two images. A plain handle and mirrors take turns with a surface of two
 * pixels; each turn writes some of them, and says which, or does not. A copy may fail, an acquire may
 * be granted later (mode="gpu"), and an owner may die at any step, after which another party recovers
 * the surface.
 * rule: G1 G2
 *
 * Asserted: the owner of a turn sees the newest pixels that were released, and after a recovery those
 * of the home image. An image has a bit for each pixel: it is the newest one.
 */
#ifndef MIRRORS
#define MIRRORS 1
#endif
#ifndef TURNS
#define TURNS   5           /* of all parties */
#endif
#ifndef DEATHS
#define DEATHS  0
#endif

#define ALL     3           /* a bit a pixel */
#define RING    2           /* damage entries */
#define UNKNOWN 255

/* The page. */
bool owned = false, abandoned = false;
byte epoch = 1;
byte entry_epoch[RING];
byte entry_mask[RING];

byte newest[3] = ALL;       /* of the home image, and of those of the mirrors 1 and 2 */
byte turns = 0, deaths = 0;

/* `mask`: the pixels that turns after the epoch `seen` may have changed. */
inline changed_since(seen, mask, at)
{
    mask = 0;
    at = seen + 1;
    if
    :: seen == UNKNOWN -> mask = ALL; at = epoch + 1
    :: else
    fi;
    do
    :: at > epoch -> break
    :: else ->
        if
#ifdef DROP_EPOCH               /* an entry is taken for that of any turn */
        :: true -> mask = mask | entry_mask[at % RING]
#else
        :: entry_epoch[at % RING] == at -> mask = mask | entry_mask[at % RING]
        :: else -> mask = ALL
#endif
        fi;
        at++
    od;
    at = 0
}

/* The pixels of `mask` become those of another image. */
#define COPY(target, source, mask) newest[target] = (newest[target] & ~(mask)) | (newest[source] & (mask))

proctype Party(byte me)
{
    byte seen = UNKNOWN, mask, at, writes;
    bool says, later;

    do
    :: atomic {
            turns < TURNS && !owned ->
            turns++;
            owned = true;
            later = false;
            if
            :: abandoned -> abandoned = false; epoch++; newest[0] = ALL; newest[1] = 0; newest[2] = 0
            :: !abandoned && me > 0 -> later = true
            :: !abandoned
            fi
        };

        /* ---- the first copy of a mirror's turn ---- */
        if
        :: me > 0 ->
            atomic {
                changed_since(seen, mask, at);
                mask = (later -> ALL : mask)  /* copied behind a grant that is not known yet */
            };
            if
            :: atomic { COPY(me, 0, mask); seen = (later -> UNKNOWN : epoch); mask = 0 }
            :: atomic { seen = UNKNOWN; mask = 0; epoch++; owned = false; goto next } /* it failed: given back */
            fi
        :: else
        fi;

        /* ---- the turn ---- */
        atomic {
            assert(newest[me] == ALL);
            if
            :: writes = 0
            :: writes = 1
            :: writes = 2
            fi;
            if
            :: says = true
            :: says = false             /* or the body raises */
            fi;
            at = newest[me];
            newest[0] = newest[0] & ~writes;
            newest[1] = newest[1] & ~writes;
            newest[2] = newest[2] & ~writes;
            newest[me] = at;
            at = 0
        };
        if
        :: atomic { deaths < DEATHS -> deaths++; goto dies }
        :: true
        fi;

        /* ---- the last copy of a mirror's turn ---- */
        atomic {
            mask = (says -> writes : ALL);
            if
            :: me > 0 && !writes -> says = true; mask = 0    /* the page says that nothing has changed */
            :: else
            fi;
#ifdef DROP_UNSAID                      /* a turn whose owner says nothing is taken for one that changed nothing */
            if :: !says -> says = true; mask = 0 :: else fi;
#endif
#ifndef DROP_COPY_BACK                  /* the pixels stay in the mirror's image */
            if :: me > 0 -> COPY(0, me, mask) :: else fi;
#endif
        };
        if
        :: atomic { deaths < DEATHS -> deaths++; goto dies }
        :: true
        fi;
        if
        :: says && !later -> atomic { entry_mask[(epoch + 1) % RING] = mask; entry_epoch[(epoch + 1) % RING] = epoch + 1 }
        :: else
        fi;
        if
        :: atomic { deaths < DEATHS -> deaths++; goto dies }
        :: true
        fi;
        atomic {
            epoch++;
            owned = false;
            seen = (me > 0 && !later -> epoch : UNKNOWN);
            mask = 0; writes = 0; says = false
        };
next:
        skip
    :: turns == TURNS -> break
    od;
    goto out;

dies:
    atomic { epoch++; abandoned = true; owned = false };
out:
    skip
}

init
{
    byte each = 0;
    atomic {
        do
        :: each <= MIRRORS -> run Party(each); each++
        :: else -> break
        od
    }
}
