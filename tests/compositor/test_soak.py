"""Clients come and go, close, leave and die, for long: what the compositor's process has is then what it had."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from compositor.conftest import Compose
from support import roles
from support.fds import open_fds
from support.scale import rounds, unhurried
from support.servers import TESTS, Place, until

import vkshare as vks
from vkshare.compositor import Service

pytestmark = [unhurried, pytest.mark.slow]

WAYS = ("closes", "leaves", "dies", "shows")
_MEMORY = 6144  # KiB that may come: pools fill for a while yet


def client(path: Path, way: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "support.compositor_party", os.fspath(path), way]
    return subprocess.Popen(command, cwd=TESTS)


@pytest.mark.rule("R18", "R19", "R15")
def test_fds_threads_and_memory_end_where_they_began(
    compose: Compose, stack: ExitStack, tmp_path: Path, vks_open: Callable[..., vks.Device]
) -> None:
    compositor = compose(320, 200, device=vks_open(name="compositor"))
    service = stack.enter_context(Service([compositor], linger=0.05))
    server = stack.enter_context(Place(tmp_path)).server(lambda: vks_open(name="server"), kinds=service.kinds)

    def come_and_go(ways: tuple[str, ...]) -> None:
        running = [client(server.path, way) for way in ways]
        ended = [each.wait(120) for each in running]
        assert ended == [-9 if way == "dies" else 0 for way in ways]
        until(lambda: not compositor.windows and server.statistics().clients == 0)

    for _ in range(rounds(5, 1)):
        come_and_go(WAYS)
    before = open_fds(), roles.threads(), roles.resident_kib()
    deadline = time.monotonic() + rounds(1800, 0)
    come_and_go(WAYS)
    turns = 1
    while time.monotonic() < deadline:
        come_and_go(WAYS)
        turns += 1
    until(lambda: roles.threads() <= before[1])
    fds, kib = open_fds(), roles.resident_kib()
    print(f"{turns} rounds of {len(WAYS)} clients; memory {before[2]} KiB, then {kib} KiB; {compositor.statistics()}")
    assert fds == before[0]
    assert kib - before[2] < _MEMORY
    assert compositor.error is None
    told = compositor.statistics()
    assert told.shown > 0
