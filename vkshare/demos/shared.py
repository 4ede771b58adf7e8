"""The shared demo's parent: starts three processes that draw one surface in turn, and sees to it that all end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from vkshare.demos.child import Child
from vkshare.demos.options import Options, Wiring
from vkshare.demos.report import Report, made
from vkshare.demos.stamps import PARTIES, Stamps

_GRACE = 0.5  # seconds in which the others may say what they saw, after one has failed
_ENDING = 5.0  # seconds that a process has to close everything after SIGTERM


class DemoError(Exception):
    """One of the processes failed or died; the text says which and how."""


class Terminated(BaseException):
    """SIGTERM came to the parent."""


def run(options: Options, progress: Callable[[int], None] = lambda frames: None) -> Report:
    """Runs the demo. Call it from the main thread: Ctrl-C and SIGTERM then end all processes first.

    Parameters
    ----------
    progress
        Called with the number of frames that were checked so far.

    Raises
    ------
    DemoError
        A process failed or died; the others were ended.
    KeyboardInterrupt, Terminated
        The signal came; all processes were ended.
    """
    stamps_fd = Stamps.create(options.frames)
    children: list[Child] = []
    try:
        with _sigterm_raises():
            try:
                with _signals_later():
                    _start(options, stamps_fd, children)
                _watch(children, progress)
            finally:
                with _signals_later():
                    _end(children)
        return made(options, Stamps(stamps_fd, options.frames), [child.done for child in children])
    finally:
        os.close(stamps_fd)


def _start(options: Options, stamps_fd: int, children: list[Child]) -> None:
    """Appends to `children` as they start, so that those that did are ended if one does not."""
    to_text, from_text = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    to_checker, from_checker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ends = ((to_text, to_checker), (from_text,), (from_checker,))
    with to_text, from_text, to_checker, from_checker:
        for index, name in enumerate(PARTIES):
            links = tuple(end.fileno() for end in ends[index])
            wiring = Wiring(index, stamps_fd, links)
            children.append(Child.start(name, "vkshare.demos.party", options, wiring, fds=(stamps_fd, *links)))


def _watch(children: list[Child], progress: Callable[[int], None]) -> None:
    """Until all have ended well. DemoError when one has not, or does not end after it was done."""
    deadline: float | None = None
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child, selectors.EVENT_READ, child)
        while selector.get_map():
            timeout = None if deadline is None else max(deadline - time.monotonic(), 0)
            ready = selector.select(timeout)
            for key, _ in ready:
                child = key.data
                if not child.read():
                    selector.unregister(child)
                    child.wait(_ENDING)
                elif child.frames:
                    progress(child.frames)
            if deadline is None:
                deadline = _deadline(children)
            elif time.monotonic() >= deadline:
                break
    bad = [child for child in children if child.has_failed or not child.has_ended]
    if bad:
        # First a death, then what is no consequence of one.
        raise DemoError(min(bad, key=lambda child: child.blame).obituary())


def _deadline(children: list[Child]) -> float | None:
    """When to wait no longer, on CLOCK_MONOTONIC; None while all is well and there is work."""
    if any(child.has_failed for child in children):
        return time.monotonic() + _GRACE
    if all(child.done for child in children):
        return time.monotonic() + _ENDING
    return None


def _end(children: list[Child]) -> None:
    """SIGTERM, then SIGKILL, to those that still run. Returns when none does."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + _ENDING
    for child in children:
        child.wait(max(deadline - time.monotonic(), 0.1))
        child.close()


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """SIGINT and SIGTERM come after the block: no process is started and then forgotten, or left half ended.

    Children inherit the mask, and take SIGTERM when they are ready to end well: see
    party.listening(). The mask alone does not do: NumPy's threads have their own, and what comes
    through them raises in the main thread.
    """
    came: list[int] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    handlers = _handled_by(lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def _handled_by(handler: Callable[[int, object], None]) -> dict[int, Any]:
    """Sets it for SIGINT and SIGTERM, and returns those of before; none in another thread than the main one."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    def terminated(*_: object) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, terminated)
    except ValueError:  # not the main thread: signals are the caller's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
