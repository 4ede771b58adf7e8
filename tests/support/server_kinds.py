"""Kinds of requests that only tests plug in. Functions of a module, so that a child process has them too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from vkshare.errors import DeviceLostError, InvalidCallError
from vkshare.server.messages import Body
from vkshare.server.request_types import Answer, Kind
from vkshare.server.session_state import Route

NOTE, NOTE_AND_ANSWER, NOTE_INLINE, GATE, GATE_LATE, SLEEP, CRASH, SPIN, LOSE, TAKE_FDS = range(0x100, 0x10A)


class Number(Body):
    """What is noted. Odd ones below zero fail."""

    number: int


class Seconds(Body):
    seconds: float


class Log:
    """What ran, in the order in which it ran, and a gate that workers wait at."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.at_gate = threading.Semaphore(0)

    def note(self, on: Any, request: Any) -> Answer:
        self.numbers.append(request.body.number)
        self.threads.add(threading.current_thread().name)
        if request.body.number < 0:
            raise InvalidCallError(f"{request.body.number} is below zero")
        return Answer()

    def wait(self, on: Any, request: Any) -> Answer:
        self.at_gate.release()
        if not self.gate.wait(60):
            raise TimeoutError("the gate was not opened")
        return self.note(on, request)

    def kinds(self) -> list[Kind]:
        return [
            Kind(NOTE, Number, Route.CANNOT_FAIL, self.note),
            Kind(NOTE_AND_ANSWER, Number, Route.CAN_FAIL, self.note),
            Kind(NOTE_INLINE, Number, Route.INLINE, self.note),
            Kind(GATE, Number, Route.CAN_FAIL, self.wait),
            Kind(GATE_LATE, Number, Route.CANNOT_FAIL, self.wait),
        ]


def sleep(on: Any, request: Any) -> Answer:
    time.sleep(request.body.seconds)
    return Answer()


def doze(on: Any, request: Any) -> Answer:
    """Sleeps for a moment, however long the request asks for: garbage may ask for years."""
    time.sleep(min(max(request.body.seconds, 0.0), 0.01))
    return Answer()


def spin(on: Any, request: Any) -> Answer:
    """Runs Python, which keeps Python's lock as long as it may."""
    end = time.monotonic() + request.body.seconds
    while time.monotonic() < end:
        pass
    return Answer()


def crash(on: Any, request: Any) -> Answer:
    os.abort()


def lose(on: Any, request: Any) -> Answer:
    raise DeviceLostError("the driver has lost it")


def take_fds(on: Any, request: Any) -> Answer:
    """Sends back the fds that came."""
    return Answer(b"", request.take_fds())


def _kind(opcode: int, body: type[Body] | None, run: Callable[..., Answer], fds: int = 0) -> Kind:
    return Kind(opcode, body, Route.CAN_FAIL, run, most_fds=fds)


KINDS = (
    _kind(SLEEP, Seconds, sleep),
    _kind(SPIN, Seconds, spin),
    _kind(CRASH, None, crash),
    _kind(LOSE, None, lose),
    _kind(TAKE_FDS, None, take_fds, 253),
)

# Requests that leave the server as it was, whatever their bytes say.
HARMLESS = (_kind(SLEEP, Seconds, doze), _kind(TAKE_FDS, None, take_fds, 253))
