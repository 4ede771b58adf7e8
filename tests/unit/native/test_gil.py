"""Waiting: the GIL, signals and threads; and fork."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from typing import Any

import pytest
from support.native_objects import (
    Device,
    Fence,
    List,
    Surface,
    make_surface,
)
from support.time_limits import Measured, at_least

from vkshare import errors

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


@pytest.mark.rule("X8")
@pytest.mark.parametrize("what", ["fence", "surface", "submission", "idle"])
def test_waits_release_the_gil(device: Device, fence: Fence, surface: Surface, what: str) -> None:
    submission = device.submit(waits=(fence, 1))
    surface.acquire()
    surface.release(1)
    calls = {
        "fence": lambda: fence.wait(1, 0.2),
        "surface": lambda: surface.acquire(2, 0.2),
        "submission": lambda: submission.wait(0.2),
        "idle": lambda: device.wait_idle(0.2),
    }
    ticks = 0
    done = threading.Event()

    def wait() -> None:
        with pytest.raises(TimeoutError):
            calls[what]()
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0.001)
    thread.join()
    assert ticks > 2  # with the GIL held there is one, before the wait or after it
    fence.signal(1)


@pytest.mark.rule("X8", "K28")
@pytest.mark.parametrize("what", ["fence", "surface", "submission", "idle", "submit", "access"])
def test_ctrl_c_ends_a_wait_at_once_and_changes_nothing(what: str) -> None:
    device = Device(held_limit=2)
    fence, surface, blocked = Fence(device), make_surface(device), make_surface(device)
    blocked.acquire()
    submission = device.submit(List(blocked), waits=(fence, 1))
    surface.acquire()
    surface.release(1)
    calls = {
        "fence": lambda: fence.wait(1),
        "surface": lambda: surface.acquire(2),
        "submission": lambda: submission.wait(),
        "idle": lambda: device.wait_idle(),
        "submit": lambda: [device.submit(waits=(fence, 1)) for _ in range(3)],
        "access": lambda: blocked._cpu_access(),
    }
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    begun.set()
    with pytest.raises(KeyboardInterrupt):
        calls[what]()
    thread.join()
    assert not surface.is_owned
    fence.signal(1)
    submission.wait(5)
    surface.acquire(1, 5)
    device._shutdown()


@pytest.mark.rule("X7")
def test_a_signal_whose_handler_returns_does_not_end_or_stretch_a_wait(fence: Fence) -> None:
    calls = 0

    def handler(*_: Any) -> None:
        nonlocal calls
        calls += 1

    previous = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        with at_least(0.3), pytest.raises(TimeoutError):  # started anew by each signal, it would never end
            fence.wait(1, 0.3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert calls > 2


def test_threads_may_use_one_device_at_the_same_time(device: Device) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            fence, surface = Fence(device), make_surface(device)
            commands = List(surface)
            for value in range(1, 200):
                surface.acquire(value - 1, 5)
                device.submit(commands, signals=((fence, value),))
                if value % 7 == 0:
                    commands._reset()
                surface.release(value)
                fence.wait(value, 5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.rule("X11")
def test_after_fork_every_object_refuses_and_the_parent_goes_on(device: Device, fence: Fence, surface: Surface) -> None:
    surface.acquire()
    commands = List(surface)
    submission = device.submit(commands)
    calls = {
        "Device._check": device._check,
        "Device.submit": lambda: device.submit(commands),
        "Device.wait_idle": lambda: device.wait_idle(1),
        "Fence.value": lambda: fence.value,
        "Fence.signal": lambda: fence.signal(1),
        "Fence.wait": lambda: fence.wait(1, 0),
        "Surface.acquire": lambda: surface.acquire(0, 0),
        "Surface.release": lambda: surface.release(0),
        "Surface._export": surface._export,
        "Surface._cpu_access": lambda: surface._cpu_access(0),
        "Surface._next_key": surface._next_key,
        "Submission.wait": lambda: submission.wait(0),
        "Fence": lambda: Fence(device),
    }
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        failed = []
        try:
            for name, call in calls.items():
                try:
                    call()
                    failed.append(name + ": no error")
                except errors.InvalidCallError as error:
                    if "fork" not in str(error):
                        failed.append(f"{name}: {error}")
                except BaseException as error:
                    failed.append(f"{name}: {error!r}")
            device._reap()
            del device, fence, surface, commands, submission, calls, call
            gc.collect()
        finally:
            os.write(writer, ("; ".join(failed) or "good").encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        reported = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    assert reported == "good"
    surface.release(5)
    surface.acquire(5, 1)
    fence.signal(1)
    device.submit(commands).wait(5)


def test_a_forked_child_can_make_its_own_device(device: Device) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own = Device()
            fence = Fence(own)
            own.submit(signals=fence).wait(5)
            status = 0 if fence.value == 1 else 2
            own._shutdown()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.rule("X8")
@pytest.mark.serial
def test_short_calls_do_not_give_the_gil_to_a_busy_thread(
    device: Device, fence: Fence, surface: Surface, measured: Measured
) -> None:
    stop = False

    def spin() -> None:
        while not stop:
            pass

    fence.signal(1)
    thread = threading.Thread(target=spin)
    thread.start()
    try:
        calls = 2000

        def take_turns() -> float:
            start = time.perf_counter()
            for _ in range(calls):
                fence.wait(1)
                surface.acquire()
                surface.release()
            return time.perf_counter() - start

        # Given away once a call, it would take a switch interval (5 ms) each: 30 s. Shared, twice the quiet time.
        measured(take_turns, calls * 3 * sys.getswitchinterval() / 10)
    finally:
        stop = True
        thread.join()
