"""The server's socket: its default path, its lock, and the replacement of a stale one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from pathlib import Path

from vkshare.errors import InvalidCallError
from vkshare.ipc import sockets
from vkshare.util import fd_ops


def default_path() -> Path:
    """Returns VKSHARE_SERVER, else vkshare-server in XDG_RUNTIME_DIR, else server in the user's own folder in /tmp."""
    configured = os.environ.get("VKSHARE_SERVER")
    if configured:
        return Path(configured)
    folder, *rest = sockets.folders()
    return folder / ("vkshare-server" if rest else "server")


def checked(path: str | os.PathLike[str] | None) -> Path:
    """Returns `path`, or the default. ValueError: it cannot be the path of a socket."""
    found = default_path() if path is None else Path(path)
    raw = os.fsencode(found)
    if path == "" or b"\0" in raw or len(raw) > sockets.LONGEST_PATH:
        raise ValueError(
            f"path is {os.fspath(found)!r}; a socket's path has 1 to {sockets.LONGEST_PATH} bytes, none of them 0"
        )
    return found


class Listener:
    """A listening socket at a path, mode 0600. A lock file beside it excludes other servers while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        sockets.make_folder(path.parent)
        with contextlib.ExitStack() as made:
            self.sock = made.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._lock = _lock(path)
            made.callback(os.close, self._lock)
            _remove_stale(path)
            self.sock.setblocking(False)
            sockets.listen(self.sock, path, 64)
            made.pop_all()

    def close(self) -> None:
        """Closes the socket and removes its files. Idempotent. A forked child's copy leaves the files alone."""
        if self.sock.fileno() < 0:
            return
        if self._pid == os.getpid():
            for left in (self.path, _lock_path(self.path)):
                with contextlib.suppress(OSError):
                    left.unlink()
        self.sock.close()
        os.close(self._lock)


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _lock(path: Path) -> int:
    """Locks the lock file; returns its fd. Tries again if the previous owner removed the file meanwhile."""
    name = _lock_path(path)
    while True:
        try:
            fd = os.open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            if error.errno in fd_ops.NO_ROOM:
                raise
            why = f"{error.strerror}: no server can listen at {path}; create its folder, or give another path"
            raise OSError(error.errno, why) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), name.stat()):
                    return fd
        except BlockingIOError:
            os.close(fd)
            raise _taken(path) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _remove_stale(path: Path) -> None:
    """Removes a stale socket. InvalidCallError: a process listens there, or the file is not a socket."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise InvalidCallError(f"{path} exists and is not a socket: remove it, or give another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        error = probe.connect_ex(os.fspath(path))
    if error not in (errno.ECONNREFUSED, errno.ENOENT):
        raise _taken(path)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _taken(path: Path) -> InvalidCallError:
    return InvalidCallError(f"a server listens at {path} already: connect to it, or give another path")
