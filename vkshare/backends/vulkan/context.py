"""A VkDevice with its queues and command pools: what everything else of the backend is made with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Protocol

from vkshare.backends.vulkan.api import VK, Functions, Struct, address, device_functions, ffi, handle, new
from vkshare.backends.vulkan.physical import PhysicalDevice
from vkshare.backends.vulkan.required import (
    DEVICE_EXTENSIONS,
    LINEAR_RENDERING,
    OPTIONAL_DEVICE_EXTENSIONS,
    PRESENT_FENCES,
    PRESENT_FENCES_NEED,
)
from vkshare.errors import ClosedError, UnsupportedError


class Owner(Protocol):
    """Something that owns Vulkan objects."""

    def destroy(self) -> None:
        """Frees them under the context's lock, and calls Context.forget(). Nothing runs on them. Idempotent."""


class Context:
    """A logical device, our own or an engine's.

    Objects made through it may be used from any thread; `lock` guards the command pools and what is destroyed: it is
    held while a command buffer is allocated, recorded or freed, and while anything is destroyed.
    """

    def __init__(
        self,
        physical: PhysicalDevice,
        device: Any,
        queue: Any,
        queue_family: int,
        extensions: frozenset[str],
        *,
        is_adopted: bool,
        instance: Any = None,
        instance_extensions: frozenset[str] = frozenset(),
        has_present_fences: bool = False,
    ) -> None:
        self.physical = physical
        self.instance = instance  # VkInstance
        self.instance_extensions = instance_extensions
        self.has_present_fences = has_present_fences  # VK_EXT_swapchain_maintenance1, and its feature
        self.device = device
        self.queue = queue
        self.queue_family = queue_family
        # A second queue, for what only copies; an engine's device has none that we could know of.
        self.transfer_family = None if is_adopted else physical.transfer_family
        self.transfer_queue: Any = None  # VkQueue
        self.extensions = extensions
        self.is_adopted = is_adopted
        self.lock = threading.RLock()
        self.vk: Functions = device_functions(physical.vk, device)
        self.submit_once: Callable[[int], None] = self._submit_and_wait
        self._owners: dict[Owner, None] = {}  # the oldest first
        self.is_closed = False  # what was made on it is gone, or must be left alone
        self._pools: dict[int, Any] = {}  # VkCommandPool by queue family
        self._own_device: Any = None if is_adopted else device
        if self.transfer_family is not None:
            self.transfer_queue = self.vk.make("vkGetDeviceQueue", device, self.transfer_family, 0)
        try:
            for family in self.queue_families:
                pool = new("VkCommandPoolCreateInfo", queueFamilyIndex=family)
                self._pools[family] = self.vk.make("vkCreateCommandPool", device, pool, None)
        except BaseException:
            self._destroy_pools()
            raise

    @classmethod
    def create(
        cls, physical: PhysicalDevice, instance: Any = None, instance_extensions: frozenset[str] = frozenset()
    ) -> Context:
        """A VkDevice of our own: a queue of the first family that draws, and one of a family that only copies."""
        family = _graphics_family(physical)
        families = [family] if physical.transfer_family is None else [family, physical.transfer_family]
        extensions = [*DEVICE_EXTENSIONS, *(name for name in OPTIONAL_DEVICE_EXTENSIONS if name in physical.extensions)]
        fences = _has_present_fences(physical, instance_extensions)
        if fences:
            extensions.append(PRESENT_FENCES)
        features = new("VkPhysicalDeviceSwapchainMaintenance1FeaturesEXT", swapchainMaintenance1=1) if fences else None
        if _draws_to_linear_images(physical):
            extensions.append(LINEAR_RENDERING)
            features = new("VkPhysicalDeviceLinearColorAttachmentFeaturesNV", pNext=features, linearColorAttachment=1)
        f13 = new("VkPhysicalDeviceVulkan13Features", pNext=features, synchronization2=1, dynamicRendering=1)
        f12 = new("VkPhysicalDeviceVulkan12Features", pNext=f13, timelineSemaphore=1)
        queues = [
            new("VkDeviceQueueCreateInfo", queueFamilyIndex=each, queueCount=1, pQueuePriorities=[1.0])
            for each in families
        ]
        info = new(
            "VkDeviceCreateInfo",
            pNext=f12,
            queueCreateInfoCount=len(queues),
            pQueueCreateInfos=queues,
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=extensions,
        )
        device = physical.vk.make("vkCreateDevice", physical.handle, info, None)
        vk = device_functions(physical.vk, device)
        try:
            vk_queue = vk.make("vkGetDeviceQueue", device, family, 0)
            return cls(
                physical,
                device,
                vk_queue,
                family,
                frozenset(extensions),
                is_adopted=False,
                instance=instance,
                instance_extensions=instance_extensions,
                has_present_fences=fences,
            )
        except BaseException:
            vk.vkDestroyDevice(device, None)
            raise

    @property
    def queue_families(self) -> list[int]:
        """Of its queues: the one for graphics first."""
        return [self.queue_family] if self.transfer_family is None else [self.queue_family, self.transfer_family]

    # ---- command buffers ----

    def record(
        self, write: Callable[[Any], None], *, name: str = "", once: bool = False, family: int | None = None
    ) -> Any:
        """A VkCommandBuffer for queues of that family (None: graphics) that `write(command_buffer)` has filled.

        It may be pending several times at once, unless made for use once.
        """
        with self.lock:
            pool = self._pools.get(self.queue_family if family is None else family)
            info = new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1)
            commands = self.vk.make("vkAllocateCommandBuffers", self.device, info)
            try:
                self.vk.vkBeginCommandBuffer(commands, _begin_info(once))
                write(commands)
                self.vk.vkEndCommandBuffer(commands)
            except BaseException:
                self.free(commands, family=family)
                raise
        self.name(VK.OBJECT_TYPE_COMMAND_BUFFER, commands, name)
        return commands

    def free(self, *command_buffers: Any, family: int | None = None) -> None:
        """Frees command buffers of that family that no longer run."""
        with self.lock:
            if not self.is_closed:
                pool = self._pools[self.queue_family if family is None else family]
                self.vk.vkFreeCommandBuffers(self.device, pool, len(command_buffers), list(command_buffers))

    def run(self, write: Callable[[Any], None], *, name: str = "") -> None:
        """Records a command buffer, runs it once and waits for it. Blocks."""
        commands = self.record(write, name=name, once=True)
        self.submit_once(address(commands))  # if this is interrupted, the commands may still run: they go with the pool
        self.free(commands)

    def _submit_and_wait(self, command_buffer: int) -> None:
        """Right only while nobody else uses the queue: a Device puts its own submit in this one's place."""
        vk = self.vk
        info = new("VkCommandBufferSubmitInfo", commandBuffer=handle("VkCommandBuffer", command_buffer))
        submit = new("VkSubmitInfo2", commandBufferInfoCount=1, pCommandBufferInfos=[info])
        fence = vk.make("vkCreateFence", self.device, new("VkFenceCreateInfo"), None)
        try:
            vk.vkQueueSubmit2(self.queue, 1, submit, fence)
            vk.vkWaitForFences(self.device, 1, [fence], 1, VK.WHOLE_SIZE)
        finally:
            vk.vkDestroyFence(self.device, fence, None)

    # ---- names and the end ----

    def name(self, object_type: int, vk_handle: Any, name: str) -> None:
        """Gives an object a name that the validation layer and frame debuggers show.

        Without VK_EXT_debug_utils it does nothing.
        """
        if not name or not self.physical.can_name:
            return
        chars = _chars(f"vkshare {name}")
        info = new(
            "VkDebugUtilsObjectNameInfoEXT",
            objectType=object_type,
            objectHandle=address(vk_handle),
            pObjectName=chars,
        )
        self.vk.vkSetDebugUtilsObjectNameEXT(self.device, info)

    def check_open(self) -> None:
        """ClosedError after close()."""
        if self.is_closed:
            raise ClosedError("the device was closed")

    def note(self, owner: Owner) -> None:
        """Has it destroyed when the context closes, if it was not before."""
        with self.lock:
            self._owners[owner] = None

    def forget(self, owner: Owner) -> None:
        """It is destroyed."""
        self._owners.pop(owner, None)

    def close(self) -> None:
        """Destroys what was made through the context, the newest first, and the device if it is ours.

        Nothing may run any more. Idempotent; after an interrupt it goes on where it was.
        """
        with self.lock:
            while self._owners:
                next(reversed(self._owners)).destroy()
            self.is_closed = True
            self._destroy_pools()
            device, self._own_device = self._own_device, None
            if device is not None:
                self.vk.vkDestroyDevice(device, None)

    def _destroy_pools(self) -> None:
        while self._pools:
            self.vk.vkDestroyCommandPool(self.device, self._pools.popitem()[1], None)


@lru_cache(64)  # most are those of command lists
def _chars(name: str) -> Any:
    return ffi.new("char[]", name.encode())


@cache
def _begin_info(once: bool) -> Struct:
    usage = VK.COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT if once else VK.COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
    return new("VkCommandBufferBeginInfo", flags=usage)


def _has_present_fences(physical: PhysicalDevice, instance_extensions: frozenset[str]) -> bool:
    if PRESENT_FENCES not in physical.extensions or not instance_extensions.issuperset(PRESENT_FENCES_NEED):
        return False
    feature = new("VkPhysicalDeviceSwapchainMaintenance1FeaturesEXT")
    physical.vk.vkGetPhysicalDeviceFeatures2(physical.handle, new("VkPhysicalDeviceFeatures2", pNext=feature))
    return bool(feature.swapchainMaintenance1)


def _draws_to_linear_images(physical: PhysicalDevice) -> bool:
    if LINEAR_RENDERING not in physical.extensions:
        return False
    feature = new("VkPhysicalDeviceLinearColorAttachmentFeaturesNV")
    physical.vk.vkGetPhysicalDeviceFeatures2(physical.handle, new("VkPhysicalDeviceFeatures2", pNext=feature))
    return bool(feature.linearColorAttachment)


def _graphics_family(physical: PhysicalDevice) -> int:
    if physical.graphics_family is not None:
        return physical.graphics_family
    raise UnsupportedError(f"a device on {physical.name}", "it has no queue family that draws")
