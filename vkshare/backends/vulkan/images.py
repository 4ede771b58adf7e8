"""Images of a surface: a VkImage over memory of its own, with its views."""

from __future__ import annotations

from functools import partial
from typing import Any

from vkshare.backends.base import ImageSpec, MemoryHandle, PlaneLayout, has_tight_rows, tight_rows_refused
from vkshare.backends.vulkan import barriers, drawables, imports, support
from vkshare.backends.vulkan.api import VK, address, ffi, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.planar import PlanarImage
from vkshare.backends.vulkan.resource import Resource, make_exportable
from vkshare.util.closing import on_error


class VulkanImage(Resource):
    """A VkImage, its memory, its view and its ownership command buffers. Image of backends/base.py."""

    kind = "surface"
    _handle_field = "image"
    spec: ImageSpec

    def __init__(self, context: Context, spec: ImageSpec, handle_type: int, features: int) -> None:
        self.image = 0
        self.image_view = 0
        self.view: Any = None  # VkImageView, None where the usage needs none
        self.raw_view: Any = None  # of a -srgb image: its codes as they are stored; else the view itself
        super().__init__(context, spec, handle_type, features)

    def _forget(self) -> None:
        super()._forget()
        self.view = self.raw_view = None
        self.image = self.image_view = 0

    def _check_support(self, handle_type: int, features: int) -> bool:
        return support.check(self.context.physical, self.spec, handle_type, features)

    @property
    def _is_for_host(self) -> bool:
        return self.spec.tiling == "linear" and not self.spec.in_device_memory

    def _create(self, handle_type: int) -> None:
        spec = self.spec
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
        self.handle = self._objects.make("vkCreateImage", info)
        self.image = address(self.handle)
        self._measure()

    def _measure(self) -> None:
        """Read the image's requirements and the places of its rows."""
        vk, device, spec = self.context.vk, self.context.device, self.spec
        asked = new("VkImageMemoryRequirementsInfo2", image=self.handle)
        self._read_requirements("vkGetImageMemoryRequirements2", asked)
        # Else NVIDIA clears small linear images by marks that CUDA does not know: where it wrote
        # afterwards, Vulkan saw the clear's colour still (driver 580, an H200).
        self.is_dedicated |= spec.in_device_memory
        if spec.tiling == "linear":
            subresource = ffi.new("VkImageSubresource *", {"aspectMask": VK.IMAGE_ASPECT_COLOR_BIT})
            layout = vk.make("vkGetImageSubresourceLayout", device, self.handle, subresource)
            self.stride, self._offset = int(layout.rowPitch), int(layout.offset)

    @property
    def handles(self) -> list[Any]:
        """The VkImages: one."""
        return [self.handle]

    @property
    def planes(self) -> tuple[PlaneLayout, ...]:
        """Where the rows are, of each plane."""
        return (PlaneLayout(0, self.stride),)

    @property
    def aspect(self) -> int:
        """The VkImageAspectFlags: colour, or depth."""
        return support.aspect(self.spec.format)

    @property
    def _whole(self) -> Any:
        return barriers.whole_image(self.aspect)

    def _bind_memory(self) -> None:
        assert self._memory is not None
        vk, device = self.context.vk, self.context.device
        place = {"memory": self._memory.handle, "memoryOffset": self.memory_offset}
        vk.vkBindImageMemory2(device, 1, new("VkBindImageMemoryInfo", image=self.handle, **place))

    def _make_drawable(self) -> None:
        if self.spec.usage & {"render", "sample", "storage"}:
            self.view = self._make_view(self.spec.format.vk_format)
            self.image_view = address(self.view)
            self.raw_view = self._make_raw_view()
        self.drawable = drawables.drawable(
            self.context, self.spec, self.image, self.view, self.raw_view, is_mappable=self.is_mappable
        )

    def _make_view(self, vk_format: int) -> Any:
        form = {"viewType": VK.IMAGE_VIEW_TYPE_2D, "format": vk_format, "subresourceRange": self._whole[0]}
        return self._objects.make("vkCreateImageView", new("VkImageViewCreateInfo", image=self.handle, **form))

    def _make_raw_view(self) -> Any:
        raw = support.raw_format(self.spec.format)
        return self.view if raw is None else self._make_view(raw)

    def acquire(self, commands: Any) -> None:
        barriers.acquire(self.context.vk, commands, self.handle, self.aspect, self._owner)

    def release(self, commands: Any) -> None:
        owner, is_mappable = self._owner, self.is_mappable
        barriers.release(self.context.vk, commands, self.handle, self.aspect, owner, is_mappable=is_mappable)

    def start(self) -> None:
        context = self.context

        def write(commands: Any) -> None:
            vk, general = context.vk, VK.IMAGE_LAYOUT_GENERAL
            barriers.first_use(vk, commands, self.handle, self.aspect)
            if self.spec.format.is_depth:
                near = ffi.new("VkClearDepthStencilValue *")
                vk.vkCmdClearDepthStencilImage(commands, self.handle, general, near, 1, self._whole)
            else:
                zero = ffi.new("VkClearColorValue *")
                vk.vkCmdClearColorImage(commands, self.handle, general, zero, 1, self._whole)
            self.release(commands)

        context.run(write, name="first use")


AnyImage = VulkanImage | PlanarImage


def kind_of(spec: ImageSpec) -> type[AnyImage]:
    """Return the class of images of such a format."""
    return PlanarImage if spec.format.is_planar else VulkanImage


def create_image(context: Context, spec: ImageSpec, tight_at: int | None = None) -> AnyImage:
    """A new image of zeros in exportable memory of its own, owned by VK_QUEUE_FAMILY_EXTERNAL.

    `tight_at` is the driver's row alignment where rows without padding are wanted.

    Raises
    ------
    UnsupportedError
        The driver cannot make such an image, or not export it; the text names format, tiling and usage.
    ValueError
        It is larger than the driver allows.
    """
    handle_type = VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
    image = kind_of(spec)(context, spec, handle_type, VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT)
    with on_error(image.destroy):
        if tight_at is not None and not has_tight_rows(spec, image.planes):
            raise tight_rows_refused(spec, image.stride, tight_at, context.physical.name)
    make_exportable(image)
    return image


def open_image(context: Context, spec: ImageSpec, memory: MemoryHandle) -> AnyImage:
    """Another party's image. Takes over ``memory.fd``, and raises, as imports.open_resource() does."""
    make: imports.Maker[AnyImage] = partial(kind_of(spec), context, spec)
    return imports.open_resource(context, make, memory)
