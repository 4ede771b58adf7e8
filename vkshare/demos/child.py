"""One process of the shared demo, as its parent sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any, Self

from vkshare.demos.process import packed

# Errors that follow from the end of another process.
_CONSEQUENCES = ("AbandonedError", "ConnectionError", "ConnectionResetError", "BrokenPipeError", "AcquireTimeout")


class Child:
    """A process, and what it said over its status pipe. `terminate` and `wait` may be called again and again."""

    @classmethod
    def start(cls, name: str, module: str, *arguments: object, fds: tuple[int, ...] = ()) -> Self:
        """Runs main() of a module in a process of its own, which inherits `fds`.

        Its arguments() are these, this process's pid, and the end of a pipe to write JSON lines
        into.
        """
        status, theirs = os.pipe()
        text = packed(*arguments, os.getpid(), theirs)
        command = [sys.executable, "-c", f"from {module} import main; main()", text]
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs, *fds))
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(theirs)
        return cls(name, process, status)

    def __init__(self, name: str, process: subprocess.Popen[bytes], status: int) -> None:
        self.name = name
        self.frames = 0  # checked so far, where it is the checker
        self.reported: dict[str, Any] = {}  # its messages, the newest of each kind
        self._process = process
        self._status = status
        self._line = b""
        self._failure = ""
        self._ended_by_us = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """For selectors: readable when it said something, or ended."""
        return self._status

    def read(self) -> bool:
        """Takes in what it said; False: it has ended, or is about to."""
        data = os.read(self._status, 1 << 16)
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "frame" in message:
                self.frames = message["frame"] + 1
            self.reported.update(message)
            if "failed" in message:
                self._failure = message["failed"]
                sys.stderr.write(message.get("trace", ""))
        return bool(data)

    @property
    def done(self) -> dict[str, Any]:
        """The process's final message; empty before."""
        done: dict[str, Any] = self.reported.get("done", {})
        return done

    @property
    def was_killed(self) -> bool:
        """By SIGKILL."""
        return self._process.returncode == -signal.SIGKILL

    @property
    def has_ended(self) -> bool:
        """The process is gone."""
        return self._process.poll() is not None

    @property
    def has_failed(self) -> bool:
        """It said so, or ended without success, and not because we ended it."""
        if self._ended_by_us:
            return False
        return bool(self._failure) or self._process.returncode not in (None, 0)

    @property
    def blame(self) -> int:
        """The sort key of failed processes: the lowest one is the cause."""
        if (self._process.returncode or 0) < 0:
            return 0
        return 2 if self._failure.startswith(_CONSEQUENCES) else 1

    def obituary(self) -> str:
        """How it failed."""
        if self._failure and self.blame:
            return f"the {self.name} process failed: {self._failure}"
        code = self._process.returncode
        if code is None:
            return f"the {self.name} process (pid {self.pid}) did not end"
        if code < 0:
            return f"the {self.name} process (pid {self.pid}) was killed by {_signal_name(-code)}"
        return f"the {self.name} process (pid {self.pid}) ended with status {code}"

    def terminate(self) -> None:
        """SIGTERM, if it still runs."""
        if self._process.poll() is None:
            self._ended_by_us = not self.has_failed
            self._process.terminate()

    def wait(self, timeout: float) -> None:
        """Until it has ended; kills it when `timeout` seconds are over."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Gives up the pipe. Once."""
        os.close(self._status)


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
