"""Faults for tests: a process killed in a known state, a release that comes late, a device that is lost.

A process is killed from outside: its state is read from the shared pages, as `vkshare ps` does it,
so the library needs no code for it. The process is stopped before the state is read for the last
time, and nothing changes between that look and the kill.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vkshare.errors import InvalidCallError

if TYPE_CHECKING:
    from vkshare import Device, Surface

STATES = ("now", "waiting", "owned", "submitted")
_INTERVAL = 0.0005  # seconds between two looks at a process


@dataclass(frozen=True, slots=True)
class Killed:
    """The process that kill() ended, and the state in which it was."""

    pid: int
    at: str
    surface_id: int  # of the page, as `vkshare ps` shows it; 0 for "now"
    key: int  # that it waited for, or of the last release before it owned the surface


def kill(process: Any, at: str = "now", *, surface: Surface | None = None, timeout: float = 10) -> Killed:
    """Ends a process with SIGKILL in a state, and returns when it is dead.

    Parameters
    ----------
    process
        A multiprocessing.Process, a subprocess.Popen, or a pid.
    at
        "now": whatever it does; "waiting": it waits to own a surface; "owned": it owns one; "submitted": work that it
        has announced for a surface has not run.
    surface
        The surface in question, by a handle of this process; None: any that the process shares.
    timeout
        Seconds to wait for the state.

    Returns
    -------
    Killed
        The state.

    Raises
    ------
    ValueError
        An unknown state.
    InvalidCallError
        The process ended before it was in that state.
    TimeoutError
        It was not in that state within the timeout; it still runs.
    """
    if at not in STATES:
        raise ValueError(f"at is {at!r}; allowed are {', '.join(STATES)}")
    pid = process if isinstance(process, int) else process.pid
    pidfd = os.pidfd_open(pid)
    try:
        found = _stopped_in(pid, pidfd, at, _id_of(surface), time.monotonic() + timeout)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [])
    finally:
        os.close(pidfd)
    return found


def _id_of(surface: Surface | None) -> int:
    from vkshare.util import pages

    if surface is None:
        return 0
    fd = surface._page()
    try:
        return int(pages.page_inspect(fd)["id"])
    finally:
        os.close(fd)


def _stopped_in(pid: int, pidfd: int, at: str, surface_id: int, deadline: float) -> Killed:
    """Return the state in which the process was stopped; where it raises, the process goes on."""
    if at == "now":
        return Killed(pid, at, 0, 0)
    while time.monotonic() < deadline:
        if select.select([pidfd], [], [], _INTERVAL)[0]:
            raise InvalidCallError(f"process {pid} ended before it was {at}")
        if _look(pid, at, surface_id) is None:
            continue
        signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
        with suppress(ProcessLookupError):
            if _wait_until_stopped(pid, deadline) and (found := _look(pid, at, surface_id)) is not None:
                return found
            signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    raise TimeoutError(f"process {pid} was not {at} in time; it shares {_summary(pid)}")


def _wait_until_stopped(pid: int, deadline: float) -> bool:
    """Return whether every thread has stopped. SIGSTOP reaches threads that run on other cores a moment later."""
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread ended
            stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
            states = {stat.rpartition(")")[2].split()[0] for stat in stats}
            if states & set("ZX") or not states:
                return False
            if states == {"T"}:
                return True
        time.sleep(_INTERVAL)
    return False


def _look(pid: int, at: str, surface_id: int) -> Killed | None:
    """Return the first surface with which the process is in that state."""
    for page in _surfaces(pid):
        if surface_id in (0, page["id"]):
            for slot in page["slots"]:
                if slot["pid"] == pid and _is_in(page, slot, at):
                    key = slot["waiting_key"] if at == "waiting" else page["key"]
                    return Killed(pid, at, page["id"], key)
    return None


def _is_in(page: dict[str, Any], slot: dict[str, Any], at: str) -> bool:
    if at == "waiting":
        return bool(slot["waiting"])
    if at == "owned":
        return bool(page["state"] == 1 and page["owner_slot"] == slot["slot"])
    return bool(slot["pending_value"])


def _surfaces(pid: int) -> Iterator[dict[str, Any]]:
    from vkshare.util import pages

    for path in pages.page_fds(pid):
        with suppress(OSError):  # it was closed, or the process ended
            page = pages.inspect_path(path)
            if page is not None and page["kind"] == 2:
                yield page


def _summary(pid: int) -> str:
    names = ("free", "owned", "abandoned", "invalid")
    found = [f"{page['width']}x{page['height']} {names[page['state']]}, key {page['key']}" for page in _surfaces(pid)]
    return f"{len(found)} surfaces: {'; '.join(found)}" if found else "no surface"


# ---- late releases -----------------------------------------------------------------------------------------------


class Delay:
    """A method whose calls come late. Made by delay(), which ends it."""

    def __init__(self, method: Callable[..., Any], seconds: float) -> None:
        self.calls = 0
        self.__self__, self.__name__ = getattr(method, "__self__", None), getattr(method, "__name__", "")
        self._method = method
        self._seconds = seconds
        self._over = threading.Event()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Wait, and call the method."""
        self.calls += 1
        self._over.wait(self._seconds)
        return self._method(*args, **kwargs)

    def end(self) -> None:
        """Let the calls that wait go on, and no later call wait. Idempotent."""
        self._over.set()


@contextmanager
def delay(release: Callable[..., Any], seconds: float) -> Iterator[Delay]:
    """Delays every call of a bound method, such as ``surface.release``, inside a ``with`` block.

    The caller's thread sleeps before the call, as the thread of a slow owner would; the object's
    other methods are not delayed. `surface.access()` calls `surface.release`.

    Parameters
    ----------
    release
        The method, of an object that has attributes of its own.
    seconds
        How long each call waits; the end of the block ends the wait.

    Yields
    ------
    Delay
        ``calls`` counts the calls.

    Raises
    ------
    ValueError
        `seconds` is negative.
    """
    owner, name = getattr(release, "__self__", None), getattr(release, "__name__", "")
    if isinstance(owner, ModuleType) or not callable(release) or not hasattr(owner, "__dict__"):
        raise TypeError(f"release must be a bound method, such as surface.release, not {release!r}")
    if not seconds >= 0:
        raise ValueError(f"seconds is {seconds}; allowed are 0 and more")
    before = owner.__dict__.get(name)
    late = Delay(release, seconds)
    setattr(owner, name, late)
    try:
        yield late
    finally:
        late.end()
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


# ---- lost devices ------------------------------------------------------------------------------------------------


def lose(device: Device) -> None:
    """Loses a device, as a driver does that reports VK_ERROR_DEVICE_LOST (rule X21).

    Its waits fail with DeviceLostError, and other parties find its surfaces abandoned. The device is
    to be closed as always.
    """
    device._mark_lost()
