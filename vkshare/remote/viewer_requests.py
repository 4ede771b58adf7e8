"""The requests that the host sends, as kinds of a render server. Each program's run on a worker of its own (M4)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vkshare import formats
from vkshare.core import submissions
from vkshare.core.surface import Surface
from vkshare.errors import InvalidCallError
from vkshare.remote import relay_messages as m
from vkshare.remote.pictures import Pictures
from vkshare.server import messages
from vkshare.server.executor import Executor, RequestResult
from vkshare.server.rendering import record
from vkshare.server.request_types import LATER, Answer, Kind, Later, Request
from vkshare.server.session_state import Route
from vkshare.server.wire import ProtocolError
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.remote.viewer_windows import ViewerWindows

MOST_COMMANDS = 1 << 24  # bytes of one list
MOST_READS = 64  # images that one program reads at a time
_log = logging.getLogger("vkshare.remote")


class ViewerRequests:
    """The functions of the kinds, over one viewer's images and windows."""

    def __init__(self, pictures: Pictures, windows: ViewerWindows) -> None:
        self._pictures = pictures
        self._windows = windows
        self._parts: dict[Executor, bytearray] = {}
        self._uploads: dict[Executor, tuple[m.Turn, Surface] | None] = {}  # the turn that an upload has taken
        self._reads: dict[tuple[Executor, int], Surface] = {}  # copies of images that are being read
        self.kinds = tuple(
            Kind(opcode, body, route, run)
            for opcode, body, route, run in (
                (m.Op.PART, m.Part, Route.CANNOT_FAIL, self._part),
                (m.Op.DRAW, m.Draw, Route.CANNOT_FAIL, self._draw),
                (m.Op.WRITE, m.Write, Route.CANNOT_FAIL, self._write),
                (m.Op.READ, m.Read, Route.CAN_FAIL, self._read),
                (m.Op.SHOW, m.Show, Route.CANNOT_FAIL, self._show),
                (m.Op.SKIP, m.Skip, Route.CANNOT_FAIL, self._skip),
                (m.Op.WINDOW, m.Window, Route.CANNOT_FAIL, self._window),
                (m.Op.END_WINDOW, m.ById, Route.CANNOT_FAIL, self._end_window),
            )
        )

    # ---- drawing -------------------------------------------------------------------------------------------------

    def _part(self, executor: Executor, request: Request) -> None:
        parts = self._parts.setdefault(executor, bytearray())
        if not parts:
            executor.on_close(lambda: self._parts.pop(executor, None))
        if len(parts) + len(request.body.data) > MOST_COMMANDS:
            raise InvalidCallError(f"a command list has more than {MOST_COMMANDS} bytes")
        parts += request.body.data

    def _draw(self, executor: Executor, request: Request) -> None:
        body: m.Draw = request.body
        parts = self._parts.pop(executor, b"")
        self._watch(executor)
        with self._pictures.turns(executor, body.turns) as handles:
            operations = _decoded(bytes(parts) + body.commands)
            commands, used = record(executor.device, operations, partial(_operand, handles))
            if used:
                executor.last = executor.device.submit(commands)

    def _watch(self, executor: Executor) -> None:
        """Gives back the session's handles when it ends."""
        if executor not in self._uploads:
            self._uploads[executor] = None
            executor.on_close(lambda: self._leave(executor))

    def _leave(self, executor: Executor) -> None:
        upload = self._uploads.pop(executor, None)
        try:
            if upload is not None:  # it has gone in the middle of an upload, whose turn passes on (rule M6)
                self._pictures.end(*upload)
        finally:
            for key in [key for key in self._reads if key[0] is executor]:
                self._reads.pop(key).close()
            self._pictures.leave(executor)

    def _skip(self, executor: Executor, request: Request) -> None:
        self._watch(executor)
        with self._pictures.turns(executor, (request.body.turn,)):
            pass

    # ---- pixels --------------------------------------------------------------------------------------------------

    def _write(self, executor: Executor, request: Request) -> None:
        """Copies rows of an upload. Its turn ends with the last of them (rule M5)."""
        body: m.Write = request.body
        self._watch(executor)
        upload = self._uploads.get(executor)
        if upload is None or upload[0] != body.turn:
            upload = body.turn, self._pictures.begin(executor, body.turn)
            self._uploads[executor] = upload
        try:
            self._copy_in(executor, upload[1], body)
        finally:
            if body.is_last:
                self._uploads[executor] = None
                self._pictures.end(*upload)

    def _copy_in(self, executor: Executor, handle: Surface, body: m.Write) -> None:
        pixel = formats.get(handle.format)
        sizes = [width * height * pixel.bytes_per_pixel for _, _, width, height in body.rects]
        if any(min(width, height) < 1 for _, _, width, height in body.rects) or sum(sizes) != len(body.pixels):
            raise InvalidCallError(f"{len(body.pixels)} bytes are not the pixels of {len(body.rects)} rectangles")
        device, commands = executor.device, executor.device.record()
        rows: list[Surface] = []
        at = 0
        with on_error(lambda: _close_all(rows)):
            for (x, y, width, height), size in zip(body.rects, sizes, strict=True):
                found = np.frombuffer(body.pixels, pixel.numpy_dtype, size // pixel.numpy_dtype.itemsize, at)
                rows.append(device.create_surface(width, height, pixel, usage=("copy",)))
                rows[-1].acquire()
                rows[-1].write(found.reshape(height, width, pixel.channels))
                commands.copy(rows[-1], handle, at=(x, y))
                at += size
            submission = executor.last = device.submit(commands)
        for surface in rows:
            self._pictures.keep(submission, surface)
        self._pictures.reap()

    def _read(self, executor: Executor, request: Request) -> Answer | Later:
        """Answers with rows of an image: the first request of a turn copies it."""
        body: m.Read = request.body
        self._watch(executor)
        key = executor, body.turn.number << 32 | body.turn.image
        copied = self._reads.get(key)
        if copied is not None:
            return self._rows(key, copied, body)
        with self._pictures.turns(executor, (body.turn,)) as (handle,):
            if sum(of is executor for of, _ in list(self._reads)) >= MOST_READS:
                raise InvalidCallError(f"this program reads {MOST_READS} images already")
            copied = executor.device.create_surface(handle.width, handle.height, handle.format, usage=("copy",))
            with on_error(copied.close):
                copied.acquire()
                submission = executor.device.submit(executor.device.record().copy(handle, copied))
        self._reads[key] = copied

        def then(error: BaseException | None) -> list[RequestResult]:
            try:
                return [RequestResult(request, error if error is not None else self._rows(key, copied, body))]
            except Exception as failure:
                return [RequestResult(request, failure)]

        executor.ask(partial(submissions.notify, submission), then)
        return LATER

    def _rows(self, key: tuple[Executor, int], copied: Surface, body: m.Read) -> Answer:
        x, y, width, height = body.rect
        if min(x, y) < 0 or min(width, height) < 1 or x + width > copied.width or y + height > copied.height:
            raise InvalidCallError(f"the rectangle {body.rect} is not in the {copied.width}x{copied.height} image")
        pixels = copied.read(1.0)
        if body.is_last:
            self._reads.pop(key, None)
            copied.close()
        return Answer(np.ascontiguousarray(pixels[y : y + height, x : x + width]).tobytes())

    # ---- windows -------------------------------------------------------------------------------------------------

    def _show(self, executor: Executor, request: Request) -> None:
        body: m.Show = request.body
        self._watch(executor)
        with self._pictures.turns(executor, (body.turn,)) as (handle,):
            self._windows.show(executor.client, body.window, handle, body.stamp / 1e6)

    def _window(self, executor: Executor, request: Request) -> None:
        body: m.Window = request.body
        self._windows.open(executor.client, body)
        executor.on_close(lambda: self._windows.end(executor.client, body.id))

    def _end_window(self, executor: Executor, request: Request) -> None:
        self._windows.end(executor.client, request.body.id)


def _close_all(surfaces: list[Surface]) -> None:
    for surface in surfaces:
        surface.close()


def _decoded(data: bytes) -> Any:
    """Returns the operations of a list.

    The program has encoded it, and the host only passes it on. So a malformed one is that program's
    error, and not the host's, whose session goes on with the turns that follow.
    """
    try:
        return messages.decode_commands(data)
    except ProtocolError as error:
        raise InvalidCallError(f"a command list is malformed: {error}") from None


def _operand(handles: list[Surface], number: int) -> Any:
    if not 1 <= number <= len(handles):
        raise InvalidCallError(f"a command names use {number}; there are {len(handles)}")
    return handles[number - 1]
