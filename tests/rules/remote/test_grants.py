"""Grants of this machine while the other one is slow, silent or stopped. Rules M1 and M3."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from unittest.mock import Mock

import numpy as np
import pytest
from support.remote_ends import TOKEN, WAIT, random_pixels
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.remote import relay_messages as m
from vkshare.remote.pictures import Pictures
from vkshare.testing.link import LinkProxy

pytestmark = pytest.mark.no_driver

SOON = 20.0  # seconds; it ends hangs alone
WIDTH, HEIGHT = 12, 10  # some hundred bytes, which a link takes without having measured its path (rule M8)


class Far:
    """A host and a viewer with a link between them that survives silence, and two programs with a surface."""

    def __init__(
        self, stack: ExitStack, device: vks.Device, keepalive: float = WAIT, rate: float | None = None
    ) -> None:
        self.host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, keepalive=keepalive, grace=WAIT))
        self.link = stack.enter_context(LinkProxy(self.host.address, seed=1, rate=rate))
        self.viewer = stack.enter_context(
            vks.remote.Viewer(
                self.link.address, token=TOKEN, device=device, headless=True, keepalive=keepalive, grace=WAIT
            )
        )
        self.devices = [stack.enter_context(self.host.open(WAIT, name=name)) for name in ("first", "second")]
        surface = stack.enter_context(self.devices[0].create_surface(WIDTH, HEIGHT))
        with surface.export() as descriptor:
            self.surfaces = [surface, stack.enter_context(self.devices[1].open_surface(descriptor))]

    def draw(self, key: int) -> None:
        """The programs draw in turn."""
        device, surface = self.devices[key % 2], self.surfaces[key % 2]
        with surface.access(key, key + 1, WAIT) as view:
            device.submit(device.record().fill_rect(view, (key % 6, key % 4, 6, 6), (key / 255, 1, 0, 1)))

    def picture(self, key: int) -> np.ndarray:
        with self.surfaces[key % 2].access(key, 0, WAIT):
            return self.surfaces[key % 2].read()


def _drawn(before: np.ndarray, first: int, end: int) -> np.ndarray:
    """The pixels after the turns from first to end."""
    pixels = before.copy()
    for key in range(first, end):
        pixels[key % 4 : key % 4 + 6, key % 6 : key % 6 + 6] = (key, 255, 0, 255)
    return pixels


@pytest.mark.rule("M1")
def test_programs_draw_and_upload_while_nothing_comes_back_from_the_viewer(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    far = Far(stack, vks_device)
    far.link.stall(None, direction="up")
    stack.callback(far.link.resume)
    for key in range(6):
        far.draw(key)
    first = random_pixels(far.surfaces[0], 1)
    with far.surfaces[0].access(6, 7, WAIT):
        far.surfaces[0].write(first)
    far.draw(7)
    second = _drawn(first, 7, 8)
    second[5:, 4:] = 9
    with far.surfaces[0].access(8, 9, WAIT):
        far.surfaces[0].write(second)
    far.draw(9)
    for device in far.devices:
        device.wait_idle(SOON)
    far.link.resume()
    assert np.array_equal(far.picture(10), _drawn(second, 9, 10))


@pytest.mark.rule("M3")
def test_a_viewer_that_is_stopped_for_many_keep_alives_ends_no_wait(stack: ExitStack, vks_device: vks.Device) -> None:
    far = Far(stack, vks_device, keepalive=0.1)
    zeros = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    with far.surfaces[0].access(0, 1, WAIT):
        waiting = threading.Thread(target=far.draw, args=(1,))
        waiting.start()
        far.link.stall()
        wait_until(lambda: str(far.host.statistics().state) != "up")
    waiting.join(WAIT)
    for key in range(2, 6):
        far.draw(key)
    far.link.resume()
    assert np.array_equal(far.picture(6), _drawn(zeros, 1, 6))
    assert far.host.statistics().generation == 1


@pytest.mark.rule("M3")
def test_a_turn_waits_at_the_viewer_as_long_as_the_turn_before_it_needs_to_arrive(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    rows = np.random.default_rng(5).uniform(-1, 1, (12_000, 6)).astype(np.float32)
    rows[:, 2:] = np.abs(rows[:, 2:])

    def long_list(device: vks.Device, view: vks.View) -> None:
        device.submit(device.record().clear(view, (0, 0, 0, 0)).draw_triangles(view, rows))

    far = Far(stack, vks_device, rate=500_000)
    with far.surfaces[0].access(0, 1, WAIT) as view:
        long_list(far.devices[0], view)
    far.draw(1)
    with vks_device.create_surface(WIDTH, HEIGHT) as surface, surface.access() as view:
        long_list(vks_device, view)
        expected = _drawn(surface.read(), 1, 2)
    assert np.array_equal(far.picture(2), expected)


@pytest.mark.rule("M3", "M4")
def test_a_turn_at_the_viewer_waits_without_a_limit(vks_device: vks.Device) -> None:
    """The link brings turns in order. A session that is slow with its own turn delays the next one."""
    pictures = Pictures(vks_device)
    pictures.add(m.Image(1, 16, 8, "rgba8unorm", ("copy", "render")))
    slow, quick = Mock(client=1), Mock(client=2)

    def draw(session: Mock, number: int) -> None:
        with pictures.turns(session, (m.Turn(1, number, True),)) as (surface,):
            vks_device.submit(vks_device.record().fill_rect(surface, (number, 0, 9, 9), (1, number, 0, 1)))

    waiting = threading.Thread(target=draw, args=(quick, 1))
    waiting.start()
    waiting.join(0.5)
    draw(slow, 0)
    waiting.join(WAIT)
    with pictures.turns(slow, (m.Turn(1, 2, False),)) as (surface,):
        wait_until(lambda: surface.is_owned)  # the acquires are held for the device
        row = surface.read(WAIT)[0, :11, :2].tolist()
    assert row == [[255, 0], *[[255, 255]] * 9, [0, 0]]  # the second turn drew over the first one
    for session in (slow, quick):
        pictures.leave(session)
    pictures.forget(1, 3)
    pictures.close()
