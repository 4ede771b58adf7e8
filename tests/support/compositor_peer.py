"""A client of a compositor, as a program: `python -m support.compositor_peer PATH WAY`, for the soak.

WAY: "closes" its windows and goes; "leaves" without a word; "dies" by SIGKILL in the middle of a frame; "shows" a keyed
surface.
"""

from __future__ import annotations

import os
import signal
import sys

import vkshare as vks

FRAMES = 30


def paint(desktop: vks.compositor.Desktop, window: vks.compositor.RemoteWindow, way: str) -> None:
    device = desktop.device
    for count, _ in enumerate(window.ticks()):
        with window.frame(timeout=60) as frame:
            device.submit(device.record().clear(frame.surface, (count / FRAMES, 0, 1, 1)))
            if way == "dies" and count == FRAMES // 2:
                os.kill(os.getpid(), signal.SIGKILL)
        if count == FRAMES:
            return


def show(desktop: vks.compositor.Desktop) -> None:
    device = desktop.device
    with device.create_surface(64, 48) as surface:
        window = desktop.show(surface, at=(200, 20))
        for count in range(FRAMES):
            with surface.access(0, 1, 60):
                device.submit(device.record().clear(surface, (0, count / FRAMES, 0, 1)))
        with surface.access(0, 0, 60):
            pass
        window.close()


def main() -> None:
    path, way = sys.argv[1:]
    desktop = vks.compositor.Desktop(path, name=way)
    if way == "shows":
        show(desktop)
    else:
        windows = [desktop.open_window(96, 64, title=way, at=(100 * n, 40)) for n in range(2)]
        windows[0].move(50, 100, seconds=0.2)
        windows[1].fade(0.5, seconds=0.2)
        paint(desktop, windows[0], way)
        paint(desktop, windows[1], way)
        if way == "leaves":
            os._exit(0)
    desktop.close()


if __name__ == "__main__":
    main()
