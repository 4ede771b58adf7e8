"""The pipelines that draw, made when first needed and kept by their device."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

from vkshare.backends.drawing import Recorder
from vkshare.backends.vulkan.api import NULL, VK, Struct, address, new
from vkshare.backends.vulkan.colours import srgb_tables
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.memory import host_buffer, mappable_flags
from vkshare.backends.vulkan.objects import Objects
from vkshare.backends.vulkan.shaders import spirv
from vkshare.formats import from_code, get
from vkshare.util.closing import on_error

PUSH_SIZE = 128  # bytes of push constants that the one pipeline layout has room for
VERTEX_SIZE = 40  # bytes: x y z w, r g b a, u v as float32 (native/record/record.h)


@dataclass(frozen=True, slots=True)
class Kind:
    """The state of a pipeline apart from the target's format."""

    vertex: str
    fragment: str
    blends: bool  # premultiplied source-over; else replaces
    reads_vertices: bool
    constants: tuple[bool, ...] = ()  # the fragment shader's specialization constants, from constant_id 0 on
    depth: str = ""  # the format of the depth that is tested; "": none


COMPOSITE = Kind("screen.vert", "composite.frag", blends=True, reads_vertices=False)
BLIT = Kind("screen.vert", "blit.frag", blends=False, reads_vertices=False)
COLOURED = Kind("triangles.vert", "colour.frag", blends=True, reads_vertices=True)
TEXTURED = Kind("triangles.vert", "texture.frag", blends=True, reads_vertices=True)
COMPOSITE_PLANES = replace(COMPOSITE, fragment="composite_planes.frag")
BLIT_PLANES = replace(BLIT, fragment="blit_planes.frag")
TO_PLANES = replace(BLIT, fragment="to_planes.frag")
TEXTURED_PLANES = replace(TEXTURED, fragment="texture_planes.frag")


def _bits(number: int, count: int) -> tuple[bool, ...]:
    return tuple(bool(number >> i & 1) for i in range(count))


# By the C core's number: native/record/record.h.
KINDS = (
    COLOURED,
    TEXTURED,
    *(replace(COMPOSITE, constants=_bits(i, 2)) for i in range(4)),  # decodes, is straight
    *(replace(BLIT, constants=_bits(i, 4)) for i in range(16)),  # linear, decodes, encodes, to 16-bit floats
    *(replace(kind, depth=depth) for depth in ("d16unorm", "d32float") for kind in (COLOURED, TEXTURED)),
    *(replace(COMPOSITE_PLANES, constants=_bits(i, 1)) for i in range(2)),  # decodes
    *(replace(BLIT_PLANES, constants=_bits(i, 1)) for i in range(2)),  # linear
    *(replace(TO_PLANES, constants=_bits(i, 1)) for i in range(2)),  # linear
    *(replace(TEXTURED_PLANES, depth=depth) for depth in ("", "d16unorm", "d32float")),
)


class Pipelines:
    """One layout (an image, the sRGB tables, push constants), two samplers, and a VkPipeline for each kind and format.

    Not thread-safe: the context's lock is held while command buffers are recorded, and that covers
    it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._objects = Objects(context)
        self._made: dict[tuple[Kind, int], Any] = {}
        self._modules: dict[str, Any] = {}
        with on_error(self._objects.destroy):
            self._create()

    def _create(self) -> None:
        make = self._objects.make
        fragment = VK.SHADER_STAGE_FRAGMENT_BIT
        bindings = [
            new("VkDescriptorSetLayoutBinding", binding=n, descriptorType=kind, descriptorCount=1, stageFlags=fragment)
            for n, kind in enumerate(descriptor_types())
        ]
        info = new("VkDescriptorSetLayoutCreateInfo", pBindings=bindings)
        self.set_layout = make("vkCreateDescriptorSetLayout", info)
        push = new("VkPushConstantRange", stageFlags=fragment, size=PUSH_SIZE)
        layout = new("VkPipelineLayoutCreateInfo", pSetLayouts=[self.set_layout], pPushConstantRanges=[push])
        self.layout = make("vkCreatePipelineLayout", layout)
        self.nearest = self._sampler(VK.FILTER_NEAREST)
        self.linear = self._sampler(VK.FILTER_LINEAR)
        numbers = b"".join(table.tobytes() for table in srgb_tables())
        self.tables, memory = host_buffer(self._objects, len(numbers), VK.BUFFER_USAGE_STORAGE_BUFFER_BIT)
        memory.map()[: len(numbers)] = numbers
        self.recorder = self._make_recorder()

    def _make_recorder(self) -> Recorder:
        context = self._context
        transfer = context.transfer_family
        flags = context.physical.memory_types
        masks = tuple(
            sum(1 << i for i, has in enumerate(flags) if has & wanted == wanted) for wanted in mappable_flags()
        )
        recorder = Recorder(
            get_device_proc_addr=address(context.physical.vk.pointer("vkGetDeviceProcAddr")),
            device=address(context.device),
            family=context.queue_family,
            transfer_family=0xFFFFFFFF if transfer is None else transfer,
            host_types=masks,
            has_names=context.physical.can_name,
            **{name: address(getattr(self, name)) for name in ("layout", "set_layout", "nearest", "linear", "tables")},
        )
        self._objects.close_recorder_with(recorder)
        return recorder

    def register(self, number: int, code: int) -> None:
        """Makes the pipeline of that number (KINDS) for a format's code, and gives it to the recorder."""
        pipeline = self.get(KINDS[number], from_code(code).vk_format)
        self.recorder.set_pipeline(number, code, address(pipeline))

    def get(self, kind: Kind, vk_format: int) -> Any:
        """The VkPipeline that draws so on targets of that format."""
        key = (kind, vk_format)
        if key not in self._made:
            self._made[key] = self._make(kind, vk_format)
        return self._made[key]

    def _sampler(self, vk_filter: int) -> Any:
        modes = ("addressModeU", "addressModeV", "addressModeW")
        edges = dict.fromkeys(modes, VK.SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE)
        info = new("VkSamplerCreateInfo", magFilter=vk_filter, minFilter=vk_filter, **edges)
        return self._objects.make("vkCreateSampler", info)

    def _make(self, kind: Kind, vk_format: int) -> Any:
        stages = [
            self._stage(kind.vertex, VK.SHADER_STAGE_VERTEX_BIT),
            self._stage(kind.fragment, VK.SHADER_STAGE_FRAGMENT_BIT, kind.constants),
        ]
        states = [VK.DYNAMIC_STATE_VIEWPORT, VK.DYNAMIC_STATE_SCISSOR, *(_depth_states() if kind.depth else ())]
        depth_format = get(kind.depth).vk_format if kind.depth else VK.FORMAT_UNDEFINED
        rendering = new(
            "VkPipelineRenderingCreateInfo", pColorAttachmentFormats=[vk_format], depthAttachmentFormat=depth_format
        )
        info = new(
            "VkGraphicsPipelineCreateInfo",
            pNext=rendering,
            pStages=stages,
            pVertexInputState=_vertex_input(kind.reads_vertices),
            pInputAssemblyState=new(
                "VkPipelineInputAssemblyStateCreateInfo", topology=VK.PRIMITIVE_TOPOLOGY_TRIANGLE_LIST
            ),
            pViewportState=new("VkPipelineViewportStateCreateInfo", viewportCount=1, scissorCount=1),
            pRasterizationState=new(
                "VkPipelineRasterizationStateCreateInfo", lineWidth=1.0
            ),  # fill, no culling, depth clipped
            pMultisampleState=new("VkPipelineMultisampleStateCreateInfo", rasterizationSamples=VK.SAMPLE_COUNT_1_BIT),
            pDepthStencilState=new("VkPipelineDepthStencilStateCreateInfo") if kind.depth else NULL,
            pColorBlendState=_blending(kind.blends),
            pDynamicState=new("VkPipelineDynamicStateCreateInfo", pDynamicStates=states),
            layout=self.layout,
        )
        pipeline = self._objects.make("vkCreateGraphicsPipelines", NULL, 1, info)
        self._context.name(VK.OBJECT_TYPE_PIPELINE, pipeline, f"{kind.fragment} on format {vk_format}")
        return pipeline

    def _stage(self, name: str, stage: int, constants: tuple[bool, ...] = ()) -> Struct:
        if name not in self._modules:
            code = spirv(name)
            words = [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code), 4)]
            info = new("VkShaderModuleCreateInfo", codeSize=len(code), pCode=words)
            self._modules[name] = self._objects.make("vkCreateShaderModule", info)
        return new(
            "VkPipelineShaderStageCreateInfo",
            stage=stage,
            module=self._modules[name],
            pName="main",
            pSpecializationInfo=_constants(constants),
        )


def _depth_states() -> tuple[int, ...]:
    """Set when the list is written (Vulkan 1.3): one pipeline serves every test."""
    return (
        VK.DYNAMIC_STATE_DEPTH_TEST_ENABLE,
        VK.DYNAMIC_STATE_DEPTH_WRITE_ENABLE,
        VK.DYNAMIC_STATE_DEPTH_COMPARE_OP,
    )


def descriptor_types() -> tuple[int, int, int, int]:
    """By binding: the image, or luma; the tables of shaders/srgb.glsl; the planes of chroma."""
    image = VK.DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER
    return image, VK.DESCRIPTOR_TYPE_STORAGE_BUFFER, image, image


def _constants(values: tuple[bool, ...]) -> Struct:
    entries = [new("VkSpecializationMapEntry", constantID=i, offset=4 * i, size=4) for i in range(len(values))]
    data = struct.pack(f"{len(values)}I", *values)  # VkBool32
    return new("VkSpecializationInfo", pMapEntries=entries, dataSize=len(data), pData=data)


def _vertex_input(reads_vertices: bool) -> Struct:
    if not reads_vertices:
        return new("VkPipelineVertexInputStateCreateInfo")
    four, two = VK.FORMAT_R32G32B32A32_SFLOAT, VK.FORMAT_R32G32_SFLOAT
    attributes = [
        new("VkVertexInputAttributeDescription", location=location, format=vk_format, offset=offset)
        for location, vk_format, offset in ((0, four, 0), (1, four, 16), (2, two, 32))
    ]
    return new(
        "VkPipelineVertexInputStateCreateInfo",
        pVertexBindingDescriptions=[new("VkVertexInputBindingDescription", stride=VERTEX_SIZE)],
        pVertexAttributeDescriptions=attributes,
    )


def _blending(blends: bool) -> Struct:
    rest = VK.BLEND_FACTOR_ONE_MINUS_SRC_ALPHA
    attachment = new(
        "VkPipelineColorBlendAttachmentState",
        blendEnable=int(blends),
        srcColorBlendFactor=VK.BLEND_FACTOR_ONE,
        dstColorBlendFactor=rest,
        srcAlphaBlendFactor=VK.BLEND_FACTOR_ONE,
        dstAlphaBlendFactor=rest,
        colorWriteMask=0xF,
    )
    return new("VkPipelineColorBlendStateCreateInfo", pAttachments=[attachment])
