"""A process of a demo: it ends with its parent, and sends it JSON lines."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any

from vkshare.errors import VkshareError

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def end_with_parent(parent: int) -> None:
    """Asks for SIGTERM when the parent dies, however it dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before that
        sys.exit(128 + signal.SIGTERM)


def packed(*arguments: Any) -> str:
    """For the command line of a process, as JSON; arguments() has them there."""
    return json.dumps(
        [asdict(each) if is_dataclass(each) and not isinstance(each, type) else each for each in arguments]
    )


def arguments(*types: type) -> tuple[Any, ...]:
    """Return what this process was started with (see Child.start()); the first are dataclasses of these types."""
    given = json.loads(sys.argv[1])
    return (*(made(**fields) for made, fields in zip(types, given, strict=False)), *given[len(types) :])


def tell(status: int, **message: Any) -> None:
    """Writes a line into the pipe to the parent."""
    os.write(status, json.dumps(message).encode() + b"\n")


def run(status: int, work: Callable[[], object]) -> int:
    """Runs the process's work, and reports its error to the parent; returns the exit status."""
    try:
        work()
        return 0
    except BrokenPipeError:
        pass  # the parent is gone
    except (VkshareError, OSError, ValueError) as error:
        tell(status, failed=f"{type(error).__name__}: {error}")
    except Exception as error:
        tell(status, failed=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    return 1
