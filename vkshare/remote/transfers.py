"""Pixels on their way between this machine and an image at the viewer. For the host's loop."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from vkshare.errors import RemoteLostError
from vkshare.remote import relay_messages as m
from vkshare.remote.contexts import Context, Countdown
from vkshare.remote.images import Image, bands, rows_of, together
from vkshare.server.messages import Rect

_READS = 16  # answers with pixels, of one program, that may be on their way: what waits at the viewer is bounded


class Transfers:
    """Writes and reads of whole images, in messages of bounded size."""

    def __init__(self, call_soon: Callable[[Callable[[], object]], object]) -> None:
        """`call_soon`: has the host's loop call a function, from any thread."""
        self._call_soon = call_soon

    def write(
        self,
        context: Context,
        image: Image,
        pixels: memoryview,
        stride: int,
        rects: list[Rect],
        waiting: Countdown,
    ) -> None:
        """Sends the rectangles of some pixels as one turn, if there are any."""
        pixel = image.format.bytes_per_pixel
        parts = list(together((band for rect in rects for band in bands(rect, pixel)), pixel))
        if not parts:
            return
        turn = image.turn(writes=True)
        for i, some in enumerate(parts):
            data = b"".join(rows_of(pixels, stride, rect, pixel) for rect in some)
            is_last = i == len(parts) - 1
            body = m.Write(turn, some, data, is_last)
            # Rule M7 counts frames, and these messages are one.
            done = waiting.expect()
            if is_last:  # it has run once it is on its way, so that what uses it arrives after it
                soon = self._call_soon
                context.send(m.Op.WRITE, body, has_pixels=i == 0, on_sent=functools.partial(soon, done))
            else:
                context.send(m.Op.WRITE, body, has_pixels=i == 0, then=done)

    def read(self, context: Context, image: Image, stage: int, waiting: Countdown) -> None:
        """Fetches the pixels: a round trip. The first request takes the turn; the others wait for room."""
        whole = (0, 0, image.spec.width, image.spec.height)
        parts = list(bands(whole, image.format.bytes_per_pixel))
        turn = image.turn(writes=False)
        for i, rect in enumerate(parts):
            arrived = functools.partial(self._pixels_arrived, context, image, stage, rect, waiting, waiting.expect())
            ask = functools.partial(context.send, m.Op.READ, m.Read(turn, rect, i == len(parts) - 1), reply=arrived)
            if i:
                context.reads.append((ask, arrived))
            else:
                context.reading += 1
                ask()
        self._read_more(context)

    def _read_more(self, context: Context) -> None:
        while context.is_open and context.reads and context.reading < _READS:
            ask, _ = context.reads.popleft()
            context.reading += 1
            context.guarded(ask)

    def _pixels_arrived(
        self,
        context: Context,
        image: Image,
        stage: int,
        rect: Rect,
        waiting: Countdown,
        done: Callable[[], object],
        result: bytes | Exception,
    ) -> None:
        context.reading -= 1
        fd, _ = context.stages.get(stage, (-1, 0))
        row = rect[2] * image.format.bytes_per_pixel
        if isinstance(result, Exception):
            waiting.error = result
        elif len(result) != row * rect[3]:
            waiting.error = RemoteLostError("the viewer sent pixels of another size")
        elif fd >= 0:  # the program has dropped it otherwise, and its fd may be another file's
            for i in range(rect[3]):
                at = (rect[1] + i) * image.row + rect[0] * image.format.bytes_per_pixel
                os.pwrite(fd, result[i * row : (i + 1) * row], at)
        done()
        self._read_more(context)
