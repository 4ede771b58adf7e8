"""Mirrors by the C library alone: Python is the other party, on another adapter (rules G1 and G2)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.c_library import Library, view
from support.fd_counts import open_fds

import vkshare as vks
from vkshare.errors import AbandonedError

pytestmark = [pytest.mark.driver_dependent, pytest.mark.rule("C4", "G1")]

WIDTH, HEIGHT = 40, 24
EVERYTHING = WIDTH * HEIGHT * 4
Pair = tuple[socket.socket, socket.socket]
Open = Callable[..., "Mirror"]


@dataclass
class Mirror:
    """A mirror of the C library, and what it mirrors."""

    library: Library
    device: Any
    handle: Any
    home: vks.Surface

    def acquire(self, key: int = 0, seconds: float = 10) -> str:
        return str(self.library.mirror_acquire(self.handle, key, self.library.deadline(seconds)))

    def release(self, key: int = 0, damage: tuple[int, int, int, int] | None = None, seconds: float = 10) -> str:
        ffi = self.library.ffi
        box = ffi.NULL if damage is None else ffi.new("vks_box *", damage)
        return str(self.library.mirror_release(self.handle, key, box, self.library.deadline(seconds)))

    @property
    def pixels(self) -> np.ndarray[Any, Any]:
        """Those that C sees; the mirror is owned, and its device is of the CPU backend."""
        return view(self.library, self.library.mirror_surface(self.handle), HEIGHT, WIDTH)

    def counted(self) -> tuple[int, int, int, int]:
        """Pulls, pushes, and the bytes of each."""
        found = self.library.ffi.new("vks_mirror_statistics *")
        self.library.mirror_get_statistics(self.handle, found)
        return found.pulls, found.pushes, found.pulled_bytes, found.pushed_bytes

    def close(self) -> None:
        self.library.mirror_close(self.handle)
        self.library.mirror_unref(self.handle)


def cpu_device(library: Library) -> Any:
    name = library.ffi.new("char[]", b"C's mirror")
    return library.make("device_create", "vks_device *", library.ffi.new("vks_device_info *", {"name": name}))


def mirror_of(library: Library, device: Any, home: vks.Surface, pair: Pair) -> Mirror:
    with home.export() as descriptor:
        descriptor.send(pair[0])
    found = library.make("surface_descriptor_recv", "vks_surface_descriptor", pair[1].fileno(), library.deadline())
    try:
        return Mirror(library, device, library.make("device_mirror", "vks_mirror *", device, found), home)
    finally:
        library.surface_descriptor_close(found)


@pytest.fixture
def opened(library: Library, device: vks.Device, pair: Pair) -> Iterator[Open]:
    """Makes mirrors on the CPU backend of a new surface of the driver's: ``opened(tiling="linear")``."""
    with ExitStack() as stack:
        other = cpu_device(library)
        stack.callback(library.device_unref, other)
        stack.callback(library.device_shutdown, other)

        def one_more(**options: Any) -> Mirror:
            home = stack.enter_context(device.create_surface(WIDTH, HEIGHT, **options))
            made = mirror_of(library, other, home, pair)
            stack.callback(made.close)
            return made

        yield one_more


def tilings(device: vks.Device) -> tuple[str, ...]:
    return ("linear",) if device.backend == "cpu" else ("optimal", "linear")


def noise(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)


def write(surface: vks.Surface, pixels: np.ndarray[Any, Any]) -> None:
    with surface.access(timeout=10):
        surface.write(pixels)


def read(surface: vks.Surface) -> np.ndarray[Any, Any]:
    with surface.access(timeout=10, writable=False):
        found: np.ndarray[Any, Any] = surface.read()
        return found


# ---- pixels ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("G2", "K17")
def test_each_side_sees_what_the_other_released(device: vks.Device, opened: Open) -> None:
    for tiling in tilings(device):
        mirror = opened(tiling=tiling, usage=("copy",))  # SwiftShader has no other linear ones
        for turn in range(3):
            written = noise(turn)
            write(mirror.home, written)
            assert mirror.acquire() == "OK"
            assert (mirror.pixels == written).all()
            mirror.pixels[3:7, 5:9] = turn
            written[3:7, 5:9] = turn
            assert mirror.release() == "OK"
            assert (read(mirror.home) == written).all()


@pytest.mark.rule("G2")
def test_only_what_has_changed_is_copied(device: vks.Device, opened: Open) -> None:
    mirror = opened(tiling=tilings(device)[0])
    if device.backend == "cpu":
        pytest.skip("nothing is copied where the memory can be opened")
    mirror.acquire()
    mirror.release(damage=(0, 0, 0, 0))
    assert mirror.counted() == (1, 0, EVERYTHING, 0)
    mirror.acquire()
    before = mirror.pixels.copy()
    mirror.pixels[2:5, 4:10] = 200
    mirror.release(damage=(4, 2, 6, 3))
    assert mirror.counted() == (1, 1, EVERYTHING, 6 * 3 * 4)
    with mirror.home.access(damage=[(1, 1, 5, 2)], timeout=10) as seen:
        before[2:5, 4:10] = 200
        assert (mirror.home.read() == before).all()
        device.submit(device.record().fill_rect(seen, (1, 1, 5, 2), (1, 0, 0, 1)))
    before[1:3, 1:6] = (255, 0, 0, 255)
    mirror.acquire()
    assert mirror.counted()[2] == EVERYTHING + 5 * 2 * 4
    assert (mirror.pixels == before).all()
    mirror.release()
    assert mirror.counted()[3] == EVERYTHING + 6 * 3 * 4


@pytest.mark.rule("G3")
@pytest.mark.parametrize("format", ["r8unorm", "rgba16float", "nv12", "i420", "p010"])
def test_formats_of_other_pixels_and_planes(device: vks.Device, opened: Open, format: str) -> None:
    if format not in device.capabilities.formats:
        pytest.skip(f"no {format}: {device.capabilities.reasons[f'format {format}']}")
    mirror = opened(format=format, tiling=tilings(device)[0])
    random = np.random.default_rng(3)
    with mirror.home.access():
        zeros = mirror.home.read_planes()
        planes = [random.integers(0, 256, (*each.shape[:2], each[0, 0].nbytes), np.uint8) for each in zeros]
        mirror.home.write_planes([each.view(zero.dtype) for each, zero in zip(planes, zeros, strict=True)])
    assert mirror.acquire() == "OK"
    surface = mirror.library.mirror_surface(mirror.handle)
    assert mirror.library.surface_cpu_access(surface, mirror.library.deadline()) == "OK"
    for index, wanted in enumerate(planes):
        plane = mirror.library.ffi.new("vks_plane *")
        assert mirror.library.surface_get_plane(surface, index, plane) == "OK"
        rows = np.frombuffer(mirror.library.ffi.buffer(plane.pixels, plane.stride * plane.height), np.uint8)
        seen = rows.reshape(plane.height, plane.stride)[:, : plane.width * wanted.shape[2]]
        assert (seen == wanted.reshape(plane.height, -1)).all()
        seen[:] = 9
    assert mirror.release() == "OK"
    with mirror.home.access(timeout=10, writable=False):
        for found in mirror.home.read_planes():
            assert (found.view(np.uint8) == 9).all()


def test_a_mirror_on_the_driver_of_a_surface_of_the_cpu_backend(
    device: vks.Device, library: Library, here: Any, pair: Pair
) -> None:
    """Python draws on the mirror's image as an engine would: by the VkDevice's own copies."""
    with vks.open(backend="cpu") as other, other.create_surface(WIDTH, HEIGHT) as home:
        mirror = mirror_of(library, here, home, pair)
        second = mirror_of(library, cpu := cpu_device(library), home, pair)
        for turn in range(2):
            written = noise(turn)
            write(home, written)
            assert mirror.acquire() == "OK"
            assert mirror.release() == "OK"  # everything may have changed, so all of it goes there and back
            assert (read(home) == written).all()
            assert second.acquire() == "OK"
            assert (second.pixels == written).all()
            second.release()
        for each in (mirror, second):
            each.close()
        library.device_shutdown(cpu)
        library.device_unref(cpu)


# ---- turns -----------------------------------------------------------------------------------------------------------


def test_turns_follow_the_keys_and_the_owners(opened: Open) -> None:
    mirror = opened()
    library = mirror.library
    assert mirror.release() == "NOT_OWNER"
    mirror.home.acquire(0)
    assert mirror.acquire(seconds=0) == "TIMEOUT"
    mirror.home.release(5)
    assert mirror.acquire(4, seconds=0) == "TIMEOUT"
    assert mirror.acquire(5) == "OK"
    assert mirror.acquire(5) == "ALREADY_OWNER"
    assert library.surface_is_owned(library.mirror_party(mirror.handle))
    assert library.surface_is_owned(library.mirror_surface(mirror.handle))
    for box in ((0, 0, WIDTH + 1, 1), (WIDTH, HEIGHT, 1, 1), (2**32 - 1, 0, 2, 1)):
        assert mirror.release(0, box) == "BAD_VALUE"
        assert f"the surface is {WIDTH}x{HEIGHT}" in library.error
    assert mirror.release(6) == "OK"
    assert not library.surface_is_owned(library.mirror_surface(mirror.handle))
    mirror.home.acquire(6, 10)
    mirror.home.release(0)


@pytest.mark.rule("K7")
def test_a_mirror_that_is_closed_while_it_owns_abandons_the_surface(opened: Open) -> None:
    mirror = opened()
    write(mirror.home, written := noise(1))
    assert mirror.acquire() == "OK"
    mirror.library.mirror_close(mirror.handle)
    assert mirror.acquire() == "CLOSED"
    with pytest.raises(AbandonedError):
        mirror.home.acquire(0, 10)
    mirror.home.recover()
    assert (mirror.home.read() == written).all()
    mirror.home.release(0)


def test_a_mirror_recovers_the_surface_with_its_contents(opened: Open, device: vks.Device) -> None:
    mirror = opened()
    write(mirror.home, written := noise(2))
    with mirror.home.export() as descriptor, vks.open(device.adapter, name="second") as other:
        second = other.open_surface(descriptor)
        second.acquire(0, 10)
        second.close()
    assert mirror.acquire() == "ABANDONED"
    assert mirror.library.mirror_recover(mirror.handle, mirror.library.deadline()) == "OK"
    assert (mirror.pixels == written).all()
    assert mirror.library.mirror_recover(mirror.handle, mirror.library.deadline()) == "NOT_ABANDONED"
    assert mirror.release() == "OK"
    with pytest.raises(AbandonedError):
        mirror.home.acquire(0, 10)
    assert (read(mirror.home) == written).all()


@contextmanager
def late(home: vks.Surface, device: vks.Device, key: int) -> Iterator[vks.Fence]:
    """The surface is released, and the work of its owner waits for the fence."""
    if device.backend == "cpu":
        pytest.skip("nothing is copied where the memory can be opened")
    with device.create_fence() as gate:
        with home.access(0, key, timeout=10) as seen:
            device.submit(device.record().clear(seen, (0, 1, 0, 1)), waits=(gate, 1))
        yield gate


def test_a_pull_whose_time_is_up_hands_the_surface_back(opened: Open, device: vks.Device) -> None:
    mirror = opened()
    with late(mirror.home, device, key=3) as gate:
        assert mirror.acquire(3, seconds=0.2) == "TIMEOUT"
        assert not mirror.library.surface_is_owned(mirror.library.mirror_party(mirror.handle))
        gate.signal(1)
    assert mirror.acquire(3) == "OK"
    assert (mirror.pixels == (0, 255, 0, 255)).all()
    assert mirror.release(0) == "OK"


@pytest.fixture
def interrupts(library: Library) -> Iterator[None]:
    """Waits of this thread return each millisecond."""
    library.set_interrupt_interval(1_000_000)
    yield
    library.set_interrupt_interval(0)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_acquire_goes_on_or_is_given_up(opened: Open, device: vks.Device) -> None:
    mirror = opened()
    library = mirror.library
    with late(mirror.home, device, key=3) as gate:
        for _ in range(2):
            assert library.once("mirror_acquire", mirror.handle, 3, library.deadline()) == "INTERRUPTED"
            assert library.surface_is_owned(library.mirror_party(mirror.handle))
        assert mirror.release(4) == "OK"
        assert not library.surface_is_owned(library.mirror_party(mirror.handle))
        assert mirror.counted() == (0, 0, 0, 0)
        thread = threading.Timer(0.05, gate.signal, [1])
        thread.start()
        assert mirror.acquire(4) == "OK"
        thread.join()
    assert (mirror.pixels == (0, 255, 0, 255)).all()
    mirror.pixels[:] = 8
    assert mirror.release(0) == "OK"
    assert (read(mirror.home) == 8).all()


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_acquire_is_of_its_key_and_no_recovery(opened: Open, device: vks.Device) -> None:
    mirror = opened()
    library = mirror.library
    with late(mirror.home, device, key=3) as gate:
        assert library.once("mirror_acquire", mirror.handle, 3, library.deadline()) == "INTERRUPTED"
        assert library.once("mirror_recover", mirror.handle, library.deadline()) == "NOT_ABANDONED"
        assert mirror.release(0, (WIDTH, 0, 1, 1)) == "BAD_VALUE"
        assert mirror.acquire(77, seconds=0.05) == "TIMEOUT"
        assert not library.surface_is_owned(library.mirror_party(mirror.handle))
        gate.signal(1)
    assert mirror.acquire(3) == "OK"
    assert mirror.release(0) == "OK"


@pytest.mark.rule("K7", "K27")
def test_work_that_fails_before_the_mirrors_turn_abandons_it_and_the_mirror_goes_on(
    opened: Open, device: vks.Device
) -> None:
    for tiling in tilings(device):
        mirror = opened(tiling=tiling, usage=("copy",))
        with late(mirror.home, device, key=0) as gate:
            found: list[str] = []
            thread = threading.Thread(target=lambda one=mirror, to=found: to.append(one.acquire()))
            thread.start()
            time.sleep(0.05)  # perhaps it waits for the pixels
            gate.close()
            thread.join(30)
        assert found == ["ABANDONED"]
        assert mirror.library.mirror_recover(mirror.handle, mirror.library.deadline()) == "OK", mirror.library.error
        mirror.pixels[:] = 9
        assert mirror.release(0) == "OK"
        with pytest.raises(AbandonedError):
            mirror.home.acquire(0, 10)
        assert (read(mirror.home) == 9).all()


@pytest.mark.rule("K7")
def test_a_mirror_whose_device_has_ended_abandons_the_surface_at_its_release(
    library: Library, device: vks.Device, pair: Pair
) -> None:
    if device.backend == "cpu":
        pytest.skip("the memory is opened: the surface is the device's own")
    other = cpu_device(library)
    with device.create_surface(WIDTH, HEIGHT) as home:
        mirror = mirror_of(library, other, home, pair)
        assert mirror.acquire() == "OK"
        library.device_shutdown(other)
        assert mirror.release() == "CLOSED"
        with pytest.raises(AbandonedError):
            home.acquire(0, 10)
        mirror.close()
    library.device_unref(other)


def test_the_image_of_a_mirror_is_acquired_and_released_by_its_turns_alone(opened: Open, device: vks.Device) -> None:
    mirror = opened()
    if device.backend == "cpu":
        pytest.skip("the memory is opened: the surface is the party itself")
    library = mirror.library
    surface = library.mirror_surface(mirror.handle)
    assert library.surface_acquire(surface, 0, library.deadline()) == "BAD_CALL"
    assert "the surface is a mirror's" in library.error
    assert mirror.acquire() == "OK"
    assert library.surface_release(surface, 5) == "BAD_CALL"
    assert mirror.release() == "OK"


def test_a_recovery_whose_time_is_up_abandons_the_surface_again(opened: Open, device: vks.Device) -> None:
    if device.backend == "cpu":
        pytest.skip("nothing is copied where the memory can be opened")
    mirror = opened(tiling="optimal")
    library = mirror.library
    assert mirror.acquire() == "OK"
    with mirror.home.export() as descriptor, vks.open(device.adapter, name="second") as other:
        second = other.open_surface(descriptor)
        mirror.release()
        second.acquire(0, 10)
        second.close()
    assert mirror.acquire() == "ABANDONED"
    status = library.mirror_recover(mirror.handle, 0)
    if status == "TIMEOUT":  # the copy may be quick
        with pytest.raises(AbandonedError):
            mirror.home.acquire(0, 10)
        assert library.mirror_recover(mirror.handle, library.deadline()) == "OK"
    assert mirror.release() == "OK"


def test_a_close_ends_an_acquire_of_another_thread(opened: Open) -> None:
    mirror = opened()
    mirror.home.acquire(0)
    found: list[str] = []

    def acquire() -> None:
        while (status := mirror.acquire(seconds=100)) == "BAD_CALL":  # the other thread is in its call
            pass
        found.append(status)

    thread = threading.Thread(target=acquire)
    thread.start()
    while mirror.acquire(seconds=0) != "BAD_CALL":
        time.sleep(0.01)
    assert "another thread" in mirror.library.error
    mirror.library.mirror_close(mirror.handle)
    thread.join(30)
    assert found == ["CLOSED"]
    mirror.home.release(0)


# ---- refusals, and the end ------------------------------------------------------------------------------------------


def test_depth_on_a_driver_is_refused(library: Library, device: vks.Device, pair: Pair) -> None:
    if "d32float" not in device.capabilities.formats or device.backend == "cpu":
        pytest.skip("the CPU backend opens its depth itself")
    other = cpu_device(library)
    with device.create_surface(8, 8, "d32float") as home, pytest.raises(AssertionError, match="UNSUPPORTED"):
        mirror_of(library, other, home, pair)
    library.device_shutdown(other)
    library.device_unref(other)


def test_mirrors_that_have_ended_leave_no_fd(opened: Open, library: Library, pair: Pair) -> None:
    mirror = opened()
    counts = []
    for _ in range(4):
        again = mirror_of(library, mirror.device, mirror.home, pair)
        assert again.acquire() == "OK"
        assert again.release() == "OK"
        again.close()
        counts.append(len(open_fds()))
    assert counts[-1] <= counts[0]  # the driver keeps some from its first device on
