"""A client's frames say which tick they were drawn for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.servers import Place, until

import vkshare as vks
from vkshare.compositor import Desktop, Service, feeds

Compose = Callable[..., vks.compositor.Compositor]


@pytest.mark.rule("R18")
def test_a_window_stamps_each_frame_with_the_tick_that_it_gave_last(
    compose: Compose,
    vks_open: Callable[..., vks.Device],
    stack: ExitStack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    stamped = feeds._stamped

    def note(metadata: bytes) -> int:
        seen.append(stamped(metadata))
        return seen[-1]

    monkeypatch.setattr(feeds, "_stamped", note)
    compositor = compose()
    service = stack.enter_context(Service([compositor]))
    place = stack.enter_context(Place(tmp_path))
    server = place.server(kinds=service.kinds)
    desktop = stack.enter_context(Desktop(server.path, device=vks_open(name="client")))
    window = desktop.open_window(8, 4)
    drawn_for = []
    for tick in window.ticks():
        with window.frame(timeout=20) as frame:
            desktop.device.submit(desktop.device.record().clear(frame.surface, (1, 0, 0, 1)))
        drawn_for.append(tick.vsync_time)
        if len(drawn_for) == 5:
            break
    until(lambda: len(seen) == 5)
    assert seen == drawn_for
    assert all(drawn_for)
    until(lambda: sum(window.statistics()[name] for name in ("shown", "superseded", "lost")) == 5)
