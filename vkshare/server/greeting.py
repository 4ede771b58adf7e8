"""The requests that the loop answers itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import vkshare
from vkshare.server import messages as m
from vkshare.server.conversation import Route
from vkshare.server.kinds import Answer, Kind, Request

if TYPE_CHECKING:
    from vkshare.server.served import ServedClient


def hello(client: ServedClient, request: Request) -> Answer:
    client.name = request.body.name
    adapter = client.server.devices.adapter
    capabilities = adapter.capabilities
    return Answer.of(
        m.Welcome(
            vkshare.__version__,
            client.number,
            adapter.backend,
            adapter.name,
            capabilities.device_uuid,
            capabilities.driver_uuid,
        )
    )


def no_op(client: ServedClient, request: Request) -> Answer:
    return Answer()


def statistics(client: ServedClient, request: Request) -> Answer:
    return Answer.of(m.Told(dataclasses.asdict(client.server.statistics())))


KINDS = (
    Kind(m.Op.HELLO, m.Hello, Route.INLINE, hello),
    Kind(m.Op.NO_OP, None, Route.INLINE, no_op),
    Kind(m.Op.STATISTICS, None, Route.INLINE, statistics),
)
