"""A lane of the viewer between its link and its session. Rule M13."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vkshare as vks
from vkshare.remote.lanes import Lane
from vkshare.server import wire
from vkshare.server.messages import Hello, Op, encode

pytestmark = pytest.mark.no_driver


class Link:
    def __init__(self) -> None:
        self.consumed_bytes = 0
        self.ended: list[int] = []

    def consumed(self, lane: int, nbytes: int, *, generation: int) -> None:
        self.consumed_bytes += nbytes

    def send(self, lane: int, message: bytes, *, generation: int) -> bool:
        return True

    def end(self, lane: int, *, generation: int) -> None:
        self.ended.append(lane)


@pytest.mark.rule("M13")
def test_a_lane_whose_end_is_not_executed_leaves_no_socket_behind(vks_device: vks.Device, tmp_path: Path) -> None:
    link, deaths = Link(), list[str]()
    server = vks.server.RenderServer(vks_device, tmp_path / "viewer.sock")
    link_: Any = link
    lanes = [Lane(number, link_, 1, server, lambda: deaths.append("")) for number in range(1, 9)]
    hello = wire.pack(Op.HELLO, 1, 0xFFFFFFFF, encode(Hello("program")))
    for lane in lanes:
        lane.arrived(hello)
        lane.ended()
    server.serve_once(0)
    server.close()  # the loop takes no further turn
    assert [lane.is_closed for lane in lanes] == [True] * 8
    assert sorted(link.ended) == list(range(1, 9))
