/* Remoting: programs on the host's machine, the host, a link that breaks, and the viewer, which
 * executes each program's requests in a lane of its own. The host numbers the uses of each image in
 * the order in which it takes batches ("turns"), and a lane at the viewer waits for its turn.
 * rule: M2 M4 M5 M6 M7 M12 M17
 *
 * A step is what one thread does under one lock. Fate breaks the connection, kills programs and
 * ends the session at any step, within its budget.
 *
 * Asserted: a turn is executed once, by the message that was granted it, after the turns before it,
 * and not in the middle of another turn's upload; no packet is missing and no buffer overflows; at
 * the standstill each turn that was granted in this generation has been executed, and each program
 * that lives has come to its end.
 *
 * WORK0 and WORK1 are what the programs do, a digit a batch, the last digit first: 1 draws (with
 * all images), 2 uploads to the first image, in two parts, 3 presents the last image.
 */
#ifndef IMAGES
#define IMAGES          1
#endif
#ifndef WORK0
#define WORK0           12
#endif
#ifndef WORK1
#define WORK1           33
#endif
#ifndef BREAKS
#define BREAKS          1               /* times that the connection breaks */
#endif
#ifndef DEATHS
#define DEATHS          1
#endif
#ifndef LOSSES
#define LOSSES          0               /* times that the session is over, and another one begins */
#endif
#define LANES           2
#define MOST            7               /* messages of a lane, and its end */
#define TURNS           8               /* of an image */
#define WINDOW          1               /* messages of a lane that its reader has not taken */
#define KEPT            3               /* packets that are not acknowledged */
#define DEPTH           (WINDOW + 1)    /* with the lane's end, which needs no room */
#define WIRE            2               /* packets on the way */
#define PICTURES        1               /* uploads that are sent and not acknowledged */
#define BIT(i)          (1 << (i))

/* Kinds of messages. PART and LAST are the two of an upload, SKIP is a present that was replaced. */
#define GONE            0
#define DRAW            1
#define PART            2
#define SHOW            3
#define LAST            4
#define SKIP            5
#define END             6
#define NO_TURN         15

/* Each message: of lane m / MOST. It does not change once it was sent. */
byte kind[LANES * MOST], turn0[LANES * MOST], turn1[LANES * MOST];
#define LANE_OF(m)      ((m) / MOST)
#define TURN(m, i)      ((i) == 0 -> turn0[m] : turn1[m])

/* The programs, and the keyed mutexes on their machine. */
byte owner[IMAGES];                     /* 1 + the program that owns the image */
byte held[IMAGES];                      /* 1 + the program whose upload is not on its way: work that uses the image is held */
bool dead[LANES];
bool settled[LANES];                    /* it has done its work, or is dead */

/* The host. */
byte relay_generation = 0;              /* of the session that the relay knows */
byte next_turn[IMAGES];
byte granted[IMAGES * TURNS];           /* 1 + the message that was granted the turn */
byte put[LANES], sent[LANES];           /* messages of a lane; those that were sent come first */
byte first = LANES, second = LANES;     /* lanes that wait to send an upload, in their order */

/* The link: the host's end, the connection, the viewer's end. */
byte generation = 0;
byte packet[LANES * MOST];              /* the message of each packet that is not acknowledged */
byte number = 0, next = 0, acked = 0;   /* the next new packet, the next to be sent, the first not acknowledged */
byte known[LANES];                      /* messages of the lane that were consumed, as the host knows */
bool is_up = true, has_asked = false;
byte reported = 0;                      /* what the viewer expects, as it said when it asked to resume */
chan wire = [WIRE] of { byte, byte, byte };     /* generation, number, message */
chan acks = [1] of { byte, byte, byte };        /* expected, consumed of each lane */
byte expected = 0, consumed[LANES], told = 0;

/* The viewer: a lane's messages, of which its session executes the first one, and the images' mutexes. */
byte inbox[LANES * DEPTH];              /* 1 + the message; the first of lane l is inbox[l * DEPTH] */
byte waiting[LANES];
byte has[LANES];                        /* bit i: the session owns image i */
byte key[IMAGES];
bool taken[IMAGES], half[IMAGES];       /* owned; an upload has begun, and is not whole */

/* ---- the programs, and the host that takes their batches ---- */

inline enqueue(l, k, a, b) {
    kind[l * MOST + put[l]] = k;
    turn0[l * MOST + put[l]] = a;
    turn1[l * MOST + put[l]] = b;
    put[l]++
}

inline grant(i) {
    assert(next_turn[i] < TURNS);
    granted[(i) * TURNS + next_turn[i]] = l * MOST + put[l] + 1;
    next_turn[i]++
}

/* A present that has not been sent is replaced, and its turn stays in its place. */
inline replace() {
    for (n : sent[l] .. put[l]) {
        if
        :: n < put[l] && kind[l * MOST + n] == SHOW ->
#ifdef DROP_STALE_TURN                  /* it is removed with its turn */
            kind[l * MOST + n] = GONE
#else
            kind[l * MOST + n] = SKIP
#endif
        :: else
        fi
    }
    n = 0
}

inline take() {
    if
    :: k == DRAW ->
        grant(0);
#if IMAGES > 1
        grant(1);
        enqueue(l, DRAW, next_turn[0] - 1, next_turn[1] - 1)
#else
        enqueue(l, DRAW, next_turn[0] - 1, NO_TURN)
#endif
    :: k == PART ->
        grant(0);
        held[0] = l + 1;
        enqueue(l, PART, next_turn[0] - 1, NO_TURN);
        enqueue(l, LAST, next_turn[0] - 1, NO_TURN)
    :: k == SHOW ->
        replace();
        grant(IMAGES - 1);
#if IMAGES > 1
        enqueue(l, SHOW, NO_TURN, next_turn[1] - 1)
#else
        enqueue(l, SHOW, next_turn[0] - 1, NO_TURN)
#endif
    fi
}

#define MAY_OWN(i)      (owner[i] == 0 && held[i] == 0)
#define FIRST_IMAGE(k)  ((k) == SHOW -> IMAGES - 1 : 0)
#define LAST_IMAGE(k)   ((k) == PART -> 0 : IMAGES - 1)

proctype Program(byte l) {
    byte k = 0, n = 0, mine = 0;
    short work = (l == 0 -> WORK0 : WORK1);
    {
        do
        :: atomic { work > 0 && k == 0 -> k = work % 10; work = work / 10; mine = relay_generation };
            if                                          /* the keyed mutexes; a new session makes the images anew */
            :: atomic { MAY_OWN(FIRST_IMAGE(k)) && mine == relay_generation -> owner[FIRST_IMAGE(k)] = l + 1 }
            :: atomic { mine != relay_generation -> k = 0 }
            fi;
            if
            :: atomic { k && FIRST_IMAGE(k) != LAST_IMAGE(k) && mine == relay_generation && MAY_OWN(IMAGES - 1)
                        -> owner[IMAGES - 1] = l + 1 }
            :: atomic { k && mine != relay_generation -> k = 0 }
            :: k == 0 || FIRST_IMAGE(k) == LAST_IMAGE(k)
            fi;
            atomic {                                    /* the batch */
                if
#ifdef DROP_SENDER_GENERATION           /* a batch of a session that is over goes into the new one */
                :: k && mine == relay_generation -> take()
#else
                :: k && mine == relay_generation && relay_generation == generation -> take()
#endif
                :: else                                 /* RemoteLostError */
                fi
            };
            atomic {                                    /* release() */
                if
                :: k && mine == relay_generation ->
                    owner[FIRST_IMAGE(k)] = 0;
                    owner[LAST_IMAGE(k)] = 0
                :: else
                fi;
                k = 0
            }
        :: atomic { work == 0 && k == 0 -> settled[l] = true }; break
        od
    } unless { atomic { dead[l] -> k = 0; n = 0; mine = 0; work = 0; settled[l] = true } }
}

/* A program dies: others recover what it owned, and the host still sends what it has taken. */
inline die(l) {
    dead[l] = true;
    for (i : 0 .. IMAGES - 1) {
        if :: owner[i] == l + 1 -> owner[i] = 0 :: else fi;
        if :: held[i] == l + 1 -> held[i] = 0 :: else fi
    }
#ifdef DROP_UNSENT                      /* what waits for room is dropped: its turns never come */
    put[l] = sent[l];
#endif
    enqueue(l, END, NO_TURN, NO_TURN)
}

/* ---- the link ---- */

#define HEAD(l)         (l * MOST + sent[l])
#define IS_QUEUED(l)    (sent[l] < put[l])
#define HAS_ROOM(l)     (sent[l] - known[l] < WINDOW || kind[HEAD(l)] == END)
#define MAY_SEND        (is_up && next == number && number - acked < KEPT && nfull(wire))

inline send(l) {
    packet[number] = HEAD(l);
    if
    :: kind[HEAD(l)] == LAST && held[0] == l + 1 -> held[0] = 0       /* it is on its way */
    :: else
    fi;
    wire ! generation, number, HEAD(l);
    number++;
    next++;
    sent[l]++
}

/* How many uploads are not acknowledged. */
inline count_pictures() {
    pictures = 0;
    for (n : acked .. number) {
        if :: n < number && kind[packet[n]] == PART -> pictures++ :: else fi
    }
    n = 0
}

inline lane_sends(l) {
    if
    :: kind[HEAD(l)] == GONE -> sent[l]++; known[l]++
    :: kind[HEAD(l)] == PART ->
        count_pictures();
        if
        :: first == l && pictures < PICTURES && HAS_ROOM(l) -> send(l); first = second; second = LANES
#ifdef DROP_YIELD                       /* a lane without room keeps its place, and the others wait behind it */
        :: first != l && second != l ->
#else
        :: first != l && second != l && HAS_ROOM(l) ->
#endif
            if :: first == LANES -> first = l :: else -> second = l fi
        :: else
        fi;
        pictures = 0
    :: else -> send(l)
    fi
}

#define CAN_PART(l)     (first == l && HAS_ROOM(l) || first != l && second != l ASKS(l))
#ifdef DROP_YIELD
#define ASKS(l)
#else
#define ASKS(l)         && HAS_ROOM(l)
#endif
#define LANE_MAY(l)     (IS_QUEUED(l) && MAY_SEND && (kind[HEAD(l)] == PART -> CAN_PART(l) : HAS_ROOM(l)))

active proctype Host() {
    byte n = 0, pictures = 0, a = 0, b = 0, e = 0;
    do
    :: atomic { LANE_MAY(0) -> lane_sends(0) }
    :: atomic { LANE_MAY(1) -> lane_sends(1) }
    :: atomic { is_up && next < number && nfull(wire) -> wire ! generation, next, packet[next]; next++ }
    :: atomic { is_up && nempty(acks) -> acks ? e, a, b; assert(e <= number); acked = e; if :: e > next -> next = e :: else fi;
                known[0] = a; known[1] = b; e = 0; a = 0; b = 0 }
    :: atomic { relay_generation != generation ->       /* the relay learns of the new session */
            relay_generation = generation;
            for (n : 0 .. IMAGES - 1) { next_turn[n] = 0; owner[n] = 0; held[n] = 0 }
            n = 0
        }
    od
}

/* The viewer's end. It handles what it has read of a broken connection until it has another one. */
active proctype Reader() {
    byte g = 0, n = 0, m = 0;
    do
#ifdef DROP_LANES                       /* a message that waits for its turn stops all that come after it */
    :: atomic { nempty(wire) && !waiting[0] && !waiting[1] ->
#else
    :: atomic { nempty(wire) ->
#endif
            wire ? g, n, m;
            if
#ifndef DROP_GENERATION                 /* packets of a session that is over are executed */
            :: g != generation
#endif
#ifndef DROP_DUPLICATE                  /* packets that were sent again are executed again */
            :: n < expected
#endif
            :: else ->
#ifndef DROP_DUPLICATE
                assert(n == expected);
                expected++;
#else
                assert(n <= expected);
                if :: n == expected -> expected++ :: else fi;
#endif
#ifdef DROP_DRAIN                       /* the end of a lane ends its session at once */
                if
                :: kind[m] == END && !has[LANE_OF(m)] ->
                    for (n : 0 .. DEPTH - 1) { inbox[LANE_OF(m) * DEPTH + n] = 0 };
                    waiting[LANE_OF(m)] = 0
                :: else
                fi;
#endif
                assert(waiting[LANE_OF(m)] < DEPTH);
                inbox[LANE_OF(m) * DEPTH + waiting[LANE_OF(m)]] = m + 1;
                waiting[LANE_OF(m)]++
            fi;
            g = 0; n = 0; m = 0
        }
    :: atomic { is_up && empty(acks) && told != expected + consumed[0] + consumed[1] ->
            acks ! expected, consumed[0], consumed[1];
            told = expected + consumed[0] + consumed[1]
        }
    :: atomic { !is_up && !has_asked -> has_asked = true; reported = expected }
    :: atomic { !is_up && has_asked ->                  /* resumed: the old connection is closed */
            do
            :: nempty(wire) -> wire ? _, _, _
            :: empty(wire) -> break
            od;
            assert(acked <= reported && reported <= number);
            acked = reported;
#ifdef DROP_RESEND                      /* goes on after the last packet that was sent, not that arrived */
            next = number;
#else
            next = reported;
#endif
            is_up = true; has_asked = false; reported = 0; told = 255
        }
    od
}

/* ---- the viewer ---- */

#define MESSAGE         (inbox[l * DEPTH] - 1)          /* the first one of the lane */
#define WAITS(i)        (TURN(MESSAGE, i) != NO_TURN && !(has[l] & BIT(i)))
#ifdef DROP_TURNS                       /* any order */
#define IS_TURN(i)      (!taken[i])
#else
#define IS_TURN(i)      (!taken[i] && key[i] == TURN(MESSAGE, i))
#endif
#ifdef DROP_LAST_PART                   /* the first part ends the turn, and the second one needs none */
#define ENDS_TURN       (kind[MESSAGE] != LAST)
#define HAS_TURNS       (kind[MESSAGE] == LAST || !WAITS(0) && !WAITS(1))
#else
#define ENDS_TURN       (kind[MESSAGE] != PART)
#define HAS_TURNS       (!WAITS(0) && !WAITS(1))
#endif

inline own(i) {
    assert(granted[(i) * TURNS + key[i]] == MESSAGE + 1);
    assert(!half[i]);
    taken[i] = true;
    has[l] = has[l] | BIT(i)
}

inline let_go(i) {
    if
    :: has[l] & BIT(i) ->
        taken[i] = false;
        has[l] = has[l] & ~BIT(i);
        key[i]++
    :: else
    fi
}

inline execute() {
    if
    :: kind[MESSAGE] == PART -> half[0] = true
    :: kind[MESSAGE] == LAST -> half[0] = false
    :: else
    fi;
    if
    :: ENDS_TURN -> let_go(0); let_go(IMAGES - 1)
    :: else
    fi;
    if :: kind[MESSAGE] != END -> consumed[l]++ :: else fi
}

inline pop(l) {
    for (n : 1 .. DEPTH - 1) { inbox[l * DEPTH + n - 1] = inbox[l * DEPTH + n] };
    inbox[l * DEPTH + DEPTH - 1] = 0;
    waiting[l]--;
    n = 0
}

/* A session acquires its images in order, and holds the first one while it waits for the second. */
proctype Session(byte l) {
    byte n = 0;
    do
    :: atomic { waiting[l] && WAITS(0) && IS_TURN(0) -> own(0) }
#if IMAGES > 1
    :: atomic { waiting[l] && !WAITS(0) && WAITS(1) && IS_TURN(1) -> own(1) }
#endif
    :: atomic { waiting[l] && HAS_TURNS -> execute(); pop(l) }
    od
}

/* ---- fate ---- */

/* Another viewer, or the same one without its state: the host drops what was for the old one. */
inline lose_session() {
    generation++;
    number = 0; next = 0; acked = 0; expected = 0; reported = 0; told = 0;
    first = LANES; second = LANES;
    is_up = true; has_asked = false;
    do :: nempty(acks) -> acks ? _, _, _ :: empty(acks) -> break od;
    for (i : 0 .. LANES - 1) {
        sent[i] = put[i]; known[i] = sent[i]; consumed[i] = sent[i];
        waiting[i] = 0; has[i] = 0
    };
    for (i : 0 .. LANES * DEPTH - 1) { inbox[i] = 0 };
    for (i : 0 .. IMAGES - 1) { key[i] = 0; taken[i] = false; half[i] = false };
    for (i : 0 .. IMAGES * TURNS - 1) { granted[i] = 0 };
    i = 0
}

/* What it may do it does, at the latest at a standstill: instances without it show that no party waits for it. */
active proctype Fate() {
    byte breaks = 0, deaths = 0, losses = 0, i = 0;
    do
    :: atomic { is_up && breaks < BREAKS ->
            breaks++;
            is_up = false;
            do :: nempty(acks) -> acks ? _, _, _ :: empty(acks) -> break od
        }
    :: atomic { deaths < DEATHS && !dead[0] -> deaths++; die(0); i = 0 }
    :: atomic { deaths < DEATHS && !dead[1] -> deaths++; die(1); i = 0 }
    :: atomic { losses < LOSSES -> losses++; lose_session() }
    :: timeout ->
        assert(is_up && relay_generation == generation);
        assert(settled[0] && settled[1]);
        assert(sent[0] == put[0] && sent[1] == put[1]);
        assert(!waiting[0] && !waiting[1]);
        assert(key[0] == next_turn[0]);
        assert(key[IMAGES - 1] == next_turn[IMAGES - 1]);
        break
    od
}

init {
    atomic {
        run Program(0); run Program(1);
        run Session(0); run Session(1)
    }
}
