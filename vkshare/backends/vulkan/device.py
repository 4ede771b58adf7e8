"""The backend object of one Vulkan device: our own VkDevice, or an engine's that was adopted."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn

from vkshare.backends.base import Adapter, AdoptedImageInfo, BufferSpec, ImageSpec, MemoryHandle
from vkshare.backends.vulkan import drawables, foreign, presentation
from vkshare.backends.vulkan import instance as instances
from vkshare.backends.vulkan.adapter import physical_device_of
from vkshare.backends.vulkan.adopted import AdoptedImage
from vkshare.backends.vulkan.api import VK, address
from vkshare.backends.vulkan.buffers import VulkanBuffer, create_buffer, open_buffer, open_file
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.images import AnyImage, VulkanImage, create_image, open_image
from vkshare.backends.vulkan.pipelines import Pipelines
from vkshare.backends.vulkan.presentable import PresentableImage
from vkshare.backends.vulkan.staging import VulkanStage
from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    from vkshare._native import Recording
    from vkshare.backends.vulkan.presentation import Choice, WindowSurface
    from vkshare.formats import Format


class VulkanBackend:
    """Backend of backends/base.py."""

    def __init__(
        self,
        adapter: Adapter,
        context: Context,
        lock_queue: Any = None,
        unlock_queue: Any = None,
        lock_user: int = 0,
    ) -> None:
        self.adapter = adapter
        self.context = context
        locks = {"lock_queue": lock_queue, "unlock_queue": unlock_queue, "lock_user": lock_user}
        self._locks = {} if lock_queue is None else locks
        self._pipelines: Pipelines | None = None

    @property
    def submit_once(self) -> Callable[[int], None]:
        """Runs a VkCommandBuffer and waits for it.

        A Device sets it to its own submit, so that the queue has one user, and one lock.
        """
        return self.context.submit_once

    @submit_once.setter
    def submit_once(self, submit: Callable[[int], None]) -> None:
        self.context.submit_once = submit

    def native_handles(self) -> dict[str, Any]:
        """The `vulkan` argument of DeviceCore."""
        context = self.context
        return {
            "get_device_proc_addr": address(context.physical.vk.pointer("vkGetDeviceProcAddr")),
            "device": address(context.device),
            "queue": address(context.queue),
            "transfer_queue": address(context.transfer_queue) if context.transfer_queue is not None else 0,
            "export_timelines": self.adapter.capabilities.export_timelines,
            "max_timeline_difference": context.physical.max_timeline_difference,
            "is_adopted": context.is_adopted,
            **self._locks,
        }

    def engine_handles(self) -> dict[str, Any]:
        """The handles below the device for an engine that runs on it: the fields of Handles without the lock."""
        context = self.context
        context.check_open()
        return {
            "instance": address(context.instance),
            "physical_device": address(context.physical.handle),
            "device": address(context.device),
            "queue": address(context.queue),
            "queue_family": context.queue_family,
            "api_version": context.api_version,
            "extensions": tuple(sorted(context.extensions | context.instance_extensions)),
            "features": tuple(sorted(context.enabled_features)),
            "get_instance_proc_addr": address(context.physical.vk.pointer("vkGetInstanceProcAddr")),
        }

    def create_image(self, spec: ImageSpec, *, is_tight: bool = False) -> AnyImage:
        """A new image of zeros that can be exported. Blocks until it is zeroed. UnsupportedError, ValueError."""
        self.context.check_open()
        return create_image(self.context, spec, self.adapter.capabilities.row_alignment if is_tight else None)

    def open_image(self, spec: ImageSpec, memory: MemoryHandle) -> AnyImage:
        """Another party's image; takes over ``memory.fd`` whatever happens. See imports.py."""
        self._check_host_pointer(memory)
        return open_image(self.context, spec, memory)

    def create_buffer(self, spec: BufferSpec) -> VulkanBuffer:
        """A new buffer of zeros that can be exported. Blocks until it is zeroed. UnsupportedError, ValueError."""
        self.context.check_open()
        return create_buffer(self.context, spec)

    def open_buffer(self, spec: BufferSpec, memory: MemoryHandle) -> VulkanBuffer:
        """As open_image()."""
        self._check_host_pointer(memory)
        return open_buffer(self.context, spec, memory)

    def open_file(self, spec: BufferSpec, fd: int) -> VulkanBuffer:
        """A buffer over a sealed memfd, another driver's perhaps, which stays the caller's. See buffers.py."""
        self.context.check_open()
        return open_file(self.context, spec, fd)

    def _check_host_pointer(self, memory: MemoryHandle) -> None:
        capabilities = self.adapter.capabilities
        if memory.kind == "memfd" and "host_pointer" not in capabilities.surface_memory:
            os.close(memory.fd)
            raise UnsupportedError(
                "opening memory of the CPU backend",
                capabilities.reasons.get("host_pointer", "the driver imports no host memory"),
                "copy it through read() and write()",
            )

    def import_memory(self, spec: ImageSpec, memory: MemoryHandle) -> VulkanImage:
        """An image in memory that another API allocated; ``memory.fd`` stays the caller's. See foreign.py."""
        self.context.check_open()
        return foreign.import_memory(self.context, self._in_own_memory(spec), memory)

    def adopt_image(self, spec: ImageSpec, info: AdoptedImageInfo) -> AdoptedImage:
        """An engine's own image on this VkDevice. See adopted.py."""
        self.context.check_open()
        return AdoptedImage(self.context, self._in_own_memory(spec), info)

    def share_array(self, spec: ImageSpec, stride: int, memory: memoryview) -> VulkanImage:
        """A linear image over an array's memory, which it keeps alive. See foreign.py."""
        self.context.check_open()
        capabilities = self.adapter.capabilities
        if spec.format.is_depth:
            raise UnsupportedError(
                f"share_array() of {spec.format.name} without a copy",
                "Vulkan has depth in the driver's own order",
                "pass copy=True",
            )
        if "host_pointer" not in capabilities.surface_memory:
            why = capabilities.reasons.get("host_pointer", "the driver imports no host memory")
            raise UnsupportedError("share_array() without a copy", why, "pass copy=True")
        return foreign.share_array(self.context, spec, stride, memory)

    def _in_own_memory(self, spec: ImageSpec) -> ImageSpec:
        """Linear memory that others allocated is taken for a GPU's own, where they do that."""
        is_its_own = spec.tiling == "linear" and not self.context.physical.is_software
        return dataclasses.replace(spec, in_device_memory=is_its_own)

    def compile(self, commands: Recording, missing: tuple[int, int] | None) -> None:
        """Makes the device's Recorder (None), or registers a pipeline with it."""
        with self.context.lock:
            self.context.check_open()
            if self._pipelines is None:
                self._pipelines = Pipelines(self.context)
            if missing is None:
                self._pipelines.recorder.give_to(commands.device)
            else:
                self._pipelines.register(*missing)

    def refuse_feature(self, spec: ImageSpec, feature: int, *, is_blit: bool) -> NoReturn:
        """UnsupportedError names format and driver."""
        drawables.refuse_feature(self.context.physical, spec, feature, is_blit=is_blit)

    def stage(self, nbytes: int, memory: Any, *, upload: bool) -> VulkanStage:
        """A buffer of tightly packed rows beside `memory`, and the commands that copy it."""
        self.context.check_open()
        return VulkanStage(self.context, nbytes, memory, upload=upload)

    # ---- presenting ----

    def headless_surface(self) -> WindowSurface | None:
        """Make a headless VkSurfaceKHR; None if the driver has none."""
        return presentation.headless_surface(self.context)

    def glfw_surface(self, window: int, pace: int) -> WindowSurface:
        """Make the VkSurfaceKHR of a GLFW window, given the address of its GLFWwindow.

        `pace` is its refresh period in ns. UnsupportedError.
        """
        return presentation.glfw_surface(self.context, window, pace)

    def x11_surface(self, connection: int, window: int) -> WindowSurface:
        """Make the VkSurfaceKHR of an X11 window, given the address of an xcb_connection_t. UnsupportedError."""
        return presentation.x11_surface(self.context, connection, window)

    def wayland_surface(self, display: int, wl_surface: int, pace: int) -> WindowSurface:
        """Make the VkSurfaceKHR of a wl_surface. `pace` is its refresh period in ns. UnsupportedError."""
        return presentation.wayland_surface(self.context, display, wl_surface, pace)

    def adopt_surface(self, vk_surface: int) -> WindowSurface:
        """An engine's VkSurfaceKHR, never destroyed by us."""
        reason = presentation.why_no_swapchains(self.context)
        if reason:
            raise UnsupportedError("a swapchain for a VkSurfaceKHR", reason)
        return presentation.WindowSurface(self.context, vk_surface, is_ours=False)

    def choose_presentation(
        self, surface: WindowSurface, wanted: Format | None, mode: str, fences: bool | None
    ) -> Choice:
        """How to present on that surface. UnsupportedError lists what it can."""
        return presentation.choose(self.context, surface, wanted, mode, fences)

    def present_mode(self, surface: WindowSurface, name: str) -> tuple[int, int]:
        """The VkPresentModeKHR for that name, and the pace of our own in ns. UnsupportedError."""
        return presentation.mode_of(self.context, surface, name)

    def presentable_image(
        self, spec: ImageSpec, vk_image: int, view: int, pinned: Callable[[], AbstractContextManager[None]]
    ) -> PresentableImage:
        """A swapchain's image as an Image of backends/base.py; `pinned` keeps it alive for a while."""
        return PresentableImage(self.context, spec, vk_image, view, pinned)

    def close(self) -> None:
        """After _native.Device._shutdown(): destroys what is left, and the VkDevice if it is ours. Idempotent."""
        self.context.close()


def open_device(adapter: Adapter, validation: bool | None = None, name: str = "") -> VulkanBackend:
    """A VkDevice of its own on that adapter.

    UnsupportedError without the validation layer that is wanted; VulkanError.
    """
    instance = instances.get(validation)
    physical = physical_device_of(adapter, instance)
    context = Context.create(physical, instance.handle, instance.extensions)
    context.name(VK.OBJECT_TYPE_QUEUE, context.queue, f"queue of {name or 'a device'}")
    if context.transfer_queue is not None:
        context.name(VK.OBJECT_TYPE_QUEUE, context.transfer_queue, f"transfer queue of {name or 'a device'}")
    return VulkanBackend(adapter, context)
