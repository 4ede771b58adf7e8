"""Surfaces in planes: their views, their colours, and what commands make of them. Rules Y1, Y2 and Y3."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from support.pixel_formats import PLANAR
from support.planar_pictures import Planes, exact, noise

import vkshare as vks
from vkshare.color import BT709, Color
from vkshare.core import watching
from vkshare.errors import DescriptorError, InvalidCallError, UnsupportedError
from vkshare.ipc.descriptors import SurfaceDescriptor

pytest_plugins = ["support.peer_processes"]

HDR = Color("bt2020", "pq", "bt2020", "limited", "top-left")


@pytest.fixture(autouse=True)
def _has_planes(vks_device: vks.Device) -> None:
    missing = [name for name in PLANAR if name not in vks_device.capabilities.formats]
    if missing:
        pytest.skip(f"no {missing[0]}: {vks_device.capabilities.reasons[f'format {missing[0]}']}")


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
@pytest.mark.driver_dependent
def test_the_array_of_a_plane_outlives_its_surface(device: vks.Device) -> None:
    if not device.capabilities.host_visible:
        pytest.skip("the CPU sees no surface of this device")
    surface = device.create_surface(640, 480, "i420", tiling="linear", usage=("copy",))
    with surface.access() as view:
        surface.write_planes([np.full(plane.shape, 5 + i, np.uint8) for i, plane in enumerate(surface.read_planes())])
        arrays = [plane.array for plane in view.planes]
    del view
    surface.close()
    device.wait_idle()
    assert [np.unique(each).tolist() for each in arrays] == [[5], [6], [7]]


@pytest.mark.rule("Y1")
@pytest.mark.driver_dependent
def test_planes_in_the_drivers_own_order_have_no_array(device: vks.Device) -> None:
    if "optimal" not in device.capabilities.tilings:
        pytest.skip("rows lie in order on the CPU backend")
    with device.create_surface(8, 8, "nv12", tiling="optimal") as surface, surface.access() as view:
        for plane in view.planes:
            assert plane.strides is None
            with pytest.raises(UnsupportedError, match=r"use surface.read_planes\(\) and write_planes\(\)"):
                _ = plane.array


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


@pytest.mark.rule("Y1")
@pytest.mark.driver_dependent
@pytest.mark.parametrize("stride", ["aligned", "tight"])
@pytest.mark.parametrize("size", [(36, 18), (64, 64), (128, 256), (256, 128)])
@pytest.mark.parametrize("name", PLANAR)
def test_planes_of_the_cpu_backend_are_opened_as_they_lie_or_refused(
    device: vks.Device, name: str, size: tuple[int, int], stride: str
) -> None:
    with vks.open(backend="cpu") as cpu, cpu.create_surface(*size, name, stride=stride, usage=("copy",)) as video:
        written = noise(video)
        with video.access(0, 1):
            video.write_planes(written)
        try:
            opened = device.open_surface(video)
        except UnsupportedError:
            assert device.backend == "vulkan"
            return
        with opened, opened.access(1, 2, 30):
            read = opened.read_planes()
            assert all((one == other).all() for one, other in zip(read, written, strict=True))
            opened.write_planes([plane + 1 for plane in written])
        with video.access(2, 0, 30):
            assert all((one == other + 1).all() for one, other in zip(video.read_planes(), written, strict=True))


@pytest.mark.rule("Y1", "E2", "E3", "E4")
def test_memory_of_others_has_no_planes(device: vks.Device) -> None:
    fd = os.memfd_create("planes", os.MFD_ALLOW_SEALING)
    size: dict[str, Any] = {"width": 16, "height": 16, "format": "nv12"}
    for call in (
        lambda: device.import_memory(fd, size=4096, **size),
        lambda: device.adopt_image(1, **size),
        lambda: device.share_array(np.zeros((16, 16, 1), np.uint8), format="nv12"),
        lambda: device.share_array(np.zeros((16, 16, 1), np.uint8), format="nv12", copy=True),
    ):
        with pytest.raises(UnsupportedError, match=r"memory of vkshare's own; use create_surface\(\) and write_planes"):
            call()
    os.close(fd)


@pytest.mark.rule("Y1", "E7")
def test_tight_rows_of_planes_are_tight_or_refused(device: vks.Device) -> None:
    if "linear" not in device.capabilities.tilings:
        pytest.skip(f"no linear: {device.capabilities.reasons['linear']}")
    for name in PLANAR:
        with device.create_surface(2 * device.capabilities.row_alignment, 4, name, stride="tight") as video:
            assert video.stride == video.width * video.spec.format.bytes_per_pixel
    with pytest.raises(UnsupportedError, match="need no padding, such as"):
        device.create_surface(34, 4, "nv12", stride="tight")


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
@pytest.mark.driver_dependent
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
        for source, target in ((view, memory), (memory, view)):
            with pytest.raises(UnsupportedError, match=r"has format nv12, .* use read_planes\(\) or write_planes\(\)"):
                commands.copy(source, target)
        assert len(commands) == 0


@pytest.mark.rule("Y3")
@pytest.mark.driver_dependent
def test_a_blit_from_planes_to_other_planes_is_exact_or_refused_with_what_to_do(device: vks.Device) -> None:
    bt601 = Color("bt601", "bt709", "bt601", "full", "center")
    with (
        device.create_surface(16, 8, "nv12") as video,
        device.create_surface(16, 8, "i420", color=bt601) as other,
        device.create_surface(16, 8) as rgb,
        video.access() as view,
        other.access() as target,
        rgb.access() as between,
    ):
        device.submit(device.record().clear(view, (1, 0, 0, 1)))
        commands = device.record().blit(view, target)
        if device.backend == "cpu":
            device.submit(commands)
        else:
            with pytest.raises(UnsupportedError, match=r"blit\(\) to a surface of R, G and B, and that to the target"):
                device.submit(commands)
            device.submit(device.record().blit(view, between).blit(between, target))
        red = [
            int(np.abs(plane.astype(int) - code).max())
            for plane, code in zip(other.read_planes(), (76, 85, 255), strict=True)
        ]
        assert max(red) <= 1


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


def test_libraries_that_draw_say_where_the_planes_are(vks_device: vks.Device) -> None:
    with vks_device.create_surface(64, 48, "nv12") as surface, surface.access() as view:
        for call in (view.pillow, view.cairo):
            with pytest.raises(UnsupportedError, match=r"use view\.planes\[0\]\.array"):
                call()
