"""Swapchains on headless targets, and what is expected of their pictures: the same commands on an ordinary surface."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare.errors import UnsupportedError

Drawing = Callable[[vks.CommandList, Any], object]  # records on (commands, target)

WIDTH, HEIGHT = 61, 35  # odd: no row of a driver's own layout is as long


def create(
    device: vks.Device, width: int = WIDTH, height: int = HEIGHT, *, fences: bool | None = None, **options: Any
) -> vks.Swapchain:
    """A headless swapchain; skips where `fences` is True and the driver has no present fences."""
    try:
        return device.create_swapchain(vks.Headless(width, height), present_fences=fences, **options)
    except UnsupportedError as error:
        if fences:
            pytest.skip(str(error))
        raise


def is_ring(swapchain: vks.Swapchain) -> bool:
    """Whether no driver presents it."""
    return swapchain._images.native is None


def show(swapchain: vks.Swapchain, *drawings: Drawing) -> None:
    """One frame: a submission for each drawing."""
    device = swapchain.device
    with swapchain.frame(timeout=30) as frame:
        for drawing in drawings:
            commands = device.record()
            drawing(commands, frame.view)
            device.submit(commands)


def clearing(red: int, green: int = 0, blue: int = 0) -> Drawing:
    """Clears to a colour that is exact in 8 bits."""
    colour = (red / 255, green / 255, blue / 255, 1.0)
    return lambda commands, target: commands.clear(target, colour)


def filling(rect: tuple[int, int, int, int], colour: tuple[float, ...]) -> Drawing:
    """Fills a rectangle."""
    return lambda commands, target: commands.fill_rect(target, rect, colour)


def random_filling(dice: random.Random, width: int, height: int) -> Drawing:
    """A rectangle that may stick out."""
    left, top = dice.randrange(-5, width), dice.randrange(-5, height)
    rect = left, top, dice.randrange(1, width + 1), dice.randrange(1, height + 1)
    return filling(rect, tuple(dice.randrange(256) / 255 for _ in range(4)))


def expected(swapchain: vks.Swapchain, *drawings: Drawing, size: tuple[int, int] | None = None) -> np.ndarray[Any, Any]:
    """What show() of these shows."""
    device = swapchain.device
    width, height = size or swapchain.extent
    with device.create_surface(width, height, swapchain.format) as surface, surface.access() as view:
        for drawing in drawings:
            commands = device.record()
            drawing(commands, view)
            device.submit(commands)
        return np.array(surface.read())


def take_all(swapchain: vks.Swapchain) -> list[vks.Frame]:
    """Acquires all frames, of which none is out. A ring keeps the one that is shown."""
    frames: list[vks.Frame] = []
    while True:
        try:
            frames.append(swapchain.acquire(10 if len(frames) < swapchain.image_count - 1 else 0.05))
        except TimeoutError:
            return frames


# ---- roles that may end their process: for Peer.run() ----------------------------------------------------------------


def draw_into_views_of_before_a_resize(device: vks.Device) -> list[str]:
    """The errors of every use of a view whose image is gone."""
    reported = []
    with (
        device.create_swapchain(vks.Headless(16, 16)) as swapchain,
        device.create_surface(16, 16, swapchain.format) as other,
    ):
        other.acquire(0)
        old = swapchain.acquire(5).view
        swapchain.resize(20, 20)
        new = swapchain.acquire(5)
        uses: tuple[Callable[[], object], ...] = (
            lambda: device.submit(device.record().clear(old, (1, 1, 1, 1))),
            lambda: device.submit(device.record().copy(old, other)),
            lambda: device.submit(device.record().copy(other, old)),
            lambda: old.surface.read(),
            lambda: old.surface.write(np.zeros(old.shape, np.uint8)),
        )
        for use in uses:
            try:
                use()
                reported.append("nothing")
            except Exception as error:
                reported.append(type(error).__name__)
        device.submit(device.record().clear(new.view, (1, 1, 1, 1)))
        swapchain.present(new)
    return reported


def draw_in_a_record_that_resizes(device: vks.Device) -> bool:
    """Whether frames go on after a record callback that had the swapchain recreated under itself."""
    with device.create_swapchain(vks.Headless(16, 16)) as swapchain:

        def resizing(commands: vks.CommandList, view: vks.View) -> None:
            swapchain.resize(20, 20)
            swapchain.acquire(5).close()
            commands.clear(view, (1, 1, 1, 1))

        try:
            swapchain.present_prepared(swapchain.prepare(resizing))
        except vks.VkshareError:
            pass
        swapchain.present_prepared(swapchain.prepare(lambda commands, view: commands.clear(view, (0, 1, 0, 1))))
        return bool((swapchain.capture()[..., 1] == 255).all())
