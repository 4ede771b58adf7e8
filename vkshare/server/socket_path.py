"""The server's socket: its default path, and its owner."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from vkshare.errors import InvalidCallError
from vkshare.ipc import socket_files, sockets
from vkshare.ipc.socket_files import LockedListener, TakenError


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


class Listener(LockedListener):
    """A server's listening socket at a path, mode 0600. A lock file beside it excludes other servers."""

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(path, socket.SOCK_STREAM)
        except TakenError:
            raise InvalidCallError(f"a server listens at {path} already: connect to it, or give another path") from None
        except OSError as error:
            raise socket_files.why_not(path, error, "server") from None
