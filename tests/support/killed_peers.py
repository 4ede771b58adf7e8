"""The loops of the processes that tests/processes/core/test_kill_storms.py kills. Each runs in a peer."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

import vkshare as vks
from support import access_patterns
from support.queue_ends import look
from vkshare.core import pipe as pipes  # noqa: F401  imported before a peer is forked


def arm(point: int, after: int) -> None:
    """Dies when it passes that kill point (0: none) for that time, in a build with VKSHARE_KILL_POINTS."""
    os.environ["VKS_KILL"], os.environ["VKS_KILL_AFTER"] = str(point), str(after)


def make(free: Any, out: Any, first: int) -> None:
    """Draws frames by the GPU and by the CPU, and enqueues them in each way that there is."""
    kept = free.recover(10)
    number = first
    while True:
        try:
            surface = kept.pop() if kept else free.dequeue(30)[0]
        except vks.AbandonedError:
            kept += free.recover(10)
            continue
        number += 1
        if number % 2:
            access_patterns.clear(surface, number)
        else:
            surface.write(filled(surface, number))
        out.enqueue(surface, b"%d" % number, (True, False, "gpu")[number % 3])
        if number % 3 == 1:
            out.flush()


def view(seen: Any, back: Any, last: int) -> None:
    """Looks at frames, and gives them back."""
    for surface in seen.recover(10):
        back.enqueue(surface)
    while True:
        try:
            surface, metadata = seen.dequeue(30)
        except vks.AbandonedError:
            for surface in seen.recover(10):
                back.enqueue(surface)
            continue
        last = judged(surface, metadata, last)
        back.enqueue(surface, b"", (True, "gpu")[last % 2])


def receive(receiver: Any, last: int) -> None:
    """The same by a pipe's receiver."""
    while True:
        try:
            with receiver.frame(30, latest=last % 5 == 0) as (surface, metadata):
                last = judged(surface, metadata, last)
        except vks.AbandonedError:
            continue


def own(surface: Any, first: int) -> None:
    """Redraws the surface whenever it can be had."""
    number = first
    while True:
        number += 1
        surface.acquire(0, 30)
        if number % 2:
            access_patterns.clear(surface, number)
        else:
            surface.write(filled(surface, number))
        time.sleep(0.001)  # so that most kills come to an owner
        surface.release(1)


def filled(surface: Any, number: int) -> Any:
    """What access_patterns.clear() draws, by the CPU."""
    pixel = [number & 255, number >> 8 & 255, number >> 16 & 255, 255]
    return np.broadcast_to(np.array(pixel, np.uint8), surface.shape)


def judged(surface: Any, metadata: bytes, last: int) -> int:
    """The frame's number: its pixels are those that were drawn for it, and it is newer than the last."""
    number = int(metadata)
    assert number > last, f"frame {number} came after {last}"
    assert look(surface, number), f"frame {number} has other pixels"
    return number
