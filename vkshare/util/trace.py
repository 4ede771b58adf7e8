"""Trace points of Python code for `vkshare trace`; each costs almost nothing while tracing is off.

    with trace.span("composite", tick.id, len(windows)):
        ...

Names are cut to 23 bytes; `object` and `value` are the caller's numbers, in [0, 2**64). Where even
a call costs too much, put ``if trace.is_on:`` before it. Thread-safe; a record belongs to the
thread that writes it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import AbstractContextManager
from typing import Any, Final

from vkshare.util.library_calls import ffi, lib

__all__ = [
    "KINDS",
    "NOTHING",
    "counter",
    "instant",
    "is_on",
    "name_process",
    "name_thread",
    "now",
    "request",
    "span",
    "span_since",
    "tell_names",
    "tick",
]

KINDS: Final = tuple(ffi.string(name).decode() for name in lib.vks_trace_kind_names)  # by the kind of a record
is_on: Final[bool] = lib.vks_trace_enabled()

if _problem := lib.vks_trace_problem():
    logging.getLogger("vkshare.trace").warning(
        "VKSHARE_TRACE is %r, so that nothing is traced: %s; it must name a directory that can be written",
        os.environ.get("VKSHARE_TRACE"),
        os.strerror(_problem),
    )

_PROCESS, _THREAD, _TICK, _SPAN, _INSTANT, _COUNTER, _REQUEST = (
    KINDS.index(name) for name in ("process", "thread", "tick", "span", "instant", "counter", "request")
)


def _mark(kind: int, name: str, began: int = 0, object: int = 0, value: int = 0) -> None:
    """Write a record that ends now and began at `began`; 0: now. No effect without tracing."""
    lib.vks_trace_mark(kind, name.encode(), began, object, value)


class _Span:
    __slots__ = ("_began", "_kind", "_name", "_numbers")

    def __init__(self, kind: int, name: str, numbers: tuple[int, int]) -> None:
        self._kind, self._name, self._numbers = kind, name, numbers

    def __enter__(self) -> None:
        self._began = time.monotonic_ns()

    def __exit__(self, *exc_info: object) -> None:
        _mark(self._kind, self._name, self._began, *self._numbers)


class _Nothing:
    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, *exc_info: object) -> None: ...


NOTHING: Final[AbstractContextManager[None]] = _Nothing()  # the result of span() and request() while tracing is off


def now() -> int:
    """Return the time for a later call's `began_ns`; 0 while tracing is off."""
    return time.monotonic_ns() if is_on else 0


def span(name: str, object: int = 0, value: int = 0) -> AbstractContextManager[None]:
    """Record the block as a span on this thread's track."""
    return _Span(_SPAN, name, (object, value)) if is_on else NOTHING


def span_since(name: str, began_ns: int, object: int = 0, value: int = 0) -> None:
    """A span that ends now and began at a time.monotonic_ns(); spans of one thread must lie within each other."""
    if is_on:
        _mark(_SPAN, name, began_ns, object, value)


def instant(name: str, object: int = 0, value: int = 0) -> None:
    """Record an instant event."""
    if is_on:
        _mark(_INSTANT, name, 0, object, value)


def counter(name: str, value: int) -> None:
    """Record a value of a counter, which is drawn as a track of its own."""
    if is_on:
        _mark(_COUNTER, name, 0, 0, value)


def tick(display: str, id: int, time_ns: int) -> None:
    """Record a tick of a display. vkshare.vsync records its own ticks."""
    if is_on:
        _mark(_TICK, display, 0, id, time_ns)


def request(name: str, asker: int, sequence: int) -> AbstractContextManager[None]:
    """A span that is a step of a request to a server; `asker`, if not 0, and `sequence` join them."""
    return _Span(_REQUEST, name, (asker, sequence)) if is_on else NOTHING


def name_process(name: str) -> None:
    """Name the process's tracks, beside its command line and pid."""
    if is_on:
        _mark(_PROCESS, name)


def name_thread(name: str) -> None:
    """Name the calling thread's track. Threads of `threading` are named already."""
    if is_on:
        _mark(_THREAD, name, 0, threading.get_native_id())


# ---- names that Python keeps to itself -------------------------------------------------------------------------------


def _first_event(frame: Any, event: str, arg: Any) -> None:
    """The profile function of a new thread, for its first event only."""
    sys.setprofile(None)
    name_thread(threading.current_thread().name)


def tell_names() -> None:
    """Record Python's names of the process and its threads, which the kernel does not know (threads: before 3.14).

    Threads that start later record their own names; a forked process calls this again.
    vkshare.open() and Display() do.
    """
    if not is_on:
        return
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.native_id is not None:
            _mark(_THREAD, thread.name, 0, thread.native_id)
    if threading.getprofile() is None:
        threading.setprofile(_first_event)
    if "multiprocessing.process" in sys.modules:
        name = sys.modules["multiprocessing.process"].current_process().name
        if name != "MainProcess":
            name_process(name)
