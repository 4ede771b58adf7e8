"""The thread of a reader: decodes ahead, and sends surfaces to it through a pipe."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vkshare.errors import AcquireTimeout, ClosedError, VideoError
from vkshare.video.decoder import Decoder, Picture
from vkshare.video.pictures import Pictures

if TYPE_CHECKING:
    from vkshare.core.pipe_ends import Sender
    from vkshare.core.surface import Surface

_SLICE = 0.05  # seconds between two looks whether the frame that waits for a surface is still wanted
_PATIENCE = 10.0  # seconds that close() waits for the file
_NONE = Fraction(0)
_NUMBER = 8  # bytes of a pair: the key of its Entry


@dataclass(frozen=True, slots=True)
class Entry:
    """A frame on its way, as the thread describes it."""

    generation: int  # of the seek that it belongs to
    pts: Fraction
    duration: Fraction
    time: Fraction
    until: Fraction
    index: int
    error: BaseException | None = None  # in place of a frame
    is_end: bool = False  # in place of a frame: the file is over


class Stale(Exception):
    """A seek has come meanwhile: the frame is not wanted any more."""


class Decoding:
    """The thread. It does not keep the reader alive. seek(), set_rate() and end() may be called by any thread."""

    def __init__(
        self,
        decoder: Decoder,
        pictures: Pictures,
        sender: Sender[Surface],
        write: Callable[[Any, Surface], None],
        *,
        loop: bool,
        rate: Fraction,
    ) -> None:
        self.loop, self.rate = loop, rate
        self._decoder, self._pictures, self._sender, self._write = decoder, pictures, sender, write
        self._changed = threading.Condition()
        self._entries: dict[int, Entry] = {}
        self._serial = 0
        self._generation = 0
        self._target: Fraction | None = None  # of a seek that the thread has not done
        self._is_idle = False  # at the end of the file, until a seek
        self._stops = False
        self._time, self._index = Fraction(0), 0  # of the next frame
        self._last: tuple[Fraction, Fraction] | None = None  # pts and duration of the frame before
        self._thread = threading.Thread(target=self._run, name="vkshare video", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def seek(self, position: Fraction) -> int:
        """Asks for the frames from there on; they have the generation that is returned."""
        with self._changed:
            self._generation += 1
            self._target, self._is_idle = position, False
            self._changed.notify()
            return self._generation

    def entry(self, pair: bytes) -> Entry | None:
        """Return the description of a frame that was received; None: it was sent before the newest seek."""
        found = self._entries.pop(int.from_bytes(pair[:_NUMBER], "little"))
        return found if found.generation == self._generation else None

    def end(self) -> None:
        """Ends the thread, and closes the file. Idempotent."""
        with self._changed:
            self._stops = True
            self._changed.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)  # beyond it a file object blocks: the thread ends when that returns

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with contextlib.suppress(ClosedError):
                while self._wait():
                    self._step()
        finally:
            self._sender.close()
            self._pictures.close()
            self._decoder.close()

    def _wait(self) -> bool:
        """Return whether there is something to do, once there is; False: the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stops or not self._is_idle)
            return not self._stops

    def _step(self) -> None:
        """Sends one frame, the end, or an error."""
        with self._changed:
            generation, target, self._target = self._generation, self._target, None
        try:
            if target is not None:
                self._jump(target)
            picture = self._pictures.next()
            if picture is None and self.loop:
                self._jump(Fraction(0))
                picture = self._pictures.next()
        except Exception as error:
            self._send_in_place(generation, error)
            return
        if picture is None:
            self._send_in_place(generation, None)
        else:
            self._send(generation, picture)

    def _jump(self, position: Fraction) -> None:
        """The next frame comes from there, and follows the last one in time."""
        if self._last is not None:
            self._time += self._last[1] / self.rate
            self._last = None
        self._pictures.seek(position)

    def _send(self, generation: int, picture: Picture) -> None:
        if self._last is not None:
            self._time += (picture.pts - self._last[0]) / self.rate
        until = self._time + picture.duration / self.rate
        entry = Entry(generation, picture.pts, picture.duration, self._time, until, self._index)
        error = self._put(entry, lambda surface: self._write(picture.frame, surface))
        if error is not None:
            self._send_in_place(generation, error)
            return
        self._last = picture.pts, picture.duration
        self._index += 1

    def _send_in_place(self, generation: int, error: BaseException | None) -> None:
        """An error, or the end, takes the place of a frame."""
        entry = Entry(generation, _NONE, _NONE, self._time, self._time, self._index, error, error is None)
        self._put(entry, None)
        if not isinstance(error, VideoError):  # nothing comes behind the end, nor from a lost device
            with self._changed:
                self._is_idle = self._generation == generation

    def _put(self, entry: Entry, write: Callable[[Surface], None] | None) -> BaseException | None:
        """Send a surface, once one is free; returns the error of write(). Nothing is sent that a seek has overtaken."""
        while not self._stops and entry.generation == self._generation:
            try:
                with self._sender.frame(timeout=_SLICE) as frame:
                    self._refuse_stale(entry)
                    if write is not None:
                        write(frame.surface)
                    self._serial += 1
                    self._entries[self._serial] = entry
                    frame.metadata = self._serial.to_bytes(_NUMBER, "little")
                return None
            except AcquireTimeout:
                continue
            except (ClosedError, Stale):
                return None
            except Exception as error:
                return error
        return None

    def _refuse_stale(self, entry: Entry) -> None:
        if self._stops or entry.generation != self._generation:
            raise Stale
