"""How two ends of a link prove that they have the same token, before anything else is read or answered (rule M11).

    viewer -> host   HELLO      nonce, proof that the viewer has the token
    host -> viewer   CHALLENGE  nonce, proof over both nonces
    viewer -> host   RESPONSE   session to be resumed, proof over both nonces and the session
    host -> viewer   ACCEPT     session that begins or goes on, proof

Each message has a fixed size. The token itself does not travel. A recorded HELLO gains one
CHALLENGE and no session, because RESPONSE covers the host's nonce. Proofs cover the host's
certificate, so a relay that has another one gains nothing. Pure: bytes in, bytes out.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass

from vkshare.remote.link_messages import VERSION, LinkError

MAGIC = b"vkslink\0"
MIN_TOKEN = 16  # characters
DEADLINE = 5.0  # seconds from the connection to ACCEPT
NO_BINDING = bytes(32)  # in place of the certificate's hash, on a loopback connection without TLS
NO_SESSION = bytes(16)

_HELLO = struct.Struct("<8sH32s")  # magic, version, nonce; a proof follows each structure
_CHALLENGE = struct.Struct("<H32s")  # version, nonce
_RESPONSE = struct.Struct("<16sIQII")  # session, generation, received, keep-alive and grace in ms
_ACCEPT = struct.Struct("<B16sIQII")  # verdict, then as RESPONSE
_PROOF = 32

NEW, RESUMED, BUSY = range(3)  # verdicts
MAX_MS = 86_400_000


class HandshakeError(LinkError):
    """The peer did not prove that it has the token, or has another version."""


class WrongTokenError(HandshakeError):
    """The viewer's first message has the proof of another token."""


class Token:
    """A secret that both ends have. Its repr does not show it.

    Raises
    ------
    ValueError
        It is shorter than MIN_TOKEN characters, and could be guessed.
    TypeError
        It is no string.
    """

    __slots__ = ("_key",)

    def __init__(self, token: str) -> None:
        if not isinstance(token, str):
            raise TypeError(f"the token is a str, not a {type(token).__name__}")
        if len(token) < MIN_TOKEN:
            raise ValueError(
                f"the token has {len(token)} characters; at least {MIN_TOKEN} are needed: "
                "use secrets.token_urlsafe(), and pass the same one to both sides"
            )
        self._key = token.encode()

    def __repr__(self) -> str:
        return "<Token>"

    def proof(self, *parts: bytes) -> bytes:
        """Return the proof that this side has the token, over parts of fixed sizes."""
        return hmac.digest(self._key, b"vkshare link\0" + b"".join(parts), "sha256")

    def check(self, proof: bytes, *parts: bytes) -> bool:
        """Return whether a proof is right, in constant time."""
        return hmac.compare_digest(self.proof(*parts), proof)


@dataclass(frozen=True, slots=True)
class Terms:
    """The fields of RESPONSE and ACCEPT.

    Attributes
    ----------
    session, generation
        The session that the viewer knows (NO_SESSION: none), or that the host begins or resumes.
    received
        All packets of that session with a lower number have arrived.
    keepalive_ms, grace_ms
        The wishes of one side; both sides take the smaller ones.
    """

    session: bytes
    generation: int
    received: int
    keepalive_ms: int
    grace_ms: int

    def _fields(self) -> tuple[bytes, int, int, int, int]:
        return self.session, self.generation, self.received, self.keepalive_ms, self.grace_ms

    def _checked(self) -> Terms:
        if not 1 <= self.keepalive_ms <= MAX_MS or self.grace_ms > MAX_MS:
            raise HandshakeError(
                f"the peer wants keep-alives of {self.keepalive_ms} ms and a grace of {self.grace_ms} ms; "
                f"allowed are 1 to {MAX_MS}, and 0 to {MAX_MS}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Verdict:
    """The host's answer: NEW, RESUMED or BUSY, and the terms."""

    kind: int
    terms: Terms


def binding_of(certificate: bytes | None) -> bytes:
    """Return the value that binds proofs to a certificate (DER); None: the connection has no TLS."""
    return NO_BINDING if certificate is None else hashlib.sha256(certificate).digest()


class HostHandshake:
    """The host's side of one connection.

    Parameters
    ----------
    token
        The secret.
    binding
        From binding_of().
    decide
        decide(terms) is called once the viewer has proved that it has the token.
    """

    def __init__(self, token: Token, binding: bytes, decide: Callable[[Terms], Verdict]) -> None:
        self.verdict: Verdict | None = None  # once the handshake is over
        self._token = token
        self._binding = binding
        self._decide = decide
        self._bytes = b""
        self._nonces = b""
        self._is_refused = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes; return the answer, which is empty until the viewer has proved itself.

        Raises
        ------
        HandshakeError
            A proof is wrong: close the connection without an answer.
        """
        self._bytes += data
        if not self._nonces:
            return self._hello() if len(self._bytes) >= _HELLO.size + _PROOF else self._begins_as_hello()
        return self._response() if len(self._bytes) >= _RESPONSE.size + _PROOF else b""

    def _begins_as_hello(self) -> bytes:
        if not MAGIC.startswith(self._bytes[: len(MAGIC)]):
            raise HandshakeError("the connection is none of a viewer")
        return b""

    def _hello(self) -> bytes:
        hello = _cut(self._bytes, _HELLO)
        magic, version, nonce = _HELLO.unpack(hello)
        if magic != MAGIC:
            raise HandshakeError("the connection is none of a viewer")
        if not self._token.check(self._bytes[_HELLO.size :], b"hello", hello, self._binding):
            raise WrongTokenError("the viewer has another token")
        mine = secrets.token_bytes(32)
        self._nonces, self._bytes = nonce + mine, b""
        answer = _CHALLENGE.pack(VERSION, mine)
        answer += self._token.proof(b"challenge", hello, answer, self._binding)
        self._is_refused = version != VERSION  # the viewer reads the host's version, and closes
        return answer

    def _response(self) -> bytes:
        if self._is_refused:
            raise HandshakeError("the viewer's link has another version")
        response = _cut(self._bytes, _RESPONSE)
        if not self._token.check(self._bytes[_RESPONSE.size :], b"response", response, self._nonces, self._binding):
            raise HandshakeError("the viewer's response has a wrong proof")
        self.verdict = self._decide(Terms(*_RESPONSE.unpack(response))._checked())
        answer = _ACCEPT.pack(self.verdict.kind, *self.verdict.terms._fields())
        return answer + self._token.proof(b"accept", answer, self._nonces, self._binding)


class ViewerHandshake:
    """The viewer's side of one connection.

    Parameters
    ----------
    token, binding
        As those of the host.
    terms
        The session to be resumed, and the viewer's wishes.
    """

    def __init__(self, token: Token, binding: bytes, terms: Terms) -> None:
        self.verdict: Verdict | None = None  # once the handshake is over
        self.rest = b""  # bytes after the handshake
        self._token = token
        self._binding = binding
        self._terms = terms
        self._bytes = b""
        self._nonce = secrets.token_bytes(32)
        self._hello = _HELLO.pack(MAGIC, VERSION, self._nonce)
        self._nonces = b""

    def begin(self) -> bytes:
        """Return the first bytes of the connection."""
        return self._hello + self._token.proof(b"hello", self._hello, self._binding)

    def feed(self, data: bytes) -> bytes:
        """Take bytes; return the answer.

        Raises
        ------
        HandshakeError
            The host has another version, or did not prove that it has the token.
        """
        self._bytes += data
        if not self._nonces:
            return self._challenge() if len(self._bytes) >= _CHALLENGE.size + _PROOF else b""
        if self.verdict is None and len(self._bytes) >= _ACCEPT.size + _PROOF:
            self._accept()
        return b""

    def _challenge(self) -> bytes:
        challenge = self._bytes[: _CHALLENGE.size]
        proof, self._bytes = self._split(_CHALLENGE)
        if not self._token.check(proof, b"challenge", self._hello, challenge, self._binding):
            raise HandshakeError("the host did not prove that it has the token: the address may be another program's")
        version, theirs = _CHALLENGE.unpack(challenge)
        if version != VERSION:
            raise HandshakeError(
                f"the host's link has version {version}, this vkshare's {VERSION}: run the same vkshare on both sides"
            )
        self._nonces = self._nonce + theirs
        response = _RESPONSE.pack(*self._terms._fields())
        return response + self._token.proof(b"response", response, self._nonces, self._binding)

    def _accept(self) -> None:
        accept = self._bytes[: _ACCEPT.size]
        proof, self.rest = self._split(_ACCEPT)
        if not self._token.check(proof, b"accept", accept, self._nonces, self._binding):
            raise HandshakeError("the host's answer has a wrong proof")
        kind, *fields = _ACCEPT.unpack(accept)
        if kind not in (NEW, RESUMED, BUSY):
            raise HandshakeError(f"the host's verdict is {kind}; allowed are {NEW}, {RESUMED} and {BUSY}")
        self.verdict = Verdict(kind, Terms(*fields)._checked())

    def _split(self, structure: struct.Struct) -> tuple[bytes, bytes]:
        """Returns the proof behind a structure, and the bytes after it."""
        end = structure.size + _PROOF
        return self._bytes[structure.size : end], self._bytes[end:]


def _cut(data: bytes, structure: struct.Struct) -> bytes:
    """Returns a message without its proof. The viewer waits for each answer, so more bytes are an attack or a bug."""
    if len(data) > structure.size + _PROOF:
        raise HandshakeError(f"{len(data)} bytes came; allowed are {structure.size + _PROOF} before the answer")
    return data[: structure.size]
