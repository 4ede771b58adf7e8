"""The error hierarchy: what is below what, what the texts say, and that errors cross processes."""

from __future__ import annotations

import pickle

import pytest

from vkshare import errors

BELOW_VKSHARE_ERROR = [
    errors.VulkanError(-1, "vkAllocateMemory"),
    errors.DeviceLostError(-4, "vkQueueSubmit2"),
    errors.DeviceLostError("the device is lost"),
    errors.SurfaceLostError("the window is gone"),
    errors.UnsupportedError("sharing", "the driver has no fds", "use the CPU backend"),
    errors.InvalidCallError("not now"),
    errors.NotOwnerError("acquire first"),
    errors.AcquireTimeout("too late"),
    errors.AbandonedError("its owner died"),
    errors.StillDrawingError("not done"),
    errors.ClosedError("closed"),
    errors.DeviceMismatchError("another device"),
    errors.DescriptorError("forged"),
    errors.RemoteLostError("gone"),
    errors.VideoError("clip.mp4", 1.5, "damaged"),
    errors.RemoteDeviceLostError("gone"),
]


@pytest.mark.parametrize("error", BELOW_VKSHARE_ERROR, ids=lambda e: type(e).__name__)
def test_an_error_comes_back_whole_from_a_pickle(error: errors.VkshareError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.__dict__ == error.__dict__


@pytest.mark.parametrize("error", BELOW_VKSHARE_ERROR, ids=lambda e: type(e).__name__)
def test_every_error_is_a_vkshare_error(error: errors.VkshareError) -> None:
    assert isinstance(error, errors.VkshareError)


def test_a_vulkan_error_names_the_call_and_the_result() -> None:
    error = errors.VulkanError(-2, "vkAllocateMemory")
    assert (error.result, error.call, error.result_name) == (-2, "vkAllocateMemory", "VK_ERROR_OUT_OF_DEVICE_MEMORY")
    assert str(error) == "vkAllocateMemory: VK_ERROR_OUT_OF_DEVICE_MEMORY (-2)"
    assert "unknown VkResult (-77)" in str(errors.VulkanError(-77, "vkX"))


def test_lost_devices_and_surfaces_are_vulkan_errors_with_a_result() -> None:
    assert errors.DeviceLostError("gone").result_name == "VK_ERROR_DEVICE_LOST"
    assert errors.SurfaceLostError("gone").result_name == "VK_ERROR_SURFACE_LOST_KHR"
    assert str(errors.DeviceLostError("gone")) == "gone"
    assert isinstance(errors.DeviceLostError("gone"), errors.VulkanError)


def test_an_unsupported_error_says_why_and_what_to_do() -> None:
    error = errors.UnsupportedError("sharing", "the driver has no fds", "use the CPU backend")
    assert str(error) == "sharing is not supported: the driver has no fds; use the CPU backend"
    assert (error.capability, error.why, error.hint) == ("sharing", "the driver has no fds", "use the CPU backend")
    assert str(errors.UnsupportedError("a", "b")) == "a is not supported: b"


def test_an_acquire_timeout_is_a_timeout_error_and_a_not_owner_error_an_invalid_call() -> None:
    assert issubclass(errors.AcquireTimeout, TimeoutError)
    assert issubclass(errors.NotOwnerError, errors.InvalidCallError)
