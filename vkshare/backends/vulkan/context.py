"""A VkDevice with its queues and command pools: what everything else of the backend is made with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from vkshare.backends.vulkan import required
from vkshare.backends.vulkan.api import NULL, VK, Functions, address, device_functions, ffi, handle, make_into, new
from vkshare.backends.vulkan.objects import Objects
from vkshare.backends.vulkan.physical import PhysicalDevice
from vkshare.errors import ClosedError, UnsupportedError
from vkshare.util.closing import on_error

_FENCES = "VkPhysicalDeviceSwapchainMaintenance1FeaturesEXT"
_LINEAR = "VkPhysicalDeviceLinearColorAttachmentFeaturesNV"


class Context:
    """A logical device, our own or an engine's.

    Objects made through it may be used from any thread; `lock` guards the command pools and what is
    destroyed: it is held while a command buffer is allocated, recorded or freed, and while anything
    is destroyed.
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
        api_version: int = required.API_VERSION,
        enabled_features: frozenset[str] = frozenset(),
        on_closed: Callable[[], None] | None = None,
    ) -> None:
        self.physical = physical
        self.instance = instance  # VkInstance
        self.instance_extensions = instance_extensions
        self.api_version = api_version  # VkApplicationInfo.apiVersion
        self.enabled_features = enabled_features
        self.has_present_fences = (
            required.PRESENT_FENCES in extensions and required.PRESENT_FENCES_FEATURE in enabled_features
        )
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
        self._made: dict[Objects, None] = {}  # the oldest first
        self.features: dict[tuple[int, str], int] = {}  # by VkFormat and tiling: drawables.py
        self.is_closed = False  # what was made on it is gone, or must be left alone
        # As the ends of Objects: its first step is the call.
        self._end: Iterator[object] = map(self.vk.vkDestroyDevice.pointer, (device,), (NULL,))
        if is_adopted:  # the engine's is left alone; it may want to know that nothing of ours is left on it
            self._end = iter(()) if on_closed is None else (on_closed() for _ in (None,))
        if self.transfer_family is not None:
            self.transfer_queue = self.vk.make("vkGetDeviceQueue", device, self.transfer_family, 0)
        objects = Objects(self)
        with on_error(objects.destroy):
            self._pools: dict[int, Any] = {  # VkCommandPool by queue family
                family: objects.make("vkCreateCommandPool", new("VkCommandPoolCreateInfo", queueFamilyIndex=family))
                for family in self.queue_families
            }

    @classmethod
    def create(
        cls, physical: PhysicalDevice, instance: Any = None, instance_extensions: frozenset[str] = frozenset()
    ) -> Context:
        """A VkDevice of our own: a queue of the first family that draws, and one of a family that only copies."""
        family = physical.graphics_family
        if family is None:
            raise UnsupportedError(f"a device on {physical.name}", "it has no queue family that draws")
        families = [family] if physical.transfer_family is None else [family, physical.transfer_family]
        optional = (name for name in required.OPTIONAL_DEVICE_EXTENSIONS if name in physical.extensions)
        extensions = [*required.DEVICE_EXTENSIONS, *optional]
        fences = instance_extensions.issuperset(required.PRESENT_FENCES_NEED)
        fences = fences and _has(physical, required.PRESENT_FENCES, _FENCES, required.PRESENT_FENCES_FEATURE)
        if fences:
            extensions.append(required.PRESENT_FENCES)
        enabled = [*required.FEATURES]
        features = None
        if fences:
            features = new(_FENCES, swapchainMaintenance1=1)
            enabled.append(required.PRESENT_FENCES_FEATURE)
        if _has(physical, required.LINEAR_RENDERING, _LINEAR, required.LINEAR_RENDERING_FEATURE):
            extensions.append(required.LINEAR_RENDERING)
            features = new(_LINEAR, pNext=features, linearColorAttachment=1)
            enabled.append(required.LINEAR_RENDERING_FEATURE)
        f13 = new("VkPhysicalDeviceVulkan13Features", pNext=features, synchronization2=1, dynamicRendering=1)
        f12 = new("VkPhysicalDeviceVulkan12Features", pNext=f13, timelineSemaphore=1)
        queues = [new("VkDeviceQueueCreateInfo", queueFamilyIndex=each, pQueuePriorities=[1.0]) for each in families]
        info = new("VkDeviceCreateInfo", pNext=f12, pQueueCreateInfos=queues, ppEnabledExtensionNames=extensions)
        device = ffi.new("VkDevice *")
        try:
            make_into(device, physical.vk.vkCreateDevice, physical.handle, info, None)
            return cls(
                physical,
                device[0],
                device_functions(physical.vk, device[0]).make("vkGetDeviceQueue", device[0], family, 0),
                family,
                frozenset(extensions),
                is_adopted=False,
                instance=instance,
                instance_extensions=instance_extensions,
                enabled_features=frozenset(enabled),
            )
        except BaseException:
            if device[0] != NULL:
                device_functions(physical.vk, device[0]).vkDestroyDevice(device[0], None)
            raise

    @property
    def queue_families(self) -> list[int]:
        """Return the families of the context's queues, the graphics family first."""
        return [self.queue_family] if self.transfer_family is None else [self.queue_family, self.transfer_family]

    # ---- command buffers ----

    def pool(self, family: int | None) -> Any:
        """The VkCommandPool for queues of that family (None: graphics). Used under the lock."""
        return self._pools[self.queue_family if family is None else family]

    def run(self, write: Callable[[Any], None], *, name: str = "") -> None:
        """Records a command buffer, runs it once and waits for it. Blocks."""
        objects = Objects(self)
        commands = objects.record(write, name=name, once=True)
        self.submit_once(address(commands))  # if this is interrupted, they may still run: they go with the context
        objects.destroy()

    def _submit_and_wait(self, command_buffer: int) -> None:
        """Submit without a lock: valid while no other thread uses the queue.

        A Device replaces this with its own submit.
        """
        vk = self.vk
        info = new("VkCommandBufferSubmitInfo", commandBuffer=handle("VkCommandBuffer", command_buffer))
        submit = new("VkSubmitInfo2", pCommandBufferInfos=[info])
        objects = Objects(self)
        fence = objects.make("vkCreateFence", new("VkFenceCreateInfo"))
        vk.vkQueueSubmit2(self.queue, 1, submit, fence)
        vk.vkWaitForFences(self.device, 1, [fence], 1, VK.WHOLE_SIZE)
        objects.destroy()

    # ---- names and the end ----

    def name(self, object_type: int, vk_handle: Any, name: str) -> None:
        """Gives an object a name that the validation layer and frame debuggers show.

        Without VK_EXT_debug_utils it does nothing.
        """
        if not name or not self.physical.can_name:
            return
        names = {"objectHandle": address(vk_handle), "pObjectName": _chars(f"vkshare {name}")}
        info = new("VkDebugUtilsObjectNameInfoEXT", objectType=object_type, **names)
        self.vk.vkSetDebugUtilsObjectNameEXT(self.device, info)

    def check_open(self) -> None:
        """ClosedError after close()."""
        if self.is_closed:
            raise ClosedError("the device was closed")

    def note(self, objects: Objects) -> None:
        """Has them destroyed when the context closes, if they were not before."""
        with self.lock:
            self._made[objects] = None

    def forget(self, objects: Objects) -> None:
        """They are destroyed."""
        self._made.pop(objects, None)

    def close(self) -> None:
        """Destroys what was made through the context, the newest first, and the device if it is ours.

        Nothing may run any more. Idempotent; after an interrupt it goes on where it was.
        """
        with self.lock:
            while self._made:
                next(reversed(self._made)).destroy()
            self.is_closed = True
            next(self._end, None)


@lru_cache(64)  # most are those of command lists
def _chars(name: str) -> Any:
    return ffi.new("char[]", name.encode())


def _has(physical: PhysicalDevice, extension: str, features: str, name: str) -> bool:
    """Whether the device has the extension, and that feature of its structure of features."""
    if extension not in physical.extensions:
        return False
    found = new(features)
    physical.vk.vkGetPhysicalDeviceFeatures2(physical.handle, new("VkPhysicalDeviceFeatures2", pNext=found))
    return bool(getattr(found, name))
