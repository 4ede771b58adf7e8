"""How fast does the CPU backend draw, against the loops that one writes by hand in C and against 2D libraries?"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import vkshare
from benchmarks import compiler
from benchmarks.compiler import ffi
from benchmarks.measure import Spread, Timed, counted, ratios, repeated, spreads
from benchmarks.plan import Plan

WIDTH, HEIGHT = 1920, 1080
TRIANGLES = 10_000
_CORNERS = np.array([(0, 0), (12, 0), (6, 10.4)], np.float32)  # pixels
_ALPHA = 128
_TURN = 10e-3  # seconds
_OVER = "premultiplied src-over, 1080p"
_DRAW = f"{TRIANGLES:,} blended 12-pixel triangles"
_MOST = {_OVER: 1.15, _DRAW: 1.2}

Ways = dict[str, Timed]  # by _OVER and _DRAW


def run(plan: Plan) -> None:
    """Submitted from Python and waited for, by one thread and by two."""
    scene = Scene()
    with contextlib.ExitStack() as stack:
        one, two = (_drawing(stack, scene, backend="cpu", raster_threads=n) for n in (1, 2))
        others = _others(plan, stack, scene)
        in_c: Ways = {}
        with plan.noting("raster loops in C"):
            in_c = _loops_in_c(scene)
        for place in plan.alone():
            contenders = {"ours": one, "c": in_c} | (others if place.here is not None else {})
            for what, most in _MOST.items():
                ways = {name: each[what] for name, each in contenders.items() if what in each}
                plan.race(what, ways, most=most, turn=_TURN)
        # Unpinned always: two threads need two cores.
        for what, limit in ((_OVER, 0.6), (_DRAW, None)):
            samples = plan.turns(f"{what}, two threads", {"one thread": one[what], "two": two[what]}, _TURN)
            ours, figure = Spread.of(samples["two"]), ratios(samples.pop("two"), samples["one thread"])
            plan.ratio(f"{what}, two threads", figure, ours, most=limit, against="one", others=spreads(samples))


class Scene:
    """A picture of random premultiplied pixels, and random triangles, half transparent. Always the same ones."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        alpha = random.integers(0, 256, (HEIGHT, WIDTH, 1), np.int64)
        colours = random.integers(0, 256, (HEIGHT, WIDTH, 3)) * alpha // 255
        self.source = np.concatenate([colours, alpha], axis=2).astype(np.uint8)
        turn = random.uniform(-2, 2, (TRIANGLES, 1)).astype(np.float32) * 0.3
        at = random.uniform((16, 16), (WIDTH - 16, HEIGHT - 16), (TRIANGLES, 2)).astype(np.float32)
        x, y = _CORNERS[:, 0], _CORNERS[:, 1]
        self.pixels = at[:, None, :] + np.stack([x + turn * y, y - turn * x], axis=2)  # (TRIANGLES, 3, 2)
        rgb = random.integers(0, _ALPHA, (TRIANGLES, 3))
        self.colours = np.concatenate([rgb, np.full((TRIANGLES, 1), _ALPHA)], axis=1).astype(np.uint8)

    @property
    def vertices(self) -> np.ndarray[Any, Any]:
        """(TRIANGLES, 3, 6) as draw_triangles() takes them: x y in clip space, premultiplied r g b a."""
        position = self.pixels * np.array([2 / WIDTH, 2 / HEIGHT], np.float32) - 1
        colour = np.repeat(self.colours[:, None, :] / np.float32(255), 3, axis=1)
        return np.concatenate([position, colour], axis=2).astype(np.float32)

    def reference_triangles(self) -> np.ndarray[Any, Any]:
        """As `struct reference_triangle` of c/raster_reference.h."""
        rows = np.zeros(TRIANGLES, [("x", "<f4", 3), ("y", "<f4", 3), ("colour", "<u4")])
        rows["x"], rows["y"] = self.pixels[:, :, 0], self.pixels[:, :, 1]
        rows["colour"] = self.colours.view("<u4")[:, 0]
        return rows


def _drawing(stack: contextlib.ExitStack, scene: Scene, **options: Any) -> Ways:
    """Both on a device of their own."""
    device = stack.enter_context(vkshare.open(name="bench", **options))
    source, target = (stack.enter_context(device.create_surface(WIDTH, HEIGHT)) for _ in range(2))
    for surface in (source, target):
        surface.acquire(0)
        surface.write(scene.source)

    def submitted(commands: vkshare.CommandList) -> Timed:
        return repeated(lambda: device.submit(commands).wait())

    return {
        _OVER: submitted(device.record().composite(source, target)),
        _DRAW: submitted(device.record().draw_triangles(target, scene.vertices)),
    }


def reference() -> Any:
    """The loops of c/raster_reference.c, for the baseline of the architecture. Raises compiler.NoCompiler."""
    return compiler.library("raster_reference.c", flags=("-O3", "-DSUFFIX=baseline"))


def _loops_in_c(scene: Scene) -> Ways:
    lib = reference()
    target, source, triangles = scene.source.copy(), scene.source, scene.reference_triangles()
    to, from_ = (ffi.from_buffer("uint32_t[]", each) for each in (target, source))
    corners = ffi.from_buffer("struct reference_triangle[]", triangles)
    return {
        _OVER: repeated(lambda: lib.reference_over_baseline(to, from_, WIDTH * HEIGHT)),
        _DRAW: repeated(lambda: lib.reference_triangles_baseline(to, WIDTH, HEIGHT, corners, TRIANGLES)),
    }


# ---- 2D libraries, and software Vulkan -------------------------------------------------------------------------------


def _others(plan: Plan, stack: contextlib.ExitStack, scene: Scene) -> dict[str, Ways]:
    """By name; those that are not installed are noted."""
    found = {}
    for name, make in _LIBRARIES.items():
        with plan.noting(f"{name} is not installed", ImportError, OSError):  # the latter: a shared library is missing
            found[name] = make(scene)
    for adapter in vkshare.adapters("vulkan"):
        if adapter.kind == "software":
            found[adapter.name.split()[0]] = _drawing(stack, scene, adapter=adapter, validation=False)
    return found


def _pillow(scene: Scene) -> Ways:
    """Image.alpha_composite; straight alpha. It draws no blended triangles."""
    from PIL import Image

    source, target = Image.fromarray(scene.source), Image.fromarray(scene.source.copy())
    return {_OVER: counted("target.alpha_composite(source)", target=target, source=source)}


def _cairo(scene: Scene) -> Ways:
    """An image surface painted over another, through cairocffi."""
    import cairocffi

    memory = [bytearray(scene.source.tobytes()) for _ in range(2)]  # premultiplied, as cairo's are
    source, target = (
        cairocffi.ImageSurface.create_for_data(each, cairocffi.FORMAT_ARGB32, WIDTH, HEIGHT) for each in memory
    )
    context = cairocffi.Context(target)
    context.set_source_surface(source)
    return {_OVER: counted("context.paint()", context=context, kept=memory)}


def _skia(scene: Scene) -> Ways:
    """Its CPU canvas, through skia-python; the triangles in one call."""
    import skia

    pixels = scene.source.copy()
    surface = skia.Surface(pixels, skia.ColorType.kRGBA_8888_ColorType)
    canvas = {"canvas": surface.getCanvas(), "kept": (surface, pixels)}
    info = skia.ImageInfo.Make(WIDTH, HEIGHT, skia.ColorType.kRGBA_8888_ColorType, skia.AlphaType.kPremul_AlphaType)
    image = skia.Image.MakeRasterData(info, skia.Data.MakeWithCopy(scene.source.tobytes()), 4 * WIDTH)
    points = [skia.Point(float(x), float(y)) for x, y in scene.pixels.reshape(-1, 2)]
    colours = []
    for r, g, b, a in scene.colours.tolist():
        colours += [skia.Color(r * 255 // a, g * 255 // a, b * 255 // a, a)] * 3
    triangles = skia.Vertices(skia.Vertices.kTriangles_VertexMode, points, points, colours)
    paint, colours_alone = skia.Paint(BlendMode=skia.BlendMode.kSrcOver, AntiAlias=False), skia.BlendMode.kDst
    drawn = {"triangles": triangles, "paint": paint, "mode": colours_alone}
    return {
        _OVER: counted("canvas.drawImage(image, 0, 0)", image=image, **canvas),
        _DRAW: counted("canvas.drawVertices(triangles, paint, mode)", **drawn, **canvas),
    }


_LIBRARIES = {"Pillow": _pillow, "cairo": _cairo, "skia": _skia}
