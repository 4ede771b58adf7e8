"""A GPU with a queue family that only copies: what needs no more than that goes there, and the order stays one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from support import cuda_peer
from support.pixel_formats import WITHOUT_DEPTH
from support.run_volumes import rounds, seeded, unhurried

import vkshare as vks

pytest_plugins = ["support.adopted_devices", "support.peer_processes"]
pytestmark = [pytest.mark.vks_gpu, unhurried]

Open = Callable[..., vks.Device]
Array = np.ndarray[Any, Any]
LINEAR: dict[str, Any] = {"tiling": "linear", "memory": "device"}
TILINGS: list[dict[str, Any]] = [{"tiling": "optimal"}, LINEAR, {"tiling": "linear", "memory": "host"}]


@pytest.fixture
def device(gpu: Open) -> vks.Device:
    device = gpu(name="copies")
    if device._backend.context.transfer_family is None:  # type: ignore[attr-defined]
        pytest.skip("no queue family only copies")
    return device


def transfers(device: vks.Device) -> int:
    return device.statistics().transfers


def pixels_for(surface: vks.Surface, dice: Any) -> Array:
    dtype: np.dtype[Any] = surface.spec.format.numpy_dtype
    high = 1000 if dtype.kind == "f" else np.iinfo(dtype).max + 1
    return np.random.default_rng(dice.getrandbits(32)).integers(0, high, surface.shape).astype(dtype)


@pytest.mark.parametrize("name", WITHOUT_DEPTH)
def test_copies_between_all_tilings_run_beside_graphics_and_move_every_byte(device: vks.Device, name: str) -> None:
    dice = seeded()
    with ExitStack() as stack:
        surfaces = [stack.enter_context(device.create_surface(67, 41, name, **tiling)) for tiling in TILINGS]
        for source in surfaces:
            for target in surfaces:
                if source is target:
                    continue
                device.wait_idle()
                before, pixels = transfers(device), pixels_for(source, dice)
                with source.access(), target.access() as view:
                    source.write(pixels)
                    device.submit(device.record().copy(source, view))
                    assert (target.read() == pixels).all()
                assert transfers(device) > before


@pytest.mark.rule("I3")
@pytest.mark.parametrize("tiling", TILINGS, ids=["optimal", "linear", "host"])
def test_copies_and_cuda_take_turns_without_graphics(device: vks.Device, cuda: None, tiling: dict[str, Any]) -> None:
    dice = seeded()
    with (
        device.create_surface(64, 64, **tiling) as surface,
        device.create_surface(64, 64, **tiling) as source,
        vks.interop.cuda.open(device.open_surface(surface)) as shared,
        shared.surface,
    ):
        source.acquire()
        surface.device.wait_idle()
        for _ in range(rounds(10_000, 100)):
            pixels = pixels_for(source, dice)
            source.write(pixels)
            with surface.access(0, 1) as view:
                device.submit(device.record().copy(source, view))
            with shared.access(1, 0) as cuda_view:
                seen = cuda_peer.read(shared, cuda_view)
                assert (seen == pixels).all()
                cuda_peer.write(shared, cuda_view, 255 - seen)
            with surface.access(0, 0):
                assert (surface.read() == 255 - pixels).all()
        statistics = device.statistics()
        assert statistics.transfers > statistics.submitted / 2


@pytest.mark.rule("I3")
def test_graphics_copies_and_cuda_on_one_surface_keep_one_order(device: vks.Device, cuda: None) -> None:
    """Work of each kind in any order, none of it waited for: what is there at the end is what the last one left."""
    dice = seeded()
    with (
        device.create_surface(256, 256, **LINEAR) as surface,
        device.create_surface(256, 256, **LINEAR) as source,
        vks.interop.cuda.open(device.open_surface(surface)) as shared,
        shared.surface,
        source.access() as from_view,
    ):
        clears = [device.record().clear(from_view, (n / 255, 0, 0, 1)) for n in range(16)]
        key = 0
        for _ in range(rounds(5_000, 100)):
            expected = None
            for _ in range(dice.randrange(1, 6)):
                colour = dice.randrange(16)
                match dice.randrange(3):
                    case 0:  # graphics, and then a copy of what they drew
                        with surface.access(key, key + 1) as view:
                            device.submit(clears[colour])
                            device.submit(device.record().copy(source, view))
                        expected = (colour, 0, 0, 255)
                    case 1:
                        with surface.access(key, key + 1) as view:
                            device.submit(device.record().clear(view, (0, colour / 255, 0, 1)))
                        expected = (0, colour, 0, 255)
                    case _:
                        with shared.access(key, key + 1) as cuda_view:
                            cuda_peer.fill(shared, cuda_view, colour)
                        expected = (colour,) * 4
                key += 1
            with surface.access(key, key + 1):
                assert (surface.read() == expected).all()
            key += 1


def test_another_device_takes_what_was_copied_and_gives_it_back(device: vks.Device, gpu: Open) -> None:
    dice = seeded()
    other = gpu(name="other")
    with device.create_surface(33, 65) as surface, device.create_surface(33, 65) as source, source.access():
        with surface.export() as descriptor:
            theirs = other.open_surface(descriptor)
        with theirs, other.create_surface(33, 65) as target, target.access() as target_view:
            for _ in range(rounds(3_000, 60)):
                pixels = pixels_for(source, dice)
                source.write(pixels)
                with surface.access(0, 1) as view:
                    device.submit(device.record().copy(source, view))
                with theirs.access(1, 0):
                    other.submit(other.record().copy(theirs, target_view))
                assert (target.read() == pixels).all()
        assert transfers(device)
        assert transfers(other)


def test_an_engines_device_with_one_queue_shares_its_images(device: vks.Device, engine: Any) -> None:
    dice = seeded()
    with engine.adopt() as adopted, device.create_surface(33, 65) as surface:
        with surface.export() as descriptor:
            theirs = adopted.open_surface(descriptor)
        with theirs:
            for _ in range(rounds(1_000, 30)):
                mine, back = pixels_for(surface, dice), pixels_for(surface, dice)
                with surface.access(0, 1):
                    surface.write(mine)
                with theirs.access(1, 0):
                    assert (theirs.read() == mine).all()
                    theirs.write(back)
                with surface.access(0, 0):
                    assert (surface.read() == back).all()
        assert transfers(device)
        assert not transfers(adopted)
