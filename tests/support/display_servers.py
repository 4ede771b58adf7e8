"""Display servers as processes of a test's: started, waited for, ended."""

from __future__ import annotations

import pwd
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, timeout: float = 30) -> T:
    """Returns condition() once it is true; AssertionError, saying `what` did not come, after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(0.005)
    return value


def start(command: list[str], *, user: pwd.struct_passwd | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """Starts a server that ends when we do, however we end, as another user where one is given."""
    wrapper = ["setpriv", "--pdeathsig", "KILL"]
    if user is not None:
        wrapper += ["--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
    return subprocess.Popen([*wrapper, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **options)


def end(process: subprocess.Popen[bytes] | None) -> None:
    """SIGTERM, and SIGKILL where that does not end it. Idempotent; None is nothing."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(5)


def said(log: Path) -> str:
    """The end of what a server wrote, for messages."""
    return log.read_text(errors="replace")[-2000:] if log.is_file() else ""


def missing(*programs: str) -> str:
    """What to tell when some of these are not here; empty if all are."""
    lacking = [program for program in programs if shutil.which(program) is None]
    return f"{', '.join(lacking)} is not installed (tools/system-deps)" if lacking else ""


def without_displays(environment: dict[str, str]) -> dict[str, str]:
    """An environment without the user's own displays, nor what else would lead to them."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_SESSION_TYPE", "PYGLFW_LIBRARY_VARIANT", "SWAYSOCK")
    return {name: value for name, value in environment.items() if name not in names}
