"""Fork: a child keeps none of its parent's connections and ports, which end with the parent. Rules M6, W7 and X11."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.link_ends import WAIT, End, join, listen
from support.shared_handles import wait_until
from support.view_servers import RawPage

import vkshare as vks
from vkshare.remote import LinkState

pytest_plugins = ["support.view_servers"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.rule("X11"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@contextmanager
def _child() -> Iterator[int]:
    """A forked child that does nothing in the block, in which its pid is given."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"!")  # the handlers of fork have run
        while True:
            signal.pause()
    try:
        assert os.read(read, 1) == b"!"
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
        os.close(write)


def _sockets(pid: int | str = "self") -> set[str]:
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(each)
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


@contextmanager
def _serving(device: vks.Device, path: Path) -> Iterator[vks.server.RenderServer]:
    with vks.server.RenderServer(device, path) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_child_of_a_render_server_has_neither_its_listening_socket_nor_its_clients(
    vks_device: vks.Device, tmp_path: Path
) -> None:
    before = _sockets()
    with _serving(vks_device, tmp_path / "server") as server, vks.server.Client(server.path, timeout=WAIT) as client:
        client.ping()
        made = _sockets() - before
        assert len(made) >= 3  # of the listener, and both ends of the connection
        with _child() as pid:
            assert _sockets(pid) & made == set()
        client.ping()


def test_a_child_of_a_client_does_not_keep_its_session(vks_device: vks.Device, tmp_path: Path) -> None:
    with _serving(vks_device, tmp_path / "server") as server:
        client = vks.server.Client(server.path, timeout=WAIT)
        client.ping()
        with _child():
            client.close()
            wait_until(lambda: not server.clients)


@pytest.mark.rule("M6")
@pytest.mark.no_driver
def test_a_child_has_no_socket_of_a_link() -> None:
    before = _sockets()
    host_end, viewer_end = End(), End()
    with listen(host_end) as listener, join(viewer_end, listener.address) as viewer:
        host_end.until_state(LinkState.UP)
        made = _sockets() - before
        assert len(made) >= 3  # of the listener, and both ends of the connection
        with _child() as pid:
            assert _sockets(pid) & made == set()
        assert viewer.state == LinkState.UP
        with _child(), pytest.raises(OSError, match="in use"):
            listen(End(), bind=listener.address)
        with _child():
            address = listener.address
            listener.close()
            wait_until(lambda: _is_free(address))


def _is_free(address: str) -> bool:
    try:
        listen(End(), bind=address).close()
    except OSError:
        return False
    return True


@pytest.mark.rule("W7")
def test_a_child_of_a_view_server_keeps_neither_its_port_nor_its_pages(show: Callable[..., Any]) -> None:
    shown = show(16, 16)
    page = RawPage(shown.server)
    assert b"101" in page.request()
    host, port = shown.server.address[:2]
    with _child():
        shown.server.close()
        page.sock.settimeout(WAIT)
        while page.sock.recv(1 << 16):
            pass
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind((host, port))
            again.listen()
    page.sock.close()
