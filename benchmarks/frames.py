"""How many frames a second go from one process to another, and how near does that come to filling memory?"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import vkshare
from benchmarks import compiler, frame_copies, keyed_ring
from benchmarks.measure import Spread, Timed, rates, take_turns, warmed_up
from benchmarks.peer import Peer
from benchmarks.placement import Placement, pairs
from benchmarks.plan import Plan
from benchmarks.report import RATE, Must, Row, apart, row, spreads
from benchmarks.shared_block import SharedBlock

if TYPE_CHECKING:
    from vkshare import Surface

_RING = 3  # surfaces, each with its keyed mutex: the producer's key is 0, the consumer's 1
# How long a cache line travels between two cores depends on where its page lies, so that one ring says little. Each
# turn takes two, one to warm up: an odd number brings all of them to the clock.
_RINGS = 5
_SIZES = {"1080p": (1920, 1080), "4K": (3840, 2160)}
_WARM_UP = 2 * _RING  # frames
_TURN = 20e-3  # seconds
_LONG_TURN = 100e-3  # for what moves only a few frames in the other


def run(plan: Plan) -> list[Row]:
    """This process produces, another consumes. On the CPU backend, where surfaces are mapped."""
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(vkshare.open(backend="cpu", name="bench"))
        rings = {
            name: [[stack.enter_context(device.create_surface(*size)) for _ in range(_RING)] for _ in range(_RINGS)]
            for name, size in _SIZES.items()
        }
        block = stack.enter_context(SharedBlock(_RINGS * mmap.PAGESIZE))
        pixels = stack.enter_context(SharedBlock(_RING * 4 * 1920 * 1080))
        copies = stack.enter_context(frame_copies.channels(*_SIZES["1080p"], plan))
        descriptors = {name: [[s.export() for s in ring] for ring in each] for name, each in rings.items()}
        producers = _producers(rings, block, pixels, plan) | copies.producers()
        with Peer(__name__, "peer_sides", descriptors, block, copies) as peer:
            return [row for place in peer.places(plan) for row in _rows(place, peer, producers, plan)]


def peer_sides(
    descriptors: dict[str, list[list[Any]]], block: SharedBlock, copies: frame_copies.Channels
) -> dict[str, Timed]:
    """For the other process, the consumer."""
    device = vkshare.open(backend="cpu", name="bench peer")
    rings = {name: [[device.open_surface(d) for d in ring] for ring in each] for name, each in descriptors.items()}
    sides = {name: warmed_up(_pass_on(each, 1, 0), _WARM_UP) for name, each in rings.items()}
    sides["fill"] = warmed_up(_pass_on(rings["1080p"][:1], 1, 0), _WARM_UP)
    with contextlib.suppress(compiler.NoCompiler):
        sides |= {name: warmed_up(keyed_ring.on_pages(block, _RING, 1, 0), _WARM_UP) for name in "cC"}
    return sides | copies.consumers()


def _rows(place: Placement, peer: Peer, producers: dict[str, Timed], plan: Plan) -> Iterator[Row]:
    """By the consumer's clock: a frame counts when it has arrived."""
    plan.progress(f"frames between two processes, {place.name}")
    matches = peer.matches(producers)
    # The producer fills each frame, against C that fills as much memory and hands nothing over, and C that does.
    filling = {"ours": matches.pop("fill")}
    if "limit" in producers:
        filling |= {"c": producers["limit"], "C, handed over": matches.pop("C")}
        del matches["limit"]
    quick: dict[str, Timed] = {name: matches.pop(name) for name in ("1080p", "4K", "c") if name in matches}
    samples = take_turns(quick, plan.seconds, _TURN)
    found = {name: rates(each) for name, each in samples.items()}
    # The slow ones take part in their best placement: that is enough.
    slow = take_turns(matches, plan.seconds, _LONG_TURN) if place == pairs(True)[-1] else {}
    for name in _SIZES:
        others = {other: rates(each) for other, each in slow.items()} if name == "1080p" else {}
        theirs = Spread.of(found["c"]) if "c" in found else None
        what, ours, must = f"{name} frames, no pixel work", Spread.of(found[name]), Must(300_000, at_least=True)
        yield Row(what, place.name, ours, theirs, RATE, ours, must, is_rate=True, others=spreads(others))
    yield apart("4K frames against 1080p", place.name, samples["4K"], samples["1080p"], "1080p")
    filled = {name: rates(each) for name, each in take_turns(filling, plan.seconds, _LONG_TURN).items()}
    must = Must(0.9, at_least=True)
    yield row("1080p frames, each filled", place.name, filled, must, is_rate=True, against="memset")


# ---- the sides ------------------------------------------------------------------------------------------------------


def _producers(
    rings: dict[str, list[list[Surface]]], block: SharedBlock, pixels: SharedBlock, plan: Plan
) -> dict[str, Timed]:
    sides = {name: warmed_up(_pass_on(each, 0, 1), _WARM_UP) for name, each in rings.items()}
    sides["fill"] = warmed_up(_fill(rings["1080p"][0]), _WARM_UP)
    try:
        blocks, size = _split(pixels)
        sides["c"] = warmed_up(keyed_ring.on_pages(block, _RING, 0, 1), _WARM_UP)
        sides["C"] = warmed_up(keyed_ring.on_pages(block, _RING, 0, 1, blocks, size), _WARM_UP)
        sides["limit"] = _limit(blocks, size)
    except compiler.NoCompiler as error:
        plan.note(f"frames in C: {error}")
    return sides


def _pass_on(rings: list[list[Surface]], take: int, give: int) -> Callable[[int], None]:
    turns = cycle(rings)  # the other process counts turns too, and starts at the same ring

    def side(n: int) -> None:
        for surface in islice(cycle(next(turns)), n):
            surface.acquire(take)
            surface.release(give)

    return side


def _fill(ring: list[Surface]) -> Callable[[int], None]:
    def side(n: int) -> None:
        for i, surface in enumerate(islice(cycle(ring), n)):
            with surface.access(acquire=0, release=1) as view:
                view.array.fill(i & 0xFF)

    return side


def _split(block: SharedBlock) -> tuple[ctypes.Array[ctypes.c_void_p], int]:
    size = block.size // _RING
    return (ctypes.c_void_p * _RING)(*(block.address + i * size for i in range(_RING))), size


def _limit(blocks: ctypes.Array[ctypes.c_void_p], size: int) -> Timed:
    types = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_long
    fills = compiler.function(compiler.library("memory.c"), "time_fills", *types)

    def side(n: int) -> float:
        fills(blocks, _RING, size, _RING)  # maps the pages
        return float(fills(blocks, _RING, size, n))

    return side
