"""The engines demo's parent: starts the engines' processes, kills one after the other, and makes the report."""

from __future__ import annotations

import signal
import socket
import time
from typing import Any

from vkshare.compositor.window_host import Signals
from vkshare.demos import pictures, process
from vkshare.demos.engines.player import ARTISTS, DIE, Part
from vkshare.demos.engines.wall import Wall
from vkshare.demos.options import EnginesOptions
from vkshare.demos.process import Child
from vkshare.util.closing import Scoped

_LOOK = 0.005  # seconds between two looks at the processes, and at turns of those that are not there
_STARTING = 90.0  # seconds that the engines may take to start, all at once
_SHOWING = 20.0  # seconds until each process's tile is shown
_LAST = 0.5  # seconds for the last pictures to be shown, once all processes are there


def run(options: EnginesOptions, signals: Signals) -> dict[str, Any] | None:
    """Runs the demo until its time is over, or Esc or the close button ends it.

    Returns the contents of `vkshare demo engines --json`; None: a signal ended it.

    Raises
    ------
    VkshareError, ValueError, OSError
        As the device, the compositor and the window raise them.
    """
    with Wall(options) as wall, _Cast(wall) as cast:
        cast.play(signals)
        if signals.came:
            return None
        return cast.report()


class _Seat:
    """An engine, its process, its tile, and its totals over all of its processes."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.child: Child | None = None
        self.link: socket.socket | None = None
        self.tile: Any = None
        self.window: Any = None
        self.starts = 0
        self.kills = 0
        self.why = ""  # it does not run here
        self.totals = {"shown": 0, "turns": 0, "tile_copies": 0, "turn_copies": 0}
        self.extra: list[float] | None = None  # seconds: see player.py; of its last process that measured it

    @property
    def plays(self) -> bool:
        """Its process draws."""
        return self.child is not None and "ready" in self.child.reported

    @property
    def is_there(self) -> bool:
        """It plays, and is not about to be killed: each kill is followed by a start."""
        return self.plays and self.kills < self.starts

    def counts(self) -> dict[str, int]:
        """The totals with those of the process that runs."""
        reported = self.child.reported if self.child else {}
        self.extra = self.extra if reported.get("extra") is None else reported["extra"]
        now = reported.get("counts", {})
        return {name: total + now.get(name, 0) for name, total in self.totals.items()}


class _Cast(Scoped):
    """The processes."""

    def __init__(self, wall: Wall) -> None:
        self._wall = wall
        self._seats = [_Seat(number, name) for number, name in enumerate(ARTISTS)]
        self._faults: list[str] = []
        self._seconds = 0.0
        self._wall.write([seat.name for seat in self._seats])
        for seat in self._seats:
            self._start(seat)

    def play(self, signals: Signals) -> None:
        """Waits for all engines, lets them draw, and kills one every few seconds; all are there at the end."""
        options = self._wall.options
        if not self._until_there(signals):
            return
        self._wall.write([f"{seat.name}{': not here' if seat.why else ''}" for seat in self._seats])
        begin = time.monotonic()
        due, victim = begin + options.kill_after, 0
        while not self._is_over(signals) and (now := time.monotonic()) - begin < options.seconds:
            self._look(signals)
            playing = [seat for seat in self._seats if seat.is_there]
            if now >= due and playing and len(playing) == sum(not seat.why for seat in self._seats):
                due = now + options.kill_after
                self._kill(playing[victim % len(playing)], in_turn=victim % 2 == 0)
                victim += 1
        if self._until_there(signals):
            self._seconds = time.monotonic() - begin
            self._until_shown(signals)

    def report(self) -> dict[str, Any]:
        """The report; writes the picture."""
        wall, options = self._wall, self._wall.options
        pixels = wall.capture()
        if options.output is not None:
            pictures.save(pixels, options.output)
        engines = []
        for seat in self._seats:
            counts = seat.counts()
            if not seat.why and not wall.has_ended:
                is_tile, is_cell = wall.seen(pixels, seat.number)
                if not (is_tile and counts["shown"]):
                    self._faults.append(f"{seat.name} is not on the wall")
                if not (is_cell and counts["turns"]):
                    self._faults.append(f"{seat.name} is not in the picture")
            engines.append({"name": seat.name, **counts, "extra": seat.extra, "kills": seat.kills, "why": seat.why})
        if all(seat.why for seat in self._seats):
            self._faults.append("no engine runs here")
        return {
            "adapter": wall.device.adapter.name,
            "seconds": self._seconds,
            "rounds": wall.rounds,
            "recoveries": wall.recoveries,
            "engines": engines,
            "faults": self._faults,
            "output": options.output,
            "ok": not self._faults,
        }

    def close(self) -> None:
        """Ends the processes, then their tiles."""
        for seat in self._seats:
            if seat.link is not None:
                seat.link.close()
        children = [seat.child for seat in self._seats if seat.child is not None]
        deadline = time.monotonic() + process.ENDING
        for child in children:
            while not child.has_ended and time.monotonic() < deadline:
                time.sleep(_LOOK)
        process.end(children)
        for seat in self._seats:
            self._drop(seat)

    # ---- processes --------------------------------------------------------------------------------------------

    def _start(self, seat: _Seat) -> None:
        wall = self._wall
        seat.tile = wall.surface()
        seat.window = wall.show(seat.number, seat.tile)
        seat.link, theirs = socket.socketpair()
        with theirs:
            adapter = wall.device.adapter.uuid.hex()
            part = Part(seat.name, adapter, seat.number, wall.cell(seat.number), wall.tile_size, theirs.fileno())
            module = "vkshare.demos.engines.player"
            seat.child = Child.start(seat.name, module, part, fds=(theirs.fileno(),))
        seat.starts += 1
        for surface in (seat.tile, wall.picture):
            with surface.export() as descriptor:
                descriptor.send(seat.link, 10.0)

    def _kill(self, seat: _Seat, *, in_turn: bool) -> None:
        """SIGKILL now; or inside its next turn on the picture, where it sends that to itself."""
        if seat.child is None or seat.link is None:
            return
        seat.kills += 1
        if in_turn:
            seat.link.send(DIE)
        else:
            seat.child.process.kill()

    def _look(self, signals: Signals) -> None:
        """Takes in what the processes and the user did."""
        self._wall.poll()
        by_fd = {seat.child.fileno(): seat for seat in self._seats if seat.child is not None}
        for fd in signals.wait(_LOOK, *by_fd):
            seat = by_fd[fd]
            if seat.child is not None and not seat.child.read():
                self._ended(seat, seat.child)
        self._wall.stand_in({seat.number for seat in self._seats if not seat.plays})

    def _ended(self, seat: _Seat, child: Child) -> None:
        """A process is gone: started again if it was killed, else it does not run here, or it is a fault."""
        child.wait()
        seat.totals = seat.counts()
        was_ready = "ready" in child.reported
        child.close()
        seat.child = None
        if seat.link is not None:
            seat.link.close()
        self._drop(seat)
        if child.process.returncode == -signal.SIGKILL and seat.kills == seat.starts:
            self._start(seat)
            return
        seat.why = child.reported.get("failed", child.obituary())
        if was_ready or seat.starts > 1:
            self._faults.append(child.obituary())

    def _drop(self, seat: _Seat) -> None:
        for each in (seat.window, seat.tile):
            if each is not None:
                each.close()
        seat.window = seat.tile = None

    def _until_there(self, signals: Signals) -> bool:
        """Whether each engine draws, or does not run here."""
        deadline = time.monotonic() + _STARTING
        while not self._is_over(signals):
            waiting = [seat.name for seat in self._seats if not (seat.is_there or seat.why)]
            if not waiting:
                return True
            if time.monotonic() > deadline:
                self._faults.append(f"not drawing after {_STARTING:.0f} s: {', '.join(waiting)}")
                return False
            self._look(signals)
        return False

    def _until_shown(self, signals: Signals) -> None:
        """The tiles of the newest processes, and then the last pictures."""
        deadline = time.monotonic() + _SHOWING
        while not self._is_over(signals) and time.monotonic() < deadline:
            self._look(signals)
            if all(seat.window.statistics().shown for seat in self._seats if seat.plays):
                deadline = min(deadline, time.monotonic() + _LAST)

    def _is_over(self, signals: Signals) -> bool:
        return bool(signals.came) or self._wall.has_ended
