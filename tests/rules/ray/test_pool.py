"""Pools of surfaces for Ray's frames, without Ray. Rule G5."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest
from support.child_processes import in_child
from support.fd_counts import open_fds

import vkshare as vks
from vkshare.ray import Pool
from vkshare.ray import pool as pool_module

pytestmark = pytest.mark.rule("G5")


def filled(pool: Pool, number: int, timeout: float | None = 30) -> vks.Surface:
    with pool.frame(timeout) as frame:
        frame.write(np.full(frame.shape, number, np.uint8))
    return frame


def number_of(frame: vks.Surface) -> int:
    with frame.access(writable=False):
        return int(frame.read()[0, 0, 0])


def test_a_frame_keeps_its_surface_until_no_reference_is_alive(vks_device: vks.Device) -> None:
    with Pool(vks_device, 16, 8, count=2) as pool:
        frames = [filled(pool, each) for each in (1, 2)]
        for _ in range(2):
            with pytest.raises(vks.AcquireTimeout, match="none of 2 frames came back within 0 s"), pool.frame(0):
                pass
        assert [number_of(each) for each in frames] == [1, 2]
        del frames[0]
        gc.collect()
        frames.append(filled(pool, 3, 0))
        assert [number_of(each) for each in frames] == [2, 3]
        counts = pool.statistics()
        assert (counts.count, counts.alive, counts.frames, counts.drops) == (2, 2, 3, 2)


def test_a_frame_is_drawn_once_and_read_only_then(vks_device: vks.Device) -> None:
    with Pool(vks_device, 16, 8) as pool:
        frame = filled(pool, 7)
        assert frame.is_read_only
        with frame.access() as view:
            assert not view.writable
            with pytest.raises(vks.InvalidCallError, match="for reading"):
                frame.write(np.zeros(frame.shape, np.uint8))
            with pytest.raises(vks.InvalidCallError, match="for reading"):
                vks_device.record().clear(view, (0, 0, 0, 0))
            pixels = vks_device.create_buffer(16 * 8 * 4)
            with pytest.raises(vks.InvalidCallError, match="for reading"):
                vks_device.record().copy(pixels, view)
            pixels.close()
            with vks_device.create_surface(16, 8) as other, other.access() as target:
                vks_device.submit(vks_device.record().copy(view, target)).wait(30)
        assert number_of(frame) == 7


def test_a_call_that_waits_gets_the_surface_that_comes_back(vks_device: vks.Device) -> None:
    with Pool(vks_device, 16, 8, count=1) as pool:
        frames = [filled(pool, 1)]
        got: list[int] = []
        thread = threading.Thread(target=lambda: got.append(number_of(filled(pool, 2))))
        thread.start()
        while not pool.statistics().waits:
            time.sleep(0.001)
        assert not got
        frames.clear()
        gc.collect()
        thread.join(30)
        assert got == [2]


def test_a_frame_that_fails_comes_back(vks_device: vks.Device) -> None:
    with Pool(vks_device, 16, 8, count=1) as pool:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), pool.frame(0):
                raise ZeroDivisionError
            gc.collect()
        assert number_of(filled(pool, 5, 0)) == 5


def test_a_reader_that_still_owns_a_surface_stops_no_other_surface(vks_device: vks.Device) -> None:
    with Pool(vks_device, 16, 8, count=2) as pool:
        frame = filled(pool, 1)
        reader = vks_device.open_surface(frame)
        assert reader.is_read_only
        reader.acquire(0)
        del frame
        gc.collect()
        for number in (2, 3, 4):
            assert number_of(filled(pool, number, 0)) == number
            gc.collect()
        other = filled(pool, 5, 0)
        with pytest.raises(vks.AcquireTimeout, match="none of 2 frames"), pool.frame(0):
            pass
        assert pool.statistics().drops == 1
        reader.release(0)
        assert number_of(filled(pool, 6, 0)) == 6
        assert number_of(other) == 5
        reader.close()


def test_a_surface_that_a_reader_releases_with_another_key_is_replaced(vks_device: vks.Device) -> None:
    with Pool(vks_device, 16, 8, count=1) as pool:
        for number in range(1, 4):
            frame = filled(pool, number, 0)
            with frame.access(0, 7):
                pass
            del frame
            gc.collect()
        assert number_of(filled(pool, 9, 0)) == 9


def test_close_ends_waits_and_leaves_frames_that_are_alive(vks_device: vks.Device) -> None:
    before = open_fds()
    pool = Pool(vks_device, 16, 8, count=1)
    frame = filled(pool, 9)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            filled(pool, 1)
        except vks.ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not pool.statistics().waits:
        time.sleep(0.001)
    pool.close()
    pool.close()
    thread.join(30)
    assert [str(each) for each in errors] == ["this Pool is closed"]
    assert number_of(frame) == 9
    del frame
    gc.collect()
    vks_device.record()  # what was destroyed is freed
    assert vks_device.statistics().surfaces == 0
    assert len(open_fds() - before) <= 3  # a thread's that serves descriptors


def test_a_frame_ends_within_any_call_of_the_pool(vks_device: vks.Device) -> None:
    """As in a garbage collection, in the thread that has the pool's lock."""
    with Pool(vks_device, 16, 8, count=1) as pool:
        frame = filled(pool, 1)
        with pool._lock:
            del frame
        assert number_of(filled(pool, 2, 0)) == 2


def test_a_frame_that_ends_between_the_look_and_the_wait_ends_the_wait(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_WAIT", 60)
    with Pool(vks_device, 16, 8, count=1) as pool:
        frames = [filled(pool, 1)]
        look = pool._next_free

        def then_one_ends() -> vks.Surface | None:
            found = look()
            frames.clear()
            return found

        bell, heard = pool._bell, []

        class Bell:
            release = staticmethod(bell.release)

            def acquire(self, timeout: float) -> None:
                heard.append(bell.acquire(timeout=timeout))

        monkeypatch.setattr(pool, "_next_free", then_one_ends)
        monkeypatch.setattr(pool, "_bell", Bell())
        assert number_of(filled(pool, 2)) == 2
        assert heard == [True]


def test_frames_in_cycles_come_back_while_nothing_else_is_made(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_COLLECT", 0.05)
    with Pool(vks_device, 16, 8, count=1) as pool:
        cycle: list[object] = [filled(pool, 1)]
        cycle.append(cycle)
        del cycle
        assert number_of(filled(pool, 2)) == 2


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_forked_child_that_drops_a_frame_leaves_it_to_its_parent(vks_device: vks.Device, is_closed: bool) -> None:
    if vks_device.backend != "cpu":
        pytest.skip("a fork with a Vulkan driver's threads")
    with Pool(vks_device, 16, 8, count=1) as pool:
        frames = [filled(pool, 1)]
        if is_closed:
            pool.close()
        in_child(frames.clear)
        assert number_of(frames[0]) == 1


@pytest.mark.parametrize("count", [0, 65, "3"])
def test_a_count_that_there_is_not_is_refused(vks_device: vks.Device, count: object) -> None:
    with pytest.raises((ValueError, TypeError), match="count"):
        Pool(vks_device, 8, 8, count=count)  # type: ignore[arg-type]


def test_a_device_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match=r"device must be a vkshare\.Device"):
        Pool(None, 16, 8)  # type: ignore[arg-type]


def test_a_pool_that_is_not_closed_is_a_resource_warning(vks_device: vks.Device) -> None:
    pool = Pool(vks_device, 8, 8)
    with pytest.warns(ResourceWarning, match="Pool"):
        pool.__del__()
    assert pool.is_closed
