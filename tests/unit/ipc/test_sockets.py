"""Unix sockets of one user's processes: their folders and their peers. Rule X19."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fd_counts import open_fds
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import DescriptorError, InvalidCallError
from vkshare.ipc import fd_broker, sockets
from vkshare.server.socket_path import Listener

Folder = Callable[[Path], object]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What XDG_RUNTIME_DIR says, which is not there."""
    folder = tmp_path / "runtime"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("VKSHARE_SERVER", raising=False)
    return folder


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """A path where something listens, and what each connection has sent there."""
    path, came = tmp_path / "server", list[bytes]()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                came.append(sock.recv(65536))

        thread = threading.Thread(target=serve)
        thread.start()
        yield path, came
        thread.join(20)
        assert not thread.is_alive()


def _open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def _open_to_the_group(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


def _link(folder: Path) -> None:
    (folder.parent / "real").mkdir(0o700)
    folder.symlink_to(folder.parent / "real")


@pytest.mark.rule("X19")
@pytest.mark.parametrize("make", [_open_to_all, _open_to_the_group, _link, Path.write_text])
def test_a_default_folder_that_is_not_the_users_alone_is_refused_on_both_sides(runtime: Path, make: Folder) -> None:
    make(runtime) if make is not Path.write_text else runtime.write_text("a file")
    before = open_fds()
    with pytest.raises(InvalidCallError, match=r"runtime is not this user's alone .*needed are user"):
        Listener(runtime / "vkshare-server")
    with pytest.raises(InvalidCallError, match=r"set XDG_RUNTIME_DIR to such a folder, or give a path"):
        vks.server.Client()
    assert open_fds() == before


@pytest.mark.rule("X19")
def test_another_users_folder_is_refused_to_root_too(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime.mkdir(0o700)
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    with pytest.raises(InvalidCallError, match=f"user {us}, drwx------; needed are user {us + 1}"):
        vks.server.Client()
    monkeypatch.setattr(sockets, "_in_tmp", lambda: runtime)
    with pytest.raises(InvalidCallError, match="not this user's alone"):
        sockets.make_folder(runtime)


def test_a_folder_that_the_user_chose_may_be_shared(runtime: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    _open_to_all(shared)
    Listener(shared / "server").close()


def test_a_default_folder_that_is_not_there_is_no_server(runtime: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"no render server listens at {runtime}/vkshare-server; start one"):
        vks.server.Client()
    with pytest.raises(FileNotFoundError, match=f"no server can listen at {runtime}/vkshare-server; create its folder"):
        Listener(runtime / "vkshare-server")


def test_a_folder_in_which_no_socket_can_be_made_is_passed_over_for_pickles(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fd_broker._broker, "listener", None)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc")
    with vks_device.create_surface(8, 8) as surface, surface.export() as descriptor:
        pickle.loads(pickle.dumps(descriptor)).close()


@pytest.mark.rule("X19")
@pytest.mark.parametrize("connect", [vks.server.Client, vks.compositor.Desktop])
def test_a_server_of_another_user_is_sent_nothing(
    stranger: tuple[Path, list[bytes]], monkeypatch: pytest.MonkeyPatch, connect: Callable[[Path], object]
) -> None:
    """Also at a path that was given; root is no exception."""
    path, came = stranger
    before, us = open_fds(), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    with pytest.raises(PermissionError, match=f"the peer is user {us}, this process user {us + 1}"):
        connect(path)
    monkeypatch.undo()
    wait_until(lambda: came)
    assert came == [b""]
    wait_until(lambda: open_fds() == before)


class _Far(socket.socket):
    """Connected to a process of another user in another pid namespace, where the kernel tells 0 as its pid."""

    def getsockopt(self, *_: object) -> bytes:  # type: ignore[override]
        return struct.pack("3i", 0, os.geteuid() + 1, 0)


@pytest.mark.rule("X19")
def test_a_peer_without_a_pid_here_is_checked_for_its_user_all_the_same() -> None:
    us = os.geteuid()
    with _Far(socket.AF_UNIX) as far, pytest.raises(PermissionError, match=f"the peer is user {us + 1}"):
        sockets.check_peer(far)
    with socket.socket(socket.AF_UNIX) as nowhere:  # its next call says that it is not connected
        assert sockets.check_peer(nowhere) == 0


@pytest.mark.rule("X19")
def test_a_descriptor_is_not_sent_to_another_user(device: vks.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    us = os.geteuid()
    with here, there, device.create_surface(4, 4) as surface, surface.export() as descriptor:
        monkeypatch.setattr(os, "geteuid", lambda: us + 1)
        with pytest.raises(DescriptorError, match=f"the peer is user {us}, this process user {us + 1}"):
            descriptor.send(here)
        monkeypatch.undo()
        there.setblocking(False)
        with pytest.raises(BlockingIOError):
            there.recv(1)
        descriptor.send(here)
