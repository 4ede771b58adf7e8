"""Clients come and go, close, leave and die, for long: what the compositor's process has is then what it had."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from support import access_patterns
from support.compositor_fixtures import Compose
from support.fd_counts import open_fds
from support.render_servers import Place, until
from support.run_volumes import rounds, unhurried
from support.time_limits import until_rest
from support.tree_paths import TESTS

import vkshare as vks
from vkshare.compositor import Desktop, Service

pytest_plugins = ["support.compositor_fixtures"]

pytestmark = [unhurried, pytest.mark.slow, pytest.mark.program]

WAYS = ("closes", "leaves", "dies", "shows")
_MEMORY = 6144  # KiB that may come: pools fill for a while yet


def client(path: Path, way: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "support.compositor_peer", os.fspath(path), way]
    return subprocess.Popen(command, cwd=TESTS)


def settled_fds() -> set[int]:
    """Once nothing is being closed any more: a window is off the screen before all of it is closed."""
    until_rest(open_fds, 0.25)
    return open_fds()


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
    before = settled_fds(), access_patterns.threads(), access_patterns.resident_kib()
    deadline = time.monotonic() + rounds(1800, 0)
    come_and_go(WAYS)
    turns = 1
    while time.monotonic() < deadline:
        come_and_go(WAYS)
        turns += 1
    until(lambda: access_patterns.threads() <= before[1])
    until(lambda: len(open_fds()) <= len(before[0]), 60)  # a loaded machine may have closed some late, before it too
    kib = access_patterns.resident_kib()
    print(f"{turns} rounds of {len(WAYS)} clients; memory {before[2]} KiB, then {kib} KiB; {compositor.statistics()}")
    assert kib - before[2] < _MEMORY
    assert compositor.error is None
    reported = compositor.statistics()
    assert reported.shown > 0


@pytest.mark.rule("R18", "R11", "R1")
def test_nothing_of_a_client_that_is_gone_is_kept(
    compose: Compose, stack: ExitStack, tmp_path: Path, vks_open: Callable[..., vks.Device]
) -> None:
    """Objects of Python are counted: what its free lists and malloc's arenas keep is bounded by itself."""
    compositor = compose(device=vks_open(name="compositor"))
    service = stack.enter_context(Service([compositor], linger=0))
    server = stack.enter_context(Place(tmp_path)).server(lambda: vks_open(name="server"), kinds=service.kinds)
    device = vks_open(name="client")

    def come_and_go(count: int) -> Counter[str]:
        """Objects that there are afterwards, by the names of their types."""
        for _ in range(count):
            with Desktop(server.path, device=device) as desktop, device.create_surface(8, 8) as surface:
                desktop.client.create_surface(8, 8)
                window = desktop.open_window(8, 8)
                with window.frame(timeout=60) as frame:
                    device.submit(device.record().clear(frame.surface, (1, 0, 0, 1)))
                desktop.show(surface)
                surface.acquire(0, 60)
                surface.release(1)
        until(lambda: not compositor.windows and server.statistics().clients == server.statistics().workers == 0, 60)
        settled_fds()
        gc.collect()
        kinds = Counter(type(each).__qualname__ for each in gc.get_objects())
        for kept_by_pytest in ("LogRecord", "Message"):  # what the validation layer says of a GPU
            del kinds[kept_by_pytest]
        return kinds

    count = rounds(5000, 40)
    come_and_go(20)
    objects = [come_and_go(count) for _ in range(4)]
    kinds = [after - before for before, after in itertools.pairwise(objects)]
    grown = [after.total() - before.total() for before, after in itertools.pairwise(objects)]
    print(f"objects more, each time after {count} clients: {grown}", file=sys.stderr)
    assert min(grown) < count // 2, [each.most_common(5) for each in kinds]  # each round keeps as much of each client
