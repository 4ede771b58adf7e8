"""One viewer of an encoder: what it acknowledges, and how it wants the pictures (rules W3 and W4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vkshare.util import arguments
from vkshare.util.closing import FlagClosing
from vkshare.view.viewer_state import Mode, ViewerState

if TYPE_CHECKING:
    from vkshare.view.encoder import Encoder

Send = Callable[[bytes], None]


class Viewer(FlagClosing):
    """The encoder's end of one viewer. Made by ``Encoder.attach()``. Thread-safe; no method blocks."""

    def __init__(self, encoder: Encoder, send: Send, state: ViewerState) -> None:
        self._encoder = encoder
        self._send = send
        self._state = state
        self._is_greeted = False
        self._has_ended = False
        self._closed = False

    def acknowledged(self, frame: int) -> None:
        """The viewer shows a frame; those before it count as shown, too.

        Raises
        ------
        ValueError
            The frame was not sent, or was acknowledged before.
        """
        encoder = self._encoder
        with encoder._changed:
            if not self._closed:
                self._state.acknowledged(frame, encoder._clock())
        encoder._wake()

    def set_mode(self, mode: str) -> None:
        """Follow the viewer's choice.

        Parameters
        ----------
        mode
            "auto": video while much changes, else lossless; "lossless": always; "video": video for each change, and
            lossless at rest.

        Raises
        ------
        ValueError
            It is none of these.
        """
        chosen = Mode(arguments.choice("mode", mode, tuple(each.value for each in Mode)))
        with self._encoder._changed:
            self._state.set_mode(chosen)
        self._encoder._wake()

    @property
    def unacknowledged(self) -> tuple[int, ...]:
        """Frames that were sent and not acknowledged, oldest first."""
        with self._encoder._changed:
            return self._state.unacknowledged

    def close(self) -> None:
        """Get no more messages; one that is being sent may still come. Idempotent."""
        encoder = self._encoder
        with encoder._changed:
            self._closed = True
            if self in encoder._viewers:
                encoder._viewers.remove(self)
        encoder._wake()

    def _is_lost(self) -> bool:
        return False  # it has nothing that outlives the encoder

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"unacknowledged {list(self.unacknowledged)}"
        return f"<vkshare.view.Viewer {state}>"
