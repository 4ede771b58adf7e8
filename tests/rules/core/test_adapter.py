"""Adapters: what is found, in which order, and which one a call means."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import vkshare as vks
from vkshare import formats
from vkshare.core import adapter as adapters
from vkshare.errors import UnsupportedError
from vkshare.testing import assert_images_equal

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")


CPU = "vkshare CPU"


def test_the_cpu_adapter_is_always_there_and_last() -> None:
    found = vks.adapters()
    assert found[-1].name == CPU
    assert [a.kind for a in found].count("cpu") == 1
    assert [a.rank for a in found] == sorted((a.rank for a in found), reverse=True)


@pytest.mark.rule("X22")
def test_capabilities_hold_what_a_round_trip_proves(
    vks_adapter: vks.Adapter, vks_open: Callable[..., vks.Device]
) -> None:
    can = vks_adapter.capabilities
    assert can.tilings, can.reasons
    one, two = vks_open(), vks_open()
    for tiling in sorted(can.tilings):
        surface = one.create_surface(64, 32, tiling=tiling)
        with surface.export() as descriptor:
            other = two.open_surface(descriptor)
        picture = np.random.default_rng(1).integers(0, 256, surface.shape, np.uint8)
        with surface.access():
            surface.write(picture)
        with other.access():
            assert_images_equal(other.read(), picture)
        assert other.tiling == tiling
    for tiling in {"linear", "optimal"} - can.tilings:
        assert can.reasons[tiling]
        with pytest.raises(UnsupportedError):
            one.create_surface(64, 32, tiling=tiling)


@pytest.mark.rule("X22")
def test_every_format_that_the_capabilities_name_can_be_created_and_opened(
    vks_adapter: vks.Adapter, vks_open: Callable[..., vks.Device]
) -> None:
    one, two = vks_open(), vks_open()
    assert "rgba8unorm" in vks_adapter.capabilities.formats
    for name in sorted(vks_adapter.capabilities.formats):
        width, height = (18, 6) if formats.get(name).is_planar else (17, 5)
        with one.create_surface(width, height, name) as surface, surface.export() as descriptor:
            two.open_surface(descriptor).close()


def test_an_adapter_can_be_chosen_by_object_uuid_text_and_part_of_a_name() -> None:
    cpu = vks.adapters()[-1]
    wishes = [cpu, uuid.UUID(bytes=cpu.uuid), cpu.uuid, str(uuid.UUID(bytes=cpu.uuid)), "VKSHARE c", CPU]
    for wish in wishes:
        assert adapters.choose(wish) == cpu


def test_a_torch_device_of_type_cpu_means_the_cpu_backend() -> None:
    device = type("device", (), {"__module__": "torch", "type": "cpu", "index": None})()
    assert adapters.choose(device).backend == "cpu"


def test_a_torch_device_of_type_cuda_means_the_adapter_with_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = vks.adapters()[-1]
    properties = SimpleNamespace(uuid=str(uuid.UUID(bytes=cpu.uuid)))
    torch = SimpleNamespace(cuda=SimpleNamespace(get_device_properties=lambda i: properties, current_device=lambda: 0))
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    device = type("device", (), {"__module__": "torch", "type": "cuda", "index": None})()
    assert adapters.choose(device) == cpu
    other = type("device", (), {"__module__": "torch", "type": "mps", "__str__": lambda self: "mps"})()
    with pytest.raises(ValueError, match="'mps'"):
        adapters.choose(other)


@pytest.mark.parametrize(
    ("wish", "error", "text"),
    [
        ("no such adapter", ValueError, "adapter is 'no such adapter'; there are .*vkshare CPU"),
        (b"short", ValueError, "5 bytes; a UUID has 16"),
        (uuid.UUID(int=1), ValueError, "adapter is 00000000-0000-0000-0000-000000000001; there are"),
        (3.5, TypeError, "adapter must be an Adapter, a UUID, part of a name, or a torch.device, not 3.5"),
    ],
)
def test_a_wrong_adapter_is_refused_with_what_there_is(wish: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        adapters.choose(wish)


def test_a_wrong_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="backend is 'metal'; allowed are 'auto', 'vulkan', 'cpu'"):
        vks.open(backend="metal")
    with pytest.raises(ValueError, match=r"backend is 'vulkan', but the adapter 'vkshare CPU' is of 'cpu'"):
        vks.open(vks.adapters()[-1], backend="vulkan")


def test_the_environment_chooses_where_the_call_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKSHARE_BACKEND", "cpu")
    assert adapters.choose().backend == "cpu"
    monkeypatch.setenv("VKSHARE_BACKEND", "metal")
    with pytest.raises(ValueError, match="VKSHARE_BACKEND is 'metal'"):
        adapters.choose()
    assert adapters.choose(backend="cpu").backend == "cpu"
    monkeypatch.delenv("VKSHARE_BACKEND")
    monkeypatch.setenv("VKSHARE_ADAPTER", "share cpu")
    assert adapters.choose().name == CPU
    monkeypatch.setenv("VKSHARE_ADAPTER", "nothing like it")
    with pytest.raises(ValueError, match="VKSHARE_ADAPTER is 'nothing like it'"):
        adapters.choose()
    assert adapters.choose(CPU).name == CPU


def test_the_best_adapter_is_taken_when_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VKSHARE_BACKEND", raising=False)
    monkeypatch.delenv("VKSHARE_ADAPTER", raising=False)
    assert adapters.choose() == vks.adapters()[0]


def test_a_backend_without_adapters_is_unsupported_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "adapters", lambda backend="auto": [])
    monkeypatch.setattr(adapters, "skipped", lambda: [("Vulkan", "there is no loader")])
    with pytest.raises(UnsupportedError, match=r"Vulkan: there is no loader.*backend='cpu'"):
        adapters.choose(backend="vulkan")


@pytest.mark.rule("X11")
def test_a_child_of_a_process_with_an_open_gpu_is_told_to_spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_gpu_opened_by", os.getpid() + 1)  # as a forked child finds it
    with pytest.raises(UnsupportedError, match=r"forked from process .*spawn"):
        vks.open(backend="cpu")
    monkeypatch.setattr(adapters, "_gpu_opened_by", os.getpid())
    vks.open(backend="cpu").close()


def test_only_hardware_gpus_are_remembered_for_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_gpu_opened_by", None)
    adapters.note_opened(SimpleNamespace(kind="software"))  # type: ignore[arg-type]
    assert adapters._gpu_opened_by is None
    adapters.note_opened(SimpleNamespace(kind="gpu"))  # type: ignore[arg-type]
    assert adapters._gpu_opened_by == os.getpid()
