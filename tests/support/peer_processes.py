"""A pytest plugin: parties in processes of their own, used like local objects.

    def test_x(device, peers):
        peer = peers()                              # a process with an open device
        theirs = peer.device.open_surface(descriptor)
        theirs.acquire(1, 0.5)                      # runs there; raises here what it raised there
        pending = later(theirs.acquire, 2)          # the same, without waiting: pending.result(5)
        peer.kill()

`later()` takes calls of local objects too, and runs them in a thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support import fork_server
from support.peer_messages import Channel
from support.time_limits import HANG


class PeerDied(Exception):
    """The peer's process ended before it answered."""


class Remote:
    """Stands for an object that lives in a peer: methods are called there, properties are asked for there."""

    def __init__(self, peer: Peer, number: int, kind: type) -> None:
        self.__dict__.update(_peer=peer, _number=number, _kind=kind)

    def __getattr__(self, name: str) -> Any:
        if callable(getattr(self._kind, name, None)):
            return RemoteCall(self, name)
        return self._peer.request(("get", self, name, (), {})).result()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a remote object cannot be set")

    def __del__(self) -> None:
        self._peer.dropped.append(self._number)  # told with the next request

    def __repr__(self) -> str:
        return f"<{self._kind.__name__} {self._number} in process {self._peer.pid}>"


class RemoteCall:
    """A method of a Remote."""

    def __init__(self, remote: Remote, name: str) -> None:
        self._remote = remote
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.later(*args, **kwargs).result()

    def later(self, *args: Any, **kwargs: Any) -> PendingReply:
        remote = self._remote
        return remote._peer.request(("call", remote, self._name, args, kwargs))


class PendingReply:
    """The answer to one request. A peer answers one after the other: take this one before the next request."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._reply: tuple[str, Any] | None = None

    def done(self, timeout: float = 0) -> bool:
        """Whether the answer is here, or the peer is gone."""
        return self._reply is not None or self._peer.has_answered(timeout)

    def result(self, timeout: float = 60) -> Any:
        """What the call returned, or raises what it raised. AssertionError if it takes longer, and never ends."""
        if not self.done(max(timeout, HANG)):
            raise AssertionError(f"process {self._peer.pid} did not answer within {max(timeout, HANG)} s")
        if self._reply is None:
            self._reply = self._peer.take_reply()
        kind, value = self._reply
        if kind == "error":
            raise value
        return value


class Peer:
    """A process that does what the test asks. Made by the `peers` fixture."""

    def __init__(self, control: socket.socket) -> None:
        self._socket, self.pid = fork_server.ask(control)
        self._pidfd = os.pidfd_open(self.pid)
        self._channel = Channel(self._socket, self._name, self._find)
        self._pending: PendingReply | None = None
        self.device: Any = None
        self.dropped: list[int] = []  # numbers of Remotes that are gone
        self._server = Remote(self, 0, fork_server.Server)

    def open(self, adapter: Any, **options: Any) -> Any:
        """One more device on that adapter."""
        return self._server.open(adapter.uuid, adapter.backend, options)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a module-level function of tests/support there."""
        return self.later(function, *args, **kwargs).result()

    def later(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> PendingReply:
        return self.request(("run", function, "", args, kwargs))

    def request(self, message: tuple[Any, ...]) -> PendingReply:
        if self._pending is not None and self._pending._reply is None:
            raise AssertionError(f"process {self.pid} has not answered the last request yet")
        dropped, self.dropped = self.dropped, []
        try:
            self._channel.send((*message, dropped))
        except BrokenPipeError:
            raise PeerDied(f"process {self.pid} is gone") from None
        self._pending = PendingReply(self)
        return self._pending

    def has_answered(self, timeout: float) -> bool:
        return bool(_poll(self._socket.fileno(), timeout))

    def take_reply(self) -> tuple[str, Any]:
        try:
            reply: tuple[str, Any] = self._channel.receive()
        except EOFError:
            raise PeerDied(f"process {self.pid} ended before it answered") from None
        return reply

    def signal(self, number: int) -> None:
        signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> float:
        """SIGKILL; returns the time at which it was sent, CLOCK_MONOTONIC."""
        now = time.monotonic()
        self.signal(signal.SIGKILL)
        return now

    def is_running(self, timeout: float = 0) -> bool:
        return self._pidfd >= 0 and not _poll(self._pidfd, timeout)

    def finish(self) -> list[str] | None:
        """Makes it as new; None if it cannot be used again, else what the validation layer complained of."""
        if not self.is_running():
            self.end()
            return None
        if self._pending is not None and self._pending._reply is None and not self._pending.done(0):
            self.end()  # it still waits for something
            return None
        self.device = None
        try:
            if self._pending is not None and self._pending._reply is None:
                self._pending._reply = self.take_reply()
            messages: list[str] = self._server.reset()
        except PeerDied:  # killed, and only now seen to be
            self.end()
            return None
        return messages

    def end(self) -> None:
        """Kills it if it still runs. Idempotent."""
        if self._pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            self.kill()
        assert not self.is_running(10)
        self._socket.close()
        os.close(self._pidfd)
        self._pidfd = -1

    def _name(self, thing: object) -> int | None:
        return thing._number if isinstance(thing, Remote) else None

    def _find(self, named: tuple[int, type]) -> Remote:
        return Remote(self, *named)


class PendingCall:
    """A local call that runs in a thread."""

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call, args, kwargs), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            self._value = call(*args, **kwargs)
        except BaseException as error:
            self._error = error

    def done(self, timeout: float = 0) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def result(self, timeout: float = 60) -> Any:
        if not self.done(max(timeout, HANG)):
            raise AssertionError(f"the call did not return within {max(timeout, HANG)} s")
        if self._error is not None:
            raise self._error
        return self._value


def later(call: Callable[..., Any], *args: Any, **kwargs: Any) -> PendingCall | PendingReply:
    """Starts a call, here in a thread or in the peer that the method belongs to."""
    return call.later(*args, **kwargs) if isinstance(call, RemoteCall) else PendingCall(call, args, kwargs)


def _poll(fd: int, timeout: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(timeout * 1000))


class Nursery:
    """The session's peers: those that a test is done with serve the next one."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._idle: list[Peer] = []

    def take(self) -> Peer:
        while self._idle:
            peer = self._idle.pop()
            if peer.is_running():
                return peer
            peer.end()
        return Peer(self._start())

    def give_back(self, peer: Peer) -> list[str]:
        messages = peer.finish()
        if messages is not None:
            self._idle.append(peer)
        return messages or []

    def _start(self) -> socket.socket:
        if self._control is None:
            self._control, self._process = fork_server.start("support.fork_server", socket.SOCK_STREAM)
        return self._control

    def close(self) -> None:
        for peer in self._idle:
            peer.end()
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.wait(30)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where peers come from; one for the session."""
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def peers(nursery: Nursery, vks_adapter: Any) -> Iterator[Callable[..., Peer]]:
    """Gives processes, each with an open device on the adapter of this run: ``peers(name="", **open_options)``."""
    used: list[Peer] = []

    def one_more(**options: Any) -> Peer:
        peer = nursery.take()
        used.append(peer)
        peer.device = peer.open(vks_adapter, **options)
        return peer

    yield one_more
    messages = [message for peer in used for message in nursery.give_back(peer)]
    if messages:
        reported = "\n".join(f"  {message}" for message in messages[:20])
        pytest.fail(f"{len(messages)} messages of the validation layer in peers:\n{reported}", pytrace=False)
