"""Surfaces in planes: their views, their colours, and what commands make of them. Rules Y1, Y2 and Y3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.pixel_formats import PLANAR

import vkshare as vks
from vkshare.color import BT709, Color
from vkshare.core import watching
from vkshare.errors import DescriptorError, InvalidCallError, UnsupportedError
from vkshare.formats import get
from vkshare.ipc.descriptors import SurfaceDescriptor

pytest_plugins = ["support.peer_processes"]

Planes = tuple[np.ndarray[Any, Any], ...]

HDR = Color("bt2020", "pq", "bt2020", "limited", "top-left")


@pytest.fixture(autouse=True)
def _has_planes(vks_device: vks.Device) -> None:
    missing = [name for name in PLANAR if name not in vks_device.capabilities.formats]
    if missing:
        pytest.skip(f"no {missing[0]}: {vks_device.capabilities.reasons[f'format {missing[0]}']}")


def noise(surface: vks.Surface, seed: int = 1) -> Planes:
    """Random planes; unused bits of words are 0."""
    random = np.random.default_rng(seed)
    form = surface.spec.format
    found = []
    for index, plane in enumerate(form.planes):
        width, height = form.plane_size(index, surface.width, surface.height)
        most = 2 ** (8 * plane.numpy_dtype.itemsize) - 1
        codes = random.integers(0, most, (height, width, plane.channels), plane.numpy_dtype, endpoint=True)
        found.append(codes & 0xFFC0 if form.name == "p010" else codes)
    return tuple(found)


def exact(planes: Planes, name: str, color: Color) -> np.ndarray[Any, Any]:
    """R'G'B' in float64, (H, W, 3): H.273's matrices, and chroma between its pixels (Vulkan 16.3.8)."""
    bits = 10 if name == "p010" else 8
    codes = [(plane >> 6 if bits == 10 else plane).astype(np.float64) for plane in planes]
    chroma = codes[1] if len(codes) == 2 else np.concatenate(codes[1:], axis=2)
    across, down = get(name).chroma
    chroma = _between(chroma, 1, across, color.siting != "center")
    chroma = _between(chroma, 0, down, color.siting == "top-left")
    step, most = 2 ** (bits - 8), 2**bits - 1
    is_full = color.range == "full"
    luma = codes[0][..., 0] / most if is_full else (codes[0][..., 0] - 16 * step) / (219 * step)
    blue, red = np.moveaxis((chroma - 128 * step) / (most if is_full else 224 * step), 2, 0)
    kr, kb = {"bt709": (0.2126, 0.0722), "bt601": (0.299, 0.114), "bt2020": (0.2627, 0.0593)}[color.matrix]
    r, b = luma + 2 * (1 - kr) * red, luma + 2 * (1 - kb) * blue
    return np.stack([r, (luma - kr * r - kb * b) / (1 - kr - kb), b], 2).clip(0, 1)


def _between(chroma: np.ndarray[Any, Any], axis: int, factor: int, is_cosited: bool) -> np.ndarray[Any, Any]:
    if factor == 1:
        return chroma
    size = chroma.shape[axis]
    at = np.arange(2 * size) / 2 if is_cosited else (np.arange(2 * size) + 0.5) / 2 - 0.5
    first = np.floor(at).astype(int)
    weight = (at - first).reshape([-1 if each == axis else 1 for each in range(3)])
    low, high = (chroma.take((first + step).clip(0, size - 1), axis) for step in (0, 1))
    return low * (1 - weight) + high * weight


# ---- surfaces and views ---------------------------------------------------------------------------------------------


@pytest.mark.rule("Y1")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("name", PLANAR)
def test_planes_are_written_read_and_seen_without_a_copy(device: vks.Device, name: str) -> None:
    with device.create_surface(34, 18, name) as surface, surface.access() as view:
        assert all((plane == 0).all() for plane in surface.read_planes())
        written = noise(surface)
        surface.write_planes(written)
        for plane, wanted, form in zip(view.planes, written, surface.spec.format.planes, strict=True):
            assert (plane.format, plane.shape, plane.dtype) == (form.name, wanted.shape, wanted.dtype)
            assert plane.surface is surface
            if surface.is_host_visible:
                assert (plane.array == wanted).all()
                plane.array[0, 0] = 64
                assert (np.asarray(plane)[0, 0] == 64).all()
                assert (np.from_dlpack(plane)[0, 0] == 64).all()
        read = surface.read_planes()
        assert all((plane[0, 0] == 64).all() for plane in read) or not surface.is_host_visible
        assert view.planes is view.planes


@pytest.mark.rule("Y1")
def test_a_format_of_one_plane_has_that_plane(device: vks.Device) -> None:
    with device.create_surface(5, 3) as surface, surface.access() as view:
        surface.write_planes([np.full((3, 5, 4), 7, np.uint8)])
        (pixels,) = surface.read_planes()
        assert (pixels == 7).all()
        (plane,) = view.planes
        assert (plane.format, plane.shape) == ("rgba8unorm", (3, 5, 4))


@pytest.mark.rule("Y1")
def test_one_array_for_several_planes_is_refused_with_what_to_do(device: vks.Device) -> None:
    with device.create_surface(4, 4, "nv12") as surface:
        with surface.access() as view:
            for call, instead in (
                (surface.read, "read_planes"),
                (lambda: surface.write(np.zeros((4, 4, 1), np.uint8)), "write_planes"),
                (lambda: view.array, r"planes\[0\].array"),
                (lambda: memoryview(view), r"planes\[0\].array"),
            ):
                with pytest.raises(UnsupportedError, match=f"several sizes; use {instead}"):
                    call()
            planes = view.planes
        with pytest.raises(InvalidCallError, match="is over"):
            _ = planes[0].array


@pytest.mark.rule("Y1")
def test_wrong_planes_are_named(device: vks.Device) -> None:
    luma, chroma = np.zeros((4, 4), np.uint8), np.zeros((2, 2, 2), np.uint8)
    with device.create_surface(4, 4, "nv12") as surface, surface.access():
        with pytest.raises(ValueError, match="arrays has 1 planes; nv12 has 2"):
            surface.write_planes([luma])
        with pytest.raises(ValueError, match=r"plane 1 has shape \(4, 4\); it takes .* = \(2, 2, 2\)"):
            surface.write_planes([luma, luma])
        with pytest.raises(TypeError, match="plane 0 has dtype uint16; r8unorm takes uint8"):
            surface.write_planes([luma.astype(np.uint16), chroma])


def _take_turn(surface: vks.Surface, acquire: int, release: int, seed: int) -> tuple[Planes, Color]:
    """In another process: what was there, and noise in its place."""
    with surface.access(acquire, release, 30):
        found = surface.read_planes()
        surface.write_planes(noise(surface, seed))
        return found, surface.color


@pytest.mark.rule("Y1", "Y2")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
@pytest.mark.parametrize("name", PLANAR)
def test_another_process_sees_the_planes_and_their_colour(
    device: vks.Device, peers: Any, name: str, tiling: str
) -> None:
    if tiling not in device.capabilities.tilings:
        pytest.skip(f"no {tiling}: {device.capabilities.reasons[tiling]}")
    peer = peers()
    theirs = peer.open(device.adapter)
    with device.create_surface(34, 18, name, tiling=tiling, color=HDR) as surface:
        with surface.access(0, 1):
            surface.write_planes(noise(surface))
        with surface.export() as descriptor:
            opened = theirs.open_surface(descriptor)
        found, color = peer.run(_take_turn, opened, 1, 2, seed=2)
        assert color == HDR
        assert all((one == other).all() for one, other in zip(found, noise(surface), strict=True))
        with surface.access(2, 0, 30):
            read = surface.read_planes()
            assert all((one == other).all() for one, other in zip(read, noise(surface, 2), strict=True))


# ---- colours --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Y2")
def test_a_surface_has_the_colour_that_it_was_made_with(device: vks.Device) -> None:
    with device.create_surface(4, 4) as surface, device.create_surface(4, 4, "nv12") as video:
        assert surface.color == surface.statistics().color == Color()
        assert video.color == BT709
    with device.create_surface(4, 4, "p010", color=HDR) as video, video.export() as descriptor:
        assert video.statistics().color == descriptor.spec.color == HDR
        assert device.open_surface(video).color == HDR


@pytest.mark.rule("Y2")
def test_a_colour_that_the_format_cannot_have_is_refused(device: vks.Device) -> None:
    with pytest.raises(ValueError, match="color has the matrix 'rgb'; allowed is 'bt709', 'bt601', 'bt2020'"):
        device.create_surface(4, 4, "nv12", color=Color())
    with pytest.raises(ValueError, match="color has the matrix 'bt709'; allowed is 'rgb' for surfaces of rgba8unorm"):
        device.create_surface(4, 4, color=BT709)
    with pytest.raises(TypeError, match="color must be a Color, not str"):
        device.create_surface(4, 4, color="bt709")  # type: ignore[arg-type]


@pytest.mark.rule("Y2", "X16")
@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (112, 77, "unknown colour: primaries 77"),
        (114, 0, "the matrix is 0, and a surface of format nv12 has one of Y'CbCr"),
        (115, 2, "unknown colour"),
        (116, 3, "unknown colour"),
        (117, 1, "unknown reserved bytes"),
        (0, 5, "5x4 pixels of nv12"),
    ],
)
def test_a_descriptor_with_another_colour_or_size_is_refused(
    device: vks.Device, offset: int, value: int, words: str
) -> None:
    with device.create_surface(4, 4, "nv12") as surface, surface.export() as descriptor:
        data = bytearray(descriptor.to_bytes())
        data[28 + offset] = value
        with pytest.raises(DescriptorError, match=words):
            SurfaceDescriptor.from_bytes(bytes(data), descriptor._duplicates())


# ---- commands -------------------------------------------------------------------------------------------------------

COLORS = [
    Color("bt709", "bt709", "bt709", "limited", "left"),
    Color("bt601", "bt709", "bt601", "full", "center"),
    HDR,
]


@pytest.mark.rule("Y3")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("color", COLORS, ids=["709", "601", "2020"])
@pytest.mark.parametrize("name", PLANAR)
def test_a_composite_and_a_blit_are_one_code_at_most_from_the_exact_conversion(
    device: vks.Device, name: str, color: Color
) -> None:
    with (
        device.create_surface(66, 34, name, color=color) as video,
        device.create_surface(66, 34) as target,
        video.access() as source,
        target.access() as view,
    ):
        planes = noise(video)
        video.write_planes(planes)
        wanted = exact(planes, name, color) * 255
        for record in (
            device.record().composite(source, view),
            device.record().blit(source, view, filter="nearest"),
        ):
            device.submit(device.record().clear(view, (1, 0, 1, 0)))
            device.submit(record)
            pixels = target.read()
            assert np.abs(pixels[..., :3] - wanted).max() <= 1
            assert (pixels[..., 3] == 255).all()


@pytest.mark.rule("Y3")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("name", PLANAR)
def test_a_texture_in_planes_is_drawn_in_its_colours(device: vks.Device, name: str) -> None:
    corners = np.array([(-1, -1, 0, 0), (3, -1, 2, 0), (-1, 3, 0, 2)], np.float32)
    with (
        device.create_surface(32, 16, name) as video,
        device.create_surface(32, 16) as target,
        video.access() as source,
        target.access() as view,
    ):
        planes = noise(video)
        video.write_planes(planes)
        device.submit(device.record().draw_triangles(view, corners, source, "nearest"))
        assert np.abs(target.read()[..., :3] - exact(planes, name, video.color) * 255).max() <= 1


@pytest.mark.rule("Y3")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("name", PLANAR)
def test_colours_become_planes_and_come_back(device: vks.Device, name: str) -> None:
    """A picture of one colour in each quarter keeps it, but at the quarters' edges."""
    with (
        device.create_surface(64, 32, name) as video,
        device.create_surface(64, 32) as rgb,
        video.access() as planes,
        rgb.access() as view,
    ):
        commands = device.record()
        for x, y, colour in ((0, 0, (1, 0, 0)), (32, 0, (0, 1, 0)), (0, 16, (0, 0, 1)), (32, 16, (0.5, 0.5, 0.5))):
            commands.fill_rect(view, (x, y, 32, 16), (*colour, 1))
        device.submit(commands.blit(view, planes, filter="nearest"))
        before = rgb.read()
        device.submit(device.record().clear(view, (0, 0, 0, 0)).composite(planes, view))
        after = rgb.read()
    for x in (16, 48):
        for y in (8, 24):
            assert np.abs(after[y, x].astype(int) - before[y, x]).max() <= 2


@pytest.mark.rule("Y3")
def test_planes_are_cleared_filled_and_copied(device: vks.Device) -> None:
    with (
        device.create_surface(16, 8, "nv12") as one,
        device.create_surface(16, 8, "nv12") as other,
        one.access() as view,
        other.access() as target,
    ):
        device.submit(device.record().clear(view, (1, 1, 1, 1)).fill_rect(view, (4, 2, 8, 4), (0, 0, 0, 1)))
        luma, chroma = one.read_planes()
        assert (luma[0, 0, 0], luma[3, 5, 0]) == (235, 16)
        assert (chroma == 128).all()
        device.submit(device.record().copy(view, target, (4, 2, 8, 4), (0, 0)))
        luma, _ = other.read_planes()
        assert (luma[:4, :8] == 16).all()
        assert (luma[4:] == 0).all()


@pytest.mark.rule("Y3")
def test_what_planes_cannot_take_is_refused(device: vks.Device) -> None:
    with (
        device.create_surface(16, 8, "nv12") as video,
        device.create_surface(16, 8, "nv12", color=Color("bt601", "bt709", "bt601", "full")) as other,
        device.create_surface(16, 8) as rgb,
        device.create_buffer(4096) as buffer,
        video.access() as view,
        other.access() as another,
        rgb.access() as pixels,
        buffer.access() as memory,
    ):
        commands = device.record()
        for call in (
            lambda: commands.composite(pixels, view),
            lambda: commands.draw_triangles(view, [(0, 0, 1, 1, 1, 1)] * 3),
        ):
            with pytest.raises(UnsupportedError, match="nothing is blended into planes"):
                call()
        with pytest.raises(ValueError, match=r"rect is \(1, 0, 4, 4\); in nv12, allowed are multiples of 2 across"):
            commands.fill_rect(view, (1, 0, 4, 4), (0, 0, 0, 1))
        with pytest.raises(ValueError, match="other matrices, ranges or sitings; use blit"):
            commands.copy(view, another)
        with pytest.raises(UnsupportedError, match="copies between planes and buffers are not there"):
            commands.copy(view, memory)
        assert len(commands) == 0


# ---- queues, pipes and watchers -------------------------------------------------------------------------------------


@pytest.mark.rule("Y1", "Y2")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("name", PLANAR)
def test_frames_of_a_pipe_have_planes_and_the_pipes_colour(device: vks.Device, name: str) -> None:
    sender, descriptor = vks.pipe(device, 34, 18, name, color=HDR)
    with sender, descriptor, vks.open_receiver(device, descriptor) as receiver:
        for seed in range(5):
            with sender.frame(timeout=30) as frame:
                written = noise(frame.surface, seed)
                frame.surface.write_planes(written)
            with receiver.frame(30) as (surface, _):
                assert surface.color == HDR
                assert all((one == other).all() for one, other in zip(surface.read_planes(), written, strict=True))


@pytest.mark.rule("Y1", "W4")
@pytest.mark.driver_dependent
def test_a_watcher_gets_the_planes_of_a_surface(device: vks.Device) -> None:
    with device.create_surface(34, 18, "nv12", color=BT709) as video:
        with video.access(0, 0):
            video.write_planes(noise(video))
        with watching.watch(video, device) as receiver, receiver.frame(30) as (surface, _):
            assert surface.color == BT709
            read = surface.read_planes()
            assert all((one == other).all() for one, other in zip(read, noise(video), strict=True))
