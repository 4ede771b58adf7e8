"""A producer, a view server and Chromium's tabs, each in processes of their own, on loopback.

The producer draws at 60 Hz and publishes its picture; the server is what ``vkshare view NAME --serve``
runs; the tabs are those of Debian's headless Chromium. A script in each tab notes when a picture is on
the canvas.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vkshare
from benchmarks.processes import Child, started

RATE = 60  # Hz
_TILES, _VIDEO = 2, 3  # kinds of messages
_PATIENCE = 60.0  # seconds for a process to say something
_STEP = 4  # pixels that the picture moves at each frame
_TURN = 60 * _STEP  # pixels after which the movement begins anew
_BLOCK = 40  # pixels a side of the picture's squares
_BLUR = 33  # pixels over which the upper half is smoothed
_JIFFIES: int = os.sysconf("SC_CLK_TCK")  # a second
_PINGS = 200  # round trips of which the quickest sets the page's clock
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")

# Notes [time, time of the picture, its kind] of each acknowledgement, and of the page's next frame after it. Times are
# those of performance.now(), ms; a picture's time is by the server's clock.
_PROBE = """(() => {
  const found = (window.vkshareProbe = { shown: [], next: [] });
  const pictures = new Map();
  const Native = window.WebSocket;
  window.WebSocket = class extends Native {
    constructor(...all) {
      super(...all);
      this.addEventListener("message", ({ data }) => {
        if (typeof data === "string") return;
        const view = new DataView(data);
        const kind = view.getUint8(0);
        if (kind !== 2 && kind !== 3) return;
        pictures.set(Number(view.getBigUint64(8, true)), [Number(view.getBigUint64(16, true)) / 1e6, kind]);
      });
    }
    send(text) {
      super.send(text);
      const message = JSON.parse(text);
      if (message.type !== "ack") return;
      const [time, kind] = pictures.get(message.frame);
      found.shown.push([performance.now(), time, kind]);
      requestAnimationFrame(() => found.next.push([performance.now(), time]));
      pictures.delete(message.frame);
    }
  };
})();"""


class Missing(Exception):
    """A program or a package that the tabs need is missing; its text."""


@dataclass(frozen=True, slots=True)
class Glass:
    """A tab's pictures over some seconds."""

    seconds: float
    shown_for: float  # seconds from the first picture to the last one
    videos: int  # pictures that came as video
    tiles: int  # pictures that came lossless
    page_ages: tuple[float, ...]  # seconds from the end of the frame in the producer until the page has drawn it
    glass_ages: tuple[float, ...]  # and until the browser begins its next frame, which shows the picture
    drawn: int  # frames of the producer
    cpu: dict[str, float]  # seconds of "server", "producer", "chromium" (all of its processes), "everything else"

    @property
    def rate(self) -> float:
        """Pictures a second."""
        return (self.videos + self.tiles - 1) / self.shown_for


@dataclass(frozen=True, slots=True)
class Turn:
    """A producer over some seconds."""

    seconds: float
    drawn: int
    cpu: float  # seconds of the producer


class Scene:
    """The producer and the server. The processes end with the block."""

    def __init__(self, producer: Child, server: Child, url: str) -> None:
        self.url = url
        self._producer, self._server = producer, server

    def counts(self) -> dict[str, dict[str, float]]:
        """Counters of both processes, by "producer" and "server"."""
        found = {}
        for name, child in (("producer", self._producer), ("server", self._server)):
            child.pipe.send("count")
            found[name] = child.heard(_PATIENCE)
        return found

    def turn(self, seconds: float) -> Turn:
        """Let the producer draw for so long."""
        before = self.counts()["producer"]
        time.sleep(seconds)
        after = self.counts()["producer"]
        drawn, took, cpu = (after[each] - before[each] for each in ("drawn", "time", "cpu"))
        return Turn(took, int(drawn), cpu)


@contextlib.contextmanager
def scene(width: int, height: int, rate: float = RATE) -> Iterator[Scene]:
    """Begin a producer of that size and rate (0: as fast as it can), and a server that shows it."""
    name = f"bench-{os.getpid()}-{width}x{height}"
    with contextlib.ExitStack() as running:
        producer = running.enter_context(started(_produce, name, width, height, rate, patience=10))
        producer.heard(_PATIENCE)
        server = running.enter_context(started(_serve, name, patience=10))
        yield Scene(producer, server, server.heard(_PATIENCE))


class Browser:
    """Chromium. Tabs that it has opened end with the block."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium

    @contextlib.contextmanager
    def tabs(self, url: str, count: int, *, stopped: int = 0) -> Iterator[list[Any]]:
        """Open that many pages, wait until each shows video, and stop the scripts of the last ones."""
        with contextlib.ExitStack() as opened:
            pages = []
            for _ in range(count):
                context = self._chromium.new_context(viewport={"width": 1920, "height": 1160})
                opened.callback(context.close)
                page = context.new_page()
                page.add_init_script(_PROBE)
                page.goto(url)
                pages.append(page)
            for page in pages:
                _wait_for_video(page)
            for page in pages[count - stopped :]:
                session = page.context.new_cdp_session(page)
                session.send("Debugger.enable")
                session.send("Debugger.pause")
            yield pages

    def measure(self, scene: Scene, seconds: float) -> Glass:
        """Show the scene in one tab for so long."""
        with self.tabs(scene.url, 1) as (page,):
            offset = _clock_offset(page)
            before, chromium, machine = scene.counts(), self._cpu(), _busy()
            page.evaluate("void (vkshareProbe.shown = [], vkshareProbe.next = [])")
            page.wait_for_timeout(seconds * 1e3)
            probe = page.evaluate("vkshareProbe")
            after = scene.counts()
            cpu = {name: after[name]["cpu"] - before[name]["cpu"] for name in after}
            cpu["chromium"] = self._cpu() - chromium
            cpu["everything else"] = _busy() - machine - sum(cpu.values())
        kinds = [kind for _, _, kind in probe["shown"]]
        ages = [tuple((now - at) / 1e3 + offset for now, at, *_ in probe[name]) for name in ("shown", "next")]
        drawn, took = (after["producer"][each] - before["producer"][each] for each in ("drawn", "time"))
        shown_for = (probe["shown"][-1][0] - probe["shown"][0][0]) / 1e3
        return Glass(took, shown_for, kinds.count(_VIDEO), kinds.count(_TILES), ages[0], ages[1], int(drawn), cpu)

    def _cpu(self) -> float:
        """Seconds of CPU time of the browser's processes."""
        return math.fsum(each.cpu for each in _descendants(os.getpid()) if "chrom" in each.name)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Begin Chromium. Raises Missing."""
    path = os.environ.get("VKSHARE_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise Missing("Chromium is not installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Missing("Playwright is not installed") from None
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=[*_FLAGS])
        try:
            yield Browser(chromium)
        finally:
            chromium.close()


class _Process(NamedTuple):
    """A line of /proc/PID/stat."""

    pid: int
    parent: int
    name: str
    cpu: float  # seconds


def _processes() -> list[_Process]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            head, _, rest = path.read_text().rpartition(")")
            pid, _, name = head.partition(" (")
            fields = rest.split()
            found.append(_Process(int(pid), int(fields[1]), name, (int(fields[11]) + int(fields[12])) / _JIFFIES))
    return found


def _busy() -> float:
    """Seconds of CPU time of all of the machine, that which its host took included."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    line = Path("/proc/stat").read_text().partition("\n")[0]
    times = dict(zip(names, map(int, line.split()[1:]), strict=False))
    return (sum(times.values()) - times["idle"] - times["iowait"]) / _JIFFIES


def _descendants(pid: int) -> list[_Process]:
    """The children of a process, and theirs."""
    every, found, parents = _processes(), [], {pid}
    while more := [each for each in every if each.parent in parents and each not in found]:
        found += more
        parents = {each.pid for each in more}
    return found


def _wait_for_video(page: Any) -> None:
    limit = time.monotonic() + _PATIENCE
    while page.evaluate("document.documentElement.dataset.mode") != "video":
        if time.monotonic() > limit:
            raise TimeoutError("a tab shows no video")
        page.wait_for_timeout(50)


def _clock_offset(page: Any) -> float:
    """CLOCK_MONOTONIC minus the page's performance.now(), in seconds, by the quickest of many round trips."""
    found: list[tuple[float, float]] = []
    for _ in range(_PINGS):
        before = time.monotonic()
        theirs = float(page.evaluate("performance.now()")) / 1e3
        after = time.monotonic()
        found.append((after - before, (before + after) / 2 - theirs))
    return min(found)[1]


# ---- processes -------------------------------------------------------------------------------------------------------


def picture(width: int, height: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Coloured squares with sharp edges, smoothed in the upper half; wider than the frame by the movement's way."""
    wide = width + _TURN
    colours = np.random.default_rng(1).integers(0, 256, (height // _BLOCK + 1, wide // _BLOCK + 1, 3), np.uint8)
    found = np.full((height, wide, 4), 255, np.uint8)
    found[..., :3] = colours.repeat(_BLOCK, 0).repeat(_BLOCK, 1)[:height, :wide]
    sums = np.cumsum(found[: height // 2, :, :3], axis=1, dtype=np.uint32)
    found[: height // 2, _BLUR:, :3] = (sums[:, _BLUR:] - sums[:, :-_BLUR]) // _BLUR
    return found


def _produce(pipe: Connection, name: str, width: int, height: int, rate: float) -> None:
    """Draw at the rate; ticks that came too late are left out, as a display leaves them out."""
    pixels = picture(width, height)
    with (
        vkshare.open(backend="cpu", name="producer", raster_threads=1) as device,
        device.create_surface(pixels.shape[1], height) as source,
        device.create_swapchain(vkshare.Headless(width, height)) as swapchain,
        source.access() as wide,
        swapchain.publish(name),
    ):
        source.write(pixels)
        pipe.send("ready")
        due, drawn = time.perf_counter(), 0
        while True:
            if pipe.poll(0):
                pipe.recv()
                pipe.send({"drawn": drawn, "time": time.perf_counter(), "cpu": time.process_time()})
            with swapchain.frame() as frame:
                left = drawn * _STEP % _TURN
                commands = device.record().copy(wide, frame.view, (left, 0, width, height))
                device.submit(commands)
            drawn += 1
            if rate:
                due = max(due + 1 / rate, time.perf_counter() - 1 / rate)
                time.sleep(max(0.0, due - time.perf_counter()))


def _serve(pipe: Connection, name: str) -> None:
    with vkshare.view.serve(name) as server:
        pipe.send(server.url)
        while True:
            pipe.recv()
            found = server.statistics()
            pipe.send({"cpu": time.process_time(), "viewers": found.viewers, "sent": found.sent})


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile."""
    return float(np.percentile(values, percent))
