"""What parties do, as functions: a test calls them here, in a thread, or in a peer (Peer.run)."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import random
import signal
import threading
import time
from typing import Any

import numpy as np

import vkshare as vks
from vkshare.errors import AcquireTimeout

# ---- pictures that tell who drew them --------------------------------------------------------------------------


def picture(shape: tuple[int, int, int], number: int) -> np.ndarray[Any, Any]:
    """Bytes that differ from pixel to pixel and from number to number; the first four are the number itself."""
    size = shape[0] * shape[1] * shape[2]
    values = (np.arange(size, dtype=np.uint32) + np.uint32(number & 0xFFFF)) * np.uint32(2654435761)
    pixels = (values >> np.uint32(24)).astype(np.uint8)
    pixels[:4] = np.frombuffer((number & 0xFFFFFFFF).to_bytes(4, "little"), np.uint8)
    return pixels.reshape(shape)


def draw(surface: Any, number: int) -> None:
    """By the CPU. The surface must be owned."""
    surface.write(picture(surface.shape, number))


def fill(buffer: Any, number: int) -> None:
    """By the CPU, bytes that differ from number to number. The buffer must be owned."""
    buffer.write(filling(buffer.nbytes, number))


def filling(nbytes: int, number: int) -> np.ndarray[Any, Any]:
    """What fill() writes."""
    return picture((1, max(nbytes, 4), 1), number)[0, :nbytes, 0]


def is_filling(buffer: Any, number: int) -> bool:
    """Whether fill() with that number was the last that wrote. The buffer must be owned."""
    return bool((buffer.read() == filling(buffer.nbytes, number)).all())


def turn_bytes(buffer: Any, key: int) -> None:
    """Owns it under the key, subtracts each byte from 255, and releases it with the next key."""
    with buffer.access(key, key + 1, 10):
        buffer.write(255 - buffer.read())


def colour(number: int) -> tuple[float, float, float, float]:
    """Exact in 8 bits."""
    return (number & 255) / 255, (number >> 8 & 255) / 255, (number >> 16 & 255) / 255, 1.0


def clear(surface: Any, number: int, **options: Any) -> Any:
    """By the GPU: the whole surface in one colour."""
    device = surface.device
    return device.submit(device.record().clear(surface, colour(number)), **options)


def clear_and_forget(surface: Any, number: int) -> None:
    """clear() without an answer: its work may run at any later time."""
    clear(surface, number)


def fill_column(surface: Any, column: int, red: int, **options: Any) -> Any:
    """By the GPU: one column of pixels."""
    device = surface.device
    return device.submit(
        device.record().fill_rect(surface, (column, 0, 1, surface.height), (red / 255, 0, 0, 1)), **options
    )


def copy(source: Any, target: Any, **options: Any) -> Any:
    """By the GPU: all of it."""
    device = target.device
    return device.submit(device.record().copy(source, target), **options)


def is_clear(pixels: np.ndarray[Any, Any], number: int) -> bool:
    """Whether every pixel is that colour."""
    expected = np.array([number & 255, number >> 8 & 255, number >> 16 & 255, 255], np.uint8)
    return bool((pixels == expected).all())


def is_picture(surface: Any, number: int) -> bool:
    return bool((surface.read() == picture(surface.shape, number)).all())


def states(handles: list[Any]) -> list[tuple[bool, bool, int]]:
    """(is_closed, is_owned, generation) of each."""
    return [(handle.is_closed, handle.is_owned, handle.generation) for handle in handles]


def fence_values(rows: list[tuple[Any, int]]) -> list[tuple[int, int]]:
    """(value, queued_value) of each fence, once it has reached the number beside it."""
    for fence, value in rows:
        fence.wait(value, 10)
    return [(fence.value, fence.queued_value) for fence, _ in rows]


_kept: list[Any] = []


def open_many(device: Any, descriptor: Any, count: int) -> int:
    """Opens `count` handles and keeps them for as long as the process lives."""
    _kept.extend(device.open_surface(descriptor) for _ in range(count))
    return len(_kept)


# ---- roles ------------------------------------------------------------------------------------------------------


def ring(surface: Any, place: int, parties: int, rounds: int) -> int:
    """One party of a ring: owns by key `place`, checks what the one before it drew, draws, hands on by the next key.

    CPU and GPU drawing take turns. Returns the number of rounds.
    """
    for turn in range(rounds):
        surface.acquire(place, 30)
        step = turn * parties + place
        if step:
            _check_step(surface, step - 1)
        if step % 2:
            clear(surface, step)
        else:
            draw(surface, step)
        surface.release((place + 1) % parties)
    return rounds


def _check_step(surface: Any, step: int) -> None:
    pixels = surface.read()
    if not (is_clear(pixels, step) if step % 2 else (pixels == picture(surface.shape, step)).all()):
        raise AssertionError(f"step {step} is not what came: it begins {pixels[0, :2].tolist()}")


def contend(surface: Any, path: str, seed: int, rounds: int, key: int = 7) -> int:
    """Owns `rounds` times by `key` with all kinds of timeouts; a byte in the file shows whether it was alone."""
    dice = random.Random(seed)
    timeouts = 0
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 1) as flag:
        done = 0
        while done < rounds:
            try:
                surface.acquire(key, dice.choice((0, 1e-5, 1e-4, 1e-3, 30)))
            except AcquireTimeout:
                timeouts += 1
                if surface.is_owned:
                    raise AssertionError("an acquire that timed out owns") from None
                continue
            if not surface.is_owned:
                raise AssertionError("acquire returned, and the surface is not owned")
            if flag[0]:
                raise AssertionError("there are two owners")
            flag[0] = 1
            if dice.random() < 0.3:
                time.sleep(0)
            flag[0] = 0
            surface.release(key)
            done += 1
    return timeouts


def tear(surface: Any, seed: int) -> None:
    """Redraws for ever until it is killed: whole frames, under the lock, by the CPU and by the GPU, at all speeds.

    Small pauses, inside and outside the lock, so that it may be killed anywhere.
    """
    dice = random.Random(seed)
    number = 2 * dice.randrange(1 << 20)
    while True:
        surface.acquire(0)
        number += 1
        if number % 2:
            clear(surface, number)
        else:
            draw(surface, number)
        _pause(dice)
        surface.release(0)
        _pause(dice)


def _pause(dice: random.Random) -> None:
    if dice.random() < 0.5:
        end = time.perf_counter() + dice.uniform(0, 0.001)
        while time.perf_counter() < end:
            pass


def is_whole_frame(pixels: np.ndarray[Any, Any]) -> bool:
    """Whether these pixels are one frame of tear(), or the zeros of a new surface; parts of two frames are not."""
    if (pixels == pixels[0, 0]).all():
        return True
    number = int.from_bytes(pixels.reshape(-1)[:4].tobytes(), "little")
    return bool((pixels == picture(pixels.shape, number)).all())


def last_value(count: int) -> int:
    """What signal_and_follow() ends with."""
    return 3 * count + 1


def signal_and_follow(fence: Any, others: list[Any], seed: int, count: int) -> int:
    """Signals `count` times, by the host and by the queue, while a thread follows all others; how often that waited."""
    dice = random.Random(seed)
    outcome: list[int | BaseException] = []
    thread = threading.Thread(target=_follow_all, args=(others, seed + 1, last_value(count), outcome))
    thread.start()
    value = 0
    for _ in range(count):
        value += dice.randint(1, 3)
        if dice.random() < 0.5:
            fence.signal(value)
        else:
            fence.device.submit(signals=(fence, value))
    fence.signal(last_value(count))
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _follow_all(fences: list[Any], seed: int, last: int, outcome: list[int | BaseException]) -> None:
    dice = random.Random(seed)
    seen = [0] * len(fences)
    waited = 0
    try:
        while min(seen) < last:
            which = dice.randrange(len(fences))
            wanted = min(last, seen[which] + dice.choice((0, 1, 5, 50, 500)))
            fences[which].wait(wanted, 600)
            value = fences[which].value
            if value < max(seen[which], wanted):
                raise AssertionError(f"a counter fell: {value} after {max(seen[which], wanted)}")
            waited += wanted > seen[which]
            seen[which] = value
        outcome.append(waited)
    except BaseException as error:
        outcome.append(error)


def signal_each(fence: Any, last: int) -> None:
    for value in range(1, last + 1):
        fence.signal(value)


def wait_for_each(fence: Any, last: int) -> None:
    for value in range(1, last + 1):
        fence.wait(value, 60)


def churn_fences(device: vks.Device, seconds: float) -> int:
    """Fences that the queue waits for, closed the moment that their work is seen to be done; how many."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        fences = [device.create_fence() for _ in range(4)]
        for fence in fences:
            device.submit(signals=(fence, 3))
        done = device.submit(waits=[(fence, 2) for fence in fences])
        while not done.is_done():
            pass
        for fence in fences:
            fence.close()
        count += len(fences)
    return count


# ---- breaking things --------------------------------------------------------------------------------------------


class _SignalInfo(ctypes.Structure):
    """VkSemaphoreSignalInfo."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("semaphore", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


def signal_without_increasing(fence: vks.Fence) -> int:
    """A raw vkSignalSemaphore to a value below the current one: lavapipe loses its device for it. The VkResult."""
    handles = fence.device._backend.native_handles()
    assert handles is not None
    lookup = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(handles["get_device_proc_addr"])
    signal = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(_SignalInfo))(
        lookup(handles["device"], b"vkSignalSemaphore")
    )
    info = _SignalInfo(1000207005, None, fence.handle, fence.value - 1)  # VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO
    return int(signal(handles["device"], ctypes.byref(info)))


def submit_and_wait(device: vks.Device) -> None:
    device.submit().wait(5)


# ---- looking at a process -----------------------------------------------------------------------------------------


def open_fds() -> int:
    gc.collect()  # what earlier tests left must not be collected between two counts
    return len(os.listdir("/proc/self/fd"))


def poll_under_signals(surface: Any, seconds: float) -> int:
    """Tries to acquire a surface that another party owns, again and again, while signals come; how often."""
    tries = 0
    previous = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(AcquireTimeout):
                surface.acquire(0, 0)
            tries += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return tries


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def resident_kib() -> int:
    """VmRSS."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def is_abandoned(surface: vks.Surface) -> bool:
    return surface.mutex.statistics().state == "abandoned"
