"""An engine straight on Vulkan: descriptors (E12, E13), instances and queues (E10)."""

from __future__ import annotations

import pytest
from support.engine_process import run_with_layer
from support.image_sets import ImageSets
from support.sampling_engine import WAYS, SamplingEngine

import vkshare as vks
from vkshare.engines import layer

USAGE = ("render", "sample", "copy")


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
    with engine.device.create_surface(8, 8, usage=USAGE) as surface:
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


def across_bindings() -> dict[str, bool]:
    engine = ImageSets()
    with engine.device.create_surface(8, 8, usage=USAGE) as surface, surface.access():
        shared = engine.texture(surface)
        surface.release()
        own, seen = engine.own, {}
        wide = engine.new_set()
        engine.write(wide, 0, own, shared)
        seen["a write that goes on in the next binding"] = engine.is_seen(wide)
        target = engine.new_set(own, own)
        engine.copy(wide, 1, target)
        seen["a copy of what it wrote there"] = engine.is_seen(target)
        target = engine.new_set(own, own)
        engine.copy(engine.new_set(own, shared), 0, target, 2)
        seen["a copy that goes on in the next binding"] = engine.is_seen(target)
        engine.write(target, 0, own, own)
        engine.write(target, 1, own)
        seen["what is written in its place"] = engine.is_seen(target)
        target = engine.new_set(own, own)
        engine.copy(engine.new_set(own, shared), 0, target)
        seen["a copy of another descriptor"] = engine.is_seen(target)
        engine.write_backwards(target, own, shared)
        seen["a template that goes backwards"] = engine.is_seen(target)
        surface.acquire()
        return seen


@pytest.mark.rule("E12")
def test_descriptors_are_seen_wherever_a_write_or_a_copy_goes_on() -> None:
    assert run_with_layer(across_bindings) == {
        "a write that goes on in the next binding": True,
        "a copy of what it wrote there": True,
        "a copy that goes on in the next binding": True,
        "what is written in its place": False,
        "a copy of another descriptor": False,
        "a template that goes backwards": True,
    }


def two_instances(turns: int) -> int:
    """Two engines that know nothing of each other share an image, each in its turn."""
    one, two = SamplingEngine("write"), SamplingEngine("template")
    with one.device.create_surface(8, 8, usage=USAGE) as near, near.export() as descriptor:
        far = two.device.open_surface(descriptor)
        near.acquire(0)
        one.prepare(one.texture(near))
        two.prepare(two.texture(far))
        near.release(0)
        for turn in range(turns):
            drawing, sampling = (one, two) if turn % 2 else (two, one)
            mine, theirs = (near, far) if turn % 2 else (far, near)
            with mine.access(0, 1, 10) as view:
                drawing.device.submit(drawing.device.record().clear(view, (turn / 255, 0, 1, 1)))
            with theirs.access(1, 0, 10):
                assert sampling.sample(names_image=turn < 2) == (turn, 0, 255, 255)
        two.device.close()
    return layer.misuses()


@pytest.mark.rule("E10", "E12")
@pytest.mark.parametrize("validation", ["", "below"])
def test_engines_with_an_instance_each_share_an_image(validation: str) -> None:
    assert run_with_layer(two_instances, 10, validation=validation) == 0


def on_the_second_queue() -> list[int] | str:
    try:
        engine = SamplingEngine(queues=2)
    except LookupError as error:
        return str(error)
    seen = []
    with engine.device.create_surface(8, 8, usage=USAGE) as surface, surface.access():
        engine.prepare(engine.texture(surface))
        for queue in (0, 1, 0):
            engine.sample(names_image=queue == 0, queue=queue)
            seen.append(layer.misuses())
    return seen


@pytest.mark.rule("E10", "E12")
def test_a_submission_to_another_queue_than_the_devices_is_reported() -> None:
    found = run_with_layer(on_the_second_queue)
    if isinstance(found, str):
        pytest.skip(found)
    assert found == [0, 1, 1]
