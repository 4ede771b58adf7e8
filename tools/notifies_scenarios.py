#!/usr/bin/env python3
"""Scenarios that notifies.py records, under `vkshare trace`: python tools/notifies_scenarios.py
vsync|server ROUNDS [CLEARS].
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import threading
import time
from collections import Counter
from fractions import Fraction
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import vkshare as vks
from vkshare.util import trace
from vkshare.vsync import Display, RefreshTimer, VsyncBridge, VsyncDescriptor, VsyncDispatcher, choose

PATIENCE = 60  # seconds: the limit of each wait
SIZE = 1280, 720
AFTER = 2  # more ticks, because of the last ones a window may not have begun to wait again
CLEARS = 10  # of a surface of that size, in the submission that takes long, where the command line says nothing
PAUSE = 0.0006  # seconds between what the clients do, so that it does not come at once
Heard = SimpleQueue[int]  # the times of the ticks that came to a window
_spawn = multiprocessing.get_context("spawn")


# ---- vsync: a display, two windows here, one in another process -----------------------------------------------------


def vsync(rounds: int) -> None:
    """The source is what choose() finds: X11 Present where DISPLAY names a server, else the timer.

    A window that is busy misses a tick, and a busy machine makes all of them miss some. So it goes on until so many
    ticks have come to every window.
    """
    trace.name_process("main process")
    source = choose()
    heard: Heard = _spawn.SimpleQueue()
    is_over = _spawn.Event()
    with (
        Display("main", interval=Fraction(1, 60), source=source) as display,
        VsyncDispatcher(display) as window,
        VsyncBridge(window) as bridge,
        bridge.export() as descriptor,
    ):
        windows: list[threading.Thread | multiprocessing.process.BaseProcess] = [
            _spawn.Process(target=_view, args=(descriptor, heard, is_over), name="viewer"),
            threading.Thread(target=_observe, args=(window, heard, is_over), name="window 1"),
            threading.Thread(target=_refresh, args=(display, heard, is_over), name="window 2"),
        ]
        for each in windows:
            each.start()
        came = Counter[int]()
        while sum(count == len(windows) for count in came.values()) < rounds + AFTER:
            came[heard.get()] += 1
        is_over.set()
        for each in windows:
            each.join()
    if source is not None:
        source.close()


def _observe(window: VsyncDispatcher, heard: Heard, is_over: Event) -> None:
    with window.observe() as observer:
        while not is_over.is_set():
            heard.put(observer.wait(PATIENCE).vsync_time)


def _refresh(display: Display, heard: Heard, is_over: Event) -> None:
    """A second window, with two things that move."""
    with VsyncDispatcher(display) as window, RefreshTimer(window.observe()) as timer:
        timer.add(lambda tick: heard.put(tick.vsync_time))
        timer.add(lambda tick: None)
        timer.run(until=is_over.is_set)


def _view(descriptor: VsyncDescriptor, heard: Heard, is_over: Event) -> None:
    with Display("there", source=descriptor) as display, VsyncDispatcher(display) as window:
        descriptor.close()
        _observe(window, heard, is_over)


# ---- server: one client draws and waits for it, another one asks something meanwhile ---------------------------------


def server(rounds: int, clears: int = CLEARS) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        vks.open(backend="cpu", name="server", raster_threads=1) as device,
        vks.server.RenderServer(device, f"{folder}/server") as served,
    ):
        arguments = served.path, rounds, clears, _spawn.Event(), _spawn.Barrier(2)
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


def _paint(path: Path, rounds: int, clears: int, is_first: Event, both: Barrier) -> None:
    """A large submission, and a sync that waits for it."""
    with vks.server.Client(path, "painter") as client:
        is_first.set()
        surface = client.create_surface(*SIZE)
        work = client.record()
        for _ in range(clears):
            work.clear(surface, (1, 0, 0, 1))
        for _ in range(rounds):
            both.wait(PATIENCE)
            client.submit(work, acquire={surface: 0}, release={surface: 0})
            time.sleep(3 * PAUSE)
            client.sync()
            both.wait(PATIENCE)


def _visit(path: Path, rounds: int, _: int, is_first: Event, both: Barrier) -> None:
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
    {"vsync": vsync, "server": server}[sys.argv[1]](*map(int, sys.argv[2:]))
