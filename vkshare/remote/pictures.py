"""The viewer's images, and the turns on them. Thread-safe.

Each image is a surface under a keyed mutex whose key is the number of the next turn. A turn
acquires with its number and releases with the next one: so each session repeats its program's
requests alone, and the mutex puts the sessions in the order of the host's grants (rules M2, M4).
No acquire here has a time limit.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vkshare.core.device import Device
from vkshare.core.surface import Surface
from vkshare.errors import AbandonedError, ClosedError, DeviceLostError, InvalidCallError, NotOwnerError, VkshareError
from vkshare.remote import relay_messages as m

if TYPE_CHECKING:
    from vkshare.core.commands import Submission
    from vkshare.server.executor import Executor

_log = logging.getLogger("vkshare.remote")

MOST_IMAGES = 1 << 16  # of which a host has 4,096 that are in use, and more whose turns are not over

# Errors of a handle after which another attempt to pass a turn on would fail, too.
_LASTING = (AbandonedError, ClosedError, DeviceLostError, NotOwnerError)


@dataclass(slots=True)
class _Handle:
    """A session's handle of an image. Turns that were requested wait with it, so it lives until they are over."""

    surface: Surface | None = None  # None: it could not be opened
    after: int = 0  # the number after its last turn


@dataclass(slots=True)
class _Passing:
    """A turn that passes on: its number, and the handle that does it; None: a new one."""

    number: int
    surface: Surface | None = None
    is_owned: bool = False  # by the handle
    is_reported: bool = False  # a message says that it is late


@dataclass(slots=True)
class _Picture:
    """One image. `handles` are those of the sessions that use it, `left` those of sessions that are over."""

    spec: m.Image
    first: Surface | None = None
    handles: dict[Executor, _Handle] = field(default_factory=dict)
    left: list[_Handle] = field(default_factory=list)
    turns: int = -1  # after so many it is closed; -1: it is in use
    is_broken: bool = False  # its surface could not be made, so it has no turns
    passing: list[_Passing] = field(default_factory=list)  # turns that could not be passed on yet

    def surfaces(self) -> list[Surface]:
        """All handles of the image."""
        found = [handle.surface for handle in (*self.handles.values(), *self.left)]
        return [surface for surface in (*found, self.first) if surface is not None]


class Pictures:
    """All images of a viewer."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lock = threading.Lock()
        self._pictures: dict[int, _Picture] = {}
        # Surfaces that submitted or held work uses, with that work: closed once it is over.
        self._used: list[tuple[Submission, Surface]] = []
        self._last_client = 0  # up to this number, sessions of the render server are of a link's session that is over

    # ---- images ------------------------------------------------------------------------------------------------

    def add(self, spec: m.Image) -> None:
        """Notes an image; its surface is made when a turn needs it. InvalidCallError: the host breaks the protocol."""
        with self._lock:
            if spec.id in self._pictures or len(self._pictures) >= MOST_IMAGES:
                raise InvalidCallError(f"image {spec.id} is there already, or there are {MOST_IMAGES} images")
            self._pictures[spec.id] = _Picture(spec)

    def forget(self, number: int, turns: int) -> None:
        """Closes an image once it has had so many turns."""
        with self._lock:
            picture = self._pictures.get(number)
            if picture is not None:
                picture.turns = turns
        self.reap()

    def _found(self, executor: Executor, number: int) -> _Picture:
        """The image. Under the lock."""
        if executor.client <= self._last_client:  # its link's session has other images by the same numbers
            raise InvalidCallError("the session of this program is over")
        picture = self._pictures.get(number)
        if picture is None:
            raise InvalidCallError(f"the viewer has no image {number}")
        return picture

    def _opened(self, picture: _Picture) -> Surface:
        """Another handle of an image. Under the lock."""
        if picture.is_broken:  # with the turns that have failed since: a surface of now would wait for them
            raise InvalidCallError(f"the viewer could not make image {picture.spec.id}: create another surface")
        if picture.first is None:
            spec, picture.is_broken = picture.spec, True
            picture.first = self.device.create_surface(spec.width, spec.height, spec.format, usage=spec.usage)
            picture.is_broken = False
        with picture.first.export() as descriptor:
            return self.device.open_surface(descriptor)

    def leave(self, executor: Executor) -> None:
        """Notes that a session is over. Its turns, which may wait for others, go on."""
        with self._lock:
            for picture in self._pictures.values():
                handle = picture.handles.pop(executor, None)
                if handle is not None:
                    picture.left.append(handle)
        self.reap()

    # ---- turns -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def turns(self, executor: Executor, turns: tuple[m.Turn, ...]) -> Iterator[list[Surface]]:
        """Acquires the images of some turns, and releases them to the next turns.

        Each turn passes on, whatever fails: other programs wait for it.
        """
        acquired: list[tuple[m.Turn, Surface]] = []
        error: Exception | None = None
        try:
            for turn in turns:
                try:
                    acquired.append((turn, self.begin(executor, turn)))
                except Exception as failure:
                    error = error or failure
            if error is not None:
                raise error
            yield [handle for _, handle in acquired]
        finally:
            for turn, handle in acquired:
                self.end(turn, handle)

    def begin(self, executor: Executor, turn: m.Turn) -> Surface:
        """Acquires the image of a turn, for end(). If that fails, the turn passes on without a use."""
        with self._lock:
            picture = self._found(executor, turn.image)
            handle = picture.handles.setdefault(executor, _Handle())
            if turn.number < handle.after:  # it has passed on
                raise InvalidCallError(f"turn {turn.number} of image {turn.image} is over for this program")
            handle.after = turn.number + 1
        try:
            if handle.surface is None:
                with self._lock:
                    handle.surface = self._opened(picture)
            handle.surface.acquire(turn.number, mode="gpu")  # not under the lock, because it may wait for others
        except Exception:
            self._pass_on(picture, _Passing(turn.number))
            raise
        return handle.surface

    def end(self, turn: m.Turn, handle: Surface) -> None:
        """Releases the image to the next turn."""
        with self._lock:
            picture = self._pictures.get(turn.image)
            if picture is None or handle not in picture.surfaces():  # its link's session is over
                return
        self._pass_on(picture, _Passing(turn.number, handle, is_owned=True))

    def _pass_on(self, picture: _Picture, turn: _Passing) -> None:
        """Has the next turn follow. Where that fails, reap() tries again."""
        try:
            if turn.surface is None:
                # The acquires of one handle are granted in their order, and later turns may wait on the session's.
                with self._lock:
                    turn.surface = self._opened(picture)
                    picture.left.append(_Handle(turn.surface, turn.number + 1))
            if not turn.is_owned:
                turn.surface.acquire(turn.number, mode="gpu")
                turn.is_owned = True
            turn.surface.release(turn.number + 1)
        except Exception as error:
            is_over = isinstance(error, _LASTING) or picture.is_broken
            with self._lock:
                if not is_over:
                    picture.passing.append(turn)
            if not turn.is_reported:
                turn.is_reported = True
                when = "was not passed on" if is_over else "is passed on later"
                _log.warning("turn %d of image %d %s: %s", turn.number, picture.spec.id, when, error)

    def keep(self, submission: Submission, surface: Surface) -> None:
        """Closes a surface once the submission has run."""
        with self._lock:
            self._used.append((submission, surface))

    def reap(self) -> None:
        """Closes what is over, and passes on the turns for which that has failed."""
        with self._lock:
            late = [(picture, turn) for picture in self._pictures.values() for turn in picture.passing]
            for picture, _ in late:
                picture.passing = []
        for picture, turn in late:
            self._pass_on(picture, turn)
        with self._lock:
            closing = [surface for submission, surface in self._used if _is_over(submission)]
            self._used = [pair for pair in self._used if pair[1] not in closing]
            for number, picture in list(self._pictures.items()):
                if picture.turns >= 0 and _has_had(picture, picture.turns):
                    del self._pictures[number]
                    closing += picture.surfaces()
                elif picture.left:
                    over = [handle for handle in picture.left if _has_had(picture, handle.after)]
                    picture.left = [handle for handle in picture.left if handle not in over]
                    closing += [handle.surface for handle in over if handle.surface is not None]
        for surface in closing:
            surface.close()

    def end_session(self, last_client: int) -> None:
        """Closes everything, because the link's session is over, and with it the server's sessions up to that one."""
        with self._lock:
            self._last_client = last_client
        self.close()

    def close(self) -> None:
        """Closes everything."""
        with self._lock:
            pictures, self._pictures = self._pictures, {}
            used, self._used = self._used, []
        for picture in pictures.values():
            for surface in picture.surfaces():
                surface.close()
        for _, surface in used:
            surface.close()


def _is_over(submission: Submission) -> bool:
    try:
        return not submission.is_held and submission.is_done()
    except VkshareError:
        return True


def _has_had(picture: _Picture, turns: int) -> bool:
    """Whether the image has had so many turns, and their work is done."""
    if picture.first is None:
        return turns == 0 or picture.is_broken
    try:
        state = picture.first.mutex.statistics()
    except VkshareError:  # the device is closed or lost
        return True
    return state.state != "owned" and state.key >= turns and state.completed >= state.value
