"""Mutated requests and WebSocket messages: each ends its own connection at most (rule W6)."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import numpy as np
import pytest
from support import page_fuzz
from support.fd_counts import open_fds
from support.run_volumes import rounds, seeded, unhurried
from support.view_servers import HANG, RawPage

pytest_plugins = ["support.view_servers"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W6"), unhurried]

_ALLOWANCE = 48 << 20  # bytes of resident memory: allocators keep some of what was freed


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def settled(server: Any, viewers: int) -> None:
    """Wait until the connections of a run have ended."""
    limit = time.monotonic() + HANG
    while server.statistics().viewers > viewers:
        assert time.monotonic() < limit, server.statistics()
        time.sleep(0.01)


def answers(page: RawPage, time_: float) -> None:
    """See that an honest viewer is still served."""
    page.say({"type": "ping", "time": time_})
    while True:
        opcode, body = page.frame()
        assert opcode != 8, "an honest viewer was cut off"
        if opcode == 1 and json.loads(body)["time"] == time_:
            return


def test_fuzzed_messages_end_their_own_connection_only(show: Any, caplog: Any) -> None:
    caplog.set_level(logging.ERROR, "vkshare.view")
    source = show(16, 16)
    source.send(np.zeros((16, 16, 4), np.uint8))
    server, dice = source.server, seeded()
    with RawPage(server) as honest:
        honest.open()
        page_fuzz.run(server, 200, dice)  # modules are loaded, and pools filled
        settled(server, 1)
        fds, memory = len(open_fds()), resident()
        total, batch = rounds(1_000_000, 1_500, full=30_000), 1_500
        for number in range(total // batch):
            page_fuzz.run(server, batch, dice)
            answers(honest, number + 0.5)
        settled(server, 1)
        assert len(open_fds()) <= fds + 2
        assert resident() - memory < _ALLOWANCE
        statistics = server.statistics()
        assert statistics.garbage > 10
        assert sum(statistics.refused.values()) > 3
    assert [f"{each.name}: {each.exc_info[1]!r}" for each in caplog.records if each.exc_info] == [], caplog.text


GARBAGE = {
    "no JSON": (1, b"hello"),
    "bytes": (2, b"\x00\x01"),
    "no UTF-8": (1, b'"\xff\xfe"'),
    "unknown type": (1, b'{"type": "quit"}'),
    "unknown field": (1, b'{"type": "ack", "frame": 1, "more": 1}'),
    "a frame that was not sent": (1, b'{"type": "ack", "frame": 99999}'),
    "a negative frame": (1, b'{"type": "ack", "frame": -1}'),
    "second hello": (1, b'{"type": "hello", "version": 1}'),
    "unknown event": (1, b'{"type": "event", "event_type": "explode"}'),
    "close by the page": (1, b'{"type": "event", "event_type": "close"}'),
    "no number": (1, b'{"type": "event", "event_type": "pointer_move", "x": NaN}'),
    "a number too large": (1, b'{"type": "event", "event_type": "pointer_move", "x": 1e300}'),
    "a long key": (1, b'{"type": "event", "event_type": "key_down", "key": "%s"}' % (b"k" * 1000)),
    "too long": (1, b'"%s"' % (b"x" * 20_000)),
    "deep": (1, b"[" * 10_000),
}


@pytest.mark.parametrize(("opcode", "body"), GARBAGE.values(), ids=GARBAGE)
def test_a_malformed_message_ends_its_connection_and_no_other(show: Any, opcode: int, body: bytes) -> None:
    server = show().server
    with RawPage(server) as honest:
        honest.open()
        with RawPage(server) as liar:
            liar.open()
            liar.send_frame(opcode, body)
            assert liar.until_closed() in (1002, 1003, 1007, 1008, 1009)
        answers(honest, 7.5)
        settled(server, 1)


def test_a_page_that_does_not_begin_with_hello_is_cut_off(show: Any) -> None:
    server = show().server
    with RawPage(server) as page:
        page.request()
        page.say({"type": "ping", "time": 1})
        assert page.until_closed() == 1008
    settled(server, 0)
    assert server.statistics().garbage == 1


def test_a_page_that_asks_and_reads_no_answers_costs_bounded_memory(show: Any) -> None:
    server = show().server
    with RawPage(server) as page, RawPage(server) as honest:
        honest.open()
        page.open()
        page.sock.settimeout(1)
        memory = resident()
        try:
            for _ in range(40_000):
                page.say({"type": "ping", "time": 1.5})
        except OSError:
            pass
        answers(honest, 3.5)
        assert resident() - memory < _ALLOWANCE
