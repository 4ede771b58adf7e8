"""Both ends of a demo's processes: a Child as its parent sees it, and serve(), which runs in the process.

A process ends with its parent, and sends it JSON lines.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import Any, NoReturn, Self

from vkshare.errors import VkshareError
from vkshare.util.closing import on_error

ENDING = 5.0  # seconds that a process has to close everything
# Errors that follow from the end of another process.
_CONSEQUENCES = ("AbandonedError", "ConnectionError", "ConnectionResetError", "BrokenPipeError", "AcquireTimeout")
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


class DemoError(VkshareError):
    """One of the processes failed or died; the text says which and how."""


# ---- in the parent -------------------------------------------------------------------------------------------------


class Child:
    """A process, and what it said over its status pipe. `terminate` and `wait` may be called again and again."""

    @classmethod
    def start(cls, name: str, module: str, *arguments: object, fds: tuple[int, ...] = ()) -> Self:
        """Runs main() of a module in a process of its own, which inherits `fds`; main() calls serve().

        The first of its arguments is a dataclass, the others are what JSON has.
        """
        status, theirs = os.pipe()
        text = json.dumps([*arguments, os.getpid(), theirs], default=asdict)
        # -P: no file of the folder in which the demo is started hides a package.
        command = [sys.executable, "-P", "-c", f"from {module} import main; main()", text]
        try:
            with on_error(lambda: os.close(status)):
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs, *fds))
        finally:
            os.close(theirs)
        return cls(name, process, status)

    def __init__(self, name: str, process: subprocess.Popen[bytes], status: int) -> None:
        self.name = name
        self.process = process
        self.reported: dict[str, Any] = {}  # its messages, the newest of each kind
        self._status = status
        self._line = b""
        self._ended_by_us = False

    def fileno(self) -> int:
        """For select(): readable when it said something, or ended."""
        return self._status

    def read(self) -> bool:
        """Takes in what it said; False: it has ended, or is about to."""
        data = os.read(self._status, 1 << 16)
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self.reported.update(json.loads(line))
        sys.stderr.write(self.reported.pop("trace", ""))
        return bool(data)

    @property
    def done(self) -> dict[str, Any]:
        """The process's final message; empty before."""
        done: dict[str, Any] = self.reported.get("done", {})
        return done

    @property
    def has_ended(self) -> bool:
        """The process is gone."""
        return self.process.poll() is not None

    @property
    def has_failed(self) -> bool:
        """It said so, or ended without success, and not because we ended it."""
        return not self._ended_by_us and ("failed" in self.reported or self.process.returncode not in (None, 0))

    @property
    def blame(self) -> int:
        """The sort key of failed processes: the lowest one is the cause."""
        if (self.process.returncode or 0) < 0:
            return 0
        return 2 if self.reported.get("failed", "").startswith(_CONSEQUENCES) else 1

    def obituary(self) -> str:
        """How it failed."""
        if "failed" in self.reported and self.blame:
            return f"the {self.name} process failed: {self.reported['failed']}"
        code = self.process.returncode
        if code is None:
            ending = "did not end"
        elif code < 0:
            known = -code in set(signal.Signals)
            ending = f"was killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
        else:
            ending = f"ended with status {code}"
        return f"the {self.name} process (pid {self.process.pid}) {ending}"

    def terminate(self) -> None:
        """SIGTERM, if it still runs."""
        if not self.has_ended:
            self._ended_by_us = not self.has_failed
            self.process.terminate()

    def wait(self, timeout: float = ENDING) -> None:
        """Until it has ended; kills it when `timeout` seconds are over."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Gives up the pipe. Once."""
        os.close(self._status)


def end(children: Collection[Child]) -> None:
    """SIGTERM, then SIGKILL, to those that still run. Returns when none does."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + ENDING
    for child in children:
        child.wait(max(deadline - time.monotonic(), 0.1))
        child.close()


# ---- in the process ------------------------------------------------------------------------------------------------


def serve(options: type, work: Callable[..., object]) -> NoReturn:
    """The process: exit status 0, or 1 after an error that was reported to the parent.

    Parameters
    ----------
    options
        The type of the first of the arguments that Child.start() was given.
    work
        Called with them, and with the end of a pipe for tell().
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides
    fields, *given, parent, status = json.loads(sys.argv[1])
    # SIGTERM when the parent dies, however it dies.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before that
        sys.exit(128 + signal.SIGTERM)
    try:
        work(options(**fields), *given, status)
    except BrokenPipeError:
        sys.exit(1)  # the parent is gone
    except Exception as error:
        is_foreseen = isinstance(error, (VkshareError, OSError, ValueError))
        trace = {} if is_foreseen else {"trace": traceback.format_exc()}
        tell(status, failed=f"{type(error).__name__}: {error}", **trace)
        sys.exit(1)
    sys.exit(0)


def tell(status: int, **message: Any) -> None:
    """Writes a line into the pipe to the parent."""
    os.write(status, json.dumps(message).encode() + b"\n")
