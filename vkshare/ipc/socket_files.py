"""A listening Unix socket at a path that one process has: a lock file beside it, and the replacement of a stale one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import threading
from pathlib import Path

from vkshare.errors import InvalidCallError
from vkshare.ipc import sockets
from vkshare.util import fd_ops, forks

_LONGEST_PID = 20  # bytes of a lock file
_LARGEST_PID = 1 << 22  # of Linux


class LockedListener:
    """A listening socket at a path, mode 0600. A lock file beside it excludes other processes while it is open.

    The lock file has the pid of the owner. The kernel drops the lock with the process.

    Parameters
    ----------
    path
        Of the socket. Its folder is made where it is the user's in /tmp.
    kind
        socket.SOCK_STREAM or socket.SOCK_SEQPACKET.
    backlog
        Connections that wait to be accepted.

    Raises
    ------
    InvalidCallError
        Another process has the path (TakenError), the folder is not the user's alone, or a file is there that is no
        socket.
    OSError
        No socket can be made there.
    """

    def __init__(self, path: Path, kind: int = socket.SOCK_STREAM, backlog: int = 64) -> None:
        self.path = path
        self._pid = os.getpid()
        self._has_files = True
        self._ending = threading.RLock()  # the lock is not dropped before another thread has removed the files
        sockets.make_folder(path.parent)
        with contextlib.ExitStack() as made:
            self.sock = made.enter_context(socket.socket(socket.AF_UNIX, kind))
            self._lock = _lock(path)
            made.callback(os.close, self._lock)
            _remove_stale(path, kind)
            self.sock.setblocking(False)
            sockets.listen(self.sock, path, backlog)
            made.pop_all()
        forks.close_in_child(self)

    def unlink(self) -> None:
        """Removes the files, if this process made them: no process can connect any more, and the path is free.

        Idempotent.
        """
        if self._pid != os.getpid():
            return
        with self._ending:
            if self._has_files:
                self._has_files = False
                for left in (self.path, lock_path(self.path)):
                    with contextlib.suppress(OSError):
                        left.unlink()

    def close(self) -> None:
        """Closes the socket and removes its files. Idempotent. A forked child's copy leaves the files alone."""
        if self.sock.fileno() < 0:
            return
        self.unlink()
        self.sock.close()
        os.close(self._lock)


class TakenError(InvalidCallError):
    """A process has the path. `pid` is its number; 0: unknown."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path, self.pid = path, pid
        super().__init__(f"{f'process {pid}' if pid else 'another process'} has {path}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.pid)


def lock_path(path: Path) -> Path:
    """Returns the path of the lock file beside a socket."""
    return path.with_name(path.name + ".lock")


def remove_dead(path: Path, kind: int) -> None:
    """Removes the files of an owner that died. Does nothing while a process has the path."""
    with contextlib.suppress(OSError, InvalidCallError):
        lock = _lock(path)
        try:
            _remove_stale(path, kind)
            lock_path(path).unlink()
        finally:
            os.close(lock)


def _lock(path: Path) -> int:
    """Locks the lock file; returns its fd. Tries again if the previous owner removed the file meanwhile."""
    name = lock_path(path)
    while True:
        fd = _open_lock(name)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), name.stat()):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, str(os.getpid()).encode(), 0)
                    return fd
        except BlockingIOError:
            pid = _written_pid(fd)
            os.close(fd)
            raise TakenError(path, pid) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _open_lock(name: Path) -> int:
    """Opens the lock file. InvalidCallError: another kind of file has its name."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(name.lstat().st_mode):
            raise InvalidCallError(f"{name} is no file of this user's locks: remove it, or give another path")
    return os.open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _written_pid(fd: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        pid = int(os.pread(fd, _LONGEST_PID, 0))
        return pid if 0 < pid <= _LARGEST_PID else 0
    return 0


def _remove_stale(path: Path, kind: int) -> None:
    """Removes a stale socket. InvalidCallError: a process listens there, or the file is not a socket."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise InvalidCallError(f"{path} exists and is not a socket: remove it, or give another path")
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.setblocking(False)
        error = probe.connect_ex(os.fspath(path))
        pid = 0
        if error == 0:
            with contextlib.suppress(PermissionError):
                pid = sockets.check_peer(probe)
    if error not in (errno.ECONNREFUSED, errno.ENOENT):
        raise TakenError(path, pid)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def why_not(path: Path, error: OSError, what: str) -> OSError:
    """Returns the error of a folder in which no socket can be made, with a text that says so.

    Parameters
    ----------
    path
        The socket's.
    error
        As LockedListener raised it; a want of file descriptors or memory is returned as it is.
    what
        The thing that wanted it: "server".

    Returns
    -------
    OSError
        The error to raise.
    """
    if error.errno in fd_ops.NO_ROOM or error.errno is None:
        return error
    text = f"{error.strerror}: no {what} can listen at {path}; create its folder, or give another path"
    return OSError(error.errno, text)
