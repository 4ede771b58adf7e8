"""The desktop's compositor: a process of its own, or part of the parent's."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import vkshare
from vkshare.compositor.window_host import Signals, WindowHost, WindowHostOptions
from vkshare.demos import pictures, process
from vkshare.demos.desktop.census import Census
from vkshare.demos.desktop.places import NAMES, Desk
from vkshare.demos.desktop.wallpaper import Panel, Wallpaper
from vkshare.demos.options import DesktopOptions
from vkshare.demos.stage import rgba
from vkshare.util.closing import Scoped

if TYPE_CHECKING:
    from vkshare.window.events import Event

_TURN = 0.05  # seconds between updates of the census
_PANEL = 0.25  # seconds between two pictures of the statistics
_LOOK = 0.1  # seconds between two looks at the numbers in the picture
_STARTING = 60.0  # seconds in which every client must have been shown
_SWITCH_INTERVAL = 0.0005  # seconds: docs/server.md, "Python's lock"


class Screen(Scoped):
    """Hosts the clients, and watches what becomes of them. Made, run and closed on the main thread."""

    def __init__(self, options: DesktopOptions, path: str) -> None:
        self._options = options
        desk = Desk(options.width, options.height)
        sys.setswitchinterval(_SWITCH_INTERVAL)
        with ExitStack() as made:
            host = WindowHostOptions(
                width=options.width,
                height=options.height,
                title="vkshare: desktop",
                path=path,
                # With --remote the viewer has the window, or none.
                is_headless=options.headless and not options.is_remote,
                backend="auto" if options.is_remote else options.backend,
                adapter=None if options.is_remote else options.adapter,
                can_capture=not options.is_remote,  # the numbers in the picture are looked at
            )
            self.host = made.enter_context(WindowHost(host, self._on_input))
            compositor = self.host.compositor
            self.adapter = compositor.device.adapter
            own = made.enter_context(vkshare.open(self.adapter, name="desktop"))
            reported = f"eight processes and a compositor, on {self.adapter.name}"
            self._wallpaper = made.enter_context(Wallpaper(own, desk, reported))
            self._panel = made.enter_context(Panel(own, desk))
            self._lowest = compositor.open_window(self._wallpaper.surface, title="wallpaper", is_opaque=True)
            compositor.open_window(self._panel.descriptor, title="statistics", at=self._panel.at, is_opaque=True)
            self._census = Census(compositor)
            self._faults: list[str] = []
            self._begin = self._looked = self._told = 0.0  # seconds of CLOCK_MONOTONIC
            self._steady_since: dict[str, float] | None = None
            self._wallpaper.show({})
            self._made = made.pop_all()

    def run(self, signals: Signals, look: Callable[[], None] = lambda: None) -> None:
        """Runs until that many composites are done, or the user ends it. Calls look() periodically."""
        self._begin = time.monotonic()
        while not (signals.came or self.host.has_ended or self._is_over()):
            self.host.turn(_TURN, signals)
            look()
            self._watch(time.monotonic())

    def _watch(self, now: float) -> None:
        """Update the census, check the order of the frames, and show both on the panel."""
        self._census.take()
        reported = self.host.compositor.statistics()
        # A look at a remote picture would fetch it over the network.
        if now - self._looked >= _LOOK and reported.composites and not self._options.is_remote:
            self._looked = now
            self._census.look(self.shown())
        if now - self._told >= _PANEL:
            self._told = now
            self._panel.show(self._census.counts, reported)
            self._wallpaper.show({count.name: count.detail for count in self._census.counts})
        if self._steady_since is None and self._census.is_complete:
            self._steady_since = self._totals()

    def _is_over(self) -> bool:
        if self._steady_since is None and time.monotonic() - self._begin > _STARTING:
            self._faults.append(f"not every client was shown within {_STARTING:.0f} s")
            return True
        frames = self._options.frames
        return self._steady_since is not None and frames is not None and self._steady()["composites"] >= frames

    def _totals(self) -> dict[str, float]:
        reported = self.host.compositor.statistics()
        counts = {name: getattr(reported, name) for name in ("ticks", "missed", "composites", "skipped")}
        return {**counts, "seconds": time.monotonic(), "slow": self._census.counts[NAMES.index("slow")].shown}

    def _steady(self) -> dict[str, float]:
        """Return the counters since every client was shown."""
        since = self._steady_since or self._totals()
        return {name: total - since[name] for name, total in self._totals().items()}

    def _on_input(self, event: Event) -> bool:
        """Windows are raised and dragged, the wallpaper stays where it is. On the compositor's thread."""
        if event.event_type != "pointer_down" or self.host.window is None:
            return False
        scale = self.host.window.scale[0]
        return self.host.compositor.window_at(event.x * scale, event.y * scale) is self._lowest

    def shown(self) -> Any:
        """(H, W, 4) uint8 RGBA."""
        compositor = self.host.compositor
        return rgba(compositor.capture(), compositor.swapchain.format)

    def report(self) -> dict[str, Any]:
        """Return the results of all clients. Writes the picture."""
        self._census.take()
        if self._options.output is not None and self.host.compositor.statistics().composites:
            pictures.save(self.shown(), self._options.output)
        return {
            "adapter": self.adapter.name,
            "seconds": time.monotonic() - self._begin,
            "display": {"kind": self.host.display.statistics().kind, "rate": float(1 / self.host.display.interval)},
            "clients": [dataclasses.asdict(count) for count in self._census.counts],
            "compositor": dataclasses.asdict(self.host.compositor.statistics()),
            "steady": self._steady(),  # of these the ones from when every client was shown; and slow: that one's frames
            "faults": self._faults,
        }

    def close(self) -> None:
        """Idempotent."""
        self._made.close()


def main() -> NoReturn:
    """The process's main function: JSON lines to the parent have its address, and at the end all results."""
    process.serve(DesktopOptions, _work)


def _work(options: DesktopOptions, path: str, status: int) -> None:
    with Signals() as signals, Screen(options, path) as screen:
        process.tell(status, ready=screen.adapter.uuid.hex())
        screen.run(signals)
        process.tell(status, done=screen.report())
