"""Simulated links between real sockets: bytes equal, senders pushed back, stalls, disconnects, taps, ends."""

from __future__ import annotations

import contextlib
import doctest
import hashlib
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.child_processes import in_child
from support.fd_counts import no_fd_left, open_fds

import vkshare as vks
from vkshare.testing import link_relay
from vkshare.testing.link import LinkProxy, linked_sockets

pytest_plugins = ["support.other_suites"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("E22")]

LIMIT = 60.0  # seconds; ends hangs only
MOMENT = 0.2  # seconds in which nothing may happen
Links = Callable[..., LinkProxy]


def received(sock: socket.socket, count: int) -> bytes:
    """Exactly so many bytes; fewer before an end."""
    data = bytearray()
    while len(data) < count and (part := sock.recv(min(count - len(data), 1 << 16))):
        data += part
    return bytes(data)


def is_silent(*socks: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:  # select() takes no large fds
        for sock in socks:
            selector.register(sock, selectors.EVENT_READ)
        return not selector.select(MOMENT)


class Server:
    """A listening socket; `accept()` gives sockets that do not wait for ever."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.address = listener.getsockname()

    def accept(self) -> socket.socket:
        return limited(self.listener.accept()[0])


def limited(sock: socket.socket) -> socket.socket:
    sock.settimeout(LIMIT)
    return sock


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Server(limited(listener))


@pytest.fixture
def ends() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def connect(server: Server, ends: contextlib.ExitStack) -> Callable[[LinkProxy], tuple[socket.socket, socket.socket]]:
    def connect_through(link: LinkProxy) -> tuple[socket.socket, socket.socket]:
        client = ends.enter_context(socket.create_connection(link.sockaddr, LIMIT))
        return client, ends.enter_context(server.accept())

    return connect_through


# ---- bytes -------------------------------------------------------------------------------------------------------

IMPAIRMENTS: list[dict[str, Any]] = [
    {},
    {"delay": 0.01, "jitter": 0.01},
    {"rate": 4_000_000, "loss": 0.02, "delay": 0.002, "jitter": 0.001},
    {"loss": 0.2, "mtu": 10_000},
    {"rate": 2_000_000, "queue": 4096, "window": 4096},
]


@pytest.mark.parametrize("impairments", IMPAIRMENTS, ids=lambda each: "-".join(each) or "none")
def test_the_bytes_of_both_directions_are_equal_over_any_link(
    vks_link: Links, server: Server, connect: Any, impairments: dict[str, Any]
) -> None:
    link = vks_link(server.address, seed=5, **impairments)
    client, served = connect(link)
    data = {sock: random.Random(number).randbytes(400_000) for number, sock in enumerate((client, served))}

    def send(sock: socket.socket) -> None:
        sock.sendall(data[sock])
        sock.shutdown(socket.SHUT_WR)

    with ThreadPoolExecutor(4) as pool:
        sends = [pool.submit(send, sock) for sock in data]
        got = pool.submit(received, served, 1 << 30), pool.submit(received, client, 1 << 30)
        for each in sends:
            each.result(LIMIT)
        hashes = [hashlib.sha256(each.result(LIMIT)).digest() for each in got]
    assert hashes == [hashlib.sha256(data[sock]).digest() for sock in (client, served)]
    counters = link.statistics()
    for direction, settings in ((counters.up, link.settings("up")), (counters.down, link.settings("down"))):
        assert direction.accepted == direction.delivered == 400_000
        assert direction.queued_most <= settings.queue_bytes
        assert direction.pending_most <= settings.window
        assert (direction.lost > 0) == bool(settings.loss)
        assert direction.retransmissions == direction.lost


def test_the_delay_holds_bytes_back(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address, delay=1000)
    client, served = connect(link)
    client.sendall(b"hello")
    assert is_silent(served)
    assert link.statistics().up.pending == 5


def test_a_path_of_a_unix_socket_is_a_target(vks_link: Links, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        link = vks_link(tmp_path / "socket")
        with socket.create_connection(link.sockaddr, LIMIT) as client, limited(listener).accept()[0] as served:
            client.sendall(b"hello")
            assert received(limited(served), 5) == b"hello"


def test_a_half_close_travels_behind_the_bytes_and_the_other_half_goes_on(
    vks_link: Links, server: Server, connect: Any
) -> None:
    client, served = connect(vks_link(server.address, delay=0.01))
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    assert received(served, 100) == b"question"
    served.sendall(b"answer")
    served.close()
    assert received(client, 100) == b"answer"


def test_a_reset_of_one_side_reaches_the_other(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address, delay=0.01)
    for place in (0, 1):
        pair = connect(link)
        pair[place].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        pair[place].close()
        with pytest.raises(ConnectionResetError):
            pair[1 - place].recv(1)
    assert link.statistics().connections == 0


def test_a_target_that_is_not_there_resets_the_client(vks_link: Links, server: Server) -> None:
    server.listener.close()
    link = vks_link(server.address)
    # Where the reset is quick, connect() raises it.
    with pytest.raises(ConnectionResetError), socket.create_connection(link.sockaddr, LIMIT) as client:
        client.recv(1)
    assert (link.statistics().failed, link.statistics().connections) == (1, 0)


# ---- backpressure ------------------------------------------------------------------------------------------------


def fill(sock: socket.socket) -> int:
    """Send until the socket takes nothing for a moment; return the bytes that it took."""
    total = 0
    sock.settimeout(MOMENT)
    with contextlib.suppress(TimeoutError):
        while total < 1 << 26:
            total += sock.send(bytes(1 << 16))
    sock.settimeout(LIMIT)
    return total


def test_a_receiver_that_does_not_read_pushes_its_own_sender_back_and_no_other(
    vks_link: Links, server: Server, connect: Any
) -> None:
    link = vks_link(server.address, window=100_000)
    client, served = connect(link)
    others = [connect(link) for _ in range(7)]
    total = fill(client)
    assert total < 1 << 25, "send() never blocked"
    counters = link.statistics()
    assert 90_000 < counters.up.pending <= 100_000
    time.sleep(MOMENT)
    assert link.statistics().wakeups - counters.wakeups < 10, "the thread does not sleep"
    for number, (other, its_end) in enumerate(others):
        other.sendall(bytes([number]) * 50_000)
        assert received(its_end, 50_000) == bytes([number]) * 50_000
        its_end.sendall(b"answer")
        assert received(other, 6) == b"answer"
    assert received(served, total) == bytes(total)


def test_a_full_queue_pushes_the_sender_back(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address, rate=1, queue=50_000)
    client, _ = connect(link)
    assert fill(client) < 1 << 25
    counters = link.statistics()
    assert 48_000 < counters.up.queued <= counters.up.queued_most <= 50_000
    link.set(rate=None)
    client.sendall(b"more")


def test_a_sender_goes_on_when_the_queue_has_room_although_nothing_arrives(
    vks_link: Links, server: Server, connect: Any
) -> None:
    link = vks_link(server.address, delay=1000, rate=10_000_000, queue=100_000)
    client, _ = connect(link)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    client.sendall(bytes(1_000_000))
    assert link.statistics().up.delivered == 0


# ---- stalls ------------------------------------------------------------------------------------------------------


def test_nothing_passes_in_a_stall_and_all_comes_after_it(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    client, served = connect(link)
    link.stall()
    client.sendall(b"up")
    served.sendall(b"down")
    assert is_silent(client, served)
    assert link.statistics().up.is_stalled
    link.resume()
    assert (received(served, 2), received(client, 4)) == (b"up", b"down")


def test_a_stall_of_some_seconds_ends_by_itself(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    client, served = connect(link)
    link.stall(MOMENT)
    client.sendall(b"up")
    assert received(served, 2) == b"up"
    assert not link.statistics().up.is_stalled


def test_one_direction_may_stall_alone(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    client, served = connect(link)
    link.stall(direction="down")
    served.sendall(b"down")
    client.sendall(b"up")
    assert received(served, 2) == b"up"
    assert is_silent(client)


# ---- disconnects -------------------------------------------------------------------------------------------------


def test_a_reset_cuts_both_sides(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address, delay=1000)
    pairs = [connect(link), connect(link)]
    pairs[0][0].sendall(b"lost")
    assert link.disconnect("reset") == 2
    for sock in (*pairs[0], *pairs[1]):
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert (link.statistics().cut, link.statistics().connections) == (2, 0)
    connect(link)


def test_an_end_is_no_reset_even_if_bytes_are_unread(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address, rate=1, queue=2000)
    client, served = connect(link)
    client.sendall(bytes(20_000))
    link.disconnect("end")
    assert received(client, 1) == received(served, 1) == b""
    assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0, "a reset came after the end"


def test_neither_side_is_notified_of_a_black_hole(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    client, served = connect(link)
    link.disconnect("blackhole")
    client.sendall(b"lost")
    served.sendall(b"lost")
    link.resume()
    assert is_silent(client, served)
    assert (link.statistics().black, link.statistics().connections) == (1, 0)
    fresh, its_end = connect(link)
    fresh.sendall(b"found")
    assert received(its_end, 5) == b"found"


def test_connections_are_refused_until_resume(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    connect(link)
    link.disconnect(refuse=None)
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(link.sockaddr, LIMIT)
    link.resume()
    connect(link)


def test_connections_are_refused_for_some_seconds(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    link.disconnect(refuse=MOMENT)
    limit = time.monotonic() + LIMIT
    while True:
        try:
            connect(link)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < limit
            time.sleep(0.01)


def test_a_connection_into_a_black_hole_is_never_answered(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    link.disconnect(refuse=None, refusal="blackhole")
    with socket.create_connection(link.sockaddr, LIMIT) as client:
        client.sendall(b"hello")
        assert is_silent(client, server.listener)
        link.resume()
        connect(link)
        assert is_silent(client, server.listener)


# ---- changes and taps --------------------------------------------------------------------------------------------


def test_properties_change_for_one_direction_or_both(vks_link: Links, server: Server) -> None:
    link = vks_link(server.address, delay=0.1)
    link.set(direction="down", rate=1000)
    link.set(loss=0.5)
    up, down = link.settings("up"), link.settings("down")
    assert (up.rate, up.delay, up.loss) == (None, 0.1, 0.5)
    assert (down.rate, down.delay, down.loss) == (1000, 0.1, 0.5)
    with pytest.raises(ValueError, match=r"delay is -1\.0; allowed is 0 to 3600"):
        link.set(delay=-1)
    with pytest.raises(TypeError, match="set\\(\\) has no 'latency'; allowed are direction, delay, jitter, rate"):
        link.set(latency=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="direction is 'left'; allowed are 'up', 'down'"):
        link.stall(direction="left")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="how is 'cut'; allowed are 'reset', 'end', 'blackhole'"):
        link.disconnect("cut")  # type: ignore[arg-type]
    assert link.settings("up") == up


def test_a_recording_has_the_bytes_of_each_connection_up_to_its_size(
    vks_link: Links, server: Server, connect: Any
) -> None:
    link = vks_link(server.address)
    recording, small = link.record(), link.record(most=3)
    for number in range(2):
        client, served = connect(link)
        client.sendall(b"hello%d" % number)
        received(served, 6)
    served.sendall(b"answer")
    received(client, 6)
    assert (recording.read("up"), recording.read("up", 1), recording.read("down", 1)) == (
        b"hello0",
        b"hello1",
        b"answer",
    )
    assert (recording.connections, recording.missed) == ((0, 1), 0)
    assert (small.read("up"), small.missed) == (b"hel", 15)
    recording.stop()
    client.sendall(b"unheard")
    received(served, 7)
    assert recording.read("up", 1) == b"hello1"


def test_a_function_changes_the_bytes_and_cuts_at_a_point(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    client, served = connect(link)
    link.on_bytes("up", lambda data: data.replace(b"l", b"L")[:4])
    client.sendall(b"hello")
    assert received(served, 4) == b"heLL"
    link.on_bytes("up", None)
    client.sendall(b"l")
    assert received(served, 1) == b"l"
    link.on_bytes("down", lambda data: data * link.disconnect())
    served.sendall(b"x")
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_bytes_that_arrive_while_a_function_runs_are_delivered(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(server.address)
    client, served = connect(link)
    link.set(direction="up", delay=MOMENT)

    def slow(data: bytes) -> None:
        time.sleep(2 * MOMENT)
        link.statistics()

    link.on_bytes("down", slow)
    client.sendall(b"up")
    served.sendall(b"down")
    assert (received(served, 2), received(client, 4)) == (b"up", b"down")


@pytest.mark.parametrize("wrong", [lambda data: 1 // 0, lambda data: "text"])
def test_an_error_of_a_function_resets_the_connection_and_close_raises_it(
    server: Server, connect: Any, wrong: Callable[[bytes], Any]
) -> None:
    link = LinkProxy(server.address)
    client, served = connect(link)
    link.on_bytes("up", wrong)
    client.sendall(b"hello")
    with pytest.raises(ConnectionResetError):
        served.recv(1)
    with pytest.raises((ZeroDivisionError, TypeError)):
        link.close()
    link.close()


# ---- sockets in one process --------------------------------------------------------------------------------------


def test_linked_sockets_are_connected_through_the_link() -> None:
    with linked_sockets(delay=0.001, loss=0.1, rate=4_000_000, seed=1) as link:
        first, second = map(limited, link.sockets)
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(first.sendall, bytes(200_000))
            assert received(second, 200_000) == bytes(200_000)
            sent.result(LIMIT)
        second.sendall(b"answer")
        assert received(first, 6) == b"answer"
        with pytest.raises(
            ValueError, match="refuse is 5; allowed is 0, because linked sockets are not connected again"
        ):
            link.disconnect(refuse=5)
        link.disconnect()
        with pytest.raises(ConnectionResetError):
            first.recv(1)
    assert (first.fileno(), second.fileno()) == (-1, -1)


# ---- the proxy's own ends ----------------------------------------------------------------------------------------


def link_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "vkshare-link"]


def test_close_ends_the_thread_and_leaves_no_fd(server: Server) -> None:
    fds = open_fds()
    link = LinkProxy(server.address, delay=1000)
    with socket.create_connection(link.sockaddr, LIMIT) as client, server.accept() as served:
        client.sendall(b"lost")
        link.stall()
        link.close()
        link.close()
        for sock in (client, served):
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
    with linked_sockets():
        pass
    assert link.is_closed
    assert repr(link).endswith("closed>")
    with pytest.raises(vks.InvalidCallError, match="this LinkProxy is closed: make another one"):
        link.statistics()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(link.sockaddr, LIMIT)
    assert not link_threads()
    assert open_fds() == fds


def test_a_link_that_was_not_closed_warns_and_ends(server: Server) -> None:
    fds = open_fds()
    link = [LinkProxy(server.address)]
    with pytest.warns(ResourceWarning, match="unclosed <LinkProxy 127"):
        link.clear()
    assert not link_threads()
    assert open_fds() == fds


def test_a_forked_child_may_not_use_a_link(vks_link: Links, server: Server) -> None:
    link = vks_link(server.address)

    def child() -> None:
        for call in (link.statistics, link.close):
            with pytest.raises(vks.InvalidCallError, match=r"before os\.fork\(\): use and close it there"):
                call()

    in_child(child)
    assert link.statistics().accepted == 0


def test_more_connections_than_a_proxy_carries_wait_for_their_turn(
    vks_link: Links, server: Server, connect: Any, monkeypatch: pytest.MonkeyPatch, ends: contextlib.ExitStack
) -> None:
    monkeypatch.setattr(link_relay, "MOST_CONNECTIONS", 1)
    link = vks_link(server.address)
    connect(link)
    waiting = ends.enter_context(socket.create_connection(link.sockaddr, LIMIT))
    waiting.sendall(b"x")
    assert is_silent(server.listener)
    link.disconnect()
    assert received(ends.enter_context(server.accept()), 1) == b"x"


def test_a_process_without_file_descriptors_carries_the_connection_later(
    vks_link: Links, server: Server, ends: contextlib.ExitStack
) -> None:
    link = vks_link(server.address)
    with no_fd_left(spare=1):
        client = ends.enter_context(socket.create_connection(link.sockaddr, LIMIT))
        time.sleep(MOMENT)  # the proxy has an fd for neither of its sockets, and tries again
    client.sendall(b"x")
    assert received(ends.enter_context(server.accept()), 1) == b"x"


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("nonsense", ValueError, "target is 'nonsense'; allowed are 'HOST:PORT' with a port of 1 to 65535"),
        (("127.0.0.1", 0), ValueError, "target is \\('127.0.0.1', 0\\); allowed are 'HOST:PORT'"),
        (7700, TypeError, "target must be 'HOST:PORT', \\(host, port\\) or a path, not int"),
    ],
)
def test_a_target_that_is_none_is_refused(target: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LinkProxy(target)


def test_the_repr_tells_the_addresses_and_the_state(vks_link: Links, server: Server, connect: Any) -> None:
    link = vks_link(f"127.0.0.1:{server.address[1]}", delay=0.1)
    connect(link)
    link.stall()
    expected = f"<LinkProxy {link.address} -> 127.0.0.1:{server.address[1]}, 1 connections, delay=0.1, stalled>"
    assert repr(link) == expected


def test_the_fixture_closes_its_links_after_the_test(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import socket, threading

        def test_a(vks_link):
            with socket.create_server(("127.0.0.1", 0)) as server:
                links = vks_link(server.getsockname(), delay=0.1), vks_link(server.getsockname())
                assert links[0].settings().delay == 0.1
                assert [each.name for each in threading.enumerate()].count("vkshare-link") == 2

        def test_b():
            assert "vkshare-link" not in [each.name for each in threading.enumerate()]
    """)
    suite.runpytest_subprocess("-W", "error::ResourceWarning").assert_outcomes(passed=2)


@pytest.mark.parametrize("shown", [LinkProxy, linked_sockets], ids=lambda shown: shown.__name__)
def test_the_example_of_a_docstring_runs_as_it_stands(shown: Any) -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(shown, globs={})
    printed: list[str] = []
    assert len(example.examples) >= 2
    assert doctest.DocTestRunner(verbose=False).run(example, out=printed.append).failed == 0, "".join(printed)
