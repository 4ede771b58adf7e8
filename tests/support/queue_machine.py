"""A network of queues as it must behave, in plain Python, and a driver that does everything to both and compares."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import vkshare as vks
from support import access_patterns
from support.queue_ends import look, queue_at
from support.shared_handles import where
from vkshare.errors import AcquireTimeout, ClosedError, InvalidCallError, StillDrawingError

Outcome = type[BaseException] | None  # what an operation raises
Pair = tuple[int, bytes]

SURFACES = 4
SIZES = (0, 6, 40)  # metadata_size of the root and its two clones
QUEUES = len(SIZES)
PRODUCER, CONSUMER = "producer", "consumer"
WAITS = (True, False, "gpu")


@dataclass
class Queue:
    """One queue as the oracle knows it."""

    size: int
    committed: list[Pair] = field(default_factory=list)
    pending: list[Pair] = field(default_factory=list)
    ends: dict[str, int | None] = field(default_factory=lambda: {PRODUCER: None, CONSUMER: None})  # by which device
    opened: set[str] = field(default_factory=set)  # ever


class Oracle:
    """Where every surface is, and what each call must do (rules Q4 to Q24)."""

    def __init__(self) -> None:
        self.queues = [Queue(size) for size in SIZES]
        self.queues[0].committed = [(index, b"") for index in range(SURFACES)]
        self.held: dict[int, int] = {}  # surface -> the device that has dequeued it

    def open(self, queue: int, end: str, device: int) -> Outcome:
        it = self.queues[queue]
        if it.ends[end] is not None:
            return InvalidCallError
        it.ends[end] = device
        it.opened.add(end)
        return None

    def close(self, queue: int, end: str) -> None:
        it = self.queues[queue]
        it.ends[end] = None
        if end == PRODUCER:
            self.commit(queue, len(it.pending))

    def enqueue(self, queue: int, surface: int, metadata: bytes) -> Outcome:
        it = self.queues[queue]
        if self.held.get(surface) != it.ends[PRODUCER]:
            return InvalidCallError
        if len(metadata) > it.size:
            return ValueError
        if CONSUMER not in it.opened:
            return InvalidCallError
        if it.ends[CONSUMER] is None:
            return ClosedError
        del self.held[surface]
        it.pending.append((surface, metadata))
        return None

    def flush(self, queue: int) -> Outcome:
        return None if CONSUMER in self.queues[queue].opened else InvalidCallError

    def commit(self, queue: int, count: int) -> None:
        it = self.queues[queue]
        it.committed += it.pending[:count]
        del it.pending[:count]

    def dequeue(self, queue: int) -> tuple[Outcome, Pair | None]:
        """With timeout 0."""
        it = self.queues[queue]
        if PRODUCER not in it.opened:
            return InvalidCallError, None
        if not it.committed:
            return (AcquireTimeout if it.ends[PRODUCER] is not None else ClosedError), None
        pair = it.committed.pop(0)
        device = it.ends[CONSUMER]
        assert device is not None
        self.held[pair[0]] = device
        return None, pair


class Machine:
    """Three queues over four surfaces on some devices, beside their oracle. `devices[0]` is in this process."""

    def __init__(self, devices: Sequence[Any]) -> None:
        self._devices = devices
        self.steps = 0
        self.oracle = Oracle()
        self._drawn: dict[int, int] = {}  # surface -> the colour that it has
        self._number = 0
        root = vks.SurfaceQueue(devices[0], 4, 4, count=SURFACES, metadata_size=SIZES[0])
        self._queues = [root, *(root.clone(size) for size in SIZES[1:])]
        self._theirs = {
            (number, place): queue_at(device, queue)
            for number, queue in enumerate(self._queues)
            for place, device in enumerate(devices)
        }
        self._ends: dict[tuple[int, str], Any] = {}

    # ---- one step

    def step(self, dice: random.Random) -> None:
        """Something that makes sense most of the time."""
        self.steps += 1
        chance = dice.random()
        queue = dice.randrange(QUEUES)
        if chance < 0.06:
            self.open(queue, dice.choice((PRODUCER, CONSUMER)), dice.randrange(len(self._devices)))
        elif chance < 0.08:
            self.close(queue, dice.choice((PRODUCER, CONSUMER)))
        elif chance < 0.5:
            self.dequeue(queue)
        elif chance < 0.56:
            self.flush(queue, dice.random() < 0.5)
        else:
            held = list(self.oracle.held)
            surface = dice.choice(held) if held and dice.random() < 0.9 else dice.randrange(SURFACES)
            size = SIZES[queue] + (dice.random() < 0.05) - (dice.random() < 0.3) * dice.randrange(SIZES[queue] + 1)
            self.enqueue(queue, surface, dice.randbytes(size), dice.choice(WAITS))

    def open(self, queue: int, end: str, device: int) -> None:
        expected = self.oracle.open(queue, end, device)
        theirs = self._theirs[queue, device]
        call = theirs.open_producer if end == PRODUCER else theirs.open_consumer
        opened = self._expect(expected, call, self._devices[device])
        if expected is None:
            self._ends[queue, end] = opened

    def close(self, queue: int, end: str) -> None:
        opened = self._ends.pop((queue, end), None)
        if opened is not None:
            opened.close()
            self.oracle.close(queue, end)

    def enqueue(self, queue: int, surface: int, metadata: bytes, wait: Any) -> None:
        producer = self._ends.get((queue, PRODUCER))
        if producer is None:
            return
        handle = producer.surfaces[surface]
        device = self.oracle.queues[queue].ends[PRODUCER]
        if self.oracle.held.get(surface) == device:
            self._number += 1
            self._drawn[surface] = self._number
            where(handle)(access_patterns.clear_and_forget, handle, self._number)
        expected = self.oracle.enqueue(queue, surface, metadata)
        reported = self._expect(expected, producer.enqueue, handle, metadata, wait)
        if expected is None:
            assert reported in (True, False)
            self._see_commits(queue, all_of_them=wait is not False)
            assert reported == (not self.oracle.queues[queue].pending)

    def flush(self, queue: int, wait: bool) -> None:
        producer = self._ends.get((queue, PRODUCER))
        if producer is None:
            return
        expected = self.oracle.flush(queue)
        pending = len(self.oracle.queues[queue].pending)
        try:
            left = self._expect(expected, producer.flush, wait)
        except StillDrawingError:
            assert not wait
            assert pending
            left = pending
        if expected is None:
            self._see_commits(queue, all_of_them=wait)
            assert left == len(self.oracle.queues[queue].pending)

    def dequeue(self, queue: int) -> None:
        consumer = self._ends.get((queue, CONSUMER))
        if consumer is None:
            return
        expected, pair = self.oracle.dequeue(queue)
        reported = self._expect(expected, consumer.dequeue, 0)
        if pair is not None:
            surface, metadata = reported
            assert metadata == pair[1]
            assert _same(surface, consumer.surfaces[pair[0]])
            if self.steps % 3 == 0:
                assert where(surface)(look, surface, self._drawn.get(pair[0], 0)) or pair[0] not in self._drawn

    def _see_commits(self, queue: int, *, all_of_them: bool) -> None:
        """How many the GPU had finished with is its own affair, but the first ones they are."""
        it, reported = self.oracle.queues[queue], self._queues[queue].statistics()
        left = reported.enqueued - reported.committed
        assert 0 <= left <= len(it.pending)
        assert not (all_of_them and left)
        self.oracle.commit(queue, len(it.pending) - left)

    def _expect(self, expected: Outcome, call: Any, *args: Any) -> Any:
        if expected is None:
            return call(*args)
        try:
            call(*args)
        except expected:
            return None
        raise AssertionError(f"{call} {args} raised no {expected.__name__}")

    # ---- all of it

    def check(self) -> None:
        for number, (queue, it) in enumerate(zip(self._queues, self.oracle.queues, strict=True)):
            reported = queue.statistics()
            assert reported.committed - reported.dequeued == len(it.committed), number
            assert reported.enqueued - reported.committed == len(it.pending), number
            assert (reported.producer_pid != 0, reported.consumer_pid != 0) == (
                it.ends[PRODUCER] is not None,
                it.ends[CONSUMER] is not None,
            )
        for (queue_number, end), opened in self._ends.items():
            device = self.oracle.queues[queue_number].ends[end]
            owned = {index for index, surface in enumerate(opened.surfaces) if surface.is_owned}
            assert owned == {surface for surface, holder in self.oracle.held.items() if holder == device}

    def end(self) -> None:
        for queue in self._theirs.values():
            queue.close()
        for queue in self._queues:
            queue.close()


def _same(one: Any, other: Any) -> bool:
    """Whether both are the same handle."""
    return one is other or getattr(one, "_number", 0) == getattr(other, "_number", 1)
