"""Planes in CUDA on a real GPU: the first write, frames of decoders, the order under load, and other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import cuda_peer
from support.peer_processes import PeerDied
from support.pixel_formats import PLANAR
from support.planar_pictures import Planes, exact, first_difference, noise
from support.run_volumes import rounds, unhurried

import vkshare as vks
from vkshare.errors import AbandonedError

pytest_plugins = ["support.peer_processes"]
pytestmark = [pytest.mark.vks_gpu, pytest.mark.rule("I3", "Y1"), unhurried]

Open = Callable[..., vks.Device]
# From one pixel of chroma to a picture, whose places in the memory have each alignment.
SIZES = ((2, 2), (34, 18), (66, 42), (1920, 1080))


@pytest.fixture
def device(gpu: Open, cuda: None) -> vks.Device:
    return gpu(name="vulkan")


@pytest.fixture(params=["linear", "optimal"])
def tiling(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _surfaces(device: vks.Device, name: str, tiling: str) -> Iterator[vks.Surface]:
    for size in SIZES:
        with device.create_surface(*size, name, tiling=tiling) as surface:
            yield surface


def _check(found: Planes, wanted: Planes, what: object) -> None:
    difference = first_difference(found, wanted)
    assert not difference, f"{what}: {difference}"


def _decoded(shared: vks.interop.cuda.CUDASurface, planes: Planes, stream: int, owned: ExitStack) -> list[Any]:
    made = [cuda_peer.DecodedPlane(shared, plane, stream) for plane in planes]
    for each in made:
        owned.callback(each.close)
    return made


# ---- the same memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANAR)
def test_cuda_sees_the_planes_of_vulkan_and_vulkan_those_of_cuda(device: vks.Device, name: str, tiling: str) -> None:
    for surface in _surfaces(device, name, tiling):
        with vks.interop.cuda.open(surface) as shared:
            for turn in range(rounds(100, 4)):
                mine, theirs = noise(surface, 2 * turn), noise(surface, 2 * turn + 1)
                with surface.access(2 * turn, 2 * turn + 1):
                    surface.write_planes(mine)
                with shared.access(2 * turn + 1, 2 * turn + 2) as view:
                    seen = cuda_peer.read_planes(shared, view)
                    cuda_peer.write_planes(shared, view, theirs)
                _check(seen, mine, f"CUDA reads what Vulkan wrote to {surface}, turn {turn}")
                with surface.access(2 * turn + 2, 2 * turn + 2):
                    read = surface.read_planes()
                _check(read, theirs, f"Vulkan reads what CUDA wrote to {surface}, turn {turn}")


@pytest.mark.parametrize("name", PLANAR)
def test_new_planes_are_zeros_in_cuda_and_its_first_write_is_seen(device: vks.Device, name: str, tiling: str) -> None:
    """The zeros are a clear of Vulkan's, of which a driver may keep marks beside the memory (NVIDIA 580 did)."""
    for surface in _surfaces(device, name, tiling):
        written = noise(surface)
        with vks.interop.cuda.open(surface) as shared:
            with shared.access(0, 1) as view:
                seen = cuda_peer.read_planes(shared, view)
                cuda_peer.write_planes(shared, view, written)
            _check(seen, tuple(map(np.zeros_like, written)), f"CUDA reads a new {surface}")
            with surface.access(1, 0):
                _check(surface.read_planes(), written, f"Vulkan reads what CUDA wrote first to {surface}")


@pytest.mark.parametrize("name", PLANAR)
def test_a_write_to_one_plane_leaves_the_others(device: vks.Device, name: str, tiling: str) -> None:
    for surface in _surfaces(device, name, tiling):
        wanted = list(noise(surface))
        with surface.access():
            surface.write_planes(wanted)
        with vks.interop.cuda.open(surface) as shared:
            for index in range(len(wanted)):
                wanted[index] = ~wanted[index]
                with shared.access() as view:
                    cuda_peer.write(shared, view.planes[index], wanted[index])
                with surface.access():
                    _check(surface.read_planes(), tuple(wanted), f"after a write to plane {index} of {surface}")


@pytest.mark.parametrize("name", PLANAR)
def test_what_cuda_wrote_is_the_picture_that_commands_convert(device: vks.Device, name: str, tiling: str) -> None:
    with (
        device.create_surface(66, 42, name, tiling=tiling) as surface,
        device.create_surface(66, 42) as result,
        vks.interop.cuda.open(surface) as shared,
    ):
        for turn in range(rounds(20, 3)):
            planes = noise(surface, turn)
            with shared.access(0, 1) as view:
                cuda_peer.write_planes(shared, view, planes)
            with surface.access(1, 0) as source, result.access() as target:
                device.submit(device.record().composite(source, target))
                found = result.read()[..., :3]
            error = np.abs(found - exact(planes, name, surface.color) * 255).max()
            assert error <= 1, f"{surface}: {error:.2f} codes from the exact conversion"


# ---- frames of decoders -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANAR)
def test_a_decoders_planes_are_copied_into_the_surfaces(device: vks.Device, name: str, tiling: str) -> None:
    for surface in _surfaces(device, name, tiling):
        with vks.interop.cuda.open(surface) as shared, ExitStack() as owned:
            for stream in (None, cuda_peer.make_stream(shared)):
                planes = noise(surface, 7 if stream else 8)
                decoded = _decoded(shared, planes, 1, owned)
                with shared.access(0, 1, stream=stream) as view:
                    view.copy_from(decoded)
                with surface.access(1, 0):
                    _check(surface.read_planes(), planes, f"a frame in {surface}, stream {stream}")


def test_a_frame_is_copied_behind_its_decoding_and_before_the_next(device: vks.Device, tiling: str) -> None:
    """The decoder writes its next frame to the same memory at once, in its own stream: nothing waits on the CPU."""
    torch = pytest.importorskip("torch")
    with (
        device.create_surface(1920, 1080, "nv12", tiling=tiling) as surface,
        vks.interop.cuda.open(surface) as shared,
        ExitStack() as owned,
    ):
        decoding, copying = torch.cuda.Stream(), torch.cuda.Stream()
        empty = tuple(np.zeros_like(plane) for plane in noise(surface))
        decoded = _decoded(shared, empty, decoding.cuda_stream, owned)
        for turn in range(rounds(100, 5)):
            byte = 1 + turn % 254
            with torch.cuda.stream(decoding):
                torch.cuda._sleep(100_000_000)  # some 50 ms
            for plane in decoded:
                plane.fill(byte)
            with shared.access(0, 1, stream=copying) as view:
                view.copy_from(decoded)
            assert not decoding.query(), "the copy waited on the CPU for the decoder, or that was fast"
            for plane in decoded:
                plane.fill(255)  # the next frame
            with surface.access(1, 0, 30):
                wanted = tuple(np.full_like(plane, byte) for plane in empty)
                _check(surface.read_planes(), wanted, f"turn {turn}")


def test_frames_of_torch_by_dlpack_are_copied(device: vks.Device, tiling: str) -> None:
    torch = pytest.importorskip("torch")
    with device.create_surface(640, 360, "nv12", tiling=tiling) as surface, vks.interop.cuda.open(surface) as shared:
        for turn in range(rounds(200, 10)):
            frame = torch.full((540, 768), 9, dtype=torch.uint8, device="cuda")  # rows of 640 and padding, as NVDEC's
            frame[:360] = turn % 250
            with shared.access(0, 1, stream=cuda_stream(torch, turn)) as view:
                view.copy_from([frame[:360, :640], frame[360:, :640]])
                torch.cuda.synchronize()  # `frame` may be freed
            with surface.access(1, 0):
                luma, chroma = surface.read_planes()
            assert (luma == turn % 250).all()
            assert (chroma == 9).all()


def cuda_stream(torch: Any, turn: int) -> Any:
    """PyTorch's current stream, and one of its own, in turn."""
    return torch.cuda.Stream() if turn % 2 else None


def test_frames_of_nvdec_are_copied_into_a_pipe_bit_for_bit(device: vks.Device, gpu: Open, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    path = _video(av, tmp_path)
    with av.open(path) as software:
        wanted = [_planes_of(frame) for frame in software.decode(video=0)]
    sender, descriptor = vks.pipe(device, 640, 360, format="nv12")
    receiver = vks.open_receiver(gpu(name="receiver"), descriptor)
    opened: dict[int, vks.interop.cuda.CUDASurface] = {}
    with _nvdec(av, path, vks.interop.cuda.driver.gpu_of(device)) as container:
        for turn, decoded in enumerate(container.decode(video=0)):
            with sender.frame(timeout=30) as frame:
                surface = frame.surface
                if surface.image not in opened:
                    opened[surface.image] = vks.interop.cuda.open(surface)
                with opened[surface.image].within() as view:
                    view.copy_from(decoded.planes)
            with receiver.frame(timeout=30) as frame:  # the copy has run then, and the decoder may use its memory
                _check(frame.surface.read_planes(), wanted[turn], f"frame {turn} of NVDEC")
    assert turn + 1 == len(wanted)
    for each in (*opened.values(), receiver, sender):
        each.close()


def _video(av: Any, folder: Path) -> str:
    """Sixty frames of H.264 in which everything moves."""
    path = str(folder / "moving.mp4")
    with av.open(path, "w") as container:
        try:
            stream = container.add_stream("libx264", rate=30)
        except Exception as error:
            pytest.skip(f"PyAV has no encoder of H.264: {error}")
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        y, x = np.mgrid[:360, :640]
        for n in range(60):
            pixels = np.stack([(x + 4 * n) % 256, (y + 2 * n) % 256, (x + y + 8 * n) % 256], 2).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


def _nvdec(av: Any, path: str, gpu: Any) -> Any:
    """The clip, whose frames stay in CUDA's memory, in the primary context (vkshare/video/nvdec.py has the reason)."""
    from av.codec import hwaccel

    if "cuda" not in [str(each) for each in hwaccel.hwdevices_available()]:
        pytest.skip("this PyAV is built without CUDA")
    options: dict[str, object] = {"primary_ctx": "0", "current_ctx": "1"}
    try:
        hardware = hwaccel.HWAccel("cuda", str(gpu.index), options=options, is_hw_owned=True)
    except TypeError as error:
        pytest.skip(f"PyAV {av.__version__} leaves no frames in CUDA's memory: {error}")
    with gpu.current():
        return av.open(path, hwaccel=hardware)


def _planes_of(frame: Any) -> Planes:
    """A software decoder's frame as nv12."""
    height, width = frame.height, frame.width
    rows = frame.reformat(format="yuv420p").to_ndarray()  # Y', then Cb, two of its rows a row, then Cr
    cb, cr = rows[height:].reshape(2, height // 2, width // 2)
    return rows[:height, :, np.newaxis], np.stack([cb, cr], 2)


def test_arrays_of_the_cpu_are_refused_with_what_to_do(device: vks.Device) -> None:
    with (
        device.create_surface(34, 18, "nv12") as surface,
        vks.interop.cuda.open(surface) as shared,
        shared.access() as view,
        pytest.raises(TypeError, match=r"plane 0 is on DLPack's device type 1; .* write_planes\(\) take"),
    ):
        view.copy_from(noise(surface))


# ---- in order -----------------------------------------------------------------------------------------------------


def _heavy(device: vks.Device, view: vks.View, last: tuple[float, ...], times: int) -> Any:
    """Clears of each plane, as many as take some time, that end with the surface in one colour."""
    commands = device.record()
    for n in range(times):
        commands.clear(view, (n / times, 0.5, 0, 1))
    return device.submit(commands.clear(view, last))


def test_a_turn_begins_and_ends_while_vulkan_still_draws_planes(device: vks.Device) -> None:
    with (
        device.create_surface(4096, 4096, "p010", tiling="optimal") as surface,
        device.open_surface(surface) as other,
        vks.interop.cuda.open(other) as shared,
        ExitStack() as owned,
    ):
        zeros = tuple(np.zeros(shape, np.uint16) for shape in ((4096, 4096, 1), (2048, 2048, 2)))
        decoded = _decoded(shared, zeros, 1, owned)
        with shared.access() as view:  # what is made at first use is made
            view.copy_from(decoded)
        with surface.access(0, 1) as target:
            drawn = _heavy(device, target, (1, 1, 1, 1), 2000)
        with shared.access(1, 2) as view:
            assert not drawn.is_done(), "drawing took no longer than entering the block, or that waited for it"
            for plane in decoded:
                plane.fill(0x3E)
            view.copy_from(decoded)
        assert not drawn.is_done(), "leaving the block waited for Vulkan"
        with surface.access(2, 0, 60):
            _check(surface.read_planes(), tuple(np.full_like(plane, 0x3E3E) for plane in zeros), "CUDA's frame")


@pytest.mark.parametrize("name", PLANAR)
def test_planes_change_hands_in_order_under_load(device: vks.Device, name: str, tiling: str) -> None:
    """Vulkan clears many times, CUDA copies a frame: whichever does not wait for the other sees old codes."""
    grey = {}
    with (
        device.create_surface(640, 360, name, tiling=tiling) as surface,
        device.open_surface(surface) as other,
        vks.interop.cuda.open(other) as shared,
        ExitStack() as owned,
    ):
        for level in range(4):  # the codes of each colour, read in peace
            with surface.access() as view:
                device.submit(device.record().clear(view, (level / 3,) * 3 + (1,))).wait()
                grey[level] = surface.read_planes()
        decoded = _decoded(shared, grey[0], 1, owned)
        for turn in range(rounds(2000, 40)):
            level, byte = turn % 4, 16 + turn % 200
            with surface.access(0, 1) as view:
                _heavy(device, view, (level / 3,) * 3 + (1,), 20)
            with shared.access(1, 2) as view:
                seen = cuda_peer.read_planes(shared, view)
                for plane in decoded:
                    plane.fill(byte)
                view.copy_from(decoded)
            _check(seen, grey[level], f"turn {turn}: CUDA after Vulkan's clears")
            with surface.access(2, 0, 60):
                code = byte * 0x101 if name == "p010" else byte
                wanted = tuple(np.full_like(plane, code) for plane in seen)
                _check(surface.read_planes(), wanted, f"turn {turn}: Vulkan after CUDA's frame")


# ---- other processes ----------------------------------------------------------------------------------------------


@pytest.mark.rule("K13")
@pytest.mark.parametrize("name", PLANAR)
def test_cuda_in_another_process_inverts_each_picture(device: vks.Device, peers: Any, name: str, tiling: str) -> None:
    peer, turns = peers(), rounds(1000, 10)
    with device.create_surface(66, 42, name, tiling=tiling) as surface:
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        serving = peer.later(cuda_peer.serve_planes, theirs, turns, 1, 0)
        for turn in range(turns):
            sent = noise(surface, turn)
            with surface.access(0, 1, 60):
                surface.write_planes(sent)
            with surface.access(0, 0, 60):
                _check(surface.read_planes(), tuple(~plane for plane in sent), f"{surface}, turn {turn}")
        assert serving.result(60) == turns


def test_vulkan_waits_for_the_frame_of_another_process(device: vks.Device, peers: Any, tiling: str) -> None:
    peer = peers()
    with device.create_surface(640, 360, "nv12", tiling=tiling) as surface:
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        for byte in range(rounds(200, 10)):
            peer.run(cuda_peer.decode_into, theirs, byte, 0, 1)
            with surface.access(1, 0, 60):
                assert all((plane == byte).all() for plane in surface.read_planes()), byte


@pytest.mark.rule("K7")
def test_a_process_that_dies_in_its_turn_with_planes_abandons_the_surface(device: vks.Device, peers: Any) -> None:
    peer = peers()
    with device.create_surface(640, 360, "nv12", tiling="optimal") as surface:
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        with pytest.raises(PeerDied):
            peer.run(cuda_peer.die_in_planes, theirs, 0)
        with pytest.raises(AbandonedError):
            surface.acquire(1, 5)
        surface.recover(5)
        planes = noise(surface)
        surface.write_planes(planes)
        _check(surface.read_planes(), planes, "after the recovery")
