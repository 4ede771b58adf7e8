"""Proofs before anything else: wrong tokens, replays, relays, versions. Rule M11."""

from __future__ import annotations

import secrets

import pytest

from vkshare.remote import handshake as h
from vkshare.remote.handshake import (
    NEW,
    NO_BINDING,
    NO_SESSION,
    HandshakeError,
    HostHandshake,
    Terms,
    Token,
    Verdict,
    ViewerHandshake,
    binding_of,
)

pytestmark = pytest.mark.no_driver

TOKEN = Token("a token of the tests")
TERMS = Terms(NO_SESSION, 0, 0, 1000, 10_000)
BEGUN = Terms(bytes(range(16)), 1, 0, 500, 10_000)


def host(token: Token = TOKEN, binding: bytes = NO_BINDING) -> HostHandshake:
    return HostHandshake(token, binding, lambda terms: Verdict(NEW, BEGUN))


def viewer(token: Token = TOKEN, binding: bytes = NO_BINDING) -> ViewerHandshake:
    return ViewerHandshake(token, binding, TERMS)


@pytest.mark.parametrize("step", [1, 1000])
def test_both_sides_agree_in_two_round_trips_however_the_bytes_are_cut(step: int) -> None:
    asked: list[Terms] = []

    def decide(terms: Terms) -> Verdict:
        asked.append(terms)
        return Verdict(NEW, BEGUN)

    a, b = viewer(), HostHandshake(TOKEN, NO_BINDING, decide)
    out = a.begin()
    for _ in range(2):
        back = b"".join(b.feed(out[at : at + step]) for at in range(0, len(out), step))
        out = b"".join(a.feed(back[at : at + step]) for at in range(0, len(back), step))
    assert asked == [TERMS]
    assert a.verdict == b.verdict == Verdict(NEW, BEGUN)
    assert out == b""


def test_bytes_behind_the_hosts_answer_are_kept() -> None:
    a, b = viewer(), host()
    accept = b.feed(a.feed(b.feed(a.begin())))
    a.feed(accept + b"frames")
    assert a.rest == b"frames"


@pytest.mark.rule("M11")
def test_a_wrong_token_is_refused_by_the_host_without_an_answer() -> None:
    with pytest.raises(HandshakeError, match="another token"):
        host().feed(viewer(Token("another token of them")).begin())


@pytest.mark.rule("M11")
def test_a_host_without_the_token_is_refused_by_the_viewer() -> None:
    a = viewer()
    a.begin()
    with pytest.raises(HandshakeError, match="did not prove"):
        a.feed(secrets.token_bytes(66))


@pytest.mark.rule("M11")
@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"vkslink\1", b"\0"])
def test_the_first_wrong_byte_ends_a_connection(data: bytes) -> None:
    with pytest.raises(HandshakeError, match="none of a viewer"):
        host().feed(data)


@pytest.mark.rule("M11")
def test_a_replayed_beginning_gains_no_session() -> None:
    a, b = viewer(), host()
    hello = a.begin()
    response = a.feed(b.feed(hello))
    again = host()
    assert again.feed(hello)
    with pytest.raises(HandshakeError, match="wrong proof"):
        again.feed(response)
    assert again.verdict is None


@pytest.mark.rule("M11")
def test_a_relay_with_another_certificate_gains_nothing() -> None:
    with pytest.raises(HandshakeError, match="another token"):
        host(binding=binding_of(b"the host's")).feed(viewer(binding=binding_of(b"the relay's")).begin())


@pytest.mark.rule("M11")
@pytest.mark.parametrize("stage", ["hello", "challenge", "response", "accept"])
def test_a_changed_byte_anywhere_is_refused(stage: str) -> None:
    for at in range(300):
        a, b = viewer(), host()
        data, stages = a.begin(), iter((b, a, b, a))
        for name in ("hello", "challenge", "response", "accept"):
            receiver = next(stages)
            if name == stage:
                break
            data = receiver.feed(data)
        if at >= len(data):
            return
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(HandshakeError):
            receiver.feed(bytes(changed))
        assert receiver.verdict is None


def test_more_bytes_than_a_message_has_are_refused() -> None:
    with pytest.raises(HandshakeError, match="75 bytes came; allowed are 74"):
        host().feed(viewer().begin() + b"x")


def test_another_version_is_named_once_the_viewer_has_proved_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h, "VERSION", 2)
    a = viewer()
    hello = a.begin()
    monkeypatch.undo()
    b = host()
    challenge = b.feed(hello)
    monkeypatch.setattr(h, "VERSION", 2)
    with pytest.raises(HandshakeError, match="version 1, this vkshare's 2"):
        a.feed(challenge)
    with pytest.raises(HandshakeError, match="another version"):
        b.feed(bytes(68))


def test_terms_out_of_range_are_refused() -> None:
    a = ViewerHandshake(TOKEN, NO_BINDING, Terms(NO_SESSION, 0, 0, 0, 0))
    b = host()
    response = a.feed(b.feed(a.begin()))
    with pytest.raises(HandshakeError, match="keep-alives of 0 ms"):
        b.feed(response)


@pytest.mark.rule("M11")
def test_a_token_is_in_no_repr_and_no_error() -> None:
    secret = "sixteen characters or more"
    assert secret not in repr(Token(secret))
    with pytest.raises(ValueError, match="at least 16 are needed") as raised:
        Token("short-secret")
    assert "short-secret" not in str(raised.value)
    with pytest.raises(TypeError, match="not a bytes"):
        Token(b"sixteen characters or more")  # type: ignore[arg-type]
