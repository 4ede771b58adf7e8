"""The event loop: what is watched, who is told, and how another thread gets a word in. No sockets' contents here."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from vkshare import _fds, _native, _trace

READ, WRITE, GONE, GARBAGE = 1, 2, 4, 8

Handler = Callable[[int, Sequence[int]], None]  # what happened; sequences of no-ops that are to be answered


class Loop:
    """Watches file descriptors. All methods but call_soon() are for the one thread that runs it."""

    def __init__(self) -> None:
        self.front = _native.ServerPoll()
        self._handlers: dict[int, Handler] = {}
        self._tokens: dict[int, int] = {}  # by fd
        self._next = itertools.count(1)
        self._soon: deque[Callable[[], object]] = deque()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()  # of the pipe's end
        self._is_closed = False
        self.wakeups = 0  # returns from sleep
        self.awake_since = 0  # ns, where somebody traces
        try:
            self.add(self._wake_read, READ, self._woken)
        except BaseException:
            _fds.close_all((self._wake_read, self._wake_write))
            raise

    def add(self, fd: int, interest: int, handler: Handler, token: int | None = None) -> None:
        """handler(what, owed) is called when something happens there. The fd stays the caller's.

        `token`, of 2**32 or more, is what a trace calls it, and nobody else's.
        """
        token = next(self._next) if token is None else token
        self.front.add(fd, token, interest)
        self._handlers[token] = handler
        self._tokens[fd] = token

    def watch(self, fd: int, interest: int, answers_no_ops: bool = False) -> None:
        """Another interest. answers_no_ops: no-ops are answered without a word (native/server/front.h)."""
        self.front.watch(fd, interest, answers_no_ops)

    def remove(self, fd: int) -> None:
        """Before it is closed. Events that were found already are not told."""
        del self._handlers[self._tokens.pop(fd)]
        self.front.remove(fd)

    def turn(self, timeout: float | None) -> None:
        """Sleeps until something happens, at most so long, and tells the handlers."""
        events = self.front.wait(timeout)
        self.wakeups += 1
        self.awake_since = _trace.now()
        for token, what, owed in events:
            handler = self._handlers.get(token)
            if handler is not None:
                handler(what, owed)

    def call_soon(self, call: Callable[[], object]) -> None:
        """The loop's thread calls it, at its next turn. From any thread; nothing happens once the loop is closed."""
        self._soon.append(call)
        with self._lock:
            if not self._is_closed:
                with contextlib.suppress(BlockingIOError):  # full: it is awake
                    os.write(self._wake_write, b"\0")

    @contextlib.contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Signals end the sleep too, on the main thread: Python's handlers run between two turns."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)

    def _woken(self, what: int, owed: Sequence[int]) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def close(self) -> None:
        """Closes what is its own."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._wake_write)
        self.remove(self._wake_read)
        os.close(self._wake_read)
        del self.front
        self._soon.clear()
