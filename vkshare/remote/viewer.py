"""Viewer: draws what programs on another machine draw, with this machine's GPU, in windows here."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vkshare import formats
from vkshare.core.device import Device
from vkshare.core.opening import open
from vkshare.errors import DeviceLostError, RemoteLostError, VkshareError
from vkshare.remote import folders
from vkshare.remote import relay_messages as m
from vkshare.remote.lanes import Lane
from vkshare.remote.link import GRACE, KEEPALIVE, Link
from vkshare.remote.link_client import connect
from vkshare.remote.link_types import LinkEvents, LinkState
from vkshare.remote.pictures import Pictures
from vkshare.remote.playout import MOST_DELAY, MOST_PLAYOUT
from vkshare.remote.viewer_requests import ViewerRequests
from vkshare.remote.viewer_windows import ViewerWindows
from vkshare.server import wire
from vkshare.server.messages import decode, encode
from vkshare.server.server import RenderServer
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing
from vkshare.util.forks import OwnLock

_log = logging.getLogger("vkshare.remote")

_SLICE = 0.1  # seconds between two looks whether the link is there
_PATIENCE = 3600.0  # seconds for one request: the host's requests wait for no program, but drivers may be slow


@dataclass(frozen=True, slots=True)
class ViewerStatistics:
    """A snapshot of a viewer.

    Attributes
    ----------
    state
        The link's state.
    programs
        Programs that draw here now.
    arrived, composites
        Pictures that programs have presented, and pictures that were shown.
    rate, longest
        Pictures shown a second over the last ten seconds in which some were, and the longest time between two of them
        in seconds; 0: fewer than two were.
    delay
        Seconds that pictures wait now, so that they are shown steadily; the most of all windows.
    """

    state: str
    programs: int
    arrived: int
    composites: int
    rate: float
    longest: float
    delay: float


class Viewer(FlagClosing):
    """Connects to a host, and draws there what its programs record (rule M14).

    run() is for the main thread, which windows need; the other methods are thread-safe.

    Parameters
    ----------
    address
        "HOST:PORT" of the host.
    token
        The host's secret.
    certificate
        A file with the host's certificate, "system" for one that the machine's authorities have signed, or None for a
        host on this machine without TLS.
    device
        Device to draw with, which stays the caller's; None: opens the best one.
    headless
        No windows: pictures() has what they would show.
    playout
        The most seconds that a picture waits, so that pictures which have arrived together after a lost packet are
        shown at the pace at which they were presented, 0 to 2. The wait follows the link: it is 0 where pictures
        arrive steadily, and for a picture that follows a pause. 0: each picture is shown as soon as it arrives.
    digested
        The title of a window: digests() has the SHA-256 of each picture that it shows, which costs a read of each.
    keepalive, grace
        As of LinkListener.

    Raises
    ------
    OSError, RemoteLostError, ValueError
        As connect(), and ValueError if `playout` is out of its range.

    Examples
    --------
    >>> host = vks.remote.Host("127.0.0.1:0", token="a token of this example")
    >>> with host, vks.remote.Viewer(host.address, token="a token of this example", headless=True) as viewer:
    ...     viewer.statistics().programs
    0
    """

    def __init__(
        self,
        address: str,
        *,
        token: str,
        certificate: str | os.PathLike[str] | None = None,
        device: Device | None = None,
        headless: bool = False,
        playout: float = MOST_DELAY,
        digested: str | None = None,
        keepalive: float = KEEPALIVE,
        grace: float = GRACE,
    ) -> None:
        self._closed = True  # until the constructor succeeds
        playout = arguments.number("playout", playout, 0, MOST_PLAYOUT)
        self._own = OwnLock(self)
        self._lanes: dict[int, Lane] = {}
        self._stopping = threading.Event()
        self._is_ending = False  # close() was called
        self._why = ""  # why the session is over
        self._failed = 0  # the generation of the last session that this side has ended
        with contextlib.ExitStack() as made:
            self._device = device or made.enter_context(open(name="vkshare viewer", held_limit=1 << 20))
            self._pictures = Pictures(self._device)
            made.callback(self._pictures.close)
            self._windows = ViewerWindows(
                self._device, self._tell, headless=headless, playout=playout, digested=digested
            )
            made.callback(self._windows.close)
            kinds = ViewerRequests(self._pictures, self._windows).kinds
            path = made.enter_context(folders.made("viewer"))
            self._server = RenderServer(self._device, path, kinds=kinds, patience=_PATIENCE)
            made.callback(self._server.close)
            made.callback(self._close_lanes)
            thread = threading.Thread(target=self._server.serve_forever, name="vks-viewer", daemon=True)
            thread.start()
            made.callback(thread.join)
            made.callback(self._server.shutdown)
            self._link = made.enter_context(
                connect(address, token, certificate, events=self._events, keepalive=keepalive, grace=grace)
            )
            self._say_ready()
            self._made = made.pop_all()
        self._closed = False

    def _events(self, link: Link) -> LinkEvents:
        def soon(call: Callable[[int], object]) -> None:
            generation = link.generation
            self._server.call_soon(lambda: self._contained(link, generation, call))

        return LinkEvents(
            on_message=lambda lane, data: soon(lambda generation: self._arrived(link, generation, lane, data)),
            on_end=lambda lane: soon(lambda _: self._ended(lane)),
            on_state=lambda state, why: soon(lambda _: self._changed(state, why)),
            on_room=lambda: soon(lambda _: self._has_room()),
        )

    def _contained(self, link: Link, generation: int, call: Callable[[int], object]) -> None:
        """Makes a call on the loop. An error ends the session and not the loop: garbage, or no fd is left."""
        try:
            call(generation)
            if self._device.is_lost:
                raise DeviceLostError("the viewer's device is lost")
        except Exception as error:
            self._fail(link, generation, f"{type(error).__name__}: {error}")

    def _fail(self, link: Link, generation: int, why: str) -> None:
        if self._failed != generation and not self._is_ending:
            self._failed = generation
            _log.error("the viewer ends the session: %s", why)
            link.reject(why, generation=generation)

    def _say_ready(self) -> None:
        capabilities = self._device.capabilities
        ready = m.ViewerReady(
            f"{self._device.adapter.name} of a viewer",
            tuple(sorted(name for name in capabilities.formats if not formats.get(name).is_planar)),
            capabilities.max_dimension,
            capabilities.subpixel_bits,
        )
        self._link.send(0, wire.pack(m.Op.READY, 0, 0, encode(ready)))

    # ---- the server's loop -----------------------------------------------------------------------------------------

    def _arrived(self, link: Link, generation: int, number: int, data: bytes) -> None:
        if generation != link.generation:  # of a session that another one has replaced since
            return
        if number == 0:
            return self._control(link, generation, data)
        lane = self._lanes.get(number)
        if lane is None:
            # Other programs wait for the turns of a session that has died, so it takes the others with it.
            on_death = functools.partial(self._fail, link, generation, f"the session of program {number} has died")
            lane = self._lanes[number] = Lane(number, link, generation, self._server, on_death)
        lane.arrived(data)

    def _control(self, link: Link, generation: int, data: bytes) -> None:
        for message in wire.Splitter().feed(data):
            if message.opcode == m.Op.IMAGE:
                self._pictures.add(decode(m.Image, message.body))
            elif message.opcode == m.Op.FORGET_IMAGE:
                over: m.Forget = decode(m.Forget, message.body)
                self._pictures.forget(over.id, over.turns)
        link.consumed(0, len(data), generation=generation)

    def _ended(self, number: int) -> None:
        lane = self._lanes.pop(number, None)
        if lane is not None:
            lane.ended()

    def _has_room(self) -> None:
        for lane in list(self._lanes.values()):
            with contextlib.suppress(VkshareError):
                lane.has_room()

    def _changed(self, state: LinkState, why: str) -> None:
        if state in (LinkState.REPLACED, LinkState.LOST, LinkState.CLOSED):
            self._close_lanes()
            self._pictures.end_session(self._server.counts.accepted)
        if state is LinkState.REPLACED:
            with contextlib.suppress(VkshareError):
                self._say_ready()
        if state is LinkState.BROKEN and not self._is_ending:
            _log.warning("the connection broke (%s): trying again", why)
        if state is LinkState.LOST:
            self._why = why
            self._windows.wake()

    def _close_lanes(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    def _tell(self, client: int, event: m.Input | m.WindowLost) -> None:
        opcode = m.Op.INPUT if isinstance(event, m.Input) else m.Op.WINDOW_LOST

        def tell() -> None:
            served = self._server.clients.get(client)
            if served is not None:
                served.tell(opcode, event)

        self._server.call_soon(tell)

    # ---- for programs ----------------------------------------------------------------------------------------------

    def run(self, seconds: float | None = None) -> None:
        """Shows the programs' windows until the host ends the session, or stop() is called.

        Parameters
        ----------
        seconds
            Time after which it returns; None: without limit.

        Raises
        ------
        RemoteLostError
            The host is gone, or did not come back within the grace.
        """
        self._own.check()
        end = None if seconds is None else time.monotonic() + seconds
        while not self._stopping.is_set() and (end is None or time.monotonic() < end):
            if self._why:
                raise RemoteLostError(self._why)
            self._windows.turn(_SLICE)
            self._pictures.reap()

    def stop(self) -> None:
        """Makes run() return soon. From any thread."""
        self._stopping.set()
        self._windows.wake()

    def pictures(self) -> dict[str, Any]:
        """Returns the newest picture of each window, also one that waits, an array (H, W, C), by the window's title."""
        return self._windows.pictures()

    def digests(self) -> list[str]:
        """Returns the SHA-256 (hex) of each picture that the window `digested` has shown, the oldest first.

        A picture's bytes are those of its array in pictures(). The newest 10,000 are kept.
        """
        return list(self._windows.digests)

    def statistics(self) -> ViewerStatistics:
        """Returns a snapshot of the counters."""
        state = "closed" if self._closed else str(self._link.state)
        windows = self._windows
        return ViewerStatistics(state, len(self._lanes), windows.arrived, windows.composites, *windows.pace())

    def close(self) -> None:
        """Ends the session, and closes the windows. Idempotent."""
        self._own.check()
        self._stopping.set()
        if not self._closed:
            self._closed = self._is_ending = True
            self._made.close()

    def __repr__(self) -> str:
        return f"<vkshare.remote.Viewer, {'closed' if self._closed else self._link.state}>"
