"""Encoder: pictures of a feed, as messages for each of its viewers, on a thread of its own (rules W3 and W4)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vkshare.errors import AcquireTimeout, ClosedError, UnsupportedError
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing
from vkshare.util.forks import OwnLock
from vkshare.view import messages, tiles, video
from vkshare.view.damage import Grid
from vkshare.view.encoder_viewer import Send, Viewer
from vkshare.view.feed import Feed, Picture
from vkshare.view.viewer_state import Kind, StreamPlan, StreamState, ViewerState

_log = logging.getLogger("vkshare.view")

_END_PATIENCE = 2.0  # seconds after the end of the feed that viewers have to acknowledge, and get the last picture
_MOST_PACKED = 8  # sets of rectangles of one picture whose packed pixels are kept for other viewers


@dataclass(frozen=True, slots=True)
class EncoderStatistics:
    """A snapshot of an encoder."""

    viewers: int  # attached now
    pictures: int  # taken from the feed
    tiles: int  # messages with tiles, to all viewers
    videos: int  # messages with an access unit, to all viewers
    packed: int  # times that pixels were packed: viewers that need the same tiles share them
    units: int  # access units that were encoded: viewers share them
    keyframes: int  # of these
    nbytes: int  # of all messages
    unacknowledged: int  # frames of all viewers now
    codec: str  # "h264", "vp9" or "av1"; "" without video


@dataclass(frozen=True, slots=True)
class _Job:
    """A picture that is to be sent to a viewer as tiles."""

    viewer: Viewer
    frame: int
    mask: int


class Encoder(FlagClosing):
    """Sends the pictures of a feed to viewers. Thread-safe.

    The encoder takes a picture when a viewer can take one, finds the tiles that have changed, and
    sends each viewer these tiles, or video while much changes. Viewers that need the same bytes share
    the work. A viewer that does not acknowledge costs nothing.

    Parameters
    ----------
    feed
        The pictures. It stays open.
    name
        The text that viewers show.
    rate
        Pictures a second that the video is made for.
    codecs
        Of the video, in the order of preference; the first that PyAV's build has is used. Empty, or without PyAV:
        there is no video, and pictures come lossless alone.
    clock
        Seconds that run evenly; tests have their own.

    Attributes
    ----------
    failure
        Why it sends END alone from now on; empty while it works.
    """

    _unpicklable = "it belongs to the process that views"

    def __init__(
        self,
        feed: Feed,
        *,
        name: str = "",
        rate: float = 60.0,
        codecs: Sequence[str] = ("h264", "vp9", "av1"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._closed = True
        self._own = OwnLock(self)
        for each in codecs:
            arguments.choice("codecs", each, tuple(video.CODECS))
        self._rate = arguments.number("rate", rate, 1, 1000)
        self._feed, self._name, self._clock = feed, name, clock
        self._grid = Grid(feed.width, feed.height)
        self._codec = video.choose(feed.width, feed.height, codecs)
        self._changed = threading.Condition()  # guards the viewers, their states, and the newest picture
        self._viewers: list[Viewer] = []
        self._picture: Picture | None = None
        self._packed: dict[int, bytes] = {}  # of the newest picture: mask -> packed pixels
        self._stream = StreamState()
        self._video: video.VideoEncoder | None = None
        self._is_dirty = self._stopping = False
        self._ended_at: float | None = None
        self.failure = ""
        self._pictures = self._tiles = self._videos = self._packs = self._units = self._keys = self._nbytes = 0
        self._subscription = feed.subscribe(self._wake)
        self._subscription.wants = False
        self._thread = threading.Thread(target=self._run, name="vkshare view encoder", daemon=True)
        self._thread.start()
        self._closed = False

    @property
    def codec(self) -> str:
        """The codec of the video, "h264", "vp9" or "av1"; empty without video."""
        return self._codec

    def attach(self, send: Send, codecs: Sequence[str] | None = None) -> Viewer:
        """Begin to send pictures to a viewer: CONFIG first, and then the newest picture as soon as there is one.

        Parameters
        ----------
        send
            Called with each message, in order, on the encoder's thread. It must not block: at most 3 frames are on
            their way.
        codecs
            Those that the viewer can decode. Without the encoder's among them it gets no video in any mode, because
            it would never acknowledge video. None: it can decode each.

        Returns
        -------
        Viewer
            Close it when the viewer is gone.

        Raises
        ------
        ClosedError
            The encoder is closed.
        """
        self._own.check()
        with self._changed:
            if self._closed:
                raise ClosedError("this Encoder is closed")
            has_video = bool(self._codec) and (codecs is None or self._codec in codecs)
            viewer = Viewer(self, send, ViewerState(self._grid.everything, has_video=has_video))
            if self._picture is not None:
                viewer._state.change(self._grid.everything, False, self._clock())
            self._viewers.append(viewer)
        self._wake()
        return viewer

    def statistics(self) -> EncoderStatistics:
        """Return a snapshot of the encoder."""
        with self._changed:
            return EncoderStatistics(
                viewers=len(self._viewers),
                pictures=self._pictures,
                tiles=self._tiles,
                videos=self._videos,
                packed=self._packs,
                units=self._units,
                keyframes=self._keys,
                nbytes=self._nbytes,
                unacknowledged=sum(len(each._state.unacknowledged) for each in self._viewers),
                codec=self._codec,
            )

    def close(self) -> None:
        """End the thread; viewers get nothing more. Idempotent. Not from `send`, which runs on that thread."""
        self._own.check()
        with self._changed:
            if self._closed:
                return
            self._closed = self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        self._subscription.close()
        with self._changed:
            self._viewers.clear()

    def _is_lost(self) -> bool:
        return not self._closed and self._own.is_here

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._viewers)} viewers"
        return f"<vkshare.view.Encoder {self._name!r}, {self._codec or 'no video'}, {state}>"

    # ---- the thread

    def _wake(self) -> None:
        with self._changed:
            self._is_dirty = True
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            again_at: float | None = None
            while self._wait_until(again_at):
                again_at = self._step()
        except Exception:
            _log.exception("the encoder of %r has failed", self._name)
            self.failure = "the encoder has failed"
            self._send_failure()
            while self._wait_until(None):
                self._send_failure()

    def _wait_until(self, again_at: float | None) -> bool:
        """Wait for work, or for that time. False: the thread is to end."""
        with self._changed:
            timeout = None if again_at is None else max(0.0, again_at - self._clock())
            self._changed.wait_for(lambda: self._is_dirty or self._stopping, timeout)
            self._is_dirty = False
            return not self._stopping

    def _step(self) -> float | None:
        """Take the newest picture, send what may be sent, and return when to do so again if nothing happens."""
        self._greet()
        self._take()
        now = self._clock()
        with self._changed:
            plan = self._stream.plan([each._state for each in self._viewers], now)
            streamed = self._begin_video(plan, now)
            jobs = self._begin_tiles(now)
            picture = self._picture
        if picture is not None:
            if streamed:
                self._send_video(picture, streamed, plan.is_key)
            for job in jobs:
                self._send_tiles(picture, job)
        self._send_ends()
        with self._changed:
            states = [each._state for each in self._viewers]
            self._subscription.wants = any(each.has_room for each in states)
            times = [plan.again_at, *(each.deadline() for each in states)]
            if self._ended_at is not None and any(not each._has_ended for each in self._viewers):
                times.append(self._ended_at + _END_PATIENCE)
        return min((each for each in times if each is not None), default=None)

    def _greet(self) -> None:
        """Send CONFIG to new viewers."""
        with self._changed:
            new = [each for each in self._viewers if not each._is_greeted]
        width, height = self._feed.width, self._feed.height
        codec = video.codec_string(self._codec, width, height, self._rate) if self._codec else ""
        for viewer in new:
            viewer._is_greeted = True
            self._send(viewer, messages.config(width, height, codec if viewer._state.has_video else "", self._name))

    def _take(self) -> None:
        """Take the newest picture, if there is one, and note its damage for each viewer."""
        try:
            picture = self._subscription.take(0)
        except AcquireTimeout:
            return
        except ClosedError:
            self._note_end()
            return
        self._subscription.wants = False  # while this one is encoded, the feed reads none that would be replaced
        before = self._picture
        if before is None:
            damage = self._grid.everything
        else:
            damage = self._grid.compare(before.array, picture.array, is_rough=self._is_video_alone())
        is_large = before is not None and self._grid.is_large(damage)
        now = self._clock()
        with self._changed:
            self._pictures += 1
            if damage:
                self._picture = picture
                self._packed.clear()
            for viewer in self._viewers:
                # A viewer that was attached before the first picture has nothing yet, as all have.
                viewer._state.change(damage, is_large, now)

    def _is_video_alone(self) -> bool:
        """Whether each viewer shows video: its damage is the whole picture already."""
        now = self._clock()
        with self._changed:
            return bool(self._viewers) and all(each._state.is_streaming(now) for each in self._viewers)

    def _note_end(self) -> None:
        with self._changed:
            if self._ended_at is None:
                self._ended_at = self._clock()
            for viewer in self._viewers:
                viewer._state.hurry()

    def _begin_video(self, plan: StreamPlan, now: float) -> list[tuple[Viewer, int]]:
        """The viewers that get the next access unit, and the numbers of their frames."""
        if not plan.viewers:
            return []
        self._stream.advance(plan, now)
        streamed = [each for each in self._viewers if each._state in plan.viewers]
        return [(each, each._state.sent(Kind.VIDEO)) for each in streamed]

    def _begin_tiles(self, now: float) -> list[_Job]:
        jobs = []
        for viewer in self._viewers:
            if viewer._state.next(now) is Kind.TILES:
                mask = viewer._state.damage
                jobs.append(_Job(viewer, viewer._state.sent(Kind.TILES), mask))
        return jobs

    def _send_video(self, picture: Picture, streamed: list[tuple[Viewer, int]], is_key: bool) -> None:
        width, height = picture.width, picture.height
        try:
            if self._video is None:
                self._video = video.VideoEncoder(width, height, self._rate, self._codec)
            unit = self._video.encode(picture.array, picture.format, picture.time_ns, is_key=is_key)
        except UnsupportedError:
            _log.exception("pictures of %r come lossless alone from now on", self._name)
            self._end_video()
            return
        with self._changed:
            self._units += 1
            self._keys += unit.is_key
            self._videos += len(streamed)
        for viewer, frame in streamed:
            message = messages.video(frame, picture.time_ns, width, height, unit.is_key, unit.data)
            self._send(viewer, message, frame)

    def _end_video(self) -> None:
        """The codec has failed: viewers begin anew without it."""
        with self._changed:
            self._codec = ""
            for viewer in self._viewers:
                viewer._state.lose_video(self._clock())
                viewer._is_greeted = False  # for a CONFIG without a codec
            self._is_dirty = True

    def _send_tiles(self, picture: Picture, job: _Job) -> None:
        rectangles = self._grid.rectangles(job.mask)
        packed = self._packed.get(job.mask)
        if packed is None:
            packed = tiles.pack(picture, rectangles)
            if len(self._packed) < _MOST_PACKED:
                self._packed[job.mask] = packed
            with self._changed:
                self._packs += 1
        message = messages.tiles(job.frame, picture.time_ns, picture.width, picture.height, rectangles, packed)
        with self._changed:
            self._tiles += 1
        self._send(job.viewer, message, job.frame)

    def _send_ends(self) -> None:
        """Send END to the viewers that show the last picture, and to those that do not acknowledge."""
        with self._changed:
            if self._ended_at is None:
                return
            is_late = self._clock() - self._ended_at >= _END_PATIENCE
            ended = [each for each in self._viewers if not each._has_ended and (is_late or not each._state.damage)]
        for viewer in ended:
            viewer._has_ended = True
            self._send(viewer, messages.end(self._feed.end or ""))

    def _send(self, viewer: Viewer, message: bytes, frame: int | None = None) -> None:
        if viewer.is_closed:
            return
        try:
            viewer._send(message)
        except Exception:  # of the server's code: the others go on
            _log.exception("a message to a viewer of %r could not be sent", self._name)
            viewer.close()
            return
        with self._changed:
            self._nbytes += len(message)
            if frame is not None:
                viewer._state.note_size(frame, len(message))

    def _send_failure(self) -> None:
        """Send END to the viewers that have not got it, also to those that are attached later."""
        with self._changed:
            ended = [each for each in self._viewers if not each._has_ended]
        for viewer in ended:
            viewer._has_ended = True
            self._send(viewer, messages.end(self.failure))
