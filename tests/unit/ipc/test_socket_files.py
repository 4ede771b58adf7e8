"""The path of a listening socket, which one process has at a time."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from vkshare.errors import InvalidCallError
from vkshare.ipc.socket_files import LockedListener, TakenError, lock_path

pytestmark = pytest.mark.no_driver
WAIT = 30.0  # seconds that end a hang


@pytest.mark.rule("W1")
@pytest.mark.parametrize("last", [False, True], ids=["before the socket's end", "before the lock's end"])
def test_a_close_leaves_no_moment_in_which_two_have_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    """One thread is stopped while it removes the files, and another closes the listener."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = tmp_path / "name"
    listener = LockedListener(path)
    is_there, may_go_on = threading.Event(), threading.Event()
    unlink = Path.unlink

    def slowly(self: Path, missing_ok: bool = False) -> None:
        if self == (lock_path(path) if last else path) and threading.current_thread() is remover:
            is_there.set()
            assert may_go_on.wait(WAIT)
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", slowly)
    remover, closer = threading.Thread(target=listener.unlink), threading.Thread(target=listener.close)
    remover.start()
    assert is_there.wait(WAIT)
    closer.start()
    closer.join(0.2)  # it may be quick where it is wrong
    with pytest.raises(TakenError):
        LockedListener(path)
    may_go_on.set()
    remover.join(WAIT)
    closer.join(WAIT)
    other = LockedListener(path)
    assert path.is_socket()
    assert lock_path(path).is_file()
    other.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.rule("W1")
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_lock_file_is_left_alone_and_named(tmp_path: Path, kind: str) -> None:
    lock = lock_path(tmp_path / "name")
    if kind == "link":
        lock.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        lock.mkdir()
    else:
        os.mkfifo(lock)
    with pytest.raises(InvalidCallError, match=f"{lock.name} is no file of this user's locks: remove it"):
        LockedListener(tmp_path / "name")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("text", [b"9" * 24, b"-4", b"a process", b"0"])
def test_a_lock_file_with_no_process_number_says_so(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "name"
    with_lock = LockedListener(path, socket.SOCK_STREAM)
    lock_path(path).write_bytes(text)
    with pytest.raises(TakenError, match="another process has"):
        LockedListener(path)
    with_lock.close()
