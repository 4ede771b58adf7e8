"""Buffers in memory that the CPU does not see, as on a GPU: read() and write() go through staging memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import access_patterns
from support.shared_handles import opened_buffer

import vkshare as vks
from vkshare.errors import AcquireTimeout, UnsupportedError

pytestmark = [pytest.mark.driver_dependent, pytest.mark.rule("E5")]

Open = Callable[..., vks.Device]


@pytest.fixture
def hidden(device: vks.Device, monkeypatch: pytest.MonkeyPatch) -> vks.Device:
    """A Vulkan device whose buffers are in memory that is not mapped."""
    if device.backend != "vulkan":
        pytest.skip("needs a Vulkan device")
    from vkshare.backends.vulkan.buffers import VulkanBuffer

    monkeypatch.setattr(VulkanBuffer, "_is_for_host", property(lambda _: False))
    return device


@pytest.mark.parametrize("nbytes", [1, 3, 4096, 100_001])
def test_bytes_are_read_and_written_through_staging_memory(hidden: vks.Device, nbytes: int) -> None:
    with hidden.create_buffer(nbytes) as buffer:
        assert not buffer.is_host_visible
        with buffer.access():
            assert not buffer.read().any()
            for number in range(3):
                access_patterns.fill(buffer, number)
                assert access_patterns.is_filling(buffer, number)


def test_the_staged_copy_is_ordered_behind_commands_and_before_the_next_owner(hidden: vks.Device) -> None:
    with (
        hidden.create_buffer(64 * 64 * 4) as buffer,
        hidden.open_buffer(buffer) as other,
        hidden.create_surface(64, 64) as surface,
        surface.access(),
    ):
        for turn in range(0, 20, 2):
            buffer.acquire(turn, 5)
            hidden.submit(hidden.record().clear(surface, access_patterns.colour(turn)).copy(surface, buffer))
            seen = buffer.read().reshape(64, 64, 4)
            assert access_patterns.is_clear(seen, turn)
            buffer.write(255 - seen)
            buffer.release(turn + 1)
            other.acquire(turn + 1, 5)
            hidden.submit(hidden.record().copy(other, surface))
            assert (surface.read() == 255 - seen).all()
            other.release(turn + 2)


def test_a_view_of_memory_that_is_not_mapped_says_what_to_use(hidden: vks.Device) -> None:
    with hidden.create_buffer(16) as buffer, buffer.access() as view:
        for use in (lambda: view.array, lambda: memoryview(view), lambda: np.from_dlpack(view), view.__dlpack_device__):
            with pytest.raises(UnsupportedError, match=r"cannot be mapped.*buffer\.read\(\).*interop\.cuda"):
                use()


def test_a_read_that_comes_too_late_says_so_and_the_buffer_stays_owned(hidden: vks.Device) -> None:
    fence = hidden.create_fence()
    with hidden.create_buffer(16) as buffer, hidden.create_buffer(16) as other, buffer.access(), other.access():
        hidden.submit(hidden.record().copy(other, buffer), waits=(fence, 1))
        with pytest.raises(AcquireTimeout, match=r"Buffer\.read: work on the buffer did not end within 0\.01 s"):
            buffer.read(0.01)
        assert buffer.is_owned
        fence.signal(1)
        assert not buffer.read(10).any()
    fence.close()


def test_a_closed_buffer_ends_once_its_work_has_run(hidden: vks.Device, vks_open: Open) -> None:
    buffer: Any = hidden.create_buffer(1 << 20)
    other = opened_buffer(buffer, vks_open())
    with buffer.access():
        access_patterns.fill(buffer, 6)
    buffer.close()
    hidden.wait_idle(10)
    with other.access():
        assert access_patterns.is_filling(other, 6)
    other.close()
