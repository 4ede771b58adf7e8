"""Which instances of the models are checked, and which points are dropped from each.

An instance is small enough to be searched to the end. A point is dropped from the smallest instance that can show what it is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Instance:
    """One size and scenario of a model: `defines` are the macros that its source explains, `drops` its DROP_ macros."""

    model: str
    name: str
    defines: Mapping[str, int] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    pan_flags: tuple[str, ...] = ()
    run_flags: tuple[str, ...] = ()


#: Each party's acquire and release key: a ring 0 -> 1 -> 2 -> 0.
RING = {"KEY0": 0, "KEY1": 1, "KEY2": 2, "NEXT0": 1, "NEXT1": 2, "NEXT2": 0}
#: Three parties want the same key, and release it with any.
SAME = {"KEY0": 0, "KEY1": 0, "KEY2": 0}
#: Keys 0 and 2 share a bucket.
BUCKET = {"KEY0": 0, "KEY1": 2, "KEY2": 0}
CALM = {"DEATHS": 0, "EXPIRIES": 0, "RECOVERIES": 0}
COLLAPSE = ("-DCOLLAPSE",)

QUICK: tuple[Instance, ...] = (
    Instance("fence_page", "two followers", {}, (
        "DROP_SEQ_FIRST", "DROP_BUMP", "DROP_WAKE_ALL", "DROP_LOOK_AGAIN", "DROP_COMPLETED_AFTER", "DROP_QUEUED_AFTER",
        "DROP_WAKE_UNTIL_GONE",
    )),
    Instance("keyed_mutex", "one key", {**CALM, **SAME, "EXPIRIES": 1}, ("DROP_EPOCH", "DROP_WORD_FIRST")),
    Instance("keyed_mutex", "shared bucket", {**CALM, **BUCKET, "EXPIRIES": 1}, ("DROP_WAKE_ALL", "DROP_SEQ_FIRST")),
)
FULL: tuple[Instance, ...] = ()
