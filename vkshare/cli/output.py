"""Standard output that may be closed, full, or a pipe without a reader: one line on standard error, and a status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO, cast


class OutputError(Exception):
    """Standard output cannot be written. No OSError, which argparse passes over in silence."""


class _Checked:
    """The stream, whose failed writes are an OutputError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        written: int = self._try(self._stream.write, text)
        return written

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, call: Callable[..., Any], *arguments: str) -> Any:
        try:
            return call(*arguments)
        except OSError as error:
            raise OutputError(f"standard output cannot be written: {error.strerror}") from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def fill_closed_streams() -> None:
    """Opens /dev/null in place of closed standard streams: shared memory must not become what is printed into."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


@contextmanager
def checked() -> Iterator[None]:
    """The block's prints, and those of argparse, reach standard output, or an OutputError is raised."""
    stream = sys.stdout
    if stream is None:
        raise OutputError("standard output is closed; redirect it, to /dev/null for example")
    with redirect_stdout(cast(TextIO, _Checked(stream))):
        try:
            yield
        finally:
            sys.stdout.flush()


def say(command: str, text: str, status: int) -> int:
    """Prints it on standard error, and returns the exit status."""
    print(f"vkshare {command}: {text}", file=sys.stderr)
    return status


def discard() -> None:
    """Discard buffered output, which would make the interpreter report an error at exit."""
    if sys.stdout is not None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
