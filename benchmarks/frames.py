"""How many frames a second go from one process to another, and how near does that come to filling memory?"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import statistics
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import vkshare
from benchmarks import compiler, frame_copies, keyed_ring
from benchmarks.measure import Contender, Samples, Spread, take_turns, warmed_up
from benchmarks.peer import Peer
from benchmarks.placement import Placement, pairs, placed
from benchmarks.plan import Plan
from benchmarks.report import RATE, RATIO, Must, Row, ratio_row
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

Side = Callable[[int], float]  # passes n frames on; the seconds


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
            rows: list[Row] = []
            for place in pairs(plan.pinned_only):
                peer.pin(place.peer)
                with placed(place):
                    rows += _rows(place, peer, producers, plan)
            return rows


def peer_sides(
    descriptors: dict[str, list[list[Any]]], block: SharedBlock, copies: frame_copies.Channels
) -> dict[str, Side]:
    """For the other process, the consumer."""
    device = vkshare.open(backend="cpu", name="bench peer")
    rings = {name: [[device.open_surface(d) for d in ring] for ring in each] for name, each in descriptors.items()}
    sides = {name: warmed_up(_pass_on(each, 1, 0), _WARM_UP) for name, each in rings.items()}
    sides["fill"] = warmed_up(_pass_on(rings["1080p"][:1], 1, 0), _WARM_UP)
    with contextlib.suppress(compiler.NoCompiler):
        sides["c"] = warmed_up(_c(block, 1, 0), _WARM_UP)
        sides["C"] = warmed_up(_c(block, 1, 0), _WARM_UP)
    return sides | copies.consumers()


def _rows(place: Placement, peer: Peer, producers: dict[str, Side], plan: Plan) -> Iterator[Row]:
    plan.progress(f"frames between two processes, {place.name}")
    quick = [name for name in ("1080p", "4K", "c") if name in producers]
    samples = take_turns([_contender(peer, name, producers[name]) for name in quick], plan.seconds)
    others: dict[str, Samples] = {}
    if place == pairs(True)[-1]:  # their best placement, and enough: they are slow
        slow = [name for name in producers if name not in (*quick, "fill", "C", "limit")]
        others = take_turns([_contender(peer, name, producers[name], _LONG_TURN) for name in slow], plan.seconds)
    for name in _SIZES:
        rates = _rates(samples[name])
        yield Row(
            what=f"{name} frames, no pixel work",
            place=place.name,
            ours=Spread.of(rates),
            theirs=Spread.of(_rates(samples["c"])) if "c" in samples else None,
            kind=RATE,
            figure=Spread.of(rates),
            must=Must(300_000, at_least=True),
            is_rate=True,
            others={other: Spread.of(_rates(each)) for other, each in others.items()} if name == "1080p" else {},
        )
    yield _sizes_compared(place, samples)
    yield from _filled(place, peer, producers, plan)


def _sizes_compared(place: Placement, samples: dict[str, Samples]) -> Row:
    """The larger of the two rates over the smaller: all frames over all the time that they took.

    Two processes that chase each other round a ring have two rates, some 1.5 apart, according to how far apart they
    happen to run; a median says which of the two came more often, and jumps.
    """
    large, small = _rates(samples["4K"]), _rates(samples["1080p"])
    quotient = statistics.fmean(samples["1080p"]) / statistics.fmean(samples["4K"])
    apart = max(quotient, 1 / quotient)
    return Row(
        what="4K frames against 1080p",
        place=place.name,
        ours=Spread.of(large),
        theirs=None,
        kind=RATIO,
        figure=Spread(apart, apart, apart),
        must=Must(1.1),
        is_rate=True,
        against="apart",
        others={"1080p": Spread.of(small)},
    )


def _filled(place: Placement, peer: Peer, producers: dict[str, Side], plan: Plan) -> Iterator[Row]:
    """The producer fills each frame, against C that fills as much memory and hands nothing over, and C that does."""
    contenders = [_contender(peer, "fill", producers["fill"], _LONG_TURN)]
    if "C" in producers:
        contenders.append(Contender("limit", producers["limit"], _LONG_TURN))
        contenders.append(_contender(peer, "C", producers["C"], _LONG_TURN))
    samples = take_turns(contenders, plan.seconds)
    ours, limit = _rates(samples["fill"]), _rates(samples.get("limit", []))
    yield ratio_row(
        "1080p frames, each filled",
        place.name,
        ours,
        limit,
        Must(0.9, at_least=True),
        is_rate=True,
        against="memset",
        others={"C, handed over": Spread.of(_rates(samples["C"]))} if "C" in samples else {},
    )


def _contender(peer: Peer, name: str, producer: Side, turn: float = _TURN) -> Contender:
    """By the consumer's clock: a frame counts when it has arrived."""
    return Contender(name, lambda n: peer.play(name, n, producer)[1], turn)


def _rates(samples: Samples) -> list[float]:
    return [1 / sample for sample in samples]


# ---- the sides ------------------------------------------------------------------------------------------------------


def _producers(
    rings: dict[str, list[list[Surface]]], block: SharedBlock, pixels: SharedBlock, plan: Plan
) -> dict[str, Side]:
    sides = {name: warmed_up(_pass_on(each, 0, 1), _WARM_UP) for name, each in rings.items()}
    sides["fill"] = warmed_up(_fill(rings["1080p"][0]), _WARM_UP)
    try:
        blocks, size = _split(pixels)
        sides["c"] = warmed_up(_c(block, 0, 1), _WARM_UP)
        sides["C"] = warmed_up(_c(block, 0, 1, blocks, size), _WARM_UP)
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


def _c(
    mutexes: SharedBlock, take: int, give: int, blocks: ctypes.Array[ctypes.c_void_p] | None = None, size: int = 0
) -> Callable[[int], object]:
    ring = keyed_ring.in_c(_RING, take, give)
    pages = cycle(range(mutexes.address, mutexes.address + mutexes.size, mmap.PAGESIZE))
    return lambda n: ring(next(pages), blocks, size, n)


def _split(block: SharedBlock) -> tuple[ctypes.Array[ctypes.c_void_p], int]:
    size = block.size // _RING
    return (ctypes.c_void_p * _RING)(*(block.address + i * size for i in range(_RING))), size


def _limit(blocks: ctypes.Array[ctypes.c_void_p], size: int) -> Side:
    fills = compiler.function(
        compiler.library("memory.c"), "time_fills", ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_long
    )

    def side(n: int) -> float:
        fills(blocks, _RING, size, _RING)  # maps the pages
        return float(fills(blocks, _RING, size, n))

    return side
