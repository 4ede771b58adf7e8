"""An engine straight on Vulkan, below the layer: a compute shader that samples an image, by each kind of descriptor."""

from __future__ import annotations

import base64
from typing import Any

import vkshare as vks
from vkshare.backends.vulkan.api import VK, device_functions, ffi, global_functions, instance_functions, new, text
from vkshare.engines import layer

# layout(local_size_x = 1) in;
# layout(set = 0, binding = 0) uniform sampler2D image;
# layout(set = 0, binding = 1) writeonly buffer Result { uint pixel; };
# void main() { pixel = packUnorm4x8(texelFetch(image, ivec2(0), 0)); }
_SHADER = base64.b64decode(
    "AwIjBwADAQALAAgAHQAAAAAAAAARAAIAAQAAAAsABgABAAAAR0xTTC5zdGQuNDUwAAAAAA4AAwAAAAAAAQAAAA8ABQAFAAAABAAAAG1haW4A"
    "AAAAEAAGAAQAAAARAAAAAQAAAAEAAAABAAAASAAEAAcAAAAAAAAAGQAAAEgABQAHAAAAAAAAACMAAAAAAAAARwADAAcAAAACAAAARwAEAAkA"
    "AAAiAAAAAAAAAEcABAAJAAAAIQAAAAEAAABHAAQAEAAAACIAAAAAAAAARwAEABAAAAAhAAAAAAAAAEcABAAcAAAACwAAABkAAAATAAIAAgAA"
    "ACEAAwADAAAAAgAAABUABAAGAAAAIAAAAAAAAAAeAAMABwAAAAYAAAAgAAQACAAAAAwAAAAHAAAAOwAEAAgAAAAJAAAADAAAABUABAAKAAAA"
    "IAAAAAEAAAArAAQACgAAAAsAAAAAAAAAFgADAAwAAAAgAAAAGQAJAA0AAAAMAAAAAQAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAGwADAA4AAAAN"
    "AAAAIAAEAA8AAAAAAAAADgAAADsABAAPAAAAEAAAAAAAAAAXAAQAEgAAAAoAAAACAAAALAAFABIAAAATAAAACwAAAAsAAAAXAAQAFQAAAAwA"
    "AAAEAAAAIAAEABgAAAAMAAAABgAAABcABAAaAAAABgAAAAMAAAArAAQABgAAABsAAAABAAAALAAGABoAAAAcAAAAGwAAABsAAAAbAAAANgAF"
    "AAIAAAAEAAAAAAAAAAMAAAD4AAIABQAAAD0ABAAOAAAAEQAAABAAAABkAAQADQAAABQAAAARAAAAXwAHABUAAAAWAAAAFAAAABMAAAACAAAA"
    "CwAAAAwABgAGAAAAFwAAAAEAAAA3AAAAFgAAAEEABQAYAAAAGQAAAAkAAAALAAAAPgADABkAAAAXAAAA/QABADgAAQA="
)
# The extensions that each way needs, and the features' structure with what is enabled of it.
WAYS: dict[str, tuple[list[str], str, list[str]]] = {
    "write": ([], "", []),
    "copy": ([], "", []),
    "late": ([], "", []),
    "template": ([], "", []),
    "push": (["VK_KHR_push_descriptor"], "", []),
    "push template": (["VK_KHR_push_descriptor"], "", []),
    "bind 2": (["VK_KHR_maintenance6"], "VkPhysicalDeviceMaintenance6FeaturesKHR", ["maintenance6"]),
    "push 2": (
        ["VK_KHR_maintenance6", "VK_KHR_push_descriptor"],
        "VkPhysicalDeviceMaintenance6FeaturesKHR",
        ["maintenance6"],
    ),
    "push template 2": (
        ["VK_KHR_maintenance6", "VK_KHR_push_descriptor"],
        "VkPhysicalDeviceMaintenance6FeaturesKHR",
        ["maintenance6"],
    ),
    "descriptor buffer": (
        ["VK_EXT_descriptor_buffer"],
        "VkPhysicalDeviceDescriptorBufferFeaturesEXT",
        ["descriptorBuffer"],
    ),
}
_READ = VK.IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL
_COMPUTE = VK.PIPELINE_BIND_POINT_COMPUTE
_IMAGE, _BUFFER = VK.DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, VK.DESCRIPTOR_TYPE_STORAGE_BUFFER


class SamplingEngine:
    """Its instance and device, and the vkshare.Device on it.

    LookupError: the driver has no such descriptors, or too few queues.
    """

    def __init__(self, way: str = "write", queues: int = 1) -> None:
        self.way = way
        vks.engines.enable()
        application = new("VkApplicationInfo", pEngineName="an engine", apiVersion=VK.API_VERSION_1_3)
        instance = global_functions().make(
            "vkCreateInstance", new("VkInstanceCreateInfo", pApplicationInfo=application), None
        )
        self._of_instance = instance_functions(instance)
        self._physical = self._of_instance.list("vkEnumeratePhysicalDevices", instance)[0]
        self.handle = self._open(queues)
        self.vk = device_functions(self._of_instance, self.handle)
        self.queues = [self.vk.make("vkGetDeviceQueue", self.handle, 0, i) for i in range(queues)]
        found = layer.device_of(lambda: self.vk.vkDestroyImage(self.handle, self._image(1, 1), None))
        assert found is not None
        self.device = layer.adopt(found, "sampling", lambda: None)
        self._make_pool()
        self._result, self._pixel = self._host_buffer(4, VK.BUFFER_USAGE_STORAGE_BUFFER_BIT)
        self._layouts()

    def _open(self, queues: int) -> Any:
        extensions, structure, features = WAYS[self.way]
        has = {
            text(each.extensionName)
            for each in self._of_instance.list("vkEnumerateDeviceExtensionProperties", self._physical, None)
        }
        if not has.issuperset(extensions):
            raise LookupError(f"the driver lacks {sorted(set(extensions) - has)}")
        can = new("VkPhysicalDeviceVulkan12Features")
        self._of_instance.vkGetPhysicalDeviceFeatures2(self._physical, new("VkPhysicalDeviceFeatures2", pNext=can))
        if self.way == "late" and not can.descriptorBindingSampledImageUpdateAfterBind:
            raise LookupError("the driver has no descriptors that are written after they are bound")
        (count := ffi.new("uint32_t *"))[0] = 1
        family = ffi.new("VkQueueFamilyProperties *")
        self._of_instance.vkGetPhysicalDeviceQueueFamilyProperties(self._physical, count, family)
        if family.queueCount < queues:
            raise LookupError(f"the driver has {family.queueCount} queues of that family")
        queue = new("VkDeviceQueueCreateInfo", queueFamilyIndex=0, pQueuePriorities=[1.0] * queues)
        chain = new(
            "VkPhysicalDeviceVulkan12Features",
            bufferDeviceAddress=self.way == "descriptor buffer",
            descriptorBindingSampledImageUpdateAfterBind=self.way == "late",
            descriptorBindingStorageBufferUpdateAfterBind=self.way == "late",
        )
        if structure:
            chain = new(structure, pNext=chain, **dict.fromkeys(features, 1))
        info = new("VkDeviceCreateInfo", pNext=chain, pQueueCreateInfos=[queue], ppEnabledExtensionNames=extensions)
        return self._of_instance.make("vkCreateDevice", self._physical, info, None)

    # ---- objects --------------------------------------------------------------------------------------------------

    def _image(self, width: int, height: int) -> Any:
        info = new(
            "VkImageCreateInfo",
            imageType=VK.IMAGE_TYPE_2D,
            format=VK.FORMAT_R8G8B8A8_UNORM,
            extent={"width": width, "height": height, "depth": 1},
            mipLevels=1,
            arrayLayers=1,
            samples=VK.SAMPLE_COUNT_1_BIT,
            usage=VK.IMAGE_USAGE_SAMPLED_BIT,
        )
        return self.vk.make("vkCreateImage", self.handle, info, None)

    def texture(self, surface: vks.Surface) -> Any:
        """A view of the surface's image, which the engine has made and takes for its own."""
        with layer.offered(surface, surface._open_image()) as was_taken:  # type: ignore[arg-type]
            self.image = self._image(surface.width, surface.height)
            assert was_taken()
        memory = self._memory(self.vk.make("vkGetImageMemoryRequirements", self.handle, self.image))
        self.vk.vkBindImageMemory(self.handle, self.image, memory, 0)
        return self._view(self.image)

    def _view(self, image: Any) -> Any:
        info = new(
            "VkImageViewCreateInfo",
            image=image,
            viewType=VK.IMAGE_VIEW_TYPE_2D,
            format=VK.FORMAT_R8G8B8A8_UNORM,
            subresourceRange={"aspectMask": VK.IMAGE_ASPECT_COLOR_BIT, "levelCount": 1, "layerCount": 1},
        )
        return self.vk.make("vkCreateImageView", self.handle, info, None)

    def _memory(self, needs: Any, *, is_host: bool = False, pNext: Any = None) -> Any:
        kinds = self._of_instance.make("vkGetPhysicalDeviceMemoryProperties", self._physical)
        wanted = VK.MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK.MEMORY_PROPERTY_HOST_COHERENT_BIT if is_host else 0
        kind = next(
            i
            for i in range(kinds.memoryTypeCount)
            if needs.memoryTypeBits & 1 << i and kinds.memoryTypes[i].propertyFlags & wanted == wanted
        )
        info = new("VkMemoryAllocateInfo", pNext=pNext, allocationSize=needs.size, memoryTypeIndex=kind)
        return self.vk.make("vkAllocateMemory", self.handle, info, None)

    def _host_buffer(self, size: int, usage: int) -> tuple[Any, Any]:
        """A VkBuffer, and its bytes."""
        buffer = self.vk.make("vkCreateBuffer", self.handle, new("VkBufferCreateInfo", size=size, usage=usage), None)
        flags = None
        if usage & VK.BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT:
            flags = new("VkMemoryAllocateFlagsInfo", flags=VK.MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT)
        needs = self.vk.make("vkGetBufferMemoryRequirements", self.handle, buffer)
        memory = self._memory(needs, is_host=True, pNext=flags)
        self.vk.vkBindBufferMemory(self.handle, buffer, memory, 0)
        data = self.vk.make("vkMapMemory", self.handle, memory, 0, VK.WHOLE_SIZE, 0)
        return buffer, ffi.buffer(data, size)

    def _make_pool(self) -> None:
        pool_info = new("VkCommandPoolCreateInfo", flags=VK.COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT)
        pool = self.vk.make("vkCreateCommandPool", self.handle, pool_info, None)
        info = new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1)
        self.commands = self.vk.make("vkAllocateCommandBuffers", self.handle, info)

    def _layouts(self) -> None:
        stage = VK.SHADER_STAGE_COMPUTE_BIT
        flags = {"push": VK.DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR}.get(self.way.split()[0], 0)
        if self.way == "descriptor buffer":
            flags = VK.DESCRIPTOR_SET_LAYOUT_CREATE_DESCRIPTOR_BUFFER_BIT_EXT
        late = None
        if self.way == "late":
            flags = VK.DESCRIPTOR_SET_LAYOUT_CREATE_UPDATE_AFTER_BIND_POOL_BIT
            of_image = [VK.DESCRIPTOR_BINDING_UPDATE_AFTER_BIND_BIT, 0]
            late = new("VkDescriptorSetLayoutBindingFlagsCreateInfo", pBindingFlags=of_image)
            late.pointer.bindingCount = 2
        fields = [
            {"binding": i, "descriptorType": kind, "descriptorCount": 1, "stageFlags": stage}
            for i, kind in enumerate((_IMAGE, _BUFFER))
        ]
        bindings = [new("VkDescriptorSetLayoutBinding", **each) for each in fields]
        self.set_layout = self.vk.make(
            "vkCreateDescriptorSetLayout",
            self.handle,
            new("VkDescriptorSetLayoutCreateInfo", pNext=late, flags=flags, pBindings=bindings),
            None,
        )
        self.layout = self.vk.make(
            "vkCreatePipelineLayout",
            self.handle,
            new("VkPipelineLayoutCreateInfo", pSetLayouts=[self.set_layout]),
            None,
        )
        words = ffi.new("uint32_t[]", len(_SHADER) // 4)
        ffi.buffer(words)[:] = _SHADER
        shader = new("VkShaderModuleCreateInfo", codeSize=len(_SHADER), pCode=words)
        module = self.vk.make("vkCreateShaderModule", self.handle, shader, None)
        info = new(
            "VkComputePipelineCreateInfo",
            flags=VK.PIPELINE_CREATE_DESCRIPTOR_BUFFER_BIT_EXT if self.way == "descriptor buffer" else 0,
            stage=new("VkPipelineShaderStageCreateInfo", stage=stage, module=module, pName="main"),
            layout=self.layout,
        )
        self.pipeline = self.vk.make("vkCreateComputePipelines", self.handle, None, 1, info, None)
        self.sampler = self.vk.make("vkCreateSampler", self.handle, new("VkSamplerCreateInfo"), None)

    # ---- descriptors ----------------------------------------------------------------------------------------------

    def prepare(self, view: Any) -> None:
        """Writes the descriptors of the way; a push writes them in sample()."""
        self._info = new("VkDescriptorImageInfo", sampler=self.sampler, imageView=view, imageLayout=_READ)
        self._result_info = new("VkDescriptorBufferInfo", buffer=self._result, range=VK.WHOLE_SIZE)
        if self.way == "descriptor buffer":
            self._write_to_memory()
        elif "template" in self.way:
            self._make_template()
        if self.way in ("write", "copy", "template", "late", "bind 2"):
            sizes = [new("VkDescriptorPoolSize", type=kind, descriptorCount=2) for kind in (_IMAGE, _BUFFER)]
            flags = VK.DESCRIPTOR_POOL_CREATE_UPDATE_AFTER_BIND_BIT if self.way == "late" else 0
            info = new("VkDescriptorPoolCreateInfo", flags=flags, maxSets=2, pPoolSizes=sizes)
            pool = self.vk.make("vkCreateDescriptorPool", self.handle, info, None)
            self.vk.vkDestroyDescriptorPool(self.handle, None, None)  # which is no pool, and has no effect
            first, second = (self._new_set(pool) for _ in range(2))
            self.set = second if self.way == "copy" else first
            if self.way == "template":
                self.vk.vkUpdateDescriptorSetWithTemplate(self.handle, first, self.template, self._data)
            else:
                writes = self._writes(first)
                self.vk.vkUpdateDescriptorSets(self.handle, 2, writes, 0, None)
            if self.way == "copy":
                copies = ffi.new("VkCopyDescriptorSet[2]")
                for i, each in enumerate(copies):
                    each.sType = VK.STRUCTURE_TYPE_COPY_DESCRIPTOR_SET
                    each.srcSet, each.dstSet, each.srcBinding, each.dstBinding = first, second, i, i
                    each.descriptorCount = 1
                self.vk.vkUpdateDescriptorSets(self.handle, 0, None, 2, copies)

    def _new_set(self, pool: Any) -> Any:
        info = new("VkDescriptorSetAllocateInfo", descriptorPool=pool, pSetLayouts=[self.set_layout])
        return self.vk.make("vkAllocateDescriptorSets", self.handle, info)

    def _writes(self, into: Any) -> Any:
        writes = ffi.new("VkWriteDescriptorSet[2]")
        for i, each in enumerate(writes):
            each.sType = VK.STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET
            each.dstSet, each.dstBinding, each.descriptorCount = into or ffi.NULL, i, 1
            each.descriptorType = (_IMAGE, _BUFFER)[i]
        writes[0].pImageInfo, writes[1].pBufferInfo = self._info.pointer, self._result_info.pointer
        return writes

    def _make_template(self) -> None:
        """Its data begins with bytes that it does not read."""
        self._data = ffi.new("char[]", 16 + ffi.sizeof("VkDescriptorImageInfo") + ffi.sizeof("VkDescriptorBufferInfo"))
        offsets = 16, 16 + ffi.sizeof("VkDescriptorImageInfo")
        for offset, info in zip(offsets, (self._info, self._result_info), strict=True):
            ffi.memmove(self._data + offset, info.pointer, ffi.sizeof(info.pointer[0]))
        entries = [
            new(
                "VkDescriptorUpdateTemplateEntry",
                dstBinding=i,
                descriptorCount=1,
                descriptorType=(_IMAGE, _BUFFER)[i],
                offset=offset,
            )
            for i, offset in enumerate(offsets)
        ]
        is_push = self.way.startswith("push")
        info = new(
            "VkDescriptorUpdateTemplateCreateInfo",
            pDescriptorUpdateEntries=entries,
            templateType=(
                VK.DESCRIPTOR_UPDATE_TEMPLATE_TYPE_PUSH_DESCRIPTORS_KHR
                if is_push
                else VK.DESCRIPTOR_UPDATE_TEMPLATE_TYPE_DESCRIPTOR_SET
            ),
            descriptorSetLayout=None if is_push else self.set_layout,
            pipelineBindPoint=_COMPUTE,
            pipelineLayout=self.layout,
        )
        info.pointer.descriptorUpdateEntryCount = len(entries)
        self.template = self.vk.make("vkCreateDescriptorUpdateTemplate", self.handle, info, None)

    def _write_to_memory(self) -> None:
        vk, limits = self.vk, new("VkPhysicalDeviceDescriptorBufferPropertiesEXT")
        self._of_instance.vkGetPhysicalDeviceProperties2(
            self._physical, new("VkPhysicalDeviceProperties2", pNext=limits)
        )
        size = vk.make("vkGetDescriptorSetLayoutSizeEXT", self.handle, self.set_layout)
        usage = VK.BUFFER_USAGE_RESOURCE_DESCRIPTOR_BUFFER_BIT_EXT | VK.BUFFER_USAGE_SAMPLER_DESCRIPTOR_BUFFER_BIT_EXT
        self._usage = usage | VK.BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT
        self._descriptors, data = self._host_buffer(size, self._usage)
        result, self._pixel = self._host_buffer(
            4, VK.BUFFER_USAGE_STORAGE_BUFFER_BIT | VK.BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT
        )
        address = new("VkDescriptorAddressInfoEXT", address=self._address(result), range=4)
        sizes = limits.combinedImageSamplerDescriptorSize, limits.storageBufferDescriptorSize
        for i, kind in enumerate((_IMAGE, _BUFFER)):
            info = new("VkDescriptorGetInfoEXT", type=kind)
            if kind == _IMAGE:
                info.pointer.data.pCombinedImageSampler = self._info.pointer
            else:
                info.pointer.data.pStorageBuffer = address.pointer
            offset = vk.make("vkGetDescriptorSetLayoutBindingOffsetEXT", self.handle, self.set_layout, i)
            vk.vkGetDescriptorEXT(self.handle, info, sizes[i], ffi.from_buffer("char[]", data) + offset)

    def _address(self, buffer: Any) -> int:
        info = new("VkBufferDeviceAddressInfo", buffer=buffer)
        return int(self.vk.vkGetBufferDeviceAddress(self.handle, info))

    def _bind(self) -> None:
        vk, commands = self.vk, self.commands
        stage = VK.SHADER_STAGE_COMPUTE_BIT
        if self.way in ("write", "copy", "template", "late"):
            vk.vkCmdBindDescriptorSets(
                commands, _COMPUTE, self.layout, 0, 1, ffi.new("VkDescriptorSet *", self.set), 0, None
            )
        elif self.way == "bind 2":
            info = new("VkBindDescriptorSetsInfoKHR", stageFlags=stage, layout=self.layout, pDescriptorSets=[self.set])
            vk.vkCmdBindDescriptorSets2KHR(commands, info)
        elif self.way == "push":
            vk.vkCmdPushDescriptorSetKHR(commands, _COMPUTE, self.layout, 0, 2, self._writes(None))
        elif self.way == "push 2":
            info = new("VkPushDescriptorSetInfoKHR", stageFlags=stage, layout=self.layout)
            info.pointer.descriptorWriteCount, info.pointer.pDescriptorWrites = 2, self._writes(None)
            vk.vkCmdPushDescriptorSet2KHR(commands, info)
        elif self.way == "push template":
            vk.vkCmdPushDescriptorSetWithTemplateKHR(commands, self.template, self.layout, 0, self._data)
        elif self.way == "push template 2":
            info = new(
                "VkPushDescriptorSetWithTemplateInfoKHR", descriptorUpdateTemplate=self.template, layout=self.layout
            )
            info.pointer.pData = self._data
            vk.vkCmdPushDescriptorSetWithTemplate2KHR(commands, info)
        else:
            where = new("VkDescriptorBufferBindingInfoEXT", address=self._address(self._descriptors), usage=self._usage)
            vk.vkCmdBindDescriptorBuffersEXT(commands, 1, where)
            first, start = ffi.new("uint32_t *", 0), ffi.new("VkDeviceSize *", 0)
            vk.vkCmdSetDescriptorBufferOffsetsEXT(commands, _COMPUTE, self.layout, 0, 1, first, start)

    # ---- submissions ----------------------------------------------------------------------------------------------

    def _record(self, names_image: bool) -> None:
        """The engine takes the image for a new one, so that it gives up its contents."""
        vk, commands = self.vk, self.commands
        vk.vkBeginCommandBuffer(commands, new("VkCommandBufferBeginInfo"))
        barrier = new(
            "VkImageMemoryBarrier",
            dstAccessMask=VK.ACCESS_SHADER_READ_BIT,
            oldLayout=VK.IMAGE_LAYOUT_UNDEFINED,
            newLayout=_READ,
            srcQueueFamilyIndex=VK.QUEUE_FAMILY_IGNORED,
            dstQueueFamilyIndex=VK.QUEUE_FAMILY_IGNORED,
            image=self.image,
            subresourceRange={"aspectMask": VK.IMAGE_ASPECT_COLOR_BIT, "levelCount": 1, "layerCount": 1},
        )
        if names_image:
            all_commands = VK.PIPELINE_STAGE_ALL_COMMANDS_BIT
            vk.vkCmdPipelineBarrier(commands, all_commands, all_commands, 0, 0, None, 0, None, 1, barrier)
        vk.vkCmdBindPipeline(commands, _COMPUTE, self.pipeline)
        if self.way == "late":
            self._write_image(self._stand_in())
        self._bind()
        vk.vkCmdDispatch(commands, 1, 1, 1)
        vk.vkEndCommandBuffer(commands)
        if self.way == "late":
            self._write_image(self._info)

    def _write_image(self, info: Any) -> None:
        write = self._writes(self.set)
        write[0].pImageInfo = info.pointer
        self.vk.vkUpdateDescriptorSets(self.handle, 1, write, 0, None)

    def _stand_in(self) -> Any:
        """An image of the engine's own, which no shader reads."""
        image = self._image(1, 1)
        self.vk.vkBindImageMemory(
            self.handle, image, self._memory(self.vk.make("vkGetImageMemoryRequirements", self.handle, image)), 0
        )
        return new("VkDescriptorImageInfo", sampler=self.sampler, imageView=self._view(image), imageLayout=_READ)

    def sample(self, *, names_image: bool, queue: int = 0) -> tuple[int, ...]:
        """Submits, and returns the first pixel. `names_image`: after a barrier, as engines do it at first use."""
        self._record(names_image)
        self._pixel[:] = bytes(4)
        submit = new("VkSubmitInfo", pCommandBuffers=[self.commands])
        self.vk.vkQueueSubmit(self.queues[queue], 1, submit, None)
        self.vk.vkQueueWaitIdle(self.queues[queue])
        return tuple(self._pixel[:])
