"""A process that has everything imported, and forks itself for each function that a test wants run in a process apart.

A fresh interpreter takes most of a second to import all that, and more than half of what the tests of faults took. It
never opens a device, so nothing of a driver is inherited: the child takes its environment before anything reads it.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import os
import pickle
import signal
import socket
import struct
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import IO, Any

from support import fork_server
from support.peer_messages import receive_fds

_NUMBER = struct.Struct("<q")
_LENGTH = 1 << 17  # of a request; environments and arguments are small


@dataclass(frozen=True)
class End:
    """How a child ended; `status` is None where it was killed for taking too long, else as waitpid() has it."""

    status: int | None
    stdout: str
    stderr: str


class Parent:
    """The process that forks, seen from the test. One run at a time."""

    def __init__(self) -> None:
        self._control, self._process = fork_server.start(
            "support.forked_calls", socket.SOCK_SEQPACKET, PYTHONFAULTHANDLER="1"
        )

    def run(self, module: str, name: str, arguments: tuple[Any, ...], env: Mapping[str, str], timeout: float) -> End:
        """Runs the function `name` of a module of support/ with `arguments`, in an environment of its own."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            fds = array.array("i", [out.fileno(), err.fileno()])
            request = pickle.dumps((module, name, arguments, dict(env)))
            self._control.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            pid = self._number(None)
            try:
                status = self._number(timeout)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._number(None)
                status = None
            return End(status, _text(out), _text(err))

    def _number(self, timeout: float | None) -> Any:
        self._control.settimeout(timeout)
        data = self._control.recv(_NUMBER.size)
        if len(data) != _NUMBER.size:
            raise RuntimeError(f"the process that forks has ended with status {self._process.wait(10)}")
        return _NUMBER.unpack(data)[0]

    def close(self) -> None:
        self._control.close()
        self._process.wait(30)


@cache
def parent() -> Parent:
    """The one of this session, started when it is first asked for."""
    made = Parent()
    atexit.register(made.close)
    return made


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


# ---- the process that forks ------------------------------------------------------------------------------------------


def main(control_fd: int) -> None:
    """Serves until the test's end of the socket is closed. A child returns from it too, its work done."""
    _import()
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=control_fd)
    while True:
        data, fds = receive_fds(control, _LENGTH, 2)
        if not data:
            return
        module, name, arguments, env = pickle.loads(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's threads sleep, and come to no harm
            pid = os.fork()
        if pid == 0:
            control.close()
            for number, fd in enumerate(fds, start=1):
                os.dup2(fd, number)
                os.close(fd)
            os.environ.clear()
            os.environ.update(env)
            getattr(importlib.import_module(module), name)(*arguments)
            return
        for fd in fds:
            os.close(fd)
        control.sendall(_NUMBER.pack(pid))
        control.sendall(_NUMBER.pack(os.waitpid(pid, 0)[1]))


def _import() -> None:
    import numpy  # noqa: F401
    import pytest  # noqa: F401

    import vkshare
    from vkshare.backends import vulkan  # noqa: F401
    from vkshare.backends.vulkan import device  # noqa: F401
    from vkshare.testing import validation  # noqa: F401

    for name in ("CommandList", "Device", "Fence", "Surface", "SurfaceQueue", "Swapchain"):
        getattr(vkshare, name)
