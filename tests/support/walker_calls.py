"""The calls of support/random_walk.py, with their frequency. A call takes any object, in any state."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import pickle
import random
import socket
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

import vkshare as vks
from support.pixel_formats import PLANAR
from support.random_walk import World
from vkshare import vsync
from vkshare.core import watching

FORMATS = (
    *("rgba8unorm", "rgba8unorm-srgb", "bgra8unorm", "r8unorm", "rgba16float", "rgb10a2unorm"),
    *("d16unorm", "d32float"),
    *PLANAR,
)
DEPTH_TESTS = ("less", "less_equal", "greater", "always", "never", "equal")
TILINGS = ("auto", "linear", "optimal")
COLORS = (
    *(None, None, None, vks.Color()),
    vks.Color("bt601", "bt709", "bt601", "full", "center"),
    vks.Color("bt2020", "pq", "bt2020", "limited", "top-left"),
)
CALLS: list[tuple[int, Callable[[World, random.Random], None]]] = []

Function = Callable[[World, random.Random], None]


def weight(number: int) -> Callable[[Function], Function]:
    def note(function: Function) -> Function:
        CALLS.append((number, function))
        return function

    return note


def soon(dice: random.Random) -> float:
    return dice.choice((0.0, 0.0, 0.001, 0.003))


def colour(dice: random.Random) -> tuple[float, ...]:
    return tuple(dice.uniform(-0.1, 1.1) for _ in range(4))


def side(dice: random.Random) -> int:
    return dice.choice((1, 3, 8, 16))


# ---- devices, fences, work ---------------------------------------------------------------------------------------


@weight(4)
def device(world: World, dice: random.Random) -> None:
    if len(world.pools.get("Device", ())) < 2 or dice.random() < 0.1:
        made = vks.open(name="walker", held_limit=8, raster_threads=1)
        world.called["vks.open"] += 1
        world.keep(dice, made, most=3)


@weight(1)
def device_ends(world: World, dice: random.Random) -> None:
    if dice.random() < 0.03:
        world.call(world.any(dice, "Device"), dice.choice(("close", "_mark_lost")))


@weight(6)
def device_state(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Device")
    world.call(mine, "wait_idle", soon(dice))
    world.call(mine, dice.choice(("statistics", "_counters", "_check", "capabilities", "adapter")))
    world.call(mine, "_reap")
    world.call(mine, "_count_copy", 1)


@weight(5)
def fence(world: World, dice: random.Random) -> None:
    made = world.call(world.any(dice, "Device"), "create_fence", dice.randrange(3))
    if made is not None:
        world.keep(dice, made)


@weight(20)
def fence_use(world: World, dice: random.Random) -> None:
    mine, value = world.any(dice, "Fence"), dice.randrange(20)
    for name, arguments in (("signal", (value,)), ("wait", (value, soon(dice))), ("is_done", (value,))):
        world.call(mine, name, *arguments)
    descriptor = world.call(mine, "event_fd", value)
    if descriptor is not None:
        socket.close(descriptor)


@weight(8)
def fence_export(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Fence")
    reported = world.call(mine, "export")
    if reported is not None:
        world.keep(dice, reported)


@weight(6)
def fence_open(world: World, dice: random.Random) -> None:
    made = world.call(world.any(dice, "Device"), "open_fence", world.any(dice, "FenceDescriptor"))
    if made is not None:
        world.keep(dice, made)


@weight(10)
def commands(world: World, dice: random.Random) -> None:
    made = world.call(world.any(dice, "Device"), "record")
    if made is not None:
        world.keep(dice, made, most=8)


@weight(40)
def draw(world: World, dice: random.Random) -> None:
    mine, target, source = (world.any(dice, *kinds) for kinds in (("CommandList",), *[("Surface", "View")] * 2))
    corner = dice.randrange(-4, 8), dice.randrange(-4, 8)
    rect = (*corner, side(dice), side(dice))
    triangle = np.array([[-1, -1, *colour(dice)], [3, -1, *colour(dice)], [-1, 3, *colour(dice)]], np.float32)
    name, arguments = dice.choice(
        (
            ("clear", (target, colour(dice))),
            ("fill_rect", (target, rect, colour(dice))),
            ("copy", (source, target, None, (0, 0))),
            ("blit", (source, target, None, None, dice.choice(("linear", "nearest")))),
            ("composite", (source, target, corner, dice.random(), dice.choice(("premultiplied", "straight")))),
            ("draw_triangles", (target, triangle)),
            (
                "draw_triangles",
                (target, triangle, None, "linear", source, dice.choice(DEPTH_TESTS), dice.random() < 0.5),
            ),
        )
    )
    world.call(mine, name, *arguments)
    world.call(mine, dice.choice(("_reset", "_is_compiled", "is_closed", "device")))


@weight(40)
def submit(world: World, dice: random.Random) -> None:
    lists = [world.any(dice, "CommandList") for _ in range(dice.randrange(3))]
    waits, signals = [], []
    with contextlib.suppress(LookupError):
        if dice.random() < 0.3:
            waits.append((world.any(dice, "Fence"), dice.randrange(30)))
        if dice.random() < 0.2:
            waits.append(world.any(dice, "Submission"))
        if dice.random() < 0.4:
            signals.append(world.any(dice, "Fence"))
    done = world.call(world.any(dice, "Device"), "submit", *lists, waits=waits, signals=signals)
    if done is not None:
        world.keep(dice, done)


@weight(10)
def submission(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Submission")
    world.call(mine, "wait", soon(dice))
    world.call(mine, dice.choice(("is_done", "is_held", "serial", "__repr__")))


# ---- surfaces ----------------------------------------------------------------------------------------------------


@weight(8)
def surface(world: World, dice: random.Random) -> None:
    unowned = dice.choice(("raise", "raise", "discard"))
    options = {"tiling": dice.choice(TILINGS), "unowned": unowned, "color": dice.choice(COLORS)}
    shape = side(dice), side(dice), dice.choice(FORMATS[:2] if dice.random() < 0.7 else FORMATS)
    made = world.call(world.any(dice, "Device"), "create_surface", *shape, **options)
    if made is not None:
        world.keep(dice, made, most=8)


@weight(3)
def foreign(world: World, dice: random.Random) -> None:
    mine, size = world.any(dice, "Device"), side(dice)
    shape = {"width": size, "height": size, "format": dice.choice(FORMATS), "tiling": dice.choice(TILINGS)}
    fd = os.memfd_create("walker", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 4096 * dice.randrange(1, 3))
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    made = world.call(mine, "import_memory", fd, size=4096, offset=dice.choice((0, 0, 64, 4096)), **shape)
    if made is not None:
        world.keep(dice, made, most=8)
    else:
        os.close(fd)
    world.call(mine, "adopt_image", None, **shape)
    pixels = np.zeros((size, dice.choice((size, 1024)), dice.choice((1, 4))), np.uint8)
    made = world.call(mine, "share_array", pixels, copy=dice.random() < 0.3)
    if made is not None:
        world.keep(dice, made, most=8)


@weight(30)
def own(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Surface")
    if dice.random() < 0.15:
        world.call(mine, "acquire", dice.randrange(2), mode="gpu")
    else:
        world.call(mine, "acquire", dice.randrange(2), soon(dice))
    world.call(mine, dice.choice(("is_owned", "generation", "statistics", "is_closed")))


@weight(20)
def release(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Surface")
    world.call(mine, dice.choice(("release", "release", "recover")), dice.choice((0, 1)) if dice.random() < 0.9 else 0)


@weight(30)
def access(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Surface")
    entered = world.call(mine, "access", dice.randrange(2), dice.randrange(2), soon(dice), writable=dice.random() < 0.8)
    with entered as view:
        world.keep(dice, view)
        view_use(world, dice)
        if dice.random() < 0.1:
            raise ValueError("a body that raises")


@weight(20)
def view_use(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "View")
    array = world.call(mine, "array")
    if array is not None and array.flags.writeable and dice.random() < 0.3:
        array[...] = dice.randrange(256)
    world.call(mine, dice.choice(("surface", "shape", "strides", "dtype", "format", "layout", "writable", "__repr__")))
    world.call(mine, dice.choice(("__dlpack__", "__dlpack_device__", "__array__", "pillow", "image", "image_view")))
    with contextlib.suppress(BufferError, vks.UnsupportedError):
        memoryview(mine).release()
    parts = world.call(mine, "planes")
    if parts:
        plane = dice.choice(parts)
        array = world.call(plane, "array")
        if array is not None and array.flags.writeable and dice.random() < 0.3:
            array[...] = dice.randrange(256)
        world.call(plane, dice.choice(("surface", "shape", "strides", "dtype", "format", "writable", "__repr__")))


@weight(12)
def pixels(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Surface")
    array = world.call(mine, "read")
    if array is not None:
        world.call(mine, "write", array)
    world.call(mine, dice.choice(("spec", "width", "format", "tiling", "usage", "shape", "stride", "image", "mutex")))


@weight(8)
def planes(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Surface")
    arrays = world.call(mine, "read_planes")
    if arrays is not None:
        world.call(mine, "write_planes", arrays if dice.random() < 0.9 else arrays[:1])
    world.call(mine, "color")


@weight(2)
def to_linear(world: World, dice: random.Random) -> None:
    made = world.call(world.any(dice, "Surface"), "to_linear")
    if made is not None:
        world.keep(dice, made, most=8)


@weight(6)
def sync(world: World, dice: random.Random) -> None:
    """On the CPU backend alone: what sync() gave must be submitted by an engine, or its surface is never free."""
    mine = world.any(dice, "Surface")
    if mine.device.backend == "cpu":
        world.call(mine, "sync")


@weight(8)
def surface_export(world: World, dice: random.Random) -> None:
    reported = world.call(world.any(dice, "Surface"), "export")
    if reported is not None:
        world.keep(dice, reported)


@weight(8)
def surface_open(world: World, dice: random.Random) -> None:
    of = world.any(dice, "SurfaceDescriptor", "Surface")
    made = world.call(world.any(dice, "Device"), dice.choice(("open_surface", "mirror")), of)
    if made is not None:
        world.keep(dice, made, most=8)


@weight(10)
def buffer(world: World, dice: random.Random) -> None:
    if dice.random() < 0.5:
        usage = dice.choice((("copy",), ("copy", "vertex"), ("storage",)))
        made = world.call(world.any(dice, "Device"), "create_buffer", dice.choice((1, 16, 300, 5000)), usage=usage)
    else:
        made = world.call(world.any(dice, "Device"), "open_buffer", world.any(dice, "BufferDescriptor", "Buffer"))
    if made is not None:
        world.keep(dice, made, most=6)
    reported = world.call(world.any(dice, "Buffer"), "export")
    if reported is not None:
        world.keep(dice, reported)


@weight(12)
def buffer_use(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Buffer")
    name = dice.choice(("acquire", "acquire", "release", "recover"))
    world.call(mine, name, *((0, soon(dice)) if name == "acquire" else (0,)))
    entered = world.call(mine, "access", 0, 0, soon(dice), writable=dice.random() < 0.8)
    if dice.random() < 0.5:
        with entered as view:
            world.keep(dice, view)
            names = "array", "surface", "nbytes", "buffer", "shape", "strides", "dtype", "__dlpack__"
            world.call(view, dice.choice(names))
    data = world.call(mine, "read")
    if data is not None:
        world.call(mine, "write", data)
    world.call(mine, dice.choice(("nbytes", "shape", "usage", "buffer", "statistics", "is_host_visible", "mutex")))
    world.call(mine, dice.choice(("acquire_fd", "close_acquire_fd")), dice.randrange(2))
    if mine.device.backend == "cpu":
        world.call(mine, "sync")


@weight(15)
def buffer_copy(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "CommandList")
    kinds = (("Buffer", "BufferView"), dice.choice((("Surface", "View"), ("Buffer", "BufferView"))))
    source, target = (world.any(dice, *each) for each in (kinds if dice.random() < 0.5 else kinds[::-1]))
    options = {"source_offset": dice.choice((0, 0, 4, 299)), "target_offset": dice.choice((0, 0, 4, 299))}
    world.call(mine, "copy", source, target, **options if dice.random() < 0.5 else {})


@weight(6)
def mutex(world: World, dice: random.Random) -> None:
    mine = world.call(world.any(dice, "Surface"), "mutex")
    if mine is not None:
        world.keep(dice, mine)
        world.call(mine, dice.choice(("next_key", "statistics")))


@weight(3)
def close_something(world: World, dice: random.Random) -> None:
    kinds = [kind for kind in world.pools if kind not in ("Device", "Fence")]
    mine = world.any(dice, dice.choice(kinds))
    if hasattr(mine, "close"):
        world.call(mine, "close")


@weight(10)
def look(world: World, dice: random.Random) -> None:
    """A property of anything, and its repr."""
    mine = world.any(dice, dice.choice(list(world.pools)))
    kind = type(mine)
    names = [name for name in dir(kind) if name[0] != "_" and not callable(getattr(kind, name))]
    if names:
        world.call(mine, dice.choice(names))
    world.call(mine, "__repr__")
    if hasattr(mine, "statistics"):
        world.call(mine, "statistics")


@weight(1)
def collect(world: World, dice: random.Random) -> None:
    if dice.random() < 0.1:
        gc.collect()


# ---- descriptors -------------------------------------------------------------------------------------------------

DESCRIPTORS = ("SurfaceDescriptor", "FenceDescriptor", "QueueDescriptor", "VsyncDescriptor")


@weight(6)
def send(world: World, dice: random.Random) -> None:
    mine = world.any(dice, *DESCRIPTORS)
    here, there = socket.socketpair()
    with here, there:
        world.call(mine, "send", here, 0.1)
        here.close()
        with contextlib.suppress(EOFError):
            got = world.call(type(mine), "recv", there, 0.1)
            if got is not None:
                world.keep(dice, got)


@weight(2)
def copy_of_a_descriptor(world: World, dice: random.Random) -> None:
    mine = world.any(dice, *DESCRIPTORS)
    made = world.call(mine, "duplicate")
    if made is not None:
        world.keep(dice, made)
    world.call(type(mine), "from_bytes", world.call(mine, "to_bytes") or b"", ())


@weight(1)
def pickled(world: World, dice: random.Random) -> None:
    if dice.random() < 0.3:
        data = ForkingPickler.dumps(world.any(dice, *DESCRIPTORS))
        world.keep(dice, pickle.loads(data))


# ---- queues and pipes --------------------------------------------------------------------------------------------


@weight(3)
def queue(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Device")
    shape: dict[str, Any] = {"count": dice.randrange(1, 4), "metadata_size": 8, "single_threaded": dice.random() < 0.1}
    if dice.random() < 0.3:
        made = world.call(vks.SurfaceQueue, "of_buffers", mine, 100, **shape)
        if made is not None:
            world.keep(dice, made)
        return
    world.called["vks.SurfaceQueue"] += 1
    world.keep(dice, vks.SurfaceQueue(mine, 8, 8, **shape))


@weight(8)
def queue_use(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "SurfaceQueue")
    made = world.call(mine, dice.choice(("clone", "export", "statistics")))
    if isinstance(made, (vks.SurfaceQueue, vks.QueueDescriptor)):
        world.keep(dice, made)
    end = world.call(mine, dice.choice(("open_producer", "open_consumer")), world.any(dice, "Device"))
    if end is not None:
        world.keep(dice, end)


@weight(3)
def queue_open(world: World, dice: random.Random) -> None:
    made = world.call(vks.SurfaceQueue, "open", world.any(dice, "Device"), world.any(dice, "QueueDescriptor"))
    if made is not None:
        world.keep(dice, made)


@weight(20)
def enqueue(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Producer")
    data = b"m" * dice.randrange(10)
    surfaces = world.call(mine, "surfaces") or (world.any(dice, "Surface"),)
    world.call(mine, "enqueue", dice.choice(surfaces), data, wait=dice.choice((True, False, "gpu")))
    world.call(mine, "flush", dice.random() < 0.3)
    world.call(mine, dice.choice(("device", "is_closed", "metadata_size", "statistics", "__repr__")))
    if dice.random() < 0.1:
        world.call(mine, "recover", soon(dice))


@weight(20)
def dequeue(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Consumer")
    got = world.call(mine, dice.choice(("dequeue", "dequeue", "dequeue_latest")), soon(dice))
    if got is not None and dice.random() < 0.7:
        world.call(world.any(dice, "Producer"), "enqueue", got[0], wait=False)
    if dice.random() < 0.1:
        world.call(mine, "recover", soon(dice))
    entered = world.call(mine, "frame", soon(dice))
    with entered as frame:
        world.call(frame, "view")


@weight(3)
def pipe(world: World, dice: random.Random) -> None:
    device, count = world.any(dice, "Device"), dice.randrange(1, 4)
    sender: vks.Sender[Any]
    if dice.random() < 0.3:
        world.called["vks.buffer_pipe"] += 1
        sender, descriptor = vks.buffer_pipe(device, 100, count, 8)
    else:
        world.called["vks.pipe"] += 1
        sender, descriptor = vks.pipe(device, 8, 8, count=count, metadata_size=8)
    world.keep(dice, sender)
    world.keep(dice, descriptor)
    world.called["vks.open_receiver"] += 1
    world.keep(dice, vks.open_receiver(world.any(dice, "Device"), descriptor))


@weight(15)
def pipe_use(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Sender", "Receiver")
    options = {"metadata": b"m"} if isinstance(mine, vks.Sender) else {"latest": dice.random() < 0.3}
    with world.call(mine, "frame", timeout=soon(dice), **options) as frame:
        view = world.call(frame, "view")
        if view is not None:
            world.keep(dice, view)
        if dice.random() < 0.1:
            raise ValueError("a body that raises")


# ---- swapchains --------------------------------------------------------------------------------------------------


@weight(3)
def swapchain(world: World, dice: random.Random) -> None:
    target = vks.Headless(side(dice), side(dice))
    options = {"image_count": dice.randrange(1, 4), "present_mode": dice.choice(("fifo", "mailbox", "immediate"))}
    made = world.call(world.any(dice, "Device"), "create_swapchain", target, **options)
    if made is not None:
        world.keep(dice, made, most=3)


@weight(12)
def frame(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Swapchain")
    got = world.call(mine, "acquire", soon(dice))
    if got is not None:
        world.keep(dice, got, most=3)
        view = world.call(got, "view")
        if view is not None:
            world.keep(dice, view)
    if dice.random() < 0.5:
        world.call(mine, "present", world.any(dice, "Frame"))
    else:
        world.call(world.any(dice, "Frame"), dice.choice(("close", "width", "height", "index", "is_closed")))


@weight(8)
def swapchain_use(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Swapchain")
    chosen = dice.randrange(8)
    if chosen == 0:
        world.call(mine, "resize", side(dice), side(dice))
    elif chosen == 1:
        world.call(mine, "capture")
    elif chosen == 2:
        mine.present_mode = dice.choice(("fifo", "mailbox", "immediate"))
    elif chosen == 3:
        made = world.call(mine, "prepare", lambda commands, view: commands.clear(view, colour(dice)))
        if made is not None:
            world.keep(dice, made)
    elif chosen == 4:
        made = world.any(dice, "Prepared")
        world.call(made, "reset")
        world.call(mine, "present_prepared", made, soon(dice))
    elif chosen == 5:
        with world.call(mine, "frame", timeout=soon(dice)) as got:
            world.call(got, "view")
    else:
        world.call(mine, dice.choice(("statistics", "_counters", "extent", "image_count", "color_space", "retarget")))


# ---- vsync -------------------------------------------------------------------------------------------------------


@weight(2)
def display(world: World, dice: random.Random) -> None:
    world.called["vsync.Display"] += 1
    world.keep(dice, vsync.Display("walker", interval=dice.choice((0.001, 0.004))), most=3)


@weight(4)
def dispatcher(world: World, dice: random.Random) -> None:
    made = vsync.VsyncDispatcher(world.any(dice, "Display"))
    world.called["vsync.VsyncDispatcher"] += 1
    world.keep(dice, made)
    world.keep(dice, world.call(made, "observe"))


@weight(10)
def observe(world: World, dice: random.Random) -> None:
    mine = world.any(dice, "Observer")
    world.call(mine, dice.choice(("attend", "rest", "take", "fileno", "dispatcher")))
    world.call(mine, "wait", soon(dice))
    world.call(world.any(dice, "VsyncDispatcher"), "move", world.any(dice, "Display"))
    world.call(world.any(dice, "Display"), "set_interval", dice.choice((0.002, 0.008)))


@weight(3)
def bridge(world: World, dice: random.Random) -> None:
    made = vsync.VsyncBridge(world.any(dice, "VsyncDispatcher"))
    world.called["vsync.VsyncBridge"] += 1
    world.keep(dice, made)
    reported = world.call(made, "export")
    if reported is not None:
        world.keep(dice, reported)
    world.call(world.any(dice, "Display"), "set_source", dice.choice((None, reported)))


@weight(3)
def timer(world: World, dice: random.Random) -> None:
    made = vsync.RefreshTimer(world.any(dice, "Observer"))
    world.called["vsync.RefreshTimer"] += 1
    world.keep(dice, made)
    driver = lambda tick: None  # noqa: E731
    world.call(made, "add", driver, active=dice.random() < 0.5)
    world.call(made, "turn", soon(dice))
    world.call(made, dice.choice(("set_active",)), driver, True)
    world.call(made, "remove", driver)


# ---- event loops -------------------------------------------------------------------------------------------------


@weight(4)
def readiness(world: World, dice: random.Random) -> None:
    world.call(world.any(dice, "Surface"), dice.choice(("acquire_fd", "close_acquire_fd")), dice.randrange(3))
    world.call(world.any(dice, "Consumer", "Receiver"), "fileno")
    world.call(world.any(dice, "Swapchain"), "frame_fd")


# ---- asyncio -----------------------------------------------------------------------------------------------------


@weight(2)
def awaited(world: World, dice: random.Random) -> None:
    things = world.any(dice, "Surface"), world.any(dice, "Fence"), world.any(dice, "Consumer")
    pipe_end = world.any(dice, "Sender", "Receiver")

    async def framed() -> None:
        async with world.call(pipe_end, "frame_async", timeout=0.002) as got:
            world.call(got, "view")

    async def all_of_it() -> None:
        waits = [
            world.call(things[0], "acquire_async", dice.randrange(2), 0.002),
            world.call(things[1], "wait_async", dice.randrange(20)),
            world.call(things[2], "dequeue_async", 0.002),
            world.call(things[2], "dequeue_latest_async", 0.002),
            framed(),
        ]
        tasks = [asyncio.ensure_future(wait) for wait in waits if wait is not None]
        _, left = await asyncio.wait(tasks, timeout=0.005)
        for task in left:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            if isinstance(error, Exception):
                raise error

    asyncio.run(all_of_it())


# ---- names and watchers ------------------------------------------------------------------------------------------

WATCHABLE = ("Surface", "Sender", "Receiver", "Swapchain")


@weight(3)
def publish(world: World, dice: random.Random) -> None:
    name = f"walker {os.getpid()} {dice.randrange(4)}"
    made = world.call(world.any(dice, *WATCHABLE), "publish", name, wants_input=dice.random() < 0.8)
    if made is not None:
        world.keep(dice, made, most=4)
        world.call(made, "events", 0)
    if dice.random() < 0.1:
        world.called["vks.find"] += 1
        vks.find()


@weight(4)
def watch(world: World, dice: random.Random) -> None:
    mine = world.any(dice, *WATCHABLE, "Publication")
    is_name = isinstance(mine, vks.Publication)
    with contextlib.suppress(FileNotFoundError):
        world.called["watching.watch"] += 1
        device, count = world.any(dice, "Device"), dice.randrange(1, 4)
        world.keep(dice, watching.watch(mine.name if is_name else mine, device, count=count))
        if is_name:
            world.called["vks.open_published"] += 1
            world.keep(dice, vks.open_published(mine.name, device), most=8)
