"""The device of the C core: its creation, its state and its waits. vkshare._native has submit()."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vkshare import _native
from vkshare.util import arguments
from vkshare.util.library_calls import NotInitialised, cell_capsule, check, ffi, fields, lib, make, pointer, wait

_U64 = 2**64 - 1


class DeviceCore(_native.Device):
    """One queue. `vulkan`: the arguments of _vulkan_info(), ints where C has handles; None: the CPU backend."""

    _name: Any = NotInitialised()

    def __init__(
        self,
        *,
        name: str = "",
        held_limit: int = 0,
        raster_threads: int = 0,
        vulkan: Mapping[str, Any] | None = None,
    ) -> None:
        arguments.instance("name", name, str)
        cell: Any = None  # the first local: without an owner, the device ends before its lock
        text = ffi.new("char[]", name.encode())
        vulkan_info, lock = (ffi.NULL, None) if vulkan is None else _vulkan_info(**vulkan)
        limit = arguments.integer("held_limit", held_limit, 0, 2**32 - 1)
        threads = arguments.integer("raster_threads", raster_threads, 0, 1024)
        info = ffi.new("vks_device_info *", (text, limit, threads, vulkan_info))
        cell = make("vks_device", "Device", lib.vks_device_create, info)
        super().__init__(cell_capsule("vks_device", cell), lock)
        self._name = name

    @property
    def _core(self) -> Any:
        return pointer("vks_device *", self)

    @property
    def name(self) -> str:
        """The name that shared pages show."""
        return str(self._name)

    @property
    def is_lost(self) -> bool:
        """Whether the driver has reported the loss of the device."""
        return bool(lib.vks_device_state(self._core) == lib.VKS_DEVICE_LOST)

    @property
    def _completed(self) -> int:
        """The serial of the last batch that has run."""
        return int(lib.vks_device_completed(self._core))

    def wait_idle(self, timeout: float | None = None) -> None:
        """Waits until everything submitted before, held work too, has run; TimeoutError after `timeout` seconds.

        Objects that were closed while that work used them are freed then, with their fds.
        """
        core = self._core
        status = wait(lambda deadline: lib.vks_device_wait_idle(core, deadline), timeout)
        check(status, "Device.wait_idle", timeout)
        self._reap()

    def _mark_lost(self) -> None:
        """Treat the device as lost from now on."""
        lib.vks_device_mark_lost(self._core)

    def _count_copy(self, nbytes: int) -> None:
        """Add to copied_bytes."""
        lib.vks_device_count_copy(self._core, nbytes)

    def _counters(self) -> dict[str, int]:
        """Return vks_device_statistics."""
        out = ffi.new("vks_device_statistics *")
        lib.vks_device_get_statistics(self._core, out)
        return fields(out)


def _vulkan_info(
    *,
    get_device_proc_addr: int,
    device: int,
    queue: int,
    transfer_queue: int = 0,
    export_timelines: bool = False,
    max_timeline_difference: int = 0,
    is_adopted: bool = False,
    **lock: Any,
) -> tuple[Any, object]:
    """Return a vks_vulkan_info, and what its lock needs alive; `lock`: the arguments of _queue_lock()."""
    locks, kept = _queue_lock(**lock)
    proc_addr = arguments.integer("get_device_proc_addr", get_device_proc_addr, 1, _U64)
    values = {
        "get_device_proc_addr": ffi.cast("void *", proc_addr),
        "device": arguments.integer("device", device, 1, _U64),
        "queue": arguments.integer("queue", queue, 1, _U64),
        "transfer_queue": transfer_queue,
        "export_timelines": export_timelines,
        "max_timeline_difference": max_timeline_difference,
        "is_adopted": is_adopted,
    }
    return ffi.new("vks_vulkan_info *", values | locks), kept


def _queue_lock(lock_queue: Any = None, unlock_queue: Any = None, lock_user: int = 0) -> tuple[dict[str, Any], object]:
    """Return the lock's fields of vks_vulkan_info, and what they need alive, or None.

    The lock is a pair of Python callables, or of addresses of C functions, which are called with
    `lock_user`.
    """
    pair = {"lock_queue": lock_queue, "unlock_queue": unlock_queue}
    missing = [name for name, function in pair.items() if function is None]
    if len(missing) == 1:
        raise ValueError("lock_queue and unlock_queue come together: give both or neither")
    if missing:
        return {}, None
    if not callable(lock_queue) and not callable(unlock_queue):
        addresses = {name: arguments.integer(name, address, 1, _U64) for name, address in pair.items()}
        functions = {name: ffi.cast("void (*)(void *)", address) for name, address in addresses.items()}
        user = arguments.integer("lock_user", lock_user, 0, _U64)
        return functions | {"lock_user": ffi.cast("void *", user)}, None
    for name, function in pair.items():
        if not callable(function):
            raise TypeError(f"{name} must be a callable, as the other one is")
    expected = ffi.gc(ffi.new("int *"), lib.forget_queue_lock)
    lib.expect_queue_lock(expected)
    kept = (lock_queue, unlock_queue, expected)
    functions = {name: ffi.addressof(lib, name) for name in pair}
    return functions | {"lock_user": ffi.cast("void *", id(kept))}, kept
