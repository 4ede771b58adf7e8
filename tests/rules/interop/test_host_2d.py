"""2D libraries on a surface's own memory: what they draw another handle reads, and it ends with the access."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.linear_surfaces import linear
from support.pixel_formats import ONE_PLANE
from support.shared_handles import opened

import vkshare as vks
from vkshare import formats
from vkshare.core import host
from vkshare.errors import InvalidCallError, UnsupportedError

Open = Callable[..., vks.Device]
WIDTH, HEIGHT = 72, 33
RED, HALF_GREEN = (3, 2, 9, 5), (20, HEIGHT - 6, 8, 6)  # x, y, width, height; the second in the last rows

pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.filterwarnings(
        "ignore:unclosed <vkshare:ResourceWarning",  # things that a test leaves open, its device's fixture closes
        'ignore:"Default font" is deprecated:DeprecationWarning',
    ),
]


@dataclass(frozen=True)
class Library:
    """How one of them is used."""

    method: str
    package: str
    draw: Callable[[Any], None]  # both rectangles, and text, on the target
    fill: Callable[[Any], None]  # all of the target, in another colour
    own: Callable[[str], tuple[Any, Callable[[], np.ndarray[Any, Any]]]]  # a target in memory of its own, and its bytes
    refusal: type[Exception] | None  # of fill() after the access; None: it draws nothing

    def of(self, view: vks.View) -> Any:
        pytest.importorskip(self.package)
        return getattr(view, self.method)()


def pillow_draw(image: Any) -> None:
    from PIL import ImageDraw

    grey = image.mode == "L"
    draw = ImageDraw.Draw(image)
    for (x, y, width, height), colour in (
        (RED, 200 if grey else "red"),
        (HALF_GREEN, 128 if grey else (0, 128, 0, 128)),
    ):
        draw.rectangle((x, y, x + width - 1, y + height - 1), fill=colour)
    draw.text((36, 8), "vks", fill=255 if grey else "white")


def pillow_own(format: str) -> Any:
    from PIL import Image

    image = Image.new(host.PILLOW_MODES[format], (WIDTH, HEIGHT))
    return image, lambda: np.asarray(image)


def cairo_draw(surface: Any) -> None:
    import cairocffi

    context = cairocffi.Context(surface)
    for rect, colour in ((RED, (1, 0, 0, 1)), (HALF_GREEN, (0, 1, 0, 0.5))):
        context.set_source_rgba(*colour)
        context.rectangle(*rect)
        context.fill()
    context.set_source_rgba(1, 1, 1, 1)
    context.move_to(36, 22)
    context.show_text("vks")


def cairo_fill(surface: Any) -> None:
    import cairocffi

    cairocffi.Context(surface).paint()


def cairo_end(surface: Any) -> None:
    """And a try to go on, which cairo remembers as the surface's error."""
    surface.finish()
    with pytest.raises(Exception, match="finished"):
        surface.mark_dirty()


def cairo_own(format: str) -> Any:
    import cairocffi

    surface = cairocffi.ImageSurface(getattr(cairocffi, host.CAIRO_FORMATS[format]), WIDTH, HEIGHT)

    def pixels() -> np.ndarray[Any, Any]:
        surface.flush()
        rows = np.frombuffer(bytes(surface.get_data()), np.uint8).reshape(HEIGHT, surface.get_stride())
        return rows[:, : WIDTH * formats.get(format).bytes_per_pixel]

    return surface, pixels


def skia_draw(surface: Any) -> None:
    import skia

    canvas = surface.getCanvas()
    for (x, y, width, height), colour in ((RED, 0xFFFF0000), (HALF_GREEN, 0x8000FF00)):
        canvas.drawRect(skia.Rect.MakeXYWH(x, y, width, height), skia.Paint(Color=colour))
    canvas.drawString("vks", 36, 22, skia.Font(), skia.Paint(Color=0xFFFFFFFF))


def skia_own(format: str) -> Any:
    import skia

    spec = formats.get(format)
    rows = np.zeros((HEIGHT, WIDTH * spec.bytes_per_pixel), np.uint8)
    opaque = spec.channels < 4 and format != "rgb10a2unorm"
    alpha = skia.AlphaType.kOpaque_AlphaType if opaque else skia.AlphaType.kPremul_AlphaType
    info = skia.ImageInfo.Make(WIDTH, HEIGHT, getattr(skia.ColorType, host.SKIA_TYPES[format]), alpha)
    return skia.Surface.MakeRasterDirect(info, rows, rows.shape[1]), lambda: rows


PILLOW = Library("pillow", "PIL", pillow_draw, lambda image: image.putpixel((0, 0), 1), pillow_own, ValueError)
CAIRO = Library("cairo", "cairocffi", cairo_draw, cairo_fill, cairo_own, Exception)
SKIA = Library("skia", "skia", skia_draw, lambda surface: surface.getCanvas().clear(0xFF010203), skia_own, None)

# What memory holds of opaque red, and of a green of half opacity on nothing: premultiplied.
PIXELS: list[tuple[Any, ...]] = [
    (PILLOW, "r8unorm", 200, 128),
    (PILLOW, "rgba8unorm", (255, 0, 0, 255), (0, 128, 0, 128)),
    (PILLOW, "rgba8unorm-srgb", (255, 0, 0, 255), (0, 128, 0, 128)),
    (CAIRO, "r8unorm", 255, 128),
    (CAIRO, "bgra8unorm", (0, 0, 255, 255), (0, 128, 0, 128)),
    (SKIA, "r8unorm", 54, 91),  # the luminance, by Rec. 709; half of green's
    (SKIA, "rg8unorm", (255, 0), (0, 128)),
    (SKIA, "rgba8unorm", (255, 0, 0, 255), (0, 128, 0, 128)),
    (SKIA, "rgba8unorm-srgb", (255, 0, 0, 255), (0, 128, 0, 128)),
    (SKIA, "bgra8unorm", (0, 0, 255, 255), (0, 128, 0, 128)),
    (SKIA, "rgb10a2unorm", 0x3FF | 3 << 30, None),
    (SKIA, "rgba16float", (1, 0, 0, 1), (0, 128 / 255, 0, 128 / 255)),
    (SKIA, "rgba32float", (1, 0, 0, 1), (0, 128 / 255, 0, 128 / 255)),
    (SKIA, "rg16float", (1, 0), (0, 128 / 255)),
    (SKIA, "rg16unorm", (65535, 0), (0, 128 * 257)),
    (SKIA, "rgba16unorm", (65535, 0, 0, 65535), (0, 128 * 257, 0, 128 * 257)),
]
ids = [f"{library.method} {format}" for library, format, *_ in PIXELS]
each = pytest.mark.parametrize(("library", "format"), [case[:2] for case in PIXELS], ids=ids)
one_each = pytest.mark.parametrize(
    ("library", "format"),
    [(PILLOW, "rgba8unorm"), (CAIRO, "bgra8unorm"), (SKIA, "rgba8unorm")],
    ids=lambda v: str(v)[:0],
)


def test_every_format_that_a_library_takes_is_tested_here() -> None:
    for library, names in ((PILLOW, host.PILLOW_MODES), (CAIRO, host.CAIRO_FORMATS), (SKIA, host.SKIA_TYPES)):
        assert {format for tested, format, *_ in PIXELS if tested is library} == set(names)


@pytest.mark.rule("I7")
def test_another_handle_reads_what_a_library_drew(device: vks.Device, vks_open: Open) -> None:
    elsewhere = vks_open(name="other")
    for library, format, red, green in PIXELS:
        surface = linear(device, format, WIDTH, HEIGHT)
        other = opened(surface, elsewhere)
        before = device.statistics().copied_bytes
        with surface.access(release=1) as view:
            library.draw(library.of(view))
        assert device.statistics().copied_bytes == before
        with other.access(acquire=1):
            pixels = other.read()
        for (x, y, width, height), colour in ((RED, red), (HALF_GREEN, green)):
            if colour is not None:
                part = pixels[y : y + height, x : x + width].astype(float)
                tolerance = 1 if pixels.dtype.kind == "u" else 1e-3
                np.testing.assert_allclose(part, np.broadcast_to(colour, part.shape), atol=tolerance, err_msg=format)
        assert not pixels[0].any(), "row 0 is on top"
        assert np.count_nonzero(pixels[4:28, 34:]) > 20, "there is text"
        other.close()
        surface.close()


@pytest.mark.rule("I7")
@each
def test_it_draws_as_in_memory_of_its_own(device: vks.Device, library: Library, format: str) -> None:
    surface = linear(device, format, WIDTH, HEIGHT)
    with surface.access() as view:
        library.draw(library.of(view))
        drawn = view.array.copy()
    target, pixels = library.own(format)
    library.draw(target)
    np.testing.assert_array_equal(drawn.view(np.uint8).reshape(HEIGHT, -1), pixels().reshape(HEIGHT, -1))


@pytest.mark.rule("I7")
@one_each
def test_it_draws_over_what_the_device_drew_before(device: vks.Device, library: Library, format: str) -> None:
    surface = linear(device, format, WIDTH, HEIGHT)
    commands = device.record().clear(surface, (0, 0, 1, 1))
    with surface.access() as view:
        for _ in range(20):  # each time the device must be done
            device.submit(commands)
            library.draw(library.of(view))
            pixels = view.array
            assert pixels[3, 4].tolist() == ([0, 0, 255, 255] if format == "bgra8unorm" else [255, 0, 0, 255])
            assert pixels[20, 4].tolist() == ([255, 0, 0, 255] if format == "bgra8unorm" else [0, 0, 255, 255])


@pytest.mark.rule("I7", "I11")
@one_each
@pytest.mark.parametrize("fails", [False, True], ids=["", "after an error"])
def test_what_it_drew_with_ends_with_the_access(device: vks.Device, library: Library, format: str, fails: bool) -> None:
    surface = linear(device, format, WIDTH, HEIGHT)
    target = None
    try:
        with surface.access() as view:
            target = library.of(view)
            library.draw(target)
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    with surface.access():
        before = surface.read()
        if library.refusal is None:
            library.fill(target)
        else:
            with pytest.raises(library.refusal, match=r"(?i)closed|finished"):
                library.fill(target)
        np.testing.assert_array_equal(surface.read(), before)
        assert before.any()


@pytest.mark.rule("I7")
def test_a_layer_that_is_left_open_is_drawn_before_the_surface_is_handed_on(device: vks.Device) -> None:
    surface = linear(device, width=16, height=16)
    with surface.access() as view:
        canvas = SKIA.of(view).getCanvas()
        canvas.scale(0.25, 0.25)
        canvas.saveLayerAlpha(None, 255)
        canvas.clear(0xFF00FF00)
        assert not view.array.any()
    with surface.access() as view:
        assert (view.array == (0, 255, 0, 255)).all()


@pytest.mark.rule("I7")
@pytest.mark.parametrize(
    ("library", "format", "end"),
    [
        (PILLOW, "rgba8unorm", lambda image: image.close()),
        (CAIRO, "bgra8unorm", cairo_end),
        (SKIA, "rgba8unorm", lambda surface: surface.getCanvas().restoreToCount(1)),
    ],
    ids=["pillow", "cairo", "skia"],
)
def test_what_the_user_has_ended_already_is_no_error(
    device: vks.Device, library: Library, format: str, end: Any
) -> None:
    surface = linear(device, format, WIDTH, HEIGHT)
    with surface.access(release=1) as view:
        target = library.of(view)
        library.draw(target)
        end(target)
    with surface.access(acquire=1, timeout=0):
        assert surface.read().any()


@pytest.mark.rule("I7", "K31")
def test_a_cairo_surface_that_came_to_an_error_is_not_handed_on(device: vks.Device) -> None:
    """What is drawn after the error is not there: this is half a frame."""
    surface = linear(device, "bgra8unorm", WIDTH, HEIGHT)

    def hand_over() -> None:
        with surface.access(acquire=0, release=1) as view:
            target = CAIRO.of(view)
            with pytest.raises(Exception, match="INVALID_MATRIX"):
                target.set_fallback_resolution(0, 0)

    with pytest.raises(Exception, match="INVALID_MATRIX"):
        hand_over()
    surface.acquire(0, 0)


@pytest.mark.rule("I7", "K31")
def test_a_library_that_cannot_finish_gives_the_surface_back_by_the_key_that_it_was_acquired_with(
    device: vks.Device,
) -> None:
    surface = linear(device)
    finished: list[int] = []

    def fails() -> None:
        raise RuntimeError("out of ink")

    def hand_over() -> None:
        with surface.access(acquire=0, release=1) as view:
            view._at_end(lambda: finished.append(1))
            view._at_end(fails)

    with pytest.raises(RuntimeError, match="out of ink"):
        hand_over()
    assert finished == [1], "the others are finished all the same"
    surface.acquire(0, 0)


@pytest.mark.rule("I7")
@pytest.mark.parametrize("library", [PILLOW, CAIRO, SKIA], ids=lambda library: library.method)
def test_formats_that_a_library_has_not_are_refused_with_what_to_do(device: vks.Device, library: Library) -> None:
    names = {"pillow": host.PILLOW_MODES, "cairo": host.CAIRO_FORMATS, "skia": host.SKIA_TYPES}[library.method]
    for format in set(ONE_PLANE) - set(names):
        if formats.get(format).is_depth and device.backend == "vulkan":
            continue  # there are no linear ones
        with linear(device, format) as surface, surface.access() as view:
            reported = (
                rf"view\.{library.method}\(\) of {format}.*create the surface as .*{next(iter(names))}.*view\.array"
            )
            with pytest.raises(UnsupportedError, match=reported):
                library.of(view)


@pytest.mark.rule("I1", "I7")
@one_each
def test_a_read_only_access_or_one_that_is_over_draws_nothing(
    device: vks.Device, library: Library, format: str
) -> None:
    surface = linear(device, format, WIDTH, HEIGHT)
    with (
        surface.access(writable=False) as view,
        pytest.raises(InvalidCallError, match=r"read-only.*writable=False"),
    ):
        library.of(view)
    with pytest.raises(InvalidCallError, match="this View is over"):
        library.of(view)


@pytest.mark.rule("I7")
def test_rows_that_cairo_cannot_take_are_refused(device: vks.Device) -> None:
    surface = linear(device, "r8unorm", 13)
    if surface.stride % 4 == 0:
        pytest.skip(f"rows of {device.adapter.name} are {surface.stride} bytes apart")
    with surface.access() as view, pytest.raises(UnsupportedError, match=r"rows 14 bytes apart.*width.*multiple of 4"):
        CAIRO.of(view)


@pytest.mark.rule("I7")
def test_a_frame_of_a_swapchain_is_refused(device: vks.Device) -> None:
    with device.create_swapchain(vks.Headless(16, 16)) as swapchain, swapchain.frame() as frame:
        with pytest.raises(UnsupportedError, match=r"of a frame.*composite"):
            frame.view.skia()
        device.submit(device.record().clear(frame.view, (0, 0, 0, 1)))
