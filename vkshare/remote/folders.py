"""Folders for the sockets of hosts and viewers, and the removal of those that a kill has left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from vkshare.ipc.socket_files import lock_path

_LEAST_AGE = 60.0  # seconds: a younger folder may be one whose lock file comes in a moment


@contextlib.contextmanager
def made(kind: str) -> Iterator[Path]:
    """Makes a folder with a name for a socket in it, and removes it after the block.

    Parameters
    ----------
    kind
        "host" or "viewer". Folders of that kind are removed first whose processes were killed.

    Yields
    ------
    Path
        Of the socket, whose lock file the process holds (LockedListener).
    """
    prefix = f"vkshare-{kind}-"
    remove_dead(prefix, kind)
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield Path(folder) / kind
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_dead(prefix: str, name: str) -> None:
    """Removes this user's folders of that prefix in which no process holds the lock of socket `name`."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if _is_old_folder_of_ours(folder):
                _remove_unlocked(folder, lock_path(folder / name))


def _is_old_folder_of_ours(folder: Path) -> bool:
    status = folder.lstat()
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_ours and status.st_mtime < time.time() - _LEAST_AGE


def _remove_unlocked(folder: Path, lock: Path) -> None:
    """Removes a folder. OSError: it has no lock file, or a process holds it."""
    fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)
