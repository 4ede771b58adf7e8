"""Other processes on a compositor: clients that draw, that are killed or stopped, that open and close.

    python -m support.desktop_peer PATH ROLE [ARGUMENT]

Prints "here" once it is at what it is to do.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time

import vkshare as vks
from vkshare.compositor import Desktop, RemoteWindow
from vkshare.vsync import Tick

SIDE = 8  # pixels of a window


def opened(desktop: Desktop, place: int = 0, side: int = SIDE) -> RemoteWindow:
    return desktop.open_window(side, side, title=f"window {place}", at=(place * side, 0), is_opaque=True)


def draw(window: RemoteWindow, number: int) -> None:
    """A frame whose red says which it is."""
    device = window._desktop.device
    with window.frame(timeout=30) as frame:
        device.submit(device.record().clear(frame.surface, (number % 256 / 255, 1, 0, 1)))


def clock(path: str, argument: str) -> None:
    """Draws at each tick until it is killed, and says so once something is seen."""
    with vks.open(backend="cpu") as device, Desktop(path, name="clock", device=device) as desktop:
        window = opened(desktop, int(argument))
        for number, _ in enumerate(window.ticks()):
            draw(window, number)
            if number == 3:
                print("here", flush=True)


def frames(path: str, argument: str) -> None:
    """Draws so many frames, one a tick, in the window of that place; prints its ticks and what became of the frames."""
    place, count = map(int, argument.split(","))
    ticks: list[Tick] = []
    with vks.open(backend="cpu") as device, Desktop(path, name=f"client {place}", device=device) as desktop:
        window = opened(desktop, place, 64)
        print("here", flush=True)
        sys.stdin.readline()
        for number, tick in zip(range(count), window.ticks(), strict=False):
            ticks.append(tick)
            draw(window, number)
        reported = window.statistics()
        deadline = time.monotonic() + 30
        while reported["shown"] + reported["superseded"] + reported["lost"] < count and time.monotonic() < deadline:
            time.sleep(0.01)
            reported = window.statistics()
    grow = all(a.id < b.id and a.vsync_time < b.vsync_time for a, b in itertools.pairwise(ticks))
    print(
        json.dumps({**reported, "drawn": len(ticks), "ticks_grow": grow, "displays": len({t.display for t in ticks})})
    )


def crashes(path: str, argument: str) -> None:
    """Ends by SIGKILL in the middle of a frame, or in that of the step that `argument` says."""
    with vks.open(backend="cpu") as device, Desktop(path, name="crashes", device=device) as desktop:
        window = opened(desktop)
        draw(window, 1)
        print("here", flush=True)
        if argument == "frame":
            with window.frame(timeout=30) as frame:
                device.submit(device.record().clear(frame.surface, (0, 0, 1, 1)))
                os.kill(os.getpid(), signal.SIGKILL)
        elif argument == "gpu":  # a frame whose work never runs
            with device.create_fence() as gate:
                with window.frame(timeout=30) as frame:
                    device.submit(device.record().clear(frame.surface, (0, 0, 1, 1)), waits=((gate, 1),))
                os.kill(os.getpid(), signal.SIGKILL)
        elif argument == "surface":
            with device.create_surface(SIDE, SIDE) as surface, desktop.show(surface), surface.access(0, 1, 30):
                os.kill(os.getpid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def comes_and_goes(path: str, argument: str) -> None:
    """Opens and closes windows until it is killed."""
    with vks.open(backend="cpu") as device, Desktop(path, name="comes and goes", device=device) as desktop:
        for number in itertools.count():
            window = opened(desktop)
            draw(window, number)
            window.move(float(number % 40), 0, seconds=0.01)
            window.close(0.001 * (number % 3))
            if number == 3:
                print("here", flush=True)


if __name__ == "__main__":
    roles = {"clock": clock, "frames": frames, "crashes": crashes, "comes_and_goes": comes_and_goes}
    roles[sys.argv[2]](sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else "0")
