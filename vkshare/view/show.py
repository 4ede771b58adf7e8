"""A source as a view server shows it: its frames, read by one thread, and encoded by another for all viewers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare.util.closing import Scoped
from vkshare.view.sources import Source

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.view.viewer_session import EncoderViewer


class Show(Scoped):
    """The feed and the encoder of one source. Errors are those of Source.

    Parameters
    ----------
    source, device
        As of Source.
    name
        The name that viewers see.
    """

    def __init__(self, source: Any, device: Device | None, name: str) -> None:
        from vkshare.view.encoder import Encoder  # here, because NumPy and PyAV take their time to load
        from vkshare.view.feed import Feed

        with contextlib.ExitStack() as made:
            self._source = made.enter_context(Source(source, device))
            self._feed = Feed(self._source.receiver)
            made.callback(self._feed.close)
            self._encoder = Encoder(self._feed, name=name)
            made.callback(self._encoder.close)
            self._made = made.pop_all()

    @property
    def end(self) -> str | None:
        """Why the source has ended; None while it goes on."""
        return self._feed.end

    def attach(self, send: Callable[[bytes], None]) -> EncoderViewer:
        """Begin to send pictures to a viewer."""
        return self._encoder.attach(send)

    def close(self) -> None:
        """End the threads, and the watch of the source. Idempotent."""
        self._made.close()
