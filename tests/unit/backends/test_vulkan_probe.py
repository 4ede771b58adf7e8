"""Capabilities: what a trial round trip proved, whatever the extension lists say."""

from __future__ import annotations

import contextlib
import dataclasses
import os

import pytest
from support.fd_counts import no_fd_left

import vkshare as vks
from vkshare.backends.base import temporary
from vkshare.errors import UnsupportedError, VulkanError

pytestmark = [pytest.mark.driver_dependent, pytest.mark.wheel]


@pytest.fixture
def physical(backend):
    return backend.context.physical


@pytest.mark.rule("X22")
def test_an_export_that_gives_other_memory_proves_nothing(physical, monkeypatch) -> None:
    from vkshare.backends.vulkan import images, probe

    truthful = images.VulkanImage.export

    def lying(self):
        twin = images.create_image(self.context, self.spec)  # same size and layout, other pixels
        return truthful(twin)

    assert probe.probe(physical).tilings
    monkeypatch.setattr(images.VulkanImage, "export", lying)
    can = probe.probe(physical)
    assert can.tilings == frozenset()
    assert can.surface_memory <= {"host_pointer"}
    assert "something else" in can.reasons["optimal"]


@pytest.mark.rule("X22", "E6")
def test_depth_that_another_device_does_not_see_is_no_format(physical, monkeypatch) -> None:
    from vkshare.backends.vulkan import images, probe

    truthful = images.VulkanImage.export

    def lying(self):
        return truthful(images.create_image(self.context, self.spec) if self.spec.format.name == "d32float" else self)

    monkeypatch.setattr(images.VulkanImage, "export", lying)
    can = probe.probe(physical)
    assert "d16unorm" in can.formats
    assert "d32float" not in can.formats
    assert "something else" in can.reasons["format d32float"]
    assert "optimal" in can.tilings


@pytest.mark.rule("X22")
def test_an_advertised_import_that_fails_is_no_capability(physical, monkeypatch) -> None:
    from vkshare.backends.vulkan import probe

    def refused(*_: object) -> None:
        raise VulkanError(-1000072003, "vkAllocateMemory")

    monkeypatch.setattr(probe, "open_image", refused)
    can = probe.probe(physical)
    assert not can.tilings
    assert not can.surface_memory
    assert not can.host_visible
    assert "VK_ERROR_INVALID_EXTERNAL_HANDLE" in can.reasons["optimal"]


@pytest.mark.rule("X22")
def test_a_trial_without_room_for_its_fds_says_so_and_denies_nothing(physical) -> None:
    from vkshare.backends.vulkan import probe

    proven = probe.probe(physical)
    for free in range(10):
        with no_fd_left(free), contextlib.suppress(OSError):
            assert probe.probe(physical) == proven, f"with {free} fds free"


@pytest.mark.rule("X22")
@pytest.mark.parametrize(
    "error",
    [VulkanError(-1, "vkAllocateMemory"), UnsupportedError("export of a surface", "it gives no fd of it")],
    ids=repr,
)
def test_a_driver_that_fails_in_a_process_without_room_is_asked_again(backend, monkeypatch, error) -> None:
    from vkshare.backends.vulkan import adapter, probe

    def refused(*_: object) -> None:
        raise error

    fresh = adapter.VulkanAdapter(backend.context.physical, 0)
    with monkeypatch.context() as starved:
        starved.setattr(probe, "open_image", refused)
        with no_fd_left(10), pytest.raises(OSError, match="Too many open files"):
            _ = fresh.capabilities
    assert fresh.capabilities.tilings


@pytest.mark.rule("X22")
def test_an_export_without_an_fd_is_no_refusal_in_a_process_without_room(physical, monkeypatch) -> None:
    """An fd closed in the meantime leaves room for one, and the driver wanted another."""
    from vkshare.backends.vulkan import images, probe

    def without_fd(image: images.AnyImage) -> int:
        with monkeypatch.context() as starved:
            starved.setattr(type(image.context.vk), "make", lambda *_: -1)
            return truthful(image)

    truthful = images.VulkanImage._driver_fd
    with (
        probe._context(physical) as context,
        temporary(images.create_image(context, probe._spec("rgba8unorm", "optimal"))) as image,
    ):
        with no_fd_left(10), pytest.raises(OSError, match="Too many open files"):
            without_fd(image)
        with pytest.raises(UnsupportedError, match="gives no fd of its memory"):
            without_fd(image)


def test_a_loader_that_fails_in_a_process_without_room_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from vkshare.backends.vulkan import adapter

    def refused() -> None:
        raise VulkanError(-9, "vkCreateInstance")

    monkeypatch.setattr(adapter, "_any_instance", refused)
    with no_fd_left(10), pytest.raises(OSError, match="Too many open files"):
        adapter._enumerate()
    assert adapter._enumerate()[1] == [("Vulkan", "no instance: vkCreateInstance: VK_ERROR_INCOMPATIBLE_DRIVER (-9)")]


def test_a_surface_without_room_for_its_fds_is_no_unsupported_one(vks_device: vks.Device) -> None:
    for free in range(8):
        with no_fd_left(free), contextlib.suppress(OSError, VulkanError):
            vks_device.create_surface(8, 8).close()


@pytest.mark.rule("X22")
def test_what_is_not_there_has_a_reason(vks_adapter: vks.Adapter) -> None:
    if vks_adapter.backend != "vulkan":
        pytest.skip("of the Vulkan backend")
    can = vks_adapter.capabilities
    for name in {"linear", "optimal"} - can.tilings:
        assert can.reasons[name]
    for name in ("export_timelines", "host_visible"):
        assert getattr(can, name) or can.reasons[name]
    assert can.max_dimension >= 4096
    assert 4 <= can.subpixel_bits <= 8
    assert len(can.device_uuid) == len(can.driver_uuid) == 16


def test_an_adapter_is_tried_once_and_only_when_it_is_asked(backend, monkeypatch) -> None:
    from vkshare.backends.vulkan import adapter

    tried = []
    monkeypatch.setattr(adapter, "probe", lambda physical: tried.append(physical) or "proven")
    fresh = adapter.VulkanAdapter(backend.context.physical, 0)
    assert (fresh.name, fresh.kind, fresh.rank) == (backend.adapter.name, backend.adapter.kind, backend.adapter.rank)
    assert fresh == adapter.VulkanAdapter(backend.context.physical, 0)
    assert hash(fresh) == hash(adapter.VulkanAdapter(backend.context.physical, 0))
    assert fresh.name in repr(fresh)
    assert not tried
    assert (fresh.capabilities, fresh.capabilities) == ("proven", "proven")
    assert tried == [backend.context.physical]


def test_a_physical_device_that_lacks_something_is_skipped_with_the_reason(physical, monkeypatch) -> None:
    from vkshare.backends.vulkan import adapter
    from vkshare.backends.vulkan.physical import PhysicalDevice

    lacking = dataclasses.replace(physical, missing="it lacks dynamicRendering")
    monkeypatch.setattr(PhysicalDevice, "read", lambda *_, **__: lacking)
    usable, refused = adapter._enumerate()
    assert usable == []
    assert refused[0] == (physical.name, "it lacks dynamicRendering")


def test_engines_are_told_what_they_did_not_enable() -> None:
    from vkshare.backends.vulkan.required import Requirements

    needed = Requirements()
    needed.check(needed.api_version, needed.device_extensions, needed.features)
    with pytest.raises(UnsupportedError) as raised:
        needed.check(1 << 22 | 2 << 12, (), ("synchronization2", "timelineSemaphore"))
    assert "api_version 1.3 (it is 1.2)" in str(raised.value)
    assert "VK_KHR_external_memory_fd" in str(raised.value)
    assert "feature dynamicRendering" in str(raised.value)
    assert "synchronization2" not in str(raised.value)
    assert "vulkan_requirements()" in raised.value.hint


@pytest.mark.rule("X12", "X18")
def test_a_probe_leaves_no_fd_behind(physical) -> None:
    from vkshare.backends.vulkan.probe import probe

    probe(physical)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        probe(physical)
    assert len(os.listdir("/proc/self/fd")) == before
