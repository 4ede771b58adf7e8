"""What is given to clears: the very float that a code of the format stands for."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from vkshare import formats

colours = pytest.importorskip("vkshare.backends.vulkan.colours", exc_type=ImportError)

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5 / 255, 1.5 / 255, 2.5 / 255, 65519.0, 65520.0, -1e30, 5e-8, 1e-45)


@pytest.mark.parametrize("name", ["rgba8unorm", "rgb10a2unorm", "rgba16float", "rgba32float"])
def test_colours_are_rounded_as_arithmetic_in_single_precision_rounds_them(name: str) -> None:
    dice = random.Random(7)
    pixel_format = formats.get(name)
    for _ in range(500):
        colour = [dice.choice((*SPECIAL, dice.uniform(-0.2, 1.2), dice.randrange(510) / 2 / 255)) for _ in range(4)]
        with np.errstate(over="ignore"):
            exact = np.asarray(colour, np.float32)
            if name == "rgba16float":
                exact = exact.astype(np.float16).astype(np.float32)
            elif name != "rgba32float":
                levels = np.array((1023, 1023, 1023, 3) if name == "rgb10a2unorm" else (255,) * 4, np.float32)
                exact = np.rint(np.clip(exact, np.float32(0), np.float32(1)) * levels) / levels
        assert colours.storable(colour, pixel_format) == tuple(exact.tolist()), colour


def test_a_negative_zero_stays_one_after_a_positive_one() -> None:
    stored = formats.get("r32float")
    assert math.copysign(1, colours.storable((0.0, 0, 0, 0), stored)[0]) == 1
    assert math.copysign(1, colours.storable((-0.0, 0, 0, 0), stored)[0]) == -1
