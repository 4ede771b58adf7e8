"""Recordings: the frames of a source as a video, or as pictures, in a file."""

from __future__ import annotations

import os
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vkshare.core.device import Device
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, UnsupportedError
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error
from vkshare.util.forks import OwnLock
from vkshare.view import recording_files, recording_kinds, recording_pixels
from vkshare.view.backlog import Backlog
from vkshare.view.frame_selection import SECOND, Chosen, FrameSelection
from vkshare.view.recording_kinds import Destination
from vkshare.view.sources import Source

_SLICE = 0.05  # seconds between two looks whether the recording is to end
_PATIENCE = 10.0  # seconds that a frame's own work may take
_BACKLOG_BYTES = 256 << 20  # of pictures that wait for the encoder
_BACKLOG_PICTURES = 64
_LONGEST = 86400.0 * 365
_MOST_FRAMES = 2**53
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


def record(
    source: Any,
    path: Any,
    *,
    device: Device | None = None,
    rate: float | None = None,
    seconds: float | None = None,
    frames: int | None = None,
    codec: str | None = None,
    crf: int | None = None,
    drop: bool = True,
    force: bool = False,
) -> Recorder:
    """Begins to record the frames of a source, beside the program.

    The source's owner never waits for the recording (rule W4): frames that the encoder cannot keep up with are
    dropped and counted. Frames keep their times, so a source that stands still for a minute is a minute in
    the video.

    Parameters
    ----------
    source
        A Surface, Sender, headless Swapchain or Compositor, or the name that one is published by, which are watched.
        A Receiver: its frames are taken, and nothing else may take them until the recording is over.
    path
        The file. Its ending says the kind: .mp4 (H.264), .webm (VP9), .mkv (FFV1, lossless), .gif, .png (one picture;
        a sequence where the name has a number such as ``%05d``).
    device
        The device that reads the frames; None: one of the recording's own, on the source's adapter.
    rate
        Frames a second at most; None: each frame.
    seconds, frames
        End by itself after so long, or after so many; None: without limit.
    codec
        "h264", "vp9", "av1", "ffv1", "gif" or "png", where the kind of file may have it; None: its default.
    crf
        The encoder's quality: a smaller number is a larger, better file; h264 has 0 to 51 (default 20), vp9 and av1
        have 0 to 63 (default 30).
    drop
        False: frames wait for the encoder, and a pipe's sender waits with them, once the pipe is full.
    force
        Whether an existing file is replaced.

    Returns
    -------
    Recorder
        Close it, or use it in a ``with`` block: the file is complete then.

    Raises
    ------
    ValueError, TypeError
        An argument is wrong; the text lists what is allowed.
    OSError
        The file exists, or cannot be made there.
    UnsupportedError
        PyAV is not installed (``vkshare[view]``), or its build has no such encoder.
    VkshareError
        The source cannot be watched.

    Examples
    --------
    >>> sender, descriptor = vks.pipe(device, 64, 48)
    >>> with sender, descriptor, vks.open_receiver(device, descriptor) as receiver:
    ...     with vks.view.record(receiver, folder / "out.mkv", frames=2) as recorder:
    ...         for red in (0.5, 1):
    ...             with sender.frame() as frame:
    ...                 submission = device.submit(device.record().clear(frame.view, (red, 0, 0, 1)))
    ...         recorder.wait(30)
    True
    """
    if rate is not None:
        rate = arguments.number("rate", rate, 0.001, 1000)
    if seconds is not None:
        seconds = arguments.number("seconds", seconds, 0.001, _LONGEST)
    if frames is not None:
        frames = arguments.integer("frames", frames, 1, _MOST_FRAMES)
    destination = recording_kinds.destination(path, codec=codec, crf=crf, force=force)
    if destination.is_one_picture:
        frames = 1
    arguments.flag("drop", drop)
    watched = Source(source, device)
    with on_error(watched.close):
        return Recorder(_Recording(watched, destination, FrameSelection(rate, seconds, frames), rate, seconds, drop))


class Recorder(FlagClosing):
    """A recording that runs. Made by ``vks.view.record()``. Thread-safe.

    It ends by itself after its seconds or frames, or when its source ends; close() ends it before. The
    file is complete then. A process that is killed leaves a file that can be played up to some
    half a second before.
    """

    _unpicklable = "it belongs to the process that records"

    def __init__(self, recording: _Recording) -> None:
        self._own = OwnLock(self)
        self._recording = recording
        # At exit, too: the threads are daemons, and would leave the file incomplete.
        self._finalizer = weakref.finalize(self, recording.end)
        recording.start()
        self._closed = False

    @property
    def path(self) -> str:
        """The file, as it was given."""
        return str(self._recording.destination.path)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the recording is over, and its file complete.

        Parameters
        ----------
        timeout
            Seconds to wait; 0 tests; None: without limit.

        Returns
        -------
        bool
            Whether it is over.

        Raises
        ------
        OSError
            The disk is full, or the like; what was written before is kept.
        UnsupportedError
            The encoder refuses the source's size; or a video's source has another size than before: the file is
            complete up to there.
        VkshareError
            The device was lost, or the like.
        """
        self._own.check()
        is_over = self._recording.over.wait(arguments.timeout(timeout))
        if is_over:
            self._recording.raise_error()
        return is_over

    def statistics(self) -> RecordingStatistics:
        """Returns a snapshot of the recording."""
        return self._recording.statistics()

    def close(self) -> None:
        """Ends the recording, and completes the file. Idempotent.

        Raises
        ------
        OSError, VkshareError
            The recording had failed, and no wait() has raised the error yet.
        """
        if self._closed:
            return
        self._own.check()
        self._finalizer.detach()
        self._closed = True
        self._recording.end()
        self._recording.raise_error(is_again=False)

    def _is_lost(self) -> bool:
        return not self._closed and self._own.is_here

    def __repr__(self) -> str:
        known = self.statistics()
        state = known.end or "recording"
        return f"<vkshare.view.Recorder of {self.path!r}, {known.codec}, {known.frames} frames, {state}>"


class _Picture(NamedTuple):
    array: np.ndarray[Any, Any]
    format: str
    chosen: Chosen


class _Recording:
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
        format = "" if self._first is None else self._first.format
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
        return "it was closed"

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
            array = surface.read(_PATIENCE)
        except (AcquireTimeout, AbandonedError):
            self._selection.missing += 1
            return
        self._backlog.put(_Picture(array, surface.format, chosen))

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
