"""A function that runs in a process of its own: with another environment, or nothing else in its memory."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any


class ChildFailed(Exception):
    """The process ended, or raised; its text."""


def call(module: str, function: str, *arguments: Any, environment: Mapping[str, str] | None = None) -> Any:
    """Call ``module.function(*arguments)`` in a new process, which inherits no memory. Raises ChildFailed."""
    context = multiprocessing.get_context("spawn")
    link, theirs = context.Pipe()
    process = context.Process(
        target=_run,
        args=(theirs, module, function, arguments, dict(environment or {})),
        name="benchmark",
        daemon=True,
    )
    process.start()
    theirs.close()
    try:
        outcome, value = link.recv()
    except EOFError:
        process.join()
        raise ChildFailed(f"the process ended by itself, with status {process.exitcode}") from None
    finally:
        link.close()
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()
    if outcome == "raised":
        raise ChildFailed(value)
    return value


def _run(link: Connection, module: str, function: str, arguments: tuple[Any, ...], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    try:
        link.send(("returned", getattr(importlib.import_module(module), function)(*arguments)))
    except Exception as error:
        link.send(("raised", f"{type(error).__name__}: {error}"))
