"""Two GPUs in one machine: each thing finds its own, by UUID, and what belongs to the other one is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from support import access_patterns, cuda_peer
from support.run_volumes import rounds, seeded, unhurried

import vkshare as vks
from vkshare.errors import DeviceMismatchError

pytestmark = [pytest.mark.vks_gpu, unhurried, pytest.mark.rule("I5")]

LINEAR: dict[str, Any] = {"tiling": "linear", "memory": "device"}


@pytest.fixture
def devices(cuda: None) -> Iterator[list[vks.Device]]:
    """One on each of two GPUs."""
    adapters = [adapter for adapter in vks.adapters("vulkan") if adapter.kind == "gpu"]
    if len(adapters) < 2:
        pytest.skip("there is one GPU")
    with ExitStack() as stack:
        yield [stack.enter_context(vks.open(adapter, name=f"gpu {n}")) for n, adapter in enumerate(adapters[:2])]


def test_each_surface_is_opened_on_its_own_gpu_and_both_take_turns_at_once(devices: list[vks.Device]) -> None:
    dice = np.random.default_rng(seeded().getrandbits(32))
    with ExitStack() as stack:
        surfaces = [stack.enter_context(device.create_surface(67, 41, **LINEAR)) for device in devices]
        shared = [stack.enter_context(vks.interop.cuda.open(surface)) for surface in surfaces]
        for device, opened in zip(devices, shared, strict=True):
            assert opened.gpu.uuid == device.capabilities.device_uuid
        assert shared[0].gpu.index != shared[1].gpu.index
        for _ in range(rounds(2_000, 50)):
            expected = []
            for surface, opened in zip(surfaces, shared, strict=True):
                mine, theirs = (dice.integers(0, 256, surface.shape).astype(np.uint8) for _ in range(2))
                with surface.access(0, 1):
                    surface.write(mine)
                with opened.access(1, 0) as view:
                    assert (cuda_peer.read(opened, view) == mine).all()
                    cuda_peer.write(opened, view, theirs)
                expected.append(theirs)
            for surface, pixels in zip(surfaces, expected, strict=True):
                with surface.access(0, 0):
                    assert (surface.read() == pixels).all()


def test_tensors_are_on_the_gpu_of_their_surface(devices: list[vks.Device]) -> None:
    torch = pytest.importorskip("torch")
    for n, device in enumerate(devices):
        with device.create_surface(64, 64, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
            with torch.cuda.device(1 - shared.gpu.index), shared.access() as view:  # whichever is current
                tensor = torch.from_dlpack(view)
                assert tensor.device == torch.device("cuda", shared.gpu.index)
                tensor.fill_(40 + n)
            with surface.access():
                assert (surface.read() == 40 + n).all()


def test_a_device_is_opened_on_the_gpu_of_a_torch_device(devices: list[vks.Device]) -> None:
    torch = pytest.importorskip("torch")
    for index in range(2):
        with (
            vks.open(torch.device("cuda", index)) as device,
            device.create_surface(16, 16, **LINEAR) as surface,
            vks.interop.cuda.open(surface) as shared,
        ):
            assert shared.gpu.index == index


def test_a_stream_of_the_other_gpu_is_refused_with_both_names(devices: list[vks.Device]) -> None:
    with ExitStack() as stack:
        surfaces = [stack.enter_context(device.create_surface(16, 16, **LINEAR)) for device in devices]
        first, second = (stack.enter_context(vks.interop.cuda.open(surface)) for surface in surfaces)
        fence = stack.enter_context(devices[0].create_fence())
        in_cuda = stack.enter_context(vks.interop.cuda.open_fence(fence))
        foreign = cuda_peer.make_stream(second)
        calls: list[Callable[[], Any]] = [
            lambda: first.access(stream=foreign).__enter__(),
            lambda: in_cuda.signal(1, stream=foreign),
            lambda: in_cuda.wait(0, stream=foreign),
        ]
        for call in calls:
            with pytest.raises(DeviceMismatchError) as caught:
                call()
            for opened in (first, second):
                assert str(uuid.UUID(bytes=opened.gpu.uuid)) in str(caught.value)
        with first.access():
            pass  # nothing was left behind
        assert fence.value == 0


def test_a_tensor_of_the_other_gpu_is_not_shared(devices: list[vks.Device]) -> None:
    torch = pytest.importorskip("torch")
    with devices[0].create_surface(16, 16, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
        there = torch.zeros((8, 8, 4), dtype=torch.uint8, device=torch.device("cuda", 1 - shared.gpu.index))
        with pytest.raises(DeviceMismatchError, match="copy it there first"):
            vks.interop.cuda.share(devices[0], there)


def test_a_surface_of_the_other_gpu_is_refused_with_both_names(devices: list[vks.Device]) -> None:
    with devices[0].create_surface(16, 16) as surface, surface.export() as descriptor:
        with pytest.raises(DeviceMismatchError) as caught:
            devices[1].open_surface(descriptor)
        with surface.access():
            access_patterns.clear(surface, 1)
    for device in devices:
        assert str(uuid.UUID(bytes=device.capabilities.device_uuid)) in str(caught.value)


def test_a_fence_orders_work_of_both_gpus(devices: list[vks.Device]) -> None:
    """Its semaphore cannot cross: the page does."""
    with (
        devices[0].create_fence() as fence,
        fence.export() as descriptor,
        devices[1].open_fence(descriptor) as theirs,
        devices[1].create_surface(16, 16) as surface,
        surface.access(),
    ):
        for value in range(1, rounds(1_000, 30)):
            held = access_patterns.clear(surface, value % 200, waits=(theirs, value))
            assert not held.is_done()
            devices[0].submit(signals=(fence, value))
            held.wait(10)
            assert theirs.value == value


def test_a_gpu_that_cuda_may_not_see_is_named(devices: list[vks.Device]) -> None:
    code = textwrap.dedent(
        """
        import vkshare as vks
        shown = []
        for adapter in [a for a in vks.adapters("vulkan") if a.kind == "gpu"][:2]:
            with vks.open(adapter) as device, device.create_surface(8, 8, tiling="linear", memory="device") as surface:
                try:
                    vks.interop.cuda.open(surface).close()
                    shown.append("opened")
                except vks.errors.DeviceMismatchError as error:
                    shown.append("CUDA_VISIBLE_DEVICES is '0'" in str(error) and "mismatch")
        print(sorted(map(str, shown)))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"CUDA_VISIBLE_DEVICES": "0"}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "['mismatch', 'opened']", done.stdout + done.stderr
