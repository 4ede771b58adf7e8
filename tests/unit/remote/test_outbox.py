"""Lanes, turns, windows, replaced messages and bounds of the sending half of a link. Rules M4, M7, M8, M17."""

from __future__ import annotations

from typing import Any

import pytest

from vkshare.errors import InvalidCallError
from vkshare.remote.link_messages import CHUNK, LANE_WINDOW, MAX_LANES, MAX_MESSAGE, Acknowledgement, LinkError, Packet
from vkshare.remote.outbox import MOST_BYTES, Outbox

pytestmark = pytest.mark.no_driver


def drain(outbox: Outbox, now: float = 0.0) -> list[Packet]:
    """Every packet that may be sent, with the peer's acknowledgement of each."""
    packets = []
    while packet := outbox.next(now):
        packets.append(packet)
        outbox.acknowledged(Acknowledgement(packet.number + 1, 0.0, {}), now)
    return packets


def held(outbox: Outbox) -> list[Packet]:
    """Every packet that may be sent while nothing is acknowledged."""
    packets = []
    while packet := outbox.next(0.0):
        packets.append(packet)
    return packets


def payloads(packets: list[Packet]) -> list[tuple[int, bytes]]:
    return [(packet.lane, bytes(packet.payload)) for packet in packets]


def wide() -> Outbox:
    """An outbox whose window is open from the beginning, so that only the bounds count."""
    outbox = Outbox()
    outbox._pacing.measured(0.001, 1e9, False, 0.0)
    return outbox


@pytest.mark.rule("M8")
def test_lanes_take_turns_by_chunks_and_the_control_lane_is_first() -> None:
    outbox = wide()
    outbox.put(5, b"a" * (2 * CHUNK + 1))
    outbox.put(6, b"b" * (CHUNK + 1))
    outbox.put(6, b"c")
    first = outbox.next(0.0)
    outbox.put(0, b"now")
    rest = held(outbox)
    assert first is not None
    assert [packet.lane for packet in (first, *rest)] == [5, 0, 6, 5, 6, 5, 6]
    assert all(len(packet.payload) <= CHUNK for packet in rest)
    assert [packet.number for packet in (first, *rest)] == list(range(7))


@pytest.mark.rule("M8")
def test_a_control_message_passes_the_window_that_bulk_has_filled() -> None:
    outbox = Outbox()
    outbox.put(5, bytes(MAX_MESSAGE))
    assert sum(len(packet.payload) for packet in held(outbox)) == CHUNK, "the first window"
    outbox.put(0, b"now")
    assert payloads(held(outbox)) == [(0, b"now")]


@pytest.mark.rule("M7", "M8")
def test_short_messages_pass_the_window_that_bulk_has_filled_by_one_short_chunk() -> None:
    outbox = Outbox()
    outbox.put(5, bytes(MAX_MESSAGE // 2))
    outbox.put(7, bytes(MAX_MESSAGE // 2), has_pixels=True)
    held(outbox)
    outbox.compressed(1)
    for _ in range(100):
        outbox.put(6, b"present" * 20)
    outbox.put(8, bytes(3000))
    passed = held(outbox)
    assert {packet.lane for packet in passed} == {6}
    assert 3000 < sum(len(packet.payload) for packet in passed) <= 4096


@pytest.mark.rule("M4")
def test_a_lane_that_its_reader_does_not_consume_stops_alone() -> None:
    outbox = wide()
    assert outbox.put(5, bytes(LANE_WINDOW))
    assert not outbox.put(5, b"x")
    drain(outbox)
    assert not outbox.put(5, b"x"), "received is not consumed"
    assert outbox.room(5) == 0
    assert outbox.put(6, bytes(LANE_WINDOW))
    assert len(drain(outbox)) == LANE_WINDOW // CHUNK
    outbox.acknowledged(Acknowledgement(outbox.number, 0.0, {5: 100}), 0.0)
    assert outbox.room(5) == 100
    assert outbox.put(5, bytes(100))


@pytest.mark.rule("M7")
def test_three_messages_with_pixels_are_unacknowledged_at_most_and_others_pass_them() -> None:
    outbox = wide()
    for number in range(5):
        outbox.put(5, b"picture%d" % number, has_pixels=True)
    outbox.put(5, b"behind")
    outbox.put(6, b"beside")
    sent = held(outbox)
    assert payloads(sent) == [(5, b"picture0"), (6, b"beside"), (5, b"picture1"), (5, b"picture2")]
    assert outbox.statistics().pictures == 3
    outbox.acknowledged(Acknowledgement(1, 0.0, {}), 0.0)
    assert payloads(held(outbox)) == [(5, b"picture3")]


@pytest.mark.rule("M7")
def test_a_picture_is_acknowledged_with_its_last_chunk() -> None:
    outbox = wide()
    for _ in range(4):
        outbox.put(5, bytes(2 * CHUNK), has_pixels=True)
    assert len(held(outbox)) == 6
    outbox.acknowledged(Acknowledgement(1, 0.0, {}), 0.0)
    assert not held(outbox)
    outbox.acknowledged(Acknowledgement(2, 0.0, {}), 0.0)
    assert len(held(outbox)) == 2


@pytest.mark.rule("M7", "M8")
def test_unacknowledged_bytes_are_bounded_and_control_has_a_reserve() -> None:
    outbox = wide()
    outbox._pacing._most = 1 << 40
    for lane in range(1, 9):
        outbox.put(lane, bytes(MAX_MESSAGE))
    held(outbox)
    kept = outbox.statistics().unacknowledged
    assert MOST_BYTES - 4 * CHUNK < kept <= MOST_BYTES
    outbox.put(0, b"now")
    assert payloads(held(outbox)) == [(0, b"now")]
    outbox.put(0, bytes(MAX_MESSAGE // 2))
    held(outbox)
    assert outbox.statistics().unacknowledged <= MOST_BYTES


@pytest.mark.rule("M7")
def test_a_queued_present_is_replaced_in_its_place_by_its_synchronisation() -> None:
    outbox = Outbox()
    outbox.put(5, b"draw 1")
    outbox.put(5, b"present 1", replaces="window", stale=b"sync 1")
    outbox.put(5, b"draw 2")
    outbox.put(5, b"present 2", replaces="window", stale=b"sync 2")
    outbox.put(6, b"present 9", replaces="window")
    outbox.put(5, b"other", replaces="other")
    outbox.put(5, b"present 3", replaces="window")
    assert [data for lane, data in payloads(drain(outbox)) if lane == 5] == [
        b"draw 1",
        b"sync 1",
        b"draw 2",
        b"sync 2",
        b"other",
        b"present 3",
    ]
    assert outbox.statistics().replaced == 2


@pytest.mark.rule("M7")
def test_a_present_without_synchronisation_is_removed_and_gives_its_room_back() -> None:
    outbox = Outbox()
    big = bytes(LANE_WINDOW)
    outbox.put(5, big, replaces="window")
    assert outbox.put(5, b"x" * LANE_WINDOW, replaces="window"), "the room of the replaced one counts"
    assert outbox.statistics().queued == LANE_WINDOW
    assert outbox.put(5, b"new", replaces="window")
    assert payloads(drain(outbox)) == [(5, b"new")]
    assert outbox.room(5) == LANE_WINDOW - 3


def test_a_put_without_room_replaces_nothing() -> None:
    outbox = Outbox()
    outbox.put(5, bytes(LANE_WINDOW - 10))
    assert outbox.put(5, b"present", replaces="window", stale=b"s")
    assert not outbox.put(5, b"a longer one", replaces="window")
    assert payloads(drain(outbox))[-1] == (5, b"present")
    assert outbox.statistics().replaced == 0


def test_a_message_that_has_begun_is_not_replaced() -> None:
    outbox = wide()
    outbox.put(5, b"p" * (CHUNK + 1), replaces="window")
    outbox.next(0.0)
    outbox.put(5, b"new", replaces="window")
    outbox.acknowledged(Acknowledgement(1, 0.0, {}), 0.0)
    assert payloads(drain(outbox)) == [(5, b"p"), (5, b"new")]
    assert outbox.statistics().replaced == 0


@pytest.mark.rule("M17")
def test_unacknowledged_packets_are_sent_again_in_order_before_new_ones() -> None:
    outbox = wide()
    for number in range(4):
        outbox.put(5, b"%d" % number)
    held(outbox)
    outbox.acknowledged(Acknowledgement(1, 0.0, {}), 0.0)
    outbox.put(0, b"control")
    outbox.resumed(2)
    assert [packet.number for packet in drain(outbox)] == [2, 3, 4]
    assert outbox.statistics().resent == 2
    assert outbox.is_settled


@pytest.mark.parametrize("received", [0, 5])
def test_a_resume_before_what_was_acknowledged_or_after_what_was_sent_is_refused(received: int) -> None:
    outbox = wide()
    for number in range(4):
        outbox.put(5, b"%d" % number)
    held(outbox)
    outbox.acknowledged(Acknowledgement(1, 0.0, {}), 0.0)
    with pytest.raises(LinkError, match=f"at packet {received}; packets 1 to 4"):
        outbox.resumed(received)


@pytest.mark.rule("M13")
@pytest.mark.parametrize("ack", [(2, {}), (1, {5: 2}), (1, {6: 0}), (1 << 64, {})])
def test_an_acknowledgement_of_what_was_not_sent_is_an_error(ack: Any) -> None:
    outbox = Outbox()
    outbox.put(5, b"x")
    outbox.next(0.0)
    with pytest.raises(LinkError, match=r"acknowledged|consumed"):
        outbox.acknowledged(Acknowledgement(ack[0], 0.0, ack[1]), 0.0)


@pytest.mark.rule("M13")
def test_consumed_bytes_are_not_taken_back() -> None:
    outbox = Outbox()
    outbox.put(5, b"xyz")
    outbox.next(0.0)
    outbox.acknowledged(Acknowledgement(1, 0.0, {5: 2}), 0.0)
    with pytest.raises(LinkError, match="of which 2 were consumed"):
        outbox.acknowledged(Acknowledgement(1, 0.0, {5: 1}), 0.0)


def test_a_packet_that_is_to_be_sent_again_cannot_be_acknowledged_before() -> None:
    outbox = Outbox()
    outbox.put(5, b"x")
    outbox.next(0.0)
    outbox.resumed(0)
    with pytest.raises(LinkError, match="sent were those before 0"):
        outbox.acknowledged(Acknowledgement(1, 0.0, {}), 0.0)


def test_a_lane_ends_after_its_messages_and_is_free_once_the_end_is_acknowledged() -> None:
    outbox = wide()
    outbox.put(5, b"last")
    outbox.end(5)
    outbox.end(5)
    outbox.end(77)
    with pytest.raises(InvalidCallError, match="lane 5 has ended"):
        outbox.put(5, b"more")
    assert outbox.room(5) == 0
    last, end = held(outbox)
    assert (last.ends_lane, end.ends_lane, end.lane) == (False, True, 5)
    assert outbox.statistics().lanes == 1
    outbox.acknowledged(Acknowledgement(2, 0.0, {}), 0.0)
    assert outbox.statistics().lanes == 0
    assert outbox.put(5, b"a new lane")


def test_lanes_and_sizes_are_bounded() -> None:
    outbox = Outbox()
    for lane in range(MAX_LANES):
        outbox.put(lane, b"x")
    with pytest.raises(InvalidCallError, match="1024 lanes are open"):
        outbox.put(MAX_LANES, b"x")
    for lane, message in ((-1, b"x"), (1 << 32, b"x"), (1, b""), (1, bytes(MAX_MESSAGE + 1))):
        with pytest.raises(ValueError, match="allowed are"):
            outbox.put(lane, message)
    with pytest.raises(ValueError, match="no more bytes than its message, 1"):
        outbox.put(1, b"x", replaces="k", stale=b"xy")


def test_a_caller_may_ask_for_shorter_packets() -> None:
    outbox = wide()
    outbox.put(5, bytes(range(10)))
    sizes = []
    while packet := outbox.next(0.0, 4):
        sizes.append(len(packet.payload))
    assert sizes == [4, 4, 2]
    outbox.resumed(0)
    assert outbox.next(0.0, 3) is None, "a packet that is sent again keeps its size"


@pytest.mark.rule("M8")
def test_the_window_counts_compressed_bytes() -> None:
    outbox = Outbox()
    outbox.put(5, bytes(MAX_MESSAGE))
    while outbox.next(0.0):
        outbox.compressed(0.01)
    assert outbox.statistics().queued == 0, "a hundredth of 1 MiB fits the first window"


@pytest.mark.rule("M13")
def test_the_control_lane_is_not_ended() -> None:
    outbox = Outbox()
    assert outbox.put(0, b"x")
    with pytest.raises(ValueError, match="the lane is 0, control, which ends with the session"):
        outbox.end(0)
    assert outbox.put(0, b"y")
