"""What swapchains refuse: by its name, in clear words, and without harm to the next call."""

from __future__ import annotations

import copy
import ctypes
import gc
import itertools
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support import headless_swapchains
from support.child_processes import in_child
from support.headless_swapchains import clearing, create, expected, show
from support.peer_processes import Peer

import vkshare as vks
from vkshare import _native
from vkshare.errors import (
    ClosedError,
    DeviceMismatchError,
    InvalidCallError,
    NotOwnerError,
    UnsupportedError,
    VkshareError,
)
from vkshare.present.frame import Prepared
from vkshare.present.swapchain_core import SwapchainCore
from vkshare.testing import assert_images_equal

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")

Open = Callable[..., vks.Device]


def _id(value: object) -> str:
    """Its repr() without addresses: the processes of one run call a test by one name."""
    return re.sub(r"( object)? at 0x[0-9a-f]+", "", repr(value))


@pytest.fixture(scope="module")
def vks_device(vks_adapter: vks.Adapter) -> Iterator[vks.Device]:
    """One for all tests here, which leave it as it was: opening it takes longer than most of them."""
    with vks.open(vks_adapter, name="test") as device:
        yield device


@pytest.fixture
def swapchain(vks_device: vks.Device) -> vks.Swapchain:
    """One that must show frames after whatever the test did to it."""
    return create(vks_device, 16, 12)


def assert_works(swapchain: vks.Swapchain) -> None:
    """The next frames are shown as if nothing had happened."""
    for turn in range(3):
        show(swapchain, clearing(turn, 5))
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(2, 5)))
    swapchain.present_prepared(swapchain.prepare(lambda commands, view: commands.clear(view, (0, 0, 1, 1))))
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 0, 255)))


# ---- creation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -1, 2**31, 2**64, 1.0, "5", None, (1, 2)], ids=repr)
def test_a_headless_size_that_is_none_is_refused(size: Any) -> None:
    error = ValueError if isinstance(size, int) else TypeError
    with pytest.raises(error, match="width"):
        vks.Headless(size, 5)
    with pytest.raises(error, match="height"):
        vks.Headless(5, size)


@pytest.mark.parametrize("name", ["image_count", "frames_in_flight", "retired_limit"])
@pytest.mark.parametrize("count", [0, -1, 65, 2**31, 2**64, 2.0, "3", None], ids=repr)
def test_a_count_that_is_none_is_refused(vks_device: vks.Device, name: str, count: Any) -> None:
    error = ValueError if isinstance(count, int) else TypeError
    with pytest.raises(error, match=name):
        vks_device.create_swapchain(vks.Headless(8, 8), **{name: count})


@pytest.mark.parametrize("mode", ["", "FIFO", "vsync", 2, None, b"fifo", ["fifo"]], ids=repr)
def test_a_present_mode_that_is_none_is_refused(vks_device: vks.Device, mode: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"present_mode.*mailbox"):
        vks_device.create_swapchain(vks.Headless(8, 8), present_mode=mode)
    with create(vks_device) as swapchain:
        with pytest.raises((ValueError, TypeError), match="mailbox"):
            swapchain.present_mode = mode
        assert swapchain.present_mode == "fifo"
        assert_works(swapchain)


@pytest.mark.parametrize("name", ["rgb8", "", 37, b"rgba8unorm", ("rgba8unorm",)], ids=repr)
def test_a_format_that_is_none_is_refused(vks_device: vks.Device, name: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"format.*rgba8unorm"):
        vks_device.create_swapchain(vks.Headless(8, 8), format=name)


@pytest.mark.parametrize("name", ["present_fences", "capture"])
@pytest.mark.parametrize("flag", ["yes", 1, 0.0, []], ids=repr)
def test_a_flag_that_is_none_is_refused(vks_device: vks.Device, name: str, flag: Any) -> None:
    with pytest.raises(TypeError, match=name):
        vks_device.create_swapchain(vks.Headless(8, 8), **{name: flag})


@pytest.mark.parametrize("target", [None, 0, -1, 2**64, 1.5, "window", object(), (8, 8), vks.Headless], ids=_id)
def test_a_target_that_is_none_is_refused(vks_device: vks.Device, target: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="target"):
        vks_device.create_swapchain(target)
    with create(vks_device) as swapchain:
        with pytest.raises((TypeError, ValueError), match="target"):
            swapchain.retarget(target)
        assert_works(swapchain)


@pytest.mark.rule("A29")
@pytest.mark.parametrize(
    "target",
    [5, 0x200007, 2**63, True, np.uint64(7), ctypes.c_uint32(5), ctypes.pointer(ctypes.c_uint64(5))],
    ids=_id,
)
def test_a_number_is_no_target(vks_device: vks.Device, target: Any) -> None:
    """What winId() and winfo_id() give; the driver would read memory there."""
    with create(vks_device) as swapchain:
        for use in (vks_device.create_swapchain, swapchain.retarget):
            with pytest.raises(TypeError, match=r"target must be .*cffi pointer of that type.*ctypes\.c_uint64"):
                use(target)
        assert_works(swapchain)


@pytest.mark.rule("A29")
def test_a_handle_of_another_type_is_no_target(vks_device: vks.Device) -> None:
    if vks_device.backend != "vulkan":
        pytest.skip("there are no Vulkan handles on the CPU backend")
    from vkshare.backends.vulkan.api import ffi

    for target in (ffi.cast("VkInstance", 16), ffi.new("VkSurfaceKHR *"), ffi.cast("uint64_t", 16)):
        with pytest.raises(TypeError, match="target must be"):
            vks_device.create_swapchain(target)


def test_a_vulkan_surface_is_refused_by_a_device_without_vulkan(vks_device: vks.Device) -> None:
    if vks_device.backend == "vulkan":
        pytest.skip("has Vulkan: a wrong handle is the engine's to avoid")
    for target in (ctypes.c_uint64(5), ctypes.c_void_p(5)):
        with pytest.raises(UnsupportedError, match=r"VkSurfaceKHR.*backend='vulkan'"):
            vks_device.create_swapchain(target)
    with create(vks_device) as swapchain:
        with pytest.raises(UnsupportedError, match="VkSurfaceKHR"):
            swapchain.retarget(ctypes.c_uint64(5))
        assert_works(swapchain)


def test_options_are_keywords_and_known(vks_device: vks.Device) -> None:
    with pytest.raises(TypeError):
        vks_device.create_swapchain(vks.Headless(8, 8), 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="vsync"):
        vks_device.create_swapchain(vks.Headless(8, 8), vsync=True)  # type: ignore[call-arg]


def test_a_refused_swapchain_leaves_nothing_behind(vks_device: vks.Device) -> None:
    gc.collect()
    before = len(vks_device._swapchains)
    for _ in range(50):
        with pytest.raises((ValueError, UnsupportedError)):
            vks_device.create_swapchain(vks.Headless(8, 8), format="rgba32float", image_count=17)
        with pytest.raises(ValueError, match="present_mode"):
            vks_device.create_swapchain(vks.Headless(8, 8), present_mode="none")
    gc.collect()
    assert len(vks_device._swapchains) <= before


# ---- closed ----------------------------------------------------------------------------------------------------------


def _uses(swapchain: vks.Swapchain, frame: vks.Frame, prepared: Any) -> list[Callable[[], object]]:
    return [
        swapchain.acquire,
        lambda: swapchain.acquire(0),
        lambda: swapchain.present(frame),
        lambda: swapchain.frame().__enter__(),
        lambda: swapchain.present_prepared(prepared),
        lambda: swapchain.resize(5, 5),
        lambda: swapchain.prepare(print),
        lambda: swapchain.retarget(vks.Headless(5, 5)),
        lambda: setattr(swapchain, "present_mode", "fifo"),
        swapchain.capture,
    ]


def test_a_closed_swapchain_refuses_every_use(swapchain: vks.Swapchain) -> None:
    prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 1, 1, 1)))
    swapchain.present_prepared(prepared)
    frame = swapchain.acquire(5)
    view = frame.view
    uses = _uses(swapchain, frame, prepared)
    swapchain.close()
    swapchain.close()
    for number, use in enumerate(uses):
        with pytest.raises(ClosedError):
            print(number, use())
    for get in (lambda: frame.view, lambda: frame.acquired, lambda: frame.rendered):
        with pytest.raises(VkshareError):
            get()
    with pytest.raises((ClosedError, NotOwnerError)):
        swapchain.device.submit(swapchain.device.record().clear(view, (1, 1, 1, 1)))
    frame.close()
    assert swapchain.statistics().frames == 1
    assert repr(swapchain) == "<vkshare.Swapchain closed>"
    assert repr(frame)
    assert swapchain.is_closed


def test_a_closed_device_refuses_every_use(vks_open: Open) -> None:
    device = vks_open()
    swapchain = create(device, 8, 8)
    prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 1, 1, 1)))
    swapchain.present_prepared(prepared)
    frame = swapchain.acquire(5)
    uses = _uses(swapchain, frame, prepared)
    device.close()
    for use in uses:
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(ClosedError):
        device.create_swapchain(vks.Headless(8, 8))
    assert swapchain.is_closed
    frame.close()
    swapchain.close()
    assert repr(swapchain) == "<vkshare.Swapchain closed>"


# ---- frames ----------------------------------------------------------------------------------------------------------


def test_a_frame_is_presented_once(swapchain: vks.Swapchain) -> None:
    def draw(view: vks.View) -> None:
        swapchain.device.submit(swapchain.device.record().clear(view, (1, 1, 1, 1)))

    frame = swapchain.acquire(5)
    swapchain.present(frame)
    for _ in range(2):
        with pytest.raises(InvalidCallError, match="presented or closed already"):
            swapchain.present(frame)
    frame.close()
    for name in ("view", "acquired", "rendered"):
        with pytest.raises((InvalidCallError, UnsupportedError)):
            draw(getattr(frame, name))
    assert swapchain.statistics().frames == 1
    assert_works(swapchain)


def test_a_closed_frame_is_not_presented(swapchain: vks.Swapchain) -> None:
    frame = swapchain.acquire(5)
    frame.close()
    with pytest.raises(InvalidCallError, match="presented or closed already"):
        swapchain.present(frame)
    assert swapchain.statistics().frames == 0
    assert_works(swapchain)


def test_a_frame_of_another_swapchain_is_not_presented(swapchain: vks.Swapchain) -> None:
    with create(swapchain.device, 16, 12) as other:
        frame = other.acquire(5)
        with pytest.raises(InvalidCallError, match="another swapchain"):
            swapchain.present(frame)
        with pytest.raises(InvalidCallError, match="another swapchain"):
            swapchain._take_semaphores(frame)
        assert not frame.is_closed
        other.present(frame)
        assert_works(other)
    assert_works(swapchain)


def test_a_frame_of_before_a_resize_is_not_presented(swapchain: vks.Swapchain) -> None:
    old = swapchain.acquire(5)
    view = old.view
    swapchain.device.submit(swapchain.device.record().clear(view, (1, 1, 1, 1)))
    swapchain.resize(20, 10)
    new = swapchain.acquire(5)
    with pytest.raises(InvalidCallError, match="before the swapchain was resized"):
        swapchain.present(old)
    with pytest.raises((InvalidCallError, UnsupportedError), match=r"before the swapchain was resized|offscreen"):
        print(old.acquired)
    with pytest.raises(InvalidCallError, match="before the swapchain was resized"):
        print(old.view)
    old.close()
    swapchain.present(new)
    assert_works(swapchain)


def test_a_list_for_an_image_of_before_a_resize_is_refused(swapchain: vks.Swapchain) -> None:
    frame = swapchain.acquire(5)
    commands = swapchain.device.record().clear(frame.view, (1, 1, 1, 1))
    swapchain.device.submit(commands)
    swapchain.resize(20, 10)
    swapchain.present(swapchain.acquire(5))
    with pytest.raises((NotOwnerError, ClosedError)):
        swapchain.device.submit(commands)
    assert_works(swapchain)


def test_a_view_of_before_a_resize_is_refused_and_harms_nothing(peers: Callable[..., Peer]) -> None:
    peer = peers()
    reported = peer.run(headless_swapchains.draw_into_views_of_before_a_resize, peer.device)
    assert all(name in ("NotOwnerError", "ClosedError", "InvalidCallError") for name in reported), reported


@pytest.mark.parametrize("thing", [None, 0, "frame", object(), vks.Frame, vks.Headless(1, 1)], ids=_id)
def test_what_is_no_frame_is_not_presented(swapchain: vks.Swapchain, thing: Any) -> None:
    with pytest.raises(TypeError, match="frame"):
        swapchain.present(thing)
    with pytest.raises(TypeError):
        swapchain.present()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        swapchain.present(swapchain.acquire(5), 5)  # type: ignore[call-arg]
    assert_works(swapchain)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", object(), [], float("-inf")], ids=_id)
def test_a_timeout_that_is_none_is_refused(swapchain: vks.Swapchain, timeout: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="timeout"):
        swapchain.acquire(timeout)
    with pytest.raises((TypeError, ValueError), match="timeout"):
        swapchain.frame(timeout=timeout)
    assert_works(swapchain)


def test_frames_of_a_parent_are_refused_in_a_forked_child(swapchain: vks.Swapchain) -> None:
    prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 1, 1, 1)))
    swapchain.present_prepared(prepared)
    frame = swapchain.acquire(5)
    uses = [*_uses(swapchain, frame, prepared), swapchain.close, lambda: frame.acquired]

    def child() -> None:
        for number, use in enumerate(uses):
            try:
                use()
            except InvalidCallError:
                continue
            except UnsupportedError:
                assert headless_swapchains.is_ring(swapchain)
                continue
            raise AssertionError(f"use {number} was not refused")
        swapchain.statistics()
        repr(swapchain)
        frame.close()
        gc.collect()

    in_child(child)
    swapchain.device.submit(swapchain.device.record().clear(frame.view, (1, 0, 0, 1)))
    swapchain.present(frame)
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(255)))
    assert_works(swapchain)


def test_the_device_of_a_frame_is_the_only_one_that_draws_into_it(swapchain: vks.Swapchain, vks_open: Open) -> None:
    other = vks_open()
    frame = swapchain.acquire(5)
    with pytest.raises(DeviceMismatchError):
        other.submit(other.record().clear(frame.view, (1, 1, 1, 1)))
    swapchain.present(frame)
    assert_works(swapchain)


# ---- the surface of a frame ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["acquired", "presented"])
@pytest.mark.parametrize("name", ["acquire", "acquire on the GPU", "access", "release", "export", "recover", "close"])
def test_the_surface_of_a_frame_is_the_swapchains(swapchain: vks.Swapchain, name: str, state: str) -> None:
    frame = swapchain.acquire(5)
    surface = frame.view.surface
    calls: dict[str, Callable[[], object]] = {
        "acquire": lambda: surface.acquire(0, 0),
        "acquire on the GPU": lambda: surface.acquire(0, mode="gpu"),
        "access": lambda: surface.access().__enter__(),
        "release": lambda: surface.release(1),
        "export": surface.export,
        "recover": surface.recover,
        "close": surface.close,
    }
    if state == "presented":
        swapchain.present(frame)
    with pytest.raises((InvalidCallError, UnsupportedError), match=r"swapchain's|to <vkshare\.Swapchain"):
        calls[name]()
    if state == "acquired":
        swapchain.present(frame)
    assert_works(swapchain)


def test_the_surface_of_a_presented_frame_is_neither_read_nor_written(swapchain: vks.Swapchain) -> None:
    frame = swapchain.acquire(5)
    surface = frame.view.surface
    swapchain.present(frame)
    with pytest.raises(NotOwnerError):
        surface.read()
    with pytest.raises(NotOwnerError):
        surface.write(np.zeros((12, 16, 4), np.uint8))
    with pytest.raises(NotOwnerError):
        swapchain.device.submit(swapchain.device.record().clear(surface, (1, 1, 1, 1)))
    assert_works(swapchain)


# ---- sizes and targets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -1, 2**31, 2**64, 1.0, "5", None], ids=repr)
def test_a_size_that_is_none_is_refused_by_resize(swapchain: vks.Swapchain, size: Any) -> None:
    error = ValueError if isinstance(size, int) else TypeError
    with pytest.raises(error, match="width"):
        swapchain.resize(size, 5)
    with pytest.raises(error, match="height"):
        swapchain.resize(5, size)
    assert_works(swapchain)
    assert swapchain.extent == (16, 12)


def test_a_closed_window_is_no_target(vks_device: vks.Device) -> None:
    class Closed(vks.Window):
        def __init__(self) -> None:
            self._closed = True

    with pytest.raises(ClosedError):
        vks_device.create_swapchain(Closed())
    with create(vks_device) as swapchain:
        with pytest.raises(ClosedError):
            swapchain.retarget(Closed())
        assert_works(swapchain)


# ---- prepared --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [None, 5, "clear", object()], ids=_id)
def test_what_cannot_be_called_is_not_prepared(swapchain: vks.Swapchain, record: Any) -> None:
    with pytest.raises(TypeError, match="record"):
        swapchain.prepare(record)


@pytest.mark.parametrize("thing", [5, "clear", object(), print, Prepared], ids=_id)
def test_what_is_not_prepared_is_not_run(swapchain: vks.Swapchain, thing: Any) -> None:
    with pytest.raises(TypeError, match="prepared"):
        swapchain.present_prepared(thing)
    assert_works(swapchain)


def test_a_record_that_raises_gives_the_frame_back(swapchain: vks.Swapchain) -> None:
    fails = True

    def record(commands: vks.CommandList, view: vks.View) -> None:
        if fails:
            raise KeyError("record")
        commands.clear(view, (0, 1, 0, 1))

    prepared = swapchain.prepare(record)
    for _ in range(3 * swapchain.image_count):
        with pytest.raises(KeyError, match="record"):
            swapchain.present_prepared(prepared)
    fails = False
    swapchain.present_prepared(prepared)
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255)))
    assert swapchain.statistics().frames >= 1
    assert_works(swapchain)


def test_a_record_with_the_wrong_arguments_gives_the_frame_back(swapchain: vks.Swapchain) -> None:
    with pytest.raises(TypeError):
        swapchain.present_prepared(swapchain.prepare(lambda commands: None))  # type: ignore[misc, arg-type]
    assert_works(swapchain)


def test_a_record_that_records_nothing_presents_the_frame(swapchain: vks.Swapchain) -> None:
    swapchain.present_prepared(swapchain.prepare(lambda commands, view: None))
    assert swapchain.statistics().frames == 1
    assert_works(swapchain)


def test_a_record_that_resizes_changes_the_next_frame(swapchain: vks.Swapchain) -> None:
    def record(commands: vks.CommandList, view: vks.View) -> None:
        swapchain.resize(20, 10)
        commands.clear(view, (0, 1, 0, 1))

    prepared = swapchain.prepare(record)
    swapchain.present_prepared(prepared)
    swapchain.present_prepared(prepared)
    assert swapchain.extent == (20, 10)
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255)))
    assert_works(swapchain)


def test_a_record_that_recreates_the_swapchain_under_itself_harms_nothing(peers: Callable[..., Peer]) -> None:
    peer = peers()
    assert peer.run(headless_swapchains.draw_in_a_record_that_resizes, peer.device)


def test_a_record_that_presents_frames_of_its_own_is_recorded(swapchain: vks.Swapchain) -> None:
    inner = swapchain.prepare(lambda commands, view: commands.clear(view, (0, 0, 1, 1)))

    def record(commands: vks.CommandList, view: vks.View) -> None:
        swapchain.present_prepared(inner)
        inner.reset()
        commands.clear(view, (0, 1, 0, 1))

    prepared = swapchain.prepare(record)
    swapchain.present_prepared(prepared)
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255)))
    assert_works(swapchain)


def test_a_record_that_runs_itself_ends_in_an_error_and_not_in_a_crash(swapchain: vks.Swapchain) -> None:
    def record(commands: vks.CommandList, view: vks.View) -> None:
        prepared.reset()
        swapchain.present_prepared(prepared)

    prepared = swapchain.prepare(record)
    with pytest.raises((InvalidCallError, TimeoutError)):
        swapchain.present_prepared(prepared)
    assert_works(swapchain)


def test_a_record_that_resets_its_prepared_is_recorded_all_the_same(swapchain: vks.Swapchain) -> None:
    def record(commands: vks.CommandList, view: vks.View) -> None:
        prepared.reset()
        commands.clear(view, (0, 1, 0, 1))

    prepared = swapchain.prepare(record)
    for _ in range(8):
        swapchain.present_prepared(prepared)
    assert_images_equal(swapchain.capture(), expected(swapchain, clearing(0, 255)))


def test_a_record_that_closes_the_swapchain_ends_in_a_closed_error(swapchain: vks.Swapchain) -> None:
    def record(commands: vks.CommandList, view: vks.View) -> None:
        swapchain.close()

    prepared = swapchain.prepare(record)
    with pytest.raises(VkshareError):
        swapchain.present_prepared(prepared)
    with pytest.raises(ClosedError):
        swapchain.present_prepared(prepared)


def test_a_record_that_closes_the_device_ends_in_a_closed_error(vks_open: Open) -> None:
    device = vks_open()
    swapchain = create(device, 8, 8)
    prepared = swapchain.prepare(lambda commands, view: device.close())
    with pytest.raises(VkshareError):
        swapchain.present_prepared(prepared)
    with pytest.raises(ClosedError):
        swapchain.present_prepared(prepared)


def test_what_was_prepared_for_another_swapchain_is_refused(swapchain: vks.Swapchain) -> None:
    with create(swapchain.device, 16, 12) as other:
        prepared = other.prepare(lambda commands, view: commands.clear(view, (1, 0, 0, 1)))
        other.present_prepared(prepared)
        for frames in ([], headless_swapchains.take_all(other)):
            with pytest.raises(InvalidCallError, match="another swapchain"):
                swapchain.present_prepared(prepared)
            for frame in frames:
                frame.close()
        assert_works(other)
    assert_works(swapchain)


# ---- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", ["swapchain", "frame", "prepared"])
def test_nothing_of_a_swapchain_is_pickled(swapchain: vks.Swapchain, name: str, protocol: int) -> None:
    things = {"swapchain": swapchain, "frame": swapchain.acquire(5), "prepared": swapchain.prepare(print)}
    with pytest.raises(TypeError, match=r"cannot pickle|cannot be pickled"):
        pickle.dumps(things[name], protocol)


def test_nothing_of_a_swapchain_is_copied(swapchain: vks.Swapchain) -> None:
    for thing in (swapchain, swapchain.acquire(5), swapchain.prepare(print)):
        for make in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot"):
                make(thing)


def test_a_headless_target_is_a_value() -> None:
    target = vks.Headless(8, 9)
    assert pickle.loads(pickle.dumps(target)) == copy.copy(target) == vks.Headless(8, 9)
    with pytest.raises(AttributeError):
        target.width = 5  # type: ignore[misc]


# ---- wrong calls of the extension ------------------------------------------------------------------------------------

GARBAGE: tuple[Any, ...] = (None, -1, 0, 2**32, 2**64, 2**200, 1.5, "x", b"x", (), [], {}, object(), int, True)
SMALL: tuple[Any, ...] = tuple(thing for thing in GARBAGE if thing not in (2**32, 2**64, 2**200))  # nor long timeouts
PUBLIC = [name for name in dir(SwapchainCore) if callable(getattr(SwapchainCore, name))]
METHODS = [name for name in PUBLIC if not name.startswith("__")]


def _call(function: Callable[..., object], *arguments: Any, **keywords: Any) -> None:
    """Whatever it answers: it may raise, never crash."""
    try:
        function(*arguments, **keywords)
    except (TypeError, ValueError, OverflowError, AttributeError, LookupError, VkshareError, TimeoutError):
        pass


def test_objects_that_were_never_initialised_are_refused() -> None:
    bare = SwapchainCore.__new__(SwapchainCore)
    for name in METHODS:
        for count in range(4):
            with pytest.raises((TypeError, InvalidCallError)):
                getattr(bare, name)(*[0] * count)
    for kind in (_native.Swapchain, SwapchainCore, _native.Frame):
        thing = kind.__new__(kind)
        for name in dir(thing):
            if not name.startswith("__"):
                _call(getattr, thing, name)
                _call(lambda thing=thing, name=name: getattr(thing, name)())
        repr(thing)
        del thing
    frame = vks.Frame.__new__(vks.Frame)
    for name in ("view", "acquired", "rendered", "swapchain", "index", "width", "is_closed", "is_hidden"):
        _call(getattr, frame, name)
    repr(frame)
    frame.close()
    swapchain = vks.Swapchain.__new__(vks.Swapchain)
    for name in ("extent", "format", "image_count", "device", "is_closed", "present_mode"):
        _call(getattr, swapchain, name)
    del swapchain
    gc.collect()


def test_an_uninitialised_frame_is_refused_by_a_swapchain(swapchain: vks.Swapchain) -> None:
    for kind in (_native.Frame, vks.Frame):
        with pytest.raises((InvalidCallError, TypeError)):
            swapchain.present(kind.__new__(kind))
        with pytest.raises((InvalidCallError, TypeError)):
            swapchain._take_semaphores(kind.__new__(kind))
    prepared = Prepared.__new__(Prepared)
    with pytest.raises((AttributeError, TypeError, InvalidCallError)):
        swapchain.present_prepared(prepared)
    assert_works(swapchain)


def test_garbage_in_constructors_never_crashes(swapchain: vks.Swapchain) -> None:
    device = swapchain.device
    options = {
        "width": 8,
        "height": 8,
        "image_count": 3,
        "frames_in_flight": 2,
        "retired_limit": 4,
        "proof_deadline": 10**9,
        "fence_deadline": 10**9,
    }
    for bad in GARBAGE:
        _call(SwapchainCore, bad, vks.Frame, options)
        _call(SwapchainCore, device, bad, options)
        _call(SwapchainCore, device, vks.Frame, bad)
        _call(_native.Frame, bad, 1, 1)
        _call(_native.Frame, swapchain, bad, 1)
        _call(_native.Frame, swapchain, 1, bad)
        for name in options:
            _call(SwapchainCore, device, vks.Frame, {**options, name: bad})
            if bad is not None:
                with pytest.raises((TypeError, ValueError, OverflowError)):
                    SwapchainCore(device, vks.Frame, options, bad)
    for name in options:
        with pytest.raises(TypeError, match=name):
            SwapchainCore(device, vks.Frame, {key: options[key] for key in options if key != name})
    vulkan = {
        "physical_device": 1,
        "surface": 1,
        "get_capabilities": 1,
        "queue_family": 0,
        "format": 37,
        "color_space": 0,
        "usage": 1,
        "composite_alpha": 1,
        "present_mode": 2,
        "by_fences": 0,
        "has_views": 1,
        "sizes_itself": 1,
        "can_name": 0,
        "modes": (),
    }
    for name in vulkan:
        for bad in (-1, 2**64, 1.5, "x", None, object(), (1,) * 7, ("x",), [1]):
            with pytest.raises((TypeError, ValueError, OverflowError)):
                SwapchainCore(device, vks.Frame, options, {**vulkan, name: bad})
        with pytest.raises(TypeError, match=name):
            SwapchainCore(device, vks.Frame, options, {key: vulkan[key] for key in vulkan if key != name})
    with pytest.raises(InvalidCallError):
        SwapchainCore.__init__(swapchain, device, vks.Frame, options)
    frame = swapchain.acquire(5)
    with pytest.raises(InvalidCallError):
        _native.Frame.__init__(frame, swapchain, 1, 1)
    assert_works(swapchain)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("_retarget", "_set_mode", "_close", "_pin")])
def test_garbage_in_methods_never_crashes(vks_open: Open, name: str) -> None:
    with vks_open() as device:
        swapchain = create(device, 8, 8)
        show(swapchain, clearing(1))
        frame = swapchain.acquire(5)
        method = getattr(swapchain, name)
        numbers = () if name == "acquire" else (15, 16, 2**31 - 1, 2**32, 2**64, 2**200)
        values = (*numbers, *SMALL, frame, swapchain, device, frame.view.surface)
        for count in range(4):
            if count <= 1 or name in ("_image", "_resize"):
                choices: Any = itertools.product(values, repeat=count)
            else:  # the whole product of 3 is too many
                choices = ((bad,) * count for bad in values)
            for arguments in choices:
                if name == "acquire" and arguments == (None,):
                    continue  # which may wait
                _call(method, *arguments)
        _call(method, nonsense=1)
        _call(method, width=1, height=1, image_count=3, index=0, generation=1, surface=None, lend=True, timeout=0)
        swapchain.close()


def test_images_that_are_not_there_are_refused(swapchain: vks.Swapchain) -> None:
    show(swapchain, clearing(1))
    generation = swapchain._counters()["generation"]
    for index, number in ((15, generation), (0, generation + 1), (0, 0), (0, 2**64 - 1)):
        with pytest.raises(InvalidCallError):
            swapchain._image(index, number)
        with pytest.raises(InvalidCallError):
            swapchain._attach(index, number, swapchain.device.create_surface(8, 8))
    for index in (16, -1, 2**32):
        with pytest.raises(ValueError, match="index"):
            swapchain._image(index, generation)
    assert_works(swapchain)


def test_a_surface_of_another_device_or_one_in_use_is_not_attached(swapchain: vks.Swapchain, vks_open: Open) -> None:
    generation = swapchain._counters()["generation"]
    for surface in (vks_open().create_surface(16, 12), swapchain.device.create_surface(16, 12)):
        with surface.access(), pytest.raises((InvalidCallError, DeviceMismatchError)):
            swapchain._attach(0, generation, surface)
    assert_works(swapchain)


def test_hooks_that_raise_give_the_frame_back(swapchain: vks.Swapchain) -> None:
    def hook(frame: vks.Frame) -> None:
        raise KeyError("hook")

    swapchain._acquired_hook = hook
    with pytest.raises(KeyError):
        swapchain.acquire(5)
    swapchain._acquired_hook, swapchain._presenting_hook = None, hook
    frame = swapchain.acquire(5)
    with pytest.raises(KeyError):
        swapchain.present(frame)
    assert not frame.is_closed
    swapchain._presenting_hook = lambda frame: setattr(swapchain, "_presenting_hook", None)
    swapchain.present(frame)
    assert_works(swapchain)


def test_hooks_that_close_end_in_errors(vks_open: Open) -> None:
    for name in ("_acquired_hook", "_presenting_hook"):
        swapchain = create(vks_open(), 8, 8)
        setattr(swapchain, name, lambda frame, swapchain=swapchain: swapchain.close())
        try:
            swapchain.present(swapchain.acquire(5))
        except VkshareError:
            pass
        assert swapchain.is_closed
        with pytest.raises(ClosedError):
            swapchain.acquire(5)


def test_swapchains_frames_and_prepared_can_be_subclassed_and_collected(vks_device: vks.Device) -> None:
    class Mine(vks.Swapchain):
        """With a cycle in it."""

    class MyFrame(vks.Frame):
        """With a __dict__."""

    gc.collect()
    before = len(vks_device._swapchains)
    for _ in range(5):
        swapchain = Mine(vks_device, vks.Headless(8, 8))
        swapchain.itself = swapchain  # type: ignore[attr-defined]
        swapchain.prepared = swapchain.prepare(  # type: ignore[attr-defined]
            lambda commands, view, swapchain=swapchain: commands.clear(view, (1, 0, 0, 1))  # type: ignore[misc]
        )
        swapchain.present_prepared(swapchain.prepared)  # type: ignore[attr-defined]
        assert MyFrame(swapchain, 1, 1).is_hidden
        swapchain.close()
    del swapchain
    gc.collect()
    assert len(vks_device._swapchains) <= before


def test_a_cycle_through_a_frame_is_collected(vks_device: vks.Device) -> None:
    class Mine(vks.Swapchain):
        """An application's own, which keeps its frame."""

    gc.collect()
    before = len(vks_device._swapchains)
    for _ in range(5):
        swapchain = Mine(vks_device, vks.Headless(8, 8))
        swapchain.kept = swapchain.acquire(5)  # type: ignore[attr-defined]
        swapchain.close()
    del swapchain
    gc.collect()
    assert len(vks_device._swapchains) <= before


def test_a_swapchain_that_was_forgotten_is_collected_with_a_warning_or_silently(vks_device: vks.Device) -> None:
    gc.collect()
    before = len(vks_device._swapchains)
    for _ in range(5):
        swapchain = create(vks_device, 8, 8)
        show(swapchain, clearing(1))
        frame = swapchain.acquire(5)
        view = frame.view
        del swapchain, frame
    del view
    gc.collect()
    assert len(vks_device._swapchains) <= before
