"""Functions that run in processes of their own: with another environment, or nothing else in their memory."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

_SPAWN = multiprocessing.get_context("spawn")


class ChildFailed(Exception):
    """The process ended, or raised; its text."""


class Child(NamedTuple):
    """A process, and our end of the pipe to it."""

    pipe: Connection
    process: BaseProcess

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    def heard(self, patience: float | None = None) -> Any:
        """Return the process's next message. Raises ChildFailed, also where it says nothing for `patience` seconds."""
        try:
            if not self.pipe.poll(patience):
                raise ChildFailed(f"a process of the benchmark said nothing for {patience:g} s")
            value = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise ChildFailed(f"the process ended by itself, with status {self.process.exitcode}") from None
        if isinstance(value, ChildFailed):
            raise value
        return value


@contextlib.contextmanager
def started(target: Callable[..., None], *arguments: Any, patience: float = 5.0) -> Iterator[Child]:
    """Run ``target(pipe, *arguments)`` in a new process, which inherits no memory.

    After the block the pipe is closed, for the process an EOFError; it is killed when `patience` seconds are over.
    """
    here, there = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_run, args=(there, target, arguments), name="benchmark", daemon=True)
    process.start()
    there.close()
    try:
        yield Child(here, process)
    finally:
        here.close()
        process.join(patience)
        if process.is_alive():
            process.kill()
            process.join()


def _run(pipe: Connection, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        try:
            target(pipe, *arguments)
        except Exception as error:
            if isinstance(error, EOFError):
                raise
            pipe.send(ChildFailed(f"{type(error).__name__}: {error}"))


def call(module: str, function: str, *arguments: Any, environment: Mapping[str, str] | None = None) -> Any:
    """Call ``module.function(*arguments)`` in a new process. Raises ChildFailed."""
    with started(_call, module, function, arguments, dict(environment or {})) as child:
        return child.heard()


def _call(
    pipe: Connection, module: str, function: str, arguments: tuple[Any, ...], environment: dict[str, str]
) -> None:
    os.environ.update(environment)
    pipe.send(getattr(importlib.import_module(module), function)(*arguments))
