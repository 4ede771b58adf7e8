"""The Vulkan layer of tests/faults/layer: built once, put before the driver of this run, commanded from Python.

::

    def body(layer: FaultLayer, n: int) -> str:        # in a test module, at top level; runs in a process of its own
        layer.fail("vkQueuePresentKHR", n, "OUT_OF_DATE")
        ...
        return layer.live()

    def test_something() -> None:
        live = run_with_faults(body, 3)

tests/faults/layer/faults.h describes what the layer can do; FaultLayer has a method for each of its statements. The
layer's state belongs to the process: many runs in one process begin with reset() each.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from support import forked_calls
from support.fault_build import LIBRARY, environment

__all__ = ["ChildDied", "Event", "FaultLayer", "Object", "Violation", "environment", "run_with_faults"]

T = TypeVar("T")
S = TypeVar("S", bound=ctypes.Structure)


# ---- commanding it -------------------------------------------------------------------------------------------------


class _Count(ctypes.Structure):
    _fields_ = [("type", ctypes.c_char * 40), ("live", ctypes.c_uint64), ("peak", ctypes.c_uint64),
                ("created", ctypes.c_uint64)]  # fmt: skip


class _Calls(ctypes.Structure):
    _fields_ = [("entry", ctypes.c_char * 56), ("calls", ctypes.c_uint64), ("failed", ctypes.c_uint64)]


class _Object(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_uint64), ("serial", ctypes.c_uint64), ("created", ctypes.c_uint64),
                ("type", ctypes.c_char * 40), ("name", ctypes.c_char * 40)]  # fmt: skip


class _Event(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint64), ("ns", ctypes.c_uint64), ("object", ctypes.c_uint64),
                ("serial", ctypes.c_uint64), ("value", ctypes.c_uint64), ("group", ctypes.c_uint64),
                ("result", ctypes.c_int32), ("thread", ctypes.c_uint32), ("what", ctypes.c_char * 16),
                ("type", ctypes.c_char * 24), ("name", ctypes.c_char * 40)]  # fmt: skip


class _Violation(ctypes.Structure):
    _fields_ = [("event", ctypes.c_uint64), ("object", ctypes.c_uint64), ("serial", ctypes.c_uint64),
                ("proven_by_idle", ctypes.c_uint32), ("proven_by_order", ctypes.c_uint32), ("name", ctypes.c_char * 40),
                ("text", ctypes.c_char * 160)]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; `what` is create, destroy, name, submit, wait, signal, fence, present, acquire, release,
    ready, reset, retire, idle, fault, lost or violation (tests/faults/layer/events.c says what each means)."""

    number: int
    ns: int  # CLOCK_MONOTONIC
    what: str
    type: str  # of the object: "semaphore", ...
    object: int  # its handle
    serial: int  # tells objects apart that had the same handle
    name: str  # its debug name, also in the events before it was given one
    value: int  # image index, timeline value, number of the submit
    group: int  # the same for all of one submit, acquire or present; 0: of none
    result: int
    thread: int


@dataclass(frozen=True, slots=True)
class Object:
    """Something that is alive."""

    type: str
    handle: int
    serial: int
    name: str
    created: int  # CLOCK_MONOTONIC ns


@dataclass(frozen=True, slots=True)
class Violation:
    """A use that Vulkan forbids, or one that it may allow and our rules do not: `proven_by_idle`, only an idle wait
    speaks for it (A17); `proven_by_order`, only what is queued before it, and has yet to run (A1)."""

    text: str
    name: str
    object: int
    serial: int
    event: int
    proven_by_idle: bool
    proven_by_order: bool


class FaultLayer:
    """The layer of this process. Any number of these; they command the same layer, from any thread, at any time.

    Entries are named as Vulkan's functions; results as ``"OUT_OF_DATE"``, ``"VK_ERROR_DEVICE_LOST"`` or the number.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(LIBRARY))  # the one that the loader loads
        for name in ("live", "called", "objects", "violations"):
            function = getattr(self._library, f"vks_faults_{name}")
            function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_size_t
        self._library.vks_faults_events.argtypes = (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)
        self._library.vks_faults_events.restype = ctypes.c_size_t

    # ---- rules

    def control(self, statements: str) -> None:
        """Runs statements of the layer's language. ValueError says what is wrong with them."""
        error = ctypes.create_string_buffer(200)
        if self._library.vks_faults_control(statements.encode(), error, ctypes.c_size_t(len(error))) != 0:
            raise ValueError(f"{statements!r}: {error.value.decode()}")

    def reset(self) -> None:
        """Forgets rules, counters, events and violations. What is alive stays counted."""
        self._library.vks_faults_reset()

    def fail(
        self,
        entry: str,
        nth: int = 1,
        result: str | int = "OUT_OF_HOST_MEMORY",
        count: int = 1,
        *,
        every: int = 1,
        after: bool | None = None,
        sticky: bool = False,
        idle: bool = True,
    ) -> None:
        """From now on the calls nth, nth + every, ... fail, `count` of them (0: for ever).

        `after`: whether the driver is called all the same; None: as the specification has it for that result.
        `sticky`: OUT_OF_DATE stays with the swapchain, SURFACE_LOST with the surface. `idle`: a device that is lost
        finishes its work first.
        """
        text = f"fail {entry} {result} nth={nth} count={count} every={every} sticky={sticky:d} idle={idle:d}"
        self.control(text + ("" if after is None else f" after={after:d}"))

    def delay_fences(self, ms: int, kind: str = "fences", *, nth: int = 1, count: int = 0) -> None:
        """Fences look pending for `ms` longer. kind: submit, present, acquire or fences (all)."""
        self.control(f"delay {kind} {ms} nth={nth} count={count}")

    def withhold_fences(self, kind: str = "fences", *, nth: int = 1, count: int = 0) -> None:
        """Fences look pending until release(); with nth=1 and count=0 also those that are pending now."""
        self.control(f"withhold {kind} nth={nth} count={count}")

    def withhold_semaphores(self) -> None:
        """The host sees no progress of any timeline, until release(); the queues do."""
        self.control("withhold semaphores")

    def release(self) -> None:
        """Ends every delay and withholding."""
        self.control("release")

    def force_images(self, count: int = 0, *, minimum: int | None = None, maximum: int | None = None) -> None:
        """Swapchains have exactly `count` images (0: what the driver gives); reported limits (maximum 0: none)."""
        parts = [f"count={count}"]
        parts += [f"min={minimum}"] if minimum is not None else []
        parts += [f"max={maximum}"] if maximum is not None else []
        self.control("images " + " ".join(parts))

    def force_extent(
        self,
        current: tuple[int, int] | None = None,
        *,
        minimum: tuple[int, int] | None = None,
        maximum: tuple[int, int] | None = None,
        undefined: bool = False,
    ) -> None:
        """Reported extents of surfaces; `undefined`: currentExtent is 0xFFFFFFFF."""
        given = {"current": current, "min": minimum, "max": maximum}
        parts = [f"{name}={size[0]}x{size[1]}" for name, size in given.items() if size is not None]
        self.control("extent " + " ".join(parts + (["current=undefined"] if undefined else [])))

    def force_modes(self, *modes: str) -> None:
        """Of the present modes that there are only these are reported: fifo, fifo_relaxed, mailbox, immediate."""
        self.control(f"modes {','.join(modes)}")

    def hide_extension(self, name: str) -> None:
        """A device extension is not there. For an instance extension: ``run_with_faults(faults="hide ...",
        implicit=True)``."""
        self.control(f"hide {name}")

    def log(self, on: bool) -> None:
        """Whether events are recorded; they are unless told otherwise."""
        self.control(f"log {'on' if on else 'off'}")

    # ---- what it saw

    def live(self) -> dict[str, int]:
        """How many objects of each type are alive; only types that have any."""
        return {c.type.decode(): c.live for c in self._all(_Count, "live") if c.live}

    def peak(self) -> dict[str, int]:
        """The most that were alive at once since reset()."""
        return {c.type.decode(): c.peak for c in self._all(_Count, "live") if c.peak}

    def created(self) -> dict[str, int]:
        """How many were made since reset()."""
        return {c.type.decode(): c.created for c in self._all(_Count, "live") if c.created}

    def objects(self, type: str | None = None) -> list[Object]:
        """What is alive, the oldest first."""
        found = [Object(o.type.decode(), o.handle, o.serial, _text(o.name), o.created)
                 for o in self._all(_Object, "objects")]  # fmt: skip
        return [o for o in found if type in (None, o.type)]

    def calls(self) -> dict[str, int]:
        """How often each entry was called since reset(); only those that were."""
        return {c.entry.decode(): c.calls for c in self._all(_Calls, "called") if c.calls}

    def failed(self) -> dict[str, int]:
        """How often each entry was answered by a rule, or by a device that is lost."""
        return {c.entry.decode(): c.failed for c in self._all(_Calls, "called") if c.failed}

    def events(self, first: int = 0) -> list[Event]:
        """What happened since reset(), from event number `first` on; the layer keeps the last 32768."""
        room = self._library.vks_faults_events(first, None, 0) + 64
        array = (_Event * room)()
        n = min(room, self._library.vks_faults_events(first, array, room))
        names = {e.serial: _text(e.name) for e in array[:n] if e.name and e.serial}
        return [Event(e.number, e.ns, e.what.decode(), e.type.decode(), e.object, e.serial,
                      names.get(e.serial, _text(e.name)), e.value, e.group, e.result, e.thread)
                for e in array[:n]]  # fmt: skip

    def violations(self, *, idle_is_proof: bool = False, order_is_proof: bool = False) -> list[Violation]:
        """What was done that Vulkan, or our rules, forbid.

        `idle_is_proof` leaves out those of presents that an idle wait followed: all that can be had for the last
        presents of a swapchain without present fences. `order_is_proof` leaves out present semaphores that are
        signalled again behind a wait for the image's next acquire, as many engines do it.
        """
        found = [
            Violation(
                _text(v.text),
                _text(v.name),
                v.object,
                v.serial,
                v.event,
                bool(v.proven_by_idle),
                bool(v.proven_by_order),
            )
            for v in self._all(_Violation, "violations")
        ]
        return [
            v for v in found if not (idle_is_proof and v.proven_by_idle) and not (order_is_proof and v.proven_by_order)
        ]

    def _all(self, structure: type[S], name: str) -> list[S]:
        function = getattr(self._library, f"vks_faults_{name}")
        room = function(None, 0) + 64  # others may add some meanwhile
        array = (structure * room)()
        return list(array[: min(room, function(array, room))])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# ---- a process of its own ------------------------------------------------------------------------------------------


class ChildDied(AssertionError):
    """The child ended without an answer."""


def run_with_faults(
    function: Callable[..., T],
    *arguments: Any,
    faults: str = "",
    implicit: bool = False,
    validation: str = "",
    messages: bool = True,
    timeout: float = 100,
    env: Mapping[str, str] | None = None,
) -> T:
    """What ``function(FaultLayer(), *arguments)`` returns in a process of its own with this run's driver and the layer.

    The function is one at the top level of a file; arguments and result must pickle. What it raises is raised here.
    `messages`: complaints of the validation layer (VKSHARE_VALIDATION=1) fail the call too. The other options are
    those of environment().
    """
    path = sys.modules[function.__module__].__file__
    child_env = environment({**os.environ, **(env or {})}, faults=faults, implicit=implicit, validation=validation)
    with tempfile.TemporaryDirectory(prefix="vkshare-faults-") as folder:
        answer = Path(folder, "answer")
        call = path, function.__qualname__, arguments, messages, str(answer)
        end = forked_calls.parent().run(__name__, "_answer", call, child_env, timeout)
        if end.status is None:
            raise ChildDied(f"{function.__qualname__} took more than {timeout} s:\n{(end.stdout + end.stderr)[-8000:]}")
        if not answer.exists():
            raise ChildDied(f"{function.__qualname__}: exit status {end.status}:\n{end.stderr[-8000:]}")
        kind, value, reported = pickle.loads(answer.read_bytes())
    sys.stdout.write(end.stdout)
    sys.stderr.write(end.stderr)
    if kind == "error":
        value.add_note(reported)
        raise value
    return value


def _answer(path: str | None, name: str, arguments: tuple[Any, ...], fail_on_messages: bool, answer: str) -> None:
    """In the child: what the function returned or raised, into a file."""
    reply: tuple[str, Any, str]
    try:
        with _no_messages() if fail_on_messages else contextlib.nullcontext():
            reply = "value", getattr(_module(path), name)(FaultLayer(), *arguments), ""
    except BaseException as error:
        reply = "error", error, traceback.format_exc()
        error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        data = pickle.dumps(reply)
        pickle.loads(data)
    except Exception:
        shown = AssertionError(f"{type(reply[1]).__name__}: {reply[1]}")
        data = pickle.dumps(("error", shown, reply[2] or "it does not pickle"))
    partial = Path(answer + ".part")
    partial.write_bytes(data)
    partial.rename(answer)


def _module(path: str | None) -> Any:
    """The test's module, by its file: it is in no package."""
    spec = importlib.util.spec_from_file_location("faulty", path or "")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["faulty"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _no_messages() -> Any:
    if os.environ.get("VKSHARE_VALIDATION", "") in ("", "0"):
        yield
        return
    from vkshare.backends import vulkan
    from vkshare.testing.validation import Collector

    collector = Collector(vulkan.validation_layer_version() or "")
    vulkan.add_message_sink(collector)
    yield
    complaints = list(dict.fromkeys(str(message)[:500] for message in collector.take()))[:10]
    assert not complaints, "\n".join(complaints)
