"""Copies between buffers and surfaces in command lists: the bytes of NumPy's slices, on each driver."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import access_patterns
from support.pixel_formats import ONE_PLANE
from support.shared_handles import opened_buffer

import vkshare as vks
from vkshare.errors import ClosedError, DeviceMismatchError, InvalidCallError, NotOwnerError

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.rule("E5"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]
Bytes = np.ndarray[Any, Any]


def owned_buffer(device: vks.Device, nbytes: int, number: int = 0, **options: Any) -> vks.Buffer:
    """A buffer of some bytes, owned."""
    buffer = device.create_buffer(nbytes, **options)
    buffer.acquire()
    access_patterns.fill(buffer, number)
    return buffer


def owned_surface(device: vks.Device, width: int, height: int, name: str = "rgba8unorm") -> vks.Surface:
    """A surface of noise, owned, with the usage that any driver has."""
    surface = device.create_surface(width, height, name, usage=("copy",))
    surface.acquire()
    noise = access_patterns.filling(width * height * surface.spec.format.bytes_per_pixel, 77)
    values = noise.view(surface.spec.format.numpy_dtype)
    if name == "d32float":
        values = (noise.view(np.uint32) / np.float64(2**32)).astype(np.float32)  # depth is from 0 to 1
    surface.write(values.reshape(surface.shape))
    return surface


def pixels(surface: vks.Surface) -> Bytes:
    """Its bytes: (height, width, bytes of a pixel)."""
    height, width, _ = surface.shape
    return surface.read().view(np.uint8).reshape(height, width, surface.spec.format.bytes_per_pixel)


def put(target: Bytes, offset: int, stride: int, rows: Bytes) -> None:
    """Write the rows of pixels into flat bytes."""
    for y, row in enumerate(rows):
        flat = row.reshape(-1)
        target[offset + y * stride :][: flat.size] = flat


def get(source: Bytes, offset: int, stride: int, shape: tuple[int, ...]) -> Bytes:
    """The rows of pixels in flat bytes."""
    row = shape[1] * shape[2]
    return np.stack([source[offset + y * stride :][:row].reshape(shape[1:]) for y in range(shape[0])])


# ---- the bytes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_PLANE)
def test_a_surface_goes_into_a_buffer_and_comes_back_in_tight_rows(device: vks.Device, name: str) -> None:
    surface, other = (owned_surface(device, 13, 7, name) for _ in range(2))
    nbytes = 13 * 7 * surface.spec.format.bytes_per_pixel
    buffer = owned_buffer(device, nbytes)
    other.write(np.zeros_like(other.read()))
    device.submit(device.record().copy(surface, buffer).copy(buffer, other))
    assert (buffer.read() == pixels(surface).reshape(-1)).all()
    assert (pixels(other) == pixels(surface)).all()


@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_any_rectangle_offset_and_stride_is_the_slice_of_numpy(device: vks.Device, tiling: str) -> None:
    if tiling not in device.capabilities.tilings:
        pytest.skip(f"no {tiling} surfaces")
    dice = random.Random(5)
    for name in ("rgba8unorm", "r8unorm", "rgba32float"):
        surface = device.create_surface(31, 17, name, tiling=tiling, usage=("copy",))
        surface.acquire()
        size = surface.spec.format.bytes_per_pixel
        for number in range(12):
            surface.write(np.zeros(surface.shape, surface.spec.format.numpy_dtype))
            buffer = owned_buffer(device, 40_000, number)
            held = buffer.read()
            x, y = dice.randrange(31), dice.randrange(17)
            rect = x, y, dice.randint(1, 31 - x), dice.randint(1, 17 - y)
            offset, stride = size * dice.randrange(40), size * (rect[2] + dice.randrange(20))
            device.submit(
                device.record()
                .copy(buffer, surface, target_rect=rect, source_offset=offset, stride=stride)
                .copy(surface, buffer, source_rect=rect, target_offset=offset + 20_000 // size * size)
            )
            expected = get(held, offset, stride, (rect[3], rect[2], size))
            picture = np.zeros((17, 31, size), np.uint8)
            picture[y : y + rect[3], x : x + rect[2]] = expected
            assert (pixels(surface) == picture).all()
            put(held, offset + 20_000 // size * size, rect[2] * size, expected)
            assert (buffer.read() == held).all()
            buffer.close()


def test_any_bytes_go_from_buffer_to_buffer(device: vks.Device) -> None:
    dice = random.Random(6)
    for number in range(20):
        source, target = owned_buffer(device, 3001, number), owned_buffer(device, 5003, number + 50)
        expected, held = target.read(), source.read()
        start, at = dice.randrange(3001), dice.randrange(5003)
        nbytes = dice.randint(0, min(3001 - start, 5003 - at))
        device.submit(device.record().copy(source, target, source_offset=start, target_offset=at, nbytes=nbytes))
        expected[at : at + nbytes] = held[start : start + nbytes]
        assert (target.read() == expected).all()
    device.submit(device.record().copy(source, target, source_offset=1000))
    assert (target.read()[:2001] == held[1000:]).all()


def test_large_buffers_are_copied_whole(device: vks.Device) -> None:
    nbytes = (5 << 20) + 3
    source, target = owned_buffer(device, nbytes, 3), device.create_buffer(nbytes)
    target.acquire()
    device.submit(device.record().copy(source, target))
    assert access_patterns.is_filling(target, 3)


def test_views_stand_for_their_surface_and_buffer(device: vks.Device) -> None:
    buffer, surface = device.create_buffer(64 * 4), device.create_surface(8, 8)
    with buffer.access() as of_buffer, surface.access() as of_surface:
        device.submit(device.record().clear(of_surface, (0, 1, 0, 1)).copy(of_surface, of_buffer))
        assert (buffer.read().reshape(64, 4) == (0, 255, 0, 255)).all()


# ---- order ---------------------------------------------------------------------------------------------------------


def test_commands_of_one_list_see_what_the_ones_before_wrote_and_a_list_runs_again(device: vks.Device) -> None:
    surface, copy = device.create_surface(8, 8), device.create_surface(8, 8)
    buffers = [device.create_buffer(256) for _ in range(2)]
    for each in (surface, copy):
        each.acquire()
    for buffer in buffers:
        buffer.acquire()
    commands = device.record()
    for number in range(8):
        colour = access_patterns.colour(number)
        commands.clear(surface, colour).copy(surface, buffers[0]).copy(buffers[0], buffers[1]).copy(buffers[1], copy)
    assert len(commands) == 32
    for _ in range(3):
        device.submit(commands)
        assert access_patterns.is_clear(copy.read(), 7)
    commands.clear(copy, access_patterns.colour(1)).copy(copy, buffers[0])
    device.submit(commands)
    assert (buffers[0].read() == copy.read().reshape(-1)).all()
    assert access_patterns.is_clear(copy.read(), 1)


@pytest.mark.rule("K18", "X4")
def test_a_copy_waits_for_the_previous_owners_work_on_the_buffer_and_the_next_owner_for_it(vks_open: Open) -> None:
    here, there = vks_open(), vks_open()
    buffer = here.create_buffer(1 << 20)
    other = opened_buffer(buffer, there)
    source, target = owned_buffer(here, 1 << 20, 4), there.create_buffer(1 << 20)
    target.acquire()
    fence = here.create_fence()
    buffer.acquire()
    held = here.submit(here.record().copy(source, buffer), waits=(fence, 1))
    buffer.release(1)
    assert held.is_held
    other.acquire(1, 5, mode="gpu")
    after = there.submit(there.record().copy(other, target))
    assert not after.is_done()
    fence.signal(1)
    after.wait(10)
    assert access_patterns.is_filling(target, 4)


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_copies_outside_a_buffer_or_a_surface_are_refused_with_both_sizes(device: vks.Device) -> None:
    surface, buffer, small = owned_surface(device, 8, 8), owned_buffer(device, 255), owned_buffer(device, 10)
    for call, text in (
        (lambda c: c.copy(surface, buffer), "target is a buffer of 255 bytes; 256 bytes from offset 0 on do not fit"),
        (lambda c: c.copy(buffer, surface), "source is a buffer of 255 bytes; 256 bytes"),
        (lambda c: c.copy(buffer, small), "target is a buffer of 10 bytes; 255 bytes"),
        (lambda c: c.copy(buffer, small, nbytes=11), "target is a buffer of 10 bytes; 11 bytes"),
        (lambda c: c.copy(buffer, small, nbytes=2**64 - 1), "source is a buffer of 255 bytes; 1844674407370955"),
        (lambda c: c.copy(buffer, small, nbytes=1, source_offset=255), "1 bytes from offset 255"),
        (lambda c: c.copy(buffer, surface, target_rect=(4, 4, 5, 1)), r"target_rect is \(4, 4, 5, 1\).*of 8x8"),
        (lambda c: c.copy(surface, buffer, source_rect=(0, 0, 2, 2), stride=4), "stride is 4; a row of 2 pixels has 8"),
        (lambda c: c.copy(surface, buffer, source_rect=(0, 0, 2, 2), stride=10), "stride is 10; allowed are multiples"),
        (lambda c: c.copy(surface, buffer, target_offset=2), "target_offset is 2; allowed are multiples of 4"),
        (
            lambda c: c.copy(surface, buffer, source_rect=(0, 0, 1, 1), source_offset=4),
            "source_offset is 4, and source",
        ),
        (lambda c: c.copy(surface, buffer, source_rect=(0, 0, 1, 1), target_offset=-4), "target_offset is -4"),
        (lambda c: c.copy(surface, buffer, nbytes=4), "nbytes is 4; it is for copies between buffers"),
        (lambda c: c.copy(buffer, small, stride=4), "stride is 4; it is for copies between a buffer and a surface"),
        (lambda c: c.copy(buffer, small, source_rect=(0, 0, 1, 1)), "the source is a buffer: use source_offset"),
        (lambda c: c.copy(buffer, surface, at=(1, 1)), r"at is \(1, 1\).*use target_rect"),
        (lambda c: c.copy(buffer, buffer), "the same buffer"),
        (lambda c: c.copy(surface, surface, nbytes=4), "are for copies from or to a buffer"),
    ):
        commands = device.record()
        with pytest.raises(ValueError, match=text):
            call(commands)
        assert len(commands) == 0


def test_operands_that_cannot_be_copied_are_refused_by_name(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    buffer, closed = device.create_buffer(16), device.create_buffer(16)
    closed.close()
    commands = device.record()
    with pytest.raises(ClosedError, match="target is closed"):
        commands.copy(buffer, closed)
    with pytest.raises(DeviceMismatchError, match=r"source belongs to .*device\.open_buffer\(buffer\.export\(\)\)"):
        commands.copy(other.create_buffer(16), buffer)
    with pytest.raises(InvalidCallError, match=r"usage \['vertex'\]; this command needs 'copy': create_buffer"):
        commands.copy(buffer, device.create_buffer(16, usage="vertex"))
    with pytest.raises(TypeError, match="target must be a Surface, a Buffer or a view of one, not bytes"):
        commands.copy(buffer, b"16")  # type: ignore[arg-type]
    commands.close()
    with pytest.raises(ClosedError, match="this CommandList was closed"):
        commands.copy(buffer, device.create_buffer(16))


@pytest.mark.rule("K2", "K21")
def test_a_copy_of_a_buffer_that_is_not_owned_is_refused_when_it_is_submitted(device: vks.Device) -> None:
    mine, other = owned_buffer(device, 16), device.create_buffer(16)
    with pytest.raises(NotOwnerError, match=r"uses <vkshare\.Buffer 16 bytes, not owned>"):
        device.submit(device.record().copy(mine, other))
    discards = device.create_surface(2, 2, unowned="discard")
    device.submit(device.record().copy(discards, mine).copy(mine, discards)).wait(10)  # zeros; no effect
    assert not mine.read().any()
