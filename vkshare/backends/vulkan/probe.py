"""Capabilities by trial (rule X22).

Make it, export it, open it on a second device, write on one side and read on the other.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial

from vkshare.backends import host_memory
from vkshare.backends.base import Capabilities, ImageSpec, MemoryHandle, temporary
from vkshare.backends.vulkan import barriers, support, timelines
from vkshare.backends.vulkan.api import VK, ffi
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.images import AnyImage, VulkanImage, create_image, open_image
from vkshare.backends.vulkan.physical import PhysicalDevice
from vkshare.backends.vulkan.staging import VulkanStage
from vkshare.errors import UnsupportedError, VkshareError
from vkshare.formats import FORMATS, get
from vkshare.util import fd_ops, shared_memory

DEFAULT_USAGE = frozenset({"render", "sample", "copy"})
_SIZE = 32  # pixels along an edge of the trial image
_PIXEL = bytes((17, 34, 51, 68))  # rgba8unorm, each n/255
_FAR = {"d16unorm": b"\xff\xff", "d32float": struct.pack("<f", 1)}  # a pixel of depth 1


def probe(physical: PhysicalDevice) -> Capabilities:
    """Tries everything on two devices of their own. Blocks, some 30 ms on a software driver.

    OSError: a trial ended for want of file descriptors or memory of this process, and says nothing.
    """
    reasons: dict[str, str] = {}

    def holds(capability: str, trial: Callable[[], bool]) -> bool:
        try:
            proven = trial()
        except VkshareError as error:
            fd_ops.check_room()  # whatever the driver calls it: a reason is kept for as long as the process lives
            reasons[capability] = error.why if isinstance(error, UnsupportedError) else str(error)
            return False
        if not proven:
            reasons[capability] = "the other side read something else than was written"
        return proven

    with _context(physical) as ours, _context(physical) as theirs:
        crosses = {t: partial(_image_crosses, ours, theirs, t) for t in ("linear", "optimal")}
        tilings = frozenset(tiling for tiling, trial in crosses.items() if holds(tiling, trial))
        memory = {"opaque_fd"} if tilings else set()
        host_visible = "linear" in tilings and holds("host_visible", partial(_is_seen_by_the_cpu, ours))
        if holds("host_pointer", partial(_host_memory_opens, ours)):
            memory.add("host_pointer")
        export_timelines = holds("export_timelines", partial(timelines.crosses, ours, theirs))
        row_alignment = _row_alignment(ours)
        formats, refused = support.formats(physical, _candidates(tilings))
        depth = {name: partial(_depth_crosses, ours, theirs, name) for name in _FAR if name in formats}
        formats -= {name for name, trial in depth.items() if not holds(f"format {name}", trial)}
    if "linear" not in tilings:
        reasons["host_visible"] = "there are no linear surfaces"
    return Capabilities(
        tilings=tilings,
        surface_memory=frozenset(memory),
        export_timelines=export_timelines,
        host_visible=host_visible,
        row_alignment=row_alignment,
        max_dimension=physical.max_dimension,
        max_timeline_difference=physical.max_timeline_difference,
        subpixel_bits=physical.subpixel_bits,
        device_uuid=physical.device_uuid,
        driver_uuid=physical.driver_uuid,
        formats=formats,
        reasons={**refused, **reasons},
    )


def _context(physical: PhysicalDevice) -> closing[Context]:
    try:
        return closing(Context.create(physical))
    except VkshareError:
        fd_ops.check_room()
        raise


def _spec(format_name: str, tiling: str) -> ImageSpec:
    return ImageSpec(_SIZE, _SIZE, get(format_name), tiling, DEFAULT_USAGE)


def _candidates(tilings: frozenset[str]) -> list[ImageSpec]:
    """Returns the images that a driver must have for a format to be a capability: depth is optimal alone."""
    return [
        _spec(name, tiling)
        for name, pixel in FORMATS.items()
        for tiling in sorted(tilings & {"optimal"} if pixel.is_depth else tilings)
    ]


def _row_alignment(context: Context) -> int:
    """The least power of two such that rows of a multiple of as many bytes have no padding, in every format."""
    for alignment in (1 << bit for bit in range(4, 13)):  # from the largest pixel to a page
        rows = [(each.name, alignment * n) for each in FORMATS.values() if not each.is_planar for n in (1, 3)]
        # Most alignments end at the first row: each image costs time of a process's first open().
        if not any(_is_tight(context, *row) is False for row in rows):
            return alignment if any(_is_tight(context, *row) for row in rows) else 0
    return 0


def _is_tight(context: Context, name: str, nbytes: int) -> bool | None:
    """Whether linear images with rows of so many bytes have no padding; None: there are no such images."""
    handle_type, exportable = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT
    width = nbytes // get(name).bytes_per_pixel
    for usage in (DEFAULT_USAGE, frozenset({"copy"})):
        with suppress(UnsupportedError, ValueError):
            spec = ImageSpec(width, 2, get(name), "linear", usage)
            with temporary(VulkanImage(context, spec, handle_type, exportable)) as image:
                return image.stride == nbytes
    return None


def _image_crosses(ours: Context, theirs: Context, tiling: str) -> bool:
    spec = _spec("rgba8unorm", tiling)
    with temporary(create_image(ours, spec)) as image, temporary(open_image(theirs, spec, image.export())) as other:
        _paint(ours, image)
        return _read(theirs, other) == _PIXEL * _SIZE * _SIZE


def _depth_crosses(ours: Context, theirs: Context, name: str) -> bool:
    spec = _spec(name, "optimal")
    with temporary(create_image(ours, spec)) as image, temporary(open_image(theirs, spec, image.export())) as other:
        _paint(ours, image)
        return _read(theirs, other) == _FAR[name] * _SIZE * _SIZE


def _is_seen_by_the_cpu(context: Context) -> bool:
    with temporary(create_image(context, _spec("rgba8unorm", "linear"))) as image:
        pixels = image.pixels()
        if pixels is None:
            raise UnsupportedError("mapping", "the memory of linear images is not host-visible and coherent")
        _paint(context, image)
        return all(pixels[y * image.stride :][: 4 * _SIZE] == _PIXEL * _SIZE for y in range(_SIZE))


def _host_memory_opens(context: Context) -> bool:
    """As a surface of the CPU backend is: written by the CPU and read by the device, and the other way."""
    spec = _spec("rgba8unorm", "linear")
    stride = 4 * _SIZE
    _, size = host_memory.layout(spec)
    fd = shared_memory.memfd_create("vkshare:trial", size)
    try:
        with mmap.mmap(fd, size) as pages:
            pages[: stride * _SIZE] = bytes(reversed(_PIXEL)) * _SIZE * _SIZE
            handle = MemoryHandle("memfd", os.dup(fd), size, 0, stride, False, b"", b"")
            with temporary(open_image(context, spec, handle)) as image:
                read = _read(context, image) == pages[: stride * _SIZE]
                _paint(context, image)
                return read and pages[: stride * _SIZE] == _PIXEL * _SIZE * _SIZE
    finally:
        os.close(fd)


def _paint(context: Context, image: AnyImage) -> None:
    """Acquire the image, clear it to _PIXEL, or to depth 1, and release it."""
    vk = context.vk

    def write(commands: object) -> None:
        whole, general = barriers.whole_image(image.aspect), VK.IMAGE_LAYOUT_GENERAL
        image.acquire(commands)
        if image.spec.format.is_depth:
            far = ffi.new("VkClearDepthStencilValue *", {"depth": 1})
            vk.vkCmdClearDepthStencilImage(commands, image.handle, general, far, 1, whole)
        else:
            colour = ffi.new("VkClearColorValue *", {"float32": [value / 255 for value in _PIXEL]})
            vk.vkCmdClearColorImage(commands, image.handle, general, colour, 1, whole)
        image.release(commands)

    context.run(write, name="trial")


def _read(context: Context, image: AnyImage) -> bytes:
    nbytes = image.spec.format.bytes_per_pixel * _SIZE * _SIZE
    with temporary(VulkanStage(context, nbytes, image, upload=False)) as stage:
        acquire, release, *_ = image.ownership_commands
        for commands in (acquire, stage.command_buffer, release):
            context.submit_once(commands)
        return bytes(stage.data)
