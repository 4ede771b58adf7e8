#!/usr/bin/env python3
"""What notifies.py records, under `vkshare trace`: python tools/notifies_scenarios.py vsync|server ROUNDS."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import threading
import time
from fractions import Fraction
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import vkshare as vks
from vkshare import _trace
from vkshare.vsync import Display, RefreshTimer, Tick, VsyncBridge, VsyncDescriptor, VsyncDispatcher, choose

PATIENCE = 60  # seconds; whoever waits so long waits for ever
SIZE = 1280, 720
BEYOND = 60  # ticks that the windows take after as many as the viewer: it begins later
CLEARS = 10  # of a surface of that size, in the submission that takes long
PAUSE = 0.0006  # seconds between what the clients do, so that it does not come at once
_spawn = multiprocessing.get_context("spawn")


# ---- vsync: a display, two windows here, one in another process -----------------------------------------------------


def vsync(rounds: int) -> None:
    """Who ticks is what choose() finds: X11 Present where DISPLAY names a server, else the timer."""
    _trace.name_process("main process")
    source = choose()
    with (
        Display("main", interval=Fraction(1, 60), source=source) as display,
        VsyncDispatcher(display) as window,
        VsyncBridge(window) as bridge,
        bridge.export() as descriptor,
    ):
        child = _spawn.Process(target=_view, args=(descriptor, rounds), name="viewer")
        child.start()
        threads = [
            threading.Thread(target=_observe, args=(window, rounds + BEYOND), name="window 1"),
            threading.Thread(target=_refresh, args=(display, rounds + BEYOND), name="window 2"),
        ]
        for thread in threads:
            thread.start()
        for each in (*threads, child):
            each.join()
    if source is not None:
        source.close()


def _observe(window: VsyncDispatcher, ticks: int) -> None:
    with window.observe() as observer:
        for _ in range(ticks):
            observer.wait(PATIENCE)


def _refresh(display: Display, ticks: int) -> None:
    """A second window, with two things that move."""
    seen = 0

    def clock(tick: Tick) -> None:
        nonlocal seen
        seen += 1

    with VsyncDispatcher(display) as window, RefreshTimer(window.observe()) as timer:
        timer.add(clock)
        timer.add(lambda tick: None)
        timer.run(until=lambda: seen == ticks)


def _view(descriptor: VsyncDescriptor, ticks: int) -> None:
    with Display("there", source=descriptor) as display, VsyncDispatcher(display) as window:
        descriptor.close()
        with window.observe() as observer:
            for _ in range(ticks):
                observer.wait(PATIENCE)


# ---- server: one client draws and waits for it, another one asks something meanwhile ---------------------------------


def server(rounds: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        vks.open(backend="cpu", name="server", raster_threads=1) as device,
        vks.server.RenderServer(device, f"{folder}/server") as served,
    ):
        arguments = served.path, rounds, _spawn.Event(), _spawn.Barrier(2)
        clients = [
            _spawn.Process(target=_paint, args=arguments, name="painter"),
            _spawn.Process(target=_visit, args=arguments, name="visitor"),
        ]

        def wait() -> None:
            for client in clients:
                client.join()
            served.shutdown()

        for client in clients:
            client.start()
        threading.Thread(target=wait, name="end").start()
        served.serve_forever()


def _paint(path: Path, rounds: int, is_first: Event, both: Barrier) -> None:
    """A large submission, and a sync that waits for it."""
    with vks.server.Client(path, "painter") as client:
        is_first.set()
        surface = client.create_surface(*SIZE)
        clears = client.record()
        for _ in range(CLEARS):
            clears.clear(surface, (1, 0, 0, 1))
        for _ in range(rounds):
            both.wait(PATIENCE)
            client.submit(clears, acquire={surface: 0}, release={surface: 0})
            time.sleep(3 * PAUSE)
            client.sync()
            both.wait(PATIENCE)


def _visit(path: Path, rounds: int, is_first: Event, both: Barrier) -> None:
    """A no-op, while the other's work runs; then a small submission of its own."""
    is_first.wait(PATIENCE)  # the other is client 1
    with vks.server.Client(path, "visitor") as client:
        surface = client.create_surface(64, 64)
        clear = client.record().clear(surface, (0, 1, 0, 1))
        for _ in range(rounds):
            both.wait(PATIENCE)
            time.sleep(PAUSE)
            client.ping()
            time.sleep(PAUSE / 2)
            client.submit(clear, acquire={surface: 0}, release={surface: 0})
            both.wait(PATIENCE)
            client.sync()


if __name__ == "__main__":
    {"vsync": vsync, "server": server}[sys.argv[1]](int(sys.argv[2]))
