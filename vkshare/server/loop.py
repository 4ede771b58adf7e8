"""The event loop: watches file descriptors, calls their handlers, and runs calls from other threads."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from vkshare.server.server_poll import ServerPoll
from vkshare.util import fd_ops, trace
from vkshare.util.closing import on_error

READ, WRITE, HUNG_UP, MALFORMED = 1, 2, 4, 8

# event bits; sequences of no-ops that still need a reply
Handler = Callable[[int, Sequence[int]], None]


class Loop:
    """Watches file descriptors. All methods but call_soon() are for the thread that runs the loop."""

    def __init__(self) -> None:
        self.server_poll = ServerPoll()
        self._handlers: dict[int, Handler] = {}
        self._tokens: dict[int, int] = {}  # by fd
        self._next = itertools.count(1)
        self._soon: deque[Callable[[], object]] = deque()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()  # guards the write end of the pipe
        self._is_closed = False
        self.wakeups = 0  # returns from sleep
        self.awake_since = 0  # ns; 0 without tracing
        with on_error(lambda: fd_ops.close_all((self._wake_read, self._wake_write))):
            self.add(self._wake_read, READ, self._woken)

    def add(self, fd: int, interest: int, handler: Handler, token: int | None = None) -> None:
        """Calls handler(events, no_ops) when the fd is ready. The fd stays the caller's.

        `token`, of 2**32 or more and unique, names the connection in a trace.
        """
        token = next(self._next) if token is None else token
        self.server_poll.add(fd, token, interest)
        self._handlers[token] = handler
        self._tokens[fd] = token

    def watch(self, fd: int, interest: int, answers_no_ops: bool = False) -> None:
        """Changes the interest. answers_no_ops: C answers no-ops, without Python (native/server/poll.h)."""
        self.server_poll.watch(fd, interest, answers_no_ops)

    def remove(self, fd: int) -> None:
        """Stops watching an fd; call it before closing the fd. Drops its events of this turn."""
        del self._handlers[self._tokens.pop(fd)]
        self.server_poll.remove(fd)

    def turn(self, timeout: float | None) -> None:
        """Sleeps until an event, for at most `timeout` seconds, and calls the handlers."""
        found = self.server_poll.wait(timeout)
        self.wakeups += 1
        self.awake_since = trace.now()
        for token, events, no_ops in found:
            handler = self._handlers.get(token)
            if handler is not None:
                handler(events, no_ops)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Has the loop's thread call call() in its next turn. From any thread; no effect once the loop is closed."""
        self._soon.append(call)
        with self._lock:
            if not self._is_closed:
                with contextlib.suppress(BlockingIOError):  # the pipe is full: the loop is awake
                    os.write(self._wake_write, b"\0")

    @contextlib.contextmanager
    def waking_on_signals(self) -> Iterator[None]:
        """Wakes the loop on signals, on the main thread, so that Python's handlers run between two turns."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)

    def _woken(self, events: int, no_ops: Sequence[int]) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def close(self) -> None:
        """Closes the poll and the pipe. Idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._wake_write)
        self.remove(self._wake_read)
        os.close(self._wake_read)
        del self.server_poll
        self._soon.clear()
