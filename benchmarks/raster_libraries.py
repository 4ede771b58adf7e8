"""2D libraries that draw what raster.py measures. A constructor raises ImportError or OSError where one is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.raster_scene import HEIGHT, WIDTH, Scene


class Pillow:
    """Image.alpha_composite; straight alpha. It draws no blended triangles."""

    draw: Callable[[], None] | None = None

    def __init__(self, scene: Scene) -> None:
        from PIL import Image

        self._source = Image.fromarray(scene.source)
        self._target = Image.fromarray(scene.source.copy())

    def over(self) -> None:
        """The picture over the target."""
        self._target.alpha_composite(self._source)


class Cairo:
    """An image surface painted over another, through cairocffi."""

    draw: Callable[[], None] | None = None

    def __init__(self, scene: Scene) -> None:
        import cairocffi

        self._memory = [bytearray(scene.source.tobytes()) for _ in range(2)]  # premultiplied, as cairo's are
        source, target = (
            cairocffi.ImageSurface.create_for_data(memory, cairocffi.FORMAT_ARGB32, WIDTH, HEIGHT)
            for memory in self._memory
        )
        self._context = cairocffi.Context(target)
        self._context.set_source_surface(source)

    def over(self) -> None:
        """The picture over the target."""
        self._context.paint()


class Skia:
    """Its CPU canvas, through skia-python."""

    def __init__(self, scene: Scene) -> None:
        import skia

        self._pixels = scene.source.copy()
        self._surface = skia.Surface(self._pixels, skia.ColorType.kRGBA_8888_ColorType)
        self._canvas = self._surface.getCanvas()
        info = skia.ImageInfo.Make(WIDTH, HEIGHT, skia.ColorType.kRGBA_8888_ColorType, skia.AlphaType.kPremul_AlphaType)
        self._image = skia.Image.MakeRasterData(info, skia.Data.MakeWithCopy(scene.source.tobytes()), 4 * WIDTH)
        self._triangles = self._vertices(skia, scene)
        self._paint = skia.Paint(BlendMode=skia.BlendMode.kSrcOver, AntiAlias=False)
        self._mode = skia.BlendMode.kDst  # the vertices' colours alone

    def over(self) -> None:
        """The picture over the target."""
        self._canvas.drawImage(self._image, 0, 0)

    def draw(self) -> None:
        """The triangles in one call."""
        self._canvas.drawVertices(self._triangles, self._paint, self._mode)

    @staticmethod
    def _vertices(skia: Any, scene: Scene) -> Any:
        points = [skia.Point(float(x), float(y)) for x, y in scene.pixels.reshape(-1, 2)]
        colours = []
        for r, g, b, a in scene.colours.tolist():
            colours += [skia.Color(r * 255 // a, g * 255 // a, b * 255 // a, a)] * 3
        return skia.Vertices(skia.Vertices.kTriangles_VertexMode, points, points, colours)


LIBRARIES: dict[str, Callable[[Scene], Any]] = {"Pillow": Pillow, "cairo": Cairo, "skia": Skia}
