"""A pytest plugin: `context`, an OpenGL context in which the surfaces of vks_device can be opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vkshare as vks


def needs_opengl(device: vks.Device) -> None:
    """Skips where no OpenGL can open the device's memory: test_gl.py tests that such surfaces are refused."""
    if device.backend == "cpu" or "SwiftShader" in device.adapter.name:
        pytest.skip(f"no OpenGL opens the memory of {device.adapter.name!r}")


@pytest.fixture
def context(vks_device: vks.Device) -> Iterator[vks.interop.gl.EGLContext]:
    """An OpenGL context on the GPU of vks_device, current; must be there where its memory can be opened at all."""
    needs_opengl(vks_device)
    with vks.interop.gl.egl_context(vks_device) as made:
        yield made
