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

import vkshare
from benchmarks.child import Child, started
from benchmarks.compositor_scene import HEIGHT, PLACES, WIDTH, WINDOW
from vkshare.compositor import Compositor, Desktop, Service
from vkshare.compositor.remote_window import RemoteWindow
from vkshare.server import RenderServer
from vkshare.vsync import Display

RATE = 60  # Hz
SURFACES = 3  # of each client's pipe
_WARM_UP = 30  # frames
_PATIENCE = 60.0  # seconds for a process to say something
_SQUARE = 100  # pixels a side of what moves
_JIFFIES: int = os.sysconf("SC_CLK_TCK")  # a second


@dataclass(frozen=True, slots=True)
class Load:
    """Counters over `seconds`: frames of all clients together; CPU time in seconds."""

    clients: int
    seconds: float
    due: int  # one for each tick and client
    shown: int
    lost: int  # came too late for their tick, or in a tick that brought no composite, and were replaced
    superseded: int  # replaced by the next one before a tick wanted them
    undrawn: int  # ticks that a client was too late for
    missed: int  # ticks that the compositor was too late for
    skipped: int  # ticks that brought no composite, as the one before was unfinished
    composites: int
    compositor_cpu: float
    clients_cpu: float
    machine_cpu: float  # of all processes of the machine

    @property
    def drawn(self) -> int:
        """Frames that the clients sent."""
        return self.due - self.undrawn

    @property
    def not_shown(self) -> int:
        """Frames that were due and not shown."""
        return self.lost + self.superseded + self.undrawn


def run(clients: int, seconds: float) -> Load:
    """With that many windows, for that long, after each has shown some frames."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        path = os.path.join(folder, "compositor")
        compositor = running.enter_context(started(_composite, path, patience=10))
        compositor.heard(_PATIENCE)
        children = [running.enter_context(started(_draw, path, number, patience=10)) for number in range(clients)]
        before = _settled(compositor, sum(child.heard(_PATIENCE) for child in children))
        cpu = _cpu(compositor), sum(_cpu(child) for child in children), _machine_cpu()
        began = time.monotonic()
        for child in children:
            child.pipe.send("go")
        time.sleep(seconds)
        for child in children:
            child.pipe.send("stop")
        drawn, undrawn = (sum(each) for each in zip(*(child.heard(_PATIENCE) for child in children), strict=True))
        took = time.monotonic() - began
        after = _settled(compositor, clients * _WARM_UP + drawn)
        return Load(
            clients=clients,
            seconds=took,
            due=drawn + undrawn,
            undrawn=undrawn,
            **{name: after[name] - before[name] for name in _OF_THE_COMPOSITOR},
            compositor_cpu=_cpu(compositor) - cpu[0],
            clients_cpu=sum(_cpu(child) for child in children) - cpu[1],
            machine_cpu=_machine_cpu() - cpu[2],
        )


def _cpu(child: Child) -> float:
    """Seconds of CPU time that it has used."""
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _JIFFIES


def _machine_cpu() -> float:
    """Seconds of CPU time used by all processes, or stolen by the host's other guests."""
    fields = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / _JIFFIES


_OF_THE_COMPOSITOR = ("shown", "lost", "superseded", "missed", "skipped", "composites")


def _settled(compositor: Child, frames: int) -> dict[str, int]:
    """The compositor's counters once it has dealt with all of so many frames. TimeoutError."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        compositor.pipe.send("count")
        counts: dict[str, int] = compositor.heard(_PATIENCE)
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
                pipe.send(asdict(compositor.statistics()))
        server.shutdown()
        serving.join()


def _draw(pipe: Connection, path: str, number: int) -> None:
    """Says how many frames it has drawn to begin with; then, between "go" and "stop", drawn and missed ones."""
    x, y, opacity = PLACES[number % len(PLACES)]
    with (
        vkshare.open(backend="cpu", name=f"client {number}", raster_threads=1) as device,
        Desktop(path, name=f"client {number}", device=device) as desktop,
        desktop.open_window(*WINDOW, at=(x, y), opacity=opacity, count=SURFACES) as window,
    ):
        ticks = window.ticks()
        for frame in range(_WARM_UP):
            next(ticks)
            _draw_frame(device, window, frame)
        pipe.send(_WARM_UP)
        pipe.recv()
        next(ticks)  # with those that went by meanwhile
        drawn = missed = 0
        while not pipe.poll(0):
            missed += next(ticks).missed
            _draw_frame(device, window, drawn)
            drawn += 1
        pipe.recv()
        pipe.send((drawn, missed))
        pipe.recv()


def _draw_frame(device: vkshare.Device, window: RemoteWindow, number: int) -> None:
    """Every byte of it is written."""
    at = number * 7 % (WINDOW[0] - _SQUARE), number * 3 % (WINDOW[1] - _SQUARE)
    with window.frame() as frame:
        commands = device.record().clear(frame.surface, (number % RATE / RATE / 2, 0.1, 0.3, 0.5))
        device.submit(commands.fill_rect(frame.surface, (*at, _SQUARE, _SQUARE), (1, 1, 1, 1)))
