"""The state machine of one viewer, and of the video that viewers share (rules W3 and W4).

Free of threads, sockets and clocks: times are seconds of any clock that runs evenly.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

MOST_UNACKNOWLEDGED = 3  # frames
MOST_BYTES = 8 << 20  # of unacknowledged frames; a single one may be larger
REST = 0.5  # seconds without a change until a picture counts as at rest, and is sent lossless
_HOT_PICTURES = 3  # large changes within REST seconds: the picture moves
KEY_INTERVAL = 0.5  # seconds between keyframes that viewers out of step ask for
PATIENCE = 0.1  # seconds that the shared video waits for a viewer's acknowledgement


class Kind(enum.Enum):
    """How a picture is sent."""

    TILES = "tiles"
    VIDEO = "video"


class Mode(enum.Enum):
    """A viewer's choice."""

    AUTO = "auto"
    LOSSLESS = "lossless"
    VIDEO = "video"


class ViewerState:
    """One viewer. A viewer that connects again gets another state.

    The damage is the union of all changes since the picture that the viewer shows, so that tiles are
    always right for that viewer, whatever it has missed. After a picture of video all is damaged.

    Parameters
    ----------
    everything
        The mask of all tiles.
    has_video
        Whether video can be sent at all.
    """

    __slots__ = (
        "_acknowledged_at",
        "_changed_at",
        "_damage",
        "_everything",
        "_has_video",
        "_is_hot",
        "_is_hurried",
        "_is_new",
        "_large",
        "_mode",
        "_next_frame",
        "_unacknowledged",
        "stream_at",
    )

    def __init__(self, everything: int, *, has_video: bool) -> None:
        self._everything = everything
        self._has_video = has_video
        self._mode = Mode.AUTO
        self._damage = 0
        self._is_new = False  # the picture has changed since the last frame that was sent
        self._is_hot = False
        self._is_hurried = False
        self._changed_at = float("-inf")
        self._acknowledged_at = float("-inf")
        self._large: deque[float] = deque(maxlen=_HOT_PICTURES)  # times of the last large changes
        self._next_frame = 1
        self._unacknowledged: deque[tuple[int, int]] = deque()  # (frame, bytes), oldest first
        self.stream_at = 0  # the access unit of the shared video that this viewer got last

    @property
    def damage(self) -> int:
        """The mask of the tiles that the viewer may show otherwise than the picture is."""
        return self._damage

    @property
    def unacknowledged(self) -> tuple[int, ...]:
        """Frames that were sent and not acknowledged, oldest first."""
        return tuple(frame for frame, _ in self._unacknowledged)

    @property
    def has_video(self) -> bool:
        """Whether video can be sent to this viewer at all."""
        return self._has_video

    @property
    def has_room(self) -> bool:
        """Whether another frame may be sent."""
        waiting = self._unacknowledged
        return len(waiting) < MOST_UNACKNOWLEDGED and (not waiting or sum(size for _, size in waiting) < MOST_BYTES)

    def change(self, damage: int, is_large: bool, now: float) -> None:
        """A newer picture is there, which differs in these tiles from the one before."""
        if not damage:
            return
        self._damage |= damage
        self._is_new = True
        self._changed_at = now
        if is_large:
            self._large.append(now)
            if len(self._large) == _HOT_PICTURES and now - self._large[0] <= REST:
                self._is_hot = True

    def set_mode(self, mode: Mode) -> None:
        """Follow the viewer's choice."""
        self._mode = mode

    def lose_video(self, now: float) -> None:
        """There is no video any more: all of the picture is sent anew."""
        self._has_video = False
        self.change(self._everything, False, now)

    def hurry(self) -> None:
        """No other picture will come: the last one is sent lossless at once."""
        self._is_hurried = True

    def next(self, now: float) -> Kind | None:
        """How the newest picture is to be sent now; None: there is nothing to send, or it may not be sent."""
        if not self._damage or not self.has_room:
            return None
        if not self._wants_video(now) or self._is_at_rest(now):
            return Kind.TILES
        return Kind.VIDEO if self._is_new else None

    def sent(self, kind: Kind) -> int:
        """The newest picture is sent; return the frame's number."""
        frame = self._next_frame
        self._next_frame += 1
        self._unacknowledged.append((frame, 0))
        self._is_new = False
        self._damage = self._everything if kind is Kind.VIDEO else 0
        return frame

    def note_size(self, frame: int, nbytes: int) -> None:
        """A frame's message has so many bytes."""
        self._unacknowledged = deque((each, nbytes if each == frame else size) for each, size in self._unacknowledged)

    def acknowledged(self, frame: int, now: float) -> None:
        """The viewer shows a frame, and needs none before it.

        Raises
        ------
        ValueError
            The frame was not sent, or was acknowledged before.
        """
        if frame not in self.unacknowledged:
            raise ValueError(f"frame {frame} was acknowledged; unacknowledged are {list(self.unacknowledged)}")
        while self._unacknowledged and self._unacknowledged[0][0] <= frame:
            self._unacknowledged.popleft()
        self._acknowledged_at = now

    def deadline(self) -> float | None:
        """When next() says something else, if nothing happens until then; None: never."""
        if not self._damage or not self.has_room or not self._has_video:
            return None
        return min(self._changed_at, self._large[-1] if self._is_hot else self._changed_at) + REST

    def holds_stream(self, position: int, now: float) -> float | None:
        """Until when the shared video, which is at `position`, waits for this viewer; None: it does not.

        The viewer has got all of the video, and acknowledges soon.
        """
        until = self._acknowledged_at + PATIENCE
        is_in_step = self._is_new and self.stream_at == position and self._wants_video(now)
        return until if is_in_step and not self.has_room and now < until else None

    def is_streaming(self, now: float) -> bool:
        """Whether the viewer shows video now, and goes on with it."""
        return bool(self._damage) and self._wants_video(now)

    def _wants_video(self, now: float) -> bool:
        if not self._has_video or self._mode is Mode.LOSSLESS:
            return False
        if self._is_hot and now - self._large[-1] >= REST:
            self._is_hot = False
        return self._mode is Mode.VIDEO or self._is_hot

    def _is_at_rest(self, now: float) -> bool:
        return self._is_hurried or now - self._changed_at >= REST


class StreamPlan(NamedTuple):
    """The next step of the shared video."""

    viewers: tuple[ViewerState, ...] = ()  # that get the next access unit
    is_key: bool = False
    again_at: float | None = None  # when to plan again, if nothing happens until then


class StreamState:
    """The video that the viewers of a picture share: one encoder, whose access units follow from one another.

    A viewer that has missed one is out of step, and needs a keyframe, which all others get as well.
    So keyframes are rare, and the stream waits a moment for viewers that acknowledge soon.
    """

    def __init__(self) -> None:
        self.position = 0  # access units so far
        self._key_at = float("-inf")

    def plan(self, viewers: Iterable[ViewerState], now: float) -> StreamPlan:
        """Return which viewers get the next access unit, if there is to be one."""
        viewers = tuple(viewers)
        wanting = tuple(each for each in viewers if each.next(now) is Kind.VIDEO)
        if not wanting:
            return StreamPlan()
        held = [until for each in viewers if (until := each.holds_stream(self.position, now)) is not None]
        if held:
            return StreamPlan(again_at=min(held))
        in_step = tuple(each for each in wanting if self._has(each))
        if len(in_step) == len(wanting):
            return StreamPlan(in_step)
        # Viewers that show the picture already get its keyframe too, or they would be out of step.
        others = tuple(each for each in viewers if each not in wanting and self._has(each) and each.is_streaming(now))
        if not (in_step or others) or now - self._key_at >= KEY_INTERVAL:
            return StreamPlan((*wanting, *(each for each in others if each.has_room)), is_key=True)
        return StreamPlan(in_step, again_at=self._key_at + KEY_INTERVAL)

    def advance(self, plan: StreamPlan, now: float) -> None:
        """The access unit of a plan is encoded, and goes to the plan's viewers."""
        self.position += 1
        if plan.is_key:
            self._key_at = now
        for each in plan.viewers:
            each.stream_at = self.position

    def _has(self, viewer: ViewerState) -> bool:
        """Whether a viewer has got all of the video."""
        return self.position > 0 and viewer.stream_at == self.position
