"""The policy of a view server: hosts, origins and tokens, as pure functions (rule W6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkshare.view import security
from vkshare.view.security import PROTOCOL, Policy, Refusal

pytestmark = pytest.mark.no_driver

TOKEN = "t" * 22
PATHS = ("/", "/main.js")


def fields(host: str = "127.0.0.1:8080", **more: str) -> dict[str, str]:
    """Header fields of a socket's request that is answered."""
    usual = {"Origin": f"http://{host}", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    usual["Sec-WebSocket-Protocol"] = f"{PROTOCOL}, token.{TOKEN}"
    return {"Host": host, **usual, **{name.replace("_", "-"): value for name, value in more.items()}}


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "127.0.0.1:9000", "LOCALHOST:1"])
@pytest.mark.rule("W6")
def test_a_page_of_this_machine_that_brings_the_token_is_answered(host: str) -> None:
    assert Policy(TOKEN).judge_socket("GET", fields(host)) is None


FOREIGN = (
    *("evil.example", "evil.example:8080", "127.0.0.1.evil.example:8080", "192.168.0.7:8080", "", "127.0.0.1:99999"),
    *("127.0.0.1:8080@evil.example", "localhost.:80", "127.0.0.1 :80", "[::1", "2130706433:80", "0x7f.1:80"),
)


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.rule("W6")
def test_a_foreign_host_is_refused_even_with_the_token(host: str) -> None:
    assert Policy(TOKEN).judge_socket("GET", fields(host)) is Refusal.HOST
    assert Policy(TOKEN).judge_file("/", "GET", {"Host": host}, PATHS) is Refusal.HOST


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:9000", "http://127.0.0.1", ""]
)
@pytest.mark.rule("W6")
def test_a_foreign_origin_is_refused_even_with_the_token(origin: str) -> None:
    assert Policy(TOKEN).judge_socket("GET", fields(Origin=origin)) is Refusal.ORIGIN
    assert Policy(TOKEN).judge_file("/", "GET", fields(Origin=origin), PATHS) is Refusal.ORIGIN


@pytest.mark.rule("W6")
def test_a_socket_without_an_origin_is_refused_and_a_file_is_not() -> None:
    without = fields()
    del without["Origin"]
    assert Policy(TOKEN).judge_socket("GET", without) is Refusal.ORIGIN
    assert Policy(TOKEN).judge_file("/main.js", "GET", without, PATHS) is None


@pytest.mark.parametrize(
    "offered",
    [
        "",
        PROTOCOL,
        f"token.{TOKEN}",
        f"{PROTOCOL}, token.",
        f"{PROTOCOL}, token.{TOKEN[:-1]}",
        f"{PROTOCOL}, token.{TOKEN}t",
        f"{PROTOCOL}, token.{TOKEN.upper()}",
        f"{PROTOCOL}, token.{TOKEN}, token.{TOKEN}",
        f"{PROTOCOL}, {TOKEN}",
        f"{PROTOCOL}, token.{TOKEN[:-1]}\udce9",  # a byte that is no UTF-8, as aiohttp hands it on
    ],
)
@pytest.mark.rule("W6")
def test_a_wrong_token_is_refused(offered: str) -> None:
    assert Policy(TOKEN).judge_socket("GET", fields(Sec_WebSocket_Protocol=offered)) is Refusal.TOKEN


@given(st.text(max_size=40))
def test_no_other_token_opens_a_socket(offered: str) -> None:
    brought = f"{PROTOCOL}, token.{offered}"
    why = Policy(TOKEN).judge_socket("GET", fields(Sec_WebSocket_Protocol=brought))
    assert (why is None) == (offered.strip() == TOKEN)


@pytest.mark.parametrize(
    ("site", "mode", "target", "is_answered"),
    [
        ("same-origin", "cors", "script", True),
        ("none", "navigate", "document", True),
        ("cross-site", "navigate", "document", True),
        ("cross-site", "no-cors", "script", False),
        ("same-site", "no-cors", "image", False),
        ("cross-site", "navigate", "iframe", False),
    ],
)
@pytest.mark.rule("W6")
def test_other_sites_may_link_to_the_page_and_not_use_its_files(
    site: str, mode: str, target: str, is_answered: bool
) -> None:
    sent = {"Host": "localhost:1", "Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": target}
    assert (Policy(TOKEN).judge_file("/", "GET", sent, PATHS) is None) == is_answered


@pytest.mark.parametrize(("path", "method"), [("/x", "GET"), ("/", "POST"), ("/", "OPTIONS"), ("//", "GET")])
@pytest.mark.rule("W6")
def test_other_paths_and_methods_are_refused(path: str, method: str) -> None:
    assert Policy(TOKEN).judge_file(path, method, {"Host": "localhost:1"}, PATHS) is Refusal.REQUEST


def test_an_encrypted_server_takes_addresses_and_its_own_names_alone() -> None:
    policy = Policy(TOKEN, is_encrypted=True, hosts=frozenset({"box.example"}), allows_any_address=True)
    for host, is_allowed in {
        "box.example:1": True,
        "10.0.0.7:1": True,
        "[fe80::1]:1": True,
        "evil.example": False,
    }.items():
        why = policy.judge_socket("GET", fields(host, Origin=f"https://{host}"))
        assert (why is None) == is_allowed, host


@pytest.mark.parametrize(
    ("bind", "authority", "is_loopback"),
    [
        ("127.0.0.1:0", "127.0.0.1:0", True),
        ("localhost:8080", "127.0.0.1:8080", True),
        ("8080", "127.0.0.1:8080", True),
        ("[::1]:5", "[::1]:5", True),
        ("0.0.0.0:443", "0.0.0.0:443", False),
        ("[::]:443", "[::]:443", False),
    ],
)
def test_addresses_are_read(bind: str, authority: str, is_loopback: bool) -> None:
    address = security.parse_bind(bind)
    assert (address.authority, address.is_loopback) == (authority, is_loopback)


@pytest.mark.parametrize(
    "bind", ["", ":80", "box.example:80", "127.0.0.1", "127.0.0.1:65536", "::1:80", "1.2.3:4", "²"]
)
def test_other_addresses_are_refused_with_the_allowed_forms(bind: str) -> None:
    with pytest.raises(ValueError, match="allowed are"):
        security.parse_bind(bind)


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_a_value_error(bind: str) -> None:
    try:
        address = security.parse_bind(bind)
    except ValueError:
        return
    assert security.parse_bind(address.authority) == address


@pytest.mark.parametrize("token", ["", "short", "t" * 257, "t" * 21, "t" * 30 + "/", "t" * 30 + "é", "t" * 30 + "\n"])
@pytest.mark.rule("W6")
def test_a_weak_token_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(ValueError) as raised:
        security.check_token(token)
    assert not token or token not in str(raised.value)


@pytest.mark.rule("W6")
def test_tokens_are_random_of_at_least_128_bits_and_in_no_repr() -> None:
    made = {security.make_token() for _ in range(100)}
    assert len(made) == 100
    assert all(security.check_token(token) == token and len(token) * 6 >= 128 for token in made)
    assert TOKEN not in repr(Policy(TOKEN))


@pytest.mark.parametrize("hosts", [["a:80"], ["http://a"], ["a/b"], [""]])
def test_hosts_are_names_alone(hosts: list[str]) -> None:
    with pytest.raises(ValueError, match="host names"):
        security.check_hosts(hosts)
