"""Which source a display should listen to: the best one that a trial finds to work."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare import _arguments
from vkshare.errors import SurfaceLostError, UnsupportedError, VkshareError
from vkshare.vsync.source_probe import SECONDS, Trial, try_source
from vkshare.vsync.sources import (
    DisplayControlSource,
    PresentTimingSource,
    PresentWaitSource,
    VsyncSource,
    X11PresentSource,
)

if TYPE_CHECKING:
    from vkshare.device import Device
    from vkshare.present.window import Window

_log = logging.getLogger("vkshare.vsync")

VARIABLE = "VKSHARE_VSYNC"
# The best first: stamped by the driver; stamped by whoever waited for the display; by the kernel, over the X server; by
# whoever waited for a present of ours, of which there may be none.
KINDS = ("present-timing", "display-control", "x11-present", "present-wait")
NAMES = ("auto", *KINDS, "software")
_SURVEY_LIMIT = 0.5  # seconds that a survey takes at most: connecting to an X server that is stopped never ends


@dataclass(frozen=True, slots=True)
class Attempt:
    """A kind of source, and what came of trying it here."""

    kind: str
    trial: Trial


def choose(
    window: Window | int | None = None,
    *,
    device: Device | None = None,
    swapchain: int | None = None,
    vk_display: int | None = None,
    name: str | None = None,
    seconds: float = SECONDS,
) -> VsyncSource | None:
    """The best source of vertical blanks that works, stopped; None: there is none, the software timer has to do.

    Blocks for `seconds` for each kind that can be tried.

    Parameters
    ----------
    window
        What is shown on the display: a vks.Window or an X11 window's id; None: the X server's root window.
    device, swapchain, vk_display
        An engine's device, its VkSwapchainKHR and its VkDisplayKHR, for the kinds that need them.
    name
        A kind that is used whatever its trial says, ``"software"`` for None at once, or ``"auto"``. None: what the
        environment variable VKSHARE_VSYNC says, or "auto".

    Raises
    ------
    UnsupportedError
        The kind that was named cannot be had here.
    ValueError
        There is no such name.
    """
    wanted = forced(name)
    if wanted == "software":
        return None
    factories = _factories(window, device, swapchain, vk_display)
    if wanted != "auto":
        return _use_named(wanted, factories[wanted], seconds)
    for source, attempt in _attempts(factories, seconds):
        if source is not None and attempt.trial.works:
            return source
        if source is not None:
            source.close()
        _log.debug("%s: %s", attempt.kind, attempt.trial.why)
    return None


def survey(seconds: float = SECONDS) -> list[Attempt]:
    """What comes of trying each kind on the X server that DISPLAY names. Takes half a second at most."""
    found: list[Attempt] = []

    def try_all() -> None:
        for source, attempt in _attempts(_factories(None, None, None, None), seconds):
            found.append(attempt)
            if source is not None:
                source.close()

    # A daemon: there is no way to end the connecting.
    thread = threading.Thread(target=try_all, name="vkshare vsync survey", daemon=True)
    thread.start()
    thread.join(_SURVEY_LIMIT)
    told = {attempt.kind: attempt for attempt in list(found)}
    no_answer = Trial(False, f"the X server does not answer within {_SURVEY_LIMIT} s")
    return [told.get(kind) or Attempt(kind, no_answer) for kind in KINDS]


def forced(name: str | None = None) -> str:
    """One of NAMES: what the call says, else VKSHARE_VSYNC, else "auto". ValueError: there is no such name."""
    if name is not None:
        return _arguments.choice("name", name, NAMES)
    return _arguments.choice(VARIABLE, os.environ.get(VARIABLE) or "auto", NAMES)


def _use_named(kind: str, make: Callable[[], VsyncSource], seconds: float) -> VsyncSource:
    try:
        source = make()
    except SurfaceLostError as error:  # no server at all, or no such window: nothing of ours was lost
        raise UnsupportedError(kind, str(error), "see vkshare info for what works here") from error
    with contextlib.ExitStack() as stack:
        stack.push(source)
        trial = try_source(source, seconds)
        if source.is_lost:
            raise UnsupportedError(kind, trial.why)
        if not trial.works:
            _log.warning("%r was asked for, and is used though %s", source, trial.why)
        stack.pop_all()
    return source


def _attempts(
    factories: dict[str, Callable[[], VsyncSource]], seconds: float
) -> Iterator[tuple[VsyncSource | None, Attempt]]:
    """Each kind in turn, its source open and stopped, for the caller to close; None where it cannot be had."""
    for kind, make in factories.items():
        try:
            source = make()
        except VkshareError as error:
            why = error.why if isinstance(error, UnsupportedError) else str(error)
            yield None, Attempt(kind, Trial(False, why))
            continue
        try:
            trial = try_source(source, seconds)
        except BaseException:
            source.close()
            raise
        yield source, Attempt(kind, trial)


def _factories(
    window: Window | int | None, device: Device | None, swapchain: int | None, vk_display: int | None
) -> dict[str, Callable[[], VsyncSource]]:
    """By kind, the best first. Each may raise."""

    def on_device(cls: Any, what: str, vk_handle: int | None) -> VsyncSource:
        if device is None or vk_handle is None:
            raise UnsupportedError(cls.kind, f"no device and {what} to try it on", "name both")
        source: VsyncSource = cls(device, vk_handle)
        return source

    return {
        "present-timing": lambda: on_device(PresentTimingSource, "VkSwapchainKHR", swapchain),
        "display-control": lambda: on_device(DisplayControlSource, "VkDisplayKHR", vk_display),
        "x11-present": lambda: X11PresentSource(window),
        "present-wait": lambda: on_device(PresentWaitSource, "VkSwapchainKHR", swapchain),
    }
