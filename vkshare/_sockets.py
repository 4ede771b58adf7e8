"""Unix sockets of one user's processes: where they are, and who is at the other end (rule X19).

A server's address can be made by any user who comes first: in a folder that others can write, and by another user's
process anywhere. Both sides therefore check the folder, and both check the peer's user before the first byte goes out.
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
    """The pid of the process at the other end of a connected socket; 0 where that process is in another pid namespace.

    Raises
    ------
    PermissionError
        That process runs as another user. Root is no exception, on either side.
    """
    pid, uid, _ = _PEERCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
    if uid not in (os.geteuid(), _NO_USER):  # no user: it is not connected, as its next call will say
        raise PermissionError(
            f"the peer is user {uid}, this process user {os.geteuid()}: only processes of one user can share"
        )
    return int(pid)


def folders() -> list[Path]:
    """Where sockets without a path of their own are: XDG_RUNTIME_DIR, where it is set, and the user's own in /tmp."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return [*([Path(runtime)] if os.path.isabs(runtime) else []), _in_tmp()]


def check_folder(folder: Path) -> None:
    """InvalidCallError: it is one of folders(), and not a folder of this user's that no other user can write to.

    Any other folder was chosen by the user, and may be shared. A missing one is for bind or connect to report.
    """
    if folder not in folders():
        return
    with contextlib.suppress(FileNotFoundError):
        status = folder.lstat()
        if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
            raise InvalidCallError(
                f"{folder} is not this user's alone (user {status.st_uid}, {stat.filemode(status.st_mode)}; needed are "
                f"user {os.geteuid()} and drwx------): set XDG_RUNTIME_DIR to such a folder, or give a path"
            )


def make_folder(folder: Path) -> None:
    """Makes the user's folder in /tmp, if it is that one. InvalidCallError as of check_folder()."""
    if folder == _in_tmp():
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
    check_folder(folder)


def listen(sock: socket.socket, path: Path, backlog: int) -> None:
    """Binds it to the path, which only processes of this user can connect to, and listens."""
    sock.bind(os.fspath(path))
    os.chmod(path, 0o600)  # nobody can connect before it listens
    sock.listen(backlog)


def connect(sock: socket.socket, path: Path) -> int:
    """Connects it; the pid of the process that listens there.

    Raises
    ------
    OSError
        No process listens there; PermissionError: one of another user does.
    InvalidCallError
        As of check_folder().
    """
    check_folder(path.parent)
    sock.connect(os.fspath(path))
    return check_peer(sock)


def _in_tmp() -> Path:
    return Path(f"/tmp/vkshare-{os.geteuid()}")
