"""All codes, sampled densely, of each format in planes against the exact conversion in float64. Rule Y3."""

from __future__ import annotations

import numpy as np
import pytest
from support.pixel_formats import PLANAR
from support.planar_pictures import Planes, exact

import vkshare as vks
from vkshare.color import Color
from vkshare.formats import get

pytestmark = [pytest.mark.rule("Y3"), pytest.mark.driver_dependent, pytest.mark.full]

COLORS = [Color(matrix=matrix, range=range) for matrix in ("bt709", "bt601", "bt2020") for range in ("limited", "full")]
CHROMA = np.append(np.arange(0, 255, 5), 255)  # 52 codes, of which 2,704 pairs are made: 692,224 triples


def _triples(name: str) -> Planes:
    """Each code of luma from left to right, in two rows of pixels for each pair of chroma's codes."""
    form = get(name)
    across, down = form.chroma
    shift, step = (6, 4) if name == "p010" else (0, 1)
    blue, red = (each.reshape(-1, 1).repeat(2 // down, 0) for each in np.meshgrid(CHROMA, CHROMA))
    luma = np.arange(256).reshape(1, -1, 1).repeat(2 * CHROMA.size**2, 0)
    pairs = np.stack([blue, red], 2).repeat(256 // across, 1)
    chroma = [pairs] if len(form.planes) == 2 else [pairs[..., :1], pairs[..., 1:]]
    # The last code is all ones, in 10 bits too.
    return tuple(
        ((plane * step + (plane == 255) * (step - 1)) << shift).astype(form.dtype) for plane in (luma, *chroma)
    )


@pytest.mark.parametrize("color", COLORS, ids=lambda color: f"{color.matrix}-{color.range}")
@pytest.mark.parametrize("name", PLANAR)
def test_seven_hundred_thousand_triples_are_one_code_at_most_from_the_exact_ones(
    vks_device: vks.Device, name: str, color: Color
) -> None:
    if name not in vks_device.capabilities.formats:
        pytest.skip(f"no {name}: {vks_device.capabilities.reasons[f'format {name}']}")
    planes = _triples(name)
    height, width, _ = planes[0].shape
    with (
        vks_device.create_surface(width, height, name, color=color) as video,
        vks_device.create_surface(width, height) as target,
        video.access() as source,
        target.access() as view,
    ):
        video.write_planes(planes)
        vks_device.submit(vks_device.record().blit(source, view, filter="nearest"))
        found = target.read()
    wrong = np.abs(found[..., :3] - exact(planes, name, color) * 255).max()
    assert wrong <= 1
    assert (found[..., 3] == 255).all()
