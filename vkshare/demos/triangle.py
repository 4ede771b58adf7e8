"""The smallest useful program: a window with a turning triangle. Copy it; `vkshare demo triangle` runs it, too."""

from __future__ import annotations

import math
import time

import vkshare as vks

NIGHT = (0.05, 0.045, 0.13, 1)
COLOURS = ((0.27, 0.84, 0.93, 1), (1.0, 0.72, 0.30, 1), (0.98, 0.38, 0.58, 1))


def triangle(turn: float, width: int, height: int) -> list[tuple[float, ...]]:
    """Its corners as rows of x y r g b a. Positions run from -1 to 1 over the picture, y downwards."""
    angles = [2 * math.pi * (turn + corner / 3) for corner in range(3)]
    across, down = 0.8 * min(1, height / width), 0.8 * min(1, width / height)
    return [(across * math.sin(a), -down * math.cos(a), *rgba) for a, rgba in zip(angles, COLOURS, strict=True)]


def draw(device: vks.Device, frame: vks.Frame, seconds: float) -> None:
    """One picture of it: a turn takes six seconds."""
    commands = device.record().clear(frame.view, NIGHT)
    device.submit(commands.draw_triangles(frame.view, triangle(seconds / 6, frame.width, frame.height)))


def main() -> None:
    with (
        vks.open() as device,
        vks.Window(640, 480, "vkshare: triangle") as window,
        device.create_swapchain(window) as swapchain,
    ):
        while not window.should_close:
            window.poll()
            with swapchain.frame() as frame:
                draw(device, frame, time.monotonic())


if __name__ == "__main__":
    main()
