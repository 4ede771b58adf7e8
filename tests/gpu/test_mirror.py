"""Mirrors between a GPU and the CPU backend, and between two GPUs of a host (rules G1 to G3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare.core.mirror import Mirror
from vkshare.errors import AbandonedError, UnsupportedError

pytest_plugins = ["support.peer_processes"]

pytestmark = pytest.mark.vks_gpu

WIDTH, HEIGHT = 128, 64
Pair = tuple[vks.Device, vks.Device]


@pytest.fixture(params=["GPU to CPU", "CPU to GPU", "GPU to GPU"])
def devices(request: pytest.FixtureRequest, gpu: Callable[..., vks.Device]) -> Iterator[Pair]:
    """The device of a surface, and that of its mirror."""
    with ExitStack() as stack:
        if request.param == "GPU to GPU":
            others = [each for each in vks.adapters("vulkan") if each.kind == "gpu"]
            if len(others) < 2:
                pytest.skip("one GPU is here")
            home, mirrored = (stack.enter_context(vks.open(each)) for each in others[:2])
        else:
            home, mirrored = gpu(), stack.enter_context(vks.open(backend="cpu"))
            if request.param == "CPU to GPU":
                home, mirrored = mirrored, home
        yield home, mirrored


def filled(surface: Any, number: int, rect: tuple[int, int, int, int], **options: Any) -> None:
    with surface.access(timeout=30, **options) as view:
        commands = surface.device.record().fill_rect(view, rect, (number / 255,) * 4)
        surface.device.submit(commands)


def pixels(surface: Any) -> np.ndarray[Any, Any]:
    with surface.access(timeout=30, writable=False):
        found: np.ndarray[Any, Any] = surface.read()
        return found


@pytest.mark.rule("G1", "G2")
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
@pytest.mark.parametrize("seed", range(3))
def test_random_turns_show_the_newest_pixels(devices: Pair, tiling: str, seed: int) -> None:
    home, mirrored = devices
    random = np.random.default_rng(seed)
    if tiling not in home.capabilities.tilings:
        pytest.skip(f"{home.adapter.name} has no {tiling} surfaces")
    with home.create_surface(WIDTH, HEIGHT, tiling=tiling) as surface, mirrored.mirror(surface) as mirror:
        parties = (surface, mirror)
        expected = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
        for _ in range(80):
            party = parties[random.integers(2)]
            x, y = int(random.integers(WIDTH)), int(random.integers(HEIGHT))
            width, height = int(random.integers(1, WIDTH - x + 1)), int(random.integers(1, HEIGHT - y + 1))
            rect = (x, y, width, height)
            number = int(random.integers(256))
            filled(party, number, rect, **({"damage": [rect]} if random.integers(2) else {}))
            expected[y : y + height, x : x + width] = number
            if not random.integers(4):
                assert (pixels(parties[random.integers(2)]) == expected).all()
        for party in parties:
            assert (pixels(party) == expected).all()


@pytest.mark.rule("G3")
def test_every_format_arrives_bit_for_bit(devices: Pair) -> None:
    home, mirrored = devices
    random = np.random.default_rng(1)
    done = []
    for name in vks.formats.FORMATS:
        try:
            surface = home.create_surface(WIDTH, HEIGHT, name)
        except UnsupportedError:
            continue
        with surface, mirrored.mirror(surface) as mirror:
            for writer, reader in ((surface, mirror), (mirror, surface)):
                with writer.access(timeout=30):
                    arrays = [
                        random.random(each.shape).astype(each.dtype)
                        if each.dtype.kind == "f"
                        else random.integers(0, np.iinfo(each.dtype).max, each.shape, endpoint=True).astype(each.dtype)
                        for each in writer.read_planes()
                    ]
                    writer.write_planes(arrays)
                with reader.access(timeout=30, writable=False):
                    found = reader.read_planes()
                assert [each.tobytes() for each in found] == [each.tobytes() for each in arrays], name
        done.append(name)
    assert len(done) >= 10, done


@pytest.mark.rule("G1", "K9")
def test_the_death_of_either_side(gpu: Callable[..., vks.Device], peers: Callable[..., Any]) -> None:
    peer = peers(name="home")
    surface = peer.device.create_surface(WIDTH, HEIGHT)
    with vks.open(backend="cpu") as other, surface.export() as descriptor, other.mirror(descriptor) as mirror:
        assert isinstance(mirror, Mirror)
        filled(mirror, 9, (0, 0, WIDTH, HEIGHT))
        surface.acquire(0, 10)
        assert (surface.read() == 9).all()
        peer.kill()
        with pytest.raises(AbandonedError):
            mirror.acquire(0, 10)
        mirror.recover()
        mirror.release(0)
        filled(mirror, 7, (0, 0, WIDTH, HEIGHT))
        assert (pixels(mirror) == 7).all()


@pytest.mark.rule("G2")
def test_report_of_a_4k_frame(devices: Pair, record_property: Callable[[str, object], None]) -> None:
    home, mirrored = devices
    whole, part = (0, 0, 3840, 2160), (0, 0, 480, 270)
    with home.create_surface(3840, 2160) as surface, mirrored.mirror(surface) as mirror:
        for name, rect, options in (("whole", whole, {}), ("1/64", part, {"damage": [part]})):
            times = []
            for number in range(12):
                filled(surface, number, rect, **options)
                home.wait_idle()
                start = time.monotonic()
                with mirror.access(timeout=30, writable=False, damage=()):
                    mirrored.wait_idle()
                    times.append(time.monotonic() - start)
                    assert (mirror.read()[5, 5] == number).all()
            print(f"{home.adapter.name} -> {mirrored.adapter.name}, {name}: {sorted(times)[6] * 1e3:.2f} ms")
            record_property(name, sorted(times)[6])
