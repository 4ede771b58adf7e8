"""How long does a hand-over to another process take, from Python, against C that waits in the same way?

And what does one cost between two handles of one device (sharing.py)?
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING, Any

import vkshare
from benchmarks import compiler, keyed_ring, sharing
from benchmarks.measure import Timed, take_turns, warmed_up
from benchmarks.peer import Peer
from benchmarks.placement import Placement
from benchmarks.plan import Plan
from benchmarks.report import Must, Row, row
from benchmarks.shared_block import SharedBlock

if TYPE_CHECKING:
    from vkshare import Surface

_TURN = 20e-3  # seconds: many time slices of the system's scheduler
_MUST = Must(1.5)
_WARM_UP = 10  # hand-overs before the clock starts: the other process must have woken
# Of ours and of C's: how long a cache line travels between two cores depends on where its page lies. Each turn takes
# two, one to warm up, so that an odd number brings all of them to the clock.
_PAGES = 15


def run(plan: Plan) -> list[Row]:
    """Between processes, and on one device."""
    return _between_processes(plan) + sharing.rows(plan)


def _between_processes(plan: Plan) -> list[Row]:
    """Keys 0 and 1 in turn, on the CPU backend: no GPU work is under way, so that the hand-over is all there is."""
    with (
        contextlib.ExitStack() as stack,
        vkshare.open(backend="cpu", name="bench") as device,
        SharedBlock(_PAGES * mmap.PAGESIZE) as block,
        tempfile.TemporaryDirectory() as folder,
    ):
        surfaces = [stack.enter_context(device.create_surface(64, 64)) for _ in range(_PAGES)]
        condition = multiprocessing.get_context("spawn").Condition()
        turn = multiprocessing.get_context("spawn").RawValue("q", 0)
        shared = ([surface.export() for surface in surfaces], block, condition, turn, os.path.join(folder, "zmq"))
        sides = _sides(surfaces, *shared[1:], is_first=True, plan=plan)
        with Peer(__name__, "peer_sides", *shared) as peer:
            return [_row(place, peer, sides, plan) for place in peer.places(plan)]


def peer_sides(descriptors: list[Any], *shared: Any) -> dict[str, Timed]:
    """For the other process."""
    device = vkshare.open(backend="cpu", name="bench peer")
    surfaces = [device.open_surface(descriptor) for descriptor in descriptors]
    return _sides(surfaces, *shared, is_first=False, plan=Plan())


def _row(place: Placement, peer: Peer, sides: dict[str, Timed], plan: Plan) -> Row:
    plan.progress(f"hand-over between two processes, {place.name}")
    samples = take_turns(peer.matches(sides, by_ours=True), plan.seconds * 2, _TURN)
    one_way = {name: [s / 2 for s in each] for name, each in samples.items()}
    return row("keyed hand-over between processes, one way", place.name, one_way, _MUST)


# ---- the sides: each hands over and takes back n times, and returns the seconds that this took -----------------------


def _sides(
    surfaces: list[Surface], block: SharedBlock, condition: Any, turn: Any, address: str, *, is_first: bool, plan: Plan
) -> dict[str, Timed]:
    take, give = (0, 1) if is_first else (1, 0)
    sides = {"ours": warmed_up(_ours(surfaces, take, give), _WARM_UP)}
    try:
        sides["c"] = warmed_up(keyed_ring.on_pages(block, 1, take, give), _WARM_UP)
    except compiler.NoCompiler as error:
        plan.note(f"the hand-over in C: {error}")
    sides["mp.Condition"] = warmed_up(_condition(condition, turn, take, give), _WARM_UP)
    try:
        sides["pyzmq"] = warmed_up(_zmq(address, is_first), _WARM_UP)
    except ImportError:
        plan.note("pyzmq is not installed")
    return sides


def _ours(surfaces: list[Surface], take: int, give: int) -> Callable[[int], None]:
    turns = cycle(surfaces)  # the other process counts turns too, and starts at the same page

    def side(n: int) -> None:
        surface = next(turns)
        for _ in range(n):
            surface.acquire(take)
            surface.release(give)

    return side


def _condition(condition: Any, turn: Any, take: int, give: int) -> Callable[[int], None]:
    def side(n: int) -> None:
        for _ in range(n):
            with condition:
                while turn.value != take:
                    condition.wait()
                turn.value = give
                condition.notify()

    return side


def _zmq(address: str, is_first: bool) -> Callable[[int], None]:
    import zmq

    socket: Any = zmq.Context.instance().socket(zmq.PAIR)
    socket.setsockopt(zmq.LINGER, 0)
    if is_first:
        socket.bind(f"ipc://{address}")
    else:
        socket.connect(f"ipc://{address}")

    def side(n: int) -> None:
        for _ in range(n):
            if is_first:
                socket.send(b"")
            socket.recv()
            if not is_first:
                socket.send(b"")

    return side
