"""A pytest plugin: view servers of a test, with a pipe behind each, and connections that speak HTTP by hand."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import vkshare as vks
from support.required_parts import need
from vkshare import view

HANG = 30.0  # seconds
PROTOCOL = "vkshare.view.1"
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def need_aiohttp() -> None:
    """Skip the calling test where aiohttp is missing; fail it where it is required."""
    import importlib.util

    need("aiohttp", importlib.util.find_spec("aiohttp") is not None, "aiohttp is missing: pip install vkshare[view]")


class Shown:
    """A pipe whose frames a view server shows. Closed with the test."""

    def __init__(self, device: vks.Device, width: int = 64, height: int = 48, form: str = "rgba8unorm", **more: Any):
        self._ending = contextlib.ExitStack()
        self.sender, descriptor = vks.pipe(device, width, height, form)
        self._ending.enter_context(self.sender)
        self._ending.enter_context(descriptor)
        self.receiver = self._ending.enter_context(vks.open_receiver(device, descriptor))
        self.server = self._ending.enter_context(view.serve(self.receiver, **more))

    def send(self, picture: np.ndarray[Any, Any]) -> None:
        """Send a frame with these pixels."""
        with self.sender.frame(timeout=HANG) as frame:
            frame.surface.write(picture)

    def serve_again(self, **more: Any) -> None:
        """End the server, and begin another for the same pipe."""
        self.server.close()
        self.server = self._ending.enter_context(view.serve(self.receiver, **more))

    def close(self) -> None:
        self._ending.close()


@pytest.fixture
def show(device: vks.Device) -> Iterator[Any]:
    """show(width, height, format, **options of serve): a Shown of the test's device."""
    need_aiohttp()
    made: list[Shown] = []

    def begin(*arguments: Any, **options: Any) -> Shown:
        made.append(Shown(device, *arguments, **options))
        return made[-1]

    yield begin
    for each in reversed(made):
        each.close()


class RawPage:
    """A connection to a view server without a browser: what is to be sent, is sent."""

    def __init__(self, server: view.ViewServer, *, context: ssl.SSLContext | None = None) -> None:
        self.server = server
        self.host = f"127.0.0.1:{server.address[1]}"
        self.sock: socket.socket = socket.create_connection(("127.0.0.1", server.address[1]), HANG)
        if context is not None:
            self.sock = context.wrap_socket(self.sock, server_hostname="127.0.0.1")
        self._rest = b""

    def request(self, path: str = "/view", method: str = "GET", **fields: str | None) -> bytes:
        """Send a request of a WebSocket, with these fields in place of the usual ones; return its answer's head."""
        usual: dict[str, str | None] = {
            "Host": self.host,
            "Origin": f"http://{self.host}",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
            "Sec-WebSocket-Protocol": f"{PROTOCOL}, token.{self.server.token}",
        }
        usual |= {name.replace("_", "-"): value for name, value in fields.items()}
        lines = [f"{name}: {value}\r\n" for name, value in usual.items() if value is not None]
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1"))
        return self.head()

    def head(self) -> bytes:
        """The next answer's first lines; b"" where the connection ended."""
        while b"\r\n\r\n" not in self._rest:
            if not (data := self._receive()):
                return b""
            self._rest += data
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def everything(self) -> bytes:
        """All that comes until the connection ends."""
        while data := self._receive():
            self._rest += data
        return self._rest

    def _receive(self) -> bytes:
        try:
            return self.sock.recv(1 << 16)
        except ConnectionResetError:
            return b""

    # ---- WebSocket frames (RFC 6455, 5.2)

    def open(self) -> Self:
        """Open the WebSocket and say hello."""
        assert self.request().startswith(b"HTTP/1.1 101 ")
        self.say({"type": "hello", "version": 1})
        return self

    def say(self, message: Any) -> None:
        """Send a message as JSON."""
        self.send_frame(1, json.dumps(message).encode())

    def send_frame(self, opcode: int, body: bytes, *, is_masked: bool = True, final: int = 0x80) -> None:
        """Send one frame."""
        size = len(body)
        bit = 0x80 if is_masked else 0
        if size < 126:
            head = struct.pack("!BB", final | opcode, bit | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", final | opcode, bit | 126, size)
        else:
            head = struct.pack("!BBQ", final | opcode, bit | 127, size)
        self.sock.sendall(head + (bytes(4) if is_masked else b"") + body)  # a mask of zeros changes nothing

    def frame(self) -> tuple[int, bytes]:
        """The next frame: (opcode, body); (8, b"") where the connection ended."""
        head = self._exactly(2)
        if len(head) < 2:
            return 8, b""
        size = head[1] & 127
        if size > 125:
            size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
        return head[0] & 15, self._exactly(size)

    def until_closed(self) -> int:
        """The code with which the server closes the WebSocket; 0 where the connection ends without one."""
        while True:
            opcode, body = self.frame()
            if opcode == 8:
                return int.from_bytes(body[:2], "big")

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            if not (data := self._receive()):
                return b""
            self._rest += data
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key, by OpenSSL's command."""
    need("openssl", shutil.which("openssl") is not None, "openssl is not installed")
    chain, key = folder / "chain.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=vkshare test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run(
        [*command, *names, "-keyout", os.fspath(key), "-out", os.fspath(chain)], check=True, capture_output=True
    )
    return chain, key
