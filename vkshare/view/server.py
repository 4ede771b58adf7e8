"""ViewServer: a page that shows a surface, a pipe or a published name in browsers (rules W2, W5 to W7)."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.ipc.viewer_events import ViewerEvent
from vkshare.util import arguments, forks
from vkshare.util.closing import FlagClosing, on_error
from vkshare.util.deadline import Deadline
from vkshare.util.forks import OwnLock
from vkshare.view import security, tls
from vkshare.view.input import ViewerInput
from vkshare.view.security import Address
from vkshare.view.tls import Certificate

try:
    from vkshare.view import service, show
except ImportError as error:
    if error.name is None or error.name.partition(".")[0] == "vkshare":
        raise
    raise UnsupportedError(
        "vkshare.view in a browser", f"it needs {error.name} ({error})", "pip install 'vkshare[view]'"
    ) from None

if TYPE_CHECKING:
    import ssl

    from vkshare.core.device import Device
    from vkshare.view.viewer_session import EncoderViewer

_LONGEST_NAME = 1000  # characters
_LISTEN_HINTS = {
    errno.EADDRINUSE: "; choose another port, or 0 for any",
    errno.EADDRNOTAVAIL: "; choose an address of this machine, 127.0.0.1 for example",
    errno.EACCES: "; choose a port above 1023, or 0 for any",
}


@dataclass(frozen=True, slots=True)
class ViewStatistics:
    """A snapshot of a view server."""

    viewers: int  # connected now
    accepted: int  # viewers, ever
    connections: int  # ever
    refused: dict[str, int]  # by the reason: "host", "origin", "token", "request", "malformed", "limit", "late"
    garbage: int  # viewers that were cut off for a malformed message
    sent: int  # messages to viewers, ever
    events: int  # of input, ever
    merged: int  # events that went into the one before
    dropped: int  # events that no call of events() took in time


class ViewServer(FlagClosing):
    """Shows one source to browsers. Made by ``vks.view.serve()``.

    Thread-safe. The server has two threads of its own, and none of the producer's waits for it.

    Attributes
    ----------
    url
        The page's address with the token: every browser that has it sees the picture and may send events.
    address
        (host, port) at which it listens.
    token
        The token alone.
    name
        The name that the page shows.
    """

    _unpicklable = "hand its url to the other process"

    def __init__(
        self,
        source: Any,
        bind: str,
        *,
        token: str | None,
        certificate: Certificate | None,
        name: str | None,
        device: Device | None,
        on_event: Callable[[ViewerEvent], object] | None,
        hosts: Iterable[str],
    ) -> None:
        self._closed = True  # until all of it is there
        self._lock = OwnLock(self)
        self._changed = threading.Condition()  # of the source's end, and of the server's
        self._input = ViewerInput(source, on_event)
        self.token = security.make_token() if token is None else security.check_token(token)
        wanted = security.parse_bind(bind)
        names = security.check_hosts(hosts) | _own_names(wanted)
        self.name = _checked_name(_name_of(source) if name is None else name)
        context = _tls_context(certificate, wanted)
        with contextlib.ExitStack() as made:
            listener = made.enter_context(_listen(wanted))
            self.address = listener.getsockname()[:2]
            policy = security.Policy(self.token, context is not None, names, not wanted.is_loopback)
            self._service = service.Service(listener, policy, context, self._attach, self._input.take, service.LIMITS)
            self._show = made.enter_context(
                show.Show(source, device, self.name, on_change=self._service.restart_viewers, on_end=self._notify)
            )
            with _said_plainly(wanted):
                self._service.start()
            made.callback(self._service.stop)
            self._made = made.pop_all()
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://{_shown_authority(wanted, self.address[1])}/#{self.token}"
        self._closed = False

    @property
    def end(self) -> str | None:
        """Why the source has ended; None while it goes on. A name does not end with its publisher: see `waiting`."""
        return self._show.end

    @property
    def waiting(self) -> str | None:
        """A sentence about the wait while no process publishes the name that it shows; None while one does.

        Pages keep the last picture meanwhile, in grey, and show the next publisher's without a reload.
        Sources that are no names end with their owner: this is always None for them.
        """
        return self._show.waiting

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the source, or of the server. The server of a name does not end with its publisher.

        Parameters
        ----------
        timeout
            Seconds; None: without limit, 0: only look.

        Returns
        -------
        bool
            Whether it has ended.
        """
        deadline = Deadline(arguments.timeout(timeout))
        with self._changed:
            while not self._closed and self._show.end is None:
                left = deadline.left()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def events(self, timeout: float | None = 0) -> list[ViewerEvent]:
        """Return the input events of all viewers since the last call, oldest first.

        Events that follow one another and say the same thing are merged, as rendercanvas merges them.
        At most 4096 wait; then the oldest are dropped, and counted in statistics().

        Parameters
        ----------
        timeout
            Seconds to wait for the first event; 0 returns at once, None waits until there is one or the server is
            closed.

        Returns
        -------
        list of ViewerEvent
            Empty if none came.
        """
        self._lock.check()
        return self._input.events(timeout)

    def statistics(self) -> ViewStatistics:
        """Return a snapshot of the server."""
        counts, refused = self._service.snapshot()
        events, merged, dropped = self._input.counts()
        return ViewStatistics(
            viewers=counts.viewers,
            accepted=counts.accepted,
            connections=counts.connections,
            refused=refused,
            garbage=counts.garbage,
            sent=counts.sent,
            events=events,
            merged=merged,
            dropped=dropped,
        )

    def close(self) -> None:
        """End all viewers' connections and the threads. The source stays open. Idempotent.

        Raises
        ------
        InvalidCallError
            The callback for events calls it, on the thread that it would wait for; or a forked child does.
        """
        self._lock.check()
        if self._service.is_current_thread():
            raise InvalidCallError("on_event cannot close the server that calls it: close it on another thread")
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._input.end_waits()
        self._made.close()
        self._input.close()

    def __repr__(self) -> str:
        where = f"<vkshare.view.ViewServer {self.name!r} at {self.address[0]}:{self.address[1]}"
        if self._closed:
            return f"{where} closed>"
        if self._show.end is not None:
            return f"{where}, its source has ended>"
        if self._show.waiting is not None:
            return f"{where}, {self._show.waiting}>"
        return f"{where}, {self._service.snapshot()[0].viewers} viewers>"

    def _attach(self, send: Callable[[bytes], None], codecs: Sequence[str]) -> EncoderViewer:
        return self._show.attach(send, codecs)

    def _notify(self) -> None:
        """The source has ended."""
        with self._changed:
            self._changed.notify_all()


def serve(
    source: Any,
    bind: str = "127.0.0.1:0",
    *,
    token: str | None = None,
    certificate: Certificate | None = None,
    name: str | None = None,
    device: Device | None = None,
    on_event: Callable[[ViewerEvent], object] | None = None,
    hosts: Iterable[str] = (),
) -> ViewServer:
    """Show a source to browsers, on threads of its own: none of the producer's waits for a viewer.

    The page's address, ``server.url``, has a token; no page sees a picture or sends an event without
    it. The page shows pictures bit by bit as they are, or video while much changes, and says which.

    Parameters
    ----------
    source
        A Receiver, whose frames it takes; or a Surface, Sender, Swapchain, Compositor or published name, which it
        watches without taking part. A name outlives its publisher: the server waits for the next one.
    bind
        ``"HOST:PORT"`` with an IP address or ``localhost``; port 0: any free port. Only loopback needs no certificate.
    token
        22 to 256 characters of A-Z a-z 0-9 _ -, which every viewer needs; None: a new random one of 192 bits.
    certificate
        For https: an ``ssl.SSLContext`` for servers, or the paths of a certificate chain and its key (PEM).
    name
        The text that the page shows, up to 1,000 characters; None: the published name, if `source` is one.
    device
        The device that reads the pictures; None: the source's own.
    on_event
        Called with each input event of a viewer, in order, on the server's thread: it should return soon. None: events
        wait for ``server.events()``. The publisher of a name that asked for input gets them in any case.
    hosts
        Host names under which browsers reach the server, besides its IP addresses; for servers that are not on
        loopback, or behind a proxy.

    Returns
    -------
    ViewServer
        Close it, or use it in a ``with`` block.

    Raises
    ------
    UnsupportedError
        aiohttp is missing, or PyAV where video is asked for.
    ValueError
        `bind` is not on loopback and there is no certificate; `bind`, `token` or `hosts` is not as above; or a file of
        the certificate has no certificate, or no key.
    TypeError
        An argument is of another type than above; the text lists the sources.
    OSError
        The address is in use or not this machine's; or a file of the certificate cannot be read.

    Examples
    --------
    >>> sender, descriptor = vks.pipe(device, 64, 48)
    >>> with sender, descriptor, vks.open_receiver(device, descriptor) as receiver:
    ...     with vks.view.serve(receiver, name="a picture") as server:
    ...         print(server.url.partition("#")[0].startswith("http://127.0.0.1:"))
    True
    """
    return ViewServer(
        source,
        bind,
        token=token,
        certificate=certificate,
        name=name,
        device=device,
        on_event=on_event,
        hosts=hosts,
    )


def _checked_name(name: Any) -> str:
    found = arguments.text("name", name)
    if len(found) > _LONGEST_NAME:
        raise ValueError(f"name has {len(found)} characters; a page shows up to {_LONGEST_NAME}")
    return found


def _name_of(source: Any) -> str:
    """The published name, if the source is one."""
    return source if isinstance(source, str) else str(getattr(source, "name", "") or "")


def _listen(address: Address) -> socket.socket:
    """A socket at the address; raises OSError on the caller's thread."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = forks.close_in_child(socket.socket(family, socket.SOCK_STREAM))
    with on_error(listener.close):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with _said_plainly(address):
            listener.bind((address.host, address.port))
        listener.setblocking(False)
    return listener


@contextlib.contextmanager
def _said_plainly(address: Address) -> Iterator[None]:
    """An OSError in the block names the address, and what to do."""
    try:
        yield
    except OSError as error:
        hint = _LISTEN_HINTS.get(error.errno or 0, "")
        text = f"no view server can listen at {address.authority}: {error.strerror}{hint}"
        raise OSError(error.errno, text) from None


def _tls_context(certificate: Certificate | None, address: Address) -> ssl.SSLContext | None:
    """The TLS context; a ValueError where one is needed and not given."""
    if certificate is None:
        if not address.is_loopback:
            raise ValueError(
                f"bind is {address.authority!r}, which other machines reach: give certificate=(chain, key) for https, "
                'or bind to "127.0.0.1:0" and let others come through a tunnel (ssh -L)'
            )
        return None
    return tls.context_of(certificate)


def _own_names(address: Address) -> frozenset[str]:
    """The names of this machine, for a server that other machines reach."""
    return frozenset() if address.is_loopback else frozenset({socket.gethostname().lower()})


def _shown_authority(address: Address, port: int) -> str:
    """Where a browser finds the server: a name of this machine in place of "all addresses"."""
    if address.host in ("0.0.0.0", "::"):
        return f"{socket.gethostname()}:{port}"
    return Address(address.host, port).authority
