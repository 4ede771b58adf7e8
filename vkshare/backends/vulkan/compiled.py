"""The Vulkan objects of a compiled command list: its command buffer, its descriptor sets, its vertices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vkshare.backends.vulkan.api import VK, address, new
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.memory import host_buffer
from vkshare.backends.vulkan.objects import Objects
from vkshare.backends.vulkan.pipelines import Pipelines, descriptor_types


class Compiled:
    """Made empty, filled while the list is recorded, freed when its last use has run. Not thread-safe."""

    def __init__(self, context: Context, pipelines: Pipelines) -> None:
        self._context = context
        self.objects = Objects(context)
        self._pipelines = pipelines
        self.commands: Any = None  # VkCommandBuffer
        self.transfer_commands: Any = None  # the same for the transfer queue, where it only copies
        self._pools: list[Any] = []
        self._room = 0  # sets that the newest pool still has
        self._sets: dict[tuple[int, int], Any] = {}
        self.vertices: Any = None  # VkBuffer

    def upload(self, vertices: Sequence[bytes]) -> list[int]:
        """Puts the blocks into one vertex buffer; their offsets in it, in bytes."""
        offsets, end = [], 0
        for block in vertices:
            offsets.append(end)
            end += len(block)
        if end:
            self.vertices, memory = host_buffer(self.objects, end, VK.BUFFER_USAGE_VERTEX_BUFFER_BIT)
            memory.map()[:end] = b"".join(vertices)
        return offsets

    def descriptor_set(self, view: Any, sampler: Any) -> Any:
        """A descriptor set for sampling through that VkImageView in that way: one for each pair in a list."""
        key = (address(view), address(sampler))
        if key not in self._sets:
            self._sets[key] = self._allocate_set()
            self._write_set(self._sets[key], view, sampler)
        return self._sets[key]

    def destroy(self) -> None:
        """Nothing of it runs any more. Idempotent."""
        self.objects.destroy()

    def _allocate_set(self) -> Any:
        """From the newest pool; each pool is twice as large as the one before it."""
        if not self._room:
            self._room = 2 << len(self._pools)
            self._pools.append(self._make_pool(self._room))
        self._room -= 1
        layouts = [self._pipelines.set_layout]
        info = new(
            "VkDescriptorSetAllocateInfo", descriptorPool=self._pools[-1], descriptorSetCount=1, pSetLayouts=layouts
        )
        return self._context.vk.make("vkAllocateDescriptorSets", self._context.device, info)

    def _write_set(self, descriptor_set: Any, view: Any, sampler: Any) -> None:
        image = new("VkDescriptorImageInfo", sampler=sampler, imageView=view, imageLayout=VK.IMAGE_LAYOUT_GENERAL)
        tables = new("VkDescriptorBufferInfo", buffer=self._pipelines.tables, range=VK.WHOLE_SIZE)
        writes = [
            new(
                "VkWriteDescriptorSet",
                dstSet=descriptor_set,
                dstBinding=n,
                descriptorCount=1,
                descriptorType=kind,
                **{field: [info]},
            )
            for n, (kind, field, info) in enumerate(
                zip(descriptor_types(), ("pImageInfo", "pBufferInfo"), (image, tables), strict=True)
            )
        ]
        self._context.vk.vkUpdateDescriptorSets(
            self._context.device, 2, [write.pointer[0] for write in writes], 0, None
        )

    def _make_pool(self, capacity: int) -> Any:
        sizes = [new("VkDescriptorPoolSize", type=kind, descriptorCount=capacity) for kind in descriptor_types()]
        info = new("VkDescriptorPoolCreateInfo", maxSets=capacity, poolSizeCount=len(sizes), pPoolSizes=sizes)
        return self.objects.make("vkCreateDescriptorPool", info)
