"""A decoder's pictures in the order of their times, each up to the next one's, and seeks to a time."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import TYPE_CHECKING

from vkshare.errors import VideoError

if TYPE_CHECKING:
    from vkshare.video.decoder import Decoder, Picture

# How far before the target to begin, in seconds, where the container's seek went too far, or to where nothing can be
# decoded; None: at the start.
_STEPS_BACK = (Fraction(0), Fraction(1), Fraction(5), Fraction(30), None)


class Pictures:
    """Looks one picture ahead: containers' durations are a guess where frames are not evenly spaced. For one thread."""

    def __init__(self, decoder: Decoder, *, may_begin_damaged: bool) -> None:
        self._decoder, self._may_begin_damaged = decoder, may_begin_damaged
        self._ahead: deque[Picture | VideoError | None] = deque()
        self._target: Fraction | None = None  # of a seek that is to be done

    def peek(self) -> Picture:
        """Return the first picture, which next() returns later, behind an error if there is damage before it.

        Raises
        ------
        VideoError
            There is none; or there is damage before it, and it may not begin so.
        """
        failed: VideoError | None = None
        while not (found := self._take()) or isinstance(found, VideoError):
            if found is None or not self._may_begin_damaged:
                raise found or failed or self._decoder.error("it has no frames")
            failed = failed or found
        self._ahead.appendleft(found)
        if failed is not None:
            self._ahead.appendleft(failed)
        return found

    def next(self) -> Picture | None:
        """Return the next picture; None after the last.

        Raises
        ------
        VideoError
            The file is damaged here; the next call goes on behind it.
        """
        target, self._target = self._target, None
        found = self._take() if target is None else self._sought(target)
        if isinstance(found, VideoError):
            raise found
        if found is None:
            return None
        following = self._take()
        self._ahead.appendleft(following)
        if following is None or isinstance(following, VideoError) or following.pts <= found.pts:
            return found
        return found._replace(duration=following.pts - found.pts)

    def seek(self, position: Fraction) -> None:
        """Have next() return the picture that is shown at that time, in seconds after the first one."""
        self._target = position

    def close(self) -> None:
        """Drops what it looked ahead at."""
        self._ahead.clear()

    def _take(self) -> Picture | VideoError | None:
        if self._ahead:
            return self._ahead.popleft()
        try:
            return self._decoder.decoded()
        except VideoError as error:
            return error

    def _sought(self, target: Fraction) -> Picture | VideoError | None:
        """The picture before the first one after the target."""
        shown = following = None
        errors: list[VideoError] = []
        for back in _STEPS_BACK:
            self._ahead.clear()
            self._decoder.go(target, back)
            shown, following, errors = self._around(target, is_start=back is None)
            if shown is not None:
                break
        self._ahead.append(following)
        if errors and (shown is None or following is not None):
            return errors[0]  # the target may lie in what is damaged
        if shown is None:  # the first one comes later
            return self._ahead.popleft()
        if following is None and shown.pts + shown.duration <= target:
            return None
        return shown

    def _around(self, target: Fraction, *, is_start: bool) -> tuple[Picture | None, Picture | None, list[VideoError]]:
        """The last picture up to the target, the first one after it, and what is damaged between them.

        Damage before the former does not count, nor do pictures before a keyframe: after a jump into a file they may
        refer to others that were not decoded.
        """
        shown: Picture | None = None
        is_whole = is_start
        errors: list[VideoError] = []
        while (found := self._take()) is not None:
            if isinstance(found, VideoError):
                errors.append(found)
                continue
            is_whole = is_whole or found.frame.key_frame
            if found.pts > target:
                return shown, found, errors
            if is_whole:
                shown = found
                errors.clear()
        return shown, None, errors
