"""Programs, the host's real relay, a link that breaks, and a viewer without a GPU: all in one thread.

A program's batch is one step: it has its images by the keyed mutexes, so no unanswered batch of another living program
uses them. Each use changes the pixels in a way that shows the order, here at once and at the viewer later.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from support.link_machine import Machine
from support.relay_replay import Replay, mixed
from vkshare.errors import RemoteLostError
from vkshare.remote import relay_messages as m
from vkshare.remote.images import TILE
from vkshare.remote.relay import Relay
from vkshare.server import wire
from vkshare.server.messages import Body, decode
from vkshare.server.request_types import Answer, Request
from vkshare.util import shared_memory

Pixels = npt.NDArray[np.uint8]
AnyBody = TypeVar("AnyBody", bound=Body)

WIDTH, HEIGHT = 96, 80  # of every image: tiles of four sizes
SIZE = WIDTH * HEIGHT
MOST_PROGRAMS, MOST_IMAGES = 4, 3
MOST_WAITING = 48  # messages of a program at the host: its largest batch, with the tiles of three images
READY = m.ViewerReady("an adapter", ("r8unorm",), 4096, 8)


class Client:
    """A program's connection, as the relay knows it."""

    name = "a program"

    def __init__(self) -> None:
        self.notes: dict[object, object] = {}
        self.is_closed = False
        self.is_lost = False
        self._closing: list[Callable[[Client], object]] = []

    def tell(self, opcode: int, _: object) -> None:
        assert opcode == m.Op.LOST
        self.is_lost = True

    def on_close(self, call: Callable[[Client], object]) -> None:
        self._closing.append(call)

    def answer(self, request: Sent, result: object) -> None:
        assert request.result is None, "a request was answered twice"
        request.result = result

    def cut_off(self, _: str) -> None:
        if not self.is_closed:
            self.is_closed = True
            for call in self._closing:
                call(self)


@dataclass(eq=False, slots=True)
class Sent(Request):
    """A request, the images that it uses, and the pixels that it has to fetch."""

    result: object = None
    uses: frozenset[int] = frozenset()
    expected: bytes | None = None
    stage: int = 0
    stage_fd: int = -1


class Link:
    """The host's end of the link, over the machine's outbox."""

    def __init__(self) -> None:
        self.generation = 1
        self.machine = Machine()

    def send(self, lane: int, message: bytes, *, generation: int, **options: Any) -> bool:
        self._check(generation)
        return self.machine.ends[0].session.outbox.put(lane, message, **options)

    def end(self, lane: int, *, generation: int) -> None:
        self._check(generation)
        self.machine.ends[0].session.outbox.end(lane)

    def _check(self, generation: int) -> None:
        if generation != self.generation:
            raise RemoteLostError(f"session {generation} is over")

    def consumed(self, lane: int, nbytes: int, *, generation: int) -> None:
        pass  # the way back is not under test

    def picture_room(self) -> int:
        return self.machine.ends[0].session.outbox.picture_room


@dataclass(eq=False)
class Program:
    """A process with one context. `number` is that of its lane too."""

    control: Client
    stream: Client
    number: int
    images: set[int] = field(default_factory=set)
    window: int = 0
    waiting: list[Sent] = field(default_factory=list)  # requests without an answer


@dataclass
class Picture:
    """An image on this machine, and as it has to be at the viewer after all turns that were granted."""

    fd: int
    memory: mmap.mmap
    pixels: Pixels
    seen: Pixels  # the memory, when the host last looked
    uploaded: Pixels  # the pixels of the last upload
    turns: list[int] = field(default_factory=list)  # the lane of each


class Remoting:
    """All of it. Each step may be taken at any time; one that is not possible now has no effect."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], object]] = deque()
        relay: Any = Relay(self._soon.append)
        self.link = relay.link = Link()
        self.relay = relay
        self._kinds = {kind.opcode: kind for kind in self.relay.kinds}
        self.programs: list[Program] = []
        self.pictures: dict[int, Picture] = {}
        self.shown: dict[int, Pixels] = {}  # by window, the newest present
        self._tags = self.turns = self.deaths = self.sessions = self.skipped = self.losses = 0
        self._viewer_comes()

    def _viewer_comes(self) -> None:
        self.replay = Replay(self._consumed, self.relay.received)
        self.relay.viewer_came(READY)

    def _consumed(self, lane: int, nbytes: int) -> None:
        self.link.machine.ends[1].session.inbox.consumed(lane, nbytes, self.link.machine.now)

    # ---- requests

    def _call(self, client: Client, opcode: m.Op, body: Body, fds: Iterable[int] = ()) -> tuple[Sent, object]:
        request = Sent(wire.Message(opcode, 0, 0, b"", [os.dup(fd) for fd in fds]), self._kinds[opcode], body)
        try:
            return request, self._kinds[opcode].run(client, request)
        finally:
            request.close()

    def _asked(self, kind: type[AnyBody], client: Client, opcode: m.Op, body: Body, fds: Iterable[int] = ()) -> AnyBody:
        _, answer = self._call(client, opcode, body, fds)
        assert isinstance(answer, Answer)
        return decode(kind, answer.body)

    def _use(self, program: Program, client: Client, opcode: m.Op, body: Body, images: Iterable[int]) -> Sent:
        """Sends a request that takes turns of images, and notes whose they are."""
        images = frozenset(images)
        before = {image: self.relay._images[image].next_turn for image in images}
        sent, answer = self._call(client, opcode, body)
        assert not isinstance(answer, Answer)
        sent.uses = images
        for image, number in before.items():
            more = self.relay._images[image].next_turn - number
            self.pictures[image].turns += [program.number] * more
            self.turns += more
        program.waiting.append(sent)
        self._run()
        return sent

    def _run(self) -> None:
        """The host's loop: calls of the link's thread, and the programs that have an answer."""
        for call in self.link.machine.ends[0].session.outbox.take_sent():
            call()
        while self._soon:
            self._soon.popleft()()
        for program in self.programs:
            for sent in [sent for sent in program.waiting if sent.result is not None]:
                program.waiting.remove(sent)
                self._answered(program, sent)

    def _answered(self, program: Program, sent: Sent) -> None:
        if sent.expected is not None and isinstance(sent.result, Answer):
            assert os.pread(sent.stage_fd, SIZE, 0) == sent.expected, "a read has other pixels"
        if sent.stage:
            os.close(sent.stage_fd)
            if program.control.notes and not program.control.is_lost:
                self._call(program.control, m.Op.DROP_STAGE, m.ById(sent.stage))

    # ---- steps of programs

    def open_program(self) -> None:
        if len(self.programs) < MOST_PROGRAMS:
            control, stream = Client(), Client()
            context = self._asked(m.Context, control, m.Op.OPEN_CONTEXT, m.OpenContext("a program"))
            self._call(stream, m.Op.JOIN, m.Join(context.number, context.secret))
            self.programs.append(Program(control, stream, context.number))

    def live(self) -> list[int]:
        """The images that programs have open."""
        return sorted(self.relay._images)

    def create_image(self, program: Program) -> None:
        if not program.control.is_lost and len(self.live()) < MOST_IMAGES:
            fd = shared_memory.memfd_create("vkshare:surface", SIZE)
            number = self._asked(m.Number, program.control, m.Op.CREATE_IMAGE, _described(), (fd,)).number
            zeros = np.zeros((HEIGHT, WIDTH), np.uint8)
            self.pictures[number] = Picture(fd, mmap.mmap(fd, SIZE), zeros, zeros, zeros)
            program.images.add(number)

    def open_image(self, program: Program, image: int) -> None:
        if image not in program.images and not program.control.is_lost:
            fds = (self.pictures[image].fd,)
            assert self._asked(m.Number, program.control, m.Op.OPEN_IMAGE, _described(), fds).number == image
            program.images.add(image)

    def close_image(self, program: Program, image: int) -> None:
        if self._may_use(program, (image,)):
            self._call(program.control, m.Op.CLOSE_IMAGE, m.ById(image))
            program.images.discard(image)

    def _may_use(self, program: Program, images: Iterable[int]) -> bool:
        """Whether the keyed mutexes grant the images, and the program's last request is answered."""
        images = frozenset(images)
        busy = {image for each in self.programs for sent in each.waiting for image in sent.uses}
        is_free = images <= program.images and not images & busy
        return is_free and bool(images) and not program.waiting and not program.control.is_lost

    def draw(self, program: Program, images: Iterable[int], size: int, *, writes: bool) -> None:
        images = sorted(set(images))
        if not self._may_use(program, images):
            return
        self._tags += 1
        for image in images:
            picture = self.pictures[image]
            self._look(picture)
            if writes:
                picture.pixels = mixed(picture.pixels, self._tags)
        commands = self._tags.to_bytes(4, "little") * (1 + size // 4)
        uses = tuple((image, writes) for image in images)
        self._use(program, program.stream, m.Op.BATCH, m.Batch(uses, commands), images)

    def transfer(self, program: Program, image: int, seed: int, *, is_upload: bool) -> None:
        if not self._may_use(program, (image,)):
            return
        picture = self.pictures[image]
        self._look(picture)
        if is_upload:
            # sometimes near to the upload before, also where others have drawn over that
            picture.pixels = picture.uploaded = _changed(picture.uploaded if seed % 2 else picture.pixels, seed)
        fd = shared_memory.memfd_create("vkshare:stage", -(-SIZE // mmap.PAGESIZE) * mmap.PAGESIZE)
        if is_upload:
            os.pwrite(fd, picture.pixels.tobytes(), 0)
        stage = self._asked(m.Number, program.control, m.Op.ADD_STAGE, m.NewStage(SIZE), (fd,)).number
        body = m.Batch(((image, is_upload),), b"", stage, is_upload)
        expected = None if is_upload else picture.pixels.tobytes()
        sent = self._use(program, program.stream, m.Op.BATCH, body, (image,))
        sent.expected, sent.stage, sent.stage_fd = expected, stage, fd
        if sent.result is not None:
            self._answered(program, sent)

    def write_local(self, image: int, seed: int) -> None:
        """A party of this machine writes to the memory; the host looks there before the next use."""
        busy = {image for each in self.programs for sent in each.waiting for image in sent.uses}
        if image not in busy:
            picture = self.pictures[image]
            now = np.frombuffer(picture.memory[:SIZE], np.uint8).reshape(HEIGHT, WIDTH)
            picture.memory[:SIZE] = _changed(now, seed).tobytes()

    def _look(self, picture: Picture) -> None:
        """Tiles of the memory that have changed come before the use."""
        now = np.frombuffer(picture.memory[:SIZE], np.uint8).reshape(HEIGHT, WIDTH)
        pixels = picture.pixels.copy()
        for y in range(0, HEIGHT, TILE):
            for x in range(0, WIDTH, TILE):
                at = np.s_[y : y + TILE, x : x + TILE]
                if not np.array_equal(now[at], picture.seen[at]):
                    pixels[at] = now[at]
        picture.pixels, picture.seen = pixels, now

    def present(self, program: Program, image: int) -> None:
        if not self._may_use(program, (image,)):
            return
        if not program.window:
            body = m.NewWindow(WIDTH, HEIGHT, "")
            program.window = self._asked(m.Number, program.control, m.Op.OPEN_WINDOW, body).number
        self._look(self.pictures[image])
        self.shown[program.window] = self.pictures[image].pixels.copy()
        body_of_present = m.Present(program.window, image)
        self._use(program, program.control, m.Op.PRESENT, body_of_present, (image,))

    def die(self, program: Program) -> None:
        """Its sockets close, in any order, and others recover what it owned."""
        self.programs.remove(program)
        self.deaths += 1
        ends = (program.control, program.stream) if program.number % 2 else (program.stream, program.control)
        for client in ends:
            client.cut_off("")
        for sent in program.waiting:
            if sent.stage:
                os.close(sent.stage_fd)

    # ---- steps of the link and the viewer

    def send(self, frames: int) -> None:
        self.link.machine.send(0, frames)
        self._run()

    def carry(self, nbytes: int) -> None:
        machine = self.link.machine
        machine.carry(0, nbytes)
        for lane, messages in machine.ends[1].arrived.items():
            for message in messages:
                self.replay.arrived(lane, message)
            messages.clear()

    def acknowledge(self) -> None:
        machine = self.link.machine
        machine.wait(0.021)
        machine.send(1, 10)
        machine.carry(1, 1 << 30)
        self.relay.has_room()
        self._run()

    def advance(self, lane: int) -> bool:
        found = self.replay.advance(lane)
        self._run()
        return found

    def flow(self) -> None:
        """Everything arrives that may be sent now, and is executed where it is its turn."""
        self.send(100)
        self.carry(1 << 30)
        while sum(self.advance(lane) for lane in list(self.replay.lanes)):
            pass
        self.acknowledge()

    def lose(self) -> None:
        self.losses += 1
        self.link.machine.lose()

    def connect(self) -> None:
        self.link.machine.connect()

    def new_session(self) -> None:
        """The viewer is lost with its pixels, and another one comes."""
        self.sessions += 1
        self.skipped += self.replay.skipped
        self.link.generation += 1
        self.link.machine = Machine()
        self.relay.viewer_lost("the viewer was started anew")
        self._soon.clear()
        assert all(program.control.is_lost for program in self.programs)
        for program in list(self.programs):
            self.die(program)
        assert not self.relay._contexts
        assert not self.relay._images
        self._forget_pictures()
        self._viewer_comes()

    def _forget_pictures(self) -> None:
        for picture in self.pictures.values():
            picture.memory.close()
            os.close(picture.fd)
        self.pictures.clear()
        self.shown.clear()

    # ---- what has to hold

    def check(self) -> None:
        """The bounds, and the orders so far."""
        self.link.machine.check()
        assert all(len(context._outgoing) <= MOST_WAITING for context in self.relay._contexts.values())
        assert len(self.relay._images) <= MOST_IMAGES
        for image, picture in self.pictures.items():
            seen = self.replay.images[image].turns if image in self.replay.images else []
            assert seen == picture.turns[: len(seen)], "a turn was executed that was not granted"

    def settle(self) -> None:
        """Lets everything arrive and be executed, and compares it."""
        self.connect()
        for _ in range(5000):
            self.flow()
            if self.is_settled():
                break
        assert self.is_settled(), f"turns are missing: {self._missing()}"
        for image, picture in self.pictures.items():
            assert self.replay.images[image].turns == picture.turns
            assert np.array_equal(self.replay.images[image].pixels, picture.pixels)
        for window, pixels in self.shown.items():
            assert np.array_equal(self.replay.windows[window], pixels)

    def is_settled(self) -> bool:
        is_empty = self.link.machine.ends[0].session.outbox.is_settled
        return is_empty and not self._missing() and not any(program.waiting for program in self.programs)

    def _missing(self) -> dict[int, int]:
        images = self.replay.images
        missing = {
            image: len(picture.turns) - (images[image].key if image in images else 0)
            for image, picture in self.pictures.items()
        }
        return {image: turns for image, turns in missing.items() if turns}

    def close(self) -> None:
        for program in list(self.programs):
            self.die(program)
        self.relay.close()
        self._forget_pictures()


def _described() -> m.NewImage:
    return m.NewImage(WIDTH, HEIGHT, "r8unorm", ("copy",), WIDTH, SIZE)


def _changed(pixels: Pixels, seed: int) -> Pixels:
    """The pixels, with a rectangle of others."""
    random = np.random.default_rng(seed)
    x, y = int(random.integers(0, WIDTH)), int(random.integers(0, HEIGHT))
    changed = pixels.copy()
    changed[y : y + 50, x : x + 50] = random.integers(0, 256, changed[y : y + 50, x : x + 50].shape, np.uint8)
    return changed
