"""Device.adopt_image(): an image that an engine made on the same VkDevice becomes a surface, and stays the engine's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.adopted_devices import Engine
from support.fd_counts import open_fds
from support.shared_handles import opened

import vkshare as vks
from vkshare.backends.base import layouts
from vkshare.errors import ClosedError, UnsupportedError
from vkshare.testing import assert_images_equal

pytest_plugins = ["support.adopted_devices", "support.peer_processes"]
pytestmark = [pytest.mark.driver_dependent, pytest.mark.rule("E2")]

Open = Callable[..., vks.Device]
Image = Any  # support.engine_images.EngineImage, which needs Vulkan


@pytest.fixture
def guest(engine: Engine) -> Iterator[vks.Device]:
    with engine.adopt(name="guest") as device:
        yield device


@pytest.fixture
def images(engine: Engine, guest: vks.Device) -> Iterator[Callable[..., Image]]:
    """Makes images of the engine's: ``images(width, height, format, tiling, offset=, exported=)``."""
    from support.engine_images import EngineImage, image_spec

    made: list[Image] = []

    def make(*shape: Any, **options: Any) -> Image:
        spec = image_spec(*shape)
        if spec.tiling not in guest.capabilities.tilings:
            pytest.skip(f"no {spec.tiling} images here")
        made.append(EngineImage(engine.context, spec, **options))
        return made[-1]

    yield make
    guest.close()
    for image in made:
        image.destroy()  # the validation layer reports a second destruction, and one while it is used


def adopt(device: vks.Device, own: Image, /, **options: Any) -> vks.Surface:
    spec = own.spec
    shape = {"width": spec.width, "height": spec.height, "format": spec.format, "tiling": spec.tiling}
    return device.adopt_image(options.pop("image", own.handle), **{**shape, "usage": spec.usage, **options})


def pixels_of(image: Image, seed: int = 1) -> Any:
    from support.engine_images import random_pixels

    return random_pixels(image.spec, seed)


def layout_of(name: str) -> int:
    from vkshare.backends.vulkan.api import VK

    return int(getattr(VK, f"IMAGE_LAYOUT_{name.upper()}"))


# ---- contents and layouts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.parametrize(
    "layout", [each for each in layouts(is_depth=False) if each not in ("undefined", "preinitialized")]
)
def test_the_first_owner_finds_what_the_engine_wrote_in_any_layout(
    guest: vks.Device, images: Callable[..., Image], layout: str, exported: bool
) -> None:
    image = images(exported=exported)
    pixels = pixels_of(image)
    image.write(pixels, layout_of(layout))
    with adopt(guest, image, layout=layout, memory=image.memory if exported else None) as surface:
        assert (surface.is_owned, surface.is_host_visible, surface.image) == (False, False, image.number)
        with surface.access(0, 1):
            assert_images_equal(surface.read(), pixels)
        with surface.access(1, 2) as view:
            guest.submit(guest.record().fill_rect(view, (0, 0, 2, 2), (1, 0, 0, 1)))
        guest.wait_idle(10)
    pixels[:2, :2] = (255, 0, 0, 255)
    assert_images_equal(image.read(), pixels)  # in GENERAL, and of the queue


def test_undefined_contents_are_written_before_they_are_read(guest: vks.Device, images: Callable[..., Image]) -> None:
    with adopt(guest, images(), layout="undefined") as surface, surface.access() as view:
        guest.submit(guest.record().clear(view, (0, 1, 0, 1)))
        assert (surface.read() == (0, 255, 0, 255)).all()


@pytest.mark.parametrize("format", ["r8unorm", "rgba8unorm-srgb", "rgba16float", "r32uint"])
@pytest.mark.parametrize("tiling", ["optimal", "linear"])
def test_formats_and_tilings_keep_their_bytes(
    guest: vks.Device, images: Callable[..., Image], format: str, tiling: str
) -> None:
    image = images(19, 11, format, tiling, "sample", "copy")
    pixels = pixels_of(image)
    image.write(pixels)
    with adopt(guest, image) as surface, surface.access():
        assert_images_equal(surface.read(), pixels)


@pytest.mark.rule("E6")
@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.parametrize("format", ["d16unorm", "d32float"])
@pytest.mark.parametrize("layout", ["depth_stencil_attachment_optimal", "transfer_dst_optimal"])
def test_an_engines_depth_is_adopted_from_a_layout_of_depth(
    guest: vks.Device, vks_open: Open, images: Callable[..., Image], layout: str, format: str, exported: bool
) -> None:
    image = images(33, 17, format, exported=exported)
    pixels = pixels_of(image)
    image.write(pixels, layout_of(layout))
    with pytest.raises(ValueError, match="layout is 'color_attachment_optimal'; allowed are"):
        adopt(guest, image, layout="color_attachment_optimal")
    with adopt(guest, image, layout=layout, memory=image.memory if exported else None) as surface:
        with surface.access():
            assert_images_equal(surface.read(), pixels)
            surface.write(pixels[::-1])
        if exported:
            with opened(surface, vks_open(name="peer")) as handle, handle.access():
                assert_images_equal(handle.read(), pixels[::-1])
        guest.wait_idle(10)
    if not exported:  # else it belongs to others
        assert_images_equal(image.read(), pixels[::-1])


def test_the_engine_and_vkshare_take_turns(guest: vks.Device, images: Callable[..., Image]) -> None:
    image = images()
    image.write(pixels_of(image))
    with adopt(guest, image) as surface:
        for turn in range(5):
            pixels = pixels_of(image, turn)
            with surface.access(0, 0) as view:
                guest.submit(guest.record().clear(view, (turn / 5, 0, 0, 1)))
                guest.wait_idle(10)
            assert (image.read()[..., 0] == round(turn * 255 / 5)).all()
            with surface.access(0, 0):
                guest.wait_idle(10)
                image.write(pixels)
            with surface.access(0, 0):
                assert_images_equal(surface.read(), pixels)


@pytest.mark.rule("I9")
def test_an_engines_own_submission_finds_the_image_in_general_by_sync(
    engine: Engine, guest: vks.Device, images: Callable[..., Image]
) -> None:
    """Its first use is the engine's: sync() has the transition submitted before."""
    from vkshare.backends.vulkan.api import VK, ffi, handle, new

    image = images()
    image.write(pixels := pixels_of(image), layout_of("color_attachment_optimal"))
    with adopt(guest, image, layout="color_attachment_optimal") as surface, surface.access(0, 0):
        ((before, value), *_), ((after, next_value), *_) = surface.sync()
        stage = VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT
        wait = new("VkSemaphoreSubmitInfo", semaphore=handle("VkSemaphore", before), value=value, stageMask=stage)
        done = new("VkSemaphoreSubmitInfo", semaphore=handle("VkSemaphore", after), value=next_value, stageMask=stage)
        fields = {"pWaitSemaphoreInfos": [wait], "pSignalSemaphoreInfos": [done]}
        engine.context.vk.vkQueueSubmit2(engine.handles["queue"], 1, new("VkSubmitInfo2", **fields), ffi.NULL)
        assert_images_equal(surface.read(), pixels)


def test_further_handles_of_the_device_use_the_same_image(guest: vks.Device, images: Callable[..., Image]) -> None:
    image = images()
    pixels = pixels_of(image)
    image.write(pixels, layout_of("transfer_src_optimal"))
    closed: list[str] = []
    surface = adopt(guest, image, layout="transfer_src_optimal", on_close=lambda: closed.append("image"))
    with guest.open_surface(surface) as alias:
        with alias.access(0, 1):
            assert_images_equal(alias.read(), pixels)
        with surface.access(1, 2):
            assert_images_equal(surface.read(), pixels)
        surface.close()
        guest.wait_idle(10)
        assert not closed
    guest.wait_idle(10)
    assert closed == ["image"]


# ---- exports ---------------------------------------------------------------------------------------------------------


def test_without_memory_an_export_says_what_to_pass_and_leaves_the_surface_as_it_was(
    guest: vks.Device, images: Callable[..., Image]
) -> None:
    image = images(exported=False)
    pixels = pixels_of(image)
    image.write(pixels)
    with adopt(guest, image) as surface:
        before = open_fds()
        with pytest.raises(UnsupportedError, match=r"vkshare does not have its memory; pass memory="):
            surface.export()
        assert open_fds() == before
        with surface.access(0, 0):
            assert_images_equal(surface.read(), pixels)


@pytest.mark.rule("X26")
@pytest.mark.parametrize("way", ["another device", "another process"])
@pytest.mark.parametrize("moment", ["before its first use", "after a use", "while it is owned"])
def test_with_memory_it_is_exported_with_its_contents(
    guest: vks.Device, images: Callable[..., Image], vks_open: Open, peers: Any, way: str, moment: str
) -> None:
    image = images()
    pixels = pixels_of(image)
    image.write(pixels, layout_of("shader_read_only_optimal"))
    there = vks_open(name="there") if way == "another device" else peers(name="there").device
    with adopt(guest, image, layout="shader_read_only_optimal", memory=image.memory) as surface:
        if moment == "after a use":
            with surface.access(0, 0):
                assert_images_equal(surface.read(), pixels)
        if moment == "while it is owned":
            surface.acquire(0, 0)
        handle = opened(surface, there)
        if moment == "while it is owned":
            surface.release(0)
        handle.acquire(0, 10)
        assert_images_equal(handle.read(), pixels)
        handle.write(pixels[::-1].copy())
        handle.release(1)
        with surface.access(1, 0):
            assert_images_equal(surface.read(), pixels[::-1])
            guest.wait_idle(10)
            assert_images_equal(image.read(), pixels[::-1])
        handle.close()


def test_memory_that_cannot_be_exported_is_refused(guest: vks.Device, images: Callable[..., Image]) -> None:
    if guest.adapter.kind != "software":
        pytest.skip("such a call is invalid, and a GPU's driver need not notice")
    image = images(exported=False)
    image.write(pixels := pixels_of(image))
    before = open_fds()
    with pytest.raises((UnsupportedError, vks.errors.VulkanError)):
        adopt(guest, image, memory=image.memory)
    assert not open_fds() - before
    assert_images_equal(image.read(), pixels)


def test_memory_of_another_size_is_refused_where_a_software_driver_shows_it(
    guest: vks.Device, images: Callable[..., Image]
) -> None:
    if guest.adapter.kind != "software":
        pytest.skip("a GPU's driver does not tell how large memory is")
    image = images(33, 17, "rgba8unorm", "optimal", offset=3000)
    image.write(pixels := pixels_of(image))
    before, closed = open_fds(), []
    with pytest.raises(UnsupportedError, match="allocate memory for this image alone"):
        adopt(guest, image, memory=image.memory, on_close=lambda: closed.append(1))
    assert not open_fds() - before
    assert not closed
    assert_images_equal(image.read(), pixels)


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["surface", "device", "garbage"])
@pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")
def test_on_close_is_called_once_after_the_last_work(engine: Engine, images: Callable[..., Image], end: str) -> None:
    image = images()
    image.write(pixels_of(image))
    calls: list[str] = []
    with engine.adopt(name="one more guest") as device, device.create_fence() as gate:
        surface = adopt(device, image, on_close=lambda: calls.append("closed"))
        device.open_surface(surface)  # garbage at once
        with surface.access(0, 0) as view:
            device.submit(device.record().clear(view, (1, 0, 0, 1)), waits=[(gate, 1)])
        kept = surface.access(0, 0)  # a view that outlives the surface
        assert not calls
        gate.signal(1)
        if end == "surface":
            surface.close()
            device.wait_idle(10)
            assert calls == ["closed"]
            surface.close()
        elif end == "garbage":
            del surface, view, kept
            device.wait_idle(10)
        else:
            device.close()
            assert calls == ["closed"]
            with pytest.raises(ClosedError):
                surface.read()
    assert calls == ["closed"]
    image.read()


def test_a_lost_device_gives_the_engine_its_image_back(engine: Engine, images: Callable[..., Image]) -> None:
    calls: list[str] = []
    with engine.adopt(name="is lost") as device:
        surface = adopt(device, images(), layout="undefined", on_close=lambda: calls.append("closed"))
        surface.acquire(0, 0)
        device._mark_lost()
        with pytest.raises(vks.DeviceLostError):
            surface.read()
        surface.close()
    assert calls == ["closed"]


def test_an_error_of_on_close_is_logged_and_ends_nothing(
    guest: vks.Device, images: Callable[..., Image], caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fails() -> None:
        calls.append(threading.get_ident())
        raise RuntimeError("the engine's own")

    adopt(guest, images(), layout="undefined", on_close=fails).close()
    guest.wait_idle(10)
    assert calls == [threading.get_ident()]
    assert "on_close of an adopted image failed" in caplog.text
    with guest.create_surface(4, 4) as surface, surface.access():
        assert not surface.read().any()


def test_no_fd_is_left_of_adopted_images(guest: vks.Device, images: Callable[..., Image], vks_open: Open) -> None:
    image, there = images(), vks_open(name="there")

    def turn() -> None:
        with adopt(guest, image, layout="undefined", memory=image.memory) as surface:
            opened(surface, there).close()
        guest.wait_idle(10)
        there.wait_idle(10)

    turn()
    before = open_fds()
    for _ in range(10):
        turn()
    assert open_fds() == before


def test_an_image_is_adopted_again_with_what_others_wrote_into_it(
    guest: vks.Device, images: Callable[..., Image], vks_open: Open
) -> None:
    image, there = images(), vks_open(name="there")
    image.write(pixels_of(image))
    for turn in range(3):
        pixels = pixels_of(image, 10 + turn)
        with adopt(guest, image, memory=image.memory) as surface, opened(surface, there) as handle:
            with handle.access(0, 1):
                handle.write(pixels)
            with surface.access(1, 0):
                assert_images_equal(surface.read(), pixels)
        guest.wait_idle(10)


def test_a_peer_that_dies_as_owner_leaves_the_engines_image_usable(
    guest: vks.Device, images: Callable[..., Image], peers: Any
) -> None:
    image = images()
    image.write(pixels_of(image))
    with adopt(guest, image, memory=image.memory) as surface:
        peer = peers(name="dies")
        opened(surface, peer.device).acquire(0, 10)
        peer.kill()
        with pytest.raises(vks.AbandonedError):
            surface.acquire(0, 10)
        surface.recover(10)
        surface.write(pixels := pixels_of(image, 9))
        guest.wait_idle(10)
        assert_images_equal(image.read(), pixels)
        surface.release(0)


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_the_cpu_backend_has_no_images_to_adopt(device: vks.Device) -> None:
    if device.backend != "cpu":
        pytest.skip("this device has VkImages")
    with pytest.raises(UnsupportedError, match="the CPU backend has no VkImages"):
        device.adopt_image(1, width=4, height=4, format="rgba8unorm")


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"image": 0}, ValueError, "image is VK_NULL_HANDLE"),
        ({"image": None}, ValueError, "image is VK_NULL_HANDLE"),
        ({"image": "image"}, TypeError, "image must be a Vulkan handle"),
        ({"image": -1}, ValueError, "image is -1"),
        ({"memory": 0}, ValueError, "memory is VK_NULL_HANDLE"),
        ({"memory": 1.5}, TypeError, "memory must be a Vulkan handle"),
        ({"layout": "present_src"}, ValueError, "layout is 'present_src'; allowed are 'general', 'undefined'"),
        ({"layout": 1}, TypeError, "layout must be one of"),
        ({"usage": ("render",)}, ValueError, "'copy' is needed"),
        ({"on_close": 5}, TypeError, "on_close must be a callable or None, not int"),
        ({"width": 0}, ValueError, "width is 0"),
        ({"height": 2**31}, ValueError, "height is"),
        ({"format": "rgb"}, ValueError, "rgb"),
        ({"tiling": "auto"}, ValueError, "tiling is 'auto'"),
    ],
)
def test_wrong_arguments_are_named(
    guest: vks.Device, images: Callable[..., Image], changes: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        adopt(guest, images(), **changes)


def test_an_image_of_a_device_of_vkshares_own_is_adopted_too(vks_open: Open) -> None:
    host = vks_open(name="host")
    if host.backend == "cpu":
        pytest.skip("this device has no VkImages")
    from support.engine_images import EngineImage, image_spec

    image = EngineImage(host._backend.context, image_spec())  # type: ignore[attr-defined]
    image.write(pixels := pixels_of(image))
    surface, other = adopt(host, image), host.create_surface(33, 17, tiling="optimal")
    with surface.access(0, 0), other.access(0, 0):
        host.submit(host.record().copy(surface, other))
        assert_images_equal(other.read(), pixels)
    surface.close()
    other.close()
    host.wait_idle(10)
    image.destroy()
