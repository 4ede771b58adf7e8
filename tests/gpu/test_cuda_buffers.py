"""Buffers in CUDA on a real GPU: the bytes of Vulkan's, in order, for PyTorch and two processes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support import access_patterns, cuda_peer
from support.peer_processes import Peer
from support.run_volumes import rounds, unhurried
from support.shared_handles import opened_buffer

import vkshare as vks
from vkshare.errors import AbandonedError, UnsupportedError

pytest_plugins = ["support.peer_processes"]
pytestmark = [
    pytest.mark.vks_gpu,
    pytest.mark.rule("E5", "I3"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    unhurried,
]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]


@pytest.fixture
def device(gpu: Open, cuda: None) -> vks.Device:
    return gpu(name="vulkan")


@pytest.mark.parametrize("nbytes", [1, 3, 4, 4096, 100_001, 5 << 20])
def test_cuda_sees_the_bytes_of_vulkan_and_vulkan_those_of_cuda(device: vks.Device, nbytes: int) -> None:
    with device.create_buffer(nbytes) as buffer, vks.interop.cuda.open(buffer) as shared:
        assert not buffer.is_host_visible
        for turn in range(rounds(200, 6)):
            with buffer.access(2 * turn, 2 * turn + 1):
                access_patterns.fill(buffer, turn)
            with shared.access(2 * turn + 1, 2 * turn + 2) as view:
                assert (view.shape, view.strides, view.dtype) == ((nbytes,), (1,), np.dtype(np.uint8))
                seen = cuda_peer.read_bytes(shared, view)
                assert (seen == access_patterns.filling(nbytes, turn)).all()
                cuda_peer.write_bytes(shared, view, 255 - seen)
            with buffer.access(2 * turn + 2, 2 * turn + 2):
                assert (buffer.read() == 255 - seen).all()


def test_a_new_buffer_is_zeros_in_cuda_too_and_the_first_word_of_it_can_be_written(device: vks.Device) -> None:
    for nbytes in (4, 64, 4097):
        with device.create_buffer(nbytes) as buffer, vks.interop.cuda.open(buffer) as shared:
            with shared.access(0, 1) as view:
                assert not cuda_peer.read_bytes(shared, view).any()
                cuda_peer.write_bytes(shared, view, np.full(nbytes, 9, np.uint8))
            with buffer.access(1, 0):
                assert (buffer.read() == 9).all()


def test_a_copy_of_a_command_list_comes_before_the_stream_and_the_next_one_after_it(device: vks.Device) -> None:
    size = 8 << 20
    with (
        device.create_surface(2048, 1024) as surface,
        device.create_buffer(size) as buffer,
        vks.interop.cuda.open(buffer) as shared,
        surface.access(),
    ):
        for turn in range(rounds(100, 5)):
            buffer.acquire(0, 10)
            device.submit(device.record().clear(surface, (turn / 255, 0, 0, 1)).copy(surface, buffer))
            buffer.release(1)
            with shared.access(1, 2) as view:
                seen = cuda_peer.read_bytes(shared, view).reshape(-1, 4)
                assert (seen == (turn, 0, 0, 255)).all()
                cuda_peer.write_bytes(shared, view, np.full(size, turn + 1, np.uint8))
            buffer.acquire(2, 10)
            device.submit(device.record().copy(buffer, surface))
            buffer.release(0)
            assert (surface.read() == turn + 1).all()


def test_pytorch_and_the_cuda_array_interface_have_the_memory_itself(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    with device.create_buffer(4000) as buffer, vks.interop.cuda.open(buffer) as shared:
        with buffer.access(0, 1):
            buffer.write(np.arange(1000, dtype=np.float32))
        with shared.access(1, 2, stream=torch.cuda.current_stream()) as view:
            tensor = torch.from_dlpack(view)
            assert tuple(tensor.shape) == (4000,)
            tensor.view(torch.float32).mul_(2)
            other = torch.as_tensor(view, device="cuda")
            assert other.data_ptr() == tensor.data_ptr() == view.pointer
            with pytest.raises(UnsupportedError, match="of a buffer"):
                view.format  # noqa: B018
        with buffer.access(2, 0):
            assert (buffer.read().view(np.float32) == 2 * np.arange(1000)).all()


def test_a_buffer_of_another_process_is_the_same_memory_and_its_owners_death_is_reported(
    device: vks.Device, peers: Peers
) -> None:
    peer = peers()
    with device.create_buffer(1 << 20) as buffer, vks.interop.cuda.open(buffer) as shared:
        theirs = opened_buffer(buffer, peer.device)
        with shared.access(0, 1) as view:
            cuda_peer.write_bytes(shared, view, access_patterns.filling(1 << 20, 5))
        theirs.acquire(1, 10)
        assert peer.run(access_patterns.is_filling, theirs, 5)
        peer.kill()
        with pytest.raises(AbandonedError), shared.access(2, 2, 10):
            pass


def test_vulkan_and_cuda_agree_beside_a_surface_of_the_same_size(device: vks.Device) -> None:
    """Small buffers beside small images: compression marks of one must not be taken for the other's."""
    for side in (1, 2, 16, 64):
        with (
            device.create_surface(side, side) as surface,
            device.create_buffer(4 * side * side) as buffer,
            vks.interop.cuda.open(buffer) as shared,
            surface.access() as picture,
        ):
            with buffer.access(0, 1) as view:
                device.submit(device.record().clear(picture, (1, 0, 1, 0)).copy(picture, view))
            with shared.access(1, 2) as view_of_cuda:
                assert (cuda_peer.read_bytes(shared, view_of_cuda).reshape(-1, 4) == (255, 0, 255, 0)).all()
                cuda_peer.write_bytes(shared, view_of_cuda, np.full(4 * side * side, 7, np.uint8))
            with buffer.access(2, 0) as view:
                device.submit(device.record().copy(view, picture))
            assert (surface.read() == 7).all()
