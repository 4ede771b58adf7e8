"""Recordings: the frames of a source as a video, or as pictures, in a file."""

from __future__ import annotations

import weakref
from typing import Any

from vkshare.core.device import Device
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error
from vkshare.util.forks import OwnLock
from vkshare.video import kinds
from vkshare.view.frame_selection import FrameSelection
from vkshare.view.recording_threads import Recording
from vkshare.view.recording_threads import RecordingStatistics as RecordingStatistics
from vkshare.view.sources import Source

_LONGEST = 86400.0 * 365
_MOST_FRAMES = 2**53


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
    destination = kinds.destination(path, codec=codec, crf=crf, force=force)
    if destination.is_one_picture:
        frames = 1
    arguments.flag("drop", drop)
    watched = Source(source, device)
    with on_error(watched.close):
        return Recorder(Recording(watched, destination, FrameSelection(rate, seconds, frames), rate, seconds, drop))


class Recorder(FlagClosing):
    """A recording that runs. Made by ``vks.view.record()``. Thread-safe.

    It ends by itself after its seconds or frames, or when its source ends; close() ends it before. The
    file is complete then. A process that is killed leaves a file that can be played up to some
    half a second before.
    """

    _unpicklable = "it belongs to the process that records"

    def __init__(self, recording: Recording) -> None:
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
