"""A client's rendering thread (rule R1), and what the loop sees of it."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from vkshare import _native
from vkshare.server.devices import Devices
from vkshare.server.executor import Executor, Told
from vkshare.server.kinds import Answer, Later, Request
from vkshare.server.order import Order

_log = logging.getLogger("vkshare.server")

Outcome = Answer | BaseException | Later


class Boss(Protocol):
    """Whom a worker that is no thread tells, on the loop's thread."""

    def alone(self) -> AbstractContextManager[None]:
        """What raises inside ends this client, and not the loop."""

    def hired(self) -> None:
        """It is ready."""

    def completed(self, request: Request, outcome: Outcome) -> None:
        """The oldest request that is out is done, or waits for something else."""

    def told(self, told: Told) -> None:
        """A late failure."""

    def fired(self, why: str) -> None:
        """It is gone, and nobody had told it to go."""


class Worker(Protocol):
    """What the loop gives a client's render requests to. All methods are the loop's, and none blocks."""

    def give(self, request: Request) -> None:
        """One more request, behind those that are out."""

    def news(self) -> Iterator[tuple[Request, Outcome]]:
        """What was done since the last call, in the order in which it was given."""

    def happened(self, serial: int, error: BaseException | None) -> list[Told]:
        """The hub told of something that the client's executor asked for."""

    def close(self) -> None:
        """It takes no more, and ends when it is through with what it is at."""

    def abandon(self) -> None:
        """It hangs: ends what can be ended without it."""

    @property
    def has_left(self) -> bool:
        """After close(): whether join() returns at once."""

    def join(self) -> None:
        """Waits for its end, and lets go of everything."""


class ThreadWorker:
    """A thread that runs a client's requests on the server's device. Idle, it sleeps on a semaphore in C."""

    def __init__(self, client: int, event_queue: _native.EventQueue, devices: Devices, order: Order) -> None:
        self._hand_off = _native.WorkRing(event_queue, client << 32)
        self._client = client
        self._event_queue = event_queue
        self._devices = devices
        self._order = order
        self._executor: Executor | None = None
        self._serials = itertools.count(1)
        # A daemon: one that hangs in a driver must not keep the process from its end.
        self._thread = threading.Thread(target=self._run, name=f"vks-client-{client}", daemon=True)
        self._thread.start()

    # ---- the loop ------------------------------------------------------------------------------------------------

    def give(self, request: Request) -> None:
        self._hand_off.give(request)

    def news(self) -> Iterator[tuple[Request, Outcome]]:
        while (done := self._hand_off.collect()) is not None:
            yield done

    def happened(self, serial: int, error: BaseException | None) -> list[Told]:
        executor = self._executor
        return [] if executor is None else executor.happened(serial, error)

    def close(self) -> None:
        self._hand_off.close()

    def abandon(self) -> None:
        # Not by the loop: the thread that hangs may hold a lock that closing needs.
        executor = self._executor
        if executor is not None:
            threading.Thread(target=executor.close, name="vks-server-bury", daemon=True).start()

    @property
    def has_left(self) -> bool:
        return self._hand_off.has_left

    def join(self) -> None:
        self._thread.join()
        while (request := self._hand_off.drop()) is not None:
            request.close()

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (request := self._hand_off.take()) is not None:
                self._hand_off.done(self._outcome(request))
                del request
        finally:
            try:
                if self._executor is not None:
                    self._executor.close()
            finally:
                self._hand_off.leave()

    def _outcome(self, request: Request) -> Outcome:
        try:
            outcome: Any = self._executor_for(request.generation).run(request)
        except BaseException as error:
            request.close()
            return bare(error)
        return Answer() if outcome is None else outcome

    def _executor_for(self, generation: int) -> Executor:
        executor = self._executor
        if executor is None or executor.generation != generation:
            device = self._devices.get(generation)
            if executor is not None:
                executor.close()  # of a device that is lost
            executor = self._executor = Executor(
                device, self._client, generation, self._event_queue, self._order, self._serials
            )
        return executor


def bare(error: BaseException) -> BaseException:
    """The error without the frames that it came through: their locals would live as long."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
