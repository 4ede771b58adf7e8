"""Render servers of a test, clients of theirs, and connections that speak the wire format by hand."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

import vkshare as vks
from support.tree_paths import TESTS
from vkshare.server import messages as m
from vkshare.server import wire
from vkshare.server.session_state import NO_GENERATION
from vkshare.util.library_calls import lib


def open_cpu() -> vks.Device:
    return vks.open(backend="cpu", name="server")


class Place:
    """Servers in threads of this process, and everything connected to them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._ending = contextlib.ExitStack()

    def path(self) -> Path:
        return self._folder / f"server-{next(self._numbers)}"

    def server(self, device: Any = open_cpu, **options: Any) -> vks.server.RenderServer:
        """Starts a server in a thread. An error of its loop fails the test."""
        server = vks.server.RenderServer(device, options.pop("path", None) or self.path(), **options)
        raised: list[BaseException] = []

        def serve() -> None:
            try:
                server.serve_forever()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=serve, name="loop")
        thread.start()

        def end() -> None:
            server.close()
            thread.join(20)
            assert not thread.is_alive(), "the loop does not end"
            if raised:
                raise raised[0]
            assert server.statistics().failed == 0, "the server's own errors: see its log"

        self._ending.callback(end)
        return server

    def client(self, server: vks.server.RenderServer, **options: Any) -> vks.server.Client:
        options.setdefault("timeout", 30)
        return self._ending.enter_context(vks.server.Client(server.path, **options))

    def raw(self, server: vks.server.RenderServer, *, greets: bool = True) -> Raw:
        raw = self._ending.enter_context(Raw(server.path))
        if greets:
            raw.hello()
        return raw

    @contextlib.contextmanager
    def party(
        self, path: Path, role: str, argument: object = 0, *, of: str = "server_peer"
    ) -> Iterator[subprocess.Popen[str]]:
        """Another process in a role of such a module's, once it is at what it does; killed in the end."""
        command = [sys.executable, "-m", f"support.{of}", os.fspath(path), role, str(argument)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS)
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "here\n"
            yield child
        finally:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()

    def device(self) -> vks.Device:
        return self._ending.enter_context(open_cpu())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ending.close()


class Raw:
    """A connection without a client library: whatever is to be sent, is sent."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(30)
        self.sock.connect(os.fspath(path))
        self.generation = 0
        self.sequence = 0
        self._splitter = wire.Splitter()
        self._messages: list[wire.Message] = []

    def hello(self) -> m.Welcome:
        self.send(m.Op.HELLO, m.Hello("raw"), generation=NO_GENERATION)
        message = self.receive()
        assert message.opcode == m.Op.REPLY
        self.generation = message.generation
        welcome: m.Welcome = m.decode(m.Welcome, message.body)
        return welcome

    def packed(self, opcode: int, body: m.Body | bytes | None = None, n_fds: int = 0, generation: int = -1) -> bytes:
        """The bytes of a request with the next number."""
        self.sequence += 1
        data = body if isinstance(body, bytes) else m.encode(body)
        return wire.pack(opcode, self.sequence, self.generation if generation < 0 else generation, data, n_fds)

    def send(
        self, opcode: int, body: m.Body | bytes | None = None, fds: Sequence[int] = (), generation: int = -1
    ) -> int:
        self.write(self.packed(opcode, body, len(fds), generation), fds)
        return self.sequence

    def write(self, data: bytes, fds: Sequence[int] = ()) -> None:
        deadline = time.monotonic() + 5
        while True:
            try:
                socket.send_fds(self.sock, [data], fds) if fds else self.sock.sendall(data)
                return
            except OSError as error:
                if (
                    error.errno != errno.ETOOMANYREFS or time.monotonic() > deadline
                ):  # fds that other processes of this user have on their way
                    raise
                time.sleep(0.01)

    def receive(self) -> wire.Message:
        """The next message. EOFError: the server has ended the connection."""
        while not self._messages:
            try:
                data, fds, has_lost_fds = wire.receive(self.sock)
            except ConnectionResetError:
                data, fds, has_lost_fds = b"", [], False
            if not data:
                raise EOFError("the server has ended the connection")
            self._messages += self._splitter.feed(data, fds, has_lost_fds)
        return self._messages.pop(0)

    def until_end(self) -> list[wire.Message]:
        """Everything until the server ends the connection."""
        found = []
        with contextlib.suppress(EOFError):
            while True:
                found.append(self.receive())
        return found

    def error(self) -> Exception:
        """Returns the error in the next message."""
        message = self.receive()
        assert message.opcode in (m.Op.ERROR, m.Op.DEFERRED, m.Op.LOST), hex(message.opcode)
        error = m.rebuilt(m.decode(m.Failure, message.body))
        error.sequence = message.sequence  # type: ignore[attr-defined]
        return error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.sock.close()
        for message in self._messages:
            message.close()
        self._splitter.close()


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.002)


def rendering_threads() -> int:
    """Counts the worker threads of all servers in this process."""
    return sum(thread.name.startswith("vks-client-") for thread in threading.enumerate())


def core_threads() -> int:
    return int(lib.vks_thread_count())


def nobody_is_left(server: vks.server.RenderServer, clients: int = 0) -> None:
    until(lambda: (server.statistics().clients, server.statistics().workers) == (clients, clients), 30)


def one_frame(client: vks.server.Client, surface: vks.server.handles.ServedSurface, key: int) -> int:
    """One of a client that must not notice anything."""
    drawn = client.record().clear(surface, (1, 0, 0, 1))
    client.submit(drawn, acquire={surface: key}, release={surface: key + 1})
    assert surface.surface is not None
    surface.surface.acquire(key + 1, 20)
    surface.surface.release(key + 2)
    return key + 2


def losing_fds(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """As if this thread had no room for the fds that come; until the function that is returned is called."""
    read_into, here = wire.read_into, threading.get_ident()

    def lossy(parts: Any, *arguments: Any, **options: Any) -> None:
        read_into(parts, *arguments, **options)
        data, ancillary, reported, address = parts[-1]
        if ancillary and threading.get_ident() == here:
            parts[-1] = data, ancillary, reported | socket.MSG_CTRUNC, address

    monkeypatch.setattr(wire, "read_into", lossy)
    return lambda: monkeypatch.setattr(wire, "read_into", read_into)
