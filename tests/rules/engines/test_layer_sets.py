"""Descriptors by which an engine uses a surface's image: the layer sees each kind (E12), in layout GENERAL (E13)."""

from __future__ import annotations

import pytest
from support.engine_process import run_with_layer
from support.sampling_engine import WAYS, SamplingEngine

import vkshare as vks
from vkshare.engines import layer

pytestmark = pytest.mark.driver_dependent


@pytest.fixture(autouse=True)
def _needs_vulkan(vks_adapter: vks.Adapter) -> None:
    if vks_adapter.backend != "vulkan":
        pytest.skip("there are no VkDevices on the CPU backend")


def sampled(way: str) -> tuple[list[tuple[int, ...]], list[int]] | str:
    """The pixels that three turns sampled, and the submissions outside a turn, before and after one more."""
    try:
        engine = SamplingEngine(way)
    except LookupError as error:
        return str(error)
    seen = []
    with engine.device.create_surface(8, 8, usage=("render", "sample", "copy")) as surface:
        with surface.access(0, 1):
            engine.prepare(engine.texture(surface))
            engine.sample(names_image=True)
        for turn in range(1, 4):
            with surface.access(2 * turn - 1, 2 * turn) as view:
                engine.device.submit(engine.device.record().clear(view, (turn / 255, 1, 0, 1)))
            with surface.access(2 * turn, 2 * turn + 1):
                seen.append(engine.sample(names_image=False))
        before = layer.misuses()
        engine.sample(names_image=False)
        return seen, [before, layer.misuses()]


@pytest.mark.rule("E12", "E13")
@pytest.mark.parametrize(
    ("way", "validation"),
    [
        *((way, "") for way in WAYS),
        *((way, "below") for way in WAYS if way[-1] != "2"),  # 1.3.239 does not know VK_KHR_maintenance6
    ],
)
def test_an_image_is_seen_behind_each_kind_of_descriptor(way: str, validation: str) -> None:
    found = run_with_layer(sampled, way, validation=validation)
    if isinstance(found, str):
        pytest.skip(found)
    assert found == ([(turn, 255, 0, 255) for turn in range(1, 4)], [0, 1])
