"""The one thread of a process that serves its publications and watchers. It runs while there are any.

A task says which file descriptors and which time it waits for. The thread runs it when one of them
is ready. No task may wait inside.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import threading
import time
from collections.abc import Mapping
from typing import Protocol

_log = logging.getLogger("vkshare.service")
_LONGEST_POLL = 60.0  # seconds


class Task(Protocol):
    """Work of the service thread, which alone calls interest() and turn()."""

    @property
    def is_over(self) -> bool:
        """Whether the thread may drop the task. add() makes it the thread's again."""

    def interest(self, now: float) -> tuple[dict[int, int], float]:
        """Returns events of poll(2) by file descriptor, and the time.monotonic() at which turn() is due anyway."""

    def turn(self, now: float, ready: Mapping[int, int]) -> None:
        """Does what is due. `ready`: events by file descriptor, of all tasks."""

    def fail(self, error: Exception) -> None:
        """Ends the task after turn() or interest() raised."""

    def forget(self) -> None:
        """Closes file descriptors in a forked child, where the thread is not."""


class ServiceThread:
    """Runs tasks. Thread-safe."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()  # a destructor may run, and add or wake, at any place
        self._tasks: list[Task] = []
        self._thread: threading.Thread | None = None
        self._wake_fd = -1

    def add(self, task: Task) -> None:
        """Has the thread run the task, until it is over. No effect on a task that it has already."""
        with self._lock:
            if not any(each is task for each in self._tasks):
                self._tasks.append(task)
            if self._thread is None:
                self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                self._thread = threading.Thread(target=self._run, name="vkshare-service", daemon=True)
                try:
                    self._thread.start()
                except BaseException:
                    self._stop()
                    self._tasks.remove(task)
                    raise
            self._wake()

    def wake(self) -> None:
        """Has each task asked again for its interest."""
        with self._lock:
            self._wake()

    def _wake(self) -> None:
        if self._wake_fd >= 0:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_write(self._wake_fd, 1)

    def _stop(self) -> None:
        os.close(self._wake_fd)
        self._wake_fd, self._thread = -1, None

    def _run(self) -> None:
        while (tasks := self._current()) is not None:
            self._turn(tasks)

    def _current(self) -> list[Task] | None:
        """Return the tasks that are not over. None: there is none, and the thread ends."""
        with self._lock:
            if self._thread is not threading.current_thread():
                return None  # a forked child has no such thread
            self._tasks = [task for task in self._tasks if not task.is_over]
            if not self._tasks:
                self._stop()
                return None
            return list(self._tasks)

    def _turn(self, tasks: list[Task]) -> None:
        now, until = time.monotonic(), math.inf
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        for task in tasks:
            try:
                fds, due = task.interest(now)
            except Exception as error:
                self._fail(task, error)
                continue
            until = min(until, due)
            for fd, events in fds.items():
                poll.register(fd, events)
        left = min(max(0.0, until - time.monotonic()), _LONGEST_POLL)
        ready = dict(poll.poll(math.ceil(left * 1000)))
        if ready.pop(self._wake_fd, 0):
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake_fd)
        now = time.monotonic()
        for task in tasks:
            try:
                task.turn(now, ready)
            except Exception as error:
                self._fail(task, error)

    def _fail(self, task: Task, error: Exception) -> None:
        _log.exception("%r has ended", task)
        with contextlib.suppress(Exception):
            task.fail(error)
        with self._lock:
            self._tasks = [each for each in self._tasks if each is not task]

    def forget(self) -> None:
        """Drops all tasks in a forked child, which has copies of their file descriptors but not the thread."""
        for task in self._tasks:
            task.forget()
        if self._wake_fd >= 0:
            os.close(self._wake_fd)
        self._begin()


service = ServiceThread()
os.register_at_fork(after_in_child=service.forget)
