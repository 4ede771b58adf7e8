"""A client's worker thread (rule R1)."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator
from typing import Any

from vkshare.server.deadlock_check import WaitGraph
from vkshare.server.devices import Devices
from vkshare.server.executor import Executor, RequestResult
from vkshare.server.request_types import Answer, Later, Request
from vkshare.server.work_ring import WorkRing
from vkshare.util.event_queue import EventQueue

_log = logging.getLogger("vkshare.server")

Outcome = Answer | BaseException | Later


class ThreadWorker:
    """A thread that runs a client's requests on the server's device. It sleeps on a semaphore in C while idle.

    The loop calls all public methods, which ProcessWorker has too; none blocks, except join().
    """

    def __init__(self, client: int, event_queue: EventQueue, devices: Devices, wait_graph: WaitGraph) -> None:
        self._work_ring = WorkRing(event_queue, client << 32)
        self.client = client
        self._event_queue = event_queue
        self._devices = devices
        self._wait_graph = wait_graph
        self._executor: Executor | None = None
        self._serials = itertools.count(1)
        # A daemon, because a thread that hangs in a driver must not block the exit of the process.
        self._thread = threading.Thread(target=self._run, name=f"vks-client-{client}", daemon=True)
        self._thread.start()

    # ---- the loop ------------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Queues a request behind those in flight."""
        self._work_ring.give(request)

    def completions(self) -> Iterator[tuple[Request, Outcome]]:
        """Yields the requests completed since the last call, in the order of submit()."""
        while (done := self._work_ring.collect()) is not None:
            yield done

    def event_arrived(self, serial: int, error: BaseException | None) -> list[RequestResult]:
        """Handles an event that the client's executor asked for; returns results."""
        executor = self._executor
        return [] if executor is None else executor.event_arrived(serial, error)

    def close(self) -> None:
        """Accepts no more requests, and exits after the one that runs."""
        self._work_ring.close()

    def abandon(self) -> None:
        """Gives up on a worker that hangs: closes what can be closed without it."""
        # On a thread of its own, because the thread that hangs may hold a lock that close() needs.
        executor = self._executor
        if executor is not None:
            threading.Thread(target=executor.close, name="vks-server-close", daemon=True).start()

    @property
    def has_exited(self) -> bool:
        """Whether the worker has exited, so that join() returns at once."""
        return self._work_ring.has_left

    def join(self) -> None:
        """Waits until the worker has exited, and frees its resources."""
        self._thread.join()
        while (request := self._work_ring.drop()) is not None:
            request.close()

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (request := self._work_ring.take()) is not None:
                self._work_ring.done(self._outcome(request))
                del request
        finally:
            try:
                if self._executor is not None:
                    self._executor.close()
            finally:
                self._work_ring.leave()

    def _outcome(self, request: Request) -> Outcome:
        try:
            outcome: Any = self._executor_for(request.generation).run(request)
        except BaseException as error:
            request.close()
            return without_traceback(error)
        return Answer() if outcome is None else outcome

    def _executor_for(self, generation: int) -> Executor:
        executor = self._executor
        if executor is None or executor.generation != generation:
            device = self._devices.get(generation)
            if executor is not None:
                executor.close()  # its device is lost
            executor = self._executor = Executor(
                device, self.client, generation, self._event_queue, self._wait_graph, self._serials
            )
        return executor


def without_traceback(error: BaseException) -> BaseException:
    """Removes the traceback from the error, whose frames would keep their locals alive."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
