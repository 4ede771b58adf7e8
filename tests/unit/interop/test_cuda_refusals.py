"""What interop.cuda says where there is no CUDA, not the right GPU, or nothing that CUDA could take. Needs no GPU."""

from __future__ import annotations

import subprocess
import sys
import uuid
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.fd_counts import open_fds
from support.linear_surfaces import linear
from support.tree_paths import ROOT

import vkshare as vks
from vkshare import formats
from vkshare.errors import DeviceMismatchError, InvalidCallError, UnsupportedError
from vkshare.interop.cuda import driver, streams
from vkshare.interop.cuda.memory import ImportedMemory
from vkshare.interop.cuda.view import CUDAView

pytest_plugins = ["support.fake_cuda"]

ELSEWHERE = uuid.UUID(int=9).bytes


@pytest.fixture
def vulkan(device: vks.Device) -> vks.Device:
    """A Vulkan device that is on no GPU of CUDA's."""
    if device.backend == "cpu":
        pytest.skip("the CPU backend's surfaces are refused before anything is asked of CUDA")
    if device.adapter.kind == "gpu":
        pytest.skip("tests/gpu/test_cuda.py tests a real GPU")
    return device


def tensor(**changes: Any) -> Any:
    """What PyTorch would show of 8x8 pixels of 4 bytes."""
    reported = {"version": 3, "shape": (8, 8, 4), "typestr": "|u1", "data": (0x1000, False), "strides": None}
    return SimpleNamespace(__cuda_array_interface__={**reported, **changes})


# ---- no CUDA -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("I3", "I10")
def test_the_cpu_backends_surfaces_are_refused_with_what_to_do_whatever_is_installed(fake_cuda: Any) -> None:
    reported = (
        "a surface of the CPU backend in CUDA is not supported: its memory is the CPU's; create it on a Vulkan device"
    )
    for machine in ((None,), (ELSEWHERE,)):
        fake_cuda(*machine)
        with vks.open(backend="cpu") as device, device.create_surface(8, 8) as surface:
            with pytest.raises(UnsupportedError, match=reported):
                vks.interop.cuda.open(surface)
            with pytest.raises(UnsupportedError, match=reported):
                vks.interop.cuda.share(device, tensor())


@pytest.mark.rule("I10")
def test_without_cuda_bindings_the_extra_is_named_and_the_surface_goes_on(vulkan: vks.Device, fake_cuda: Any) -> None:
    fake_cuda(None)
    with linear(vulkan) as surface:
        before = open_fds()
        with pytest.raises(
            UnsupportedError, match=r"CUDA .*cuda-bindings is not installed; pip install 'vkshare\[cuda\]'"
        ):
            vks.interop.cuda.open(surface)
        with pytest.raises(UnsupportedError, match="cuda-bindings is not installed"):
            vks.interop.cuda.share(vulkan, tensor())
        assert open_fds() == before
        with surface.access():
            surface.write(np.full(surface.shape, 3, np.uint8))
            assert (surface.read() == 3).all()


@pytest.mark.rule("I10")
def test_the_extra_that_the_error_names_has_cuda_bindings() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert any(line.startswith("cuda-bindings") for line in project["optional-dependencies"]["cuda"])


@pytest.mark.rule("I10")
def test_bindings_that_do_not_load_say_what_they_lack(fake_cuda: Any) -> None:
    class Broken(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise ImportError("libstdc++.so.6: version `GLIBCXX_3.4.99' not found")

    fake_cuda(ELSEWHERE)
    sys.modules["cuda.bindings"] = Broken("cuda.bindings")  # fake_cuda puts back what was there
    with pytest.raises(UnsupportedError, match=r"cuda-bindings cannot be loaded: libstdc\+\+.*GLIBCXX_3.4.99"):
        driver.bindings()


@pytest.mark.rule("I10")
@pytest.mark.parametrize(
    ("initialises", "reported"),
    [
        (
            RuntimeError('"cuda" is an NVIDIA driver library\nTraceback: ...'),
            "CUDA's driver cannot be loaded: .*library$",
        ),
        (100, "there is no GPU that CUDA can use$"),
        (3, "there is no working GPU driver$"),
        (999, "there is CUresult 999 of cuInit$"),
    ],
    ids=["no driver", "no gpu", "not initialised", "anything else"],
)
def test_a_driver_that_does_not_start_is_unsupported_and_says_why(
    fake_cuda: Any, initialises: Any, reported: str
) -> None:
    fake_cuda(ELSEWHERE, initialises=initialises)
    with pytest.raises(UnsupportedError, match=reported):
        driver.bindings()
    fake_cuda(ELSEWHERE)
    assert driver.bindings() is not None, "what was missing is asked for again"


@pytest.mark.rule("I10")
def test_importing_the_module_loads_nothing_of_cuda() -> None:
    code = (
        "import sys, vkshare as vks; vks.interop.cuda.open; print({'cuda', 'torch', 'cupy', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# ---- not this GPU ------------------------------------------------------------------------------------------------


@pytest.mark.rule("I5")
def test_a_device_that_cuda_has_not_is_refused_and_both_are_named(
    vulkan: vks.Device, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    fake_cuda(ELSEWHERE)
    here = uuid.UUID(bytes=vulkan.capabilities.device_uuid)
    with linear(vulkan) as surface, pytest.raises(DeviceMismatchError) as caught:
        vks.interop.cuda.open(surface)
    reported = str(caught.value)
    for part in (vulkan.adapter.name, str(here), "Fake GPU 0", str(uuid.UUID(int=9)), "CUDA_VISIBLE_DEVICES is '7'"):
        assert part in reported
    fake_cuda()
    with pytest.raises(DeviceMismatchError, match="CUDA has no GPU"):
        vks.interop.cuda.share(vulkan, tensor())


@pytest.mark.rule("I5")
def test_the_gpu_is_found_by_its_uuid_wherever_it_stands(vulkan: vks.Device, fake_cuda: Any) -> None:
    fake_cuda(ELSEWHERE, vulkan.capabilities.device_uuid)
    found = driver.gpu_of(vulkan)
    assert (found.index, found.name, found.context) == (1, "Fake GPU 1", 0x1001)


@pytest.mark.rule("I5")
def test_a_tensor_of_another_gpu_is_refused_and_both_are_named(vulkan: vks.Device, fake_cuda: Any) -> None:
    fake_cuda(vulkan.capabilities.device_uuid, ELSEWHERE, tensors_on=1)
    with pytest.raises(DeviceMismatchError, match=r"the device is on Fake GPU 0 .*the tensor is on Fake GPU 1"):
        vks.interop.cuda.share(vulkan, tensor())


@pytest.mark.rule("I3")
def test_a_driver_that_shares_no_timelines_cannot_be_ordered_with_cuda(vulkan: vks.Device, fake_cuda: Any) -> None:
    if vulkan.capabilities.export_timelines:
        pytest.skip("this driver shares them")
    fake_cuda(vulkan.capabilities.device_uuid)
    with linear(vulkan) as surface:
        before = open_fds()
        with pytest.raises(UnsupportedError, match=f"{vulkan.adapter.name[:8]}.* shares no timeline semaphores"):
            vks.interop.cuda.open(surface)
        assert open_fds() == before


@pytest.mark.rule("I3")
def test_a_child_that_was_forked_from_a_user_of_cuda_is_told_to_spawn(
    vulkan: vks.Device, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cuda(vulkan.capabilities.device_uuid)
    driver.gpu_of(vulkan)
    monkeypatch.setattr(driver, "_initialised_in", [1])  # as in a child: another process called cuInit()
    with pytest.raises(InvalidCallError, match="spawn or forkserver"):
        driver.gpu_of(vulkan)


# ---- what CUDA cannot take ---------------------------------------------------------------------------------------


@pytest.mark.rule("I3")
def test_an_optimal_format_that_cuda_has_no_arrays_of_is_refused(vulkan: vks.Device, fake_cuda: Any) -> None:
    fake_cuda(vulkan.capabilities.device_uuid)
    with linear(vulkan) as surface:
        spec = replace(surface.spec, format=formats.get("rgb10a2unorm"), tiling="optimal")
        memory: Any = SimpleNamespace(size=4096, offset=0, stride=0, fd=-1)
        with pytest.raises(UnsupportedError, match=r'rgb10a2unorm .*no arrays of that format; use .*tiling="linear"'):
            ImportedMemory(driver.gpu_of(vulkan), spec, memory, surface)


def _whole(plane: Any, spec: Any) -> Any:
    """Memory of one plane."""
    return SimpleNamespace(planes=(plane,), spec=spec, gpu=plane.gpu)


@pytest.mark.rule("I3", "I10")
def test_what_a_tiling_has_not_says_what_it_has_and_hasattr_works() -> None:
    spec: Any = SimpleNamespace(width=8, height=4, format=formats.get("rgba8unorm"))
    array: dict[str, Any] = {"spec": spec, "shape": (4, 8, 4), "dtype": np.dtype(np.uint8)}
    optimal: Any = SimpleNamespace(**array, pointer=0, array=0x5000, strides=None, gpu="a GPU")
    view = CUDAView(_whole(optimal, spec), 1, True)
    assert not hasattr(view, "__cuda_array_interface__")
    assert (view.array, view.strides, view.shape) == (0x5000, None, (4, 8, 4))
    for use in (view.__dlpack__, view.__dlpack_device__):
        with pytest.raises(BufferError, match=r'view\.array.*tiling="linear"'):
            use()
    with pytest.raises(UnsupportedError, match=r"view\.pointer of an optimal surface"):
        view.pointer  # noqa: B018
    rows: Any = SimpleNamespace(**array, pointer=0x5000, array=0, strides=(256, 4, 1), gpu=SimpleNamespace(index=0))
    view = CUDAView(_whole(rows, spec), 1, False)
    assert view.__cuda_array_interface__ == {
        "version": 3,
        "shape": (4, 8, 4),
        "typestr": "|u1",
        "data": (0x5000, True),
        "strides": (256, 4, 1),
        "stream": 1,
    }
    with pytest.raises(UnsupportedError, match="a linear surface is a buffer"):
        view.array  # noqa: B018
    for asked, reported in (
        ({}, "has no read-only flag"),
        ({"copy": True}, "copy=True"),
        ({"dl_device": (1, 0)}, r"device \(1, 0\)"),
    ):
        with pytest.raises(BufferError, match=reported):
            view.__dlpack__(**asked)
    for name, value in (("max_version", (1,)), ("max_version", 1), ("dl_device", ("cuda", 0)), ("dl_device", "cuda")):
        with pytest.raises(TypeError, match=rf"{name} is .*; allowed are None and two integers"):
            view.__dlpack__(**{name: value})  # type: ignore[arg-type]


@pytest.mark.rule("I3")
def test_what_is_no_fence_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"must be a vkshare\.Fence, not str"):
        vks.interop.cuda.open_fence("fence")  # type: ignore[arg-type]


@pytest.mark.rule("I3", "I10")
def test_the_cpu_backends_fences_are_refused_with_what_to_do(fake_cuda: Any) -> None:
    for machine in ((None,), (ELSEWHERE,)):
        fake_cuda(*machine)
        with vks.open(backend="cpu") as device, device.create_fence() as fence:
            with pytest.raises(UnsupportedError, match=r"a fence of the CPU backend in CUDA .*let the CPU wait\(\)"):
                vks.interop.cuda.open_fence(fence)
            assert fence.queued_value == 0


@pytest.mark.rule("I3", "I5", "I10")
def test_a_fence_that_cuda_cannot_have_is_refused_and_goes_on(vulkan: vks.Device, fake_cuda: Any) -> None:
    with vulkan.create_fence() as fence, vulkan.adopt_fence(fence.handle) as adopted:
        before = open_fds()
        fake_cuda(None)
        with pytest.raises(UnsupportedError, match=r"pip install 'vkshare\[cuda\]'"):
            vks.interop.cuda.open_fence(fence)
        fake_cuda(ELSEWHERE)
        with pytest.raises(DeviceMismatchError, match="Fake GPU 0"):
            vks.interop.cuda.open_fence(fence)
        fake_cuda(vulkan.capabilities.device_uuid)
        with pytest.raises(UnsupportedError, match="an adopted semaphore is the engine's"):
            vks.interop.cuda.open_fence(adopted)
        assert open_fds() == before
        if not vulkan.capabilities.export_timelines:
            with pytest.raises(UnsupportedError, match=f"{vulkan.adapter.name[:8]}.* shares no timeline semaphores"):
                vks.interop.cuda.open_fence(fence)
            with fence.export() as descriptor, vulkan.open_fence(descriptor) as follower:
                before = open_fds()
                for refused in (fence, follower):
                    with pytest.raises(UnsupportedError, match="shares no timeline semaphores"):
                        vks.interop.cuda.open_fence(refused)
                assert open_fds() == before
        fence.signal(1)
        assert fence.value == 1
    with pytest.raises(vks.ClosedError):
        vks.interop.cuda.open_fence(fence)


@pytest.mark.rule("I3")
@pytest.mark.parametrize(
    ("stream", "error", "reported"),
    [
        ("x", TypeError, "must be None, an integer, or something with __cuda_stream__.*not str"),
        (True, TypeError, "not bool"),
        (1.5, TypeError, "not float"),
        (-1, ValueError, r"stream is -1; allowed are 0 to 2\*\*64 - 1"),
        (2**64, ValueError, "allowed are 0 to"),
        (SimpleNamespace(__cuda_stream__=lambda: (1, 5)), ValueError, "version 1; allowed is 0"),
    ],
    ids=["text", "bool", "float", "negative", "too large", "a later protocol"],
)
def test_what_is_no_stream_is_refused_with_what_is_one(stream: Any, error: type, reported: str) -> None:
    with pytest.raises(error, match=reported):
        streams.handle(stream)


@pytest.mark.rule("I3")
def test_every_kind_of_stream_is_its_handle() -> None:
    legacy = 1
    assert [streams.handle(each) for each in (None, 0, 2, 77)] == [legacy, legacy, 2, 77]
    assert streams.handle(SimpleNamespace(cuda_stream=0)) == legacy  # PyTorch's default
    assert streams.handle(SimpleNamespace(ptr=78)) == 78  # CuPy
    assert streams.handle(SimpleNamespace(__cuda_stream__=lambda: (0, 79))) == 79


@pytest.mark.rule("I4")
@pytest.mark.parametrize(
    ("given", "error", "reported"),
    [
        (object(), TypeError, "must be an array of CUDA's .*not object"),
        (np.zeros((8, 8, 4), np.uint8), TypeError, "not ndarray"),
        (tensor(shape=(4,)), ValueError, r"shape \(4,\); allowed are \(height, width, channels\)"),
        (tensor(shape=(0, 8, 4)), ValueError, r"shape \(0, 8, 4\)"),
        (tensor(strides=(64, 8, 1)), ValueError, r"not in one piece: strides \(64, 8, 1\).*contiguous\(\)"),
        (tensor(strides=(4, 32, 1)), ValueError, "not in one piece"),
        (tensor(typestr="<i2"), ValueError, "4 x int16 a pixel; allowed are .*4 x uint8"),
        (tensor(shape=(8, 8, 3)), ValueError, "3 x uint8"),
    ],
    ids=["object", "numpy", "one axis", "empty", "every other pixel", "transposed", "int16", "rgb"],
)
def test_what_no_surface_can_hold_is_refused_with_what_it_could(
    vulkan: vks.Device, fake_cuda: Any, given: Any, error: type, reported: str
) -> None:
    fake_cuda(vulkan.capabilities.device_uuid)
    with pytest.raises(error, match=reported):
        vks.interop.cuda.share(vulkan, given)


@pytest.mark.rule("I4")
def test_a_tensor_of_another_type_than_the_format_is_refused(vulkan: vks.Device, fake_cuda: Any) -> None:
    fake_cuda(vulkan.capabilities.device_uuid)
    with pytest.raises(ValueError, match="4 x uint8 a pixel, and rgba16float has 4 x float16"):
        vks.interop.cuda.share(vulkan, tensor(), format="rgba16float")


@pytest.mark.rule("I3")
def test_what_is_no_surface_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"must be a vkshare\.Surface or vkshare\.Buffer, not str"):
        vks.interop.cuda.open("surface")  # type: ignore[arg-type]
