"""Accepting clients, and rejecting those without room. Rules R11, R13."""

from __future__ import annotations

import errno
import itertools
import math
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from support.fd_counts import open_fds
from support.render_servers import Place, open_cpu, until

import vkshare as vks
from vkshare.errors import RemoteLostError
from vkshare.server import server as server_module
from vkshare.server.acceptor import Acceptor
from vkshare.server.loop import Loop
from vkshare.server.socket_path import Listener

pytest_plugins = ["support.server_fixtures"]

pytestmark = pytest.mark.no_driver


class NoRoom:
    """A listening socket with a pending connection, but no free fd to accept it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno = sock.fileno
        self.close = sock.close

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")


def connected(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(os.fspath(path))
    return sock


@pytest.mark.rule("R11")
def test_without_any_fd_it_looks_away_for_a_while_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_fds()
    loop, listener, taken = Loop(), Listener(tmp_path / "server"), list[socket.socket]()
    acceptor = Acceptor(listener, loop, lambda: 50.0, lambda sock, pid: taken.append(sock) or True)
    with connected(listener.path), monkeypatch.context() as without:
        without.setattr(listener, "sock", NoRoom(listener.sock))
        without.setattr(os, "open", _refuse)
        loop.turn(10)
        assert (acceptor.refused, acceptor.deadline) == (1, 50.1)
        woken = loop.wakeups
        loop.turn(0.0)
        assert loop.wakeups == woken + 1  # by its timeout
        assert acceptor.refused == 1
        without.undo()
        acceptor.resume()
        assert acceptor.deadline == math.inf
        loop.turn(10)
    assert len(taken) == 1
    taken[0].close()
    acceptor.close()
    loop.close()
    assert open_fds() == before


def _refuse(*arguments: Any) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_client_above_the_limit_is_rejected(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_CLIENTS", 2)
    server = place.server()
    first, _ = place.client(server), place.client(server)
    with pytest.raises(RemoteLostError, match="closed the connection"):
        vks.server.Client(server.path)
    assert server.statistics().refused == 1
    first.close()
    until(lambda: server.statistics().clients == 1)
    place.client(server).ping()


def test_an_error_while_a_connection_is_accepted_ends_only_that_connection(tmp_path: Path) -> None:
    def fail(sock: socket.socket, pid: int) -> bool:
        raise RuntimeError("no more")

    loop, listener = Loop(), Listener(tmp_path / "server")
    acceptor = Acceptor(listener, loop, lambda: 0.0, fail)
    with connected(listener.path) as sock:
        loop.turn(10)
        assert sock.recv(1) == b""
    assert acceptor.refused == 1
    acceptor.close()
    loop.close()


@pytest.mark.rule("R20")
@pytest.mark.parametrize("refused", range(3))
def test_a_server_whose_loop_can_watch_no_more_keeps_no_fd_and_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    device = open_cpu()
    add, calls = Loop.add, itertools.count()

    def adds(*arguments: Any) -> None:
        if next(calls) == refused:
            raise OSError(errno.ENOSPC, "no room in epoll")
        add(*arguments)

    monkeypatch.setattr(Loop, "add", adds)
    before = open_fds()
    with pytest.raises(OSError, match="no room in epoll"):
        vks.server.RenderServer(device, tmp_path / "server")
    assert open_fds() == before
    vks.server.RenderServer(device, tmp_path / "server").close()
    device.close()
