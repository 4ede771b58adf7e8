"""A compositor in a process of its own, and clients in theirs that draw a frame at each tick."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import vkshare
from benchmarks.measure import lasting
from benchmarks.processes import Child, started
from vkshare.compositor import Compositor, Desktop, Service
from vkshare.compositor.remote_window import RemoteWindow
from vkshare.server import RenderServer
from vkshare.vsync import Display

RATE = 60  # Hz
WIDTH, HEIGHT = 1920, 1080  # of the screen
WINDOW = (1280, 720)
_SURFACES = 3  # of each client's pipe
_WARM_UP = 30  # frames
_PATIENCE = 60.0  # seconds for a process to say something
_SQUARE = 100  # pixels a side of what moves
_JIFFIES: int = os.sysconf("SC_CLK_TCK")  # a second


_CORNERS = (-300, -200), (0, 0), (320, 180), (640, 360), (700, 520), (1000, -300), (-500, 600), (100, 250)
# Windows, bottom to top: left, top, opacity. Five are clipped. The faded ones lie beside each
# other: C rounds their opacity to 8 bits, and two such errors in one pixel could differ from ours
# by two.
PLACES = [(x, y, 0.8 if (x, y) in ((-300, -200), (700, 520)) else 1.0) for x, y in _CORNERS]


_ACROSS, _STEP = 4, (213, 120)  # of 16 streams, which overlap


@dataclass(frozen=True, slots=True)
class Load:
    """Counters over `seconds`: frames of all clients together; CPU time in seconds."""

    clients: int
    seconds: float
    drawn: int  # frames that the clients sent
    undrawn: int  # ticks that a client was too late for
    counts: dict[str, float]  # of the compositor (CompositorStatistics), and its "cpu"
    clients_cpu: float
    machine_cpu: float  # of all processes of the machine

    @property
    def due(self) -> int:
        """One for each tick and client."""
        return self.drawn + self.undrawn

    @property
    def not_shown(self) -> float:
        """Frames that were due and not shown."""
        return self.counts["lost"] + self.counts["superseded"] + self.undrawn


def run(clients: int, seconds: float, *, streams: bool = False) -> Load:
    """With that many windows, for that long, after each has shown some frames; as `streams` they play video."""
    client = _stream if streams else _draw
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        path = os.path.join(folder, "compositor")
        compositor = running.enter_context(started(_composite, path, patience=10))
        compositor.heard(_PATIENCE)
        children = [running.enter_context(started(client, path, number, patience=10)) for number in range(clients)]
        before = _settled(compositor, sum(child.heard(_PATIENCE) for child in children))
        machine, began = _machine_cpu(), time.monotonic()
        for child in children:
            child.pipe.send("go")
        time.sleep(seconds)
        for child in children:
            child.pipe.send("stop")
        drawn, undrawn, cpu = map(sum, zip(*(child.heard(_PATIENCE) for child in children), strict=True))
        took = time.monotonic() - began
        after = _settled(compositor, clients * _WARM_UP + drawn)
        counts = {name: after[name] - before[name] for name in after}
        return Load(clients, took, drawn, undrawn, counts, cpu, _machine_cpu() - machine)


def _machine_cpu() -> float:
    """Seconds of CPU time used by all processes, or stolen by the host's other guests."""
    fields = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / _JIFFIES


def _settled(compositor: Child, frames: int) -> dict[str, float]:
    """The compositor's counters once it has dealt with all of so many frames. TimeoutError."""
    for _ in lasting(_PATIENCE):
        compositor.pipe.send("count")
        counts: dict[str, float] = compositor.heard(_PATIENCE)
        if counts["shown"] + counts["lost"] + counts["superseded"] == frames:
            return counts
        time.sleep(0.02)
    raise TimeoutError(f"of {frames} frames the compositor has counted {counts}")


# ---- processes -------------------------------------------------------------------------------------------------------


def _composite(pipe: Connection, path: str) -> None:
    """Says its counters whenever it is asked."""
    with (
        vkshare.open(backend="cpu", name="compositor") as device,
        Display("bench", interval=Fraction(1, RATE)) as display,
        Compositor(device, vkshare.Headless(WIDTH, HEIGHT), display) as compositor,
        Service([compositor]) as service,
        RenderServer(device, path, kinds=service.kinds) as server,
    ):
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        pipe.send("ready")
        with contextlib.suppress(EOFError):
            while pipe.recv():
                pipe.send(asdict(compositor.statistics()) | {"cpu": time.process_time()})
        server.shutdown()
        serving.join()


def _draw(pipe: Connection, path: str, number: int) -> None:
    """Says how many frames it has drawn to begin with; then, between "go" and "stop", drawn ones,
    missed ones and CPU time.
    """
    x, y, opacity = PLACES[number % len(PLACES)]
    with (
        vkshare.open(backend="cpu", name=f"client {number}", raster_threads=1) as device,
        Desktop(path, name=f"client {number}", device=device) as desktop,
        desktop.open_window(*WINDOW, at=(x, y), opacity=opacity, count=_SURFACES) as window,
    ):
        ticks = window.ticks()
        for frame in range(_WARM_UP):
            next(ticks)
            _draw_frame(device, window, frame)
        pipe.send(_WARM_UP)
        pipe.recv()
        began = time.process_time()
        next(ticks)  # with those that went by meanwhile
        drawn = missed = 0
        while not pipe.poll(0):
            missed += next(ticks).missed
            _draw_frame(device, window, drawn)
            drawn += 1
        pipe.recv()
        pipe.send((drawn, missed, time.process_time() - began))
        pipe.recv()


def _stream(pipe: Connection, path: str, number: int) -> None:
    """A video in nv12, 30 frames a second: as _draw(), but each second tick, and frames that are there already."""
    at = number % _ACROSS * _STEP[0], number // _ACROSS * _STEP[1]
    with (
        vkshare.open(backend="cpu", name=f"stream {number}", raster_threads=1) as device,
        Desktop(path, name=f"stream {number}", device=device) as desktop,
        desktop.open_window(*WINDOW, "nv12", at=at, is_opaque=True, count=_SURFACES) as window,
    ):
        ticks = window.ticks()
        random = np.random.default_rng(number)
        for _ in range(_WARM_UP):
            next(ticks)
            with window.frame() as frame:
                planes = frame.surface.read_planes()
                frame.surface.write_planes([random.integers(16, 236, each.shape, np.uint8) for each in planes])
        pipe.send(_WARM_UP)
        pipe.recv()
        began = time.process_time()
        next(ticks)
        drawn = missed = 0
        while not pipe.poll(0):
            missed += next(ticks).missed + next(ticks).missed
            with window.frame():  # a decoder would write it here
                drawn += 1
        pipe.recv()
        pipe.send((drawn, missed, time.process_time() - began))
        pipe.recv()


def _draw_frame(device: vkshare.Device, window: RemoteWindow, number: int) -> None:
    """Every byte of it is written."""
    at = number * 7 % (WINDOW[0] - _SQUARE), number * 3 % (WINDOW[1] - _SQUARE)
    with window.frame() as frame:
        commands = device.record().clear(frame.surface, (number % RATE / RATE / 2, 0.1, 0.3, 0.5))
        device.submit(commands.fill_rect(frame.surface, (*at, _SQUARE, _SQUARE), (1, 1, 1, 1)))
