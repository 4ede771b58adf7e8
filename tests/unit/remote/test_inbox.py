"""Numbers, reassembly, bounds and acknowledgements of the receiving half of a link. Rules M4, M13."""

from __future__ import annotations

import math

import pytest

from vkshare.remote.inbox import ACK_BYTES, ACK_DELAY, Delivery, Inbox
from vkshare.remote.link_messages import CHUNK, LANE_WINDOW, MAX_LANES, LinkError, Packet

pytestmark = pytest.mark.no_driver


def packet(number: int, lane: int, payload: bytes, length: int | None = None, begins: bool = True) -> Packet:
    return Packet(number, lane, len(payload) if length is None else length, begins, payload)


def test_chunks_of_several_lanes_become_whole_messages() -> None:
    inbox = Inbox()
    assert inbox.receive(packet(0, 1, b"ab", 4), 0.0) is None
    assert inbox.receive(packet(1, 2, b"other"), 0.0) == Delivery(2, b"other")
    assert inbox.receive(packet(2, 1, b"cd", 4, False), 0.0) == Delivery(1, b"abcd")
    assert inbox.receive(packet(3, 1, b"", 0), 0.0) == Delivery(1, None)
    assert inbox.expected == 4
    assert inbox.statistics().messages == 2


@pytest.mark.rule("M17")
def test_a_packet_that_came_before_is_dropped_and_acknowledged_again() -> None:
    inbox = Inbox()
    inbox.receive(packet(0, 1, b"x"), 0.0)
    assert inbox.acknowledgement(1.0) is not None
    assert inbox.receive(packet(0, 1, b"x"), 1.0) is None
    assert inbox.statistics().duplicates == 1
    ack = inbox.acknowledgement(2.0)
    assert ack is not None
    assert ack.received == 1


@pytest.mark.rule("M13")
@pytest.mark.parametrize(
    ("packets", "why"),
    [
        ([packet(1, 1, b"x")], "packet 0 is missing"),
        ([packet(0, 1, b"x", 2, False)], "belongs to no message"),
        ([packet(0, 1, b"x", 3), packet(1, 1, b"y")], "begins inside another one"),
        ([packet(0, 1, b"x", 3), packet(1, 1, b"y", 2, False)], "declares 2 bytes, and 3 before"),
        ([packet(0, 1, b"x", 3), packet(1, 1, b"yyy", 3, False)], "more than the 3 bytes"),
        ([packet(0, 1, b"x", 3), packet(1, 1, b"", 0)], "ends inside a message"),
        ([packet(lane, lane, b"x") for lane in range(MAX_LANES + 1)], "lane 1024 would be one more"),
        ([packet(0, 0, b"x"), packet(1, 0, b"", 0)], "lane 0, control, was ended; only lanes of other numbers"),
        ([packet(0, 0, b"", 0)], "lane 0, control, was ended"),
        ([packet(n, 1, bytes(CHUNK)) for n in range(LANE_WINDOW // CHUNK + 1)], "that were not consumed"),
    ],
)
def test_packets_that_do_not_fit_are_errors(packets: list[Packet], why: str) -> None:
    inbox = Inbox()
    for each in packets[:-1]:
        inbox.receive(each, 0.0)
    with pytest.raises(LinkError, match=why):
        inbox.receive(packets[-1], 0.0)


def test_a_reader_that_consumes_makes_room() -> None:
    inbox = Inbox()
    for number in range(4 * LANE_WINDOW // CHUNK):
        inbox.receive(packet(number, 1, bytes(CHUNK)), 0.0)
        inbox.consumed(1, CHUNK, 0.0)
    assert inbox.statistics().unconsumed == 0


def test_more_than_the_whole_messages_cannot_be_consumed() -> None:
    inbox = Inbox()
    inbox.receive(packet(0, 1, b"whole"), 0.0)
    inbox.receive(packet(1, 1, b"par", 9), 0.0)
    with pytest.raises(ValueError, match="has 5 bytes to consume, not 6"):
        inbox.consumed(1, 6, 0.0)
    inbox.consumed(1, 5, 0.0)
    inbox.consumed(99, 5, 0.0)


@pytest.mark.rule("M4")
def test_bytes_of_a_lane_that_has_ended_count_for_no_later_lane_of_its_number() -> None:
    inbox = Inbox()
    first = inbox.receive(packet(0, 7, bytes(1000)), 0.0)
    assert inbox.receive(packet(1, 7, b"", 0), 0.0) == Delivery(7, None)
    second = inbox.receive(packet(2, 7, b"of another"), 0.0)
    assert first is not None
    assert second is not None
    inbox.consumed(first.lane, 1000, 0.0)
    assert inbox.statistics().unconsumed == 10
    inbox.consumed(second.lane, 4, 0.0)
    inbox.consumed(first.lane, 3, 0.0)
    ack = inbox.acknowledgement(1.0)
    assert ack is not None
    assert ack.consumed == {7: 4}
    inbox.consumed(7, 6, 1.0)  # a plain number is that of the lane which is open
    assert inbox.statistics().unconsumed == 0


def test_acknowledgements_are_late_by_20_ms_or_64_kib() -> None:
    inbox = Inbox()
    assert inbox.deadline == math.inf
    inbox.receive(packet(0, 1, b"x"), 5.0)
    assert inbox.deadline == 5.0 + ACK_DELAY
    assert inbox.acknowledgement(5.0) is None
    ack = inbox.acknowledgement(5.0 + ACK_DELAY)
    assert ack is not None
    assert (ack.received, ack.consumed) == (1, {})
    assert ack.delay == pytest.approx(ACK_DELAY)
    for number in (1, 2):
        inbox.receive(packet(number, 2, bytes(CHUNK)), 6.0)
    assert 2 * CHUNK == ACK_BYTES
    assert inbox.acknowledgement(6.0) is not None
    assert inbox.deadline == math.inf


def test_consumed_bytes_are_reported_in_total_once() -> None:
    inbox = Inbox()
    inbox.receive(packet(0, 1, b"abc"), 0.0)
    inbox.receive(packet(1, 2, b"x"), 0.0)
    inbox.consumed(1, 3, 0.0)
    first = inbox.acknowledgement(1.0)
    inbox.consumed(2, 1, 1.0)
    second = inbox.acknowledgement(2.0)
    assert first is not None
    assert second is not None
    assert (first.consumed, second.consumed) == ({1: 3}, {2: 1})
    inbox.resumed(3.0)
    again = inbox.acknowledgement(3.0)
    assert again is not None
    assert again.consumed == {1: 3, 2: 1}, "the acknowledgements may have been lost"
