"""The views of a notebook's widget, and the encoder that they attach to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from vkshare.view import messages
from vkshare.view.widget_views import WidgetViews

pytestmark = pytest.mark.no_driver


@pytest.mark.rule("W2", "W3")
@pytest.mark.parametrize("codecs", [[], ["avc1.42E028"]])
def test_the_codecs_of_a_pages_hello_reach_the_encoder(codecs: list[str]) -> None:
    given: list[Sequence[str]] = []

    class Viewer:
        def acknowledged(self, frame: int) -> None: ...
        def set_mode(self, mode: str) -> None: ...
        def close(self) -> None: ...

    def attach(send: Callable[[bytes], None], codecs: Sequence[str]) -> Any:
        given.append(codecs)
        return Viewer()

    views = WidgetViews(lambda content, buffers: None, attach, lambda event: None)
    views._handle("a view", messages.Hello(version=1, codecs=codecs))
    assert given == [codecs]
    views.close()
