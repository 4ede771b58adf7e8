"""The module and its types, and objects whose __init__ never ran."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.native_objects import (
    RGBA8,
    Device,
    Fence,
    List,
    Surface,
    make_surface,
)

from vkshare import _native, errors
from vkshare.core.device_core import DeviceCore
from vkshare.core.fence_core import FenceCore
from vkshare.core.pending_acquire import PendingAcquire
from vkshare.core.surface_core import SurfaceCore
from vkshare.util.event_queue import EventQueue
from vkshare.util.library_calls import lib

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


def test_the_module_tells_its_layout_version_and_slots() -> None:
    assert lib.VKS_LAYOUT_VERSION >= 1
    assert lib.VKS_SLOTS >= 100
    assert isinstance(lib.vks_have_futex_waitv(), bool)
    assert lib.vks_thread_count() >= 0


def test_importing_it_again_gives_the_same_types() -> None:
    before = sys.modules.pop("vkshare._native")
    try:
        import importlib

        again = importlib.import_module("vkshare._native")
        assert again.Device is before.Device
    finally:
        sys.modules["vkshare._native"] = before


@pytest.mark.parametrize("name", ["Device", "Submission", "CommandList", "Fence", "Surface"])
def test_every_type_has_a_docstring_and_weak_references(name: str) -> None:
    kind = getattr(_native, name)
    assert kind.__doc__
    assert kind.__module__ == "vkshare._native"
    assert kind.__weakrefoffset__ > 0
    assert all(member.__doc__ for key, member in vars(kind).items() if not key.startswith("__"))


def members_of(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("__")]


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "_release_to_external": (0,),
    "_acquire_from_external": (0,),
    "_external_begin": (False,),
    "_external_end": (0,),
    "_count_copy": (1,),
    "_notify": (1, EventQueue(), 1),
    "_external_wait": (1,),
    "_join": (7, 0),
    "_finish_releases": (0,),
    "signal": (1,),
    "wait": (1,),
    "is_done": (1,),
    "event_fd": (1,),
    "_set_commands": (0, 0),
    "_set_initial_commands": (0,),
    "_set_drawable": (None,),
    "_set_recorder": (None, 8),
    "_acquire_start": (0,),
    "_set_vulkan": (1, [], print),
}


def use(item: object, name: str) -> None:
    member = getattr(item, name)
    member(*ARGUMENTS.get(name, ()))


@pytest.mark.parametrize(
    "kind",
    [
        _native.Device,
        DeviceCore,
        _native.CommandList,
        _native.Fence,
        FenceCore,
        _native.Surface,
        SurfaceCore,
        EventQueue,
    ],
)
def test_an_object_whose_init_never_ran_refuses_every_use(kind: type) -> None:
    blank = kind.__new__(kind)
    for name in members_of(kind):
        if name in {"_open", "_adopt", "_begin", "_is_compiled"}:
            continue
        with pytest.raises(errors.InvalidCallError, match=r"never initialised|__init__"):
            use(blank, name)
    del blank


def test_types_that_factories_make_cannot_be_made_by_hand() -> None:
    for kind in (_native.Submission, PendingAcquire):
        with pytest.raises(TypeError):
            kind()


def test_init_may_run_once_only(device: Device, fence: Fence, surface: Surface) -> None:
    commands = List(surface)
    event_queue = EventQueue()
    with pytest.raises(errors.InvalidCallError, match="ran already"):
        device.__init__()
    with pytest.raises(errors.InvalidCallError, match="ran already"):
        fence.__init__(device)
    with pytest.raises(errors.InvalidCallError, match="ran already"):
        surface.__init__(device, width=1, height=1, format=RGBA8)
    with pytest.raises(errors.InvalidCallError, match="ran already"):
        _native.CommandList.__init__(commands, device)
    with pytest.raises(errors.InvalidCallError, match="ran already"):
        event_queue.__init__()
    fence.signal(1)
    assert fence.value == 1


def test_an_init_that_runs_itself_again_from_an_argument_is_refused(device: Device) -> None:
    class Again:
        def __index__(self) -> int:
            FenceCore.__init__(fence, device)
            return 0

    fence = Fence.__new__(Fence)
    with pytest.raises(errors.InvalidCallError, match="ran already"):
        fence.__init__(device, Again())
    assert fence.value == 0


def test_a_device_that_is_no_device_is_a_type_error_with_its_name() -> None:
    for make in (Fence, _native.CommandList, lambda other: make_surface(other)):
        with pytest.raises(TypeError, match="device must be a Device"):
            make(object())
        with pytest.raises(errors.InvalidCallError):
            make(Device.__new__(Device))


def test_the_module_is_abi3() -> None:
    assert ".abi3." in _native.__file__
