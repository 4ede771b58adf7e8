"""The two ends of a link, with all that they report; and an end that speaks the protocol by hand."""

from __future__ import annotations

import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from vkshare.remote import Link, LinkEvents, LinkListener, LinkState, connect
from vkshare.remote.handshake import (
    NO_BINDING,
    NO_SESSION,
    Terms,
    Token,
    ViewerHandshake,
)
from vkshare.remote.stream import Session, Stream

TOKEN = "a token of the tests, for links"
WAIT = 30.0  # seconds that end a hang


class End:
    """Records the reports of one end. Its messages are consumed at once, unless `is_reading` is False."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, bytes]] = []
        self.ended: list[int] = []
        self.states: list[LinkState] = []
        self.reasons: list[str] = []
        self.is_reading = True
        self.link: Link | None = None
        self._changed = threading.Condition()

    def events(self, link: Link) -> LinkEvents:
        self.link = link
        return LinkEvents(self._on_message, self._on_end, self.on_state)

    def _on_message(self, lane: int, message: bytes) -> None:
        with self._changed:
            self.messages.append((lane, message))
            self._changed.notify_all()
        if self.is_reading and self.link is not None:
            self.link.consumed(lane, len(message))

    def _on_end(self, lane: int) -> None:
        with self._changed:
            self.ended.append(lane)
            self._changed.notify_all()

    def on_state(self, state: LinkState, why: str) -> None:
        with self._changed:
            self.states.append(state)
            self.reasons.append(why)
            self._changed.notify_all()

    def until(self, is_reached: Any) -> None:
        """Waits until is_reached() is true."""
        with self._changed:
            assert self._changed.wait_for(is_reached, WAIT), (self.states, self.reasons, len(self.messages))

    def until_state(self, state: LinkState, times: int = 1) -> None:
        self.until(lambda: self.states.count(state) >= times)

    def of_lane(self, lane: int) -> list[bytes]:
        return [message for number, message in self.messages if number == lane]


def listen(end: End, **options: Any) -> LinkListener:
    return LinkListener(options.pop("bind", "127.0.0.1:0"), TOKEN, events=end.events, **options)


def join(end: End, address: str, token: str = TOKEN, **options: Any) -> Link:
    return connect(address, token, events=end.events, **options)


def put(link: Link, lane: int, message: bytes, **options: Any) -> None:
    """Sends, and waits for room where there is none."""
    while not link.send(lane, message, **options):
        assert link.wait_room(lane, len(message), WAIT)


class Manual:
    """A viewer over a plain socket: it passes the handshake, and then sends what a test wants."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), WAIT)
        self.handshake = ViewerHandshake(Token(TOKEN), NO_BINDING, Terms(NO_SESSION, 0, 0, 60_000, 60_000))
        self.sock.sendall(self.handshake.begin())
        while self.handshake.verdict is None:
            data = self.sock.recv(4096)
            assert data, "the host closed the connection"
            self.sock.sendall(self.handshake.feed(data))
        terms = self.handshake.verdict.terms
        self.session = Session(terms.generation, terms.session)
        self.stream = Stream(self.session, 60.0, 0.0)

    def until_closed(self) -> None:
        """Reads until the host has closed the connection."""
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass

    def close(self) -> None:
        self.sock.close()


def answer_to(address: str, data: bytes) -> bytes:
    """Returns everything that a host answers to bytes, until it closes the connection."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), WAIT) as sock:
        sock.sendall(data)
        answer = b""
        try:
            while more := sock.recv(4096):
                answer += more
        except ConnectionResetError:
            pass
        return answer


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Writes a self-signed certificate for localhost and its key, by openssl."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "30", "-subj", f"/CN={name}"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
