"""The shared demo's parent: starts three processes that draw one surface in turn, and sees to it that all end."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from vkshare.compositor.window_host import Signals
from vkshare.demos import process
from vkshare.demos.options import Options
from vkshare.demos.party import EDGES, PARTIES, Stamps
from vkshare.demos.process import Child, DemoError

_GRACE = 0.5  # seconds in which the others may say what they saw, after one has failed
_LOOK = 60.0  # seconds: the longest sleep


def run(
    options: Options, signals: Signals, progress: Callable[[int], None] = lambda frames: None
) -> dict[str, Any] | None:
    """Runs the demo, and returns its report; None: a signal ended it. All processes have ended then.

    Parameters
    ----------
    progress
        Called with the number of frames that were checked so far.

    Raises
    ------
    DemoError
        A process failed or died; the others were ended.
    """
    stamps = Stamps.create(options.frames)
    children: list[Child] = []
    try:
        try:
            _start(options, stamps, children)
            _watch(children, signals, progress)
        finally:
            process.end(children)
        return None if signals.came else _report(options, Stamps(stamps), [child.done for child in children])
    finally:
        os.close(stamps)


def _start(options: Options, stamps: int, children: list[Child]) -> None:
    """Appends to `children` as they start, so that those that did are ended if one does not.

    They inherit the mask, and take SIGTERM when they are ready to end well: see party.py.
    """
    to_text, from_text = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    to_checker, from_checker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ends = ((to_text, to_checker), (from_text,), (from_checker,))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        with to_text, from_text, to_checker, from_checker:
            for index, name in enumerate(PARTIES):
                links = [end.fileno() for end in ends[index]]
                given = options, index, stamps, links
                children.append(Child.start(name, "vkshare.demos.party", *given, fds=(stamps, *links)))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(children: list[Child], signals: Signals, progress: Callable[[int], None]) -> None:
    """Until all have ended well, or a signal came. DemoError when one has not, or does not end after it was done."""
    deadline: float | None = None
    talking = {child.fileno(): child for child in children}
    while talking and not signals.came:
        for fd in signals.wait(_LOOK if deadline is None else deadline - time.monotonic(), *talking):
            child = talking[fd]
            if not child.read():
                del talking[fd]
                child.wait()
            elif "frame" in child.reported:
                progress(child.reported["frame"] + 1)
        if deadline is None:
            deadline = _deadline(children)
        elif time.monotonic() >= deadline:
            break
    bad = [child for child in children if child.has_failed or not child.has_ended]
    if bad and not signals.came:
        # First a death, then what is no consequence of one.
        raise DemoError(min(bad, key=lambda child: child.blame).obituary())


def _deadline(children: list[Child]) -> float | None:
    """When to wait no longer, on CLOCK_MONOTONIC; None while all is well and there is work."""
    if any(child.has_failed for child in children):
        return time.monotonic() + _GRACE
    if all(child.done for child in children):
        return time.monotonic() + process.ENDING
    return None


def _report(options: Options, stamps: Stamps, reported: list[dict[str, Any]]) -> dict[str, Any]:
    """The contents of `vkshare demo shared --json`, from the final messages of the three processes."""
    renderer, _, checker = reported
    seconds = stamps.seconds()
    return {
        "frames": options.frames,
        "seconds": seconds,
        "frames_per_second": options.frames / seconds,
        "width": options.width,
        "height": options.height,
        "format": renderer["format"],
        "tiling": renderer["tiling"],
        "adapter": renderer["adapter"],
        "why": renderer["why"],  # it was chosen
        "handovers": [_handover(stamps, giver, taker) for giver, taker in EDGES],
        # Bytes, by process: what the copy paths themselves counted.
        "copied_per_frame": {name: one["copied"] / options.frames for name, one in zip(PARTIES, reported, strict=True)},
        "copied_setup": renderer["setup_copied"],  # bytes, once: the picture on the cube, and noise for the backdrop
        "forced_copy": options.force_copy,
        "faulty": checker["faulty"],  # frames in which something was not as it must be
        "faults": checker["faults"],  # of the first of them
        "output": options.output,
        "ok": checker["faulty"] == 0,
    }


def _handover(stamps: Stamps, giver: int, taker: int) -> dict[str, Any]:
    """From one process to the next, in microseconds; None where there was no hand-over: one frame has no next."""
    seconds = stamps.handovers(giver, taker)
    p50, p99 = (float(p) * 1e6 for p in np.percentile(seconds, (50, 99))) if len(seconds) else (None, None)
    held = float(np.median(stamps.held(giver))) * 1e6  # that the giver had owned it before
    return {"giver": PARTIES[giver], "taker": PARTIES[taker], "p50": p50, "p99": p99, "held": held}
