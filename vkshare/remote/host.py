"""Host: programs of this machine draw on a viewer's GPU, in windows there."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from vkshare.backends import host_memory
from vkshare.core.device import Device
from vkshare.core.opening import open
from vkshare.errors import ClosedError
from vkshare.remote import addresses, folders, tls
from vkshare.remote import relay_messages as m
from vkshare.remote.device import open_device
from vkshare.remote.host_connection import TIMEOUT, NoViewerError
from vkshare.remote.link import GRACE, KEEPALIVE, Link
from vkshare.remote.link_listener import LinkListener
from vkshare.remote.link_types import LinkEvents, LinkState, LinkStatistics
from vkshare.remote.relay import Relay
from vkshare.remote.target import RemoteTarget
from vkshare.server import wire
from vkshare.server.messages import decode
from vkshare.server.server import RenderServer
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing
from vkshare.util.forks import OwnLock

_log = logging.getLogger("vkshare.remote")


class Host(FlagClosing):
    """The application's side of remoting: listens for a viewer, and for programs of this machine (rule M14).

    Thread-safe.

    Parameters
    ----------
    bind
        "HOST:PORT" to listen at for the viewer; port 0 is any free one.
    token
        The secret that the viewer must have, of 16 characters or more.
    certificate
        Files with the certificate and its key (PEM), for TLS 1.3. None: no TLS, on loopback only.
    path
        Socket for programs of this machine; None: one in a folder of its own.
    keepalive, grace
        As of LinkListener.

    Raises
    ------
    ValueError, OSError, UnsupportedError
        As LinkListener and RenderServer.

    Examples
    --------
    >>> with vks.remote.Host("127.0.0.1:0", token="a token of this example") as host:
    ...     with vks.remote.Viewer(host.address, token="a token of this example", headless=True):
    ...         with host.open() as remote, remote.create_surface(64, 48) as picture, picture.access() as view:
    ...             submission = remote.submit(remote.record().clear(view, (1, 0, 0, 1)))
    """

    def __init__(
        self,
        bind: str,
        *,
        token: str,
        certificate: tls.Paths | None = None,
        path: str | os.PathLike[str] | None = None,
        keepalive: float = KEEPALIVE,
        grace: float = GRACE,
    ) -> None:
        self._closed = True  # until the constructor succeeds
        self._own = OwnLock(self)
        self._relay = Relay(lambda call: self._server.call_soon(call))
        with contextlib.ExitStack() as made:
            if path is None:
                path = made.enter_context(folders.made("host"))
            # Requests of remoting draw nothing here; the other requests of a render server do.
            device = made.enter_context(open(host_memory.UUID, backend="cpu", name="vkshare host"))
            self._server = RenderServer(device, path, kinds=self._relay.kinds)
            made.callback(self._server.close)
            self._listener = made.enter_context(
                LinkListener(bind, token, certificate, events=self._events, keepalive=keepalive, grace=grace)
            )
            self._relay.link = self._listener.link
            thread = threading.Thread(target=self._server.serve_forever, name="vks-host", daemon=True)
            thread.start()
            made.callback(thread.join)
            made.callback(self._server.shutdown)
            self._made = made.pop_all()
        self._closed = False

    def _events(self, link: Link) -> LinkEvents:
        def soon(call: Callable[[], object]) -> None:
            generation = link.generation
            self._server.call_soon(lambda: self._contained(link, generation, call))

        def on_message(lane: int, data: bytes) -> None:
            generation = link.generation
            soon(lambda: self._arrived(link, generation, lane, data))

        def on_end(lane: int) -> None:
            generation = link.generation
            soon(lambda: self._ended(link, generation, lane))

        return LinkEvents(
            on_message=on_message,
            on_end=on_end,
            on_state=lambda state, why: soon(lambda: self._changed(state, why)),
            on_room=lambda: soon(self._relay.has_room),
            may_begin=self._relay.has_opened,
        )

    def _contained(self, link: Link, generation: int, call: Callable[[], object]) -> None:
        """Makes a call on the loop: an error that nothing expects ends the session, and not the loop."""
        try:
            call()
        except Exception as error:
            _log.exception("the host has failed")
            link.reject(f"the host has failed: {type(error).__name__}: {error}", generation=generation)

    # ---- the server's loop -----------------------------------------------------------------------------------------

    def _arrived(self, link: Link, generation: int, lane: int, data: bytes) -> None:
        if generation != link.generation:  # of a viewer that another one has replaced since
            return
        if lane:
            return self._relay.received(lane, data)
        try:
            for message in wire.Splitter().feed(data):
                if message.opcode == m.Op.READY:
                    self._relay.viewer_came(decode(m.ViewerReady, message.body))
        except wire.ProtocolError as error:
            link.reject(f"the viewer sent a malformed message: {error}", generation=generation)
        link.consumed(0, len(data), generation=generation)

    def _ended(self, link: Link, generation: int, lane: int) -> None:
        if generation == link.generation:
            self._relay.lane_ended(lane)

    def _changed(self, state: LinkState, why: str) -> None:
        if state in (LinkState.REPLACED, LinkState.LOST, LinkState.CLOSED):
            self._relay.viewer_lost(why or "the link was closed")

    # ---- for programs ----------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The address that viewers connect to, "HOST:PORT"."""
        return self._listener.address

    @property
    def path(self) -> Path:
        """The socket that programs of this machine connect to: VKSHARE_REMOTE names it to them."""
        return self._server.path

    def open(self, timeout: float | None = TIMEOUT, *, name: str = "") -> Device:
        """Opens a device that draws at the viewer.

        Its surfaces, command lists, fences, keyed mutexes, queues and swapchains are used as those
        of any other device. An acquire never waits for the viewer. ``read()`` fetches the pixels,
        which takes a round trip; the CPU cannot map them.

        Parameters
        ----------
        timeout
            Seconds to wait for a viewer to connect; None: without limit.
        name
            Shown by ``vkshare ps``.

        Returns
        -------
        Device
            Close it, or use it in a ``with`` block.

        Raises
        ------
        TimeoutError
            No viewer has come in time.
        ClosedError
            The Host is closed.
        """
        self._own.check()
        if self._closed:
            raise ClosedError(f"this Host is closed: {self!r}")
        try:
            return open_device(self.path, name, timeout)
        except NoViewerError:
            address = addresses.for_others(self.address)
            raise TimeoutError(
                f"no viewer has connected to {self.address} within {timeout:g} s: start `vkshare viewer {address}`"
            ) from None

    def window(self, width: int, height: int, title: str = "") -> RemoteTarget:
        """Describes a window at the viewer: a target of ``device.create_swapchain()``.

        Parameters
        ----------
        width, height
            Pixels, 1 to what the viewer's device allows (``max_dimension`` of its capabilities); 2**20 at most.
        title
            Text of its title bar, up to 256 characters.

        Returns
        -------
        RemoteTarget
            The window opens with the swapchain, and closes with it.
        """
        size = arguments.integer("width", width, 1, 2**20), arguments.integer("height", height, 1, 2**20)
        return RemoteTarget(*size, arguments.text("title", title)[:256])

    def statistics(self) -> LinkStatistics:
        """Returns a snapshot of the link to the viewer."""
        return self._listener.statistics()

    def close(self) -> None:
        """Ends the session and the programs' devices. Idempotent."""
        self._own.check()
        if not self._closed:
            self._closed = True
            self._made.close()
            self._relay.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._listener.link.state}"
        return f"<vkshare.remote.Host at {self._listener.address}, {state}>"
