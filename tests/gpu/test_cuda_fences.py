"""Fences in CUDA on a real GPU: streams and queues wait for each other there, in this process and in others."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support import cuda_peer
from support.peer_processes import later
from support.run_volumes import rounds, unhurried
from support.shared_handles import followed
from support.time_limits import at_least

import vkshare as vks
from vkshare.errors import AbandonedError, InvalidCallError

pytest_plugins = ["support.peer_processes"]
pytestmark = [pytest.mark.vks_gpu, unhurried]

Open = Callable[..., vks.Device]
SIDE = 4096


@pytest.fixture
def device(gpu: Open, cuda: None) -> vks.Device:
    return gpu(name="vulkan")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def fence(device: vks.Device) -> Iterator[vks.Fence]:
    with device.create_fence() as made:
        yield made


@pytest.fixture
def shared(fence: vks.Fence) -> Iterator[vks.interop.cuda.CUDAFence]:
    with vks.interop.cuda.open_fence(fence) as opened:
        yield opened


def busy(torch: Any, seconds: float = 0.3) -> None:
    """Work of about that long in PyTorch's current stream, in short kernels."""
    for _ in range(max(1, int(seconds / 0.05))):
        torch.cuda._sleep(100_000_000)


def draw_slowly(device: vks.Device, surface: vks.Surface, times: int = 2000) -> Any:
    """Work of some 100 ms on a surface of SIDE x SIDE."""
    commands = device.record()
    for n in range(times):
        commands.clear(surface, (n / times, 0, 0, 1))
    return commands


@pytest.fixture
def canvas(device: vks.Device) -> Iterator[vks.Surface]:
    """Something large to draw on, of its own."""
    with device.create_surface(SIDE, SIDE, "rgba32float", tiling="linear", memory="device") as surface:
        surface.acquire()
        device.submit(device.record().clear(surface, (0, 0, 0, 0))).wait(20)  # what is made at first use is made
        yield surface
        device.wait_idle(30)
        surface.release()


# ---- in order, on the GPU ----------------------------------------------------------------------------------------


@pytest.mark.rule("I3")
def test_a_streams_work_runs_after_the_queues_and_the_queues_after_the_streams(device: vks.Device) -> None:
    """The same bytes, which only the fence keeps in order: Vulkan clears, CUDA fills, Vulkan reads."""
    with (
        device.create_surface(256, 256, tiling="linear", memory="device") as surface,
        device.create_surface(256, 256, tiling="optimal") as result,
        device.create_fence() as fence,
        vks.interop.cuda.open(surface) as memory,
        vks.interop.cuda.open_fence(fence) as shared,
    ):
        surface.acquire()
        result.acquire()
        with memory.within() as view:
            assert view.strides is not None
            pointer, pitch, stream = view.pointer, view.strides[0], cuda_peer.make_stream(memory)
        for turn in range(rounds(2000, 50)):
            byte = turn % 200
            commands = device.record()
            for n in range(50):
                commands.clear(surface, (n / 255,) * 4)
            device.submit(commands.clear(surface, (201 / 255,) * 4), signals=(fence, 2 * turn + 1))
            shared.wait(2 * turn + 1, stream, timeout=20)
            cuda_peer.fill_rows(shared, pointer, pitch, (128 * 4, 256), byte, stream)  # the left half
            shared.signal(2 * turn + 2, stream)
            device.submit(device.record().copy(surface, result), waits=(fence, 2 * turn + 2))
            pixels = result.read()
            assert (pixels[:, :128] == byte).all()
            assert (pixels[:, 128:] == 201).all()
        result.release()
        surface.release()


@pytest.mark.rule("I3", "X4")
def test_the_cpu_waits_neither_for_the_queue_nor_for_the_stream(
    device: vks.Device, torch: Any, canvas: vks.Surface, fence: vks.Fence, shared: vks.interop.cuda.CUDAFence
) -> None:
    stream, done = torch.cuda.Stream(), device.create_fence()
    device.submit(signals=(fence, 1))
    shared.wait(1, stream)
    shared.signal(2, stream)
    fence.wait(2, 20)  # what is made at first use is made
    with torch.cuda.stream(stream):
        busy(torch, 0.05)
        torch.cuda.synchronize()
        drawn = device.submit(draw_slowly(device, canvas), signals=(fence, 3))
        shared.wait(3, stream, timeout=20)
        waited = torch.cuda.Event()
        waited.record()
        assert not drawn.is_done(), "drawing took no longer than giving the stream a wait, or that waited for it"
        busy(torch)
        worked = torch.cuda.Event()
        worked.record()
        shared.signal(4, stream)
        behind = device.submit(waits=(fence, 4), signals=(done, 1))
        assert not behind.is_held
        assert not worked.query(), "no call waited for the stream"
        waited.synchronize()
        assert drawn.is_done(), "the stream waited for the queue"
        behind.wait(20)
        assert worked.query(), "the queue waited for the stream"
    assert (fence.value, done.value) == (4, 1)
    done.close()


@pytest.mark.rule("I3", "X1", "X2")
def test_values_come_in_order_whichever_queue_or_stream_brings_them(
    device: vks.Device, torch: Any, fence: vks.Fence, shared: vks.interop.cuda.CUDAFence
) -> None:
    streams = [torch.cuda.Stream() for _ in range(3)]
    seen: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.append(fence.value)

    looking = later(look)
    last = rounds(3000, 300)
    for value in range(1, last + 1):
        stream = streams[value % 3]
        if value % 4 == 0:
            device.submit(signals=(fence, value))
        elif value % 17 == 0:
            fence.signal(value)
        else:
            with torch.cuda.stream(stream):
                torch.cuda._sleep(10_000 * (value % 5))
            shared.signal(value, stream)
    fence.wait(last, 30)
    over.set()
    looking.result(20)
    assert fence.value == fence.queued_value == last
    assert seen == sorted(seen)


# ---- everybody hears of it ---------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "X23", "X24")
def test_whoever_waits_hears_of_what_a_stream_signals(
    device: vks.Device, gpu: Open, torch: Any, fence: vks.Fence, shared: vks.interop.cuda.CUDAFence
) -> None:
    other = gpu(name="other")
    follower = followed(fence, other)
    early = later(fence.wait, 1, 20)  # before anybody promised it
    held = other.submit(waits=(follower, 1))
    event = fence.event_fd(1)
    assert held.is_held
    busy(torch)
    shared.signal(1)
    assert fence.queued_value == 1
    behind = other.submit(waits=(follower, 1))
    assert not behind.is_held, "it is with CUDA's driver: the GPU can wait for it"
    assert not select.select([event], [], [], 0)[0]

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(fence.wait_async(1), follower.wait_async(1)), 20)

    asyncio.run(both())
    early.result(20)
    follower.wait(1, 20)
    assert select.select([event], [], [], 5)[0]
    os.close(event)
    held.wait(20)
    behind.wait(20)
    assert (fence.value, follower.value) == (1, 1)
    follower.close()


@pytest.mark.rule("I3", "X4")
def test_a_stream_is_given_no_wait_for_what_is_held_and_then_it_is(
    device: vks.Device, torch: Any, fence: vks.Fence, shared: vks.interop.cuda.CUDAFence
) -> None:
    with device.create_fence() as gate:
        assert device.submit(waits=(gate, 1), signals=(fence, 1)).is_held
        for value in (1, 2):
            with at_least(0.09), pytest.raises(TimeoutError):
                shared.wait(value, timeout=0.1)
        with pytest.raises(TimeoutError):
            shared.wait(1, timeout=0)
        with pytest.raises(InvalidCallError, match="is held"):
            shared.signal(2)
        torch.cuda.synchronize()  # no stream waits
        waiting = later(shared.wait, 1, None, 20)
        assert not waiting.done(0.05)
        gate.signal(1)
        waiting.result(20)
        torch.cuda.synchronize()
        assert fence.value == 1
        shared.wait(1, timeout=0)
        shared.signal(2)
        fence.wait(2, 20)


# ---- refused -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "X1")
def test_values_that_are_promised_already_are_refused(
    fence: vks.Fence, torch: Any, shared: vks.interop.cuda.CUDAFence
) -> None:
    busy(torch)
    shared.signal(5)
    for value in (5, 4, 0, -1, 2**64 - 1):
        with pytest.raises(ValueError, match=r"signal|allowed"):
            shared.signal(value)
    with pytest.raises(ValueError, match="above the queued value 5"):
        fence.signal(5)
    assert fence.queued_value == 5
    fence.wait(5, 20)


@pytest.mark.rule("I3", "X10")
def test_a_follower_can_be_waited_for_and_not_signalled(device: vks.Device, gpu: Open, torch: Any) -> None:
    other = gpu(name="other")
    with other.create_fence() as theirs:
        follower = followed(theirs, device)
        with vks.interop.cuda.open_fence(follower) as shared:
            with pytest.raises(InvalidCallError, match="read-only follower"):
                shared.signal(1)
            other.submit(signals=(theirs, 1))
            shared.wait(1, timeout=20)
            torch.cuda.synchronize()
            assert follower.value == 1
        follower.close()


@pytest.mark.rule("I3")
def test_a_stream_that_is_captured_is_refused_and_nothing_is_promised(
    fence: vks.Fence, torch: Any, shared: vks.interop.cuda.CUDAFence
) -> None:
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for use in (shared.signal, shared.wait):
            with pytest.raises(InvalidCallError, match="captured"):
                use(1, stream)
    assert fence.queued_value == 0
    shared.signal(1, stream)
    fence.wait(1, 20)


@pytest.mark.rule("I3", "I5")
def test_a_stream_of_another_context_is_refused_and_nothing_is_promised(
    fence: vks.Fence, shared: vks.interop.cuda.CUDAFence
) -> None:
    with cuda_peer.stream_of_another_context(shared) as stream:
        for use in (shared.signal, shared.wait):
            with pytest.raises(InvalidCallError, match="another context than the primary one"):
                use(1, stream)
    assert fence.queued_value == 0
    shared.signal(1)
    fence.wait(1, 20)


# ---- other processes ---------------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "X4")
def test_streams_of_another_process_answer_by_a_fence_of_theirs(device: vks.Device, peers: Any) -> None:
    peer = peers()
    turns = rounds(2000, 50)
    with device.create_fence() as question:
        theirs = peer.device.create_fence()
        answer = device.open_fence(theirs.export())
        with question.export() as descriptor:
            asked = peer.device.open_fence(descriptor)
        answering = peer.later(cuda_peer.answer, asked, theirs, turns)
        for turn in range(1, turns + 1):
            device.submit(signals=(question, turn))
            device.submit(waits=(answer, turn)).wait(30)
            assert answer.value >= turn
        assert answering.result(60) == turns
        answer.close()


@pytest.mark.rule("I3", "X4", "X5")
def test_when_a_process_is_killed_with_cuda_at_work_nobody_waits_for_its_signal(
    device: vks.Device, torch: Any, peers: Any
) -> None:
    for _ in range(rounds(20, 2)):
        peer = peers(name="doomed")
        theirs = peer.device.create_fence()
        follower = device.open_fence(theirs.export())
        with vks.interop.cuda.open_fence(follower) as shared, device.create_fence() as done:
            peer.run(cuda_peer.signal_after_work, theirs, 1, 1.0)
            stream = torch.cuda.Stream()
            shared.wait(1, stream, timeout=20)
            waiting = device.submit(waits=(follower, 1), signals=(done, 1))
            assert not waiting.is_held
            peer.kill()
            with pytest.raises(AbandonedError):
                follower.wait(2, 20)  # which no party announced
            waiting.wait(20)  # it came, or was signalled for the dead one
            stream.synchronize()
            assert done.value == 1
        follower.close()
    device.submit().wait(20)


@pytest.mark.rule("I3", "X21")
def test_what_a_stream_promised_whose_kernel_failed_is_abandoned_here_and_there(
    device: vks.Device, torch: Any, peers: Any
) -> None:
    peer = peers(name="failing")
    theirs = peer.device.create_fence()
    follower = device.open_fence(theirs.export())
    reported, took = peer.run(cuda_peer.fail_a_kernel, theirs)
    assert reported == ["CUDAError", "AbandonedError"]
    assert took < 2
    with pytest.raises(AbandonedError):
        follower.wait(2**32, 20)
    assert device.submit().wait(20) is None
    peer.kill()
    follower.close()


@pytest.mark.rule("I3", "K9", "K27")
def test_a_surface_whose_kernel_failed_is_abandoned_at_once_and_recovers(
    device: vks.Device, torch: Any, peers: Any
) -> None:
    peer = peers(name="failing")
    with device.create_surface(64, 64, tiling="linear", memory="device") as surface:
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        reported, took = peer.run(cuda_peer.fail_a_kernel_in_turns, theirs)
        assert reported == "CUDAError"
        assert took < 2
        with pytest.raises(AbandonedError):
            surface.acquire(1, 5)
        surface.recover(5)
        surface.write(np.full(surface.shape, 7, np.uint8))
        assert (surface.read() == 7).all()
        peer.kill()


# ---- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "I11")
def test_closing_either_waits_for_what_streams_signal(device: vks.Device, torch: Any) -> None:
    for first in ("the fence", "CUDA's side"):
        fence = device.create_fence()
        shared = vks.interop.cuda.open_fence(fence)
        with device.open_fence(fence.export()) as follower:
            busy(torch)
            shared.signal(1)
            (fence if first == "the fence" else shared).close()
            follower.wait(1, 0.5)  # its page says so within some milliseconds
        fence.close()
        shared.close()
        with pytest.raises(vks.ClosedError):
            shared.signal(2)
        with pytest.raises(vks.ClosedError):
            shared.wait(1)
