"""The engines that have a VkDevice of their own: the layer VK_LAYER_VKSHARE_engines makes surfaces their textures."""

from __future__ import annotations

import importlib
from typing import Any

import vkshare
from vkshare.demos.engines.artists import Artist, Box, angle


class _Layered(Artist):
    def _open(self, adapter: bytes) -> vkshare.Device:
        vkshare.engines.enable()
        return self._open_engine()

    def _open_engine(self) -> vkshare.Device:
        raise NotImplementedError


class Wgpu(_Layered):
    """A turning triangle by a render pass that loads what is there."""

    _SHADER = """
    struct Uniforms { angle: f32 };
    @group(0) @binding(0) var<uniform> uniforms: Uniforms;
    struct Corner { @builtin(position) at: vec4f, @location(0) colour: vec4f };
    @vertex fn corner(@builtin(vertex_index) i: u32) -> Corner {
        if (i < 3) {
            let everywhere = vec4f(f32(i & 1u) * 4.0 - 1.0, f32(i & 2u) * 2.0 - 1.0, 0.0, 1.0);
            return Corner(everywhere, vec4f(0.1, 0.08, 0.2, 1.0));
        }
        let a = uniforms.angle + f32(i) * 2.0944;
        let ink = vec4f(f32(i == 3), f32(i == 4), f32(i == 5), 1.0) * 0.8 + 0.2;
        return Corner(vec4f(sin(a) * 0.45, cos(a) * 0.8, 0.0, 1.0), ink);
    }
    @fragment fn paint(corner: Corner) -> @location(0) vec4f { return corner.colour; }
    """

    def _open_engine(self) -> vkshare.Device:
        wgpu: Any = importlib.import_module("wgpu")
        self._own = wgpu.gpu.request_adapter_sync().request_device_sync()
        return vkshare.engines.wgpu.open(self._own, name="wgpu")

    def _begin(self) -> None:
        self._views: dict[vkshare.Surface, Any] = {}
        own = self._own
        self._uniforms = own.create_buffer(size=16, usage="UNIFORM|COPY_DST")
        module = own.create_shader_module(code=self._SHADER)
        self._pipeline = own.create_render_pipeline(
            layout="auto",
            vertex={"module": module, "entry_point": "corner"},
            primitive={"topology": "triangle-list"},
            fragment={"module": module, "entry_point": "paint", "targets": [{"format": "rgba8unorm"}]},
        )
        entry = {"binding": 0, "resource": {"buffer": self._uniforms, "offset": 0, "size": 16}}
        self._group = own.create_bind_group(layout=self._pipeline.get_bind_group_layout(0), entries=[entry])

    def draw(self, view: Any, taken: vkshare.Surface, box: Box, number: int) -> None:
        import numpy as np

        if taken not in self._views:
            self._views[taken] = vkshare.engines.wgpu.texture(taken).create_view()
        self._own.queue.write_buffer(self._uniforms, 0, np.array([angle(number), 0, 0, 0], np.float32))
        encoder = self._own.create_command_encoder()
        attachment = {"view": self._views[taken], "load_op": "load", "store_op": "store"}
        drawn = encoder.begin_render_pass(color_attachments=[attachment])
        drawn.set_pipeline(self._pipeline)
        drawn.set_bind_group(0, self._group)
        drawn.set_viewport(*box, 0, 1)
        drawn.set_scissor_rect(*box)
        drawn.draw(6)
        drawn.end()
        self._own.queue.submit([encoder.finish()])


class Pygfx(_Layered):
    """A turning torus knot, whose last pass pygfx renders straight into the surface."""

    draws_parts = False

    def _open_engine(self) -> vkshare.Device:
        importlib.import_module("pygfx")
        return vkshare.engines.pygfx.open(name="pygfx")

    def _begin(self) -> None:
        gfx: Any = importlib.import_module("pygfx")
        self._gfx = gfx
        self._renderers: dict[vkshare.Surface, Any] = {}
        self._scene = gfx.Scene()
        self._scene.add(gfx.Background(None, gfx.BackgroundMaterial("#403060")))
        self._knot = gfx.Mesh(gfx.torus_knot_geometry(1, 0.3, 64, 12), gfx.MeshNormalMaterial())
        self._scene.add(self._knot)
        self._camera = gfx.PerspectiveCamera(60, self.size[0] / self.size[1])
        self._camera.local.z = 4.4

    def draw(self, view: Any, taken: vkshare.Surface, box: Box, number: int) -> None:
        if taken not in self._renderers:
            self._renderers[taken] = self._gfx.renderers.WgpuRenderer(vkshare.engines.pygfx.texture(taken))
        half = angle(number) / 2
        self._knot.local.euler = (half, 2 * half, 0)
        self._renderers[taken].render(self._scene, self._camera)


class Slangpy(_Layered):
    """A plasma by a compute shader, which stores into the surface."""

    _SHADER = """
    RWTexture2D<float4> picture;
    uniform uint4 box;
    uniform float angle;
    [shader("compute")] [numthreads(8, 8, 1)]
    void paint(uint3 id: SV_DispatchThreadID)
    {
        if (any(id.xy >= box.zw))
            return;
        float2 at = float2(id.xy) / float(box.w) * 6;
        float value = sin(at.x + angle) + sin(at.y * 1.3 - angle) + sin(length(at - 4) * 2 + angle);
        picture[id.xy + box.xy] = float4(0.5 + 0.4 * sin(value * 2 + float3(0, 2, 4)), 1);
    }
    """

    def _open_engine(self) -> vkshare.Device:
        slangpy: Any = importlib.import_module("slangpy")
        try:
            self._own = slangpy.Device(type=slangpy.DeviceType.vulkan)
        except RuntimeError as error:
            raise vkshare.UnsupportedError(
                "slangpy", f"it makes no device here: {str(error).splitlines()[0]}"
            ) from None
        self._stack.callback(self._own.close)
        return vkshare.engines.slangpy.open(self._own, name="slangpy")

    def _begin(self) -> None:
        module = self._own.load_module_from_source("paint", self._SHADER)
        program = self._own.link_program([module], [module.entry_point("paint")])
        self._kernel = self._own.create_compute_kernel(program)
        self._textures: dict[vkshare.Surface, Any] = {}
        self._stack.callback(self._textures.clear)

    def draw(self, view: Any, taken: vkshare.Surface, box: Box, number: int) -> None:
        if taken not in self._textures:
            self._textures[taken] = vkshare.engines.slangpy.texture(taken)
        given = {"picture": self._textures[taken], "box": box, "angle": angle(number)}
        self._kernel.dispatch(thread_count=[box[2], box[3], 1], vars=given)
