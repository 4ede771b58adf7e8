"""The host's relay: programs' batches become turns, which the viewer repeats. For the host's loop.

A batch has run, for the program that has submitted it, once the relay has taken it. Programs hand
surfaces on by their keyed mutexes, on this machine alone; so no acquire ever waits for the viewer
(rule M1), and an acquire that timed out has sent nothing (rule M3).
"""

from __future__ import annotations

import hmac
import itertools
import logging
import mmap
import os
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from vkshare import formats
from vkshare.backends.base import USAGES
from vkshare.errors import ClosedError, DescriptorError, InvalidCallError, RemoteLostError
from vkshare.remote import relay_messages as m
from vkshare.remote.contexts import Context, Countdown
from vkshare.remote.images import Image
from vkshare.remote.transfers import Transfers
from vkshare.server.request_types import LATER, Answer, Kind, Later, Request
from vkshare.server.session_state import Route
from vkshare.server.wire import ProtocolError
from vkshare.util import arguments, shared_memory
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.remote.link import Link
    from vkshare.server.session import ServedClient

_log = logging.getLogger("vkshare.remote")

MOST_IMAGES = 4096  # of all programs
MOST_STAGES = 64  # of one program
MOST_WINDOWS = 16  # of one program
MOST_LANES = 192  # to the viewer, with those of programs that have ended: it has 256 sessions (server.MOST_CLIENTS)
_PART = 512 << 10  # bytes of commands in one message
_INLINE = 900 << 10  # bytes of commands beside their turns
_LONG = 32 << 10  # bytes of commands that have run once they are on their way, as pixels have


class Relay:
    """The state of a host.

    Attributes
    ----------
    viewer
        The viewer's description of its adapter; None: no viewer is connected.
    """

    def __init__(self, call_soon: Callable[[Callable[[], object]], object]) -> None:
        """`call_soon`: has the host's loop call a function, from any thread."""
        self._call_soon = call_soon
        self._transfers = Transfers(call_soon)
        self.link: Link | None = None
        self.viewer: m.ViewerReady | None = None
        self.generation = 0
        self._contexts: dict[int, Context] = {}
        self._pictures: deque[Context] = deque()
        self._images: dict[int, Image] = {}
        self._by_inode: dict[tuple[int, int], int] = {}
        self._waiting: deque[tuple[ServedClient, Request]] = deque()  # for a viewer, or for one of its lanes
        self._ending: set[int] = set()  # lanes that have ended here, and not at the viewer yet
        self._lanes = itertools.count(1)  # no lane's number is used twice
        self._ids = itertools.count(1)
        self._stages = itertools.count()  # pixels may still arrive for one that was dropped
        self.kinds = tuple(
            Kind(opcode, body, Route.INLINE, run, most_fds, loads=opcode is m.Op.BATCH)
            for opcode, body, run, most_fds in (
                (m.Op.OPEN_CONTEXT, m.OpenContext, self._open_context, 0),
                (m.Op.JOIN, m.Join, self._join, 0),
                (m.Op.CREATE_IMAGE, m.NewImage, self._create_image, 1),
                (m.Op.OPEN_IMAGE, m.NewImage, self._open_image, 1),
                (m.Op.CLOSE_IMAGE, m.ById, self._close_image, 0),
                (m.Op.ADD_STAGE, m.NewStage, self._add_stage, 1),
                (m.Op.DROP_STAGE, m.ById, self._drop_stage, 0),
                (m.Op.BATCH, m.Batch, self._batch, 0),
                (m.Op.OPEN_WINDOW, m.NewWindow, self._open_window, 0),
                (m.Op.CLOSE_WINDOW, m.ById, self._close_window, 0),
                (m.Op.PRESENT, m.Present, self._present, 0),
            )
        )

    # ---- the viewer ------------------------------------------------------------------------------------------

    def viewer_came(self, ready: m.ViewerReady) -> None:
        """A viewer has connected, and says what it draws with."""
        assert self.link is not None
        self.viewer, self.generation = ready, self.link.generation
        self._ending.clear()
        self._begin_waiting()

    def lane_ended(self, lane: int) -> None:
        """The viewer has executed all of a program that has gone."""
        self._ending.discard(lane)
        context = self._contexts.get(lane)
        if context is not None:  # the viewer has ended it first
            context.has_lane = False
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        while self._waiting and self._has_lane():
            client, request = self._waiting.popleft()
            if not client.is_closed:
                with client.containing_errors():
                    client.answer(request, self._begin(client))

    def _has_lane(self) -> bool:
        """Whether a viewer is there, and has room for one more program."""
        here = sum(each.has_lane and each.generation == self.generation for each in self._contexts.values())
        return self.viewer is not None and here + len(self._ending) < MOST_LANES

    def viewer_lost(self, why: str) -> None:
        """The viewer is gone, and with it all pixels."""
        self.viewer = None
        for context in list(self._contexts.values()):
            context.lose(why)
            context.drop_unsent()
            if context.has_ended:
                self._finish(context)

    def has_opened(self, lane: int) -> bool:
        """Whether it is control, or a program has or had its session at the viewer in that lane. Any thread."""
        return not lane or lane in self._contexts or lane in self._ending

    def received(self, lane: int, data: bytes) -> None:
        """Handles a message of a context's session at the viewer."""
        context = self._contexts.get(lane)
        if context is None:
            return
        try:
            context.received(lane, data)
        except Exception as error:  # it ends what this program has at the viewer, and nothing else
            _log.warning("context %d: %s", lane, error)
            context.lose(f"the viewer sent a malformed message: {error}")

    def has_room(self) -> None:
        """The link may take more."""
        for context in [*self._pictures, *self._contexts.values()]:
            if context.has_ended:
                self._finish(context)
            else:
                context.guarded(context.flush)

    # ---- contexts ----------------------------------------------------------------------------------------------

    def _open_context(self, client: ServedClient, request: Request) -> Answer | Later:
        if self in client.notes:
            raise InvalidCallError("this connection has a context: open another connection")
        if self._waiting or not self._has_lane():
            self._waiting.append((client, request))
            return LATER
        return self._begin(client)

    def _begin(self, client: ServedClient) -> Answer:
        assert self.link is not None
        assert self.viewer is not None
        context = Context(next(self._lanes), client, self.link, self.generation, self._pictures)
        self._contexts[context.number] = context
        client.notes[self] = context
        client.on_close(lambda _: self._end(context))
        context.begin()
        ready = self.viewer
        described = m.Context(
            context.number, context.secret, ready.adapter, ready.formats, ready.max_dimension, ready.subpixel_bits
        )
        return Answer.of(described)

    def _join(self, client: ServedClient, request: Request) -> Answer:
        body: m.Join = request.body
        context = self._contexts.get(body.context)
        if context is None or not hmac.compare_digest(context.secret, body.secret) or context.stream is not None:
            raise InvalidCallError(f"no context {body.context} waits for this connection")
        context.stream = client
        client.notes[self] = context
        client.on_close(lambda _: context.lose("the program has closed its connection"))
        return Answer()

    def _of(self, client: ServedClient) -> Context:
        context = client.notes.get(self)
        if not isinstance(context, Context):
            raise InvalidCallError("this connection has no context: open one first")
        if not context.is_open:
            raise RemoteLostError("the viewer is gone, and what this program had there")
        return context

    def _end(self, context: Context) -> None:
        """A program has gone: what it has sent is drawn, and then its session at the viewer ends (rule M6)."""
        context.is_open, context.has_ended = False, True
        if context.stream is not None:
            context.stream.cut_off("")
        for number in list(context.images):
            self._forget(context, number)
        context.close_stages()
        self._finish(context)

    def _finish(self, context: Context) -> None:
        """Ends the lane of a program that has gone, once its turns are sent: other programs' turns come after them."""
        context.guarded(context.flush)
        if context.has_unsent and self.viewer is not None:
            return
        is_here = self.link is not None and self.viewer is not None
        if is_here and context.has_lane and context.generation == self.generation:
            self._ending.add(context.number)  # first: has_opened() may be asked at any moment
        self._contexts.pop(context.number, None)
        if is_here:
            context.guarded(lambda: context.link.end(context.number, generation=context.generation))

    # ---- images ------------------------------------------------------------------------------------------------

    def _create_image(self, client: ServedClient, request: Request) -> Answer:
        context, body = self._of(client), request.body
        if len(self._images) >= MOST_IMAGES:
            raise InvalidCallError(f"the host has {MOST_IMAGES} images: close some")
        self._check_size("surface", body)
        image = self._mapped(body, request)
        spec = image.spec
        self._images[spec.id] = image
        self._by_inode[_inode(image.fd)] = spec.id
        self._use(context, image)
        self._control(m.Op.IMAGE, spec)
        return Answer.of(m.Number(spec.id))

    def _check_size(self, what: str, body: m.NewImage | m.NewWindow) -> None:
        most = 0 if self.viewer is None else self.viewer.max_dimension
        if max(body.width, body.height) > most:
            raise ValueError(
                f"a {what} has {body.width}x{body.height} pixels; the viewer allows 1 to {most} each: choose fewer"
            )

    def _mapped(self, body: m.NewImage, request: Request) -> Image:
        assert self.viewer is not None
        if body.format not in self.viewer.formats:
            raise ValueError(f"the viewer has no {body.format}; it has {', '.join(self.viewer.formats)}")
        arguments.choices("usage", body.usage, USAGES)
        (fd,) = request.take_fds() or (-1,)
        if fd < 0:
            raise ProtocolError("an image came without its memory")
        with on_error(lambda: os.close(fd)):
            pixel = formats.get(body.format)
            row = body.width * pixel.bytes_per_pixel
            if not row <= body.stride <= row + 4096 or body.size < body.stride * (body.height - 1) + row:
                raise DescriptorError(
                    f"{body.height} rows of {body.stride} bytes in {body.size} bytes are no memory of a "
                    f"{body.width}x{body.height} {body.format} surface"
                )
            shared_memory.memory_check(fd, is_memfd=True, size=body.size)
            memory = mmap.mmap(fd, body.size, prot=mmap.PROT_READ)
        spec = m.Image(next(self._ids), body.width, body.height, body.format, body.usage)
        return Image(spec, pixel, fd, body.stride, memory, self.generation)

    def _open_image(self, client: ServedClient, request: Request) -> Answer:
        context, body = self._of(client), request.body
        (fd,) = request.take_fds() or (-1,)
        if fd < 0:
            raise ProtocolError("an image came without its memory")
        try:
            image = self._images.get(self._by_inode.get(_inode(fd), 0))
        finally:
            os.close(fd)
        if image is None or (image.spec.width, image.spec.height, image.spec.format) != (
            body.width,
            body.height,
            body.format,
        ):
            raise DescriptorError(
                "the surface is not at this host's viewer: only surfaces of its own remote devices can be opened there"
            )
        if image.generation != context.generation:
            raise RemoteLostError(
                "the surface's pixels were lost with the viewer that had them: make another surface with a new device"
            )
        self._use(context, image)
        return Answer.of(m.Number(image.spec.id))

    def _use(self, context: Context, image: Image) -> None:
        image.users.add(context.number)
        context.images[image.spec.id] += 1

    def _close_image(self, client: ServedClient, request: Request) -> None:
        context = self._of(client)
        number: int = request.body.id
        self._image(context, number)
        context.images[number] -= 1
        if not context.images[number]:
            self._forget(context, number)

    def _forget(self, context: Context, number: int) -> None:
        """The context uses it no more. The viewer frees it after the last turn, once no context does."""
        del context.images[number]
        image = self._images[number]
        image.users.discard(context.number)
        if not image.users:
            del self._images[number]
            self._by_inode.pop(_inode(image.fd), None)
            if image.generation == self.generation:
                self._control(m.Op.FORGET_IMAGE, m.Forget(number, image.next_turn))
            image.close()

    def _image(self, context: Context, number: int) -> Image:
        if number not in context.images:
            raise InvalidCallError(f"this program has no image {number}")
        return self._images[number]

    # ---- batches -----------------------------------------------------------------------------------------------

    def _batch(self, client: ServedClient, request: Request) -> Later:
        context = self._of(client)
        try:
            return self._take(context, client, request)
        except Exception as error:  # its device is lost, and the program is to know why
            context.lose(f"a command list cannot be drawn: {error}")
            raise

    def _take(self, context: Context, client: ServedClient, request: Request) -> Later:
        request.load()
        body: m.Batch = request.body
        if client is not context.stream:
            raise InvalidCallError("batches come over the context's second connection")
        used = [(self._image(context, number), writes) for number, writes in body.uses]
        if len({image.spec.id for image, _ in used}) < len(used):  # its session would wait for a turn of its own
            ids = [number for number, _ in body.uses]
            twice = next(number for number in ids if ids.count(number) > 1)
            raise InvalidCallError(f"a batch uses image {twice} twice: name each image once, and whether it is written")
        waiting = Countdown(client, request)
        for image, _ in used:
            self._send_local(context, image, waiting)
        if body.stage:
            self._transfer(context, body, used, waiting)
        else:
            self._draw(context, body, used, waiting)
        waiting.done()
        return LATER

    def _send_local(self, context: Context, image: Image, waiting: Countdown) -> None:
        """Sends what parties of this machine have written to the image's memory."""
        rects = image.changed()
        if rects:
            self._transfers.write(context, image, memoryview(image.memory), image.stride, rects, waiting)

    def _draw(self, context: Context, body: m.Batch, used: list[tuple[Image, bool]], waiting: Countdown) -> None:
        commands = body.commands
        is_long = len(commands) > _LONG
        while len(commands) > _INLINE:
            context.send(m.Op.PART, m.Part(commands[:_PART]), then=waiting.expect())
            commands = commands[_PART:]
        turns = tuple(image.turn(writes=writes) for image, writes in used)
        for image, writes in used:
            if writes:
                image.drawn()
        done = waiting.expect()
        if is_long:  # what uses its images is sent after it, and waits for none of its bytes at the viewer
            context.send(m.Op.DRAW, m.Draw(turns, commands), on_sent=partial(self._call_soon, done))
        else:
            context.send(m.Op.DRAW, m.Draw(turns, commands), then=done)

    def _transfer(self, context: Context, body: m.Batch, used: list[tuple[Image, bool]], waiting: Countdown) -> None:
        fd, size = context.stages.get(body.stage, (-1, 0))
        if len(used) != 1 or fd < 0 or size != used[0][0].row * used[0][0].spec.height:
            raise InvalidCallError(f"stage {body.stage} is not the memory for one image's pixels")
        image = used[0][0]
        if body.is_upload:
            with mmap.mmap(fd, size, prot=mmap.PROT_READ) as memory, memoryview(memory) as pixels:
                rects = image.replace(pixels)
                self._transfers.write(context, image, pixels, image.row, rects, waiting)
        else:
            self._transfers.read(context, image, body.stage, waiting)

    # ---- stages ------------------------------------------------------------------------------------------------

    def _add_stage(self, client: ServedClient, request: Request) -> Answer:
        context, body = self._of(client), request.body
        if len(context.stages) >= MOST_STAGES:
            raise InvalidCallError(f"this program has {MOST_STAGES} reads and writes under way: wait for some")
        (fd,) = request.take_fds() or (-1,)
        if fd < 0:
            raise ProtocolError("a stage came without its memory")
        with on_error(lambda: os.close(fd)):
            shared_memory.memfd_check(fd, "stage", writable=True, size=body.size)
        while (number := next(self._stages) % 0xFFFFFFFF + 1) in context.stages:
            pass
        context.stages[number] = fd, body.size
        return Answer.of(m.Number(number))

    def _drop_stage(self, client: ServedClient, request: Request) -> None:
        fd, _ = self._of(client).stages.pop(request.body.id, (-1, 0))
        if fd >= 0:
            os.close(fd)

    # ---- windows -----------------------------------------------------------------------------------------------

    def _open_window(self, client: ServedClient, request: Request) -> Answer:
        context, body = self._of(client), request.body
        if len(context.windows) >= MOST_WINDOWS:
            raise InvalidCallError(f"this program has {MOST_WINDOWS} windows: close some")
        self._check_size("window", body)
        number = next(self._ids)
        context.windows.add(number)
        context.send(m.Op.WINDOW, m.Window(number, body.width, body.height, body.title))
        return Answer.of(m.Number(number))

    def _close_window(self, client: ServedClient, request: Request) -> None:
        context = self._of(client)
        if request.body.id in context.windows:
            context.windows.discard(request.body.id)
            context.send(m.Op.END_WINDOW, m.ById(request.body.id))

    def _present(self, client: ServedClient, request: Request) -> Answer | Later:
        context, body = self._of(client), request.body
        if body.window not in context.windows:
            raise InvalidCallError(f"this program has no window {body.window}")
        image, waiting = self._image(context, body.image), Countdown(client, request)
        self._send_local(context, image, waiting)
        turn = image.turn(writes=False)
        context.send(
            m.Op.SHOW,
            m.Show(body.window, turn, time.monotonic_ns() // 1000),
            replaces=("show", body.window),
            stale=m.Skip(turn),
            then=waiting.expect(),
        )
        waiting.done()
        return LATER

    # ---- the control lane --------------------------------------------------------------------------------------

    def _control(self, opcode: m.Op, body: m.Image | m.Forget) -> None:
        """Sends a message over lane 0, which is served before the others."""
        from vkshare.server import wire
        from vkshare.server.messages import encode

        if self.link is not None and self.viewer is not None:
            try:
                self.link.send(0, wire.pack(opcode, 0, 0, encode(body)), generation=self.generation)
            except (RemoteLostError, ClosedError) as error:
                _log.debug("the viewer is gone: %s", error)

    def close(self) -> None:
        """Closes the images, when all programs are gone."""
        for context in list(self._contexts.values()):
            self._end(context)
        for image in self._images.values():
            image.close()
        self._images.clear()


def _inode(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
