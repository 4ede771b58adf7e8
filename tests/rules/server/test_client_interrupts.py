"""Ctrl-C between any two steps of a client's call: the connection is well, and no fd stays open. Rule R13."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import termios
import threading
from pathlib import Path

import pytest
from support.ctrl_c import CtrlC, at_any_place
from support.fd_counts import open_fds
from support.render_servers import Place, until
from support.run_volumes import rounds, unhurried

import vkshare as vks
from vkshare.errors import ClosedError
from vkshare.server import messages as m
from vkshare.server import wire
from vkshare.server.channel import Channel
from vkshare.server.socket_path import Listener

pytest_plugins = ["support.server_fixtures"]

pytestmark = [
    pytest.mark.no_driver,
    unhurried,
    at_any_place,
    pytest.mark.filterwarnings("ignore:.*was neither sent, opened nor closed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # it came in a destructor
]


def work(client: vks.server.Client) -> None:
    """Calls with and without fds, one that fails, one that fails late."""
    with client.create_surface(8, 8), client.create_fence() as fence:
        client.ping()
        for _ in range(2):
            client.submit(signals=[(fence, 1)])
        client.errors()
        with contextlib.suppress(ValueError):
            client.create_surface(8, 8, "no format")


@pytest.mark.rule("R13")
def test_a_client_survives_an_interrupt_at_any_time_and_its_end_leaves_no_fd(place: Place) -> None:
    server = place.server()
    other = place.client(server)
    other.create_fence().close()
    other.sync()
    before = open_fds()
    with vks.server.Client(server.path, timeout=30) as client:
        work(client)
        with CtrlC(0) as counted:
            work(client)
        assert counted.places > 300
        times = rounds(counted.places, 300)
        for n in range(times):
            with contextlib.suppress(KeyboardInterrupt), CtrlC(1 + n * counted.places // times):
                work(client)
            client.ping()
            client.errors()
    del client
    until(lambda: len(open_fds()) <= len(before))
    assert server.statistics().garbage == 0


@pytest.mark.rule("R13")
def test_a_call_that_is_interrupted_when_half_of_its_request_is_sent_ends_the_connection_and_says_so(
    tmp_path: Path,
) -> None:
    listener = Listener(tmp_path / "server")  # of which nothing is read
    channel = Channel(listener.path, 30)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def interrupt() -> None:
        until(lambda: fcntl.ioctl(channel._sock, termios.TIOCOUTQ, bytes(4)) != bytes(4))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            channel.send(m.Op.WAIT, m.Hello("x" * (wire.MAX_MESSAGE - 100)), timeout=30)
    finally:
        thread.join()
        signal.signal(signal.SIGALRM, before)
        listener.close()
    assert channel.sent == 0
    with pytest.raises(ClosedError, match="interrupted when half of its request was sent"):
        channel.no_op(30)
    assert channel.is_closed
