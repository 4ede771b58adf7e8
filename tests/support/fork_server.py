"""A process that has everything imported and forks peers from itself: a new one takes milliseconds and is clean.

It never opens a device itself, so nothing of a driver is inherited. Run as `python -c "..." FD`, with a Unix socket to
the test; for each message on it, one fd, it forks a peer that serves the test on that fd, and answers with its pid.
"""

from __future__ import annotations

import array
import gc
import os
import signal
import socket
import struct
import subprocess
import sys
import warnings
from dataclasses import dataclass
from typing import Any

from support.peer_messages import Channel, receive_fds
from support.tree_paths import TESTS

_PID = struct.Struct("<q")


def main(control_fd: int) -> None:
    import numpy  # noqa: F401

    import vkshare
    from support import killed_peers  # noqa: F401
    from vkshare.core import device, surface  # noqa: F401

    vkshare.adapters("cpu")
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    control = socket.socket(fileno=control_fd)
    while True:
        data, fds = receive_fds(control, 1, 1)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            _serve(fds[0])
        os.close(fds[0])
        control.sendall(_PID.pack(pid))


def _serve(fd: int) -> None:
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        warnings.simplefilter("ignore", ResourceWarning)
        Server(socket.socket(fileno=fd)).run()
        status = 0
    except (EOFError, BrokenPipeError):
        status = 0  # the test is over
    finally:
        sys.stderr.flush()
        os._exit(status)


@dataclass(slots=True)
class _Kept:
    """An object for which the test has Remotes."""

    thing: object
    names: int  # how many


class Server:
    """Runs what the test asks for on the main thread, one request after the other."""

    def __init__(self, sock: socket.socket) -> None:
        self._things: dict[int, _Kept] = {0: _Kept(self, 1)}
        self._numbers: dict[int, int] = {}  # by id of what is kept
        self._next = 1
        self._channel = Channel(sock, self._name, lambda number: self._things[number].thing)
        self._collector: Any = None

    def run(self) -> None:
        while True:
            reply = self._answer(self._channel.receive())
            try:
                self._channel.send(reply)
            except (TypeError, AttributeError, ValueError) as error:  # it does not pickle
                self._channel.send(("error", RuntimeError(f"{reply!r} cannot be sent: {error!r}")))
            del reply

    def _answer(self, request: tuple[Any, ...]) -> tuple[str, object]:
        try:
            kind, target, name, args, kwargs, dropped = request
            for number in dropped:
                self._drop(number)
            if kind == "get":
                return "value", getattr(target, name)
            function = target if kind == "run" else getattr(target, name)
            return "value", function(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = None
            return "error", error

    def _name(self, thing: object) -> Any:
        import vkshare as vks

        kinds = Server, vks.Device, vks.Surface, vks.Buffer, vks.Fence, vks.CommandList, vks.Submission
        queues = vks.SurfaceQueue, vks.Producer, vks.Consumer, vks.Sender, vks.Receiver, vks.Publication
        if not isinstance(thing, (*kinds, *queues)):
            return None
        number = self._numbers.get(id(thing))
        if number is None:
            number = self._numbers[id(thing)] = self._next
            self._things[number] = _Kept(thing, 0)
            self._next += 1
        self._things[number].names += 1
        return number, type(thing)

    def _drop(self, number: int) -> None:
        """One Remote of the test's is gone."""
        kept = self._things.get(number)
        if kept is None:
            return  # of before a reset
        kept.names -= 1
        if kept.names == 0:
            del self._numbers[id(kept.thing)], self._things[number]

    # ---- requests to the server itself

    def open(self, uuid: bytes, backend: str, options: dict[str, Any]) -> Any:
        import vkshare as vks

        if backend == "vulkan":
            self._listen()
        return vks.open(uuid, backend=backend, **options)

    def reset(self) -> list[str]:
        """Closes every device, forgets everything; returns the validation layer's complaints since the last reset."""
        import vkshare as vks

        for kept in list(self._things.values()):
            if isinstance(kept.thing, vks.Device):
                kept.thing.close()
        self._things = {0: self._things[0]}
        self._numbers.clear()
        gc.collect()
        return [str(message) for message in self._collector.take()] if self._collector else []

    def _listen(self) -> None:
        if self._collector is not None or os.environ.get("VKSHARE_VALIDATION", "") in ("", "0"):
            return
        from vkshare.backends import vulkan
        from vkshare.testing.validation import Collector

        self._collector = Collector(vulkan.validation_layer_version() or "")
        vulkan.add_message_sink(self._collector)


def start(module: str, kind: socket.SocketKind, **environment: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """In the test: a process that runs `module`.main(fd), and our end of the socket to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {module} import main; main({theirs.fileno()})"],
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": path} | environment,
            stdin=subprocess.DEVNULL,
        )
    return ours, process


def ask(control: socket.socket) -> tuple[socket.socket, int]:
    """In the test: a new peer's connection and pid."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        control.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])
        answer = control.recv(_PID.size, socket.MSG_WAITALL)
    if len(answer) != _PID.size:
        ours.close()
        raise RuntimeError("the process that forks peers has ended")
    return ours, _PID.unpack(answer)[0]
