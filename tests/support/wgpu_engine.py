"""An engine for tests: wgpu with its device below a vkshare.Device, and what it draws and reads."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

import vkshare as vks

_SAMPLE = """
@group(0) @binding(0) var picture: texture_2d<f32>;
@vertex fn corner(@builtin(vertex_index) i: u32) -> @builtin(position) vec4f {
    return vec4f(f32(i & 1u) * 4.0 - 1.0, f32(i >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}
@fragment fn texel(@builtin(position) at: vec4f) -> @location(0) vec4f {
    return textureLoad(picture, vec2i(at.xy), 0);
}
"""


class Engine:
    """wgpu's device, and the vkshare.Device on it."""

    def __init__(self) -> None:
        vks.engines.enable()
        import wgpu

        self.wgpu: Any = wgpu
        self.raw: Any = wgpu.gpu.request_adapter_sync().request_device_sync()
        self.device = vks.engines.wgpu.open(self.raw, name="wgpu's")
        self._copy: Any = None

    def texture(self, surface: vks.Surface) -> Any:
        return vks.engines.wgpu.texture(surface)

    def clear(self, texture: Any, colour: tuple[float, ...]) -> None:
        """A render pass that clears."""
        encoder = self.raw.create_command_encoder()
        encoder.begin_render_pass(color_attachments=[attachment(texture, clear=colour)]).end()
        self.raw.queue.submit([encoder.finish()])

    def write(self, texture: Any, pixels: Any) -> None:
        """A copy from the CPU to the upper left corner."""
        height, width = pixels.shape[:2]
        layout = {"offset": 0, "bytes_per_row": pixels[0].nbytes, "rows_per_image": height}
        where = {"texture": texture, "mip_level": 0, "origin": (0, 0, 0)}
        self.raw.queue.write_texture(where, np.ascontiguousarray(pixels), layout, (width, height, 1))
        self.raw.queue.submit([])

    def read(self, texture: Any, like: Any) -> Any:
        """A copy to the CPU, of the shape and type of `like`."""
        layout = {"offset": 0, "bytes_per_row": like[0].nbytes, "rows_per_image": like.shape[0]}
        where = {"texture": texture, "mip_level": 0, "origin": (0, 0, 0)}
        data = self.raw.queue.read_texture(where, layout, texture.size)
        return np.frombuffer(data, like.dtype).reshape(like.shape)

    def sampled(self, texture: Any) -> Any:
        """The pixels of an rgba8unorm texture as a shader sees them, drawn into a texture of wgpu's own."""
        if self._copy is None:
            self._copy = self._make_copy(texture)
        target, pipeline, bindings = self._copy
        encoder = self.raw.create_command_encoder()
        drawn = encoder.begin_render_pass(color_attachments=[attachment(target, clear=(0, 0, 0, 0))])
        drawn.set_pipeline(pipeline)
        drawn.set_bind_group(0, bindings)
        drawn.draw(3)
        drawn.end()
        self.raw.queue.submit([encoder.finish()])
        return self.read(target, np.empty((texture.height, texture.width, 4), np.uint8))

    def _make_copy(self, texture: Any) -> Any:
        usage = self.wgpu.TextureUsage.RENDER_ATTACHMENT | self.wgpu.TextureUsage.COPY_SRC
        target = self.raw.create_texture(size=texture.size, format="rgba8unorm", usage=usage)
        module = self.raw.create_shader_module(code=_SAMPLE)
        pipeline = self.raw.create_render_pipeline(
            layout="auto",
            vertex={"module": module, "entry_point": "corner"},
            primitive={"topology": "triangle-list"},
            fragment={"module": module, "entry_point": "texel", "targets": [{"format": "rgba8unorm"}]},
        )
        bindings = self.raw.create_bind_group(
            layout=pipeline.get_bind_group_layout(0), entries=[{"binding": 0, "resource": texture.create_view()}]
        )
        return target, pipeline, bindings


def attachment(texture: Any, clear: tuple[float, ...] | None = None) -> dict[str, Any]:
    return {
        "view": texture.create_view(),
        "resolve_target": None,
        "clear_value": clear or (0, 0, 0, 0),
        "load_op": "load" if clear is None else "clear",
        "store_op": "store",
    }


@contextlib.contextmanager
def pair(*size_and_format: Any, **options: Any) -> Iterator[tuple[Engine, vks.Surface, Any, vks.Surface]]:
    """An engine, its surface and texture, and the surface of another VkDevice, which is the same memory."""
    with ExitStack() as owned:
        engine = Engine()
        owned.enter_context(engine.device)
        other = owned.enter_context(vks.open(engine.device.adapter, name="another"))
        far = owned.enter_context(other.create_surface(*size_and_format, **options))
        with far.export() as descriptor:
            near = owned.enter_context(engine.device.open_surface(descriptor))
        yield engine, near, engine.texture(near), far


# ---- a process at the other end --------------------------------------------------------------------------------------


def peer(descriptor: Any, adapter: Any, turns: int, seed: int) -> None:
    """Checks what it gets with key 1, and hands on what it draws with key 0."""
    with vks.open(adapter, name="peer") as device, device.open_surface(descriptor) as surface:
        for turn in range(turns):
            with surface.access(1, 0, 60):
                if not (surface.read() == pixels_of(surface, seed, 2 * turn)).all():
                    raise SystemExit(f"turn {turn}: other pixels than those that the engine wrote")
                surface.write(pixels_of(surface, seed, 2 * turn + 1))


def die_as_owner(descriptor: Any, adapter: Any) -> None:
    device = vks.open(adapter)
    device.open_surface(descriptor).acquire(0, 10)
    os._exit(0)


def draw_as_owner(descriptor: Any, drawn: Any) -> None:
    """An engine's process that is killed inside its turn, with work on the surface."""
    engine = Engine()
    with engine.device.open_surface(descriptor) as surface:
        texture = engine.texture(surface)
        surface.acquire(0, 30)
        engine.clear(texture, (1, 0, 0, 1))
        drawn.set()
        time.sleep(60)


def pixels_of(surface: Any, seed: int, turn: int) -> Any:
    """Random pixels that both sides know."""
    return np.random.default_rng((seed, turn)).integers(0, 256, (surface.height, surface.width, 4), np.uint8)


@contextlib.contextmanager
def peer_process(run: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    process = multiprocessing.get_context("spawn").Process(target=run, args=arguments)
    process.start()
    yield process
    process.join(60)
    assert process.exitcode == 0
