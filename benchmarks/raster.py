"""How fast does the CPU backend draw, against the loops that one writes by hand in C and against 2D libraries?"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import vkshare
from benchmarks import compiler, raster_libraries
from benchmarks.measure import Contenders, Spread, Timed, ratios, repeated, take_turns
from benchmarks.placement import Placement, alone
from benchmarks.plan import Plan
from benchmarks.raster_scene import HEIGHT, TRIANGLES, WIDTH, Scene
from benchmarks.report import RATIO, Must, Row, row, spreads

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
        for place in alone(plan):
            rows += _against_c(place, one, scene, others, plan)
        return [*rows, *_two_threads(one, two, plan)]


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
    place: Placement, drawing: _Drawing, scene: Scene, others: dict[str, Contenders], plan: Plan
) -> Iterator[Row]:
    references: dict[str, Timed] = {}
    try:
        references = _references(scene)
    except compiler.NoCompiler as error:
        plan.note(f"raster loops in C: {error}")
    musts = {_OVER: Must(1.15), _DRAW: Must(1.2)}
    for what, ours in ((_OVER, drawing.over), (_DRAW, drawing.draw)):
        plan.progress(f"{what}, {place.name}")
        ways = {"ours": ours}
        if what in references:
            ways["c"] = references[what]
        if place.here is not None:
            ways |= others[what]
        yield row(what, place.name, take_turns(ways, plan.seconds, _TURN), musts[what])


def _two_threads(one: _Drawing, two: _Drawing, plan: Plan) -> Iterator[Row]:
    """Unpinned always: two threads need two cores."""
    for what, first, second in ((_OVER, one.over, two.over), (_DRAW, one.draw, two.draw)):
        what, must = f"{what}, two threads", Must(0.6) if what == _OVER else None
        plan.progress(what)
        samples = take_turns({"one thread": first, "two": second}, plan.seconds, _TURN)
        ours, figure = Spread.of(samples["two"]), ratios(samples.pop("two"), samples["one thread"])
        yield Row(what, "unpinned", ours, None, RATIO, figure, must, against="one", others=spreads(samples))


# ---- the others -----------------------------------------------------------------------------------------------------


def _references(scene: Scene) -> dict[str, Timed]:
    """The loops of c/raster_reference.c, for the baseline of the architecture."""
    library = compiler.library("raster_reference.c", flags=("-O3", "-DSUFFIX=baseline"))
    pointer, size, edge = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    over = compiler.function(library, "reference_over_baseline", pointer, pointer, size, returns=None)
    types = pointer, edge, edge, pointer, size
    triangles = compiler.function(library, "reference_triangles_baseline", *types, returns=None)
    target, reference = scene.source.copy(), scene.reference_triangles()

    def composite() -> None:
        over(target.ctypes.data, scene.source.ctypes.data, WIDTH * HEIGHT)

    def draw() -> None:
        triangles(target.ctypes.data, WIDTH, HEIGHT, reference.ctypes.data, TRIANGLES)

    return {_OVER: repeated(composite), _DRAW: repeated(draw)}


def _others(stack: contextlib.ExitStack, scene: Scene, plan: Plan) -> dict[str, Contenders]:
    """2D libraries, and software Vulkan, by what they draw; those that are not installed are noted."""
    over, draw = {}, {}
    for name, make in raster_libraries.LIBRARIES.items():
        try:
            library = make(scene)
        except (ImportError, OSError):  # the latter where a shared library is missing
            plan.note(f"{name} is not installed")
            continue
        over[name] = repeated(library.over)
        if library.draw is not None:
            draw[name] = repeated(library.draw)
    for adapter in vkshare.adapters("vulkan"):
        if adapter.kind == "software":
            drawing = _Drawing(stack, scene, adapter=adapter, validation=False)
            name = adapter.name.split()[0]
            over[name], draw[name] = drawing.over, drawing.draw
    return {_OVER: over, _DRAW: draw}
