"""Images and memory that other APIs and engines made, as surfaces: a part of Device (rules E2 to E4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from vkshare import formats
from vkshare.backends.base import USAGES, AdoptedImageInfo, Image, ImageSpec, MemoryHandle, layouts
from vkshare.core import shared_arrays, surface_factory
from vkshare.core.device_lifetime import DeviceLifetime
from vkshare.core.surface import Surface
from vkshare.core.surface_factory import DEFAULT_USAGE
from vkshare.errors import UnsupportedError
from vkshare.util import arguments, handles
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.formats import Format

_TILINGS = ("linear", "optimal")
_Made = TypeVar("_Made")
_LARGEST_SIZE = 2**63 - 1
_LARGEST_STRIDE = 2**31 - 1


class ForeignImages(DeviceLifetime):
    """The part of Device that makes surfaces of what others allocated."""

    def adopt_image(
        self,
        image: Any,
        *,
        width: int,
        height: int,
        format: str | Format,
        tiling: str = "optimal",
        usage: Iterable[str] = DEFAULT_USAGE,
        layout: str = "general",
        memory: Any = None,
        on_close: Callable[[], object] | None = None,
    ) -> Surface:
        """Makes a surface of a VkImage that an engine made on this device's VkDevice (rule E2).

        vkshare destroys neither the image nor its memory. The surface is not owned, and its key is
        0. Its first owner's work comes after what the engine submitted to the queue before, and
        begins with a transition from `layout`, which keeps the contents unless it is
        ``"undefined"``. From then on the image is in layout GENERAL between two uses, and its queue
        is the device's, but where the surface was exported: then the image belongs to
        VK_QUEUE_FAMILY_EXTERNAL while the surface is not owned. The CPU does not map it. Vulkan 1.3,
        7.7.4 and 12.2, are followed. Thread-safe.

        Parameters
        ----------
        image
            The VkImage: an int, a cffi or a ctypes pointer. 2D, one level, one layer, one sample,
            VK_SHARING_MODE_EXCLUSIVE on the family of the device's queue.
        width, height
            Pixels, 1 to ``capabilities.max_dimension``.
        format
            One of `vkshare.formats.FORMATS`.
        tiling
            ``"optimal"`` or ``"linear"``.
        usage
            Of ``"render"``, ``"sample"``, ``"copy"``, ``"storage"``, as the image was made: COLOR_ATTACHMENT (of a
            depth format DEPTH_STENCIL_ATTACHMENT), SAMPLED, TRANSFER_SRC and TRANSFER_DST, STORAGE. ``"copy"`` is
            needed.
        layout
            The image's layout now: the name of its VkImageLayout in lower case without ``VK_IMAGE_LAYOUT_``:
            ``"general"``, ``"undefined"``, ``"preinitialized"``, ``"color_attachment_optimal"`` (of a depth format
            ``"depth_stencil_attachment_optimal"``), ``"shader_read_only_optimal"``, ``"transfer_src_optimal"`` or
            ``"transfer_dst_optimal"``.
        memory
            The image's VkDeviceMemory, if the surface is to be exported: made with ``VkExportMemoryAllocateInfo``
            for an opaque fd, for this image alone (dedicated where the driver prefers that), of the size that
            ``vkGetImageMemoryRequirements2`` gives. The image was made with ``VkExternalMemoryImageCreateInfo`` and
            the usage flags that ``vks_surface_body`` of vkshare_ipc.h lists. On a software driver its pages are
            replaced by those of a sealed memfd with the same contents, so no work uses them during the call, and no
            fd of the memory may have been exported before. None: export() is an UnsupportedError.
        on_close
            Called once vkshare uses the image no more: no handle is open, and the work that was submitted through
            vkshare has run. At the latest ``close()`` of the device calls it. Any thread may call it, in any call on
            the device, so it must not wait. Its errors are logged.

        Returns
        -------
        Surface
            Close it, or use it in a ``with`` block.

        Raises
        ------
        UnsupportedError
            The device is on the CPU backend; the driver has no such images; or the memory cannot be exported as the
            driver would export it.
        ValueError, TypeError
            An argument is not as above.
        """
        self._check()
        self._reap()
        if on_close is not None and not callable(on_close):
            raise TypeError(f"on_close must be a callable or None, not {type(on_close).__name__}")
        spec = self._foreign_spec(width, height, format, tiling, usage)
        if "copy" not in spec.usage:
            raise ValueError(f"usage is {sorted(spec.usage)}; 'copy' is needed, because surfaces are read and cleared")
        info = AdoptedImageInfo(
            image=handles.not_null(image, "image"),
            layout=arguments.choice("layout", layout, layouts(is_depth=spec.format.is_depth)),
            memory=0 if memory is None else handles.not_null(memory, "memory"),
        )
        with self._active_call():
            self._check()
            adopted = self._backend.adopt_image(spec, info)
            surface = self._surface_of(adopted)
            if on_close is not None:  # last: what cannot be adopted stays the engine's
                adopted.at_end(on_close)
        return surface

    def import_memory(
        self,
        fd: int,
        *,
        size: int,
        width: int,
        height: int,
        format: str | Format,
        tiling: str = "optimal",
        usage: Iterable[str] = DEFAULT_USAGE,
        offset: int = 0,
        stride: int | None = None,
        dedicated: bool = True,
        device_uuid: bytes | UUID | None = None,
        driver_uuid: bytes | UUID | None = None,
    ) -> Surface:
        """Makes a surface in memory that another API or engine allocated; its contents stay (rule E3).

        The surface is not owned, its key is 0, and its keyed mutex is new: the other API takes part
        in the order by a handle of the surface, or the program orders it. The other API's work on
        the memory must have ended before. A Vulkan engine leaves its image in layout GENERAL,
        released to VK_QUEUE_FAMILY_EXTERNAL. Vulkan 1.3, 12.2 and 7.7.4, are followed.

        A surface whose memory is as this driver would have exported it can be exported again. The
        CPU sees linear memory on software drivers and on the CPU backend; on a GPU it is taken for
        the GPU's own memory. Thread-safe.

        Parameters
        ----------
        fd
            An opaque fd of a driver: of Vulkan (``vkGetMemoryFdKHR``) or of CUDA
            (``cuMemExportToShareableHandle``). On a software driver and on the CPU backend: a memfd with the seals
            SEAL, SHRINK and GROW, because another file can be cut off by the other process. It belongs to the
            surface when the call returns, and stays the caller's when the call raises.
        size
            Bytes of the memory, as it was allocated (``VkMemoryAllocateInfo.allocationSize``).
        width, height
            Pixels, 1 to ``capabilities.max_dimension``.
        format
            One of `vkshare.formats.FORMATS`.
        tiling
            ``"optimal"``, as the driver orders pixels, or ``"linear"``. The CPU backend has linear rows alone.
        usage
            Of ``"render"``, ``"sample"``, ``"copy"``, ``"storage"``. The other party's VkImage has the usage flags
            that ``vks_surface_body`` of vkshare_ipc.h lists for these.
        offset
            Bytes from the beginning of the memory to the image.
        stride
            Bytes from row to row of a linear image; None: as the driver has it.
        dedicated
            Whether the memory was allocated for this image alone (``VkMemoryDedicatedAllocateInfo``).
        device_uuid, driver_uuid
            Of the device and the driver that allocated the memory, 16 bytes each; None: not compared.

        Returns
        -------
        Surface
            Close it, or use it in a ``with`` block.

        Raises
        ------
        DescriptorError
            The memory has no room for such an image, or not at that offset or with that stride; or the fd is not of
            such memory. The text has what this driver needs.
        DeviceMismatchError
            The memory is of another device or driver; the text names both.
        UnsupportedError
            The adapter has no such images, or cannot import their memory.
        ValueError, TypeError
            An argument is not as above.

        Examples
        --------
        >>> import os
        >>> fd = os.memfd_create("rows", os.MFD_ALLOW_SEALING)
        >>> os.truncate(fd, 4096)
        >>> import fcntl
        >>> fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        0
        >>> with vks.open(backend="cpu") as own:
        ...     shape = {"width": 16, "height": 16, "format": "rgba8unorm", "tiling": "linear"}
        ...     own.import_memory(fd, size=4096, **shape).close()
        """
        self._check()
        self._reap()
        spec = self._foreign_spec(width, height, format, tiling, usage)
        arguments.flag("dedicated", dedicated)
        here = self._backend.adapter.capabilities
        if stride is not None and tiling == "optimal":
            raise ValueError(f"stride is {stride!r} and tiling 'optimal'; rows in order are for linear images")
        memory = MemoryHandle(
            kind="opaque_fd",
            fd=arguments.integer("fd", fd, 0, 2**31 - 1),
            size=arguments.integer("size", size, 1, _LARGEST_SIZE),
            offset=arguments.integer("offset", offset, 0, _LARGEST_SIZE),
            stride=0 if stride is None else arguments.integer("stride", stride, 1, _LARGEST_STRIDE),
            dedicated=dedicated,
            device_uuid=_uuid("device_uuid", device_uuid, here.device_uuid),
            driver_uuid=_uuid("driver_uuid", driver_uuid, here.driver_uuid),
        )
        with self._active_call():
            self._check()
            surface = self._surface_of(self._backend.import_memory(spec, memory))
        os.close(memory.fd)
        return surface

    def share_array(self, array: Any, *, format: str | Format | None = None, copy: bool = False) -> Surface:
        """Makes a linear surface over the memory of an array, without a copy, and keeps the array alive (rule E4).

        The surface is not owned, its key is 0, and its pixels are the array's: each shows what is
        written through the other. The program reads and writes the array only while a handle of its
        own owns the surface, after ``wait_idle()`` or in ``view.array``. The surface cannot be
        exported, because the memory has no fd. Thread-safe.

        Parameters
        ----------
        array
            Of shape (H, W, C) or (H, W), each row in one piece, writable: a NumPy array, or an object with
            ``__array_interface__``, the buffer protocol, or DLPack in the CPU's memory.
        format
            The surface's format; its type and channels must be the array's. None: by these, e.g. rgba8unorm for
            4 uint8.
        copy
            True: a new surface with the array's pixels, which then has memory of its own.

        Returns
        -------
        Surface
            Close it, or use it in a ``with`` block. ``statistics().copied_bytes`` says whether it was copied. Its usage
            is "render", "sample" and "copy", less "render" and "sample" where the driver has no such linear images.

        Raises
        ------
        ValueError
            The array has a shape, type or strides that no surface has; or its memory is not aligned as the adapter
            wants it, which the text names. A Vulkan device wants whole pages.
        TypeError
            It is no array, or not in the CPU's memory.
        UnsupportedError
            The driver has no images in host memory, or none of depth: pass copy=True.

        Examples
        --------
        >>> import numpy as np
        >>> pixels = np.zeros((48, 64, 4), np.uint8)
        >>> with vks.open(backend="cpu") as own, own.share_array(pixels) as surface:
        ...     with surface.access() as view:
        ...         submission = own.submit(own.record().clear(view, (1, 1, 1, 1)))
        ...         own.wait_idle()
        >>> bool((pixels == 255).all())
        True
        """
        self._check()
        self._reap()
        arguments.flag("copy", copy)
        found, rows = shared_arrays.described(array)
        pixel_format = rows.format("array", format)
        spec = self._foreign_spec(rows.width, rows.height, pixel_format, "linear", DEFAULT_USAGE)
        with self._active_call():
            self._check()
            if copy:
                return self._copied_array(spec, found)
            memory = shared_arrays.memory_of(found, rows, array)
            image = _with_most_usage(
                lambda usage: self._backend.share_array(replace(spec, usage=usage), rows.pitch, memory)
            )
            return self._surface_of(image)

    def _copied_array(self, spec: ImageSpec, pixels: Any) -> Surface:
        device = cast("Device", self)
        shape = spec.width, spec.height, spec.format
        if "linear" in device.capabilities.tilings and not spec.format.is_depth:
            surface = _with_most_usage(lambda usage: device.create_surface(*shape, tiling="linear", usage=usage))
        else:
            surface = device.create_surface(*shape)
        with on_error(surface.close):
            surface.acquire(0, 0)
            surface.write(pixels)
            surface.release(0)
        surface._copied = pixels.nbytes
        return surface

    def _surface_of(self, image: Image) -> Surface:
        return surface_factory.adopt_image(cast("Device", self), image, discard=False)

    def _foreign_spec(
        self, width: int, height: int, format: str | Format, tiling: str, usage: Iterable[str]
    ) -> ImageSpec:
        limit, form = self._backend.adapter.capabilities.max_dimension, formats.get(format)
        if form.is_planar:
            raise UnsupportedError(
                f"a surface of {form} in memory of others",
                "planes lie in memory of vkshare's own",
                "use create_surface() and write_planes(), or a surface for each plane",
            )
        return ImageSpec(
            arguments.integer("width", width, 1, limit),
            arguments.integer("height", height, 1, limit),
            form,
            arguments.choice("tiling", tiling, _TILINGS),
            arguments.choices("usage", usage, USAGES),
        )


def _with_most_usage(make: Callable[[frozenset[str]], _Made]) -> _Made:
    """Calls make() with less usage where a driver has no linear images for more. The first error, if all fail."""
    refused: UnsupportedError | None = None
    for usage in (DEFAULT_USAGE, ("sample", "copy"), ("copy",)):
        try:
            return make(frozenset(usage))
        except UnsupportedError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _uuid(name: str, value: Any, default: bytes) -> bytes:
    if value is None:
        return default
    found = value.bytes if isinstance(value, UUID) else value
    if not isinstance(found, bytes):
        raise TypeError(f"{name} must be 16 bytes, a uuid.UUID or None, not {type(value).__name__}")
    if len(found) != 16:
        raise ValueError(f"{name} has {len(found)} bytes; allowed are 16, a uuid.UUID or None")
    return found
