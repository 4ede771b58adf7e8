"""An engine's own VkImages with their memory, filled and read by the engine's own command buffers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from vkshare import formats
from vkshare.backends.base import ImageSpec
from vkshare.backends.vulkan import barriers, support
from vkshare.backends.vulkan.api import VK, address, ffi, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.memory import host_buffer
from vkshare.backends.vulkan.objects import Objects


class EngineImage:
    """A VkImage and its VkDeviceMemory, which the engine destroys."""

    def __init__(self, context: Context, spec: ImageSpec, *, offset: int = 0, exported: bool = True) -> None:
        """`offset`: in multiples of the alignment; `exported`: the memory can be."""
        self.context, self.spec = context, spec
        self.objects = Objects(context)
        handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT if exported else 0
        info = new(
            "VkImageCreateInfo",
            pNext=new("VkExternalMemoryImageCreateInfo", handleTypes=handle_type),
            imageType=VK.IMAGE_TYPE_2D,
            extent={"width": spec.width, "height": spec.height, "depth": 1},
            mipLevels=1,
            arrayLayers=1,
            samples=VK.SAMPLE_COUNT_1_BIT,
            sharingMode=VK.SHARING_MODE_EXCLUSIVE,
            initialLayout=VK.IMAGE_LAYOUT_UNDEFINED,
            **support.fields(spec),
        )
        self.handle = self.objects.make("vkCreateImage", info)
        wanted = new("VkMemoryDedicatedRequirements")
        requirements = new("VkMemoryRequirements2", pNext=wanted)
        asked = new("VkImageMemoryRequirementsInfo2", image=self.handle)
        context.vk.vkGetImageMemoryRequirements2(context.device, asked, requirements)
        needs = requirements.memoryRequirements
        self.offset = offset * needs.alignment
        self.size = needs.size + self.offset
        self.dedicated = bool(wanted.requiresDedicatedAllocation or wanted.prefersDedicatedAllocation) and not offset
        extra = new("VkExportMemoryAllocateInfo", handleTypes=handle_type) if exported else None
        if self.dedicated:
            extra = new("VkMemoryDedicatedAllocateInfo", pNext=extra, image=self.handle)
        kind = context.physical.memory_type(needs.memoryTypeBits, [VK.MEMORY_PROPERTY_DEVICE_LOCAL_BIT])
        info = new("VkMemoryAllocateInfo", pNext=extra, allocationSize=self.size, memoryTypeIndex=kind)
        self.memory = self.objects.make("vkAllocateMemory", info)
        place = new("VkBindImageMemoryInfo", image=self.handle, memory=self.memory, memoryOffset=self.offset)
        context.vk.vkBindImageMemory2(context.device, 1, place)

    @property
    def number(self) -> int:
        return address(self.handle)

    @property
    def aspect(self) -> int:
        return support.aspect(self.spec.format)

    def export(self) -> int:
        kind = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
        info = new("VkMemoryGetFdInfoKHR", memory=self.memory, handleType=kind)
        return int(self.context.vk.make("vkGetMemoryFdKHR", self.context.device, info))

    def write(self, pixels: Any, layout: int | None = None, *, released: bool = False) -> None:
        """Copies pixels in from UNDEFINED, and leaves the image in `layout` (GENERAL), or to others."""
        general = VK.IMAGE_LAYOUT_GENERAL
        with self._buffer(VK.BUFFER_USAGE_TRANSFER_SRC_BIT) as (buffer, data):
            np.frombuffer(data, pixels.dtype)[: pixels.size] = pixels.ravel()

            def write(commands: Any) -> None:
                vk = self.context.vk
                barriers.first_use(vk, commands, self.handle, self.aspect)
                vk.vkCmdCopyBufferToImage(commands, buffer, self.handle, general, 1, self._region())
                if released:
                    family = self.context.queue_family
                    barriers.release(vk, commands, self.handle, self.aspect, family, is_mappable=False)
                elif layout not in (None, general):
                    change = barriers._change_layout(general, layout)
                    barriers._record(vk, commands, None, change, [self.handle], self.aspect)

            self.context.run(write)

    def read(self, layout: int | None = None) -> Any:
        """Copies the pixels out of an image that is in `layout` (GENERAL)."""
        general = VK.IMAGE_LAYOUT_GENERAL
        with self._buffer(VK.BUFFER_USAGE_TRANSFER_DST_BIT) as (buffer, data):

            def write(commands: Any) -> None:
                vk = self.context.vk
                if layout not in (None, general):
                    change = barriers._change_layout(layout, general)
                    barriers._record(vk, commands, None, change, [self.handle], self.aspect)
                vk.vkCmdCopyImageToBuffer(commands, self.handle, general, buffer, 1, self._region())
                barriers.end(vk, commands, [], to_host=True)

            self.context.run(write)
            shape = self.spec.height, self.spec.width, self.spec.format.channels
            return np.frombuffer(data, self.spec.format.numpy_dtype)[: np.prod(shape)].reshape(shape).copy()

    def destroy(self) -> None:
        self.objects.destroy()

    def _region(self) -> Any:
        extent = {"width": self.spec.width, "height": self.spec.height, "depth": 1}
        layer = barriers.ONE_LAYER | {"aspectMask": self.aspect}
        return ffi.new("VkBufferImageCopy *", {"imageSubresource": layer, "imageExtent": extent})

    @contextmanager
    def _buffer(self, usage: int) -> Iterator[tuple[Any, memoryview]]:
        objects = Objects(self.context)
        spec = self.spec
        buffer, memory = host_buffer(objects, spec.width * spec.height * spec.format.bytes_per_pixel, usage)
        yield buffer, memory.map()
        objects.destroy()


def image_spec(
    width: int = 33, height: int = 17, format: str = "rgba8unorm", tiling: str = "optimal", *usage: str
) -> ImageSpec:
    return ImageSpec(width, height, formats.get(format), tiling, frozenset(usage or ("render", "sample", "copy")))


def random_pixels(spec: ImageSpec, seed: int = 1) -> Any:
    """Bytes that no clear leaves behind; the same for the same seed."""
    dtype: Any = spec.format.numpy_dtype
    shape = (spec.height, spec.width, spec.format.channels)
    dice = np.random.default_rng(seed)
    if dtype.kind == "f":
        return dice.random(shape).astype(dtype)
    return dice.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def options(image: EngineImage, **changes: Any) -> dict[str, Any]:
    """The arguments of import_memory() for the image, but for the fd."""
    spec = image.spec
    arguments = {
        "size": image.size,
        "offset": image.offset,
        "width": spec.width,
        "height": spec.height,
        "format": spec.format,
        "tiling": spec.tiling,
        "usage": spec.usage,
        "dedicated": image.dedicated,
    }
    return {**arguments, **changes}
