"""Barriers: over memory, for an image's first use, and for its ownership.

Images are in layout GENERAL from their first transition to their end; a swapchain's come out of
PRESENT_SRC_KHR and go back to it in each list. Within a list no other layout ever occurs. A memory
barrier over all commands is used between operations. A finer one would name the one stage and
access of each operation; the drivers at hand drain the pipeline between a draw and its reader
either way, and this one cannot be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from vkshare.backends.vulkan.api import VK, Functions, Struct, ffi, new

COLOUR, DEPTH = 1, 2  # VkImageAspectFlagBits
WHOLE_IMAGE = {"aspectMask": COLOUR, "baseMipLevel": 0, "levelCount": 1, "baseArrayLayer": 0, "layerCount": 1}
ONE_LAYER = {"aspectMask": COLOUR, "mipLevel": 0, "baseArrayLayer": 0, "layerCount": 1}


@cache
def whole_image(aspect: int = COLOUR) -> Any:
    """A VkImageSubresourceRange; not to be written to."""
    return ffi.new("VkImageSubresourceRange *", WHOLE_IMAGE | {"aspectMask": aspect})


def everything(vk: Functions, commands: Any) -> None:
    """All commands after this see all that the commands before it wrote, and what the host wrote before the submit."""
    _record(vk, commands, _to_commands())


def first_use(vk: Functions, commands: Any, image: Any, aspect: int) -> None:
    """From UNDEFINED to GENERAL: whatever the memory held is gone."""
    access = VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT
    _record(
        vk, commands, None, _change(0, 0, oldLayout=VK.IMAGE_LAYOUT_UNDEFINED, dstAccessMask=access), [image], aspect
    )


def leave_layout(vk: Functions, commands: Any, image: Any, aspect: int, layout: int) -> None:
    """From an engine's layout to GENERAL; from UNDEFINED, what the memory held is gone."""
    _record(vk, commands, _to_commands(), _change_layout(layout, VK.IMAGE_LAYOUT_GENERAL), [image], aspect)


def begin(vk: Functions, commands: Any, shown: Sequence[Any]) -> None:
    """Like everything(), at the start of a list that draws to swapchains' images: out of PRESENT_SRC_KHR."""
    change = _change_layout(VK.IMAGE_LAYOUT_PRESENT_SRC_KHR, VK.IMAGE_LAYOUT_GENERAL)
    _record(vk, commands, _to_commands(), change, shown)


def end(vk: Functions, commands: Any, shown: Sequence[Any], *, to_host: bool) -> None:
    """The end of a list: swapchains' images back to PRESENT_SRC_KHR, and what was written to the host."""
    if to_host or shown:
        change = _change_layout(VK.IMAGE_LAYOUT_GENERAL, VK.IMAGE_LAYOUT_PRESENT_SRC_KHR)
        _record(vk, commands, _to_host() if to_host else None, change, shown)


def acquire(vk: Functions, commands: Any, image: Any, aspect: int, queue_family: int) -> None:
    """Takes the image from VK_QUEUE_FAMILY_EXTERNAL (Vulkan 1.3, 7.7.4).

    The source scope is the other party's: a semaphore or the host ordered it.
    """
    access = VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT
    change = _change(VK.QUEUE_FAMILY_EXTERNAL, queue_family, srcAccessMask=0, dstAccessMask=access)
    _record(vk, commands, None, change, [image], aspect)


@contextmanager
def inside(vk: Functions, commands: Any, *, needs_more: bool) -> Iterator[None]:
    """Puts commands that do nothing around what the body records, for PhysicalDevice.skips_outer_barriers."""
    if needs_more:
        vk.vkCmdSetDeviceMask(commands, 1)
    yield
    if needs_more:
        vk.vkCmdSetDeviceMask(commands, 1)


def release(vk: Functions, commands: Any, image: Any, aspect: int, queue_family: int, *, is_mappable: bool) -> None:
    """Gives the image to VK_QUEUE_FAMILY_EXTERNAL, and what was written to the host, which may be the next to look."""
    access = VK.ACCESS_2_MEMORY_WRITE_BIT
    change = _change(queue_family, VK.QUEUE_FAMILY_EXTERNAL, srcAccessMask=access, dstAccessMask=0)
    _record(vk, commands, _to_host() if is_mappable else None, change, [image], aspect)


def acquire_buffer(vk: Functions, commands: Any, buffer: Any, queue_family: int) -> None:
    """As acquire(), of a buffer."""
    access = VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT
    change = _change_buffer(buffer, VK.QUEUE_FAMILY_EXTERNAL, queue_family, srcAccessMask=0, dstAccessMask=access)
    vk.vkCmdPipelineBarrier2(commands, new("VkDependencyInfo", pBufferMemoryBarriers=[change]))


def release_buffer(vk: Functions, commands: Any, buffer: Any, queue_family: int, *, is_mappable: bool) -> None:
    """As release(), of a buffer."""
    written = VK.ACCESS_2_MEMORY_WRITE_BIT
    change = _change_buffer(buffer, queue_family, VK.QUEUE_FAMILY_EXTERNAL, srcAccessMask=written, dstAccessMask=0)
    host = _to_host() if is_mappable else None
    dependency = new(
        "VkDependencyInfo", memoryBarrierCount=is_mappable, pMemoryBarriers=host, pBufferMemoryBarriers=[change]
    )
    vk.vkCmdPipelineBarrier2(commands, dependency)


# ---- what the barriers are made of: built once, copied into each -----------------------------------------------------


@cache
def _to_commands() -> Struct:
    access = VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT
    return _memory(dstStageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT, dstAccessMask=access)


@cache
def _to_host() -> Struct:
    access = VK.ACCESS_2_HOST_READ_BIT | VK.ACCESS_2_HOST_WRITE_BIT
    return _memory(dstStageMask=VK.PIPELINE_STAGE_2_HOST_BIT, dstAccessMask=access)


def _memory(**target: int) -> Struct:
    stages = VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT
    return new("VkMemoryBarrier2", srcStageMask=stages, srcAccessMask=VK.ACCESS_2_MEMORY_WRITE_BIT, **target)


@cache
def _change_layout(old: int, layout: int) -> Struct:
    access = VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT
    written = VK.ACCESS_2_MEMORY_WRITE_BIT
    return _change(0, 0, srcAccessMask=written, dstAccessMask=access, oldLayout=old, newLayout=layout)


def _change_buffer(buffer: Any, source_family: int, target_family: int, **access: int) -> Struct:
    return new(
        "VkBufferMemoryBarrier2",
        srcStageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
        dstStageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
        srcQueueFamilyIndex=source_family,
        dstQueueFamilyIndex=target_family,
        buffer=buffer,
        size=VK.WHOLE_SIZE,
        **access,
    )


def _change(source_family: int, target_family: int, **fields: int) -> Struct:
    """A barrier of an image that _record() fills in."""
    return new(
        "VkImageMemoryBarrier2",
        **{
            "srcStageMask": VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            "dstStageMask": VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            "oldLayout": VK.IMAGE_LAYOUT_GENERAL,
            "newLayout": VK.IMAGE_LAYOUT_GENERAL,
            "srcQueueFamilyIndex": source_family,
            "dstQueueFamilyIndex": target_family,
            "subresourceRange": WHOLE_IMAGE,
            **fields,
        },
    )


def _record(
    vk: Functions,
    commands: Any,
    memory: Struct | None,
    change: Struct | None = None,
    images: Sequence[Any] = (),
    aspect: int = COLOUR,
) -> None:
    changes: Any = None
    if change is not None:
        changes = ffi.new("VkImageMemoryBarrier2[]", [change.pointer[0]] * len(images))
    for i, image in enumerate(images):
        changes[i].image = image
        changes[i].subresourceRange.aspectMask = aspect
    dependency = new(
        "VkDependencyInfo",
        memoryBarrierCount=memory is not None,
        pMemoryBarriers=memory,
        imageMemoryBarrierCount=len(images),
        pImageMemoryBarriers=changes,
    )
    vk.vkCmdPipelineBarrier2(commands, dependency)
