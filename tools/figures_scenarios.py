"""The runs that figures.py records. Under `vkshare trace`: python tools/figures_scenarios.py vsync|server ROUNDS."""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import vkshare as vks
from vkshare.util import trace
from vkshare.vsync import Display, RefreshTimer, VsyncBridge, VsyncDescriptor, VsyncDispatcher, choose

PATIENCE = 60  # seconds: the limit of each wait
PAUSE = 0.0004  # seconds between the requests of clients, so that they do not come at once
CLEARS = 25  # of 1280x720 pixels, in the submission that takes long
SIZES = {(320, 180): 7, (256, 144): 2, (192, 108): 6}  # frames at each size of a swapchain
AHEAD = 3  # frames acquired before the first of them is presented: the images come in turn, as a window's do
_spawn = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def _thread(name: str, end: Callable[[], None], target: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Run the target in a thread, until the block is left and `end` was called."""
    thread = threading.Thread(name=name, target=target, args=arguments)
    thread.start()
    yield
    end()
    thread.join()


def vsync(ticks: int) -> None:
    """A display with two windows, until a display in another process has had so many ticks."""
    trace.name_process("main process")
    is_over = threading.Event()
    source = choose(name="x11-present")
    assert source is not None
    with (
        source,
        Display("main", interval=Fraction(1, 60), source=source) as display,
        VsyncDispatcher(display) as window,
        VsyncBridge(window) as bridge,
        bridge.export() as descriptor,
        _thread("window 1", is_over.set, _observe, window, is_over),
        _thread("window 2", is_over.set, _refresh, display, is_over),
    ):
        viewer = _spawn.Process(target=_view, args=(descriptor, ticks), name="viewer process")
        viewer.start()
        viewer.join()


def _observe(window: VsyncDispatcher, is_over: threading.Event) -> None:
    with window.observe() as observer:
        while not is_over.is_set():
            observer.wait(PATIENCE)


def _refresh(display: Display, is_over: threading.Event) -> None:
    with VsyncDispatcher(display) as window, RefreshTimer(window.observe()) as timer:
        timer.add(lambda tick: None)
        timer.run(until=is_over.is_set)


def _view(descriptor: VsyncDescriptor, ticks: int) -> None:
    with Display("there", source=descriptor) as there, VsyncDispatcher(there) as window, window.observe() as observer:
        for _ in range(ticks):
            observer.wait(PATIENCE)


def server(rounds: int) -> None:
    """A client that draws, and one with requests meanwhile."""
    with (
        tempfile.TemporaryDirectory() as folder,
        vks.open(backend="cpu", name="vkshare-cpu", raster_threads=1) as device,
        vks.server.RenderServer(device, f"{folder}/server") as served,
        _thread("loop", served.shutdown, served.serve_forever),
    ):
        trace.name_process("server")
        arguments = served.path, rounds, _spawn.Barrier(2)
        painter = _spawn.Process(target=_paint, args=arguments, name="painter")
        visitor = _spawn.Process(target=_visit, args=arguments, name="visitor")
        painter.start()
        visitor.start()
        painter.join()
        visitor.join()


def _paint(path: Path, rounds: int, both: Barrier) -> None:
    """A large submission, and a sync that waits for it."""
    with vks.server.Client(path, "painter") as client:
        surface = client.create_surface(1280, 720)
        work = client.record()
        for _ in range(CLEARS):
            work.clear(surface, (1, 0, 0, 1))
        both.wait(PATIENCE)
        for _ in range(rounds):
            both.wait(PATIENCE)
            time.sleep(PAUSE)  # the visitor's last submission runs
            client.submit(work, acquire={surface: 0}, release={surface: 0})
            time.sleep(3 * PAUSE)
            client.sync()


def _visit(path: Path, rounds: int, both: Barrier) -> None:
    """A no-op and a small submission."""
    both.wait(PATIENCE)  # the painter is client 1
    with vks.server.Client(path, "visitor") as client:
        surface = client.create_surface(64, 64)
        clear = client.record().clear(surface, (0, 1, 0, 1))
        for _ in range(rounds):
            both.wait(PATIENCE)
            time.sleep(2 * PAUSE)
            client.ping()
            time.sleep(PAUSE / 2)
            client.submit(clear, acquire={surface: 0}, release={surface: 0})


def presentation(layer: Any) -> tuple[list[Any], list[int]]:
    """Frames, two resizes with frames between, close: by the acquire history.

    Return the events of the FaultLayer, and when each submission had run. Times are CLOCK_MONOTONIC
    ns.
    """
    completed: list[int] = []
    with vks.open(name="figures") as device:
        with device.create_surface(320, 180) as surface, surface.access() as view:
            device.submit(device.record().clear(view, (0, 0, 0, 1))).wait(PATIENCE)  # the first one takes long
        layer.reset()
        with device.create_swapchain(vks.Headless(320, 180), present_fences=False) as swapchain:
            for size, frames in SIZES.items():
                swapchain.resize(*size)
                out: list[vks.Frame] = []
                for left in range(frames, 0, -1):
                    while len(out) < min(AHEAD, left):
                        out.append(swapchain.acquire(PATIENCE))
                    frame = out.pop(0)
                    device.submit(device.record().clear(frame.view, (left / frames, 0, 0, 1))).wait(PATIENCE)
                    completed.append(time.monotonic_ns())
                    swapchain.present(frame)
                    time.sleep(0.001)
        return layer.events(), completed


if __name__ == "__main__":
    {"vsync": vsync, "server": server}[sys.argv[1]](int(sys.argv[2]))
