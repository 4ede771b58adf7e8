"""The built-in requests that the loop answers itself: hello, no-op, statistics."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from vkshare import __version__
from vkshare.server import messages as m
from vkshare.server.request_types import Answer, Kind, Request
from vkshare.server.session_state import Route

if TYPE_CHECKING:
    from vkshare.server.session import ServedClient


def hello(client: ServedClient, request: Request) -> Answer:
    client.name = request.body.name
    adapter = client.server.devices.adapter
    capabilities = adapter.capabilities
    uuids = capabilities.device_uuid, capabilities.driver_uuid
    return Answer.of(m.Welcome(__version__, client.number, adapter.backend, adapter.name, *uuids))


def no_op(client: ServedClient, request: Request) -> Answer:
    return Answer()


def statistics(client: ServedClient, request: Request) -> Answer:
    return Answer.of(m.Counters(dataclasses.asdict(client.server.statistics())))


KINDS = (
    Kind(m.Op.HELLO, m.Hello, Route.INLINE, hello),
    Kind(m.Op.NO_OP, None, Route.INLINE, no_op),
    Kind(m.Op.STATISTICS, None, Route.INLINE, statistics),
)
