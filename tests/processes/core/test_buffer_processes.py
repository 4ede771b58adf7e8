"""Buffers between processes: turns, the death of an owner, and descriptors that lie."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns
from support.fd_counts import open_fds
from support.peer_processes import Peer, later
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import opened_buffer, wait_until
from support.time_limits import Measured

import vkshare as vks
from vkshare.errors import AbandonedError, DescriptorError, DeviceMismatchError, UnsupportedError
from vkshare.ipc.descriptors import HEADER_SIZE
from vkshare.util import fd_ops

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.rule("E5"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    unhurried,
]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]
LIMIT = 0.2  # seconds from the kill to the AbandonedError (rule K9)


# ---- turns ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K2", "K17")
def test_three_processes_pass_a_buffer_on_and_each_sees_what_the_one_before_wrote(vks_open: Open, peers: Peers) -> None:
    buffer = vks_open().create_buffer(100_001)
    parties = [peers(), peers()]
    others = [opened_buffer(buffer, peer.device) for peer in parties]
    for turn in range(0, 3 * rounds(400, 12), 3):
        buffer.acquire(turn, 10)
        assert not turn or access_patterns.is_filling(buffer, turn - 1)
        access_patterns.fill(buffer, turn)
        buffer.release(turn + 1)
        for step, (peer, theirs) in enumerate(zip(parties, others, strict=True), start=1):
            theirs.acquire(turn + step, 10)
            assert peer.run(access_patterns.is_filling, theirs, turn + step - 1)
            peer.run(access_patterns.fill, theirs, turn + step)
            theirs.release(turn + step + 1)


@pytest.mark.rule("K18")
def test_work_of_two_processes_on_a_buffer_is_in_the_order_of_its_keys(vks_open: Open, peers: Peers) -> None:
    here, there = vks_open(), peers()
    buffer = here.create_buffer(1 << 20)
    theirs = opened_buffer(buffer, there.device)
    source, target = here.create_buffer(1 << 20), here.create_buffer(1 << 20)
    source.acquire()
    target.acquire()
    for turn in range(0, 2 * rounds(200, 8), 2):
        access_patterns.fill(source, turn)
        buffer.acquire(turn, 10)
        here.submit(here.record().copy(source, buffer))
        buffer.release(turn + 1)
        there.run(access_patterns.turn_bytes, theirs, turn + 1)
        buffer.acquire(turn + 2, 10)
        here.submit(here.record().copy(buffer, target))
        buffer.release(turn + 2)
        assert (target.read() == 255 - access_patterns.filling(1 << 20, turn)).all()


# ---- deaths --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K9", "K27")
@pytest.mark.serial
def test_the_kill_of_an_owner_is_an_abandoned_error_within_200_ms_and_the_buffer_is_recovered(
    vks_open: Open, peers: Peers, measured: Measured
) -> None:
    device = vks_open()

    def kill() -> float:
        buffer = device.create_buffer(5000)
        killed = peers(validation=False)
        theirs = opened_buffer(buffer, killed.device)
        theirs.acquire(0, 0)
        killed.run(access_patterns.fill, theirs, 3)
        waits = later(buffer.acquire, 0)
        wait_until(lambda: len(buffer.mutex.statistics().waiters) == 1)
        start = killed.kill()
        with pytest.raises(AbandonedError):
            waits.result(5)
        took = time.monotonic() - start
        buffer.recover(10)
        assert buffer.generation == 2
        access_patterns.fill(buffer, 4)
        assert access_patterns.is_filling(buffer, 4)
        buffer.close()
        killed.end()
        return took

    for _ in range(rounds(50, 3)):
        measured(kill, LIMIT)


@pytest.mark.rule("K20")
def test_a_buffer_outlives_the_process_that_made_it(vks_open: Open, peers: Peers) -> None:
    maker = peers()
    theirs = maker.device.create_buffer(4097)
    with theirs.export() as descriptor:
        mine = vks_open().open_buffer(descriptor)
    theirs.acquire(0, 0)
    maker.run(access_patterns.fill, theirs, 8)
    theirs.release(1)
    maker.kill()
    mine.acquire(1, 5)
    assert access_patterns.is_filling(mine, 8)


# ---- descriptors that lie ------------------------------------------------------------------------------------------

# Offsets in vks_surface_body.
LOW, HIGH, FORMAT, TILING, USAGE, MEMORY_KIND, DEDICATED = 0, 4, 8, 12, 13, 14, 15
SIZE, OFFSET, STRIDE, DEVICE_UUID, DRIVER_UUID = 16, 24, 32, 40, 56


@pytest.fixture
def packed(vks_open: Open) -> tuple[bytes, tuple[int, ...], vks.Buffer]:
    """A good descriptor's bytes and fds, to be damaged, and its buffer."""
    buffer = vks_open(name="maker").create_buffer(5000)
    return *buffer.export()._give_away(), buffer


def outcome(device: vks.Device, data: bytes, fds: tuple[int, ...]) -> Exception | None:
    """What opening it raises, if anything; the fds stay open."""
    try:
        with vks.BufferDescriptor.from_bytes(data, fd_ops.duplicate_all(fds)) as descriptor:
            device.open_buffer(descriptor).close()
    except (DescriptorError, DeviceMismatchError, UnsupportedError) as error:
        return error
    return None


def damaged(data: bytes, offset: int, form: str, value: object) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, HEADER_SIZE + offset, value)
    return bytes(changed)


@pytest.mark.rule("X13", "X16", "X17", "X18")
def test_a_descriptor_with_one_wrong_number_is_refused_and_leaves_no_fd(
    vks_open: Open, packed: tuple[bytes, tuple[int, ...], vks.Buffer]
) -> None:
    data, fds, buffer = packed
    device = vks_open(name="opener")
    assert outcome(device, data, fds) is None
    before = open_fds()
    lies: list[tuple[int, str, Any]] = [
        (LOW, "<I", 0), (LOW, "<I", 2**32 - 1), (HIGH, "<I", 1), (HIGH, "<I", 2**31), (FORMAT, "<I", 3),
        (TILING, "<B", 0), (TILING, "<B", 4), (USAGE, "<B", 0), (USAGE, "<B", 64), (MEMORY_KIND, "<B", 2),
        (DEDICATED, "<B", 2), (SIZE, "<Q", 0), (SIZE, "<Q", 4095), (SIZE, "<Q", 1 << 33), (SIZE, "<Q", 2**64 - 1),
        (OFFSET, "<Q", 1), (OFFSET, "<Q", 2**63), (STRIDE, "<Q", 1), (STRIDE, "<Q", 5000),
    ]  # fmt: skip
    for offset, form, value in lies:
        error = outcome(device, damaged(data, offset, form, value), fds)
        assert isinstance(error, DescriptorError | UnsupportedError), (offset, value, error)
    if buffer.device.backend == "vulkan":
        for offset in (DEVICE_UUID, DRIVER_UUID):
            error = outcome(device, damaged(data, offset, "16s", bytes(range(16))), fds)
            assert isinstance(error, DeviceMismatchError), error
        larger = damaged(data, LOW, "<I", 9000)  # more than the memory has, and not what the driver would export
        assert isinstance(outcome(device, larger, fds), DescriptorError)
    swapped = fds[1], fds[0], *fds[2:]
    assert isinstance(outcome(device, data, swapped), DescriptorError)
    assert open_fds() == before
    with buffer.access():
        access_patterns.fill(buffer, 1)
    fd_ops.close_all(fds)


@pytest.mark.rule("X13", "X15")
def test_random_bytes_in_a_descriptor_of_a_buffer_end_as_documented(
    vks_open: Open, packed: tuple[bytes, tuple[int, ...], vks.Buffer]
) -> None:
    data, fds, buffer = packed
    device, dice = vks_open(name="opener"), seeded()
    before = open_fds()
    refused = 0
    for _ in range(rounds(20_000, 400)):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 3)):
            changed[dice.randrange(HEADER_SIZE + 72)] = dice.choice((0, 1, 3, 4, 255, dice.randrange(256)))
        refused += outcome(device, bytes(changed), fds) is not None
    assert refused
    assert open_fds() == before
    with buffer.access():
        access_patterns.fill(buffer, 2)
        assert access_patterns.is_filling(buffer, 2)
    fd_ops.close_all(fds)
