"""The requests that a view server answers: a pure policy over addresses, header fields and tokens (rule W6).

Every refusal is one and the same answer, so that a peer without the token learns nothing. The reason
goes into the statistics of the server alone.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

PROTOCOL = "vkshare.view.1"  # the WebSocket subprotocol; docs/spec/view-protocol.md
_TOKEN_PREFIX = "token."  # of the second subprotocol that a page offers: the token travels in no URL, cookie or Referer
_TOKEN_BYTES = 24
_SHORTEST_TOKEN = 22  # characters: 128 bits in base64url
_LONGEST_TOKEN = 256
_TOKEN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)  # these need no escape in a URL's fragment or in a header field
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(?::([0-9]{1,5}))?", re.ASCII)


class Refusal(enum.StrEnum):
    """Why a request was refused."""

    HOST = "host"  # a foreign name: DNS rebinding
    ORIGIN = "origin"  # another site's page
    TOKEN = "token"
    REQUEST = "request"  # an unknown path or method, or no WebSocket
    MALFORMED = "malformed"  # no HTTP
    LIMIT = "limit"  # too many connections
    LATE = "late"  # no complete request in time


@dataclass(frozen=True)
class Address:
    """An address to listen at."""

    host: str  # an IP literal without brackets
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine reach it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def authority(self) -> str:
        """``HOST:PORT`` as URLs have it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bind(bind: str) -> Address:
    """Return the address of ``"HOST:PORT"``, ``"[IPv6]:PORT"``, or ``"PORT"`` for loopback.

    Raises
    ------
    ValueError
        `bind` is none of these. A host name other than ``localhost`` is refused too, because it may stand for several
        addresses, of which some may be no loopback.
    """
    allowed = (
        'allowed are "HOST:PORT" with an IP address or localhost, e.g. "127.0.0.1:8080" or "[::1]:0", and "PORT"; '
        "ports go up to 65535"
    )
    if not isinstance(bind, str):
        raise TypeError(f"bind must be a string, not {type(bind).__name__}; {allowed}")
    found = _AUTHORITY.fullmatch(f"127.0.0.1:{bind}" if bind.isascii() and bind.isdecimal() else bind)
    if found is None or found[2] is None or int(found[2]) > 65535:
        raise ValueError(f"bind is {bind!r}; {allowed}")
    host = "127.0.0.1" if found[1].lower() == "localhost" else found[1].strip("[]")
    try:
        return Address(str(ipaddress.ip_address(host)), int(found[2]))
    except ValueError:
        raise ValueError(f"bind is {bind!r}, whose host is no IP address; {allowed}") from None


def make_token() -> str:
    """Return a new random token of 192 bits."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def check_token(token: str) -> str:
    """Return the token that a user chose.

    Raises
    ------
    ValueError
        It is too short for 128 bits, or has characters that need an escape in a URL. The text does not repeat it.
    """
    if not isinstance(token, str):
        raise TypeError(f"token must be a string, not {type(token).__name__}")
    if not (_SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN and _TOKEN.fullmatch(token)):
        raise ValueError(
            f"token has {len(token)} characters, or others than A-Z a-z 0-9 _ -; needed are {_SHORTEST_TOKEN} to "
            f"{_LONGEST_TOKEN} of these, which secrets.token_urlsafe() returns; None makes a new one"
        )
    return token


def check_hosts(hosts: Iterable[str]) -> frozenset[str]:
    """Return the further host names by which pages may call a server, in lower case.

    Raises
    ------
    ValueError
        One is no host name: a port, a scheme or a path is not part of it.
    """
    if isinstance(hosts, str):
        raise TypeError("hosts must be several names, not one string: hosts=[name]")
    names = [name.lower() for name in hosts]
    for name in names:
        if not (found := _AUTHORITY.fullmatch(name)) or found[2]:
            raise ValueError(f'hosts has {name!r}; allowed are host names without port and path, e.g. "box.example"')
    return frozenset(names)


def _digest(token: str) -> bytes:
    """Digests have one length, so that a comparison of them does not show that of the token."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()  # fields with other bytes have surrogates


@dataclass(frozen=True)
class Policy:
    """The header fields that a request must have.

    Parameters
    ----------
    token
        The token that a WebSocket must bring.
    is_encrypted
        Whether pages come over https.
    hosts
        Host names in addition to loopback's. IP literals are allowed where the server is not on loopback, because no
        name server can rebind them.
    allows_any_address
        Whether IP literals other than loopback's are allowed.
    """

    token: str = field(repr=False)
    is_encrypted: bool = False
    hosts: frozenset[str] = frozenset()
    allows_any_address: bool = False

    def judge_file(self, path: str, method: str, fields: Mapping[str, str], paths: Iterable[str]) -> Refusal | None:
        """Return why a request for a file of the page is refused; None: it is answered.

        The files are the same for all and have nothing of the source in them.
        """
        if not self._allows_host(fields.get("Host", "")):
            return Refusal.HOST
        if not self._is_own_site(fields, needs_origin=False):
            return Refusal.ORIGIN
        return None if method in ("GET", "HEAD") and path in paths else Refusal.REQUEST

    def judge_socket(self, method: str, fields: Mapping[str, str]) -> Refusal | None:
        """Return why a WebSocket is refused; None: it is opened. The token is compared in each case."""
        has_token = self._has_token(fields.get("Sec-WebSocket-Protocol", ""))
        if not self._allows_host(fields.get("Host", "")):
            return Refusal.HOST
        if not self._is_own_site(fields, needs_origin=True):
            return Refusal.ORIGIN
        if not has_token:
            return Refusal.TOKEN
        is_upgrade = fields.get("Upgrade", "").strip().lower() == "websocket"
        has_version = fields.get("Sec-WebSocket-Version") == "13"
        return None if method == "GET" and is_upgrade and has_version else Refusal.REQUEST

    def _allows_host(self, authority: str) -> bool:
        """Whether the name of a Host field is one of this server's; a tunnel may have another port."""
        found = _AUTHORITY.fullmatch(authority)
        if found is None or (found[2] and int(found[2]) > 65535):
            return False
        name = found[1].lower()
        if name == "localhost" or name in self.hosts:
            return True
        try:
            address = ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return self.allows_any_address or address.is_loopback

    def _is_own_site(self, fields: Mapping[str, str], *, needs_origin: bool) -> bool:
        """Whether no other site's page makes the request: its Origin is this server, as its Host has it."""
        origin = fields.get("Origin")
        if origin is not None:
            scheme = "https" if self.is_encrypted else "http"
            return origin.lower() == f"{scheme}://{fields.get('Host', '')}".lower()
        if needs_origin:
            return False
        # Links from other sites may lead here. Their pages may not fetch the files, not even to see that they exist.
        is_opened = fields.get("Sec-Fetch-Mode") == "navigate" and fields.get("Sec-Fetch-Dest") == "document"
        return is_opened or fields.get("Sec-Fetch-Site", "none") in ("same-origin", "none")

    def _has_token(self, offered: str) -> bool:
        """Whether a Sec-WebSocket-Protocol field offers the protocol and the token, compared in constant time."""
        offers = [each.strip() for each in offered.split(",")]
        tokens = [each.removeprefix(_TOKEN_PREFIX) for each in offers if each.startswith(_TOKEN_PREFIX)]
        brought = tokens[0] if len(tokens) == 1 else ""
        is_equal = hmac.compare_digest(_digest(brought), _digest(self.token))
        return is_equal and PROTOCOL in offers
