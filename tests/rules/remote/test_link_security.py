"""Authentication, TLS and hostile connections of a link. Rule M11."""

from __future__ import annotations

import logging
import re
import shutil
import socket
import ssl
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from support.fd_counts import no_fd_left
from support.link_ends import TOKEN, WAIT, End, Manual, answer_to, join, listen, make_certificate
from support.required_parts import need
from support.shared_handles import wait_until

from vkshare.errors import RemoteLostError
from vkshare.remote import Link, LinkState, link_listener, link_thread
from vkshare.remote.handshake import NO_BINDING, NO_SESSION, Terms, Token, ViewerHandshake
from vkshare.remote.link_listener import MAX_ATTEMPTS
from vkshare.remote.link_messages import Acknowledgement, Close, Item, Packet, encode

pytestmark = pytest.mark.no_driver

OTHER = "another token of the tests"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("openssl", shutil.which("openssl") is not None, "openssl is not installed")
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def certificate(folder: Path) -> tuple[Path, Path]:
    """The host's certificate and its key."""
    return make_certificate(folder, "host")


@pytest.fixture(scope="module")
def other(folder: Path) -> tuple[Path, Path]:
    return make_certificate(folder, "other")


# ---- without a session -----------------------------------------------------------------------------------------------


@pytest.mark.rule("M11")
@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", bytes(74), b"vkslink\0" + bytes(66), b"\x16\x03\x01\x00\x05hello"],
    ids=["http", "zeros", "proof", "hello of tls"],
)
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_a_wrong_beginning_is_answered_with_nothing(
    stack: ExitStack, request: pytest.FixtureRequest, data: bytes, has_tls: bool
) -> None:
    files = request.getfixturevalue("certificate") if has_tls else None
    listener = stack.enter_context(listen(End(), certificate=files))
    assert answer_to(listener.address, data) == b""
    assert listener.statistics().refused == 1


@pytest.mark.rule("M11")
def test_a_wrong_token_is_answered_with_nothing_and_said_by_the_viewer(stack: ExitStack) -> None:
    end = End()
    listener = stack.enter_context(listen(end))
    hello = ViewerHandshake(Token(OTHER), NO_BINDING, Terms(NO_SESSION, 0, 0, 1000, 0)).begin()
    assert answer_to(listener.address, hello) == b""
    with pytest.raises(RemoteLostError, match="without an answer: the token"):
        join(End(), listener.address, OTHER)
    assert not end.states
    assert listener.link.state is LinkState.CONNECTING
    stack.enter_context(join(End(), listener.address))


@pytest.mark.rule("M11")
def test_connections_that_say_nothing_are_closed_at_their_deadline(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_listener, "DEADLINE", 0.1)
    listener = stack.enter_context(listen(End()))
    assert answer_to(listener.address, b"vkslink\0") == b""
    assert listener.statistics().refused == 1


@pytest.mark.rule("M11", "M13")
def test_a_connection_has_few_records_of_tls_before_it_is_authenticated(
    stack: ExitStack, certificate: tuple[Path, Path]
) -> None:
    """Each record can ask for a new key, which costs the host more than its sender."""
    listener = stack.enter_context(listen(End(), certificate=certificate))
    context = ssl.create_default_context(cafile=certificate[0])
    host, port = listener.address.split(":")
    hello = ViewerHandshake(Token(TOKEN), NO_BINDING, Terms(NO_SESSION, 0, 0, 1000, 0)).begin()
    sock = stack.enter_context(socket.create_connection((host, int(port)), WAIT))
    with context.wrap_socket(sock, server_hostname="localhost") as tls, suppress(OSError):
        for byte in hello[:60]:  # each in a record of its own
            tls.sendall(bytes([byte]))
        assert tls.recv(1) == b""
    wait_until(lambda: listener.statistics().refused == 1)
    stack.enter_context(join(End(), listener.address, certificate=certificate[0]))


@pytest.mark.rule("M6", "M13")
def test_a_flood_of_packets_leaves_time_for_other_connections(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_thread, "_ITEMS", 1)
    monkeypatch.setattr(link_thread, "_READING", 1e-9)  # a packet in each turn of the loop
    end = End()
    listener = stack.enter_context(listen(end))
    flood = stack.enter_context(closing(Manual(listener.address)))
    first, last = threading.Event(), encode(Packet(0, 1, 4, True, b"last"), flood.session.generation)
    stale = encode(Acknowledgement(0, 0.0, {}), flood.session.generation + 1)
    deliver = Link._deliver

    def slowly(link: Link, items: list[Item], now: float) -> Close | None:
        first.set()
        time.sleep(0.002)
        return deliver(link, items, now)

    monkeypatch.setattr(Link, "_deliver", slowly)
    flood.sock.sendall(b"".join(flood.stream.frame(stale) for _ in range(500)) + flood.stream.frame(last))
    assert first.wait(WAIT)
    hello = ViewerHandshake(Token(TOKEN), NO_BINDING, Terms(NO_SESSION, 0, 0, 1000, 0)).begin()
    host, port = listener.address.split(":")
    with socket.create_connection((host, int(port)), WAIT) as other:
        other.sendall(hello)
        assert other.recv(1)
        assert not end.messages
    end.until(lambda: end.messages == [(1, b"last")])
    assert listener.statistics().stale == 500


@pytest.mark.rule("M11")
def test_idle_connections_are_bounded_and_keep_no_viewer_out(stack: ExitStack) -> None:
    end = End()
    listener = stack.enter_context(listen(end))
    host, port = listener.address.split(":")
    idle = [stack.enter_context(socket.create_connection((host, int(port)), WAIT)) for _ in range(MAX_ATTEMPTS + 5)]
    for each in idle[:5]:
        assert each.recv(1) == b""
    stack.enter_context(join(End(), listener.address))
    end.until_state(LinkState.UP)


@pytest.mark.rule("M13")
def test_a_host_without_file_descriptors_accepts_again_once_it_has_some(stack: ExitStack) -> None:
    listener = stack.enter_context(listen(End()))
    host, port = listener.address.split(":")
    with no_fd_left(spare=1):
        sock = stack.enter_context(socket.create_connection((host, int(port)), WAIT))
        sock.sendall(b"no viewer")
        time.sleep(0.3)  # long enough for several attempts; fewer would test less
        assert listener.statistics().refused == 0
    assert sock.recv(1) == b""
    assert listener.statistics().refused == 1


@pytest.mark.rule("M11")
def test_the_token_is_in_no_log_and_no_repr(stack: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    listener = stack.enter_context(listen(End()))
    with pytest.raises(RemoteLostError) as raised:
        join(End(), listener.address, OTHER)
    link = stack.enter_context(join(End(), listener.address))
    link.close()
    shown = caplog.text + repr(listener) + repr(link) + repr(raised.value) + repr(vars(link)) + repr(vars(listener))
    assert "another token" in caplog.text
    assert TOKEN not in shown
    assert OTHER not in shown


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M11")
def test_a_link_without_tls_is_for_loopback_only() -> None:
    with pytest.raises(ValueError, match=r"0\.0\.0\.0:0 is no loopback.*certificate=\(certificate file, key file\)"):
        listen(End(), bind="0.0.0.0:0")
    with pytest.raises(ValueError, match=r"192\.0\.2\.1:7700 is no loopback.*the host's certificate file"):
        join(End(), "192.0.2.1:7700")


@pytest.mark.parametrize("address", ["localhost", ":1", "::1:80", "localhost:x", "localhost:70000", "[::1]"])
def test_malformed_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="the address is"):
        join(End(), address)


def test_an_address_without_a_host_is_said(stack: ExitStack) -> None:
    listener = stack.enter_context(listen(End()))
    address = listener.address
    with pytest.raises(OSError, match=f"cannot listen at {address}.*choose another port, or 0 for any"):
        listen(End(), bind=address)
    listener.close()
    with pytest.raises(RemoteLostError, match=f"^nothing listens at {address}: start `vkshare remote` first"):
        join(End(), address, timeout=0.3)
    with pytest.raises(RemoteLostError, match="cannot be resolved"):
        join(End(), "no-such-host.invalid:1", certificate="system")


def test_a_link_may_use_ipv6(stack: ExitStack) -> None:
    need("ipv6", _has_ipv6(), "this machine has no ::1")
    end = End()
    listener = stack.enter_context(listen(end, bind="[::1]:0"))
    assert listener.address.startswith("[::1]:")
    stack.enter_context(join(End(), listener.address)).send(1, b"six")
    end.until(lambda: end.messages == [(1, b"six")])


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


# ---- TLS -------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M11")
def test_a_viewer_with_the_hosts_certificate_is_served_by_tls_1_3(
    stack: ExitStack, certificate: tuple[Path, Path]
) -> None:
    host, viewer = End(), End()
    listener = stack.enter_context(listen(host, certificate=certificate))
    link = stack.enter_context(join(viewer, listener.address, certificate=certificate[0]))
    data = bytes(range(256)) * 4096
    link.send(1, data)
    host.until(lambda: host.messages == [(1, data)])
    listener.link.send(1, data)
    viewer.until(lambda: viewer.messages == [(1, data)])
    context = ssl.create_default_context(cafile=certificate[0])
    address, port = listener.address.split(":")
    with context.wrap_socket(socket.create_connection((address, int(port))), server_hostname="localhost") as sock:
        assert sock.version() == "TLSv1.3"


@pytest.mark.rule("M11")
def test_another_certificate_or_none_is_refused_before_the_token_is_proved(
    stack: ExitStack, certificate: tuple[Path, Path], other: tuple[Path, Path]
) -> None:
    listener = stack.enter_context(listen(End(), certificate=certificate))
    for wrong in (other[0], "system"):
        with pytest.raises(RemoteLostError, match="certificate is not the expected one"):
            join(End(), listener.address, certificate=wrong)
    with pytest.raises(RemoteLostError, match="certificate"):
        join(End(), listener.address)
    assert listener.link.state is LinkState.CONNECTING


def test_a_host_that_starts_after_its_viewer_is_found(stack: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    starting = threading.Timer(0.3, lambda: stack.enter_context(listen(End(), bind=f"127.0.0.1:{port}")))
    starting.start()
    link = stack.enter_context(join(End(), f"127.0.0.1:{port}"))
    starting.join()
    assert link.state is LinkState.UP
    assert link.statistics().refused > 0


@pytest.mark.rule("M11")
def test_wrong_tokens_are_a_warning_at_the_host_now_and_then(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    listener = stack.enter_context(listen(End()))
    for _ in range(3):
        with pytest.raises(RemoteLostError, match=f"^{listener.address}: the host closed the connection"):
            join(End(), listener.address, OTHER)
    assert answer_to(listener.address, b"GET / HTTP/1.1\r\n\r\n") == b""
    (warning,) = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert re.fullmatch(r"a connection from 127\.0\.0\.1:\d+ was refused: the viewer has another token", warning)


@pytest.mark.rule("M11")
def test_older_versions_of_tls_are_refused(stack: ExitStack, certificate: tuple[Path, Path]) -> None:
    listener = stack.enter_context(listen(End(), certificate=certificate))
    host, port = listener.address.split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    sock = stack.enter_context(socket.create_connection((host, int(port)), WAIT))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(sock)


def test_files_that_are_no_certificates_are_refused(
    certificate: tuple[Path, Path], other: tuple[Path, Path], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(ValueError, match="no certificate in PEM form"):
        join(End(), "127.0.0.1:1", certificate=empty)
    with pytest.raises(ValueError, match="has no private key"):
        listen(End(), certificate=(certificate[0], empty))
    with pytest.raises(ValueError, match="cannot be used"):
        listen(End(), certificate=(certificate[0], other[1]))
    with pytest.raises(ValueError, match="needs two files"):
        listen(End(), certificate=certificate[0])
    with pytest.raises(FileNotFoundError):
        listen(End(), certificate=(tmp_path / "none", certificate[1]))
