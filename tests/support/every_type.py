"""Uses every type of the package: without an __init__, with one that fails, and with a second one. A child process.

Types and their members are found, not listed: a new type is covered, and must have an entry in
`arguments_of_each_type`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import socket
import sys
from collections.abc import Callable
from typing import Any

import vkshare
from support.present_tracker import PresentTracker
from vkshare import _native, vsync
from vkshare.backends.drawing import Drawable, Recorder
from vkshare.core.device_core import DeviceCore
from vkshare.core.fence_core import FenceCore
from vkshare.core.queue_ends import Consumer, Producer
from vkshare.core.surface_core import SurfaceCore
from vkshare.errors import InvalidCallError
from vkshare.present.swapchain_core import SwapchainCore
from vkshare.server.server_poll import ServerPoll
from vkshare.server.work_ring import WorkRing
from vkshare.util import pages
from vkshare.util.event_queue import EventQueue
from vkshare.util.library_calls import LibraryObject, cell_capsule, ffi, lib, make, pointer
from vkshare.vsync.descriptor import BridgeEnd
from vkshare.vsync.display_core import DisplayCore

# Python's own entries of a class that make no call into it, or that make another class.
LEFT_OUT = {"__class__", "__new__", "__init__", "__init_subclass__", "__subclasshook__", "__getattribute__", "__dict__"}
# Kinds of the standard library, which lose an exception of their own where their __init__ did not run.
NOT_OURS = (BaseException, socket.socket)
OPTIONS = {
    "width": 8,
    "height": 8,
    "image_count": 2,
    "frames_in_flight": 2,
    "retired_limit": 2,
    "proof_deadline": 1,
    "fence_deadline": 1,
}
MOST_ARGUMENTS = 9  # VKPY_MAX_PARAMETERS


def native_types() -> dict[str, type]:
    return {name: kind for name, kind in vars(_native).items() if isinstance(kind, type)}


def public_types() -> dict[str, type]:
    """The classes of all modules of the package that can be imported here, by their full names."""
    found: dict[str, type] = {}
    for module in pkgutil.walk_packages(vkshare.__path__, "vkshare."):
        if any(part in module.name for part in ("__main__", "cli", "demos", "testing", "interop", "_native")):
            continue
        try:
            members = vars(importlib.import_module(module.name))
        except (ImportError, OSError):
            continue  # no Vulkan loader
        for kind in members.values():
            if isinstance(kind, type) and kind.__module__ == module.name and not issubclass(kind, NOT_OURS):
                found[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return found


def arguments_of_each_type() -> dict[str, Callable[[], tuple[Any, ...]]]:
    """What each native type is made of."""
    from support.native_objects import Device

    name = ffi.new("char[]", b"")
    device_info = ffi.new("vks_device_info *", {"name": name})

    def kept(kind: str, create: Callable[..., int], *arguments: Any) -> object:
        keep.append(cell := make(kind, kind, create, *arguments))
        return cell_capsule(kind, cell)

    def queue(end: int) -> tuple[Any, ...]:
        device, page, surfaces = parts_of_a_queue()
        handles = [surface._pointer for surface in surfaces]
        owner = pointer("vks_device *", device)
        return device, kept("vks_queue", lib.vks_queue_open, owner, page, end, handles, 1), surfaces

    def of_a_device(kind: str, create: Callable[..., int], *arguments: Any) -> tuple[Any, ...]:
        device = Device()
        return device, kept(kind, create, pointer("vks_device *", device), *arguments)

    def swapchain() -> tuple[Any, ...]:
        device = Device()
        info = ffi.new("vks_swapchain_info *", {**OPTIONS, "device": pointer("vks_device *", device)})
        return device, kept("vks_swapchain", lib.vks_swapchain_create, info), _native.Frame

    return {
        "Device": lambda: (kept("vks_device", lib.vks_device_create, device_info),),
        "CommandList": lambda: (Device(),),
        "Recording": lambda: (Device(),),
        "Fence": lambda: of_a_device("vks_fence", lib.vks_fence_create, 0),
        "Surface": lambda: of_a_device("vks_surface", lib.vks_surface_create, ffi.new("vks_surface_info *")),
        "ArrayBuffer": tuple,
        "Swapchain": swapchain,
        "Frame": lambda: (_native.Swapchain(*swapchain()), 8, 8),
        "Producer": lambda: queue(lib.VKS_PRODUCER),
        "Consumer": lambda: queue(lib.VKS_CONSUMER),
    }


def parts_of_a_queue() -> tuple[Any, int, tuple[Any, ...]]:
    from support.native_objects import RGBA8, Device, make_surface

    device = Device()
    page = os.fdopen(pages.queue_page_make(8, 8, RGBA8, 1, 0, 7, False, 0))
    surface = make_surface(device)
    surface._join(7, 0)
    keep.append(page)
    return device, page.fileno(), (surface,)


def arguments_of_core_types() -> dict[type, tuple[Any, ...]]:
    """What each class is made of whose native base takes an object of the C library."""
    from support.native_objects import HEIGHT, RGBA8, STRIDE, WIDTH, Device

    surface = {"width": WIDTH, "height": HEIGHT, "format": RGBA8, "stride": STRIDE}
    return {
        FenceCore: (Device(),),
        SurfaceCore: (Device(), {**surface, "pixels": bytearray(HEIGHT * STRIDE)}),
        Producer: (None, *parts_of_a_queue()),
        Consumer: (None, *parts_of_a_queue()),
    }


def arguments_of_library_types() -> dict[type, tuple[Any, ...]]:
    """What each class over an object of vkshare._library is made of."""
    display = vsync.Display()
    dispatcher = vsync.VsyncDispatcher(display)
    bridge = vsync.VsyncBridge(dispatcher)
    keep.extend((display, bridge))
    return {
        DisplayCore: (16_666_667, 1, False),
        vsync.VsyncDispatcher: (display,),
        vsync.Observer: (dispatcher,),
        vsync.VsyncBridge: (dispatcher,),
        DeviceCore: (),
        SwapchainCore: (DeviceCore(), _native.Frame, OPTIONS),
        EventQueue: (),
        WorkRing: (EventQueue(), 1),
        ServerPoll: (),
        Drawable: ({"width": 8, "height": 8, "format": 3, "usage": 1},),
        PresentTracker: (),
        BridgeEnd: (DisplayCore(16_666_667, 1, False), bridge._page),
    }


keep: list[Any] = []


BY_KEYWORD = {"SurfaceCore", "Drawable"}
WITHOUT_INIT = {"ArrayBuffer"}  # object's own, which may run as often as it likes


class Prober:
    """Calls members with arguments of every kind."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.null = os.open(os.devnull, os.O_RDWR)
        self.calls = 0

    def junk(self) -> list[Any]:
        """Numbers that are open files here are left out, but for 0: some calls take files over."""
        kinds: list[Any] = [kind for kind in native_types().values() if kind.__name__ != "Submission"]
        return [
            None,
            *(0, -1, 7000, 2**32, 2**63, 2**64 - 1, 2**64, 0.5, float("nan"), False),
            *("", "gpu", b"", b"bytes", bytearray(4096), (), (0, 1), [], [0], {}, OPTIONS, object(), len),
            *(kind.__new__(kind) for kind in kinds),
        ]

    def arguments(self) -> list[tuple[Any, ...]]:
        junk = self.junk()
        pairs = [tuple(self.dice.choice(junk) for _ in range(n)) for n in range(MOST_ARGUMENTS + 1)]
        return [(), *((item,) for item in junk), *pairs]

    def call(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """What it gave, or the exception: the interpreter itself must survive, and no exception may be lost."""
        self.calls += 1
        try:
            return function(*arguments, **keywords)
        except Exception as error:
            return error
        finally:
            os.dup2(self.null, 0)

    def use(self, item: Any, *, thoroughly: bool) -> None:
        """Each member: read and called; thoroughly: written and deleted too, and called with more."""
        for name in sorted(set(dir(type(item))) - LEFT_OUT):
            where(type(item), name)
            member = self.call(getattr, item, name)
            if thoroughly:
                self.call(setattr, item, name, None)
                self.call(delattr, item, name)
            if callable(member) and not isinstance(member, Exception):
                for arguments in self.arguments() if thoroughly else [()]:
                    self.call(member, *arguments)
        for function in (repr, str, hash, bool, len, iter, memoryview, dir):
            where(type(item), function.__name__)
            self.call(function, item)


def where(kind: type, name: str) -> None:
    """The last line before a crash names the member."""
    sys.stderr.write(f"\r{kind.__module__}.{kind.__name__}.{name}\x1b[K")


def without_init(prober: Prober, kind: type, *, thoroughly: bool) -> None:
    item = prober.call(kind.__new__, kind)
    if not isinstance(item, Exception):
        prober.use(item, thoroughly=thoroughly)


def with_a_failed_init(prober: Prober, kind: type) -> None:
    for arguments in prober.arguments():
        item = prober.call(kind.__new__, kind)
        if isinstance(item, Exception):
            return
        error = prober.call(kind.__init__, item, *arguments)  # type: ignore[misc]
        prober.call(repr, item)
        if isinstance(error, Exception) and len(arguments) in (0, 3):
            prober.use(item, thoroughly=False)


def with_a_second_init(prober: Prober, name: str, kind: type, needed: tuple[Any, ...]) -> None:
    """With the same arguments, and with any others."""
    keywords = needed[-1] if name in BY_KEYWORD else {}
    needed = needed[:-1] if name in BY_KEYWORD else needed
    item = kind(*needed, **keywords)
    keep.append(item)  # an unclosed one warns
    before = repr(item)
    error = prober.call(kind.__init__, item, *needed, **keywords)  # type: ignore[misc]
    assert isinstance(error, InvalidCallError) or name in WITHOUT_INIT, f"{name}.__init__ ran twice: {error!r}"
    for arguments in prober.arguments():
        error = prober.call(kind.__init__, item, *arguments)  # type: ignore[misc]
        assert isinstance(error, Exception) or name in WITHOUT_INIT, f"{name}.__init__{arguments} ran twice"
    assert repr(item) == before


def main() -> None:
    lost: list[Any] = []
    sys.unraisablehook = lambda reported: lost.append((reported.object, reported.exc_value))
    seed = int(sys.argv[1])
    prober = Prober(seed)
    natives, needed = native_types(), arguments_of_each_type()
    made = set(needed) | {"Submission"}
    assert set(natives) == made, f"arguments_of_each_type() lacks {set(natives) - made}"
    for name, kind in natives.items():
        without_init(prober, kind, thoroughly=True)
        with_a_failed_init(prober, kind)
        if name in needed:
            with_a_second_init(prober, name, kind, needed[name]())
    for kind in arguments_of_core_types():
        without_init(prober, kind, thoroughly=True)
    for kind, arguments in {**arguments_of_core_types(), **arguments_of_library_types()}.items():
        with_a_failed_init(prober, kind)
        with_a_second_init(prober, kind.__name__, kind, arguments)
    assert not {*LibraryObject.__subclasses__()} - {*arguments_of_library_types(), Recorder}  # it needs a VkDevice
    public = public_types()
    for kind in public.values():
        without_init(prober, kind, thoroughly=False)
    sys.stderr.write("\n")
    assert not lost, f"exceptions that went nowhere: {lost[:3]}"
    print(f"{len(natives)} native types, {len(public)} classes, {prober.calls} calls")


if __name__ == "__main__":
    main()
