"""The model of a network link: order kept, nothing lost or twice, and the bounds of rate, queue and window held."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from support.run_volumes import rounds

from vkshare.testing.link import Flow, LinkModel, LinkSettings

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("E22")]

TINY = 1e-6  # seconds and bytes, for the rounding of floats


def numbered(first: int, count: int) -> bytes:
    """Bytes that show their place in a stream."""
    return bytes((place * 7 + place // 251) % 256 for place in range(first, first + count))


def deliveries(model: LinkModel, flow: Flow, now: float = 0.0, until: float = math.inf) -> list[tuple[float, bytes]]:
    """Let time pass until nothing more arrives, or for a time; return what came when."""
    found = []
    while now < until:
        if data := flow.take(1 << 30, now):
            found.append((now, data))
        now = max(now + 1e-9, model.next_delivery(now))
    return found


def pushed(model: LinkModel, data: bytes, now: float = 0.0) -> Flow:
    flow = model.flow()
    flow.push(data, now)
    return flow


# ---- whatever happens --------------------------------------------------------------------------------------------

ANY_LINK = st.builds(
    LinkSettings,
    delay=st.sampled_from([0.0, 0.01, 0.3]),
    jitter=st.sampled_from([0.0, 0.05]),
    rate=st.sampled_from([None, 1000.0, 1e6]),
    loss=st.sampled_from([0.0, 0.1, 0.9]),
    queue=st.sampled_from([None, 100, 3000]),
    window=st.sampled_from([100, 5000]),
    mtu=st.sampled_from([1, 30, 100]),
)


class AnyCalls(RuleBasedStateMachine):
    """Two flows of one model, in any order of calls."""

    @initialize(link=ANY_LINK, seed=st.integers(0, 5))
    def begin(self, link: LinkSettings, seed: int) -> None:
        self.now = 1.0
        self.model = LinkModel(link, seed)
        self.flows = self.model.flow(), self.model.flow()
        self.sent, self.got = [0, 0], [0, 0]
        self.largest = link.queue_bytes
        self.ends: list[str | None] = [None, None]

    @rule(which=st.integers(0, 1), size=st.integers(0, 400))
    def push(self, which: int, size: int) -> None:
        size = min(size, self.flows[which].room(self.now))
        self.flows[which].push(numbered(self.sent[which], size), self.now)
        self.sent[which] += size

    @rule(which=st.integers(0, 1), most=st.integers(0, 300))
    def take(self, which: int, most: int) -> None:
        data = self.flows[which].take(most, self.now)
        assert len(data) <= most
        assert data == numbered(self.got[which], len(data)), "another byte was due"
        self.got[which] += len(data)
        assert self.got[which] <= self.sent[which]
        if self.flows[which].ended and not self.flows[which].has_arrived:
            assert self.got[which] == self.sent[which], "the end has overtaken bytes"

    @rule(seconds=st.sampled_from([0.0001, 0.02, 1.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(seconds=st.sampled_from([0.0, 0.5, None]))
    def stall(self, seconds: float | None) -> None:
        self.model.stall(seconds, self.now)

    @rule()
    def resume(self) -> None:
        self.model.resume(self.now)

    @rule(link=ANY_LINK)
    def change(self, link: LinkSettings) -> None:
        self.model.set(link, self.now)
        self.largest = max(self.largest, link.queue_bytes)

    @rule(which=st.integers(0, 1))
    def end(self, which: int) -> None:
        self.flows[which].end("end", self.now)
        self.ends[which] = self.ends[which] or "end"

    @rule(which=st.integers(0, 1))
    def reset(self, which: int) -> None:
        self.flows[which].end("reset", self.now)
        self.ends[which] = "reset"

    @invariant()
    def counters_agree(self) -> None:
        if hasattr(self, "model"):
            found = self.model.statistics(self.now)
            assert found.accepted == sum(self.sent)
            assert found.delivered == sum(self.got)
            assert found.pending == found.accepted - found.delivered
            assert 0 <= found.queued <= found.queued_most <= self.largest
            assert found.retransmissions <= found.lost

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.model.resume(self.now)
            for _ in range(100_000):
                for which in (0, 1):
                    self.take(which, 1 << 20)
                if (upcoming := self.model.next_delivery(self.now)) == math.inf:
                    break
                self.now = max(self.now, upcoming) + 1e-9
            assert self.got == self.sent, "bytes are lost"
            assert [flow.ended for flow in self.flows] == self.ends
            assert self.model.statistics(self.now).queued == 0


def test_whatever_is_called_every_byte_comes_once_in_order_and_the_bounds_hold() -> None:
    volume = settings(max_examples=rounds(5000, 150, full=1000), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(AnyCalls, settings=volume)


@settings(max_examples=rounds(5000, 40), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=12),
    rate=st.sampled_from([500.0, 10_000.0, 1e6]),
    mtu=st.sampled_from([20, 300, 1448]),
    delay=st.sampled_from([0.0, 0.2]),
)
def test_no_window_of_time_has_more_than_the_rate_and_one_packet(
    sizes: list[int], rate: float, mtu: int, delay: float
) -> None:
    model = LinkModel(LinkSettings(rate=rate, mtu=mtu, delay=delay, queue=1 << 20))
    flow, came = model.flow(), []
    for place, size in enumerate(sizes):
        flow.push(bytes(size), place * 0.01)
        came += deliveries(model, flow, place * 0.01, (place + 1) * 0.01)
    came += deliveries(model, flow, len(sizes) * 0.01)
    assert sum(len(data) for _, data in came) == sum(sizes)
    total, least = 0, math.inf  # of the bytes before a delivery, less those that the rate allows until then
    for when, data in came:
        least = min(least, total - rate * when)
        total += len(data)
        assert total - rate * when - least <= mtu + TINY * rate


@settings(max_examples=rounds(5000, 40), deadline=None)
@given(link=ANY_LINK, seed=st.integers(0, 1000))
def test_no_byte_is_faster_than_the_delay_and_the_rate(link: LinkSettings, seed: int) -> None:
    model = LinkModel(replace(link, queue=5000, window=5000), seed)
    total = 0
    for when, data in deliveries(model, pushed(model, bytes(1000))):
        total += len(data)
        assert when + TINY >= link.delay + (total / link.rate if link.rate else 0)
    assert total == 1000


# ---- one property each -------------------------------------------------------------------------------------------


def test_the_delay_is_exact() -> None:
    model = LinkModel(LinkSettings(delay=0.25))
    assert deliveries(model, pushed(model, b"abc", 1.0), 1.0) == [(1.25, b"abc")]


def test_the_rate_and_the_delay_add_up() -> None:
    model = LinkModel(LinkSettings(delay=1.0, rate=100, mtu=50))
    assert deliveries(model, pushed(model, bytes(100))) == [(1.5, bytes(50)), (2.0, bytes(50))]


def test_flows_share_the_rate() -> None:
    model = LinkModel(LinkSettings(rate=100, mtu=50))
    first, second = pushed(model, bytes(100)), pushed(model, bytes(50))
    assert (len(first.take(999, 1.0)), second.take(999, 1.4)) == (100, b"")
    assert len(second.take(999, 1.5)) == 50


def test_jitter_is_within_its_bounds_and_uses_all_of_them() -> None:
    model = LinkModel(LinkSettings(delay=0.1, jitter=0.2), seed=3)
    flow, late = model.flow(), []
    for second in range(200):
        flow.push(b"x", float(second))
        ((when, _),) = deliveries(model, flow, float(second))
        late.append(when - second)
    assert 0.1 <= min(late) < 0.11
    assert 0.29 < max(late) <= 0.3


def test_a_seed_repeats_everything_and_another_one_does_not() -> None:
    def trace(seed: int | str) -> list[tuple[float, bytes]]:
        model = LinkModel(LinkSettings(delay=0.1, jitter=0.1, loss=0.2, rate=1e5, mtu=100), seed)
        return deliveries(model, pushed(model, numbered(0, 5000)))

    assert trace(1) == trace(1)
    assert trace("1/up") == trace("1/up")
    assert trace(1) != trace(2)


def test_a_lost_packet_comes_a_round_trip_later_and_holds_up_those_behind_it() -> None:
    lossy = LinkSettings(delay=0.1, loss=0.1, rate=10_000, mtu=10)
    model = LinkModel(lossy, seed=4)
    flow = model.flow()
    flow.push(numbered(0, 300), 0.0)
    came = deliveries(model, flow)
    counters = model.statistics(9.0)
    assert b"".join(data for _, data in came) == numbered(0, 300)
    assert counters.lost == counters.retransmissions > 0
    assert counters.packets == 30 + counters.lost
    (when, burst) = max(came, key=lambda each: len(each[1]))
    assert len(burst) > 10, "packets behind a lost one wait, and come with it"
    lost_at = (sum(len(data) for earlier, data in came if earlier < when) + 10) / 10_000  # when it passed first
    assert when >= lost_at + 0.2 + 0.1, "the round trip, and the travel of the second copy"


def test_a_packet_that_is_lost_twice_waits_for_the_timeout_of_tcp() -> None:
    model = LinkModel(LinkSettings(loss=0.9), seed=1)
    ((when, _),) = deliveries(model, pushed(model, b"x"))
    losses = model.statistics(when).lost
    assert losses > 2
    assert when == pytest.approx(0.001 + sum(min(0.2 * 2**n, 120) for n in range(losses - 1)), abs=1e-5)


def test_the_fraction_of_lost_packets_is_that_asked_for() -> None:
    model = LinkModel(LinkSettings(loss=0.05, mtu=10, queue=1 << 20), seed=9)
    deliveries(model, pushed(model, bytes(200_000)))
    counters = model.statistics(1e6)
    assert 0.04 < counters.lost / counters.packets < 0.06


def test_the_queue_and_the_window_push_the_sender_back() -> None:
    model = LinkModel(LinkSettings(rate=100, queue=100, window=150, mtu=50))
    flow = pushed(model, bytes(100))
    assert flow.room(0.0) == 0
    with pytest.raises(ValueError, match=r"data has 1 bytes; the link has room for 0 now: push no more than room\(\)"):
        flow.push(b"x", 0.0)
    assert model.next_room(0.0) == 0.5
    assert flow.room(0.5) == 50, "a packet has left the queue"
    assert flow.room(9.0) == 50, "nothing was taken, so the window is nearly full"
    assert model.next_room(9.0) == math.inf
    flow.take(60, 9.0)
    assert flow.room(9.0) == 100
    assert model.flow().room(9.0) == 100, "the window is that of one flow"


def test_small_packets_are_bounded_by_their_number() -> None:
    model = LinkModel(LinkSettings(delay=10, window=2560, queue=2560))
    flow, count = model.flow(), 0
    while flow.room(0.0):
        flow.push(b"x", 0.0)
        count += 1
    assert count == 2560 // 256 + 1
    assert len(flow.take(999, 10.0)) == count
    assert flow.room(10.0)


def test_a_queue_without_a_size_holds_a_tenth_of_a_second() -> None:
    assert LinkSettings(rate=10e6).queue_bytes == 1_000_000
    assert LinkSettings(rate=1000).queue_bytes == LinkSettings().queue_bytes == 65536


# ---- stalls and changes ------------------------------------------------------------------------------------------


def test_a_stall_moves_everything_by_its_duration() -> None:
    link = LinkSettings(delay=0.5, jitter=0.1, rate=100, mtu=10, loss=0.2)
    plain, stalled = LinkModel(link, 7), LinkModel(link, 7)
    flow, delayed = pushed(plain, numbered(0, 200)), pushed(stalled, numbered(0, 200))
    stalled.stall(60, 0.0)
    expected = [when + 60 for when, data in deliveries(plain, flow) for _ in data]
    came = [when for when, data in deliveries(stalled, delayed) for _ in data]
    assert len(came) == 200
    assert came == pytest.approx(expected, abs=1e-6)


def test_nothing_arrives_in_a_stall_until_somebody_resumes() -> None:
    model = LinkModel(LinkSettings(delay=1.0))
    flow = pushed(model, b"early")
    model.stall(None, 0.5)
    flow.push(b"late", 100.0)
    assert model.next_delivery(100.0) == math.inf
    assert model.is_stalled(1e6)
    assert flow.take(99, 1e6) == b""
    model.resume(1e6)
    assert not model.is_stalled(1e6)
    assert flow.take(99, 1e6 + 0.49) == b""
    assert flow.take(5, 1e6 + 0.51) == b"early"
    assert flow.take(99, 1e6 + 1.01) == b"late"


def test_a_second_stall_replaces_the_end_of_the_first() -> None:
    model = LinkModel()
    model.stall(None, 0.0)
    model.stall(5, 1.0)
    flow = pushed(model, b"x", 2.0)
    assert model.next_delivery(2.0) == 6.0
    assert flow.take(9, 6.0) == b"x"


def test_a_new_rate_holds_for_the_packet_that_is_on_its_way_through() -> None:
    model = LinkModel(LinkSettings(rate=10, mtu=100))
    flow = pushed(model, bytes(100))
    model.set(LinkSettings(rate=100, mtu=100), 5.0)  # half of it has passed
    assert deliveries(model, flow, 5.0) == [(5.5, bytes(100))]


def test_a_shorter_delay_lets_nothing_overtake() -> None:
    model = LinkModel(LinkSettings(delay=1.0))
    flow = pushed(model, b"slow")
    model.set(LinkSettings(), 0.1)
    flow.push(b"fast", 0.1)
    assert deliveries(model, flow, 0.1) == [(1.0, b"slowfast")]


# ---- ends and drops ----------------------------------------------------------------------------------------------


def test_an_end_travels_behind_the_bytes_and_a_reset_may_follow_it() -> None:
    model = LinkModel(LinkSettings(delay=1.0))
    flow = pushed(model, b"x")
    flow.end("end", 0.0)
    assert flow.room(0.0) == 0
    assert (flow.take(9, 0.9), flow.ended) == (b"", None)
    assert (flow.take(9, 1.0), flow.ended) == (b"x", "end")
    flow.end("reset", 2.0)
    flow.end("end", 2.0)
    flow.take(9, 3.0)
    assert flow.ended == "reset"
    assert model.next_delivery(3.0) == math.inf


def test_a_dropped_flow_frees_the_queue_for_others() -> None:
    model = LinkModel(LinkSettings(rate=100, queue=100, mtu=10, delay=0.5))
    flow, other = pushed(model, bytes(100)), model.flow()
    assert other.room(0.35) == 30
    flow.drop(0.35)
    flow.drop(0.35)
    assert other.room(0.35) == 90, "one packet passes the bottleneck"
    other.push(b"x" * 50, 0.35)
    assert b"".join(data for _, data in deliveries(model, other, 0.35)) == b"x" * 50
    assert (flow.take(999, 99.0), flow.room(99.0)) == (b"", 0)
    counters = model.statistics(99.0)
    assert (counters.pending, counters.queued) == (0, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delay": -1}, "delay is -1.0; allowed is 0 to 3600"),
        ({"jitter": math.nan}, "jitter is nan; allowed is 0 to 3600"),
        ({"rate": 0}, "rate is 0.0; allowed is 1 to"),
        ({"loss": 1}, "loss is 1.0; allowed is 0 to 0.9"),
        ({"mtu": 0}, "mtu is 0; allowed is 1 to 65536"),
        ({"queue": 100}, "queue is 100; allowed is 1448 to"),
        ({"window": 100}, "window is 100; allowed is 1448 to"),
    ],
)
def test_a_property_out_of_its_range_is_refused_with_the_range(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinkSettings(**wrong)  # type: ignore[arg-type]
