"""A client's side: frames that say which tick they were drawn for, on a device of the server's adapter."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.render_servers import Place, until

import vkshare as vks
from vkshare.compositor import Desktop, Service, frame_sources

pytest_plugins = ["support.compositor_fixtures"]

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
    stamped = frame_sources._stamped

    def note(metadata: bytes) -> int:
        seen.append(stamped(metadata))
        return seen[-1]

    monkeypatch.setattr(frame_sources, "_stamped", note)
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


def test_a_desktop_without_a_device_takes_one_of_the_servers_adapter(
    compose: Compose, stack: ExitStack, tmp_path: Path
) -> None:
    """Also where this process would have opened another one, whose memory is of no use to the compositor."""
    compositor = compose(device=lambda: vks.open(backend="cpu"))
    service = stack.enter_context(Service([compositor]))
    server = stack.enter_context(Place(tmp_path)).server(kinds=service.kinds)  # on the CPU backend
    desktop = stack.enter_context(Desktop(server.path, name="a name longer than a device's may be"))
    assert desktop.device.backend == "cpu"
    window = desktop.open_window(8, 4)
    with window.frame(timeout=20) as frame:
        desktop.device.submit(desktop.device.record().clear(frame.surface, (1, 0, 0, 1)))
    until(lambda: window.statistics()["shown"] == 1)
    device = desktop.device
    desktop.close()
    assert device.is_closed
