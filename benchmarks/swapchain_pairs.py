"""Two swapchains on one driver, ours and C's, on targets alike."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING, Any

import vkshare
from benchmarks import c_swapchain, child, compiler, pypi_swapchain
from benchmarks.c_swapchain import HEADLESS, RING, WINDOW, CDevice, CSwapchain, Size
from benchmarks.measure import Timed, repeated
from benchmarks.placement import Placement
from benchmarks.plan import Plan
from benchmarks.report import Row
from benchmarks.xvfb import NoXvfb, xvfb
from vkshare.formats import FORMATS

if TYPE_CHECKING:
    from vkshare import Device, Frame, Swapchain
    from vkshare.present.frame import Prepared

RED = (1.0, 0.0, 0.0, 1.0)
TURN = 10e-3  # seconds: what a turn leaves in flight is little beside it
_WARM_UP = 32  # frames: each image's first one is slow, and would make for short turns


@dataclass(frozen=True, slots=True)
class Pair:
    """`theirs` is None without a C compiler."""

    where: str  # for the table
    device: Device
    ours: Swapchain
    theirs: CSwapchain | None
    pypi: CSwapchain | None  # for what people use today, set up by C; None where there is no swapchain
    resize: Callable[[Size], None] | None = None  # has the window system make ours that large, where there is one
    resize_theirs: Callable[[Size], None] | None = None
    servers: Sequence[int] = ()  # processes that take part

    def contenders(self, loop: Timed) -> dict[str, Timed]:
        """A loop over ours, and C's."""
        return self._drained(loop, drained)

    def cpu_contenders(self, loop: Timed) -> dict[str, Timed]:
        """The same by the CPU time of all threads of this process: what other processes do hardly changes it."""
        return self._drained(loop, _by_cpu)

    def _drained(self, loop: Timed, how: Callable[[Timed, Callable[[], object]], Timed]) -> dict[str, Timed]:
        loop(_WARM_UP)
        theirs = {"c": how(self.theirs.frames, self.theirs.wait)} if self.theirs else {}
        return {"ours": how(loop, self.device.wait_idle), **theirs}

    def pypi_contenders(self) -> dict[str, Timed]:
        """The package `vulkan`, on a window of glfw where it is one."""
        if not self.pypi:
            return {}
        name = "glfw + vulkan" if self.resize else "PyPI vulkan"
        loops = {how: pypi_swapchain.frames(self.pypi, prebuilt=bool(how)) for how in ("", ", prebuilt")}
        return {f"{name}{how}": drained(loop, self.pypi.wait) for how, loop in loops.items()}


def drained(timed: Timed, wait: Callable[[], object]) -> Timed:
    """With what is left waited for, outside of the time."""

    def loop(n: int) -> float:
        seconds = timed(n)
        wait()
        return seconds

    return loop


def _by_cpu(timed: Timed, wait: Callable[[], object]) -> Timed:
    def loop(n: int) -> float:
        start = process_time()
        timed(n)
        wait()
        return process_time() - start

    return loop


@contextlib.contextmanager
def headless(device: Device, size: Size, plan: Plan, *, present_fences: bool) -> Iterator[Pair]:
    """On headless surfaces; on rings of images where the driver has none."""
    kind = HEADLESS if "VK_EXT_headless_surface" in c_swapchain.extensions(device) else RING
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(device.create_swapchain(vkshare.Headless(*size), present_fences=present_fences))
        theirs = pypi = None
        with _or_note(plan):
            gpu = stack.enter_context(CDevice.open(device))
            theirs, pypi = (
                stack.enter_context(_like(ours, gpu, size, kind=kind, present_fences=present_fences)) for _ in range(2)
            )
        where = "headless" if kind == HEADLESS else "ring"
        yield Pair(where, device, ours, theirs, pypi if kind == HEADLESS and not present_fences else None)


@contextlib.contextmanager
def windows(device: Device, size: Size, plan: Plan, *, present_fences: bool, server: int) -> Iterator[Pair]:
    """On windows of the display that the environment names; C's are made by glfw. `server`: the display's process."""
    import glfw

    with contextlib.ExitStack() as stack:
        window = stack.enter_context(vkshare.Window(*size, "ours"))
        ours = stack.enter_context(device.create_swapchain(window, present_fences=present_fences))
        theirs = pypi = None
        c_window = _glfw_window(stack, size)
        with _or_note(plan):
            gpu = stack.enter_context(CDevice.open(device))

            def make(window: Any) -> CSwapchain:
                surface = _glfw_surface(gpu, window)
                return _like(ours, gpu, size, kind=WINDOW, surface=surface, present_fences=present_fences)

            theirs = stack.enter_context(make(c_window))
            pypi = None if present_fences else stack.enter_context(make(_glfw_window(stack, size)))
        resizes = (lambda to: window.resize(*to)), (lambda to: glfw.set_window_size(c_window, *to))
        yield Pair("Xvfb", device, ours, theirs, pypi, *resizes, (server,))


def in_windows(module: str, what: str, size: Size, adapter: int, plan: Plan) -> list[Row]:
    """`rows_of()` of that module, in a process of its own: glfw belongs to one display for good."""
    try:
        with xvfb() as server:
            environment = {"DISPLAY": server.display, "PYGLFW_LIBRARY_VARIANT": "x11"}
            arguments = (module, size, adapter, server.pid, plan.seconds, plan.pinned_only)
            plan.progress(f"{what} under Xvfb")
            rows, notes = child.call(__name__, "rows_of_windows", *arguments, environment=environment)
    except (NoXvfb, child.ChildFailed) as error:
        plan.note(f"{what}: {error}")
        return []
    for note in notes:
        plan.note(note)
    return list(rows)


def rows_of_windows(
    module: str, size: Size, adapter: int, server: int, seconds: float, pinned_only: bool
) -> tuple[list[Row], list[str]]:
    """For the other process: on the display that its environment names."""
    plan = Plan(seconds=seconds, pinned_only=pinned_only)
    rows: list[Row] = []
    with vkshare.open(vkshare.adapters("vulkan")[adapter], validation=False, name="bench") as device:
        for fences in policies(device, headless=False):
            with windows(device, size, plan, present_fences=fences, server=server) as pair:
                rows += importlib.import_module(module).rows_of(pair, plan, present_fences=fences)
    return rows, plan.notes


def policies(device: Device, *, headless: bool) -> list[bool]:
    """Without present fences, and with them where the driver has them for such targets."""
    has = c_swapchain.extensions(device) if device.adapter.backend == "vulkan" else ()
    needed = {"VK_EXT_swapchain_maintenance1", *(("VK_EXT_headless_surface",) if headless else ())}
    return [False, True] if needed.issubset(has) else [False]


def is_pinned(place: Placement) -> bool:
    """Whether targets are for this place: unpinned, the driver's threads and ours run beside each other by chance."""
    return place.here is not None


# ---- ours ------------------------------------------------------------------------------------------------------------


def clear(swapchain: Swapchain) -> Prepared:
    """Prepared commands that do what C's do."""
    return swapchain.prepare(lambda commands, view: commands.clear(view, RED))


def one_call(swapchain: Swapchain) -> Timed:
    """present_prepared(prepared)."""
    prepared = clear(swapchain)
    return repeated(lambda: swapchain.present_prepared(prepared))


def three_calls(device: Device, swapchain: Swapchain) -> Timed:
    """acquire(), submit(recorded once an image), present()."""
    recorded: dict[int, Any] = {}

    def first(frame: Frame) -> Any:
        recorded[frame.index] = device.record().clear(frame.view, RED)
        return recorded[frame.index]

    def present() -> None:
        frame = swapchain.acquire()
        device.submit(recorded.get(frame.index) or first(frame))
        swapchain.present(frame)

    return repeated(present)


def recorded_anew(device: Device, swapchain: Swapchain) -> Timed:
    """with swapchain.frame(): submit(record())."""

    def present() -> None:
        with swapchain.frame() as frame:
            device.submit(device.record().clear(frame.view, RED))

    return repeated(present)


# ---- theirs ----------------------------------------------------------------------------------------------------------


def _like(ours: Swapchain, gpu: CDevice, size: Size, **how: Any) -> CSwapchain:
    """C's swapchain with the format and the number of images that ours has, and the faster way to clear them."""
    made = gpu.swapchain(size, vk_format=FORMATS[str(ours.format)].vk_format, images=ours.image_count, **how)
    made.clear_the_faster_way()
    return made


def _glfw_window(stack: contextlib.ExitStack, size: Size) -> Any:
    """A window without OpenGL. vkshare.Window has initialised glfw."""
    import glfw

    glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
    window = glfw.create_window(*size, "C", None, None)
    stack.callback(glfw.destroy_window, window)
    return window


def _glfw_surface(gpu: CDevice, window: Any) -> int:
    import glfw

    surface = ctypes.c_uint64()
    result = glfw.create_window_surface(gpu.instance, window, None, ctypes.pointer(surface))
    if result:
        raise c_swapchain.VulkanFailed(f"glfwCreateWindowSurface: VkResult {result}")
    return surface.value


@contextlib.contextmanager
def _or_note(plan: Plan) -> Iterator[None]:
    try:
        yield
    except (compiler.NoCompiler, c_swapchain.VulkanFailed) as error:
        plan.note(f"swapchains in C: {error}")


@contextlib.contextmanager
def failures_noted(plan: Plan, what: str) -> Iterator[None]:
    """A row that cannot be had must not cost the others."""
    try:
        yield
    except (vkshare.VkshareError, TimeoutError, c_swapchain.VulkanFailed) as error:
        plan.note(f"{what}: {type(error).__name__}: {error}")
