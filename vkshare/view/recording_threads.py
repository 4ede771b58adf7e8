"""The two threads of a recording: one reads pictures, the other encodes them (rule W8)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, UnsupportedError, VkshareError
from vkshare.video.kinds import Destination
from vkshare.view import recording_files, recording_pixels
from vkshare.view.backlog import Backlog
from vkshare.view.frame_selection import SECOND, Chosen, FrameSelection
from vkshare.view.planar_pictures import PictureReader
from vkshare.view.sources import Source

_SLICE = 0.05  # seconds between two looks whether the recording is to end
_BACKLOG_BYTES = 256 << 20  # of pictures that wait for the encoder
_BACKLOG_PICTURES = 64
CLOSED = "it was closed"
_ENDED = "the source ended"


@dataclass(frozen=True, slots=True)
class RecordingStatistics:
    """A snapshot of a recording."""

    frames: int  # in the file
    skipped: int  # came sooner than `rate` allows
    dropped: int  # came while the encoder was behind
    missing: int  # never came, by the gaps in their numbers: this process was behind, or its pipe was full
    waiting: int  # read, and not yet encoded
    most_waiting: int
    seconds: float  # from the first frame to now, or to the end
    nbytes: int  # of the file, or of all pictures
    width: int  # pixels; 0 before the first frame
    height: int
    format: str  # of the source; "" before the first frame
    codec: str  # "h264", "vp9", "av1", "ffv1", "gif" or "png"
    is_lossless: bool  # the file has the source's pixels bit for bit
    end: str  # why the recording is over; "" while it runs


class _Picture(NamedTuple):
    array: np.ndarray[Any, Any]
    format: str
    chosen: Chosen


class Recording:
    """The two threads of a Recorder, which do not keep it alive: one reads pictures, the other encodes them."""

    def __init__(
        self,
        source: Source,
        destination: Destination,
        selection: FrameSelection,
        rate: float | None,
        seconds: float | None,
        drop: bool,
    ) -> None:
        self.destination = destination
        self.over = threading.Event()
        self._pid = os.getpid()
        self._source, self._selection, self._rate, self._drop = source, selection, rate, drop
        self._deadline = None if seconds is None else time.monotonic() + seconds  # while no frame has come
        most = min(_BACKLOG_PICTURES, _BACKLOG_BYTES // max(source.nbytes, 1))
        self._backlog: Backlog[_Picture] = Backlog(max(2, most))
        self._stop = threading.Event()
        self._why = ""  # why the reading is over
        self._end_ns: int | None = None  # when it was
        self._error: BaseException | None = None
        self._has_raised = False
        self._file: recording_files.RecordedFile | None = None
        self._first: _Picture | None = None  # without its pixels
        self._format = ""  # of the source's newest picture
        self._reader = PictureReader()
        self._shape: tuple[int, ...] = ()
        self._written = 0
        self._nbytes = 0
        self._threads = [
            threading.Thread(target=target, name=f"vkshare record {name}", daemon=True)
            for name, target in (("reads", self._read), ("encodes", self._encode))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Ends the reading, and waits until the file is complete."""
        if os.getpid() != self._pid:  # a forked child has neither of the threads
            return
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def raise_error(self, is_again: bool = True) -> None:
        """Raises the error that ended the recording; with is_again=False only where it was not raised before."""
        error, has_raised, self._has_raised = self._error, self._has_raised, True
        if error is not None and (is_again or not has_raised):
            raise error

    def statistics(self) -> RecordingStatistics:
        selection, backlog, codec = self._selection, self._backlog, self.destination.encoder.codec
        end = self._end_ns if self._end_ns is not None else time.monotonic_ns()
        format = "" if self._first is None else self._format
        height, width = self._shape[:2] if self._shape else (0, 0)
        return RecordingStatistics(
            frames=self._written,
            skipped=selection.skipped,
            dropped=selection.dropped,
            missing=selection.missing,
            waiting=len(backlog),
            most_waiting=backlog.longest,
            seconds=selection.end_ns(end) / SECOND,
            nbytes=self._nbytes if self._file is None else self._file.nbytes,
            width=width,
            height=height,
            format=format,
            codec=codec,
            is_lossless=bool(format) and recording_pixels.is_exact(codec, format),
            end=("" if not self.over.is_set() else str(self._error) if self._error is not None else self._why),
        )

    # ---- the thread that reads -----------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            self._why = self._read_to_the_end()
        except BaseException as error:
            self._fail(error)
        finally:
            self._end_ns = time.monotonic_ns()
            with contextlib.suppress(VkshareError):
                self._reader.close()
            self._source.close()
            self._backlog.end()

    def _read_to_the_end(self) -> str:
        while not self._stop.is_set():
            if self._selection.is_full:
                return f"{self._selection.chosen} frames were recorded"
            if self._selection.is_over or self._is_late():
                return "its seconds are over"
            try:
                with self._source.receiver.frame(_SLICE) as frame:
                    self._take(frame.surface, frame.metadata)
            except (AcquireTimeout, AbandonedError):
                continue
            except ClosedError:
                if not self._source.watch_again():
                    return _ENDED
        return CLOSED

    def _is_late(self) -> bool:
        if self._selection.chosen:
            return self._selection.is_late(time.monotonic_ns())
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _take(self, surface: Any, metadata: bytes) -> None:
        serial, time_ns = self._source.stamp(metadata)
        while not (has_room := self._backlog.has_room(0 if self._drop else _SLICE)):
            if self._drop or self._stop.is_set():
                break
        chosen = self._selection.offer(time_ns, serial, has_room=has_room)
        if chosen is None:
            return
        try:
            array, format = self._reader.read(surface, self._stop.is_set)
        except (AcquireTimeout, AbandonedError):
            self._selection.missing += 1
            return
        self._format = surface.format
        self._backlog.put(_Picture(array, format, chosen))

    # ---- the thread that encodes ---------------------------------------------------------------------------------

    def _encode(self) -> None:
        try:
            while (picture := self._backlog.take()) is not None:
                self._write(picture)
        except BaseException as error:
            self._fail(error)
        finally:
            lost = self._backlog.discard()
            self._threads[0].join()  # the file's length is known then, and the counters rest
            self._selection.dropped += lost
            self._finish()
            self.over.set()

    def _write(self, picture: _Picture) -> None:
        array, format, _ = picture
        if self._file is None:
            height, width = array.shape[:2]
            self._file = recording_files.opened(self.destination, width, height, format, self._rate)
        if self._first is None or self._shape != array.shape or format != self._first.format:
            self._note_kind(picture)
        self._file.write(array, format, picture.chosen)
        self._written += 1

    def _note_kind(self, picture: _Picture) -> None:
        """The first picture, or one of another kind than those before it.

        Raises
        ------
        UnsupportedError
            A video has one size, and one pixel format.
        """
        codec, before = self.destination.encoder.codec, self._first
        if before is not None and codec != "png":
            (height, width), (new_height, new_width) = self._shape[:2], picture.array.shape[:2]
            formats = [recording_pixels.pixel_format(codec, each.format) for each in (before, picture)]
            if (height, width) != (new_height, new_width) or formats[0] != formats[1]:
                raise UnsupportedError(
                    f"a change of size within {str(self.destination.path)!r}",
                    f"its pictures became {new_width}x{new_height} {picture.format} after {self._written} frames of "
                    f"{width}x{height} {before.format}, and the file is complete up to there",
                    "a sequence of PNG files may change",
                )
        self._shape = picture.array.shape
        self._first = _Picture(np.empty(0), picture.format, picture.chosen)

    def _finish(self) -> None:
        file = self._file
        if file is None:
            return
        try:
            file.finish(self._selection.end_ns(self._end_ns or time.monotonic_ns()))
        except BaseException as error:
            self._fail(error)
        self._nbytes, self._file = file.nbytes, None

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._stop.set()
