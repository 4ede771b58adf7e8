"""The fd by which other event loops wait for a frame of a swapchain (rule E9)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from support.child_processes import in_child
from support.fd_counts import no_fd_left, open_fds
from support.headless_swapchains import clearing, create, is_ring, show
from support.readable_fds import await_readable, is_readable
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import ClosedError, DeviceLostError, InvalidCallError, SurfaceLostError, VkshareError

pytestmark = [
    pytest.mark.rule("E9"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]


def take_all(swapchain: vks.Swapchain) -> list[vks.Frame]:
    """Acquires until there is no frame, each when the fd is readable."""
    frames = []
    while is_readable(swapchain.frame_fd(), 0.5):
        try:
            frames.append(swapchain.acquire(timeout=0))
        except TimeoutError:
            break
    return frames


def threads() -> int:
    """The threads that acquire ahead in this process."""
    return sum(path.read_text() == "vkshare-frames\n" for path in Path("/proc/self/task").glob("*/comm"))


def test_a_frame_can_be_acquired_when_the_fd_is_readable(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        fd = swapchain.frame_fd()
        assert swapchain.frame_fd() == fd
        for number in range(30):
            await_readable(fd)
            with swapchain.frame(timeout=0) as frame:
                vks_device.submit(vks_device.record().clear(frame.view, (number / 255, 0, 0, 1)))
            assert sorted(swapchain.capture()[0, 0][:3]) == [0, 0, number]
        assert swapchain.statistics().frames == 30


def test_the_fd_is_not_readable_while_all_frames_are_out(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        fd = swapchain.frame_fd()
        frames = take_all(swapchain)
        assert len(frames) > 1
        assert not is_readable(fd)
        frames.pop().close()  # unpresented
        await_readable(fd)
        frames += take_all(swapchain)
        assert not is_readable(fd)
        swapchain.present(frames.pop(0))
        if is_ring(swapchain):  # the shown image of a ring is not drawn to: the next present frees it
            swapchain.present(frames.pop(0))
        await_readable(fd)
        assert swapchain.acquire(timeout=0)


def test_the_shown_picture_stays_readable_by_capture(vks_device: vks.Device) -> None:
    with create(vks_device, image_count=1) as swapchain:
        fd = swapchain.frame_fd()
        for red in (10, 20, 30):
            await_readable(fd)
            show(swapchain, clearing(red))
            await_readable(fd)
            assert red in swapchain.capture()[0, 0]


def test_a_resize_is_followed(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        fd = swapchain.frame_fd()
        show(swapchain, clearing(1))
        frames = take_all(swapchain)
        swapchain.resize(20, 30)
        await_readable(fd)
        frame = swapchain.acquire(timeout=30)
        assert (frame.width, frame.height) == (20, 30)
        swapchain.present(frame)
        assert frames


def test_a_frame_that_is_out_can_be_presented_after_a_resize(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        fd = swapchain.frame_fd()
        for number in range(10):
            await_readable(fd)
            frame = swapchain.acquire(timeout=0)
            size = 40 + number, 30
            swapchain.resize(*size)
            is_readable(fd, 0.02)  # the thread looks meanwhile
            vks_device.submit(vks_device.record().clear(frame.view, (0, 0, 0, 1)))
            swapchain.present(frame)
            await_readable(fd)
            show(swapchain, clearing(1))
            assert swapchain.extent == size


def test_a_present_whose_work_still_runs_ends_what_the_fd_said_before(vks_device: vks.Device) -> None:
    with create(vks_device, 512, 512, image_count=4, frames_in_flight=1) as swapchain:
        fd = swapchain.frame_fd()
        for _ in range(4):
            await_readable(fd)
            frame = swapchain.acquire(timeout=0)
            await_readable(fd)  # another image is free, and no work runs
            commands = vks_device.record()
            for _ in range(500):
                commands.fill_rect(frame.view, (0, 0, 512, 512), (0, 1, 0, 1))
            vks_device.submit(commands)
            swapchain.present(frame)


def test_a_close_makes_it_readable_and_the_fd_ends_with_the_object(vks_device: vks.Device) -> None:
    swapchain = create(vks_device)
    fd = swapchain.frame_fd()
    frames = take_all(swapchain)
    assert not is_readable(fd)
    assert threads() == 1
    swapchain.close()
    await_readable(fd)
    with pytest.raises(ClosedError):
        swapchain.acquire(timeout=0)
    assert is_readable(fd)
    assert swapchain.frame_fd() == fd
    del frames, swapchain
    assert fd not in open_fds()
    assert threads() == 0


def test_without_the_call_there_is_neither_thread_nor_fd(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        show(swapchain, clearing(1))
        before = open_fds()
        assert threads() == 0
        fd = swapchain.frame_fd()
        assert open_fds() == before | {fd}
        wait_until(lambda: threads() == 1)
    closed = create(vks_device)
    closed.close()
    with pytest.raises(ClosedError):
        closed.frame_fd()


def test_without_free_descriptors_there_is_an_oserror(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        with no_fd_left(), pytest.raises(OSError, match="eventfd"):
            swapchain.frame_fd()
        # A thread that was joined, of an earlier test, is in /proc for a moment more.
        wait_until(lambda: threads() == 0)
        await_readable(swapchain.frame_fd())


def test_a_loss_of_the_device_makes_it_readable(vks_open: object) -> None:
    device = vks_open()  # type: ignore[operator]
    swapchain = create(device)
    fd = swapchain.frame_fd()
    frames = take_all(swapchain)
    assert not is_readable(fd)
    device._mark_lost()
    await_readable(fd)
    with pytest.raises(DeviceLostError):
        swapchain.acquire(timeout=0)
    assert frames


def test_a_loss_of_the_target_makes_it_readable(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        fd = swapchain.frame_fd()
        frames = take_all(swapchain)
        assert not is_readable(fd)
        swapchain._lose()
        await_readable(fd)
        with pytest.raises(SurfaceLostError):
            swapchain.acquire(timeout=0)
        assert frames


def test_asyncio_draws_when_the_fd_is_readable(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:

        async def main() -> None:
            loop, done = asyncio.get_running_loop(), asyncio.Event()

            def draw() -> None:
                show(swapchain, clearing(swapchain.statistics().frames))
                if swapchain.statistics().frames == 20:
                    loop.remove_reader(swapchain.frame_fd())
                    done.set()

            loop.add_reader(swapchain.frame_fd(), draw)
            await asyncio.wait_for(done.wait(), 60)

        asyncio.run(main())
        assert swapchain.statistics().frames == 20


@pytest.mark.no_driver
def test_in_a_forked_child_it_is_readable(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        fd = swapchain.frame_fd()
        frames = take_all(swapchain)
        assert not is_readable(fd)

        def child() -> None:
            await_readable(fd)
            with pytest.raises(InvalidCallError):
                swapchain.frame_fd()
            os.fstat(fd)
            assert is_readable(fd)

        in_child(child)
        assert not is_readable(fd)
        frames.pop().close()
        await_readable(fd)


@pytest.mark.no_driver
def test_a_forked_childs_calls_leave_it_readable(vks_device: vks.Device) -> None:
    with create(vks_device) as swapchain:
        fd = swapchain.frame_fd()
        frame = swapchain.acquire(30)
        await_readable(fd)

        def child() -> None:
            with pytest.raises(VkshareError):
                swapchain.present(frame)
            os.fstat(fd)  # poll() takes a closed fd for readable
            assert is_readable(fd)

        in_child(child)
        assert is_readable(fd)
