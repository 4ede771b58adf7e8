"""Refusals of a view server over real connections: one answer for all that is wrong (rule W6)."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from support.fd_counts import open_fds
from support.shared_handles import wait_until
from support.view_servers import HANG, REFUSED, RawPage, certificate, need_aiohttp

import vkshare as vks

pytest_plugins = ["support.view_servers"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W6")]


def refused(server: Any, **request: Any) -> bytes:
    """All bytes of the answer to a request."""
    with RawPage(server) as page:
        return page.request(**request) + page.everything()


WRONG: dict[str, dict[str, Any]] = {
    "no token": {"Sec_WebSocket_Protocol": "vkshare.view.1"},
    "wrong token": {"Sec_WebSocket_Protocol": "vkshare.view.1, token." + "x" * 32},
    "no protocol": {"Sec_WebSocket_Protocol": None},
    "foreign origin": {"Origin": "http://evil.example"},
    "no origin": {"Origin": None},
    "foreign host": {"Host": "evil.example"},
    "no host": {"Host": None},
    "unknown path": {"path": "/secret"},
    "outside of the page": {"path": "/../server.py"},
    "outside, encoded": {"path": "/%2e%2e/server.py"},
    "no WebSocket": {"Upgrade": None},
    "old WebSocket": {"Sec_WebSocket_Version": "8"},
    "no key": {"Sec_WebSocket_Key": "?"},
    "another method": {"method": "POST"},
    "a made-up method": {"method": "X" * 300},
    "no method": {"method": "G\x00ET"},
    "a target that is no path": {"path": "http://["},
    "a long line": {"path": "/" + "x" * 5000},
    "a long field": {"X_Long": "x" * 40_000},
}


@pytest.mark.parametrize("request_", WRONG.values(), ids=WRONG)
def test_each_refusal_is_the_same_403_and_the_end_of_the_connection(show: Any, request_: dict[str, Any]) -> None:
    server = show().server
    assert refused(server, **request_) == REFUSED
    assert sum(server.statistics().refused.values()) == 1
    assert server.statistics().viewers == 0


def test_two_fields_of_one_name_are_refused(show: Any) -> None:
    server = show().server
    with RawPage(server) as page:
        assert page.request(X_More="1\r\nHost: evil.example") + page.everything() == REFUSED
    with RawPage(server) as page:
        assert page.request(X_More="1\r\nOrigin: http://evil.example") + page.everything() == REFUSED


@pytest.mark.parametrize(
    "noise", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"hello\r\n\r\n", b"\r\n" * 99 + b"\x00\r\n\r\n"]
)
def test_no_http_is_refused_or_cut_off_and_the_server_goes_on(show: Any, noise: bytes) -> None:
    server = show().server
    with RawPage(server) as page:
        page.sock.sendall(noise)
        page.sock.shutdown(socket.SHUT_WR)
        assert page.everything() in (REFUSED, b"")
    with RawPage(server) as page:
        page.open()


def test_the_token_opens_a_viewer_and_the_answer_does_not_repeat_it(show: Any) -> None:
    server = show().server
    with RawPage(server) as page:
        head = page.request()
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"Sec-WebSocket-Protocol: vkshare.view.1\r\n" in head
        assert server.token.encode() not in head
        assert b"aiohttp" not in head
    assert server.statistics().accepted == 1


def test_the_page_is_served_with_a_strict_policy_and_no_version(show: Any) -> None:
    server = show().server
    with RawPage(server) as page:
        head = page.request("/", Upgrade=None, Connection=None).decode()
    assert head.startswith("HTTP/1.1 200 ")
    fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
    assert "default-src 'none'; script-src 'self'" in fields["Content-Security-Policy"]
    assert "unsafe" not in fields["Content-Security-Policy"]
    assert fields["Referrer-Policy"] == "no-referrer"
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert "Server" not in fields
    assert "Set-Cookie" not in fields


def test_the_token_is_in_no_log_and_no_repr(show: Any, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    server = show(token="secret-secret-secret-secret").server
    with RawPage(server) as page:
        page.open()
        page.say({"type": "nonsense"})
        page.until_closed()
    for wrong in WRONG.values():
        refused(server, **wrong)
    assert "secret-secret" not in caplog.text
    assert "secret-secret" not in repr(server)
    assert "secret-secret" in server.url


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_other_addresses_than_loopback_need_a_certificate(show: Any, bind: str) -> None:
    with pytest.raises(ValueError, match="certificate"):
        show(bind=bind)


def test_a_port_that_is_in_use_is_an_os_error_that_names_it(show: Any) -> None:
    address = show().server.address
    with pytest.raises(OSError, match=f"127.0.0.1:{address[1]}"):
        show(bind=f"127.0.0.1:{address[1]}")


def test_with_a_certificate_the_page_comes_over_tls_alone(show: Any, tmp_path: Path) -> None:
    server = show(certificate=certificate(tmp_path)).server
    assert server.url.startswith("https://127.0.0.1:")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(tmp_path / "chain.pem")
    with RawPage(server, context=context) as page:
        assert page.request(Origin=f"https://{page.host}").startswith(b"HTTP/1.1 101 ")
    with RawPage(server) as plain:
        assert b"HTTP" not in plain.request()


def over_tls(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder / "chain.pem")
    return context


def test_a_connection_has_few_records_of_tls_before_it_shows_the_token(show: Any, tmp_path: Path) -> None:
    """Each record can ask for a new key, which costs the server more than its sender."""
    server = show(certificate=certificate(tmp_path)).server
    with RawPage(server, context=over_tls(tmp_path)) as page, contextlib.suppress(OSError):
        for byte in b"GET /view HTTP/1.1 and so on, a byte in each record" * 20:
            page.sock.sendall(bytes([byte]))
        assert page.everything() == b""
    wait_until(lambda: server.statistics().refused["limit"] == 1)
    with RawPage(server, context=over_tls(tmp_path)) as page:
        assert page.request(Origin=f"https://{page.host}").startswith(b"HTTP/1.1 101 ")
        page.say({"type": "hello", "version": 1})
        for _ in range(100):  # it has shown the token
            page.say({"type": "ping", "time": 1})
            while (opcode := page.frame()[0]) != 1:
                assert opcode != 8


def test_a_page_that_has_ended_its_socket_alone_holds_no_close_up(show: Any, tmp_path: Path, caplog: Any) -> None:
    server = show(certificate=certificate(tmp_path)).server
    with RawPage(server, context=over_tls(tmp_path)) as page, RawPage(server, context=over_tls(tmp_path)) as other:
        for each in (page, other):
            assert each.request(Origin=f"https://{each.host}").startswith(b"HTTP/1.1 101 ")
            each.say({"type": "hello", "version": 1})
        page.send_frame(8, b"\x03\xe8")
        assert page.until_closed() == 1000
        server.close()
        assert other.until_closed() == 1001
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_a_connection_that_sends_no_request_in_time_is_cut_off(show: Any, monkeypatch: Any) -> None:
    need_aiohttp()
    from vkshare.view import service

    monkeypatch.setattr(service, "LIMITS", service.Limits(deadline=0.3))
    server = show().server
    with RawPage(server) as silent, RawPage(server) as slow, RawPage(server) as viewer:
        viewer.open()
        slow.sock.sendall(b"GET /view HTTP/1.1\r\nHost: ")
        assert silent.everything() == b""
        assert slow.everything() == b""
        viewer.say({"type": "ping", "time": 1})
        while viewer.frame()[0] != 1:  # it has shown the token, and stays
            pass
    assert server.statistics().refused["late"] == 2


def test_idle_connections_keep_no_viewer_out(show: Any) -> None:
    need_aiohttp()
    from vkshare.view.connections import MOST_WAITING

    server = show().server
    idle = [RawPage(server) for _ in range(MOST_WAITING + 8)]
    with RawPage(server) as page:
        page.open()
    limit = time.monotonic() + HANG
    while server.statistics().refused["limit"] < 9 and time.monotonic() < limit:
        time.sleep(0.01)
    assert server.statistics().refused["limit"] == 9
    assert idle[0].everything() == b""
    for each in idle:
        each.close()


def test_idle_connections_without_tls_keep_no_viewer_out(show: Any, tmp_path: Path) -> None:
    need_aiohttp()
    from vkshare.view.connections import MOST_WAITING

    server = show(certificate=certificate(tmp_path)).server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(tmp_path / "chain.pem")
    before = len(open_fds())
    idle = [RawPage(server) for _ in range(MOST_WAITING + 40)]
    with RawPage(server, context=context) as page:
        assert page.request(Origin=f"https://{page.host}").startswith(b"HTTP/1.1 101 ")
        assert len(open_fds()) - before <= 2 * MOST_WAITING + 40 + 8
    assert idle[0].everything() == b""
    for each in idle:
        each.close()
    limit = time.monotonic() + HANG
    while len(open_fds()) > before and time.monotonic() < limit:
        time.sleep(0.01)
    assert len(open_fds()) <= before


def test_too_many_viewers_are_refused_as_all_else(show: Any, monkeypatch: Any) -> None:
    need_aiohttp()
    from vkshare.view import service

    monkeypatch.setattr(service, "MOST_VIEWERS", 2)
    server = show().server
    with RawPage(server) as one, RawPage(server) as two:
        one.open()
        two.open()
        assert refused(server) == REFUSED


def test_a_request_that_goes_on_for_ever_is_cut_off(show: Any) -> None:
    server = show().server
    with RawPage(server) as page:
        page.sock.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n")
        try:
            for _ in range(200):
                page.sock.sendall(bytes(1 << 16))
        except OSError:
            return
        assert page.everything() in (REFUSED, b"")


def test_without_aiohttp_the_error_names_the_extra(monkeypatch: Any) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("vkshare.view")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    import vkshare.view

    with pytest.raises(vks.UnsupportedError, match=r"pip install 'vkshare\[view\]'"):
        vkshare.view.serve("a name")
