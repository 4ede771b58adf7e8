"""Input events of viewers, at the publisher that asked for them. Rule W5."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.child_processes import in_child
from support.published_names import LIMIT, service_is_at_rest, use_runtime
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.core.viewer_input import InputSender
from vkshare.errors import InvalidCallError
from vkshare.ipc.input_events import Event

pytest_plugins = ["support.peer_processes", "support.published_names"]
pytestmark = [pytest.mark.rule("W5"), pytest.mark.no_driver, pytest.mark.usefixtures("runtime")]


@pytest.fixture
def surface(device: vks.Device) -> Iterator[vks.Surface]:
    with device.create_surface(8, 8) as made:
        yield made


def press(key: str) -> Event:
    return Event("key_down", 0.0, key=key)


def await_events(publication: Any, count: int) -> list[tuple[int, str, str]]:
    found: list[Any] = []
    while len(found) < count:
        came = publication.events(LIMIT)
        assert came, "no event came"
        found += came
    return [(each.viewer, each.event_type, each.key) for each in found]


def connect(sender: InputSender, event: Event) -> None:
    """Send an event as soon as the publisher can be reached: attempts are a second apart."""
    wait_until(lambda: sender.send(event))


def test_the_publisher_gets_the_events_of_each_viewer_in_order(surface: vks.Surface) -> None:
    publication = surface.publish("it", wants_input=True)
    assert vks.find()[0].wants_input
    first, second = InputSender("it"), InputSender("it")
    assert all(first.send(press(key)) for key in "abc")
    assert await_events(publication, 3) == [(1, "key_down", key) for key in "abc"]
    assert second.send(Event("pointer_move", 0.0, x=3, y=4))
    (moved,) = publication.events(LIMIT)
    assert (moved.viewer, moved.x, moved.y) == (2, 3, 4)
    first.close()
    assert await_events(publication, 4) == [*((1, "key_up", key) for key in "abc"), (1, "close", "")]
    second.close()
    publication.close()
    wait_until(service_is_at_rest)


def test_a_publisher_that_did_not_ask_gets_none(surface: vks.Surface) -> None:
    publication = surface.publish("it")
    assert not vks.find()[0].wants_input
    with pytest.raises(InvalidCallError, match="wants_input=True"):
        publication.events()
    sender = InputSender("it")
    sender.send(press("a"))
    wait_until(lambda: not sender.send(press("a")))  # the refusal has come
    sender.close()


def test_input_to_a_name_that_nothing_has_is_dropped() -> None:
    assert not InputSender("nothing").send(press("a"))


def test_a_new_owner_of_the_name_gets_the_next_events(surface: vks.Surface, device: vks.Device) -> None:
    sender = InputSender("it")
    with surface.publish("it", wants_input=True) as publication:
        connect(sender, press("a"))
        await_events(publication, 1)
    with device.create_surface(8, 8) as other, other.publish("it", wants_input=True) as publication:
        got: list[Any] = []  # an event may be lost with the old owner, until the viewer sees its end
        wait_until(lambda: sender.send(press("b")) and bool(got.extend(publication.events(0)) or got))
        assert (got[0].viewer, got[0].key) == (1, "b")
    sender.close()


def test_waits_for_events_end_with_the_name(surface: vks.Surface) -> None:
    publication = surface.publish("it", wants_input=True)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(publication.events(None)))
    waiting.start()
    surface.close()
    waiting.join(LIMIT)
    assert found == [[]]


def test_a_viewer_never_waits_for_a_publisher_that_is_stopped(peers: Any, runtime: Path) -> None:
    peer = peers()
    peer.run(use_runtime, os.fspath(runtime))
    surface = peer.device.create_surface(8, 8)
    publication = surface.publish("it", wants_input=True)
    sender = InputSender("it")
    connect(sender, press("a"))
    assert [each.key for each in publication.events(LIMIT)] == ["a"]
    peer.signal(signal.SIGSTOP)
    try:
        outcomes = [sender.send(press("b")) for _ in range(5_000)]
    finally:
        peer.signal(signal.SIGCONT)
    assert outcomes[0]
    assert not outcomes[-1]  # it was given up, and the rest dropped
    assert sender.lost == outcomes.count(False)
    wait_until(lambda: "close" in [each.event_type for each in publication.events(0)])  # which releases what was held
    connect(sender, press("c"))
    wait_until(lambda: "c" in [each.key for each in publication.events(0)])
    sender.close()


def test_events_that_the_program_does_not_take_are_counted(surface: vks.Surface) -> None:
    publication = surface.publish("it", wants_input=True)
    sender = InputSender("it")
    for _ in range(6_000):
        while not sender.send(Event("char", 0.0, char_str="a")):
            sender.close()
            sender = InputSender("it")
    wait_until(lambda: publication.statistics().dropped > 0)
    counts = publication.statistics()
    assert counts.events == counts.dropped + len(publication.events())
    sender.close()


def test_a_forked_child_waits_for_no_events(surface: vks.Surface) -> None:
    publication = surface.publish("it", wants_input=True)

    def child() -> None:
        assert publication.events(None) == []

    in_child(child)
