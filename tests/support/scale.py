"""How much a test does: as much as fits a quick run, or, with VKSHARE_SOAK=1, the full volume that the rule names."""

from __future__ import annotations

import os
import random
import sys

import pytest

SOAK = os.environ.get("VKSHARE_SOAK", "") not in ("", "0")

unhurried = pytest.mark.timeout(14_000 if SOAK else 120)  # for modules whose tests have a full volume


def rounds(full: int, quick: int) -> int:
    """Rounds to run: `full` in a soak, else `quick`."""
    return full if SOAK else quick


def seeded() -> random.Random:
    """A generator whose seed is printed, so that a failure tells it; VKSHARE_SEED repeats that run."""
    seed = int(os.environ.get("VKSHARE_SEED") or random.SystemRandom().getrandbits(32))
    print(f"VKSHARE_SEED={seed}", file=sys.stderr)
    return random.Random(seed)
