"""Images of planes: one VkImage a plane, of the plane's own format, bound one after the other in one memory.

VkFormats of several planes are not used: Mesa 22.3 has none, SwiftShader cannot draw into their
planes, and each driver converts them in its own way (docs/decisions/0136-planes-are-images-of-their-own.md).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vkshare.backends import host_memory
from vkshare.backends.base import ImageSpec, PlaneLayout
from vkshare.backends.drawing import Drawable
from vkshare.backends.vulkan import barriers, support
from vkshare.backends.vulkan.api import VK, address, ffi, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.resource import Resource
from vkshare.errors import UnsupportedError


class PlanarImage(Resource):
    """The VkImages of a surface's planes, and their memory. Image of backends/base.py."""

    kind = "surface"
    _handle_field = "image"
    spec: ImageSpec

    def __init__(self, context: Context, spec: ImageSpec, handle_type: int, features: int) -> None:
        self.image = 0
        self.image_view = 0
        self.handles: list[Any] = []  # VkImages
        self.views: list[Any] = []  # VkImageViews; none where the usage needs none
        self.plane_specs = spec.planes()
        self._offsets: list[int] = []  # bytes from memory_offset
        self._layouts: list[PlaneLayout] = []  # in the planes' own memory
        super().__init__(context, spec, handle_type, features)

    def _forget(self) -> None:
        super()._forget()
        self.handles, self.views = [], []
        self.image = self.image_view = 0

    @property
    def planes(self) -> tuple[PlaneLayout, ...]:
        """Where the rows of each plane are."""
        first = self._layouts[0].offset
        return tuple(
            PlaneLayout(offset + own.offset - first if own.stride else 0, own.stride)
            for offset, own in zip(self._offsets, self._layouts, strict=True)
        )

    @property
    def bound_at(self) -> tuple[int, ...]:
        """Bytes from the memory's first image to each plane's: for APIs that import optimal planes."""
        return tuple(self._offsets)

    @property
    def aspect(self) -> int:
        """The VkImageAspectFlags: the planes are images of colours."""
        return barriers.COLOUR

    def _check_support(self, handle_type: int, features: int) -> bool:
        if self.spec.in_device_memory:
            raise UnsupportedError(f"memory='device' of a {self.spec}", "its planes share a memory", "leave it out")
        for each in self.plane_specs:
            if support.check(self.context.physical, each, handle_type, features):
                raise UnsupportedError(f"a {self.spec}", "each image needs a memory of its own here")
        return False

    @property
    def _is_for_host(self) -> bool:
        return self.spec.tiling == "linear"

    def _create(self, handle_type: int) -> None:
        ends = []
        wanted = self._host_offsets(handle_type)
        type_bits, end = 0xFFFFFFFF, 0
        for index, spec in enumerate(self.plane_specs):
            handle = self._make_image(spec, handle_type)
            self.handles.append(handle)
            needs = self._needs_of(handle)
            start = -(-end // needs.alignment) * needs.alignment if wanted is None else wanted[index]
            if start % needs.alignment:
                raise UnsupportedError(f"a {self.spec} there", f"plane {index} begins {start} bytes into its memory")
            end = start + needs.size
            ends.append(end)
            type_bits &= needs.memoryTypeBits
            self._offsets.append(start)
            self._layouts.append(self._layout_of(handle))
        self.handle = self.handles[0]
        self.image = address(self.handle)
        self.stride, self._offset = self._layouts[0].stride, self._layouts[0].offset
        self.needs = SimpleNamespace(size=max(ends), memoryTypeBits=type_bits)

    def _host_offsets(self, handle_type: int) -> list[int] | None:
        """Where planes begin in memory of the CPU backend; None: this memory is the driver's."""
        if handle_type != VK.EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT:
            return None
        stride, _ = host_memory.layout(self.spec)
        return [each.offset for each in host_memory.planes(self.spec, stride)]

    def _make_image(self, spec: ImageSpec, handle_type: int) -> Any:
        external = new("VkExternalMemoryImageCreateInfo", handleTypes=handle_type)
        info = new(
            "VkImageCreateInfo",
            pNext=external,
            imageType=VK.IMAGE_TYPE_2D,
            extent={"width": spec.width, "height": spec.height, "depth": 1},
            mipLevels=1,
            arrayLayers=1,
            samples=VK.SAMPLE_COUNT_1_BIT,
            **support.fields(spec),
            **self._sharing(),
            initialLayout=VK.IMAGE_LAYOUT_UNDEFINED,
        )
        return self._objects.make("vkCreateImage", info)

    def _needs_of(self, handle: Any) -> Any:
        out = new("VkMemoryRequirements2")
        info = new("VkImageMemoryRequirementsInfo2", image=handle)
        self.context.vk.vkGetImageMemoryRequirements2(self.context.device, info, out)
        needs = out.memoryRequirements
        return SimpleNamespace(
            size=int(needs.size), alignment=int(needs.alignment), memoryTypeBits=int(needs.memoryTypeBits)
        )

    def _layout_of(self, handle: Any) -> PlaneLayout:
        if self.spec.tiling != "linear":
            return PlaneLayout(0, 0)
        subresource = ffi.new("VkImageSubresource *", {"aspectMask": VK.IMAGE_ASPECT_COLOR_BIT})
        layout = self.context.vk.make("vkGetImageSubresourceLayout", self.context.device, handle, subresource)
        return PlaneLayout(int(layout.offset), int(layout.rowPitch))

    def _bind_memory(self) -> None:
        assert self._memory is not None
        for handle, offset in zip(self.handles, self._offsets, strict=True):
            place = {"memory": self._memory.handle, "memoryOffset": self.memory_offset + offset}
            info = new("VkBindImageMemoryInfo", image=handle, **place)
            self.context.vk.vkBindImageMemory2(self.context.device, 1, info)

    def _make_drawable(self) -> None:
        if self.spec.usage & {"render", "sample", "storage"}:
            for handle, spec in zip(self.handles, self.plane_specs, strict=True):
                form = {"viewType": VK.IMAGE_VIEW_TYPE_2D, "format": spec.format.vk_format}
                info = new("VkImageViewCreateInfo", image=handle, **form, subresourceRange=barriers.WHOLE_IMAGE)
                self.views.append(self._objects.make("vkCreateImageView", info))
            self.image_view = address(self.views[0])
        view = self.image_view
        handles = {"image": self.image, "view": view, "raw_view": view}
        planes = {"planes": [*map(address, self.handles)], "plane_views": [*map(address, self.views)]}
        self.drawable = Drawable(**self.spec.drawable, **handles, **planes, is_mappable=self.is_mappable)

    def name(self, name: str) -> None:
        for index, handle in enumerate(self.handles):
            self.context.name(VK.OBJECT_TYPE_IMAGE, handle, f"{name} plane {index}")

    def acquire(self, commands: Any) -> None:
        for handle in self.handles:
            barriers.acquire(self.context.vk, commands, handle, barriers.COLOUR, self._owner)

    def release(self, commands: Any) -> None:
        vk, owner, is_mappable = self.context.vk, self._owner, self.is_mappable
        for handle in self.handles:
            barriers.release(vk, commands, handle, barriers.COLOUR, owner, is_mappable=is_mappable)

    def start(self) -> None:
        context = self.context

        def write(commands: Any) -> None:
            zero = ffi.new("VkClearColorValue *")
            for handle in self.handles:
                barriers.first_use(context.vk, commands, handle, barriers.COLOUR)
                context.vk.vkCmdClearColorImage(
                    commands, handle, VK.IMAGE_LAYOUT_GENERAL, zero, 1, barriers.whole_image()
                )
            self.release(commands)

        context.run(write, name="first use")
