"""The widget of ``vks.show()``. Loads anywidget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget

from vkshare.view import bundle


class PictureWidget(anywidget.AnyWidget):
    """A picture in a notebook's page. Its state is in the messages that it exchanges with its views."""

    _esm = bundle.widget()
    _css = bundle.style()

    def __init__(self, on_message: Callable[[Any], None]) -> None:
        super().__init__()
        self.on_msg(lambda _, content, buffers: on_message(content))

    def pass_on(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        """Sends a message to all views, from any thread. A kernel that has lost its page sends nothing."""
        if self.comm is not None:
            self.send(content, buffers)
