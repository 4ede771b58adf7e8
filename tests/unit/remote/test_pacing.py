"""The window of a link, over a simulated path: it fills the path and no queue. Rule M8."""

from __future__ import annotations

import heapq

import pytest

from vkshare.remote.link_messages import CHUNK, MAX_MESSAGE, Acknowledgement
from vkshare.remote.outbox import Outbox
from vkshare.remote.pacing import Pacing

pytestmark = pytest.mark.no_driver


class Path:
    """A pipe of a rate and a delay with an endless queue; the receiver acknowledges and consumes at once."""

    def __init__(self, rate: float, delay: float) -> None:
        self.rate, self.delay = rate, delay
        self.now = self.busy_until = 0.0
        self.outbox = Outbox()
        self.delivered = 0
        self.consumed: dict[int, int] = {}
        self.queues: list[float] = []  # seconds that each packet waited for those before it
        self.controls: list[float] = []  # seconds from put() to the arrival
        self.events: list[tuple[float, int, int, int]] = []
        self.asked: dict[int, float] = {}

    def run(self, seconds: float, control_every: float = 0.25) -> None:
        end, control_at = self.now + seconds, self.now
        while self.now < end:
            while self.outbox.put(5, bytes(MAX_MESSAGE // 8)):
                pass
            if self.now >= control_at:
                control_at += control_every
                self.outbox.put(0, b"control")
            while packet := self.outbox.next(self.now):
                self.outbox.compressed(1)
                begin = max(self.now, self.busy_until)
                self.queues.append(begin - self.now)
                self.busy_until = begin + (len(packet.payload) + 50) / self.rate
                arrival = self.busy_until + self.delay
                if packet.lane == 0:
                    self.controls.append(arrival - self.now)
                heapq.heappush(self.events, (arrival + self.delay, packet.number, packet.lane, len(packet.payload)))
            self.now = min(control_at, self.events[0][0] if self.events else control_at)
            while self.events and self.events[0][0] <= self.now:
                _, number, lane, size = heapq.heappop(self.events)
                self.delivered += size
                self.consumed[lane] = self.consumed.get(lane, 0) + size
                self.outbox.acknowledged(Acknowledgement(number + 1, 0.0, dict(self.consumed)), self.now)


@pytest.mark.rule("M8")
@pytest.mark.parametrize(("rate", "delay"), [(125_000, 0.025), (125_000, 0.1), (2_500_000, 0.1), (1_000_000, 0.005)])
def test_the_path_is_filled_and_a_control_message_waits_for_a_round_trip_and_a_chunk(rate: float, delay: float) -> None:
    path = Path(rate, delay)
    path.run(5)
    path.controls.clear()
    path.delivered = 0
    path.run(60)
    assert path.delivered > 0.85 * 60 * min(rate, (1 << 20) / (2 * delay))
    bound = 2 * delay + CHUNK / rate + 0.035
    late = sum(each > bound for each in path.controls)
    assert late <= len(path.controls) // 100, sorted(path.controls)[-5:]


@pytest.mark.rule("M8")
def test_the_window_follows_a_path_that_becomes_longer_and_slower() -> None:
    path = Path(2_500_000, 0.01)
    path.run(10)
    path.rate, path.delay = 250_000, 0.15
    path.run(30)
    path.delivered = 0
    path.controls.clear()
    path.run(30)
    assert path.delivered > 0.8 * 30 * 250_000
    assert sorted(path.controls)[len(path.controls) * 9 // 10] < 0.3 + CHUNK / 250_000 + 0.05


def test_a_sender_that_was_idle_keeps_its_rate() -> None:
    pacing = Pacing(1 << 22)
    pacing.measured(0.1, 1_000_000, True, 0.0)
    before = pacing.window
    pacing.measured(0.1, 1_000, False, 1.0)
    assert pacing.window == before
    pacing.measured(0.1, 1_000, True, 2.0)
    assert pacing.window < before


def test_a_new_connection_forgets_the_old_path() -> None:
    pacing = Pacing(1 << 22)
    assert pacing.window == CHUNK
    pacing.measured(0.1, 1_000_000, True, 0.0)
    assert pacing.window > CHUNK
    pacing.reset()
    assert pacing.window == CHUNK
