"""Names and watchers when processes die, stop, fork and race. Rules W1 and W4."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import published_names
from support.child_processes import in_child
from support.fd_counts import open_fds
from support.peer_processes import Peer
from support.published_names import LIMIT, Pipe, clear_red, has_ended, wait_for_red
from support.run_volumes import rounds, unhurried
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.core import watching
from vkshare.errors import AbandonedError, InvalidCallError

pytest_plugins = ["support.peer_processes", "support.published_names"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"), unhurried]

Peers = Callable[..., Peer]


@pytest.fixture
def peer_here(peers: Peers, runtime: Path) -> Callable[[], Peer]:
    """Gives peers with the runtime folder of the test."""

    def one_more() -> Peer:
        peer = peers()
        peer.run(published_names.use_runtime, str(runtime))
        return peer

    return one_more


def _surface(peer: Peer) -> Any:
    return peer.device.create_surface(16, 8)


@contextlib.contextmanager
def _stopped(peer: Peer) -> Iterator[None]:
    """Every thread of it stands still in the block."""
    peer.signal(signal.SIGSTOP)
    try:
        tasks = Path(f"/proc/{peer.pid}/task")
        wait_until(lambda: all(") T " in (task / "stat").read_text() for task in tasks.iterdir()))
        yield
    finally:
        peer.signal(signal.SIGCONT)


# ---- owners ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("W1")
def test_a_name_dies_with_its_owner_and_another_process_takes_it(
    device: vks.Device, peer_here: Callable[[], Peer], runtime: Path
) -> None:
    for _ in range(rounds(300, 5)):
        owner = peer_here()
        surface = _surface(owner)
        assert owner.run(published_names.try_to_publish, surface, "it") == ""
        assert [each.pid for each in vks.find()] == [owner.pid]
        with device.create_surface(8, 8) as mine, pytest.raises(InvalidCallError, match=f"by process {owner.pid} "):
            mine.publish("it")
        opened = vks.open_published("it", device)
        owner.kill()
        assert not owner.is_running(LIMIT)
        assert vks.find() == []
        assert list(runtime.iterdir()) == []  # nor are there files
        with device.create_surface(8, 8) as mine, mine.publish("it"):
            assert [each.pid for each in vks.find()] == [os.getpid()]
        opened.close()


@pytest.mark.rule("W1")
def test_exactly_one_of_the_processes_that_race_for_a_dead_owners_name_has_it(
    peer_here: Callable[[], Peer],
) -> None:
    racers = [peer_here() for _ in range(4)]
    surfaces = [_surface(racer) for racer in racers]
    for number in range(rounds(1000, 8)):
        name = f"round {number}"
        owner = peer_here()
        dead = _surface(owner)
        assert owner.run(published_names.try_to_publish, dead, name) == ""
        owner.kill()
        assert not owner.is_running(LIMIT)
        pending = [
            racer.later(published_names.try_to_publish, surface, name)
            for racer, surface in zip(racers, surfaces, strict=True)
        ]
        answers = [each.result(LIMIT) for each in pending]
        winners = [racer.pid for racer, answer in zip(racers, answers, strict=True) if answer == ""]
        assert len(winners) == 1, answers
        assert [each.pid for each in vks.find() if each.name == name] == winners
        assert all(f"by process {winners[0]} already" in answer for answer in answers if answer)
        surfaces[answers.index("")].close()
        surfaces[answers.index("")] = _surface(racers[answers.index("")])
        assert vks.find() == []


@pytest.mark.rule("W1", "X11")
def test_a_forked_child_neither_has_nor_serves_the_names_of_its_parent(device: vks.Device, runtime: Path) -> None:
    with device.create_surface(8, 8) as surface:
        publication = surface.publish("it")

        def child() -> None:
            assert publication.is_closed
            publication.close()
            assert [each.pid for each in vks.find()] == [os.getppid()]
            assert not [fd for fd in open_fds() if str(runtime) in os.readlink(f"/proc/self/fd/{fd}")]

        in_child(child)
        assert not publication.is_closed
        assert [each.pid for each in vks.find()] == [os.getpid()]
        pid = published_names.fork_a_child()
        publication.close()
        surface.publish("it").close()  # the child does not keep the lock
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.rule("W1", "X11")
def test_a_name_dies_with_its_owner_though_a_forked_child_lives(
    device: vks.Device, peer_here: Callable[[], Peer]
) -> None:
    owner = peer_here()
    surface = _surface(owner)
    assert owner.run(published_names.try_to_publish, surface, "it") == ""
    child = owner.run(published_names.fork_a_child)
    try:
        owner.kill()
        wait_until(lambda: vks.find() == [])
        with device.create_surface(8, 8) as mine, mine.publish("it"):
            assert [each.pid for each in vks.find()] == [os.getpid()]
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.rule("W1")
def test_a_stopped_owner_keeps_its_name_and_delays_find_by_a_second_at_most(
    device: vks.Device, peer_here: Callable[[], Peer]
) -> None:
    owner = peer_here()
    surface = _surface(owner)
    assert owner.run(published_names.try_to_publish, surface, "stopped") == ""
    with device.create_surface(8, 8) as mine, mine.publish("runs"):
        with _stopped(owner):
            assert [each.name for each in vks.find()] == ["runs"]
            with pytest.raises(InvalidCallError, match=f"'stopped' is published by process {owner.pid} already"):
                mine.publish("stopped")
        wait_until(lambda: [each.name for each in vks.find()] == ["runs", "stopped"])
        surface.close()


@pytest.mark.rule("W1")
def test_a_program_that_ends_leaves_no_file(runtime: Path, vks_adapter: vks.Adapter) -> None:
    program = f"""
        import os
        import vkshare as vks
        device = vks.open({vks_adapter.uuid!r}, backend={vks_adapter.backend!r})
        surface = device.create_surface(8, 8)
        surface.publish("it")
        print([each.name for each in vks.find() if each.pid == os.getpid()])  # other tests publish beside it
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "VKSHARE_VALIDATION": "0"},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "['it']\n", "")
    assert list(runtime.iterdir()) == []


# ---- watchers ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("W4")
@pytest.mark.parametrize("kind", ["pipe", "surface"])
def test_a_killed_watcher_is_dropped_and_leaves_nothing(
    device: vks.Device, peer_here: Callable[[], Peer], kind: str
) -> None:
    with Pipe(device) as pipe, device.create_surface(16, 8) as surface:
        publication = pipe.sender.publish("it") if kind == "pipe" else surface.publish("it")
        fds: list[set[int]] = []  # from the first round on: drivers open files of their own at a first use
        for _ in range(rounds(300, 4)):
            watcher = peer_here()
            receiver = watcher.run(published_names.watch, "it", watcher.device)
            red = pipe.turn()
            clear_red(surface, red)
            assert watcher.run(published_names.wait_for_red, receiver, red) > 0
            watcher.kill()
            wait_until(lambda: publication.statistics().watchers == 0)
            watcher.end()  # the test's own fds of it
            fds.append(open_fds())
            wait_until(lambda: len(open_fds() - fds[0]) <= 2)  # of the service thread, and of the peers' server
            assert surface.mutex.statistics().state == "free"
            for _ in range(5):
                pipe.turn(reads=True)


@pytest.mark.rule("W4")
def test_a_stopped_watcher_costs_no_frame_and_no_memory_and_gets_the_newest_when_it_goes_on(
    device: vks.Device, peer_here: Callable[[], Peer]
) -> None:
    watcher = peer_here()
    with Pipe(device) as pipe:
        publication = pipe.sender.publish("it")
        receiver = watcher.run(published_names.watch, "it", watcher.device)
        red = pipe.turn()
        assert watcher.run(published_names.wait_for_red, receiver, red) == 1
        count = rounds(100_000, 300)
        with _stopped(watcher):
            for _ in range(20):
                pipe.turn(reads=True)
            before = open_fds()
            for _ in range(count):
                red = pipe.turn(reads=True)
            wait_until(lambda: open_fds() <= before)  # the service thread may just look at a page
            assert device.statistics().held == 0
            assert publication.statistics().skipped >= count
        assert watcher.run(published_names.wait_for_red, receiver, red) == count + 21
        receiver.close()


@pytest.mark.rule("W4")
def test_a_killed_publisher_ends_its_watchers(device: vks.Device, peer_here: Callable[[], Peer]) -> None:
    owner = peer_here()
    surface = _surface(owner)
    assert owner.run(published_names.try_to_publish, surface, "it") == ""
    with watching.watch("it", device) as receiver:
        owner.run(published_names.clear_red, surface, 9)
        wait_for_red(receiver, 9)
        owner.kill()

        def is_over() -> bool:
            try:
                return has_ended(receiver)
            except AbandonedError:
                return True

        wait_until(is_over)


@pytest.mark.rule("W4", "W1")
def test_a_watcher_that_dies_leaves_its_pipe_though_a_forked_child_of_it_lives(
    device: vks.Device, peer_here: Callable[[], Peer]
) -> None:
    watcher = peer_here()
    with device.create_surface(8, 8) as surface:
        publication = surface.publish("it")
        receiver = watcher.run(published_names.watch, "it", watcher.device)
        assert repr(receiver)
        child = watcher.run(published_names.fork_a_child)
        try:
            watcher.kill()
            wait_until(lambda: publication.statistics().watchers == 0)
        finally:
            os.kill(child, signal.SIGKILL)
