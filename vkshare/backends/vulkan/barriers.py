"""Barriers: over memory, for an image's first use, and for its ownership.

Images are in layout GENERAL from their first transition to their end; a swapchain's come out of PRESENT_SRC_KHR and go
back to it in each list. Within a list no other layout ever occurs. A memory barrier over all commands is used between
operations. A finer one would name the one stage and access of each operation; the drivers at hand drain the pipeline
between a draw and its reader either way, and this one cannot be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkshare.backends.vulkan.api import VK, Functions, Struct, new

WHOLE_IMAGE = {"aspectMask": 1, "baseMipLevel": 0, "levelCount": 1, "baseArrayLayer": 0, "layerCount": 1}  # 1: COLOR
ONE_LAYER = {"aspectMask": 1, "mipLevel": 0, "baseArrayLayer": 0, "layerCount": 1}


def everything(vk: Functions, commands: Any) -> None:
    """All commands after this see all that the commands before it wrote, and what the host wrote before the submit."""
    _record(vk, commands, _memory(VK.ACCESS_2_MEMORY_WRITE_BIT, to_host=False))


def first_use(vk: Functions, commands: Any, image: Any) -> None:
    """From UNDEFINED to GENERAL: whatever the memory held is gone."""
    barrier = _image(
        image,
        0,
        0,
        oldLayout=VK.IMAGE_LAYOUT_UNDEFINED,
        dstAccessMask=VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT,
    )
    _record(vk, commands, None, [barrier])


def begin(vk: Functions, commands: Any, shown: Sequence[Any]) -> None:
    """Like everything(), at the start of a list that draws to swapchains' images: out of PRESENT_SRC_KHR."""
    _record(vk, commands, _memory(VK.ACCESS_2_MEMORY_WRITE_BIT, to_host=False), [_out_of_rest(i) for i in shown])


def end(vk: Functions, commands: Any, shown: Sequence[Any], *, to_host: bool) -> None:
    """The end of a list: swapchains' images back to PRESENT_SRC_KHR, and what was written to the host."""
    memory = _memory(VK.ACCESS_2_MEMORY_WRITE_BIT, to_host=True) if to_host else None
    if memory is not None or shown:
        _record(vk, commands, memory, [_to_rest(i) for i in shown])


def _out_of_rest(image: Any) -> Struct:
    return _change(image, VK.IMAGE_LAYOUT_PRESENT_SRC_KHR, VK.IMAGE_LAYOUT_GENERAL)


def _to_rest(image: Any) -> Struct:
    return _change(image, VK.IMAGE_LAYOUT_GENERAL, VK.IMAGE_LAYOUT_PRESENT_SRC_KHR)


def _change(image: Any, old: int, layout: int) -> Struct:
    return _image(
        image,
        0,
        0,
        srcAccessMask=VK.ACCESS_2_MEMORY_WRITE_BIT,
        dstAccessMask=VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT,
        oldLayout=old,
        newLayout=layout,
    )


def acquire(vk: Functions, commands: Any, image: Any, queue_family: int) -> None:
    """Takes the image from VK_QUEUE_FAMILY_EXTERNAL (Vulkan 1.3, 7.7.4).

    The source scope is the other party's: a semaphore or the host ordered it.
    """
    access = VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT
    barrier = _image(image, VK.QUEUE_FAMILY_EXTERNAL, queue_family, srcAccessMask=0, dstAccessMask=access)
    _record(vk, commands, None, [barrier])


def release(vk: Functions, commands: Any, image: Any, queue_family: int, *, is_mappable: bool) -> None:
    """Gives the image to VK_QUEUE_FAMILY_EXTERNAL, and what was written to the host, which may be the next to look."""
    barrier = _image(
        image, queue_family, VK.QUEUE_FAMILY_EXTERNAL, srcAccessMask=VK.ACCESS_2_MEMORY_WRITE_BIT, dstAccessMask=0
    )
    memory = _memory(VK.ACCESS_2_MEMORY_WRITE_BIT, to_host=True) if is_mappable else None
    _record(vk, commands, memory, [barrier])


def _memory(source_access: int, *, to_host: bool) -> Struct:
    if to_host:
        target = {
            "dstStageMask": VK.PIPELINE_STAGE_2_HOST_BIT,
            "dstAccessMask": VK.ACCESS_2_HOST_READ_BIT | VK.ACCESS_2_HOST_WRITE_BIT,
        }
    else:
        access = VK.ACCESS_2_MEMORY_READ_BIT | VK.ACCESS_2_MEMORY_WRITE_BIT
        target = {"dstStageMask": VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT, "dstAccessMask": access}
    return new(
        "VkMemoryBarrier2", srcStageMask=VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT, srcAccessMask=source_access, **target
    )


def _image(image: Any, source_family: int, target_family: int, **fields: int) -> Struct:
    return new(
        "VkImageMemoryBarrier2",
        **{
            "srcStageMask": VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            "dstStageMask": VK.PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            "oldLayout": VK.IMAGE_LAYOUT_GENERAL,
            "newLayout": VK.IMAGE_LAYOUT_GENERAL,
            "srcQueueFamilyIndex": source_family,
            "dstQueueFamilyIndex": target_family,
            "image": image,
            "subresourceRange": WHOLE_IMAGE,
            **fields,
        },
    )


def _record(vk: Functions, commands: Any, memory: Struct | None, images: Sequence[Struct] = ()) -> None:
    memories = [memory] if memory is not None else []
    vk.vkCmdPipelineBarrier2(
        commands,
        new(
            "VkDependencyInfo",
            memoryBarrierCount=len(memories),
            pMemoryBarriers=memories,
            imageMemoryBarrierCount=len(images),
            pImageMemoryBarriers=list(images),
        ),
    )
