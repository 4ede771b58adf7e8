"""Unix sockets of one user's processes: their paths, and checks of the peer's user (rule X19).

Any user can create a server's address first, in a folder that others can write to. Both sides
therefore check the folder, and both check the peer's user before they send the first byte.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from pathlib import Path

from vkshare.errors import InvalidCallError

LONGEST_PATH = 107  # bytes: sockaddr_un has room for these and a 0
_PEERCRED = struct.Struct("3i")  # struct ucred: pid, uid, gid
_NO_USER = -1  # the uid of a socket that is not connected


def check_peer(sock: socket.socket) -> int:
    """Return the pid of a connected socket's peer; 0 if the peer is in another pid namespace.

    Raises
    ------
    PermissionError
        The peer runs as another user. Root is no exception, on either side.
    """
    pid, uid, _ = _PEERCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
    if uid not in (os.geteuid(), _NO_USER):  # no user: the socket is not connected, and its next call will raise
        raise PermissionError(
            f"the peer is user {uid}, this process user {os.geteuid()}: only processes of one user can share"
        )
    return int(pid)


def folders() -> list[Path]:
    """Return the folders of sockets without an explicit path.

    XDG_RUNTIME_DIR if set, and this user's folder in /tmp.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return [*([Path(runtime)] if os.path.isabs(runtime) else []), _in_tmp()]


def check_folder(folder: Path) -> None:
    """Raises InvalidCallError if `folder` is one of folders() but another user owns it or can write to it.

    Any other folder was chosen by the user, and may be shared. bind() or connect() report a missing
    folder.
    """
    if folder in folders():
        check_private(folder)


def check_private(folder: Path) -> None:
    """Raises InvalidCallError if another user owns the folder or can write to it. A missing one is no error."""
    with contextlib.suppress(FileNotFoundError):
        status = folder.lstat()
        if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
            raise InvalidCallError(
                f"{folder} is not this user's alone (user {status.st_uid}, {stat.filemode(status.st_mode)}; needed are "
                f"user {os.geteuid()} and drwx------): set XDG_RUNTIME_DIR to such a folder, or give a path"
            )


def make_folder(folder: Path) -> None:
    """Makes the user's folder in /tmp, if `folder` is that one. Raises InvalidCallError as check_folder() does."""
    if folder == _in_tmp():
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
    check_folder(folder)


def listen(sock: socket.socket, path: Path, backlog: int) -> None:
    """Binds the socket to the path, to which only processes of this user can connect, and listens."""
    sock.bind(os.fspath(path))
    os.chmod(path, 0o600)  # no process can connect before listen()
    sock.listen(backlog)


def connect(sock: socket.socket, path: Path) -> int:
    """Connects the socket, and returns the pid of the listening process.

    Raises
    ------
    OSError
        No process listens there; PermissionError: a process of another user does.
    InvalidCallError
        As check_folder() does.
    """
    check_folder(path.parent)
    sock.connect(os.fspath(path))
    return check_peer(sock)


def accept(listener: socket.socket) -> socket.socket | None:
    """Accepts the next connection of a process of this user, for calls that do not wait. None: there is none."""
    try:
        sock, _ = listener.accept()
    except OSError:  # the peer has hung up, or this process has no fd left
        return None
    try:
        sock.setblocking(False)
        check_peer(sock)
    except OSError:
        sock.close()
        return None
    return sock


def _in_tmp() -> Path:
    return Path(f"/tmp/vkshare-{os.geteuid()}")
