"""Fences, submissions and held work as they must behave, in plain Python, and a driver that compares."""

from __future__ import annotations

import contextlib
import os
import random
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import vkshare as vks
from support import access_patterns

FENCES = 6  # two a device
MOST_HELD = 12
MOST_WATCHED = 20
STRIDES = (1, 1, 1, 2, 3, 0, -1, 2**31, 2**62)  # of a signal above what is promised


@dataclass
class FenceState:
    """What the oracle knows of a fence."""

    device: int
    value: int = 0
    promised: int = 0  # with what held submissions will signal
    is_closed: bool = False


@dataclass(eq=False)
class Held:
    """A submission that waits."""

    device: int
    waits: list[tuple[int, int]]  # fence, value
    signals: list[tuple[int, int]]
    submission: Any = None


@dataclass
class Oracle:
    """Rules X1, X4, X24 and "held submissions" of the protocol. Everything that can run has run."""

    limits: list[int]  # of each device: how far a signal may be above the value
    fences: list[FenceState] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)

    def may_signal(self, fence: int, value: int) -> bool:
        state = self.fences[fence]
        return state.promised < value <= 2**64 - 2 and value - state.value <= self.limits[state.device]

    def submit(self, work: Held) -> None:
        for fence, value in work.signals:
            self.fences[fence].promised = value
        self.held.append(work)
        self._settle()

    def signal(self, fence: int, value: int) -> None:
        """By the host: behind what is promised already, so that the counter never falls."""
        self.submit(Held(self.fences[fence].device, [], [(fence, value)]))

    def reached(self, fence: int, value: int) -> bool:
        return self.fences[fence].value >= value

    def needs(self, fence: int) -> bool:
        """Whether held work waits for it or signals it."""
        return any(fence == used for work in self.held for used, _ in (*work.waits, *work.signals))

    def _settle(self) -> None:
        while (work := next((w for w in self.held if self._may_run(w)), None)) is not None:
            self.held.remove(work)
            for fence, value in work.signals:
                self.fences[fence].value = value

    def _may_run(self, work: Held) -> bool:
        """Its waits are met, and no earlier held work of its device signals one of its fences."""
        mine = {fence for fence, _ in work.signals}
        earlier = self.held[: self.held.index(work)]
        blocked = any(mine & {fence for fence, _ in other.signals} for other in earlier if other.device == work.device)
        return not blocked and all(self.reached(fence, value) for fence, value in work.waits)


class Machine:
    """FENCES fences on the devices, each followed on all the others, beside their oracle."""

    def __init__(self, devices: Sequence[Any]) -> None:
        self._devices = devices
        self.steps = 0
        self._begin()

    def _begin(self) -> None:
        self.oracle = Oracle([_limit(self._devices[0])] * len(self._devices))
        self._views: list[list[Any]] = []  # by fence, then by device
        self._watched: list[tuple[int, int, int]] = []  # fd, fence, value
        self._unseen: list[Held] = []  # submissions that were not seen to be done
        for fence in range(FENCES):
            self.oracle.fences.append(FenceState(fence % len(self._devices)))
            self._views.append(self._create(fence))

    def _create(self, fence: int) -> list[Any]:
        home = fence % len(self._devices)
        own = self._devices[home].create_fence()
        with own.export() as descriptor:
            return [own if i == home else d.open_fence(descriptor) for i, d in enumerate(self._devices)]

    def end(self) -> None:
        for fd, _, _ in self._watched:
            os.close(fd)
        for views in self._views:
            for view in views:
                view.close()
        for work in self.oracle.held:
            if work.submission is not None:  # it fails, or runs where only what failed was before it; but it ends
                with contextlib.suppress(vks.ClosedError, vks.AbandonedError):
                    work.submission.wait(10)

    def restart(self) -> None:
        """Held work may wait for each other for ever: closing what it waits for ends all of it."""
        self.end()
        self._begin()

    # ---- operations

    def signal(self, fence: int, stride: int) -> None:
        state = self.oracle.fences[fence]
        value = state.promised + stride
        own = self._views[fence][state.device]
        if not self.oracle.may_signal(fence, value):
            self._refused(lambda: own.signal(value), ValueError)
            return
        own.signal(value)
        self.oracle.signal(fence, value)

    def signal_by_a_follower(self, fence: int, device: int) -> None:
        if device != self.oracle.fences[fence].device:
            value = self.oracle.fences[fence].promised + 1
            self._refused(lambda: self._views[fence][device].signal(value), vks.InvalidCallError)

    def submit(self, device: int, waits: list[tuple[int, int]], signals: list[tuple[int, int]]) -> None:
        """`waits`: (fence, how far above its promise, negative for below); `signals`: (fence of the device, stride)."""
        oracle = self.oracle
        asked = [(fence, max(0, oracle.fences[fence].promised + above)) for fence, above in waits]
        reported = [(fence, oracle.fences[fence].promised + stride) for fence, stride in dict(signals).items()]
        arguments = {
            "waits": [(self._views[fence][device], value) for fence, value in asked],
            "signals": [(self._views[fence][device], value) for fence, value in reported],
        }
        if not all(oracle.may_signal(fence, value) for fence, value in reported) or any(
            fence in dict(reported) and value > oracle.fences[fence].promised for fence, value in asked
        ):  # X1, and a wait for what only this submission, or one after it, could signal
            self._refused(lambda: self._devices[device].submit(**arguments), ValueError)
            return
        submission = self._devices[device].submit(**arguments)
        work = Held(device, asked, reported, submission)
        self._unseen.append(work)
        oracle.submit(work)

    def watch(self, fence: int, device: int, above: int) -> None:
        """An event_fd, here, that must become readable exactly when the value is reached."""
        view = self._views[fence][device]
        if isinstance(view, vks.Fence) and len(self._watched) < MOST_WATCHED:
            value = max(1, self.oracle.fences[fence].value + above)
            self._watched.append((view.event_fd(value), fence, value))

    def replace(self, fence: int) -> None:
        """Closes a fence that no held work needs: its followers fail above its value; and makes another."""
        state = self.oracle.fences[fence]
        if self.oracle.needs(fence):
            return
        self.check()
        views = self._views[fence]
        views[state.device].close()
        for device, view in enumerate(views):
            if device != state.device:
                view.wait(state.value, 5)
                self._refused(lambda view=view: view.wait(state.value + 1, 5), vks.AbandonedError)  # type: ignore[misc]
                view.close()
        for fd, watched, _ in self._watched:
            if watched == fence:
                os.close(fd)
        self._watched = [entry for entry in self._watched if entry[1] != fence]
        self.oracle.fences[fence] = FenceState(state.device)
        self._views[fence] = self._create(fence)

    # ---- comparing

    def check(self) -> None:
        """That all values, promises, held work and event fds come to be, and stay, as the oracle has them."""
        for index, device in enumerate(self._devices):
            rows = [(views[index], state.value) for views, state in zip(self._views, self.oracle.fences, strict=True)]
            run = device._peer.run if hasattr(device, "_peer") else lambda function, *args: function(*args)
            reported = run(access_patterns.fence_values, rows)
            for (value, queued), state in zip(reported, self.oracle.fences, strict=True):
                assert value == state.value
                if state.device == index:
                    assert queued == state.promised
        for work in self.oracle.held:
            assert work.submission is None or work.submission.is_held
        for work in self._unseen:
            if work not in self.oracle.held:
                work.submission.wait(10)
        self._unseen = [work for work in self._unseen if work in self.oracle.held]
        for fd, fence, value in self._watched:
            reached = self.oracle.reached(fence, value)
            ready = bool(select.select([fd], [], [], 5 if reached else 0)[0])
            assert ready == reached
        self._forget_what_fired()

    def _forget_what_fired(self) -> None:
        for fd, fence, value in self._watched:
            if self.oracle.reached(fence, value):
                os.close(fd)
        self._watched = [(fd, f, v) for fd, f, v in self._watched if not self.oracle.reached(f, v)]

    def _refused(self, call: Callable[[], Any], error: type[BaseException]) -> None:
        try:
            call()
        except error:
            return
        raise AssertionError(f"was not refused with {error.__name__}")

    # ---- by chance

    def step(self, dice: random.Random) -> None:
        """One operation."""
        self.steps += 1
        if len(self.oracle.held) >= MOST_HELD:
            self.restart()
        devices = len(self._devices)
        fence, device, chance = dice.randrange(FENCES), dice.randrange(devices), dice.random()
        if chance < 0.4:
            self.signal(fence, dice.choice(STRIDES))
        elif chance < 0.85:
            waits = [(dice.randrange(FENCES), dice.choice((-2, 0, 0, 1, 2))) for _ in range(dice.randrange(3))]
            mine = [f for f in range(FENCES) if f % devices == device]
            signals = [(dice.choice(mine), dice.choice(STRIDES)) for _ in range(dice.randrange(3))]
            self.submit(device, waits, signals)
        elif chance < 0.95:
            self.watch(fence, device, dice.choice((-1, 0, 1, 2, 3)))
        elif chance < 0.98:
            self.signal_by_a_follower(fence, device)
        else:
            self.replace(fence)


def _limit(device: vks.Device) -> int:
    return device.capabilities.max_timeline_difference or 2**31 - 1
