"""The keyed mutex as it must behave, in plain Python, and a driver that does everything to both and compares."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import vkshare as vks
from support import access_patterns
from vkshare.errors import (
    AbandonedError,
    AcquireTimeout,
    ClosedError,
    DescriptorError,
    InvalidCallError,
    NotOwnerError,
)

Outcome = type[BaseException] | None  # what an operation raises

KEYS = (0, 1, 2, 1 << 32, 2**64 - 1)
SEATS = 5


@dataclass
class Seat:
    """One handle as the oracle knows it."""

    generation: int
    is_closed: bool = False


class Oracle:
    """The state of one surface, and what each call on a handle (by its seat's number) must do. Rules K1 to K31."""

    def __init__(self, seats: int) -> None:
        self.key = 0
        self.owner: int | None = None
        self.is_abandoned = False
        self.generation = 1
        self.handovers = 0
        self.content: tuple[str, int] | None = ("clear", -1)  # what was drawn last; -1: nothing yet; None: any frame
        self.seats = [Seat(1, is_closed=True) for _ in range(seats)]

    def open(self, seat: int) -> Outcome:
        if all(other.is_closed for other in self.seats):
            return DescriptorError
        self.seats[seat] = Seat(self.generation)
        return None

    def acquire(self, seat: int, key: int) -> Outcome:
        """With timeout=0."""
        me = self.seats[seat]
        if me.is_closed:
            return ClosedError
        if self.owner == seat:
            return InvalidCallError
        if self.is_abandoned:
            return AbandonedError
        if me.generation != self.generation:  # told once
            me.generation = self.generation
            return AbandonedError
        if self.owner is not None or self.key != key:
            return AcquireTimeout
        self.owner = seat
        return None

    def release(self, seat: int, key: int) -> Outcome:
        if self.seats[seat].is_closed:
            return ClosedError
        if self.owner != seat:
            return NotOwnerError
        self.owner, self.key = None, key
        self.handovers += 1
        return None

    def close(self, seat: int) -> Outcome:
        self.seats[seat].is_closed = True
        if self.owner == seat:
            self.owner, self.is_abandoned = None, True
            self.content = None  # work that was held is cancelled
        return None

    def recover(self, seat: int) -> Outcome:
        if self.seats[seat].is_closed:
            return ClosedError
        if not self.is_abandoned:
            return InvalidCallError
        self.is_abandoned, self.owner = False, seat
        self.generation += 1
        self.handovers += 1  # the dead owner's promise counts as kept
        self.seats[seat].generation = self.generation
        return None

    def draw(self, seat: int, content: tuple[str, int]) -> Outcome:
        if (refused := self.look(seat)) is not None:
            return refused
        self.content = content
        return None

    def look(self, seat: int) -> Outcome:
        """What reading raises."""
        if self.seats[seat].is_closed:
            return ClosedError
        return None if self.owner == seat else NotOwnerError


class Machine:
    """A surface with SEATS handles, one after the other on each device, beside its oracle.

    `devices[0]` is in this process; others may be Remotes.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self._devices = devices
        self._handles: list[Any] = []
        self._drawn = 0
        self.steps = 0
        self._begin()

    def _begin(self) -> None:
        self.oracle = Oracle(SEATS)
        first = self._devices[0].create_surface(16, 16)
        self._descriptor = first.export()
        self._handles = [first]
        self.oracle.seats[0] = Seat(1)
        for seat in range(1, SEATS):
            self._handles.append(self._devices[seat % len(self._devices)].open_surface(self._descriptor))
            self.oracle.seats[seat] = Seat(1)

    def end(self) -> None:
        for handle in self._handles:
            handle.close()
        self._descriptor.close()

    # ---- operations; each raises AssertionError where the handle does otherwise than the oracle

    def acquire(self, seat: int, key: int) -> None:
        self._compare(self.oracle.acquire(seat, key), self._handles[seat].acquire, key, 0)

    def release(self, seat: int, key: int) -> None:
        self._compare(self.oracle.release(seat, key), self._handles[seat].release, key)

    def recover(self, seat: int) -> None:
        self._compare(self.oracle.recover(seat), self._handles[seat].recover)

    def close(self, seat: int) -> None:
        self._compare(self.oracle.close(seat), self._handles[seat].close)

    def open(self, seat: int) -> None:
        """A new handle in a seat whose handle was closed. With none left the surface is gone: another begins."""
        if not self.oracle.seats[seat].is_closed:
            return
        expected = self.oracle.open(seat)
        device = self._devices[seat % len(self._devices)]
        handle = self._compare(expected, device.open_surface, self._descriptor)
        if expected is None:
            self._handles[seat] = handle
        else:
            self._descriptor.close()
            self._begin()

    def write(self, seat: int) -> None:
        self._draw(seat, "picture", access_patterns.draw)

    def clear(self, seat: int) -> None:
        self._draw(seat, "clear", access_patterns.clear_and_forget)

    def read(self, seat: int) -> None:
        pixels = self._compare(self.oracle.look(seat), self._handles[seat].read)
        if pixels is None:
            return
        if self.oracle.content is None:
            assert access_patterns.is_whole_frame(pixels), "a torn frame"
            return
        kind, number = self.oracle.content
        if number < 0:
            assert not pixels.any(), "a new surface does not hold zeros"
        elif kind == "clear":
            assert access_patterns.is_clear(pixels, number), f"not cleared with number {number}"
        else:
            assert (pixels == access_patterns.picture(pixels.shape, number)).all(), f"not picture {number}"

    def check(self) -> None:
        """That everything which can be seen is as the oracle has it."""
        oracle = self.oracle
        for index in range(len(self._devices)):
            seats = range(index, SEATS, len(self._devices))
            self._check_seats([seat for seat in seats if not oracle.seats[seat].is_closed])
        local = next((h for h in self._handles if isinstance(h, vks.Surface) and not h.is_closed), None)
        if local is None:
            return
        page = local.mutex.statistics()
        state = "abandoned" if oracle.is_abandoned else "free" if oracle.owner is None else "owned"
        assert page.state == state
        assert page.generation == oracle.generation
        assert page.handles == sum(not reported.is_closed for reported in oracle.seats)
        # Each hand-over takes a value, and work that was not handed on (K7) may have taken one besides.
        assert page.value >= oracle.handovers
        if state == "free":
            assert page.key == oracle.key

    def _check_seats(self, seats: list[int]) -> None:
        """Of one device, so that one question is enough."""
        if not seats:
            return
        handles = [self._handles[seat] for seat in seats]
        run = handles[0]._peer.run if hasattr(handles[0], "_peer") else None
        reported = run(access_patterns.states, handles) if run else access_patterns.states(handles)
        oracle = self.oracle
        assert reported == [(False, oracle.owner == seat, oracle.seats[seat].generation) for seat in seats]

    # ---- by chance

    def step(self, dice: random.Random) -> None:
        """One operation. Mostly such that the surface is handed round; sometimes anything on anybody."""
        self.steps += 1
        oracle, chance = self.oracle, dice.random()
        seat = dice.randrange(SEATS)
        if oracle.owner is not None and chance < 0.5:
            seat = oracle.owner
        if oracle.is_abandoned and chance < 0.3:
            self.recover(seat)
        elif chance < 0.004:
            self.close(seat)
        elif chance < 0.02:
            self.open(seat)
        elif chance < 0.03:
            self.recover(seat)
        elif chance < 0.06:
            dice.choice((self.write, self.clear, self.read))(seat)
        elif oracle.owner == seat and chance < 0.97:
            self.release(seat, dice.choice(KEYS))
        elif chance < 0.9:
            self.acquire(seat, oracle.key if dice.random() < 0.7 else dice.choice(KEYS))
        else:
            self.release(seat, dice.choice(KEYS))

    def _draw(self, seat: int, kind: str, role: Callable[..., Any]) -> None:
        self._drawn += 1
        handle = self._handles[seat]
        expected = self.oracle.draw(seat, (kind, self._drawn))
        if hasattr(handle, "_peer"):
            self._compare(expected, handle._peer.run, role, handle, self._drawn)
        else:
            self._compare(expected, role, handle, self._drawn)

    def _compare(self, expected: Outcome, call: Callable[..., Any], *args: Any) -> Any:
        try:
            result = call(*args)
        except vks.VkshareError as error:
            if expected is None or not isinstance(error, expected) or _is_more(error, expected):
                raise AssertionError(f"{call} {args} raised {error!r}; expected was {expected}") from error
            return None
        assert expected is None, f"{call} {args} succeeded; expected was {expected}"
        return result


def _is_more(error: BaseException, expected: type[BaseException]) -> bool:
    """NotOwnerError is an InvalidCallError, but where the owner acquires again it would be a lie."""
    return expected is InvalidCallError and isinstance(error, NotOwnerError)
