"""A surface's memory as arrays and by DLPack: shared, read-only where it must be, alive while anybody looks."""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.linear_surfaces import linear, linear_formats, noise
from support.pixel_formats import WITHOUT_DEPTH
from support.shared_handles import opened
from support.tree_paths import ROOT, TESTS

import vkshare as vks
from vkshare.errors import InvalidCallError, NotOwnerError, UnsupportedError

pytest_plugins = ["support.peer_processes", "support.handle_pairs"]

Open = Callable[..., vks.Device]
CPU = (1, 0)

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]


def optimal(device: vks.Device, format: str = "rgba8unorm") -> vks.Surface:
    """That the CPU does not see."""
    if "optimal" not in device.capabilities.tilings:
        pytest.skip(f"{device.adapter.name} has no optimal tiling")
    return device.create_surface(13, 5, format, tiling="optimal")


# ---- the memory itself ----------------------------------------------------------------------------------------------


@pytest.mark.rule("I1")
def test_what_is_written_through_an_array_other_handles_see_and_the_other_way(
    device: vks.Device, vks_open: Open
) -> None:
    elsewhere = vks_open(name="other")
    for seed, name in enumerate(linear_formats(device)):
        surface = linear(device, name)
        other = opened(surface, elsewhere)
        first, second = noise(surface, seed), noise(surface, seed + 100)
        before = device.statistics().copied_bytes
        with surface.access(release=1) as view:
            view.array[...] = first
        with other.access(acquire=1, release=2):
            np.testing.assert_array_equal(other.read(), first, name)
            other.write(second)
        with surface.access(acquire=2, writable=False) as view:
            np.testing.assert_array_equal(view.array, second, name)
        assert device.statistics().copied_bytes == before
        other.close()
        surface.close()


@pytest.mark.rule("I1")
def test_another_process_sees_what_an_array_was_given(pair: Any) -> None:
    if not pair.a.is_host_visible:
        pytest.skip(f"the CPU cannot see surfaces of {pair.device_a.adapter.name}")
    pixels = noise(pair.a)
    with pair.a.access(release=1) as view:
        view.array[...] = pixels
    pair.b.acquire(1, 10)
    np.testing.assert_array_equal(pair.b.read(), pixels)
    pair.b.write(pixels[::-1])
    pair.b.release(2)
    with pair.a.access(acquire=2, timeout=10) as view:
        np.testing.assert_array_equal(np.from_dlpack(view), pixels[::-1])


@pytest.mark.rule("I1")
def test_an_arrays_rows_are_where_the_device_has_them(device: vks.Device) -> None:
    for seed, name in enumerate(linear_formats(device)):
        surface = linear(device, name)
        try:
            target = device.create_surface(13, 5, name, tiling="optimal")
        except UnsupportedError:
            target = linear(device, name)
        pixels = noise(surface, seed)
        with surface.access() as view, target.access():
            array = view.array
            assert array.strides == view.strides == (surface.stride, *array.strides[1:])
            array[...] = pixels
            device.submit(device.record().copy(surface, target))
            np.testing.assert_array_equal(target.read(), pixels, name)
        target.close()
        surface.close()


@pytest.mark.rule("I1", "I2")
@pytest.mark.parametrize(
    "take",
    [
        lambda view: view.array,
        np.asarray,
        lambda view: np.asarray(memoryview(view)),
        lambda view: np.from_dlpack(view),
    ],
    ids=["array", "__array__", "memoryview", "DLPack"],
)
def test_nothing_of_a_read_only_access_can_be_written(device: vks.Device, take: Callable[[Any], Any]) -> None:
    surface = linear(device)
    with surface.access(writable=False) as view:
        array = take(view)
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1
    with surface.access():
        assert not surface.read().any()


# ---- DLPack ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I2")
def test_dlpack_shares_the_memory_of_every_format(device: vks.Device) -> None:
    for seed, name in enumerate(linear_formats(device)):
        surface = linear(device, name)
        pixels = noise(surface, seed)
        with surface.access() as view:
            taken = np.from_dlpack(view)
            assert (taken.shape, taken.strides, taken.dtype) == (view.shape, view.strides, view.dtype)
            taken[...] = pixels
            assert view.__dlpack_device__() == CPU
            np.testing.assert_array_equal(view.array, pixels, name)
        surface.close()


@pytest.mark.rule("I2")
@pytest.mark.parametrize(
    ("version", "kind"), [(None, b"dltensor"), ((0, 8), b"dltensor"), ((1, 0), b"dltensor_versioned")]
)
def test_the_consumers_version_decides_what_it_is_given(device: vks.Device, version: Any, kind: bytes) -> None:
    surface = linear(device)
    with surface.access() as view:
        assert name_of_capsule(view.__dlpack__(max_version=version)) == kind
    with surface.access(writable=False) as view:
        if kind == b"dltensor":
            with pytest.raises(BufferError, match=r"read-only.*older than 1\.0.*writable=True"):
                view.__dlpack__(max_version=version)
        else:
            assert name_of_capsule(view.__dlpack__(max_version=version)) == kind


def name_of_capsule(capsule: Any) -> bytes:
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return bytes(get(capsule))


@pytest.mark.rule("I2")
def test_copies_are_made_when_asked_for_and_only_then(device: vks.Device) -> None:
    surface = linear(device)
    for writable in (True, False):
        with surface.access(writable=writable) as view:
            copied = np.from_dlpack(view, copy=True)
            assert copied.flags.writeable
            assert not np.shares_memory(copied, view.array)
            for copy in (None, False):
                assert np.shares_memory(np.from_dlpack(view, copy=copy, device="cpu"), view.array)


@pytest.mark.rule("I2")
def test_wrong_arguments_of_dlpack_are_named(device: vks.Device) -> None:
    with linear(device).access() as view:
        for name in ("dl_device", "max_version"):
            for wrong in (5, "cpu", (1,), (1, 2, 3), (1.5, 0)):
                with pytest.raises(TypeError, match=rf"{name} is .*two integers"):
                    view.__dlpack__(**{name: wrong})  # type: ignore[arg-type]


@pytest.mark.rule("I2")
def test_a_stream_or_another_device_is_refused_by_name(device: vks.Device) -> None:
    surface = linear(device)
    with surface.access() as view:
        with pytest.raises(ValueError, match=r"stream is 1.*allowed is None"):
            view.__dlpack__(stream=1)
        with pytest.raises(UnsupportedError, match=r"device \(2, 0\).*the CPU's, \(1, 0\)") as reported:
            view.__dlpack__(dl_device=(2, 0))
        assert isinstance(reported.value, BufferError)
        assert np.shares_memory(np.from_dlpack(view), view.array)
        view.__dlpack__(dl_device=CPU)


@pytest.mark.rule("I2")
def test_torch_shares_the_memory(device: vks.Device) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    surface = linear(device, "r32float")
    with surface.access() as view:
        tensor = torch.from_dlpack(view)
        tensor[2, 3] = 7
        assert view.array[2, 3] == 7
        view.array[1, 1] = 9
        assert float(tensor[1, 1]) == 9
        assert np.shares_memory(np.from_dlpack(tensor), view.array)
    surface.close()
    gc.collect()
    tensor += 1  # the memory is there still
    assert float(tensor[2, 3]) == 8


# ---- memory that the CPU does not see -------------------------------------------------------------------------------


@pytest.mark.rule("I2", "I10")
@pytest.mark.parametrize(
    "use",
    [
        lambda view: view.array,
        memoryview,
        np.asarray,
        np.from_dlpack,
        lambda view: view.__dlpack__(),
        lambda view: view.__dlpack_device__(),
        lambda view: view.pillow(),
        lambda view: view.skia(),
    ],
)
def test_an_optimal_surface_refuses_and_names_to_linear(device: vks.Device, use: Callable[[Any], Any]) -> None:
    with optimal(device).access() as view:
        with pytest.raises(UnsupportedError, match=r"cannot be mapped.*to_linear\(\)") as reported:
            use(view)
        assert isinstance(reported.value, BufferError)


@pytest.mark.rule("I2")
@pytest.mark.parametrize("name", WITHOUT_DEPTH)
def test_to_linear_gives_a_surface_with_the_same_contents(device: vks.Device, name: str) -> None:
    source = optimal(device, name) if "optimal" in device.capabilities.tilings else linear(device, name)
    pixels = noise(source)
    with source.access():
        source.write(pixels)
        copied = device.statistics().copied_bytes
        copy = source.to_linear()
    with copy.access() as view:
        assert (copy.tiling, copy.format, copy.device) == ("linear", name, device)
        np.testing.assert_array_equal(view.array if copy.is_host_visible else copy.read(), pixels)
        view.array[...] = 0
    assert device.statistics().copied_bytes == copied, "the device copies, not the CPU"
    with source.access():
        np.testing.assert_array_equal(source.read(), pixels)


@pytest.mark.rule("I2")
def test_to_linear_is_ordered_like_other_work(device: vks.Device) -> None:
    source = device.create_surface(64, 64)
    gate = device.create_fence()
    with source.access():
        device.submit(device.record().clear(source, (0, 1, 0, 1)), waits=(gate, 1))
        copy = source.to_linear()  # does not wait for the clear, which is held
        device.submit(device.record().clear(source, (1, 0, 0, 1)))
        gate.signal(1)
    with copy.access(timeout=10):
        assert (copy.read() == (0, 255, 0, 255)).all()


@pytest.mark.rule("I2")
def test_to_linear_needs_an_owned_surface_that_can_be_copied(device: vks.Device) -> None:
    surface = device.create_surface(8, 8)
    count = device.statistics().surfaces
    with pytest.raises(NotOwnerError):
        surface.to_linear()
    assert device.statistics().surfaces == count
    closed = device.create_surface(8, 8)
    closed.close()
    with pytest.raises(vks.ClosedError):
        closed.to_linear()
    fixed = device.create_surface(8, 8, usage=("render",))
    with fixed.access(), pytest.raises(InvalidCallError, match="copy"):
        fixed.to_linear()


# ---- what is not there ----------------------------------------------------------------------------------------------


@pytest.mark.rule("I10")
def test_hasattr_works_on_a_view_that_cuda_does_not_see(device: vks.Device) -> None:
    with device.create_surface(8, 8).access() as view:
        assert not hasattr(view, "__cuda_array_interface__")
        with pytest.raises(UnsupportedError) as reported:
            view.__cuda_array_interface__  # noqa: B018
        assert isinstance(reported.value, AttributeError)


@pytest.mark.rule("I10")
@pytest.mark.parametrize(
    ("method", "format", "package", "extra"),
    [
        ("pillow", "rgba8unorm", "PIL.Image", "pillow"),
        ("cairo", "bgra8unorm", "cairocffi", "cairo"),
        ("skia", "rgba8unorm", "skia", "skia"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch, method: str, format: str, package: str, extra: str
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def broken(name: str) -> Any:
        raise OSError("libnothing.so.1: cannot open shared object file")

    real = importlib.import_module
    for fails, reported in ((missing, rf"not installed.*vkshare\[{extra}\]"), (broken, "does not load: libnothing")):
        with monkeypatch.context() as patch, linear(device, format, 16).access() as view:
            patch.setattr(importlib, "import_module", lambda name, f=fails: f(name) if name == package else real(name))
            with pytest.raises(UnsupportedError, match=reported):
                getattr(view, method)()


@pytest.mark.rule("I10")
def test_the_extras_that_errors_name_exist() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, package in (("pillow", "pillow"), ("cairo", "cairocffi"), ("skia", "skia-python")):
        assert any(line.startswith(package) for line in extras[extra])


@pytest.mark.rule("I10")
def test_importing_vkshare_or_naming_interop_loads_no_other_api() -> None:
    code = (
        "import sys, vkshare as vks\n"
        "assert 'vkshare.interop' not in sys.modules\n"
        "vks.interop, dir(vks.interop)\n"
        "assert not {m for m in sys.modules if m.startswith('vkshare.interop.')}\n"
        "vks.interop.host.dlpack\n"
        "print({'PIL', 'cairocffi', 'skia', 'torch'} & set(sys.modules))\n"
        "vks.interop.nonsense\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "set()\n"
    assert done.stderr.endswith("AttributeError: module 'vkshare.interop' has no attribute 'nonsense'\n")


# ---- what outlives --------------------------------------------------------------------------------------------------


@pytest.mark.rule("I1", "I11")
def test_closing_a_surface_keeps_the_memory_that_an_array_looks_at(device: vks.Device) -> None:
    surface = linear(device, width=200, height=200)
    pixels = noise(surface)
    with surface.access() as view:
        view.array[...] = pixels
        kept: list[Any] = [view.array, memoryview(view), np.from_dlpack(view)]
    before = device.statistics().buried
    surface.close()
    assert device.statistics().buried == before + 1
    del view, surface
    while kept:
        gc.collect()
        with linear(device, width=200, height=200) as another, another.access() as view:
            view.array[...] = 0  # writes to the memory now, also if it was freed and taken again
        np.testing.assert_array_equal(np.asarray(kept.pop()), pixels)
    gc.collect()
    device.record()  # reaps
    assert device.statistics().buried == before


@pytest.mark.rule("I1", "I11")
def test_what_a_view_gave_outlives_everything_in_any_order_and_never_crashes(vks_adapter: vks.Adapter) -> None:
    program = TESTS / "support" / "outliving_views.py"
    command = [sys.executable, "-X", "faulthandler", str(program), vks_adapter.backend, vks_adapter.uuid.hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    expected = {"an_array", "a_memoryview", "a_tensor", "a_capsule"}
    expected |= {
        kind
        for package, *kinds in (
            ("PIL", "a_pillow_drawing"),
            ("cairocffi", "a_cairo_context"),
            ("skia", "a_skia_surface", "a_skia_canvas"),
        )
        for kind in kinds
        if importlib.util.find_spec(package)
    }
    assert done.stdout == f"alive after {' '.join(sorted(expected))}\n"
