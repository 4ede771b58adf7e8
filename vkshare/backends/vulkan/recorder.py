"""From a command list's operations to one VkCommandBuffer.

Draws on one target in a row share a rendering scope: rasterization order keeps their order (Vulkan 1.3, 24.2), and
nothing in the scope reads what it writes. All other commands come after a barrier over everything (barriers.py
says why that one). The first of them also orders the list behind earlier submits, so one list can be submitted again
and again.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from vkshare.backends.base import Blit, Clear, Composite, Copy, DrawTriangles, FillRect, Operation
from vkshare.backends.vulkan import barriers, pipelines, support
from vkshare.backends.vulkan.api import VK, ffi, new
from vkshare.backends.vulkan.colours import storable
from vkshare.backends.vulkan.compiled import Compiled
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.images import VulkanImage
from vkshare.backends.vulkan.pipelines import VERTEX_SIZE, Kind, Pipelines
from vkshare.errors import ClosedError, UnsupportedError

_Rect = tuple[int, int, int, int]  # x, y, width, height


class Recorder:
    """Records one list into `compiled`. The context's lock is held meanwhile."""

    def __init__(self, context: Context, pipes: Pipelines, compiled: Compiled) -> None:
        self._context = context
        self._vk = context.vk
        self._pipelines = pipes
        self._compiled = compiled
        self._commands: Any = None
        self._target: VulkanImage | None = None  # of the open rendering scope
        self._is_ordered = False  # nothing was recorded since a barrier over everything
        self._is_raw = False  # that scope writes a -srgb image's codes as they are

    def record(self, operations: Sequence[Operation], surfaces: Iterable[Any]) -> None:
        """Fills ``compiled.commands``. `surfaces` are those that the operations touch."""
        images = [_image(surface) for surface in surfaces]
        shown = [image for image in images if image.is_presentable]
        with contextlib.ExitStack() as pins:
            for image in shown:
                pins.enter_context(image.pinned())
            self._compiled.commands = self._compiled.objects.record(
                lambda commands: self._write(commands, operations, shown), name="command list"
            )
            transfer = self._context.transfer_family
            if transfer is not None and not shown and all(isinstance(each, Copy) for each in operations):
                self._compiled.transfer_commands = self._compiled.objects.record(
                    lambda commands: self._write(commands, operations, ()), name="command list", family=transfer
                )

    def _write(self, commands: Any, operations: Sequence[Operation], shown: Sequence[VulkanImage]) -> None:
        self._commands = commands
        if shown:
            barriers.begin(self._vk, commands, [image.handle for image in shown])
        self._is_ordered = bool(shown)
        draws = [_drawable(op) for op in operations if isinstance(op, DrawTriangles)]
        vertices = iter(zip(self._compiled.upload(draws), draws, strict=True))
        for operation, following in itertools.zip_longest(operations, operations[1:]):
            match operation:
                case Clear():
                    self._clear(operation, following)
                case FillRect():
                    self._fill_rect(operation)
                case Copy():
                    self._copy(operation)
                case Blit():
                    self._blit(operation)
                case Composite():
                    self._composite(operation)
                case DrawTriangles():
                    offset, block = next(vertices)
                    self._draw_triangles(operation, offset, len(block) // VERTEX_SIZE)
        self._end_rendering()
        to_host = any(_image(op.target).is_mappable for op in operations)
        barriers.end(self._vk, commands, [image.handle for image in shown], to_host=to_host)

    def _order(self) -> None:
        """Order later commands after all recorded ones, and after earlier submissions."""
        if not self._is_ordered:
            barriers.everything(self._vk, self._commands)
        self._is_ordered = False

    # ---- operations ----

    def _clear(self, op: Clear, following: Operation | None) -> None:
        """As the start of the draws that follow; where none do, alone: it is cheaper than a rendering scope."""
        target = _image(op.target)
        draws = isinstance(following, DrawTriangles | Composite | FillRect | Blit) and following.target is op.target
        colour = storable(op.colour, target.spec.format)
        self._end_rendering()
        self._order()
        if draws and "render" in target.spec.usage:
            self._begin_rendering(target, clear=colour)
            return
        value = ffi.new("VkClearColorValue *", (colour,))
        whole = barriers.whole_image()
        self._vk.vkCmdClearColorImage(self._commands, target.handle, VK.IMAGE_LAYOUT_GENERAL, value, 1, whole)

    def _fill_rect(self, op: FillRect) -> None:
        target = _image(op.target)
        self._render_to(target)
        value = {"color": {"float32": storable(op.colour, target.spec.format)}}
        attachment = ffi.new("VkClearAttachment *", {"aspectMask": VK.IMAGE_ASPECT_COLOR_BIT, "clearValue": value})
        rect = ffi.new("VkClearRect *", {"rect": _vk_rect(op.rect), "layerCount": 1})
        self._vk.vkCmdClearAttachments(self._commands, 1, attachment, 1, rect)

    def _copy(self, op: Copy) -> None:
        source, target = _image(op.source), _image(op.target)
        self._end_rendering()
        self._order()
        x, y, width, height = op.source_rect
        region = ffi.new(
            "VkImageCopy *",
            {
                "srcSubresource": barriers.ONE_LAYER,
                "srcOffset": {"x": x, "y": y},
                "dstSubresource": barriers.ONE_LAYER,
                "dstOffset": {"x": op.at[0], "y": op.at[1]},
                "extent": {"width": width, "height": height, "depth": 1},
            },
        )
        general = VK.IMAGE_LAYOUT_GENERAL
        self._vk.vkCmdCopyImage(self._commands, source.handle, general, target.handle, general, 1, region)

    def _blit(self, op: Blit) -> None:
        source, target = _image(op.source), _image(op.target)
        x0, y0, x1, y1 = op.target_rect
        sx0, sy0, sx1, sy1 = op.source_rect
        if x1 < x0:  # mirrored twice is not mirrored
            x0, x1, sx0, sx1 = x1, x0, sx1, sx0
        if y1 < y0:
            y0, y1, sy0, sy1 = y1, y0, sy1, sy0
        size = (sx1 - sx0, sy1 - sy0)
        if size == (x1 - x0, y1 - y0) and source.spec.format == target.spec.format:
            self._copy(Copy(op.source, op.target, (sx0, sy0, *size), (x0, y0)))
            return
        if "sample" not in source.spec.usage or "render" not in target.spec.usage:
            self._blit_by_driver(op, source, target)
            return
        same = source.spec.format == target.spec.format and not op.linear  # codes stay what they are
        decodes, encodes = source.spec.format.is_srgb and not same, target.spec.format.is_srgb and not same
        kind = pipelines.BLIT.specialized(op.linear, decodes, encodes, target.spec.format.dtype == "float16")
        corners = struct.pack("8i", sx0, sy0, *size, x0, y0, x1 - x0, y1 - y0)
        levels = struct.pack("8f", *_levels(source), *_levels(target))
        self._render_to(target, raw=True)
        self._draw_screen(kind, source, (x0, y0, x1 - x0, y1 - y0), corners + levels)

    def _blit_by_driver(self, op: Blit, source: VulkanImage, target: VulkanImage) -> None:
        needed = VK.FORMAT_FEATURE_BLIT_SRC_BIT | (
            VK.FORMAT_FEATURE_SAMPLED_IMAGE_FILTER_LINEAR_BIT if op.linear else 0
        )
        hint = 'make the source with usage "sample" and the target with usage "render"'
        self._require("blit", source, needed, hint)
        self._require("blit", target, VK.FORMAT_FEATURE_BLIT_DST_BIT, hint)
        self._end_rendering()
        self._order()
        region = ffi.new(
            "VkImageBlit *",
            {
                "srcSubresource": barriers.ONE_LAYER,
                "srcOffsets": _corners(op.source_rect),
                "dstSubresource": barriers.ONE_LAYER,
                "dstOffsets": _corners(op.target_rect),
            },
        )
        general, vk_filter = VK.IMAGE_LAYOUT_GENERAL, VK.FILTER_LINEAR if op.linear else VK.FILTER_NEAREST
        self._vk.vkCmdBlitImage(self._commands, source.handle, general, target.handle, general, 1, region, vk_filter)

    def _composite(self, op: Composite) -> None:
        source, target = _image(op.source), _image(op.target)
        left, top = max(op.at[0], 0), max(op.at[1], 0)
        right = min(op.at[0] + source.spec.width, target.spec.width)
        bottom = min(op.at[1] + source.spec.height, target.spec.height)
        if left >= right or top >= bottom:
            return
        self._render_to(target)
        push = struct.pack("2if", *op.at, op.opacity)
        kind = pipelines.COMPOSITE.specialized(source.spec.format.is_srgb, op.is_straight)
        self._draw_screen(kind, source, (left, top, right - left, bottom - top), push)

    def _draw_triangles(self, op: DrawTriangles, offset: int, count: int) -> None:
        if not count:
            return
        target = _image(op.target)
        texture = None if op.texture is None else _image(op.texture)
        self._render_to(target)
        self._bind(pipelines.TEXTURED if texture else pipelines.COLOURED, target)
        if texture:
            if op.linear:
                hint = 'draw with filter="nearest", or blit it to a surface of another format'
                self._require("a linear filter", texture, VK.FORMAT_FEATURE_SAMPLED_IMAGE_FILTER_LINEAR_BIT, hint)
            self._bind_image(texture.view, self._pipelines.linear if op.linear else self._pipelines.nearest)
        self._scissor((0, 0, target.spec.width, target.spec.height))
        self._vk.vkCmdBindVertexBuffers(self._commands, 0, 1, [self._compiled.vertices], [offset])
        self._vk.vkCmdDraw(self._commands, count, 1, 0, 0)

    # ---- drawing ----

    def _draw_screen(self, kind: Kind, source: VulkanImage, rect: _Rect, push: bytes) -> None:
        """Runs the fragment shader on each pixel of `rect` in the open scope, to read `source` as stored."""
        assert self._target is not None
        self._bind(kind, self._target)
        self._bind_image(source.raw_view, self._pipelines.nearest)
        self._scissor(rect)
        stage = VK.SHADER_STAGE_FRAGMENT_BIT
        self._vk.vkCmdPushConstants(self._commands, self._pipelines.layout, stage, 0, len(push), ffi.from_buffer(push))
        self._vk.vkCmdDraw(self._commands, 3, 1, 0, 0)

    def _bind(self, kind: Kind, target: VulkanImage) -> None:
        if kind.blends:
            self._require(
                "blending", target, VK.FORMAT_FEATURE_COLOR_ATTACHMENT_BLEND_BIT, "draw on another format and blit() it"
            )
        pixel_format = target.spec.format
        vk_format = (support.raw_format(pixel_format) if self._is_raw else None) or pixel_format.vk_format
        pipeline = self._pipelines.get(kind, vk_format)
        self._vk.vkCmdBindPipeline(self._commands, VK.PIPELINE_BIND_POINT_GRAPHICS, pipeline)

    def _bind_image(self, view: Any, sampler: Any) -> None:
        descriptor_set = self._compiled.descriptor_set(view, sampler)
        self._vk.vkCmdBindDescriptorSets(
            self._commands, VK.PIPELINE_BIND_POINT_GRAPHICS, self._pipelines.layout, 0, 1, [descriptor_set], 0, None
        )

    def _scissor(self, rect: _Rect) -> None:
        self._vk.vkCmdSetScissor(self._commands, 0, 1, ffi.new("VkRect2D *", _vk_rect(rect)))

    def _render_to(self, target: VulkanImage, *, raw: bool = False) -> None:
        """A rendering scope on that target.

        The open one, or a new one behind a barrier. `raw`: -srgb codes are written as they are.
        """
        raw = raw and target.spec.format.is_srgb
        if self._target is target and self._is_raw == raw:
            return
        self._end_rendering()
        self._order()
        self._begin_rendering(target, raw=raw)

    def _begin_rendering(self, target: VulkanImage, *, raw: bool = False, clear: Sequence[float] | None = None) -> None:
        if raw and target.raw_view is None:
            raise UnsupportedError(
                f"blit to a swapchain of format {target.spec.format.name}",
                "its images have no view of the codes as they are stored",
                "draw_triangles() or composite() to it, or create the swapchain with another format",
            )
        size = {"width": target.spec.width, "height": target.spec.height}
        attachment = new(
            "VkRenderingAttachmentInfo",
            imageView=target.raw_view if raw else target.view,
            imageLayout=VK.IMAGE_LAYOUT_GENERAL,
            loadOp=VK.ATTACHMENT_LOAD_OP_LOAD if clear is None else VK.ATTACHMENT_LOAD_OP_CLEAR,
            storeOp=VK.ATTACHMENT_STORE_OP_STORE,
            clearValue={"color": {"float32": clear or (0, 0, 0, 0)}},
        )
        info = new(
            "VkRenderingInfo",
            renderArea={"extent": size},
            layerCount=1,
            colorAttachmentCount=1,
            pColorAttachments=[attachment],
        )
        self._vk.vkCmdBeginRendering(self._commands, info)
        self._vk.vkCmdSetViewport(self._commands, 0, 1, ffi.new("VkViewport *", {**size, "maxDepth": 1.0}))
        self._target, self._is_raw = target, raw

    def _end_rendering(self) -> None:
        if self._target is not None:
            self._vk.vkCmdEndRendering(self._commands)
            self._target = None

    def _require(self, what: str, image: VulkanImage, features: int, hint: str) -> None:
        """UnsupportedError where the image's format lacks one of the VkFormatFeatureFlags for its tiling."""
        spec, physical = image.spec, self._context.physical
        if physical.format_features(spec.format.vk_format, spec.tiling) & features != features:
            raise UnsupportedError(
                f"{what} of {spec.tiling} {spec.format.name} surfaces",
                f"{physical.name} ({physical.driver}) has none",
                hint,
            )


def _image(surface: Any) -> VulkanImage:
    image: VulkanImage | None = surface._image
    if image is None:
        raise ClosedError(f"a surface that the list uses is closed: {surface!r}")
    image.check_open()
    return image


def _levels(image: VulkanImage) -> tuple[int, int, int, int]:
    """The largest code of each component; zeros for float formats."""
    pixel_format = image.spec.format
    if pixel_format.name == "rgb10a2unorm":
        return 1023, 1023, 1023, 3
    level = 255 if pixel_format.dtype == "uint8" else 0
    return level, level, level, level


def _drawable(op: DrawTriangles) -> bytes:
    """The vertices without triangles that have a NaN or infinite position.

    The driver's behaviour for them is undefined.
    """
    triangles = np.frombuffer(op.vertices, np.float32, op.count * VERTEX_SIZE // 4).reshape(-1, 3, VERTEX_SIZE // 4)
    finite = np.isfinite(triangles[:, :, :4]).all(axis=(1, 2))
    return op.vertices if finite.all() else triangles[finite].tobytes()


def _vk_rect(rect: _Rect) -> dict[str, Any]:
    x, y, width, height = rect
    return {"offset": {"x": x, "y": y}, "extent": {"width": width, "height": height}}


def _corners(rect: _Rect) -> list[dict[str, int]]:
    x0, y0, x1, y1 = rect
    return [{"x": x0, "y": y0, "z": 0}, {"x": x1, "y": y1, "z": 1}]


def uses(operations: Sequence[Operation]) -> list[tuple[Any, bool]]:
    """The surfaces that operations touch, each once, and whether they write it."""
    written: dict[Any, bool] = {}
    for op in operations:
        for surface in (getattr(op, "source", None), getattr(op, "texture", None)):
            if surface is not None:
                written.setdefault(surface, False)
        written[op.target] = True
    return list(written.items())
