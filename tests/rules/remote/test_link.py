"""Links between two ends of this process: order, breaks, successors, bounds. Rules M7, M12, M13, M17."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from contextlib import ExitStack

import pytest
from support.child_processes import in_child
from support.fd_counts import open_fds
from support.link_ends import TOKEN, WAIT, End, Manual, join, listen, put
from support.link_relay import Relay
from support.run_volumes import rounds, seeded, unhurried

from vkshare.errors import ClosedError, InvalidCallError, RemoteLostError
from vkshare.remote import Link, LinkEvents, LinkListener, LinkState
from vkshare.remote.link_messages import LANE_WINDOW, MAX_MESSAGE, Packet, encode
from vkshare.testing.link import LinkProxy

pytestmark = [pytest.mark.no_driver, unhurried]

UP, BROKEN, LOST, REPLACED = LinkState.UP, LinkState.BROKEN, LinkState.LOST, LinkState.REPLACED


class Pair:
    """Host and viewer, joined through a relay."""

    def __init__(self, stack: ExitStack, keepalive: float = 5.0, grace: float = WAIT) -> None:
        self.host_end, self.viewer_end = End(), End()
        self.listener: LinkListener = stack.enter_context(listen(self.host_end, keepalive=keepalive, grace=grace))
        self.relay = stack.enter_context(Relay(self.listener.address))
        self.host = self.listener.link
        self.viewer: Link = stack.enter_context(join(self.viewer_end, self.relay.address))
        self.host_end.until_state(UP)


@pytest.fixture
def pair(stack: ExitStack) -> Pair:
    return Pair(stack)


# ---- messages --------------------------------------------------------------------------------------------------------


def test_messages_travel_both_ways_whole_and_in_the_order_of_their_lane(pair: Pair) -> None:
    for number in range(50):
        for lane in (0, 1, 0xFFFFFFFF):
            put(pair.host, lane, b"host %d" % number)
            put(pair.viewer, lane, b"viewer %d" % number)
    put(pair.host, 1, os.urandom(MAX_MESSAGE))
    assert pair.host.flush(WAIT)
    assert pair.viewer.flush(WAIT)
    for lane in (0, 1, 0xFFFFFFFF):
        assert pair.viewer_end.of_lane(lane)[:50] == [b"host %d" % number for number in range(50)]
        assert pair.host_end.of_lane(lane) == [b"viewer %d" % number for number in range(50)]
    assert len(pair.viewer_end.of_lane(1)[50]) == MAX_MESSAGE


def test_messages_of_a_host_wait_for_its_first_viewer(stack: ExitStack) -> None:
    host, viewer = End(), End()
    listener = stack.enter_context(listen(host))
    assert listener.link.state is LinkState.CONNECTING
    assert listener.link.send(3, b"early")
    stack.enter_context(join(viewer, listener.address))
    viewer.until(lambda: viewer.messages == [(3, b"early")])


@pytest.mark.rule("M4")
def test_a_reader_that_does_not_consume_stops_its_lane_and_no_other(pair: Pair) -> None:
    pair.viewer_end.is_reading = False
    assert pair.host.send(1, bytes(LANE_WINDOW))
    assert not pair.host.send(1, b"x")
    assert pair.host.flush(WAIT)
    assert not pair.host.wait_room(1, 1, timeout=0)
    for number in range(100):
        assert pair.host.send(2, b"%d" % number)
    pair.viewer_end.until(lambda: len(pair.viewer_end.of_lane(2)) == 100)
    assert not pair.host.wait_room(1, 1, timeout=0)
    pair.viewer.consumed(1, LANE_WINDOW)
    assert pair.host.wait_room(1, LANE_WINDOW, WAIT)


def test_a_lane_ends_after_its_messages(pair: Pair) -> None:
    put(pair.host, 7, bytes(MAX_MESSAGE))
    pair.host.end(7)
    pair.viewer_end.until(lambda: pair.viewer_end.ended == [7])
    assert len(pair.viewer_end.of_lane(7)) == 1
    assert pair.host.flush(WAIT)
    assert pair.host.send(7, b"a new lane")


@pytest.mark.rule("M4")
def test_a_reader_that_is_behind_consumes_of_its_own_lane_and_of_no_later_one(pair: Pair) -> None:
    pair.viewer_end.is_reading = False
    for message in (bytes(LANE_WINDOW), b"of another"):
        assert pair.host.send(7, message)
        pair.host.end(7)
        assert pair.host.flush(WAIT)
    assert pair.host.send(7, b"of a third")
    pair.viewer_end.until(lambda: len(pair.viewer_end.messages) == 3)
    for lane, message in pair.viewer_end.messages:
        pair.viewer.consumed(lane, len(message))
    assert pair.host.wait_room(7, LANE_WINDOW, WAIT)


# ---- breaks ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M17")
def test_connections_that_break_at_any_byte_lose_and_double_nothing(pair: Pair) -> None:
    dice, breaks = seeded(), rounds(2000, 12, full=60)
    sent: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
    for number in range(breaks):
        pair.relay.cut_after(dice.randrange(1, 60_000))
        for _ in range(6):
            lane = dice.randrange(1, 4)
            message = b"%d " % number + dice.randbytes(dice.choice((10, 3000, 90_000)))
            put(pair.host, lane, message)
            put(pair.viewer, lane, message)
            sent[lane].append(message)
        assert pair.host.flush(WAIT)
        assert pair.viewer.flush(WAIT)
    for lane, messages in sent.items():
        assert pair.viewer_end.of_lane(lane) == messages
        assert pair.host_end.of_lane(lane) == messages
    for link in (pair.host, pair.viewer):
        assert link.statistics().resumes >= breaks // 2
        assert link.generation == 1
    assert REPLACED not in pair.viewer_end.states + pair.host_end.states


@pytest.mark.rule("M17")
def test_messages_of_a_broken_connection_wait_for_the_next_one(pair: Pair) -> None:
    pair.relay.is_refusing = True
    pair.relay.cut()
    pair.host_end.until_state(BROKEN)
    assert pair.host.state is BROKEN
    assert pair.host.send(1, b"meanwhile")
    assert not pair.viewer_end.messages
    pair.relay.is_refusing = False
    pair.viewer_end.until(lambda: pair.viewer_end.messages == [(1, b"meanwhile")])
    assert pair.host_end.states == [UP, BROKEN, UP]
    assert pair.viewer_end.reasons[-1] == "the session goes on"


@pytest.mark.rule("M6")
def test_a_silent_peer_is_broken_after_two_keep_alives_and_lost_after_the_grace(stack: ExitStack) -> None:
    pair = Pair(stack, keepalive=0.05, grace=0.2)
    pair.relay.is_stalled = True
    for end in (pair.host_end, pair.viewer_end):
        end.until_state(BROKEN)
        end.until_state(LOST)
        assert "silent" in end.reasons[end.states.index(BROKEN)]
        assert "did not come back within 0.2 s" in end.reasons[-1]
    with pytest.raises(RemoteLostError, match="the session is over"):
        pair.viewer.send(1, b"x")
    with pytest.raises(RemoteLostError, match="the session is over"):
        pair.host.wait_room(1, 1)


@pytest.mark.rule("M6")
def test_an_idle_link_stays_up_by_its_keep_alives(stack: ExitStack) -> None:
    pair = Pair(stack, keepalive=1.0)
    before = pair.host.statistics().bytes_received
    while pair.host.statistics().bytes_received < before + 40:  # two or three of them
        assert pair.host.state is UP
        time.sleep(0.05)
    assert pair.host_end.states == [UP]
    assert pair.host.statistics().round_trip < WAIT


@pytest.mark.rule("M17")
def test_without_grace_a_broken_connection_is_lost_at_once(stack: ExitStack) -> None:
    pair = Pair(stack, grace=0)
    pair.relay.cut()
    for end in (pair.host_end, pair.viewer_end):
        end.until_state(LOST)
        assert end.states == [UP, LOST]
    stack.enter_context(join(End(), pair.listener.address))
    pair.host_end.until(lambda: pair.host_end.states == [UP, LOST, REPLACED, UP])
    assert pair.host.generation == 2


# ---- successors ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M12")
def test_a_new_viewer_begins_a_new_generation_and_gets_nothing_of_the_old_one(pair: Pair, stack: ExitStack) -> None:
    pair.relay.is_refusing = True
    pair.relay.cut()
    pair.host_end.until_state(BROKEN)
    pair.host.send(1, b"for the old viewer")
    successor = End()
    link = stack.enter_context(join(successor, pair.listener.address))
    pair.host_end.until(lambda: pair.host_end.states == [UP, BROKEN, REPLACED, UP])
    assert (pair.host.generation, link.generation) == (2, 2)
    put(pair.host, 1, b"for the new one")
    successor.until(lambda: successor.messages == [(1, b"for the new one")])
    with pytest.raises(RemoteLostError, match="session 1 is over"):
        pair.host.send(1, b"late", generation=1)
    pair.host.consumed(1, 5, generation=1)
    pair.relay.is_refusing = False
    pair.viewer_end.until_state(LOST)
    assert "another viewer" in pair.viewer_end.reasons[-1]
    assert link.state is UP


@pytest.mark.rule("M12")
def test_a_viewer_learns_that_the_host_was_restarted(pair: Pair, stack: ExitStack) -> None:
    again = End()
    other = stack.enter_context(listen(again))
    pair.viewer.send(5, b"for the old host")
    pair.relay.target = other.address
    pair.relay.cut()
    pair.viewer_end.until_state(UP, 2)
    assert pair.viewer_end.states == [UP, BROKEN, REPLACED, UP]
    put(other.link, 9, b"hello")
    pair.viewer_end.until(lambda: (9, b"hello") in pair.viewer_end.messages)
    assert not again.messages


@pytest.mark.rule("M12")
def test_packets_of_another_generation_are_dropped(stack: ExitStack) -> None:
    end = End()
    listener = stack.enter_context(listen(end))
    manual = Manual(listener.address)
    stale = encode(Packet(0, 1, 5, True, b"stale"), 99)
    good = encode(Packet(0, 1, 4, True, b"good"), 1)
    manual.sock.sendall(manual.stream.frame(stale + good))
    end.until(lambda: end.messages == [(1, b"good")])
    assert listener.statistics().stale == 1
    manual.close()


def test_a_second_viewer_is_refused_while_the_first_is_connected(pair: Pair) -> None:
    with pytest.raises(RemoteLostError, match="another viewer"):
        join(End(), pair.listener.address, timeout=0.2)
    assert pair.host_end.states == [UP]
    put(pair.host, 1, b"still here")
    pair.viewer_end.until(lambda: pair.viewer_end.messages == [(1, b"still here")])


def test_closing_one_end_ends_the_session_of_the_other_at_once(pair: Pair) -> None:
    pair.viewer.close()
    pair.viewer.close()
    pair.host_end.until_state(LOST)
    assert "closed the link" in pair.host_end.reasons[-1]
    with pytest.raises(ClosedError):
        pair.viewer.send(1, b"x")
    assert pair.viewer.is_closed
    assert "closed" in repr(pair.viewer)


# ---- stale presents --------------------------------------------------------------------------------------------------


@pytest.mark.rule("M7")
def test_presents_to_a_stalled_viewer_are_replaced_and_their_synchronisation_is_not(pair: Pair) -> None:
    pair.relay.is_stalled = True
    count = 400
    for number in range(count):
        picture = b"present %d" % number + bytes(20_000)
        assert pair.host.send(1, picture, replaces="window", stale=b"sync %d" % number, has_pixels=True)
        held = pair.host.statistics().outbox
        assert held.pictures <= 3
        assert held.queued + held.unacknowledged < 200_000
    pair.relay.is_stalled = False
    assert pair.host.flush(WAIT)
    arrived = [message.rstrip(b"\0") for message in pair.viewer_end.of_lane(1)]
    assert [int(message.split()[1]) for message in arrived] == list(range(count))
    assert arrived[-1] == b"present %d" % (count - 1)
    presents = sum(message.startswith(b"present") for message in arrived)
    assert presents <= 5
    assert pair.host.statistics().outbox.replaced == count - presents


@pytest.mark.rule("M8")
def test_control_overtakes_bulk_on_a_slow_link_whose_queue_is_long(stack: ExitStack) -> None:
    host, viewer = End(), End()
    listener = stack.enter_context(listen(host))
    proxy = stack.enter_context(LinkProxy(listener.address, delay=0.02, rate=1_000_000, queue=1 << 24))
    stack.enter_context(join(viewer, proxy.address))
    for number in range(3):
        for lane in (1, 2, 3):
            put(listener.link, lane, random.Random(lane).randbytes(MAX_MESSAGE // 4))
        put(listener.link, 0, b"now %d" % number)
    assert listener.link.flush(WAIT)
    lanes = [lane for lane, _ in viewer.messages]
    assert lanes[0] == 0, "it was sent last and came first"
    assert len(viewer.of_lane(0)) == 3
    assert len(lanes) == 12


@pytest.mark.rule("M6")
def test_a_close_is_told_from_a_break_while_messages_arrive(stack: ExitStack) -> None:
    """Bytes that the closing side has not read would reset the connection, and its last packet would be lost."""
    for _ in range(rounds(1000, 20)):
        host, viewer = End(), End()
        with listen(host) as listener, join(viewer, listener.address) as link:
            sender = threading.Thread(target=_send_until_lost, args=(listener.link,))
            sender.start()
            viewer.until(lambda: len(viewer.messages) > 20)  # noqa: B023
            link.close()
            host.until_state(LOST)
            sender.join()
            assert BROKEN not in host.states


def _send_until_lost(link: Link) -> None:
    data = random.Random(1).randbytes(1 << 15)
    with contextlib.suppress(RemoteLostError):
        while link.wait_room(1, len(data), WAIT):
            link.send(1, data)


# ---- hostile peers ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("M13")
def test_malformed_bytes_of_a_viewer_end_its_session_and_the_next_viewer_is_served(stack: ExitStack) -> None:
    dice, end = seeded(), End()
    listener = stack.enter_context(listen(end, grace=0))
    before = None
    for number in range(rounds(3000, 25, full=200)):
        manual = Manual(listener.address)
        good = manual.stream.frame(encode(Packet(0, 1, 5, True, b"hello"), manual.session.generation))
        bad = bytearray(good + dice.randbytes(dice.randrange(200)))
        bad[dice.randrange(len(good))] ^= dice.randrange(1, 256)
        manual.sock.sendall(bad)
        manual.sock.shutdown(1)  # a change that makes a length longer waits for bytes that never come
        manual.until_closed()
        manual.close()
        end.until_state(LOST, number + 1)
        if number == 3:
            before = open_fds()
    assert open_fds() == before
    viewer = End()
    stack.enter_context(join(viewer, listener.address))
    listener.link.send(1, b"served")
    viewer.until(lambda: viewer.messages == [(1, b"served")])


@pytest.mark.rule("M10")
def test_a_bomb_ends_the_session_with_a_reason(stack: ExitStack) -> None:
    import zstandard

    from vkshare.remote.link_messages import FRAME, MAX_ENCODED

    end = End()
    listener = stack.enter_context(listen(end, grace=0))
    manual = Manual(listener.address)
    given = zstandard.ZstdCompressionParameters.from_level(3, window_log=21)
    bomb = zstandard.ZstdCompressor(compression_params=given).compress(bytes(1 << 29))[:MAX_ENCODED]
    manual.sock.sendall(FRAME.pack(len(bomb), 100) + bomb)
    manual.until_closed()
    manual.close()
    end.until_state(LOST)
    assert "more bytes than it declares" in end.reasons[-1]


def test_a_function_that_raises_ends_the_session_and_the_listener_goes_on(stack: ExitStack) -> None:
    def fail(lane: int, message: bytes) -> None:
        raise RuntimeError("a bug of the program")

    host, viewer = End(), End()
    listener = stack.enter_context(LinkListener("127.0.0.1:0", TOKEN, events=LinkEvents(fail, on_state=host.on_state)))
    stack.enter_context(join(viewer, listener.address)).send(1, b"x")
    host.until_state(LOST)
    viewer.until_state(LOST)
    assert "RuntimeError: a bug of the program" in host.reasons[-1]
    assert "because of an error" in viewer.reasons[-1]
    with pytest.raises(RemoteLostError, match="the session is over"):
        listener.link.send(1, b"x")
    stack.enter_context(join(End(), listener.address))
    host.until_state(UP, 2)


# ---- the object ------------------------------------------------------------------------------------------------------


def test_impossible_requests_are_refused(pair: Pair) -> None:
    with pytest.raises(ValueError, match="takes 0 to 1048576"):
        pair.host.wait_room(1, MAX_MESSAGE + 1)
    with pytest.raises(ValueError, match="allowed are 1 to 1048576"):
        pair.host.send(1, b"")
    assert pair.viewer.send(2, b"four")
    pair.host_end.until(lambda: pair.host_end.messages)
    with pytest.raises(ValueError, match=r"keepalive is 0.0; allowed is 0.001"):
        listen(End(), keepalive=0)
    with pytest.raises(ValueError, match=r"grace is -1.0; allowed is 0"):
        listen(End(), grace=-1)


def test_a_forked_child_may_not_use_the_link(pair: Pair) -> None:
    def child() -> None:
        with pytest.raises(InvalidCallError, match=r"before os\.fork"):
            pair.host.send(1, b"x")

    in_child(child)
    put(pair.host, 1, b"the parent's")
    pair.viewer_end.until(lambda: pair.viewer_end.messages == [(1, b"the parent's")])


def test_nothing_is_left_open(stack: ExitStack) -> None:
    Pair(stack)
    stack.close()
    before = open_fds()
    for _ in range(3):
        Pair(stack)
        stack.close()
    assert open_fds() == before
