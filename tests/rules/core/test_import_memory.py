"""Device.import_memory(): memory that another API or engine allocated becomes a surface, with what it holds."""

from __future__ import annotations

import fcntl
import os
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from support.adopted_devices import Engine
from support.fd_counts import open_fds
from support.shared_handles import opened

import vkshare as vks
from vkshare.errors import DescriptorError, DeviceMismatchError, UnsupportedError
from vkshare.testing import assert_images_equal
from vkshare.util import fd_ops

pytest_plugins = ["support.adopted_devices", "support.peer_processes"]
pytestmark = [pytest.mark.driver_dependent, pytest.mark.rule("E3")]

Open = Callable[..., vks.Device]
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


@pytest.fixture
def fds() -> Iterator[None]:
    before = open_fds()
    yield
    if os.environ.get("VKSHARE_TEST_DRIVER") != "gpu":  # whose driver opens fds of its own when it first needs them
        assert open_fds() == before


def memfd(size: int, seals: int = SEALS) -> int:
    fd = os.memfd_create("an engine's", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.truncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


# ---- on every backend: memory that a surface was exported with -------------------------------------------------------


def described(surface: vks.Surface, **changes: Any) -> tuple[int, dict[str, Any]]:
    """The memory of a surface as an engine would give it: an fd of its own, and what it says of it."""
    fd_ops.close_all(surface._export())  # its image is released to other parties
    memory, here = surface._open_image().export(), surface.device.capabilities
    of = surface.spec
    found = {
        "size": memory.size,
        "width": of.width,
        "height": of.height,
        "format": of.format,
        "tiling": of.tiling,
        "usage": of.usage,
        "stride": memory.stride or None,
        "dedicated": memory.dedicated,
        "device_uuid": here.device_uuid,
        "driver_uuid": uuid.UUID(bytes=here.driver_uuid),
    }
    return memory.fd, {**found, **changes}


@pytest.mark.rule("E6")
@pytest.mark.parametrize("format", ["d16unorm", "d32float"])
def test_foreign_depth_survives_and_is_exported_again(device: vks.Device, vks_open: Open, format: str) -> None:
    theirs = vks_open(name="theirs").create_surface(33, 17, format)
    pixels = np.random.default_rng(3).random(theirs.shape)
    pixels = (pixels if format == "d32float" else pixels * 0xFFFF).astype(theirs._dtype)
    with theirs.access(0, 0):
        theirs.write(pixels)
        theirs.device.wait_idle(10)
    fd, options = described(theirs)
    with device.import_memory(fd, **options) as surface:
        with surface.access(0, 1):
            assert_images_equal(surface.read(), pixels)
        with opened(surface, theirs.device) as handle, handle.access(1, 2):
            assert_images_equal(handle.read(), pixels)
    wrong = "optimal" if theirs.tiling == "linear" else "linear"
    with pytest.raises(UnsupportedError, match=r"tiling='optimal' on the CPU|in the driver's own order"):
        device.import_memory(0, **{**options, "tiling": wrong, "stride": None})


@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_the_contents_of_foreign_memory_survive_and_both_parties_write_to_the_same_memory(
    device: vks.Device, vks_open: Open, tiling: str
) -> None:
    if tiling not in device.capabilities.tilings:
        pytest.skip(f"no {tiling} images here")
    if tiling == "linear" and device.adapter.kind == "gpu":
        pytest.skip("a GPU's linear surfaces are in host memory, and imported ones in its own")
    theirs = vks_open(name="theirs").create_surface(33, 17, tiling=tiling)
    pixels = np.random.default_rng(3).integers(0, 256, theirs.shape, np.uint8)
    with theirs.access(0, 0):
        theirs.write(pixels)
        theirs.device.wait_idle(10)
    fd, options = described(theirs)
    with device.import_memory(fd, **options) as surface:
        assert (surface.is_owned, surface.tiling, surface.stride) == (False, tiling, theirs.stride)
        with surface.access(0, 1):
            assert_images_equal(surface.read(), pixels)
            device.submit(device.record().fill_rect(surface, (0, 0, 3, 3), (1, 0, 0, 1))).wait(10)
        pixels[:3, :3] = (255, 0, 0, 255)
        with theirs.access(0, 0):  # another keyed mutex: the two are ordered by this test
            assert_images_equal(theirs.read(), pixels)


def test_an_imported_surface_is_exported_where_its_memory_is_as_this_driver_exports_it(
    device: vks.Device, vks_open: Open, peers: Any
) -> None:
    theirs = vks_open(name="theirs").create_surface(20, 9, tiling="auto")
    if theirs.tiling == "linear" and device.adapter.kind == "gpu":
        pytest.skip("a GPU's linear surfaces are in host memory, and imported ones in its own")
    fd, options = described(theirs)
    with device.import_memory(fd, **options) as surface:
        handle = opened(surface, peers(name="peer").device)
        with surface.access(0, 1) as view:
            device.submit(device.record().clear(view, (0, 1, 0, 1)))
        handle.acquire(1, 10)
        assert (handle.read() == (0, 255, 0, 255)).all()
        handle.release(2)
        surface.acquire(2, 10)
        handle.close()
    theirs.device.close()


def test_imported_memory_outlives_the_process_that_allocated_it(device: vks.Device, peers: Any) -> None:
    peer = peers(name="allocates")
    theirs = peer.device.create_surface(20, 9)
    tiling = theirs.tiling
    if tiling == "linear" and device.adapter.kind == "gpu":
        pytest.skip("a GPU's linear surfaces are in host memory, and imported ones in its own")
    theirs.acquire(0, 10)
    theirs.write(pixels := np.random.default_rng(8).integers(0, 256, (9, 20, 4), np.uint8))
    theirs.release(0)
    peer.device.wait_idle(10)
    with theirs.export() as descriptor:
        fd, *others = descriptor._open_fds()
        memory = descriptor._memory(fd)
    fd_ops.close_all(others)
    peer.kill()
    shape = {"width": 20, "height": 9, "format": "rgba8unorm", "tiling": tiling, "dedicated": memory.dedicated}
    options: dict[str, Any] = {**shape, "size": memory.size, "stride": memory.stride or None}
    with device.import_memory(memory.fd, **options) as surface, surface.access(0, 0):
        assert_images_equal(surface.read(), pixels)


def test_the_fd_belongs_to_the_surface_on_success_and_stays_the_callers_on_failure(
    device: vks.Device, vks_open: Open
) -> None:
    surface = device.create_surface(16, 16)
    if surface.tiling == "linear" and device.adapter.kind == "gpu":
        pytest.skip("a GPU's linear surfaces are in host memory, and imported ones in its own")
    fd, options = described(surface)
    device = vks_open(name="imports")  # NVIDIA keeps an fd of each import by the VkDevice that exported
    device.import_memory(os.dup(fd), **options).close()  # drivers open fds of their own at the first import
    device.wait_idle(10)
    before = open_fds()
    for wrong in ({"size": 1}, {"width": 400}, {"device_uuid": bytes(16)}, {"offset": 1 << 40}):
        with pytest.raises((DescriptorError, DeviceMismatchError)):
            device.import_memory(fd, **{**options, **wrong})
        assert open_fds() == before
    for _ in range(20):
        device.import_memory(os.dup(fd), **options).close()
    device.wait_idle(10)
    assert open_fds() == before
    os.close(fd)


@pytest.mark.usefixtures("fds")
def test_fds_that_are_no_memory_are_refused_and_stay_open(device: vks.Device) -> None:
    surface = device.create_surface(16, 16)
    fd, options = described(surface)
    os.close(fd)
    with ExitStack() as made:
        wrong = [
            *os.pipe(),
            os.open("/", os.O_RDONLY),
            os.open("/proc/self/exe", os.O_RDONLY),
            memfd(options["size"], 0),
        ]
        wrong.append(memfd(options["size"], SEALS | fcntl.F_SEAL_WRITE))
        wrong.append(memfd(1))
        for each in wrong:
            made.callback(os.close, each)
        before = open_fds()
        for each in (*wrong, 2**31 - 1):
            with pytest.raises(DescriptorError, match="memory"):
                device.import_memory(each, **options)
            assert open_fds() == before
    surface.close()


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"fd": -1}, ValueError, "fd is -1"),
        ({"fd": "fd"}, TypeError, "fd must be an integer"),
        ({"size": 0}, ValueError, "size is 0"),
        ({"size": 2**64}, ValueError, "size is"),
        ({"offset": -1}, ValueError, "offset is -1"),
        ({"stride": 0}, ValueError, "stride is 0"),
        ({"tiling": "auto"}, ValueError, "tiling is 'auto'"),
        ({"usage": "paint"}, ValueError, "usage is 'paint'"),
        ({"format": "rgb"}, ValueError, "rgb"),
        ({"dedicated": 1}, TypeError, "dedicated must be True or False"),
        ({"device_uuid": b"short"}, ValueError, "device_uuid has 5 bytes"),
        ({"driver_uuid": "0" * 32}, TypeError, "driver_uuid must be 16 bytes"),
        ({"tiling": "optimal", "stride": 64}, ValueError, "stride is 64 and tiling 'optimal'"),
        ({"width": 0}, ValueError, "width is 0"),
    ],
)
def test_wrong_arguments_are_named(device: vks.Device, changes: Any, error: type[Exception], text: str) -> None:
    options = {"fd": 0, "size": 4096, "width": 8, "height": 8, "format": "rgba8unorm", "tiling": "linear"}
    fd = {**options, **changes}.pop("fd")
    with pytest.raises(error, match=text):
        device.import_memory(fd, **{key: value for key, value in {**options, **changes}.items() if key != "fd"})


@pytest.mark.usefixtures("fds")
def test_random_sizes_offsets_and_strides_never_crash(device: vks.Device) -> None:
    dice = random.Random(5)
    surface = device.create_surface(24, 11)
    fd, options = described(surface)
    numbers = (0, 1, 3, 4, 64, 96, 128, 4095, 4096, 4097, 65536, 2**31 - 1, 2**32, 2**62, 2**63 - 1, options["size"])
    outcomes = {True: 0, False: 0}
    for _ in range(150):
        changes = {
            name: dice.choice((*numbers, options["size"] + dice.choice(numbers)))
            for name in dice.sample(("size", "offset", "stride", "width", "height"), dice.randrange(1, 3))
        }
        mine = os.dup(fd)
        try:
            device.import_memory(mine, **{**options, **changes}).close()
            outcomes[True] += 1
        except (DescriptorError, UnsupportedError, ValueError, vks.errors.VulkanError):
            outcomes[False] += 1
            os.close(mine)
    assert outcomes[False] > 100
    device.wait_idle(10)
    os.close(fd)
    surface.close()


# ---- the CPU backend -------------------------------------------------------------------------------------------------


@pytest.fixture
def cpu(device: vks.Device) -> vks.Device:
    if device.backend != "cpu":
        pytest.skip("drivers do not import plain memfds")
    return device


def test_a_memfd_with_rows_at_any_place_is_a_surface_of_the_cpu_backend(cpu: vks.Device) -> None:
    fd = memfd(5 * 4096)
    pixels = np.random.default_rng(4).integers(0, 256, (7, 10, 4), np.uint8)
    with open(os.dup(fd), "r+b") as file:
        for row in range(7):
            file.seek(4096 + row * 1000)
            file.write(pixels[row].tobytes())
    shape: dict[str, Any] = {"width": 10, "height": 7, "format": "rgba8unorm", "tiling": "linear"}
    with cpu.import_memory(os.dup(fd), size=4 * 4096, offset=4096, stride=1000, **shape) as surface:
        with surface.access(0, 0) as view:
            assert view.strides == (1000, 4, 1)
            assert_images_equal(surface.read(), pixels)
            cpu.submit(cpu.record().clear(view, (1, 1, 1, 1))).wait(10)
        with pytest.raises(UnsupportedError, match=r"export of a surface in foreign memory.*offset 0.*copy\(\)"):
            surface.export()
    assert os.pread(fd, 40, 4096) == b"\xff" * 40
    assert os.pread(fd, 40, 4096 + 40) == bytes(40)
    os.close(fd)


def test_the_cpu_backend_names_the_strides_and_offsets_that_it_takes(cpu: vks.Device) -> None:
    shape: dict[str, Any] = {"width": 10, "height": 7, "format": "rgba8unorm", "tiling": "linear"}
    fd = memfd(4096)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"stride": 36}, "stride is 36; allowed are multiples of 4 from 40 on"),
        ({"stride": 42}, "stride is 42"),
        ({"offset": 2}, "offset is 2; allowed are multiples of 4 from 0 on"),
        ({"offset": 4000}, "size is 4096; 7 rows of 64 bytes from offset 4000 on need at least 4424"),
    ]
    for wrong, text in refused:
        with pytest.raises(DescriptorError, match=text):
            cpu.import_memory(fd, size=4096, **shape, **wrong)
    with pytest.raises(UnsupportedError, match=r'use tiling="linear"'):
        cpu.import_memory(fd, size=4096, **{**shape, "tiling": "optimal"})
    with pytest.raises(DeviceMismatchError, match="leave device_uuid and driver_uuid out"):
        cpu.import_memory(fd, size=4096, driver_uuid=bytes(16), **shape)
    os.close(fd)


# ---- Vulkan: memory that an engine allocated -------------------------------------------------------------------------


def is_sealed(fd: int) -> bool:
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS == SEALS
    except OSError:
        return False


@pytest.mark.usefixtures("fds")
@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize(
    ("format", "tiling"), [("rgba8unorm", "optimal"), ("rgba8unorm", "linear"), ("d32float", "optimal")]
)
def test_an_engines_memory_is_imported_with_what_its_commands_wrote(
    engine: Engine, vks_open: Open, format: str, tiling: str, offset: int
) -> None:
    from support.engine_images import EngineImage, image_spec, options, random_pixels

    device = vks_open(name="imports")
    if tiling not in device.capabilities.tilings:
        pytest.skip(f"no {tiling} images here")
    image = EngineImage(engine.context, image_spec(33, 17, format, tiling), offset=offset)
    pixels = random_pixels(image.spec)
    image.write(pixels, released=True)
    fd = image.export()
    try:
        if device.adapter.kind == "software" and not is_sealed(fd):
            with pytest.raises(DescriptorError, match="not sealed against"):
                device.import_memory(fd, **options(image))
            os.close(fd)
            return
        surface = device.import_memory(fd, **options(image))
        with surface.access(0, 0):
            assert_images_equal(surface.read(), pixels)
            surface.write(pixels[::-1])
            device.wait_idle(10)
        assert_images_equal(image.read(), pixels[::-1])
        if offset or (tiling == "linear" and device.adapter.kind == "gpu"):  # a GPU's linear surfaces are dedicated
            with pytest.raises(UnsupportedError, match="export of a surface in foreign memory"):
                surface.export()
        else:
            with opened(surface, vks_open(name="third")) as handle, handle.access(0, 0):
                assert_images_equal(handle.read(), pixels[::-1])
        surface.close()
    finally:
        image.destroy()
        device.close()


@pytest.mark.rule("X17")
def test_memory_of_another_device_is_named(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    fd, options = described(surface)
    with pytest.raises(DeviceMismatchError, match="00000000-0000-0000-0000-000000000001"):
        device.import_memory(fd, **{**options, "device_uuid": uuid.UUID(int=1)})
    os.close(fd)
