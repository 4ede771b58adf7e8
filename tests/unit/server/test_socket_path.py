"""The path of a server's socket, and its owner."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

import pytest
from support.fd_counts import no_fd_left, open_fds

from vkshare.errors import InvalidCallError
from vkshare.server.socket_path import Listener, checked, default_path

pytestmark = pytest.mark.no_driver


def test_the_default_is_in_the_users_runtime_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VKSHARE_SERVER", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_path() == tmp_path / "vkshare-server"
    monkeypatch.setenv("VKSHARE_SERVER", "/somewhere/else")
    assert checked(None) == Path("/somewhere/else")
    monkeypatch.delenv("VKSHARE_SERVER")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_path() == Path(f"/tmp/vkshare-{os.geteuid()}/server")


def test_only_its_user_can_connect_and_nothing_of_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "server"
    listener = Listener(path)
    status = path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(os.fspath(path))
    listener.close()
    listener.close()
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_a_listening_server_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server"
    first = Listener(path)
    with pytest.raises(InvalidCallError, match=r"a server listens at .* already"):
        Listener(path)
    first.close()
    Listener(path).close()


def test_a_socket_of_another_program_is_replaced_only_if_no_process_listens(tmp_path: Path) -> None:
    path = tmp_path / "server"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(os.fspath(path))
        other.listen()
        with pytest.raises(InvalidCallError, match="a server listens"):
            Listener(path)
    assert path.is_socket()  # stale
    Listener(path).close()
    path.write_text("mine")
    with pytest.raises(InvalidCallError, match="is not a socket"):
        Listener(path)
    assert path.read_text() == "mine"


@pytest.mark.rule("R20")
@pytest.mark.parametrize("free", range(3))
def test_a_listener_that_found_no_fd_keeps_neither_the_lock_nor_any_fd(tmp_path: Path, free: int) -> None:
    before = open_fds()
    with no_fd_left(free), contextlib.suppress(OSError):  # the fds that a listener takes: not asserted here
        Listener(tmp_path / "server").close()
    assert open_fds() == before
    Listener(tmp_path / "server").close()


@pytest.mark.parametrize("path", ["", "x" * 108, "a\0b"])
def test_a_path_that_no_socket_can_have_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path is"):
        checked(path)
