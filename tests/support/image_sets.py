"""An engine below the layer with descriptor sets of two images, in bindings 0 and 1: which of them are seen."""

from __future__ import annotations

from typing import Any

from support.sampling_engine import SamplingEngine
from vkshare.backends.vulkan.api import VK, ffi, new
from vkshare.engines import layer

_IMAGE = VK.DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER
_SIZE = ffi.sizeof("VkDescriptorImageInfo")


class ImageSets(SamplingEngine):
    """Its sets, and `own`: the view of an image that is not shared."""

    def __init__(self) -> None:
        super().__init__()
        stage, vk = VK.SHADER_STAGE_COMPUTE_BIT, self.vk
        bindings = [
            new("VkDescriptorSetLayoutBinding", binding=i, descriptorType=_IMAGE, descriptorCount=1, stageFlags=stage)
            for i in range(2)
        ]
        self.set_layout = vk.make(
            "vkCreateDescriptorSetLayout", self.handle, new("VkDescriptorSetLayoutCreateInfo", pBindings=bindings), None
        )
        self.layout = vk.make(
            "vkCreatePipelineLayout",
            self.handle,
            new("VkPipelineLayoutCreateInfo", pSetLayouts=[self.set_layout]),
            None,
        )
        size = new("VkDescriptorPoolSize", type=_IMAGE, descriptorCount=32)
        info = new("VkDescriptorPoolCreateInfo", maxSets=16, pPoolSizes=[size])
        self._pool = vk.make("vkCreateDescriptorPool", self.handle, info, None)
        self.own = self._stand_in().imageView

    def new_set(self, *views: Any) -> Any:
        """Its bindings written one by one."""
        made = self._new_set(self._pool)
        for binding, view in enumerate(views):
            self.write(made, binding, view)
        return made

    def _infos(self, views: tuple[Any, ...]) -> Any:
        infos = ffi.new("VkDescriptorImageInfo[]", len(views))
        for info, view in zip(infos, views, strict=True):
            info.sampler, info.imageView = self.sampler, view
            info.imageLayout = VK.IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL
        return infos

    def write(self, into: Any, binding: int, *views: Any) -> None:
        """One write: what the binding has no room for is in the next one."""
        infos, write = self._infos(views), ffi.new("VkWriteDescriptorSet *")
        write.sType = VK.STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET
        write.dstSet, write.dstBinding, write.descriptorCount = into, binding, len(views)
        write.descriptorType, write.pImageInfo = _IMAGE, infos
        self.vk.vkUpdateDescriptorSets(self.handle, 1, write, 0, None)

    def copy(self, source: Any, binding: int, target: Any, count: int = 1) -> None:
        """From a binding of one set to that of another."""
        copy = ffi.new("VkCopyDescriptorSet *")
        copy.sType = VK.STRUCTURE_TYPE_COPY_DESCRIPTOR_SET
        copy.srcSet, copy.srcBinding, copy.dstSet, copy.dstBinding = source, binding, target, binding
        copy.descriptorCount = count
        self.vk.vkUpdateDescriptorSets(self.handle, 0, None, 1, copy)

    def write_backwards(self, into: Any, *views: Any) -> None:
        """By a template whose stride goes from the last view to the first."""
        infos, count = self._infos(views), len(views)
        entry = new("VkDescriptorUpdateTemplateEntry", descriptorCount=count, descriptorType=_IMAGE)
        entry.pointer.offset, entry.pointer.stride = (count - 1) * _SIZE, 2**64 - _SIZE
        info = new(
            "VkDescriptorUpdateTemplateCreateInfo",
            pDescriptorUpdateEntries=[entry],
            templateType=VK.DESCRIPTOR_UPDATE_TEMPLATE_TYPE_DESCRIPTOR_SET,
            descriptorSetLayout=self.set_layout,
        )
        info.pointer.descriptorUpdateEntryCount = 1
        template = self.vk.make("vkCreateDescriptorUpdateTemplate", self.handle, info, None)
        self.vk.vkUpdateDescriptorSetWithTemplate(self.handle, into, template, infos)
        self.vk.vkDestroyDescriptorUpdateTemplate(self.handle, template, None)

    def is_seen(self, bound: Any) -> bool:
        """Whether a submission outside a turn that binds the set is reported."""
        vk, commands = self.vk, self.commands
        vk.vkBeginCommandBuffer(commands, new("VkCommandBufferBeginInfo"))
        sets = ffi.new("VkDescriptorSet *", bound)
        vk.vkCmdBindDescriptorSets(commands, VK.PIPELINE_BIND_POINT_COMPUTE, self.layout, 0, 1, sets, 0, None)
        vk.vkEndCommandBuffer(commands)
        before = layer.misuses()
        vk.vkQueueSubmit(self.queues[0], 1, new("VkSubmitInfo", pCommandBuffers=[commands]), None)
        vk.vkQueueWaitIdle(self.queues[0])
        return layer.misuses() > before
