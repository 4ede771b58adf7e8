"""A present history beside a presentation engine, in plain Python, that knows what may still be in use."""

from __future__ import annotations

from dataclasses import dataclass, field

from support.present_tracker import PresentTracker

IMAGES = 4
DEADLINE = 100  # ns after which a fence is quarantined

_LIMIT = 1000  # of what one end may need


@dataclass
class Present:
    """Of which swapchain, waiting for what the submission `after` signals."""

    swapchain: int
    after: int
    fence: int = 0
    is_shared: bool = False


@dataclass
class Semaphore:
    """In use until the engine is done with `present`, and `serial` has run."""

    present: int = 0
    serial: int = 0
    is_spoiled: bool = False


@dataclass
class Fence:
    present: int
    since: int
    is_signalled: bool = False


@dataclass
class Swapchain:
    images: int
    is_shared: bool
    newest: int = 0  # present
    last_use: int = 0  # submission
    unsignalled: set[int] = field(default_factory=set)  # fences
    newest_of: dict[int, int] = field(default_factory=dict)  # image -> present


class Machine:
    """A history and everything round it. Raises AssertionError where something comes out that is still in use.

    The engine takes presents in order, each when the submission that it waits for has run; it may take its time. A
    submission that waits for an acquire's semaphore runs after the engine is done with the image's last present.
    """

    def __init__(self, policy: str) -> None:
        self.by_fences = policy == "fences"
        self.history = PresentTracker(policy, DEADLINE)
        self.now = 0
        self.needs = [0]  # of each submission the present that the engine must be done with
        self.completed = 0
        self.presents = [Present(0, 0)]
        self.consumed = 0
        self.semaphores: dict[int, Semaphore] = {}  # that the history keeps
        self.fences: dict[int, Fence] = {}
        self.swapchains: dict[int, Swapchain] = {}
        self.current = 0
        self.drains = False  # end() waits for whatever the history says
        self._handles = 0
        self._carried = 0  # semaphores of presents that had no proof when their swapchain was retired, at most

    @property
    def submitted(self) -> int:
        return len(self.needs) - 1

    # ---- the device and the presentation engine

    def consume(self) -> bool:
        """The engine is done with one more present."""
        ready = self.consumed + 1 < len(self.presents)
        ready = ready and self.presents[self.consumed + 1].after <= self.completed
        self.consumed += ready
        return ready

    def complete(self) -> bool:
        """One more submission has run. A11 takes for granted that a shared present is over then."""
        if self.completed == self.submitted or self.needs[self.completed + 1] > self.consumed:
            return False
        self.completed += 1
        following = self.presents[self.consumed + 1 : self.consumed + 2]
        if following and following[0].is_shared and following[0].after == self.completed:
            self.consume()
        return True

    def run_dry(self) -> None:
        while self.consume() or self.complete():
            pass

    def signal(self, number: int) -> None:
        """Most of the fences whose presents are over. Some come late, and some never."""
        for fence, use in list(self.fences.items()):
            if use.present <= self.consumed and (fence + number) % 4 and fence % 32:
                self._signal(fence)

    def _signal(self, fence: int) -> None:
        use = self.fences[fence]
        use.is_signalled = True
        self.swapchains[self.presents[use.present].swapchain].unsignalled.discard(fence)

    # ---- the application

    def resize(self, images: int, is_shared: bool, fails: bool) -> None:
        last_use = self.swapchains[self.current].last_use if self.current else 0
        is_shared = is_shared and not self.by_fences
        images = 1 if is_shared else images
        self.current = 0 if fails else self._handle()
        if self.current:
            self.swapchains[self.current] = Swapchain(images, is_shared)
        self.history.swapchain(self.current, images, is_shared, last_use)

    def frame(self, image: int, semaphores: int = 1, told_late: bool = False) -> None:
        """Acquired, drawn and presented."""
        if not self.current:
            return
        swapchain = self.swapchains[self.current]
        if swapchain.is_shared:
            serial = self._submit(len(self.presents) - 1)
            if not told_late:
                self.history.waited(0, serial)
            self._present(0, serial, 0)
            if told_late:
                self.history.waited(0, serial)
        else:
            image %= swapchain.images
            self._present(image, self._acquire(image), semaphores)

    def drop(self, image: int) -> None:
        """Acquired, drawn, and not presented (A20)."""
        if self.current and not self.swapchains[self.current].is_shared:
            self._acquire(image % self.swapchains[self.current].images)

    def acquire_with_a_fence(self, image: int) -> None:
        """Which is signalled when the image's last present is over."""
        if not self.current or self.swapchains[self.current].is_shared:
            return
        image %= self.swapchains[self.current].images
        if self.swapchains[self.current].newest_of.get(image, 0) <= self.consumed:
            self.history.waited(image, 0)

    def run_out_of_memory(self, image: int) -> None:
        """The present fails, and nothing waits for its semaphore (A15)."""
        if self.current and not self.swapchains[self.current].is_shared:
            serial = self._acquire(image % self.swapchains[self.current].images)
            self._give(Semaphore(serial=serial, is_spoiled=True))

    def _acquire(self, image: int) -> int:
        serial = self._submit(self.swapchains[self.current].newest_of.get(image, 0))
        self.history.waited(image, serial)
        self._give(Semaphore(serial=serial))
        return serial

    def _give(self, use: Semaphore) -> None:
        handle = self._handle()
        self.semaphores[handle] = use
        self.history.semaphore(handle, use.serial, use.is_spoiled)

    def _submit(self, needs: int) -> int:
        self.needs.append(needs)
        self.swapchains[self.current].last_use = self.submitted
        return self.submitted

    def _present(self, image: int, after: int, semaphores: int) -> None:
        number, swapchain = len(self.presents), self.swapchains[self.current]
        handles = [self._handle() for _ in range(semaphores)]
        fence = self._handle() if self.by_fences else 0
        self.presents.append(Present(self.current, after, fence, swapchain.is_shared))
        self.semaphores.update((handle, Semaphore(present=number)) for handle in handles)
        if fence:
            self.fences[fence] = Fence(number, self.now)
            swapchain.unsignalled.add(fence)
        swapchain.newest = swapchain.newest_of[image] = number
        self.history.presented(image, handles, fence, self.now)

    def _handle(self) -> int:
        """Each a new one, so that one which comes out twice is noticed."""
        self._handles += 1
        return self._handles

    # ---- what comes out

    def collect(self) -> None:
        for kind, handle in self.history.collect(self.completed, self.now, self._is_signalled):
            self._out(kind, handle)
        self._check_the_pool()

    def _is_signalled(self, handle: int) -> bool:
        fence = self.fences[handle]
        swapchain = self.presents[fence.present].swapchain
        if swapchain != self.current and not self._is_late(fence):  # A7: the newest first
            unsignalled = [self.fences[other] for other in self.swapchains[swapchain].unsignalled]
            newer = [other for other in unsignalled if other.present > fence.present]
            assert all(map(self._is_late, newer)), "an older fence was looked at"
        return fence.is_signalled

    def _is_late(self, fence: Fence) -> bool:
        return self.now - fence.since >= DEADLINE

    def _out(self, kind: str, handle: int) -> None:
        if kind == "destroy_swapchain":
            swapchain = self.swapchains.pop(handle)
            assert handle != self.current, "the current swapchain"
            assert swapchain.newest <= self.consumed, "the engine still has presents of it"
            assert swapchain.last_use <= self.completed, "submissions still touch it"
            assert not swapchain.unsignalled, f"fences {swapchain.unsignalled} are not signalled"
        elif kind == "reset_fence":
            assert self.fences.pop(handle).is_signalled, "it may still be signalled"
        else:
            use = self.semaphores.pop(handle)
            assert use.present <= self.consumed, "a present still waits for it"
            assert use.serial <= self.completed, "a submission still waits for it"
            assert kind == ("destroy_semaphore" if use.is_spoiled else "recycle_semaphore")

    def _check_the_pool(self) -> None:
        """A3: once all has run, the history keeps the presents of two rounds, and what was retired."""
        if self.by_fences or not self.current or self.completed != self.submitted:
            return
        kept = {use.present for use in self.semaphores.values() if use.present}
        of_current = sum(self.presents[number].swapchain == self.current for number in kept)
        assert of_current <= 2 * self.swapchains[self.current].images, f"{of_current} presents"

    def check(self) -> None:
        reported = self.history.statistics()
        assert reported["semaphores"] == len(self.semaphores)
        assert reported["fences"] == len(self.fences)
        assert reported["retired"] == len(self.swapchains) - bool(self.current)
        assert reported["quarantined"] <= sum(map(self._is_late, self.fences.values()))
        kind, value = self.history.wanted()
        assert (kind == "nothing") == (not reported["retired"])
        assert kind != "fence" or value in self.fences
        assert kind != "serial" or value <= self.submitted
        assert kind != "image" or value < self.swapchains[self.current].images

    def step(self, code: int) -> None:
        """One operation, as a byte says."""
        what, number = code % 16, code // 16
        if what < 5:
            self.frame(number % IMAGES, semaphores=1 + (what == 4), told_late=number >= 8)
        elif what < 9:
            (self.consume, self.complete, self.consume, self.complete)[what - 5]()
        elif what == 9:
            self.signal(number)
        elif what == 10:
            self.now += number * DEADLINE // 30
        elif what == 11:
            (self.drop, self.acquire_with_a_fence, self.run_out_of_memory)[number % 3](number % IMAGES)
        elif what == 12 and number < 6:
            self.resize(1 + number % IMAGES, is_shared=number == 4, fails=number == 5)
        elif what == 13:
            self.run_dry()
        else:
            self.collect()
        self.check()

    # ---- the end

    def end(self) -> None:
        if self.drains:
            self._drain()
            assert not self.semaphores, "all of them come out"
            assert not self.fences
            assert len(self.swapchains) == bool(self.current)
        kinds = []
        unproven, decisions = self.history.close()
        assert unproven <= len(self.presents)
        for kind, handle in decisions:
            kinds.append(kind)
            kept = {"semaphore": self.semaphores, "fence": self.fences, "swapchain": self.swapchains}
            del kept[kind.removeprefix("destroy_")][handle]  # type: ignore[attr-defined]
        assert not self.semaphores, "all of them come out"
        assert not self.fences
        assert not self.swapchains
        assert "destroy_swapchain" not in kinds[kinds.count("destroy_swapchain") :], "the swapchains come first"

    def _drain(self) -> None:
        """Do what the history says that it waits for, until it waits for nothing."""
        for _ in range(_LIMIT):
            self.run_dry()
            self.collect()
            kind, value = self.history.wanted()
            if kind == "nothing":
                kind, value = self.history.unproven()
            if kind == "nothing":
                return
            if kind == "present" and not self.current:
                self.resize(1, False, False)
            if kind == "present":
                self.frame(0)
            elif kind == "image":
                self.drop(value)
            elif kind == "fence":
                self._signal(value)
        raise AssertionError(f"it still waits for {kind} {value}")
