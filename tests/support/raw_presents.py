"""A small presenting program straight on Vulkan, as an application would write it, for tests of the fault layer.

It presents a headless surface, or where the driver has none a GLFW window (DISPLAY must be set). Nothing of vkshare's
own device is in it, except the structures of vkshare.backends.vulkan.api.
"""

from __future__ import annotations

import os
from typing import Any

from vkshare.backends.vulkan.api import NULL, VK, Functions, device_functions, ffi, global_functions, new, text
from vkshare.backends.vulkan.api import instance_functions as functions_of

SECOND = 1_000_000_000
VALIDATION = "VK_LAYER_KHRONOS_validation"
_INSTANCE = (
    "VK_KHR_surface",
    "VK_EXT_headless_surface",
    "VK_KHR_xcb_surface",
    "VK_KHR_xlib_surface",
    "VK_KHR_get_surface_capabilities2",
    "VK_EXT_surface_maintenance1",
    "VK_EXT_debug_utils",
)


class Raw:
    """An instance, a device with one queue, a surface."""

    def __init__(self, *, maintenance: bool = True) -> None:
        vk = global_functions()
        self.instance_extensions = _names(vk.list("vkEnumerateInstanceExtensionProperties", None))
        validation = os.environ.get("VKSHARE_VALIDATION", "") not in ("", "0")
        enabled = [name for name in _INSTANCE if name in self.instance_extensions]
        messenger = None
        if validation:
            from vkshare.backends.vulkan.messages import messenger_info

            messenger = messenger_info()
        app = new("VkApplicationInfo", apiVersion=VK.API_VERSION_1_3)
        info = new("VkInstanceCreateInfo", pNext=messenger, pApplicationInfo=app,
                   enabledLayerCount=int(validation), ppEnabledLayerNames=[VALIDATION] if validation else [],
                   enabledExtensionCount=len(enabled), ppEnabledExtensionNames=enabled)  # fmt: skip
        self.instance = vk.make("vkCreateInstance", info, None)
        self.ivk: Functions = functions_of(self.instance)
        self._messenger: Any = None
        if messenger is not None:
            self._messenger = self.ivk.make("vkCreateDebugUtilsMessengerEXT", self.instance, messenger, None)
        self.physical = self.ivk.list("vkEnumeratePhysicalDevices", self.instance)[0]
        self.has_present_fences = (
            maintenance
            and "VK_EXT_surface_maintenance1" in self.instance_extensions
            and "VK_EXT_swapchain_maintenance1" in self.device_extensions()
        )
        self.device = self.make_device()
        self.vk: Functions = device_functions(self.ivk, self.device)
        self.queue = self.vk.make("vkGetDeviceQueue", self.device, 0, 0)
        self.pool = self.vk.make("vkCreateCommandPool", self.device, new("VkCommandPoolCreateInfo"), None)
        self._window: Any = None
        self.surface = self._make_surface()

    def driver_name(self) -> str:
        properties = self.ivk.make("vkGetPhysicalDeviceProperties", self.physical)
        return text(properties.deviceName)

    def device_extensions(self) -> set[str]:
        return _names(self.ivk.list("vkEnumerateDeviceExtensionProperties", self.physical, None))

    def make_device(self, *extensions: str) -> Any:
        """One more VkDevice."""
        names = ["VK_KHR_swapchain", *extensions]
        features: Any = new("VkPhysicalDeviceVulkan13Features", synchronization2=1)
        features = new("VkPhysicalDeviceVulkan12Features", pNext=features, timelineSemaphore=1)
        if self.has_present_fences:
            names.append("VK_EXT_swapchain_maintenance1")
            features = new("VkPhysicalDeviceSwapchainMaintenance1FeaturesEXT", pNext=features, swapchainMaintenance1=1)
        queue = new("VkDeviceQueueCreateInfo", queueCount=1, pQueuePriorities=[1.0])
        info = new("VkDeviceCreateInfo", pNext=features, queueCreateInfoCount=1, pQueueCreateInfos=[queue],
                   enabledExtensionCount=len(names), ppEnabledExtensionNames=names)  # fmt: skip
        return self.ivk.make("vkCreateDevice", self.physical, info, None)

    def _make_surface(self) -> Any:
        if "VK_EXT_headless_surface" in self.instance_extensions:
            return self.ivk.make(
                "vkCreateHeadlessSurfaceEXT", self.instance, new("VkHeadlessSurfaceCreateInfoEXT"), None
            )
        if not os.environ.get("DISPLAY"):
            return None
        import glfw

        assert glfw.init()
        glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
        self._window = glfw.create_window(64, 64, "raw", None, None)
        surface = ffi.new("VkSurfaceKHR *")
        assert glfw.create_window_surface(self.instance, self._window, None, surface) == 0
        return surface[0]

    def close(self) -> None:
        """Destroys what __init__ made."""
        self.vk.vkDestroyCommandPool(self.device, self.pool, None)
        self.vk.vkDestroyDevice(self.device, None)
        if self.surface is not None:
            self.ivk.vkDestroySurfaceKHR(self.instance, self.surface, None)
        if self._messenger is not None:
            self.ivk.vkDestroyDebugUtilsMessengerEXT(self.instance, self._messenger, None)
        self.ivk.vkDestroyInstance(self.instance, None)
        if self._window is not None:
            import glfw

            glfw.terminate()

    # ---- objects

    def fence(self, signalled: bool = False) -> Any:
        return self.vk.make("vkCreateFence", self.device, new("VkFenceCreateInfo", flags=int(signalled)), None)

    def semaphore(self, value: int | None = None) -> Any:
        """A binary one, or a timeline that starts at `value`."""
        kind = None if value is None else new("VkSemaphoreTypeCreateInfo", semaphoreType=1, initialValue=value)
        return self.vk.make("vkCreateSemaphore", self.device, new("VkSemaphoreCreateInfo", pNext=kind), None)

    def destroy(self, *things: Any) -> None:
        """Fences and semaphores."""
        for thing in things:
            kind = ffi.typeof(thing).cname
            name = "vkDestroyFence" if "Fence" in kind else "vkDestroySemaphore"
            getattr(self.vk, name)(self.device, thing, None)

    def name(self, object_type: int, thing: Any, name: str) -> None:
        number = int(ffi.cast("uintptr_t", thing))
        info = new("VkDebugUtilsObjectNameInfoEXT", objectType=object_type, objectHandle=number, pObjectName=name)
        self.vk.vkSetDebugUtilsObjectNameEXT(self.device, info)

    def submit(
        self, wait: Any = None, signal: Any = None, fence: Any = None, *, value: int = 0, commands: Any = None
    ) -> None:
        """`value`: of a timeline that it signals; `commands`: a command buffer, or nothing to run."""
        waits = [new("VkSemaphoreSubmitInfo", semaphore=wait, stageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT)]
        signals = [new("VkSemaphoreSubmitInfo", semaphore=signal, value=value,
                       stageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT)]  # fmt: skip
        waits, signals = waits if wait is not None else [], signals if signal is not None else []
        runs = [] if commands is None else [new("VkCommandBufferSubmitInfo", commandBuffer=commands)]
        info = new("VkSubmitInfo2", commandBufferInfoCount=len(runs), pCommandBufferInfos=runs,
                   waitSemaphoreInfoCount=len(waits), pWaitSemaphoreInfos=waits,
                   signalSemaphoreInfoCount=len(signals), pSignalSemaphoreInfos=signals)  # fmt: skip
        self.vk.vkQueueSubmit2(self.queue, 1, info, fence)

    def wait(self, fence: Any, timeout: float = 5) -> int:
        """vkWaitForFences: 0, or VK_TIMEOUT."""
        return int(self.vk.vkWaitForFences(self.device, 1, [fence], 1, int(timeout * SECOND)))

    # ---- the swapchain

    def capabilities(self) -> Any:
        return self.ivk.make("vkGetPhysicalDeviceSurfaceCapabilitiesKHR", self.physical, self.surface)

    def swapchain(self, images: int = 0, old: Any = None) -> Swapchain:
        """`images` to ask for; 0: the least that there may be."""
        return Swapchain(self, images, old)


class Swapchain:
    """64x64, FIFO, with a semaphore an image to present with, and present fences where there are any."""

    handle: Any

    def __init__(self, raw: Raw, images: int, old: Swapchain | None) -> None:
        self.raw, vk = raw, raw.vk
        found = raw.ivk.list("vkGetPhysicalDeviceSurfaceFormatsKHR", raw.physical, raw.surface)[0]
        info = new("VkSwapchainCreateInfoKHR", surface=raw.surface,
                   minImageCount=images or raw.capabilities().minImageCount,
                   imageFormat=found.format, imageColorSpace=found.colorSpace,
                   imageExtent={"width": 64, "height": 64}, imageArrayLayers=1,
                   imageUsage=VK.IMAGE_USAGE_TRANSFER_DST_BIT, preTransform=1, compositeAlpha=1,
                   presentMode=VK.PRESENT_MODE_FIFO_KHR, clipped=1,
                   oldSwapchain=old.handle if old else NULL)  # fmt: skip
        self.handle = vk.make("vkCreateSwapchainKHR", raw.device, info, None)
        self.images = vk.list("vkGetSwapchainImagesKHR", raw.device, self.handle)
        self.commands = [self._record(image) for image in self.images]  # brings an image into the layout for presents

    def _record(self, image: Any) -> Any:
        vk = self.raw.vk
        info = new("VkCommandBufferAllocateInfo", commandPool=self.raw.pool, commandBufferCount=1)
        commands = vk.make("vkAllocateCommandBuffers", self.raw.device, info)
        vk.vkBeginCommandBuffer(
            commands, new("VkCommandBufferBeginInfo", flags=VK.COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT)
        )
        whole = {"aspectMask": 1, "levelCount": 1, "layerCount": 1}
        barrier = new("VkImageMemoryBarrier2", srcStageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                      dstStageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT, newLayout=VK.IMAGE_LAYOUT_PRESENT_SRC_KHR,
                      image=image, subresourceRange=whole)  # fmt: skip
        dependency = new("VkDependencyInfo", imageMemoryBarrierCount=1, pImageMemoryBarriers=[barrier])
        vk.vkCmdPipelineBarrier2(commands, dependency)
        vk.vkEndCommandBuffer(commands)
        return commands

    def frame(self, acquired: Any, rendered: Any, fence: Any = None, present_fence: Any = None) -> int:
        """Acquires, submits and presents: the image's index. Nothing is waited for."""
        _, index = self.acquire(acquired)
        self.raw.submit(acquired, rendered, fence, commands=self.commands[index])
        self.present(index, rendered, present_fence)
        return index

    def acquire(self, semaphore: Any = None, fence: Any = None, timeout: float = 1) -> tuple[int, int]:
        """(result, index)."""
        index = ffi.new("uint32_t *", 0xFFFFFFFF)
        result = self.raw.vk.vkAcquireNextImageKHR(
            self.raw.device, self.handle, int(timeout * SECOND), semaphore or NULL, fence or NULL, index
        )
        return int(result), index[0]

    def present(self, index: int, wait: Any = None, fence: Any = None) -> int:
        """The result; an error is one that raises."""
        chained = None
        if fence is not None:
            chained = new("VkSwapchainPresentFenceInfoEXT", swapchainCount=1, pFences=[fence])
        waits = [] if wait is None else [wait]
        info = new("VkPresentInfoKHR", pNext=chained, waitSemaphoreCount=len(waits), pWaitSemaphores=waits,
                   swapchainCount=1, pSwapchains=[self.handle], pImageIndices=[index])  # fmt: skip
        return int(self.raw.vk.vkQueuePresentKHR(self.raw.queue, info))

    def destroy(self) -> None:
        """Nothing runs on its images."""
        buffers = ffi.new("VkCommandBuffer[]", self.commands)
        self.raw.vk.vkFreeCommandBuffers(self.raw.device, self.raw.pool, len(buffers), buffers)
        self.raw.vk.vkDestroySwapchainKHR(self.raw.device, self.handle, None)


def _names(properties: list[Any]) -> set[str]:
    return {text(p.extensionName) for p in properties}


__all__ = ["NULL", "SECOND", "VK", "Raw", "Swapchain", "ffi", "new"]
