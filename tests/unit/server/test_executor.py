"""The executor of a client's requests: its objects, and the events that it requests. Rules R6, R14."""

from __future__ import annotations

import itertools

import pytest
from support.render_servers import Place, until

from vkshare.errors import ClosedError, InvalidCallError
from vkshare.server.deadlock_check import WaitGraph
from vkshare.server.executor import Executor, RequestResult
from vkshare.util.event_queue import EventQueue

pytest_plugins = ["support.server_fixtures"]

pytestmark = pytest.mark.no_driver


@pytest.mark.rule("R14")
def test_events_of_an_executor_are_not_delivered_to_its_successor(place: Place) -> None:
    """After a device loss a client has another executor, and events for the first one may still arrive."""
    device, event_queue, serials = place.device(), EventQueue(), itertools.count(1)
    fences = device.create_fence(), device.create_fence()
    reported: list[int] = []

    def asks(executor: Executor, which: int) -> None:
        def then(error: BaseException | None) -> list[RequestResult]:
            reported.append(which)
            return []

        executor.ask(lambda event_queue, token: fences[which]._notify(1, event_queue, token), then)

    first = Executor(device, 9, 1, event_queue, WaitGraph(), serials)
    asks(first, 0)
    first.close()
    second = Executor(device, 9, 2, event_queue, WaitGraph(), serials)
    asks(second, 1)
    for which, expected in ((0, []), (1, [1])):
        fences[which].signal(1)
        tokens: list[int] = []
        until(lambda: tokens.extend(token for token, _ in event_queue.drain()) or tokens)  # noqa: B023, called here
        assert tokens[0] >> 32 == 9
        assert second.event_arrived(tokens[0] & 0xFFFFFFFF, None) == []
        assert reported == expected


def test_a_serial_that_is_outstanding_is_not_used_again(place: Place) -> None:
    tokens: list[int] = []
    executor = Executor(place.device(), 1, 1, EventQueue(), WaitGraph(), iter([1, 1, 2, (1 << 32), (1 << 32) + 1, 3]))
    for _ in range(3):
        executor.ask(lambda event_queue, token: tokens.append(token & 0xFFFFFFFF), lambda error: [])
    assert tokens == [1, 2, 3]


def test_an_executor_that_is_closed_keeps_nothing(place: Place) -> None:
    device = place.device()
    executor = Executor(device, 1, 1, EventQueue(), WaitGraph())
    seen: list[str] = []
    executor.on_close(lambda: seen.append("closed"))
    executor.on_close(lambda: 1 // 0)  # a plug-in's mistake keeps nothing else from its end
    fence, late = device.create_fence(), device.create_fence()
    executor.register(executor.fences, 1, fence, fence.close)
    executor.fences.clear()
    executor.close()
    executor.close()
    assert seen == ["closed"]
    executor.on_close(lambda: seen.append("at once"))
    assert seen == ["closed", "at once"]
    with pytest.raises(ClosedError):
        executor.register(executor.fences, 2, late, late.close)
    assert late.is_closed
    with pytest.raises(InvalidCallError, match="this client has no fence 2"):
        executor.fence(2)
    fence.close()
