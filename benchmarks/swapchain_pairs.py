"""Two swapchains on one driver, ours and C's, on targets alike."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import vkshare
from benchmarks import devices, processes, pypi_swapchain
from benchmarks.c_swapchain import HEADLESS, RING, WINDOW, CDevice, CSwapchain, Size
from benchmarks.compiler import CFailed
from benchmarks.measure import Timed, drained, repeated, timed
from benchmarks.plan import Plan
from benchmarks.processes import ChildFailed
from benchmarks.xvfb import NoXvfb, xvfb
from vkshare import Adapter, Device, Frame, Swapchain
from vkshare.formats import FORMATS
from vkshare.present.frame import Prepared
from vkshare.util.handles import as_int

RED = (1.0, 0.0, 0.0, 1.0)
TURN = 10e-3  # seconds: what a turn leaves in flight is little beside it
FAILURES = (vkshare.VkshareError, TimeoutError, CFailed)  # a row that cannot be had must not cost the others
_KINDS = {"Xvfb": WINDOW, "headless": HEADLESS, "ring": RING}
_WARM_UP = 32  # frames: each image's first one is slow, and would make for short turns


@dataclass(frozen=True, slots=True)
class Pair:
    """`theirs` is None without a C compiler."""

    where: str  # for the table
    device: Device
    present_fences: bool
    ours: Swapchain
    theirs: CSwapchain | None
    pypi: CSwapchain | None  # for what people use today, set up by C; None where there is no swapchain
    resize: Callable[[Size], None] | None = None  # has the window system make ours that large, where there is one
    resize_theirs: Callable[[Size], None] | None = None
    servers: Sequence[int] = ()  # processes that take part

    @property
    def how(self) -> str:
        """For the table, with the policy."""
        return f"{self.where}, present fences" if self.present_fences else self.where

    def contenders(self, loop: Timed, *, by_cpu: bool = False) -> dict[str, Timed]:
        """A loop over ours, and C's; or by the CPU time of all threads of this process, which others hardly change."""
        loop(_WARM_UP)
        how = _by_cpu if by_cpu else drained
        theirs = {"c": how(self.theirs.frames, self.theirs.wait)} if self.theirs else {}
        return {"ours": how(loop, self.device.wait_idle), **theirs}

    def pypi_contenders(self) -> dict[str, Timed]:
        """The package `vulkan`, on a window of glfw where it is one."""
        if not self.pypi:
            return {}
        name = "glfw + vulkan" if self.resize else "PyPI vulkan"
        loops = {how: pypi_swapchain.frames(self.pypi, prebuilt=bool(how)) for how in ("", ", prebuilt")}
        return {f"{name}{how}": drained(loop, self.pypi.wait) for how, loop in loops.items()}


def _by_cpu(loop: Timed, wait: Callable[[], object]) -> Timed:
    return timed(lambda n: (loop(n), wait()), process_time)


Rows = Callable[[Plan, Pair], None]
Surfaces = Callable[[Any], Any]  # a WindowSurface of a backend; None: it has none


def run(plan: Plan, adapter: Adapter, size: Size, what: str, rows: Rows) -> None:
    """`rows` of all pairs on that adapter: headless, and in windows under an Xvfb; with and without present fences."""
    _headless(plan, adapter, size, rows)
    with plan.noting(what, NoXvfb, ChildFailed), xvfb() as server:
        plan.progress(f"{what} under Xvfb")
        # glfw belongs to one display for good: in a process of its own.
        environment = {"DISPLAY": server.display, "PYGLFW_LIBRARY_VARIANT": "x11"}
        there = Plan(seconds=plan.seconds, pinned_only=plan.pinned_only)
        plan.take(processes.call(_in_windows, there, adapter.uuid, size, rows, server.pid, environment=environment))


def _headless(plan: Plan, adapter: Adapter, size: Size, rows: Rows) -> None:
    """On headless surfaces; on rings of images where the driver has none."""
    where = "headless" if "VK_EXT_headless_surface" in extensions(adapter) else "ring"
    with devices.open_device(adapter) as device:
        for fences in policies(adapter, headless=True):
            target = vkshare.Headless(*size)
            with _pair(plan, device, fences, where, target, size, lambda backend: backend.headless_surface()) as pair:
                rows(plan, pair)


def _in_windows(plan: Plan, adapter: bytes, size: Size, rows: Rows, server: int) -> Plan:
    """On windows of the display that the environment names. `server`: the display's process."""
    with devices.open_device(adapter) as device:
        for fences in policies(device.adapter, headless=False):
            _in_window(plan, device, fences, size, rows, server)
    return plan


def _in_window(plan: Plan, device: Device, fences: bool, size: Size, rows: Rows, server: int) -> None:
    """C's windows are made by glfw, which vkshare.Window has initialised, without OpenGL."""
    import glfw

    theirs: list[Any] = []
    with vkshare.Window(*size, "ours") as window, contextlib.ExitStack() as stack:

        def surface(backend: Any) -> Any:
            glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
            theirs.append(glfw.create_window(*size, "C", None, None))
            stack.callback(glfw.destroy_window, theirs[-1])
            return backend.glfw_surface(ctypes.addressof(theirs[-1].contents), 0)

        more: dict[str, Any] = {
            "resize": lambda to: window.resize(*to),
            "resize_theirs": lambda to: glfw.set_window_size(theirs[0], *to),
            "servers": (server,),
        }
        with _pair(plan, device, fences, "Xvfb", window, size, surface, **more) as pair:
            rows(plan, pair)


@contextlib.contextmanager
def _pair(
    plan: Plan, device: Device, fences: bool, where: str, target: Any, size: Size, surfaces: Surfaces, **more: Any
) -> Iterator[Pair]:
    """C's swapchain has the format and the number of images that ours has, and the faster way to clear them."""
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(device.create_swapchain(target, present_fences=fences))
        how: dict[str, Any] = {"kind": _KINDS[where], "format": FORMATS[str(ours.format)].vk_format}
        how |= {"wanted_images": ours.image_count, "has_present_fences": fences}

        def c(owner: Any) -> CSwapchain:
            surface = surfaces(owner._backend) if where != "ring" else None
            if surface:
                stack.callback(surface.destroy)
            elif where != "ring":
                raise CFailed("the driver has no such surface")
            made = CSwapchain(CDevice.of(owner), size, surface=as_int(surface and surface.handle), **how)
            stack.enter_context(made).clear_the_faster_way()
            return made

        theirs = pypi = None
        with plan.noting("swapchains in C", *FAILURES):
            owner = stack.enter_context(devices.open_device(device.adapter))  # with a queue of its own
            theirs = c(owner)
            pypi = None if where == "ring" or fences else c(owner)
        yield Pair(where, device, fences, ours, theirs, pypi, **more)


def extensions(adapter: Any) -> frozenset[str]:
    """Return the properties of a Vulkan adapter's driver, and the loader."""
    from vkshare.backends.vulkan.api import NULL, global_functions, text

    found = global_functions().list("vkEnumerateInstanceExtensionProperties", NULL)
    return frozenset(adapter.physical.extensions) | {text(each.extensionName) for each in found}


def policies(adapter: Adapter, *, headless: bool) -> list[bool]:
    """Without present fences, and with them where the driver has them for such targets."""
    has = extensions(adapter) if adapter.backend == "vulkan" else ()
    needed = {"VK_EXT_swapchain_maintenance1", *(("VK_EXT_headless_surface",) if headless else ())}
    return [False, True] if needed.issubset(has) else [False]


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
