"""What does a stock engine pay for sharing its images: a turn, a frame, and the layer where nothing is shared?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import vkshare
from benchmarks import compiler, imports
from benchmarks.compiler import CFailed, seconds
from benchmarks.measure import Spread, Timed, differences, drained, ratios, repeated, timed
from benchmarks.plan import Plan
from benchmarks.report import OVER_C
from vkshare import Surface
from vkshare.errors import UnsupportedError, VulkanError

WIDTH, HEIGHT = 3840, 2160
_ROWS = 1024  # frames whose pixels are compared at the end
_NAMES = ("VK_INSTANCE_LAYERS", "VK_LAYER_PATH", "VK_ADD_LAYER_PATH")
_IN_FLIGHT = {"gpu": 32}  # turns between two waits; a software driver's threads would take their time from the caller


def run(plan: Plan) -> None:
    """Plain C on the first Vulkan device with the layer and without it, then wgpu on the device that it prefers."""
    with _variables(), plan.noting("engines", UnsupportedError, ImportError, RuntimeError, VulkanError):
        with plan.noting("engines, plain calls", CFailed, VulkanError), _Calls() as without:
            vkshare.engines.enable()
            with _Calls() as with_layer:
                for what, times in with_layer.loops().items():
                    _over(plan, what, times, without.loops()[what], 2e-4, 50e-9)
        with plan.noting("engines, imports", CFailed):
            imports.rows(plan)
        with _Frames() as frames:
            plan.note(
                f"engines: wgpu on {frames.device.adapter.name}; its own submit is the same pass on its own texture"
            )
            most = _IN_FLIGHT.get(frames.device.adapter.kind, 1)
            own, turn = (drained(repeated(each), frames.wait, most) for each in (frames.own, frames.turn))
            _over(plan, "a turn of wgpu", turn, own, 2e-3, 20e-6)
            _frame_row(plan, frames, "a 4K frame wgpu - vkshare - wgpu", frames.near)
            _frame_row(plan, frames, "the same, vkshare on another VkDevice", frames.far)


def _over(plan: Plan, what: str, ours: Timed, theirs: Timed, turn: float, most: float) -> None:
    samples = plan.turns(what, {"ours": ours, "without": theirs}, turn)
    figure, others = differences(samples["ours"], samples["without"]), {"without": Spread.of(samples["without"])}
    plan.add(what, OVER_C, figure, Spread.of(samples["ours"]), most=most, others=others)


def _frame_row(plan: Plan, frames: _Frames, what: str, surface: Surface) -> None:
    """`surface`: the handle that vkshare draws with."""
    least = 50 if frames.device.adapter.kind == "gpu" else 20
    samples = plan.turns(
        what, {"ours": timed(partial(frames.handed_over, surface)), "copied": timed(frames.copied)}, 1.0
    )
    figure, others = ratios(samples["copied"], samples["ours"]), {"copied by wgpu": Spread.of(samples["copied"])}
    plan.ratio(what, figure, Spread.of(samples["ours"]), least=least, against="faster", others=others)


@contextlib.contextmanager
def _variables() -> Iterator[None]:
    """Take the layer back from the environment: other questions make instances too."""
    before = {name: os.environ.get(name) for name in _NAMES}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Calls(contextlib.ExitStack):
    """A VkDevice of an instance that is made now, and loops of its calls in C."""

    def __init__(self) -> None:
        super().__init__()
        from vkshare.backends.vulkan.api import VK, device_functions, ffi, global_functions, instance_functions, new

        self._c = compiler.library("layer_calls.c")
        application = new("VkApplicationInfo", pEngineName="an engine", apiVersion=VK.API_VERSION_1_3)
        instance = global_functions().make(
            "vkCreateInstance", new("VkInstanceCreateInfo", pApplicationInfo=application), None
        )
        vk = instance_functions(instance)
        self.callback(vk.vkDestroyInstance, instance, ffi.NULL)
        physical_device = vk.list("vkEnumeratePhysicalDevices", instance)[0]
        queue = new("VkDeviceQueueCreateInfo", queueFamilyIndex=0, pQueuePriorities=[1.0])
        info = new("VkDeviceCreateInfo", pQueueCreateInfos=[queue])
        self._device = vk.make("vkCreateDevice", physical_device, info, None)
        self._vk = device_functions(vk, self._device)
        self.callback(self._vk.vkDestroyDevice, self._device, ffi.NULL)
        flags = VK.COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
        pool_info = new("VkCommandPoolCreateInfo", queueFamilyIndex=0, flags=flags)
        pool = self._vk.make("vkCreateCommandPool", self._device, pool_info, None)
        self.callback(self._vk.vkDestroyCommandPool, self._device, pool, ffi.NULL)
        self._buffers = ffi.new("VkCommandBuffer[1]")
        allocate = new("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1)
        self._vk.vkAllocateCommandBuffers(self._device, allocate.pointer, self._buffers)

    def loops(self) -> dict[str, Timed]:
        from vkshare.backends.vulkan.api import address

        def function(name: str) -> Any:
            return compiler.ffi.cast("void *", address(self._vk.pointer(f"vk{name}")))

        device, commands = address(self._device), address(self._buffers[0])
        queue = address(self._vk.make("vkGetDeviceQueue", self._device, 0, 0))
        loops = {
            "vkQueueSubmit": partial(self._c.time_empty_submits, function("QueueSubmit"), queue),
            "vkCreateImage": partial(self._c.time_images, function("CreateImage"), function("DestroyImage"), device),
            "vkCmdDraw": partial(
                self._c.time_draws,
                *map(function, ("BeginCommandBuffer", "CmdDraw", "EndCommandBuffer")),
                commands,
            ),
        }
        return {f"{name}, nothing shared": _in_seconds(loop) for name, loop in loops.items()}


def _in_seconds(loop: Callable[[int], float]) -> Timed:
    return lambda n: seconds(loop(n))


class _Frames(contextlib.ExitStack):
    """wgpu's device, its own texture and surfaces' textures."""

    def __init__(self) -> None:
        super().__init__()
        os.environ.setdefault("WGPU_BACKEND_TYPE", "Vulkan")
        import wgpu

        self._raw: Any = wgpu.gpu.request_adapter_sync().request_device_sync()
        self.device = self.enter_context(vkshare.engines.wgpu.open(self._raw, name="bench"))
        self._small = self.enter_context(self.device.create_surface(64, 64))
        self._texture = vkshare.engines.wgpu.texture(self._small)
        flags = wgpu.TextureUsage
        usage = flags.RENDER_ATTACHMENT | flags.COPY_SRC | flags.COPY_DST
        self._own = self._raw.create_texture(size=(64, 64, 1), format="rgba8unorm", usage=usage)
        self._frame = self._raw.create_texture(size=(WIDTH, HEIGHT, 1), format="rgba8unorm", usage=usage)
        other = self.enter_context(vkshare.open(self.device.adapter, name="other"))
        self.far: Surface = self.enter_context(other.create_surface(WIDTH, HEIGHT))
        with self.far.export() as descriptor:
            self.near: Surface = self.enter_context(self.device.open_surface(descriptor))
        self._shared = vkshare.engines.wgpu.texture(self.near)
        self._seen = self._raw.create_texture(size=(64, _ROWS, 1), format="rgba8unorm", usage=usage)
        self._value, self._looked = 0, list[int]()

    # ---- turns ----

    def _clear(self, texture: Any) -> None:
        encoder = self._raw.create_command_encoder()
        attachment = {
            "view": texture.create_view(),
            "resolve_target": None,
            "clear_value": (0, 1, 0, 1),
            "load_op": "clear",
            "store_op": "store",
        }
        encoder.begin_render_pass(color_attachments=[attachment]).end()
        self._raw.queue.submit([encoder.finish()])

    def own(self) -> None:
        """A pass on a texture of wgpu's own."""
        self._clear(self._own)

    def turn(self) -> None:
        """The same on a surface's texture, in a turn."""
        with self._small.access(acquire=0, release=0):
            self._clear(self._texture)

    def wait(self) -> None:
        self._read(self._own, 64, 1)  # behind all that wgpu has submitted
        self.device.wait_idle()

    # ---- frames: wgpu writes a pixel, vkshare another one, and wgpu uses both ----

    def _write(self, texture: Any, pixels: Any) -> None:
        layout = {"offset": 0, "bytes_per_row": pixels[0].nbytes, "rows_per_image": pixels.shape[0]}
        where = {"texture": texture, "mip_level": 0, "origin": (0, 0, 0)}
        self._raw.queue.write_texture(where, pixels, layout, (pixels.shape[1], pixels.shape[0], 1))
        self._raw.queue.submit([])

    def _read(self, texture: Any, width: int, height: int) -> Any:
        layout = {"offset": 0, "bytes_per_row": 4 * width, "rows_per_image": height}
        where = {"texture": texture, "mip_level": 0, "origin": (0, 0, 0)}
        data = self._raw.queue.read_texture(where, layout, (width, height, 1))
        return np.frombuffer(data, np.uint8).reshape(height, width, 4)

    def _next(self) -> Any:
        self._value = (self._value + 1) % 256
        return np.full((1, 1, 4), self._value, np.uint8)

    def _look(self, texture: Any, pixel: Any) -> None:
        """Has wgpu use the frame: it copies both pixels into a row that _check() reads."""
        row = len(self._looked) % _ROWS
        encoder = self._raw.create_command_encoder()
        encoder.copy_texture_to_texture({"texture": texture}, {"texture": self._seen, "origin": (0, row, 0)}, (2, 1, 1))
        self._raw.queue.submit([encoder.finish()])
        self._looked.append(int(pixel[0, 0, 0]))

    def handed_over(self, surface: Surface, n: int) -> None:
        """`surface`: the handle that vkshare draws with, on wgpu's own VkDevice or on another one."""
        device = surface.device
        for _ in range(n):
            pixel = self._next()
            with self.near.access(acquire=0, release=1):
                self._write(self._shared, pixel)
            with surface.access(acquire=1, release=2) as view:
                device.submit(device.record().fill_rect(view, (1, 0, 1, 1), (1, 1, 1, 1)))
            with self.near.access(acquire=2, release=0):
                self._look(self._shared, pixel)
        self._check()

    def copied(self, n: int) -> None:
        """wgpu reads the frame back, the CPU writes the other pixel, and wgpu uploads it."""
        for _ in range(n):
            pixel = self._next()
            self._write(self._frame, pixel)
            frame = self._read(self._frame, WIDTH, HEIGHT).copy()
            frame[0, 1] = 255
            self._write(self._frame, frame)
            self._look(self._frame, pixel)
        self._check()
        self.wait()  # wgpu frees its buffers of that size here, and not in the next one's time
        self.wait()

    def _check(self) -> None:
        """Waits for all frames, and compares what wgpu has seen of the last ones."""
        wanted, self._looked = self._looked[-_ROWS:], []
        seen = self._read(self._seen, 64, len(wanted))[:, :2]
        # after more frames than rows these are in another order
        if (seen[:, 1] != 255).any() or sorted(seen[:, 0, 0].tolist()) != sorted(wanted):
            raise AssertionError(f"wgpu sees {seen[:, :, 0].tolist()} where {wanted} and 255 were written")
