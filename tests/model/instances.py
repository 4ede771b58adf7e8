"""Which instances of the models are checked, and which points of the protocol are dropped from each.

An instance is small enough to be searched to the end. A point is dropped from the smallest one that can show what it is
for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Instance:
    """One size and scenario of a model. `defines` are macros that its source explains, `drops` its DROP_ macros.

    A `long` one is left to `make test-full`.
    """

    model: str
    name: str
    defines: Mapping[str, int] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    pan_flags: tuple[str, ...] = ()
    long: bool = False


def drops(names: str) -> tuple[str, ...]:
    return tuple(f"DROP_{name}" for name in names.split())


#: Nothing but acquire and release.
CALM = {"DEATHS": 0, "EXPIRIES": 0, "RECOVERIES": 0}
#: The keys that the three parties acquire and release with: 0 -> 1 -> 2 -> 0.
RING = {**CALM, "KEY0": 0, "KEY1": 1, "KEY2": 2, "NEXT0": 1, "NEXT1": 2, "NEXT2": 0}
#: All want one key and release with any.
ONE_KEY = {**CALM, "KEY0": 0, "KEY1": 0, "KEY2": 0}
#: Keys 0 and 2 share a bucket; released with any.
BUCKET = {**CALM, "KEY0": 0, "KEY1": 2, "KEY2": 0}
#: The connection holds, and no program dies.
SMOOTH = {"BREAKS": 0, "DEATHS": 0, "LOSSES": 0}
#: One program draws with both images and uploads to the first; the other draws with both, and presents the second.
TWO_IMAGES = {"IMAGES": 2, "WORK0": 12, "WORK1": 331}
#: Compressed states: half the speed, a third of the memory.
COLLAPSE = ("-DCOLLAPSE",)

QUICK: tuple[Instance, ...] = (
    Instance(
        "fence_page",
        "two followers",
        {},
        drops("SEQ_FIRST BUMP WAKE_ALL LOOK_AGAIN COMPLETED_AFTER QUEUED_AFTER WAKE_UNTIL_GONE"),
    ),
    Instance(
        "queue_page", "two sleepers", {"VICTIMS": 0, "PAIRS": 2}, drops("CLEAR_FIRST WAKE_ALL SEQ_FIRST WANT_FIRST")
    ),
    Instance("queue_page", "producers die", {"VICTIMS": 3, "SLEEPERS": 1}, drops("PLAIN_WAKE DEATH_WAKE")),
    Instance("queue_ring", "a receiver dies", {"FRAMES": 3}, drops("EPOCH TAKEN_LAST STALE NOTICE_KEEPS")),
    Instance("keyed_mutex", "one key", {**ONE_KEY, "EXPIRIES": 1}, drops("EPOCH WORD_FIRST")),
    Instance("keyed_mutex", "shared bucket", {**BUCKET, "EXPIRIES": 1}, drops("WAKE_ALL SEQ_FIRST")),
    Instance(
        "keyed_mutex",
        "death in a ring",
        {**RING, "DEATHS": 1, "VICTIMS": 1},
        (*drops("WATCH_ALL WATCH_FIRST NON_OWNER_WAKE"), "REJECTED_OWNER_WAKES"),
        long=True,
    ),
    Instance(
        "keyed_mutex",
        "owner and its witness die",
        {**RING, "DEATHS": 2, "WITNESS": 1},
        drops("LOSER_WAKE"),
        long=True,
    ),
    Instance(
        "keyed_mutex",
        "newcomer dies",
        {**RING, "DEATHS": 1, "LATE": 1, "FIRST_KEY": 1, "BYSTANDER": 0},
        drops("JOIN_WAKE COUNT_LAST"),
    ),
    Instance(
        "keyed_mutex",
        "closed and recovered",
        {**RING, "RECOVERIES": 1, "CLOSES": 1},
        drops("ABANDON_WAKE GENERATION RECOVER_WAKE"),
    ),
    Instance(
        "slots",
        "slot taken again",
        {"HOLDERS": 3, "TAKERS": 0, "MORTAL_HANDLERS": 0},
        drops("CLAIM_SWAP RECLAIM_SWAP INCARNATION"),
    ),
    Instance(
        "slots",
        "slot of a signaller",
        {"HOLDERS": 2, "TAKERS": 1, "MORTAL_HANDLERS": 0},
        drops("SIGNALLER_INCARNATION"),
    ),
    Instance("slots", "service thread dies", {"HOLDERS": 2, "TAKERS": 0, "MORTAL_HANDLERS": 1}, drops("RECLAIM_LAST")),
    Instance("value_waits", "sleeper for a value", {"SLEEPERS": 1, "DEATHS": 1}, drops("RAISE_ONLY SEQ_FIRST")),
    Instance(
        "value_waits",
        "recover waits for pending values",
        {"SLEEPERS": 2, "DEATHS": 1},
        drops("WANT_FIRST CLEAR_FIRST PENDING_BEFORE_WAKE DEATH_WAKE WAKE_BEFORE_FREE"),
    ),
    Instance(
        "pending_values",
        "bridge, a job fails",
        {"DEATHS": 0, "LOSSES": 1},
        drops("POISON MARK_FIRST POISONED_CHECK COMPLETE_IN_ORDER RECOVER_WAITS"),
    ),
    Instance(
        "pending_values",
        "bridge, completed at once",
        {"DEATHS": 0, "LOSSES": 1, "COMPLETE_AT_ONCE": 1},
        drops("RAISE_ONLY"),
    ),
    Instance("pending_values", "bridge, a death", {"DEATHS": 1, "LOSSES": 0}, drops("SIGNALLER")),
    Instance("pending_values", "bridge, hand-overs without work, a death", {"DEATHS": 1, "LOSSES": 0, "IDLE": 1}, ()),
    Instance(
        "pending_values",
        "native, a job fails",
        {"NATIVE": 1, "DEATHS": 0, "LOSSES": 1},
        drops("POISON MARK_FIRST COMPLETE_IN_ORDER"),
    ),
    Instance(
        "pending_values",
        "native, completed at once",
        {"NATIVE": 1, "DEATHS": 0, "LOSSES": 1, "COMPLETE_AT_ONCE": 1},
        drops("HOLD_MARKED"),
    ),
    Instance(
        "pending_values", "native, a party stalls", {"NATIVE": 1, "DEATHS": 0, "STALLS": 1}, drops("QUEUED_FIRST")
    ),
    Instance(
        "pending_values",
        "native, a death",
        {"NATIVE": 1, "DEATHS": 1, "LOSSES": 0},
        drops("ORPHANED MARK_BEFORE_SIGNAL SIGNAL_IN_ORDER SIGNAL_CHECK OWN_QUEUE_ONLY REAPED SIGNALLER RECOVER_WAITS"),
    ),
    Instance("mirror", "one mirror", {}, drops("EPOCH UNSAID COPY_BACK")),
    Instance("mirror", "two mirrors", {"MIRRORS": 2}, long=True),
    Instance("mirror", "an owner dies", {"DEATHS": 1}),
    Instance("remote", "one image", SMOOTH, drops("TURNS LAST_PART STALE_TURN LANES")),
    Instance("remote", "two images", {**SMOOTH, **TWO_IMAGES, "BREAKS": 1}, (), long=True),
    Instance("remote", "the connection breaks", {**SMOOTH, "BREAKS": 1}, drops("DUPLICATE RESEND")),
    Instance("remote", "a program dies", {**SMOOTH, "DEATHS": 1}, drops("UNSENT DRAIN")),
    Instance(
        "remote",
        "a program dies, uploads wait",
        {**SMOOTH, "DEATHS": 1, "WORK0": 211, "WORK1": 21},
        drops("YIELD"),
        long=True,
    ),
    Instance("remote", "another session", {**SMOOTH, "LOSSES": 1}, drops("GENERATION SENDER_GENERATION")),
)

#: More at once in one run: minutes and gigabytes each.
FULL: tuple[Instance, ...] = (
    Instance("queue_page", "two sleepers, producers die", {"VICTIMS": 3, "PAIRS": 2}, (), COLLAPSE),
    Instance("queue_ring", "more frames", {"FRAMES": 5}, (), COLLAPSE),
    Instance("keyed_mutex", "any keys", {**CALM, "EXPIRIES": 1}, (), COLLAPSE),
    Instance("keyed_mutex", "death of any in a ring, recovered", {**RING, "DEATHS": 1, "RECOVERIES": 1}, (), COLLAPSE),
    Instance("slots", "everything", {}, (), COLLAPSE),
    Instance("value_waits", "both sleepers", {"SLEEPERS": 3, "DEATHS": 1}, (), COLLAPSE),
    Instance("pending_values", "bridge, a death and a failure", {"DEATHS": 1, "LOSSES": 1}, (), COLLAPSE),
    Instance(
        "pending_values", "bridge, a dead signaller's surface stays free", {"FREE_PENDING_UNMARKED": 1}, (), COLLAPSE
    ),
    Instance("pending_values", "bridge, two deaths", {"DEATHS": 2, "LOSSES": 0}, (), COLLAPSE),
    Instance("pending_values", "native, a death and a failure", {"NATIVE": 1, "DEATHS": 1, "LOSSES": 1}, (), COLLAPSE),
    Instance("pending_values", "bridge, hand-overs without work", {"DEATHS": 1, "LOSSES": 1, "IDLE": 1}, (), COLLAPSE),
    Instance(
        "pending_values",
        "native, hand-overs without work",
        {"NATIVE": 1, "DEATHS": 1, "LOSSES": 0, "IDLE": 1},
        (),
        COLLAPSE,
    ),
    Instance(
        "pending_values",
        "native, completed at once, a death",
        {"NATIVE": 1, "DEATHS": 1, "LOSSES": 1, "COMPLETE_AT_ONCE": 1},
        (),
        COLLAPSE,
    ),
    Instance("pending_values", "native, two deaths", {"NATIVE": 1, "DEATHS": 2, "LOSSES": 0}, (), COLLAPSE),
    Instance("remote", "a break, a death and another session", {"BREAKS": 1, "DEATHS": 1, "LOSSES": 1}, (), COLLAPSE),
    Instance("remote", "two images, a break and a death", {**TWO_IMAGES, "BREAKS": 1, "DEATHS": 1}, (), COLLAPSE),
)
