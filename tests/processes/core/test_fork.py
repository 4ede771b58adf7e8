"""Fork, exec and spawn: what a child may use, what it inherits, and that its parent never notices."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import access_patterns
from support.child_processes import in_child
from support.peer_processes import Peer, later
from support.shared_handles import opened

import vkshare as vks
from vkshare.errors import AcquireTimeout, InvalidCallError

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")

Open = Callable[..., vks.Device]


# ---- fork ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X11")
def test_after_fork_every_use_of_what_is_inherited_is_refused_at_once(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface, fence, commands = one.create_surface(8, 8), one.create_fence(), one.record()
    with surface.export() as a, fence.export() as b:
        other, follower = two.open_surface(a), two.open_fence(b)
    commands.clear(surface, (1, 1, 1, 1))
    surface.acquire(0, 0)
    held = two.submit(waits=(follower, 1))
    calls: list[Callable[[], Any]] = [
        one.record,
        one.create_fence,
        one.wait_idle,
        one.statistics,
        one.close,
        lambda: one.create_surface(8, 8),
        lambda: one.submit(commands),
        lambda: one.submit(signals=fence),
        lambda: surface.release(0),
        lambda: surface.acquire(1, 0),
        lambda: surface.acquire(1, mode="gpu"),
        lambda: other.acquire(0),
        lambda: other.acquire(0, mode="gpu"),
        other.recover,
        surface.read,
        lambda: surface.write(np.zeros((8, 8, 4), np.uint8)),
        surface.export,
        surface.mutex.next_key,
        surface.close,
        lambda: fence.value,
        lambda: fence.queued_value,
        lambda: fence.signal(1),
        lambda: fence.wait(1),
        lambda: fence.event_fd(1),
        fence.export,
        lambda: follower.wait(1),
        held.wait,
        held.is_done,
    ]

    def child() -> None:
        for number, call in enumerate(calls):
            try:
                call()
            except InvalidCallError:
                continue
            raise AssertionError(f"call {number} was not refused")
        calls.clear()
        gc.collect()

    in_child(child)
    assert surface.is_owned
    one.submit(commands, signals=fence).wait(10)
    held.wait(5)
    assert (surface.read() == 255).all()
    surface.release(2)
    other.acquire(2, 5)
    other.release(0)
    surface.acquire(0, 5)


@pytest.mark.rule("X11", "K9")
def test_the_end_of_a_forked_child_abandons_nothing_of_its_parent(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)
    with surface.export() as descriptor:
        other = two.open_surface(descriptor)
    fence = one.create_fence()
    surface.acquire(0, 0)
    waits = [later(other.acquire, 3, 30), later(fence.wait, 2, 30)]
    for _ in range(3):
        in_child(lambda: None)
    assert surface.is_owned
    assert not any(call.done(0.02) for call in waits)
    fence.signal(2)
    surface.release(3)
    for call in waits:
        call.result(5)


@pytest.mark.rule("X11")
def test_fork_while_threads_use_the_device_leaves_child_and_parent_working(
    vks_open: Open, vks_adapter: vks.Adapter
) -> None:
    device = vks_open()
    surface, fence = device.create_surface(8, 8), device.create_fence()
    stop = threading.Event()

    def use() -> None:
        commands = device.record().clear(surface, (0, 1, 0, 1))
        while not stop.is_set():
            with surface.access():
                device.submit(commands, signals=fence)
            fence.wait(fence.queued_value, 10)

    thread = threading.Thread(target=use)
    thread.start()

    def child() -> None:
        with pytest.raises(InvalidCallError):
            fence.signal(1 << 30)
        if vks_adapter.backend == "cpu":  # a driver's own locks may be held by threads that the child does not have
            with vks.open(backend="cpu") as mine, mine.create_surface(8, 8) as own, own.access():
                access_patterns.clear(own, 5)
                assert access_patterns.is_clear(own.read(), 5)

    try:
        for _ in range(5):
            in_child(child)
    finally:
        stop.set()
        thread.join()
    with surface.access():
        assert (surface.read() == (0, 255, 0, 255)).all()


@pytest.mark.rule("X11")
def test_a_descriptor_inherited_through_fork_opens_on_a_device_of_the_child(
    vks_open: Open, vks_adapter: vks.Adapter
) -> None:
    if vks_adapter.kind == "gpu":
        pytest.skip("a GPU driver does not survive a fork: the child is told to spawn")
    device = vks_open()
    surface = device.create_surface(16, 16)
    surface.acquire(0, 0)
    access_patterns.draw(surface, 8)
    surface.release(1)
    descriptor = surface.export()

    def child() -> None:
        mine = next(a for a in vks.adapters(vks_adapter.backend) if a.uuid == vks_adapter.uuid)
        with vks.open(mine) as own, own.open_surface(descriptor) as theirs:
            theirs.acquire(1, 5)
            assert access_patterns.is_picture(theirs, 8)
            access_patterns.draw(theirs, 9)
            theirs.release(2)

    in_child(child)
    descriptor.close()
    surface.acquire(2, 5)
    assert access_patterns.is_picture(surface, 9)


# ---- exec ----------------------------------------------------------------------------------------------------------

_LIST_FDS = """
import json, os
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        fds[fd] = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        pass
print(json.dumps(fds))
"""


def _inherited() -> dict[str, str]:
    """What a child started with close_fds=False has open, by number."""
    command = [sys.executable, "-S", "-E", "-c", _LIST_FDS]
    reported: dict[str, str] = json.loads(subprocess.check_output(command, close_fds=False))
    return reported


@pytest.mark.rule("X12")
def test_every_fd_is_close_on_exec_and_a_child_inherits_none(vks_open: Open, peers: Callable[..., Peer]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    inherited = _inherited()
    one, two = vks_open(), vks_open()
    peer = peers()
    things: list[Any] = []
    for tiling in sorted(one.capabilities.tilings):
        surface = one.create_surface(16, 16, tiling=tiling)
        with surface.export() as sent:
            things += [surface, two.open_surface(sent), peer.device.open_surface(sent)]
        theirs = peer.device.create_surface(16, 16, tiling=tiling)
        descriptor = theirs.export()
        things += [theirs, descriptor, two.open_surface(descriptor)]
    fence = one.create_fence()
    descriptor = fence.export()
    follower = two.open_fence(descriptor)
    event = fence.event_fd(1)
    held = two.submit(waits=(follower, 1))
    things += [fence, descriptor, follower, held, surface.export()]
    new = set(os.listdir("/proc/self/fd")) - before
    opened = 0
    for fd in new:
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
            flags = fcntl.fcntl(int(fd), fcntl.F_GETFD)
        except OSError:
            continue  # of the listing itself
        opened += 1
        assert flags & fcntl.FD_CLOEXEC, f"fd {fd} is inherited by children: {target}"
    assert opened > 8
    late = {fd: target for fd, target in _inherited().items() if inherited.get(fd) != target}
    assert not [target for target in late.values() if "pipe" not in target], late
    fence.signal(1)
    held.wait(5)
    os.close(event)
    for thing in things:
        if isinstance(thing, (vks.SurfaceDescriptor, vks.FenceDescriptor)):
            thing.close()


_LIST_KINDS = """
import os
for fd in os.listdir("/proc/self/fd"):
    if os.path.exists(f"/proc/self/fd/{fd}"):
        print(os.readlink(f"/proc/self/fd/{fd}").split(":[")[0])
"""


def _inherited_kinds() -> list[str]:
    """The targets of the fds that a child inherits, without the numbers of pipes and sockets."""
    done = subprocess.run(
        [sys.executable, "-c", _LIST_KINDS], close_fds=False, capture_output=True, text=True, check=True
    )
    return sorted(done.stdout.splitlines())


@pytest.mark.rule("X12")
def test_a_child_that_closes_nothing_inherits_no_fd_of_ours(vks_open: Open, peers: Callable[..., Peer]) -> None:
    before = _inherited_kinds()
    one, two, peer = vks_open(), vks_open(), peers()
    surface, fence = one.create_surface(16, 16), one.create_fence()
    here, there = opened(surface, two), opened(surface, peer.device)
    there.acquire(0, 0)
    with pytest.raises(AcquireTimeout):
        here.acquire(0, 0.01)  # from here on the peer is watched
    event = fence.event_fd(7)
    with fence.export() as page, surface.export():
        two.submit(waits=(two.open_fence(page), 1))

        async def wait() -> None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(fence.wait_async(9), 0.01)
            assert _inherited_kinds() == before

        asyncio.run(wait())
    os.close(event)
