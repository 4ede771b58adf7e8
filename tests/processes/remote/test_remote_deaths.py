"""Programs, viewers and connections that end in the middle. Rules M6 and M17."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from support.remote_ends import TOKEN, WAIT, Ends
from support.run_volumes import rounds
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import AbandonedError, VkshareError

pytestmark = pytest.mark.no_driver


def _own_for_ever(path: str, descriptor: vks.SurfaceDescriptor, key: int, drawn: int) -> None:
    """Draws in turns of one key, and is killed at some time of that."""
    from vkshare.remote.device import open_device

    with open_device(path) as device, device.open_surface(descriptor) as surface:
        while True:
            with surface.access(key, key + 1, WAIT) as view:
                for _ in range(drawn):
                    device.submit(device.record().fill_rect(view, (0, 0, 9, 9), (1, 0, 0, 1)))
            key += 2


@pytest.mark.rule("M6")
def test_programs_that_are_killed_stop_no_other_one(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device, delay=0.002)
    device = stack.enter_context(ends.open())
    surface = stack.enter_context(device.create_surface(32, 32))
    spawn = multiprocessing.get_context("spawn")
    random = np.random.default_rng(1)
    for number in range(rounds(1_000, 6, full=40)):
        key = surface.mutex.statistics().key
        with surface.export() as descriptor:
            arguments = str(ends.host.path), descriptor, key + 1, 5
            child = spawn.Process(target=_own_for_ever, args=arguments)
            child.start()
            deadline = time.monotonic() + random.uniform(0.0, 0.02)
            began = False
            try:
                while not began or time.monotonic() < deadline:
                    key = surface.mutex.statistics().key
                    with surface.access(key, key + 1, 0.5 if began else WAIT) as view:
                        device.submit(device.record().fill_rect(view, (9, 9, 9, 9), (0, 1, 0, 1)))
                    if not began:
                        with surface.access(key + 2, key + 2, WAIT):
                            began, deadline = True, time.monotonic() + random.uniform(0.0, 0.02)
            except VkshareError:
                pass
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
        try:
            surface.acquire(surface.mutex.statistics().key, WAIT)
            surface.read()
        except AbandonedError:  # it died while it owned the surface, or before its work was taken
            if surface.is_owned:
                with contextlib.suppress(AbandonedError):
                    surface.release(0)
            surface.recover()
        device.submit(device.record().clear(surface, (number / 255, 0, 0, 1)))
        assert surface.read()[5, 5, 0] == number
        surface.release(0)
    wait_until(lambda: ends.viewer.statistics().programs == 1)


@pytest.mark.rule("M17")
def test_a_connection_that_breaks_and_comes_back_loses_no_frame(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device, delay=0.002)
    device = stack.enter_context(ends.open())
    surface = stack.enter_context(device.create_surface(256, 1))
    assert ends.link is not None
    with surface.access():
        for number in range(256):
            device.submit(device.record().fill_rect(surface, (number, 0, 1, 1), (number / 255, 0, 0, 1)))
            if number % 64 == 20:
                ends.link.disconnect("reset" if number < 128 else "end")
        assert surface.read()[0, :, 0].tolist() == list(range(256))
    assert ends.host.statistics().resumes


@pytest.mark.rule("M6", "M17")
def test_devices_are_lost_with_the_viewer_and_another_one_draws_for_new_devices(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, keepalive=0.2, grace=0.0))

    def view() -> vks.remote.Viewer:
        return vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True)

    viewer = view()
    with host.open(WAIT) as lost, lost.create_surface(8, 8) as surface, surface.export() as descriptor:  # noqa: SIM117
        with vks.open(backend="cpu") as local, local.open_surface(descriptor) as other:
            surface.acquire(0)
            waiting = threading.Thread(target=_expect_abandoned, args=(other,))
            waiting.start()
            viewer.close()
            wait_until(lambda: lost.is_lost)
            waiting.join(WAIT)
            assert not waiting.is_alive()
            with pytest.raises(VkshareError, match="lost"):
                surface.read()
    with view(), host.open(WAIT) as device, device.create_surface(8, 8) as again, again.access() as to:
        device.submit(device.record().clear(to, (1, 0, 0, 1)))
        assert again.read()[0, 0].tolist() == [255, 0, 0, 255]


def _expect_abandoned(surface: vks.Surface) -> None:
    with pytest.raises(AbandonedError):
        surface.acquire(1, WAIT)
