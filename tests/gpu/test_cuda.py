"""CUDA and Vulkan on one real GPU: the same memory, in order without a wait of the CPU."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support import cuda_peer
from support.peer_processes import PeerDied, later
from support.pixel_formats import WITHOUT_DEPTH
from support.run_volumes import rounds, seeded, unhurried

import vkshare as vks
from vkshare.errors import AbandonedError, ClosedError, InvalidCallError, NotOwnerError, UnsupportedError

pytest_plugins = ["support.peer_processes"]
pytestmark = [pytest.mark.vks_gpu, unhurried]

Open = Callable[..., vks.Device]
SIDE = 4096


@pytest.fixture
def device(gpu: Open, cuda: None) -> vks.Device:
    return gpu(name="vulkan")


LINEAR: dict[str, Any] = {"tiling": "linear", "memory": "device"}
IN_HOST_MEMORY: dict[str, Any] = {"tiling": "linear", "memory": "host"}
OPTIMAL: dict[str, Any] = {"tiling": "optimal"}


@pytest.fixture(params=[LINEAR, IN_HOST_MEMORY, OPTIMAL], ids=["linear", "host", "optimal"])
def tiling(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


@pytest.fixture
def shared(device: vks.Device, tiling: dict[str, Any]) -> Iterator[vks.interop.cuda.CUDASurface]:
    with device.create_surface(67, 41, **tiling) as surface, vks.interop.cuda.open(surface) as opened:
        yield opened


def random_pixels(surface: vks.Surface, dice: Any) -> np.ndarray[Any, Any]:
    """Any bits, but for floats, where a NaN may come back as another one: small whole numbers."""
    dtype: np.dtype[Any] = surface.spec.format.numpy_dtype
    generator = np.random.default_rng(dice.getrandbits(32))
    high = 1000 if dtype.kind == "f" else np.iinfo(dtype).max + 1
    return generator.integers(0, high, surface.shape).astype(dtype)


def heavy(device: vks.Device, view: vks.View | vks.Surface, last: tuple[float, ...], times: int = 2000) -> Any:
    """Work of some 100 ms that ends with the surface in one colour."""
    commands = device.record()
    for n in range(times):
        commands.clear(view, (n / times, 0, 0, 0))
    return commands.clear(view, last)


# ---- the same memory -------------------------------------------------------------------------------------------


@pytest.mark.rule("I3")
@pytest.mark.parametrize("name", WITHOUT_DEPTH)
def test_cuda_sees_what_vulkan_wrote_and_vulkan_what_cuda_wrote(
    device: vks.Device, name: str, tiling: dict[str, Any]
) -> None:
    dice = seeded()
    with device.create_surface(67, 41, name, **tiling) as surface:
        if name == "rgb10a2unorm" and tiling == OPTIMAL:
            with pytest.raises(UnsupportedError, match="no arrays of that format"):
                vks.interop.cuda.open(surface)
            return
        with vks.interop.cuda.open(surface) as shared:
            for turn in range(rounds(200, 4)):
                mine, theirs = random_pixels(surface, dice), random_pixels(surface, dice)
                with surface.access(2 * turn, 2 * turn + 1):
                    surface.write(mine)
                with shared.access(2 * turn + 1, 2 * turn + 2) as view:
                    assert (cuda_peer.read(shared, view) == mine).all()
                    cuda_peer.write(shared, view, theirs)
                with surface.access(2 * turn + 2, 2 * turn + 2):
                    assert (surface.read() == theirs).all()
            assert shared.statistics() == vks.interop.cuda.CUDAStatistics(rounds(200, 4), 0, 0)


@pytest.mark.rule("E6")
@pytest.mark.parametrize("name", ["d16unorm", "d32float"])
def test_a_depth_surface_is_an_array_in_cuda_or_says_why_not(device: vks.Device, name: str) -> None:
    with device.create_surface(64, 48, name) as surface, device.create_surface(64, 48) as colours:
        with surface.access(0, 1), colours.access():
            slope = [(x, y, z, 1, 1, 1, 1, 1) for x, y, z in ((-1, -1, 0), (3, -1, 1), (-1, 3, 0.5))]
            commands = device.record().clear(surface, 1).clear(colours, (0, 0, 0, 1))
            device.submit(commands.draw_triangles(colours, slope, depth=surface))
            drawn = surface.read()
        assert np.unique(drawn).size > 200
        try:
            shared = vks.interop.cuda.open(surface)
        except UnsupportedError as error:
            pytest.skip(str(error))
        with shared, shared.access(1, 2) as view:
            assert view.array
            assert view.texture_object
            with pytest.raises(UnsupportedError, match=r"a surface object of format .* CUDA has none of depth"):
                _ = view.surface_object
            np.testing.assert_array_equal(cuda_peer.read(shared, view), drawn)


@pytest.mark.rule("I3")
def test_commands_and_cuda_take_turns_in_two_handles(device: vks.Device, tiling: dict[str, Any]) -> None:
    with (
        device.create_surface(64, 64, **tiling) as surface,
        device.open_surface(surface) as other,
        vks.interop.cuda.open(other) as shared,
    ):
        for turn in range(rounds(10_000, 100)):
            red = turn % 250
            with surface.access(0, 1) as view:
                device.submit(device.record().clear(view, (red / 255, 0, 0, 1)))
            with shared.access(1, 2) as view:
                seen = cuda_peer.read(shared, view)
                assert (seen == (red, 0, 0, 255)).all()
                cuda_peer.write(shared, view, seen + 1)
            with surface.access(2, 0) as view:
                assert (surface.read() == (red + 1, 1, 1, 0)).all()


# ---- in order, without a wait of the CPU -------------------------------------------------------------------------


@pytest.mark.rule("I3")
def test_a_turn_begins_and_ends_while_vulkan_still_draws(device: vks.Device) -> None:
    with (
        device.create_surface(SIDE, SIDE, "rgba32float", **LINEAR) as surface,
        vks.interop.cuda.open(surface) as shared,
    ):
        with shared.access() as view:  # what is made at first use is made
            cuda_peer.fill(shared, view, 0)
        with surface.access(0, 1) as view:
            drawn = device.submit(heavy(device, view, (0.5,) * 4))
        with shared.access(1, 2) as view:
            assert not drawn.is_done(), "drawing took no longer than entering the block, or that waited for it"
            cuda_peer.fill(shared, view, 0x3E)
        assert not drawn.is_done()
        with surface.access(2, 0):
            assert (surface.read().view(np.uint8) == 0x3E).all()


@pytest.mark.rule("I3")
@pytest.mark.parametrize("on", ["same device", "another device"])
def test_vulkan_waits_for_cudas_work_on_the_gpu(device: vks.Device, gpu: Open, on: str) -> None:
    torch = pytest.importorskip("torch")
    other = device if on == "same device" else gpu(name="other")
    with device.create_surface(SIDE, SIDE, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
        theirs = other.open_surface(surface if other is device else surface.export())
        result = other.create_surface(SIDE, SIDE, tiling="optimal")
        result.acquire()
        for turn in range(3):
            with shared.access(0, 1) as view:
                tensor = torch.from_dlpack(view)
                tensor.fill_(0xA5)
                torch.cuda._sleep(200_000_000)  # some 0.1 s
                tensor.fill_(turn)
            with theirs.access(1, 0) as view:
                copied = other.submit(other.record().copy(view, result))
            assert not copied.is_done(), "the copy, or a wait of the CPU, took as long as CUDA's work"
            assert not copied.is_held
            assert (result.read() == turn).all()
        result.close()
        theirs.close()


@pytest.mark.rule("I3")
def test_a_cpu_access_waits_for_cudas_work(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    with device.create_surface(64, 64, **IN_HOST_MEMORY) as surface, vks.interop.cuda.open(surface) as shared:
        with shared.access(0, 1) as view:
            torch.cuda._sleep(100_000_000)
            torch.from_dlpack(view).fill_(77)
        with surface.access(1, 0) as view:
            assert (view.array == 77).all()


@pytest.mark.rule("I3")
def test_closing_the_surface_waits_for_cudas_work(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    surface = device.create_surface(64, 64, **IN_HOST_MEMORY)
    shared = vks.interop.cuda.open(surface)
    with device.open_surface(surface) as other:
        with shared.access(0, 1) as view:
            torch.cuda._sleep(100_000_000)
            torch.from_dlpack(view).fill_(78)
        surface.close()
        with other.access(1, 0) as view:
            assert (view.array == 78).all()
        with pytest.raises(ClosedError):
            shared.access(0, 1).__enter__()
    shared.close()


# ---- streams -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3")
@pytest.mark.parametrize("kind", ["torch", "cupy", "integer", "protocol", "none", "per thread"])
def test_any_kind_of_stream_orders_the_work(device: vks.Device, kind: str) -> None:
    class Protocol:
        def __init__(self, number: int) -> None:
            self.number = number

        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, self.number

    with device.create_surface(64, 64, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
        given: Any = {"none": None, "per thread": 2}.get(kind)
        if kind == "torch":
            given = pytest.importorskip("torch").cuda.Stream()
        elif kind == "cupy":
            given = pytest.importorskip("cupy").cuda.Stream(non_blocking=True)
        elif kind in ("integer", "protocol"):
            number = cuda_peer.make_stream(shared)
            given = number if kind == "integer" else Protocol(number)
        for byte in range(rounds(1000, 20)):
            with surface.access(0, 1) as view:
                device.submit(heavy(device, view, (0, 0, 0, 0), 20))
            with shared.access(1, 2, stream=given) as theirs:
                cuda_peer.fill(shared, theirs, byte)
            with surface.access(2, 0) as view:
                assert (surface.read() == byte).all()


@pytest.mark.rule("I3")
def test_a_stream_that_takes_the_view_by_dlpack_is_joined(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    with device.create_surface(SIDE, SIDE, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
        own = cuda_peer.make_stream(shared)
        for byte in range(1, 4):
            with surface.access(0, 1) as view:
                device.submit(heavy(device, view, (byte / 255,) * 4, 500))
            with shared.access(1, 0, stream=own) as view, torch.cuda.stream(torch.cuda.Stream()):
                tensor = torch.from_dlpack(view)
                seen = tensor.clone()
                torch.cuda._sleep(50_000_000)
                tensor.add_(1)
            with surface.access(0, 0):
                assert (surface.read() == byte + 1).all()
            assert (seen == byte).all()
        assert shared.statistics().joined_streams == 3


@pytest.mark.rule("I3")
@pytest.mark.parametrize(
    ("stream", "error"), [("x", TypeError), (True, TypeError), (-1, ValueError), (2**64, ValueError), (1.5, TypeError)]
)
def test_what_is_no_stream_is_refused_before_the_turn(device: vks.Device, stream: Any, error: type) -> None:
    with device.create_surface(8, 8, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
        with pytest.raises(error):
            shared.access(stream=stream)
        with surface.access():
            pass


@pytest.mark.rule("I3")
def test_a_stream_that_is_being_captured_is_refused_and_the_surface_goes_back(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    with device.create_surface(8, 8, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        access = shared.access(stream=stream)
        with torch.cuda.graph(graph, stream=stream), pytest.raises(InvalidCallError, match="captured"):
            access.__enter__()
        with surface.access():
            assert surface.read() is not None


# ---- other libraries ---------------------------------------------------------------------------------------------


@pytest.mark.rule("I3")
@pytest.mark.parametrize("library", ["torch dlpack", "torch array", "cupy dlpack", "cupy array", "jax dlpack"])
def test_a_library_sees_the_same_memory(device: vks.Device, library: str) -> None:
    package = library.split()[0]
    module = pytest.importorskip(package)
    dice = seeded()
    with (
        device.create_surface(64 if package == "jax" else 61, 33, "rgba32float", **LINEAR) as surface,
        vks.interop.cuda.open(surface) as shared,
    ):
        mine = random_pixels(surface, dice)
        with surface.access(0, 1):
            surface.write(mine)
        with shared.access(1, 2) as view:
            if library == "torch array":
                array = module.as_tensor(view, device="cuda")
            elif library == "cupy array":
                array = module.asarray(view)
            else:
                array = (module.dlpack if package == "jax" else module).from_dlpack(view)
            assert array.shape == surface.shape
            if package == "jax":  # its arrays cannot be written
                assert (np.asarray(array) == mine).all()
            else:
                seen = array.cpu().numpy() if package == "torch" else module.asnumpy(array)
                assert (seen == mine).all()
                array *= 2
            assert package != "torch" or array.data_ptr() == view.pointer
        with surface.access(2, 0):
            assert (surface.read() == (mine if package == "jax" else 2 * mine)).all()


@pytest.mark.rule("I3", "I11")
def test_a_tensor_keeps_the_memory_when_everything_else_is_closed(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    surface = device.create_surface(64, 64, **LINEAR)
    shared = vks.interop.cuda.open(surface)
    with shared.access() as view:
        tensor = torch.from_dlpack(view)
        tensor.fill_(9)
    shared.close()
    surface.close()
    gc.collect()
    assert (tensor == 9).all()
    tensor.fill_(10)
    torch.cuda.synchronize()
    with pytest.raises(InvalidCallError, match="over"):
        torch.from_dlpack(view)
    del tensor
    gc.collect()


@pytest.mark.rule("I3")
def test_a_read_only_view_is_no_array_that_can_be_written_unknowingly(device: vks.Device) -> None:
    with (
        device.create_surface(8, 8, **LINEAR) as surface,
        vks.interop.cuda.open(surface) as shared,
        shared.access(writable=False) as view,
    ):
        assert view.__cuda_array_interface__["data"] == (view.pointer, True)
        with pytest.raises(BufferError, match="read-only"):
            view.__dlpack__()
        view.__dlpack__(max_version=(1, 0))


@pytest.mark.rule("I3", "I10")
def test_what_a_tiling_has_not_is_an_error_that_says_what_there_is(shared: vks.interop.cuda.CUDASurface) -> None:
    with shared.access() as view:
        if shared.surface.tiling == "optimal":
            assert not hasattr(view, "__cuda_array_interface__")
            with pytest.raises(BufferError, match=r"view\.array"):
                view.__dlpack__()
            with pytest.raises(UnsupportedError, match="linear"):
                view.pointer  # noqa: B018
            assert view.strides is None
            assert view.array
            assert view.surface_object
            assert view.texture_object
        else:
            assert view.strides is not None
            with pytest.raises(UnsupportedError, match="buffer"):
                view.array  # noqa: B018


# ---- turns -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3")
def test_the_handles_own_commands_are_refused_while_cuda_has_the_surface(
    shared: vks.interop.cuda.CUDASurface,
) -> None:
    surface, device = shared.surface, shared.device
    with shared.access() as view:
        with pytest.raises(NotOwnerError):
            device.submit(device.record().clear(surface, (0, 0, 0, 0)))
        with pytest.raises(InvalidCallError):
            surface.release()
        with pytest.raises(InvalidCallError):
            surface.acquire(timeout=0)
        cuda_peer.write(shared, view, np.full(surface.shape, 3, np.uint8))
    with surface.access():
        assert (surface.read() == 3).all()


@pytest.mark.rule("I3")
def test_commands_and_cuda_work_in_one_turn_in_the_order_of_their_blocks(
    shared: vks.interop.cuda.CUDASurface,
) -> None:
    surface, device = shared.surface, shared.device
    for turn in range(rounds(2000, 20)):
        surface.acquire(turn)
        device.submit(heavy(device, surface, (10 / 255,) * 4, 20))
        for step in range(2):
            with shared.within() as view:
                seen = cuda_peer.read(shared, view)
                assert (seen == 10 + step).all()
                cuda_peer.write(shared, view, seen + 1)
        assert (surface.read() == 12).all()
        device.submit(device.record().fill_rect(surface, (0, 0, 5, 5), (1, 1, 1, 1)))
        if turn % 2:
            with shared.within() as view:
                cuda_peer.write(shared, view, cuda_peer.read(shared, view) // 2)
        surface.release(turn + 1)
        with surface.access(turn + 1, turn + 1):
            pixels = surface.read()
        surface.acquire(turn + 1)
        surface.release(turn + 1)
        assert (pixels[:5, :5] == (127 if turn % 2 else 255)).all()
        assert (pixels[5:] == (6 if turn % 2 else 12)).all()


@pytest.mark.rule("I3")
def test_a_body_that_raises_gives_the_surface_back_by_its_acquire_key(shared: vks.interop.cuda.CUDASurface) -> None:
    def fail() -> None:
        with shared.access(0, 1) as view:
            cuda_peer.write(shared, view, np.full(shared.surface.shape, 4, np.uint8))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with shared.surface.access(0, 0):
        assert (shared.surface.read() == 4).all()


@pytest.mark.rule("I3", "Q1")
def test_cuda_works_on_the_frames_of_a_pipe(device: vks.Device, gpu: Open) -> None:
    sender, descriptor = vks.pipe(device, 64, 64)
    receiver = vks.open_receiver(gpu(name="receiver"), descriptor)
    opened: dict[int, vks.interop.cuda.CUDASurface] = {}
    for turn in range(rounds(2000, 30)):
        with sender.frame(timeout=30) as frame:
            surface = frame.surface
            if surface.image not in opened:
                opened[surface.image] = vks.interop.cuda.open(surface)
            with opened[surface.image].within() as view:
                shared = opened[surface.image]
                cuda_peer.write(shared, view, np.full(surface.shape, turn % 256, np.uint8))
        with receiver.frame(timeout=30) as frame:
            assert (frame.surface.read() == turn % 256).all()
    for shared in opened.values():
        shared.close()
    receiver.close()
    sender.close()


@pytest.mark.rule("I3", "K1")
def test_threads_of_cuda_and_vulkan_take_turns(device: vks.Device) -> None:
    turns = rounds(5000, 200)
    with device.create_surface(64, 64, **IN_HOST_MEMORY) as surface, device.open_surface(surface) as other:
        failures: list[Any] = []

        def draw() -> None:
            for n in range(turns):
                with surface.access(0, 1, 30) as view:
                    if n and not (view.array == (n - 1) % 256).all():
                        failures.append(n)
                    device.submit(device.record().clear(view, (n % 255 / 255,) * 4))

        drawing = later(draw)
        with vks.interop.cuda.open(other) as shared:
            for n in range(turns):
                with shared.access(1, 0, 30) as view:
                    if not (cuda_peer.read(shared, view) == n % 255).all():
                        failures.append(-n)
                    cuda_peer.fill(shared, view, n % 256)
        drawing.result(60)
        assert not failures
        assert threading.active_count() < 50


# ---- other processes ---------------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "K13")
def test_cuda_in_another_process_takes_turns_with_vulkan_here(
    device: vks.Device, peers: Any, tiling: dict[str, Any]
) -> None:
    peer = peers()
    turns = rounds(5000, 50)
    with device.create_surface(64, 64, **tiling) as surface:
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        serving = peer.later(cuda_peer.serve, theirs, turns, 1, 0)
        for turn in range(turns):
            with surface.access(0, 1, 60) as view:
                if turn:
                    assert (surface.read() == (turn - 1) % 250 + 1).all()
                device.submit(device.record().clear(view, (turn % 250 / 255,) * 4))
        assert serving.result(60) == turns


@pytest.mark.rule("I3")
def test_vulkan_waits_for_what_cuda_of_another_process_has_queued(device: vks.Device, peers: Any) -> None:
    peer = peers()
    with device.create_surface(64, 64, **LINEAR) as surface:
        with surface.export() as descriptor:
            theirs = peer.device.open_surface(descriptor)
        for byte in range(rounds(200, 5)):
            peer.run(cuda_peer.fill_on_the_gpu, theirs, byte, 0, 1)
            with surface.access(1, 0, 60):
                assert (surface.read() == byte).all()


@pytest.mark.rule("I3", "K7")
def test_a_process_that_dies_while_cuda_has_the_surface_abandons_it(device: vks.Device, peers: Any) -> None:
    for _ in range(rounds(50, 2)):
        peer = peers()
        with device.create_surface(256, 256, **LINEAR) as surface:
            with surface.export() as descriptor:
                theirs = peer.device.open_surface(descriptor)
            with pytest.raises(PeerDied):
                peer.run(cuda_peer.die_in_a_turn, theirs, 0)
            with pytest.raises(AbandonedError):
                surface.acquire(1, 5)
            surface.recover(5)
            surface.write(np.full(surface.shape, 7, np.uint8))
            assert (surface.read() == 7).all()


# ---- share ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I4")
@pytest.mark.parametrize(
    ("dtype", "channels", "name"),
    [("uint8", 4, "rgba8unorm"), ("uint8", 1, "r8unorm"), ("float32", 4, "rgba32float"), ("float16", 4, "rgba16float")],
)
def test_a_tensor_is_copied_once_into_a_surface(device: vks.Device, dtype: str, channels: int, name: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.randint(0, 200, (33, 61, channels), device="cuda").to(getattr(torch, dtype))
    with vks.interop.cuda.share(device, tensor) as surface:
        wanted = tensor.cpu().numpy()
        tensor.zero_()
        assert surface.format == name
        assert surface.statistics().copied_bytes == wanted.nbytes
        with surface.access():
            assert (surface.read() == wanted).all()


@pytest.mark.rule("I4")
def test_a_tensor_that_is_a_surfaces_memory_is_that_surface(device: vks.Device, gpu: Open) -> None:
    torch = pytest.importorskip("torch")
    with device.create_surface(32, 16, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
        with shared.access() as view:
            tensor = torch.from_dlpack(view)
            tensor.fill_(5)
        for where in (device, gpu(name="other")):
            with vks.interop.cuda.share(where, tensor) as again:
                assert again.statistics().copied_bytes == 0
                with again.access(timeout=10):
                    assert (again.read() == 5).all()
                    again.write(np.full(again.shape, 6, np.uint8))
                    with pytest.raises(vks.AcquireTimeout):
                        surface.acquire(timeout=0)
            torch.cuda.synchronize()
            with shared.access(timeout=10) as view:
                assert (cuda_peer.read(shared, view) == 6).all()
                cuda_peer.fill(shared, view, 5)


@pytest.mark.rule("I4")
def test_what_cannot_be_shared_is_refused_with_what_could_be(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    good = torch.zeros((8, 8, 4), dtype=torch.uint8, device="cuda")
    for tensor, error, text in (
        (good.cpu(), TypeError, "CUDA"),
        (np.zeros((8, 8, 4), np.uint8), TypeError, "ndarray"),
        (good.permute(1, 0, 2)[::2], ValueError, "contiguous"),
        (good[:, ::2], ValueError, "contiguous"),
        (good.to(torch.int16), ValueError, "int16"),
        (good[..., :3].contiguous(), ValueError, "3 x uint8"),
        (good[0, 0], ValueError, "shape"),
        (good[:0], ValueError, "shape"),
    ):
        with pytest.raises(error, match=text):
            vks.interop.cuda.share(device, tensor)
    with pytest.raises(ValueError, match="rgba16float"):
        vks.interop.cuda.share(device, good, format="rgba16float")
    with vks.interop.cuda.share(device, good, format="bgra8unorm") as surface:
        assert surface.format == "bgra8unorm"
    with vks.interop.cuda.share(device, torch.ones((8, 16), device="cuda")[:, :8]) as surface, surface.access():
        assert surface.format == "r32float"
        assert (surface.read() == 1).all()


@pytest.mark.rule("I5")
def test_a_device_that_is_named_by_torch_is_on_its_gpu(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    with vks.open(torch.device("cuda")) as same:
        assert same.adapter.uuid == device.adapter.uuid
        with same.create_surface(8, 8, **LINEAR) as surface, vks.interop.cuda.open(surface) as shared:
            assert shared.gpu.index == torch.cuda.current_device()
            with shared.access() as view:
                assert torch.from_dlpack(view).device == torch.device("cuda", shared.gpu.index)
