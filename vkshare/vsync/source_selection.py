"""Selects a display's tick source: the best one that works in a trial."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.errors import SurfaceLostError, UnsupportedError, VkshareError
from vkshare.util import arguments
from vkshare.util.closing import on_error
from vkshare.vsync import sources
from vkshare.vsync.source_probe import SECONDS, Trial, try_source
from vkshare.vsync.sources import VsyncSource

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.window.window import Window

_log = logging.getLogger("vkshare.vsync")

VARIABLE = "VKSHARE_VSYNC"
# The best first. The time stamp is the driver's, a thread's that waits for the display, the
# kernel's (over the X server), or a thread's that waits for a present of this process, of which
# there may be none.
KINDS = ("present-timing", "display-control", "x11-present", "present-wait")
NAMES = ("auto", *KINDS, "software")
_SURVEY_LIMIT = 0.5  # seconds; a bound, because connecting to a stopped X server never returns


@dataclass(frozen=True, slots=True)
class Attempt:
    """A kind of source, and the result of its trial."""

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
    """Returns the best source of vertical blanks that works.

    Parameters
    ----------
    window
        A window on the display: a vks.Window or an X11 window's id; None: the X server's root
        window.
    device, swapchain, vk_display
        An engine's device, its VkSwapchainKHR and its VkDisplayKHR, for the kinds that need them.
    name
        A kind to use even if its trial fails, ``"software"`` to return None at once, or ``"auto"``.
        None: the value of the environment variable VKSHARE_VSYNC, or "auto".
    seconds
        Seconds for which each kind that is available is tried, above 0, up to 60; the call blocks.

    Returns
    -------
    VsyncSource | None
        The source, stopped, which the caller closes. None: none works, or "software" is wanted, so
        use a Display without a source.

    Raises
    ------
    UnsupportedError
        The kind that was named is not available here.
    ValueError
        `name`, or VKSHARE_VSYNC, is not a known kind; or `seconds` is out of its bounds.
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
    """Tries each kind of source on the X server that DISPLAY names. Takes half a second at most.

    Parameters
    ----------
    seconds
        Seconds for which each kind that is available is tried.

    Returns
    -------
    list[Attempt]
        The `kind` of each source, the best first, and its `trial`, a Trial.
    """
    found: list[Attempt] = []

    def try_all() -> None:
        for source, attempt in _attempts(_factories(None, None, None, None), seconds):
            found.append(attempt)
            if source is not None:
                source.close()

    # A daemon, because connecting cannot be interrupted.
    thread = threading.Thread(target=try_all, name="vkshare vsync survey", daemon=True)
    thread.start()
    thread.join(_SURVEY_LIMIT)
    done = {attempt.kind: attempt for attempt in list(found)}
    no_answer = Trial(False, f"the X server does not answer within {_SURVEY_LIMIT} s")
    return [done.get(kind) or Attempt(kind, no_answer) for kind in KINDS]


def forced(name: str | None = None) -> str:
    """Returns one of NAMES: `name`, else VKSHARE_VSYNC, else "auto". ValueError: it is not a known name."""
    if name is not None:
        return arguments.choice("name", name, NAMES)
    return arguments.choice(VARIABLE, os.environ.get(VARIABLE) or "auto", NAMES)


def _use_named(kind: str, make: Callable[[], VsyncSource], seconds: float) -> VsyncSource:
    try:
        source = make()
    except SurfaceLostError as error:  # no such X server or window
        raise UnsupportedError(kind, str(error), "see vkshare info for what works here") from error
    with contextlib.ExitStack() as stack:
        stack.push(source)
        trial = try_source(source, seconds)
        if source.is_lost:
            raise UnsupportedError(kind, trial.why)
        if not trial.works:
            _log.warning("%r was requested by name, and is used although %s", source, trial.why)
        stack.pop_all()
    return source


def _attempts(
    factories: dict[str, Callable[[], VsyncSource]], seconds: float
) -> Iterator[tuple[VsyncSource | None, Attempt]]:
    """Tries each kind in turn; yields its source, open and stopped, for the caller to close, or None if unavailable."""
    for kind, make in factories.items():
        try:
            source = make()
        except VkshareError as error:
            why = error.why if isinstance(error, UnsupportedError) else str(error)
            yield None, Attempt(kind, Trial(False, why))
            continue
        with on_error(source.close):
            trial = try_source(source, seconds)
        yield source, Attempt(kind, trial)


def _factories(
    window: Window | int | None, device: Device | None, swapchain: int | None, vk_display: int | None
) -> dict[str, Callable[[], VsyncSource]]:
    """Returns functions that open a source, by kind, the best first. Each may raise."""

    def on_device(cls: Any, what: str, vk_handle: int | None) -> VsyncSource:
        if device is None or vk_handle is None:
            raise UnsupportedError(cls.kind, f"no device and {what} to try it on", "pass both")
        return cls(device, vk_handle)  # type: ignore[no-any-return]

    return {
        "present-timing": lambda: on_device(sources.PresentTimingSource, "VkSwapchainKHR", swapchain),
        "display-control": lambda: on_device(sources.DisplayControlSource, "VkDisplayKHR", vk_display),
        "x11-present": lambda: sources.X11PresentSource(window),
        "present-wait": lambda: on_device(sources.PresentWaitSource, "VkSwapchainKHR", swapchain),
    }
