"""How fast does the CPU backend draw, against the loops that one writes by hand in C and against 2D libraries?"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import vkshare
from benchmarks import compiler, raster_libraries
from benchmarks.measure import Contender, Spread, Timed, ratios, repeated, take_turns
from benchmarks.placement import Placement, alone, placed
from benchmarks.plan import Plan
from benchmarks.raster_scene import HEIGHT, TRIANGLES, WIDTH, Scene
from benchmarks.report import RATIO, Must, Row, ratio_row

if TYPE_CHECKING:
    from vkshare import CommandList, Device

_TURN = 10e-3  # seconds
_OVER = "premultiplied src-over, 1080p"
_DRAW = f"{TRIANGLES:,} blended 12-pixel triangles"


def run(plan: Plan) -> list[Row]:
    """Submitted from Python and waited for, by one thread and by two."""
    scene = Scene()
    with contextlib.ExitStack() as stack:
        one, two = (_Drawing(stack, scene, backend="cpu", raster_threads=n) for n in (1, 2))
        others = _others(stack, scene, plan)
        rows: list[Row] = []
        for place in alone(plan.pinned_only):
            with placed(place):
                rows += _against_c(place, one, scene, others, plan)
        with placed(Placement("unpinned")):
            rows += _two_threads(one, two, plan)
        return rows


class _Drawing:
    """Both scenes on a device of their own."""

    def __init__(self, stack: contextlib.ExitStack, scene: Scene, **options: Any) -> None:
        device = stack.enter_context(vkshare.open(name="bench", **options))
        source, target = (stack.enter_context(device.create_surface(WIDTH, HEIGHT)) for _ in range(2))
        for surface in (source, target):
            surface.acquire(0)
            surface.write(scene.source)
        self.over = _submitted(device, device.record().composite(source, target))
        self.draw = _submitted(device, device.record().draw_triangles(target, scene.vertices))


def _submitted(device: Device, commands: CommandList) -> Timed:
    return repeated(lambda: device.submit(commands).wait())


def _against_c(
    place: Placement, drawing: _Drawing, scene: Scene, others: dict[str, list[Contender]], plan: Plan
) -> Iterator[Row]:
    references: dict[str, Timed] = {}
    try:
        references = _references(scene)
    except compiler.NoCompiler as error:
        plan.note(f"raster loops in C: {error}")
    musts = {_OVER: Must(1.15), _DRAW: Must(1.2)}
    for what, ours in ((_OVER, drawing.over), (_DRAW, drawing.draw)):
        plan.progress(f"{what}, {place.name}")
        contenders = [Contender("ours", ours, _TURN)]
        if what in references:
            contenders.append(Contender("c", references[what], _TURN))
        if place.here is not None:
            contenders += others[what]
        samples = take_turns(contenders, plan.seconds)
        mine, c = samples.pop("ours"), samples.pop("c", None)
        spreads = {name: Spread.of(each) for name, each in samples.items()}
        yield ratio_row(what, place.name, mine, c, musts[what], others=spreads)


def _two_threads(one: _Drawing, two: _Drawing, plan: Plan) -> Iterator[Row]:
    """Unpinned always: two threads need two cores."""
    for what, first, second in ((_OVER, one.over, two.over), (_DRAW, one.draw, two.draw)):
        plan.progress(f"{what}, two threads")
        samples = take_turns([Contender("one", first, _TURN), Contender("two", second, _TURN)], plan.seconds)
        yield Row(
            what=f"{what}, two threads",
            place="unpinned",
            ours=Spread.of(samples["two"]),
            theirs=None,
            kind=RATIO,
            figure=ratios(samples["two"], samples["one"]),
            must=Must(0.6) if what == _OVER else None,
            against="one",
            others={"one thread": Spread.of(samples["one"])},
        )


# ---- the others -----------------------------------------------------------------------------------------------------


def _references(scene: Scene) -> dict[str, Timed]:
    """The loops of c/raster_reference.c, for the baseline of the architecture."""
    library = compiler.library("raster_reference.c", flags=("-O3", "-DSUFFIX=baseline"))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    over = compiler.function(library, "reference_over_baseline", pointer, pointer, size, returns=None)
    triangles = compiler.function(
        library, "reference_triangles_baseline", pointer, ctypes.c_int, ctypes.c_int, pointer, size, returns=None
    )
    target, reference = scene.source.copy(), scene.reference_triangles()

    def composite() -> None:
        over(target.ctypes.data, scene.source.ctypes.data, WIDTH * HEIGHT)

    def draw() -> None:
        triangles(target.ctypes.data, WIDTH, HEIGHT, reference.ctypes.data, TRIANGLES)

    return {_OVER: repeated(composite), _DRAW: repeated(draw)}


def _others(stack: contextlib.ExitStack, scene: Scene, plan: Plan) -> dict[str, list[Contender]]:
    """2D libraries, and software Vulkan, by what they draw; those that are not installed are noted."""
    found: dict[str, list[Contender]] = {_OVER: [], _DRAW: []}
    for name, make in raster_libraries.LIBRARIES.items():
        try:
            library = make(scene)
        except (ImportError, OSError):  # the latter where a shared library is missing
            plan.note(f"{name} is not installed")
            continue
        found[_OVER].append(Contender(name, repeated(library.over), _TURN))
        if library.draw is not None:
            found[_DRAW].append(Contender(name, repeated(library.draw), _TURN))
    for adapter in vkshare.adapters("vulkan"):
        if adapter.kind == "software":
            drawing = _Drawing(stack, scene, adapter=adapter, validation=False)
            name = adapter.name.split()[0]
            found[_OVER].append(Contender(name, drawing.over, _TURN))
            found[_DRAW].append(Contender(name, drawing.draw, _TURN))
    return found
