"""How much a test does: what fits `make test`, more in `make test-full`, the full volume of its rule in `make soak`."""

from __future__ import annotations

import os
import random
import sys

import pytest

SOAK = os.environ.get("VKSHARE_SOAK", "") not in ("", "0")
FULL = SOAK or os.environ.get("VKSHARE_FULL", "") not in ("", "0")

unhurried = pytest.mark.timeout(14_000 if SOAK else 240)  # for modules whose tests have a full volume
LONG = 12_000 if SOAK else 230  # seconds of a child process with a full volume


def rounds(soak: int, quick: int, *, full: int | None = None) -> int:
    """Rounds to run: `soak` in `make soak`, `full` (if given) in `make test-full`, else `quick`."""
    if SOAK:
        return soak
    return full if FULL and full is not None else quick


def seeded() -> random.Random:
    """A generator whose seed is printed, so that a failure tells it; VKSHARE_SEED repeats that run."""
    seed = int(os.environ.get("VKSHARE_SEED") or random.SystemRandom().getrandbits(32))
    print(f"VKSHARE_SEED={seed}", file=sys.stderr)
    return random.Random(seed)
