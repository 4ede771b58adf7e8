"""_native.CommandList."""

from __future__ import annotations

import sys
import weakref

import pytest
from support.native_objects import (
    Device,
    List,
    make_surface,
)

from vkshare import _native, errors

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


def test_a_list_keeps_its_surfaces_until_it_is_closed(device: Device) -> None:
    surface = make_surface(device)
    commands = List(surface)
    commands._compile()
    commands.target = None  # type: ignore[assignment]
    alive = weakref.ref(surface)
    del surface
    assert alive() is not None
    commands._reset()
    assert alive() is not None
    commands._close()
    assert alive() is None


def test_set_vulkan_checks_what_it_is_given(device: Device) -> None:
    commands = _native.CommandList(device)
    for arguments, error, text in (
        ((0, [], print), ValueError, "command_buffer is NULL"),
        ((1.5, [], print), TypeError, "command_buffer must be an integer"),
        ((1, [], None), TypeError, "retire must be a callable"),
        ((1, None, print), TypeError, "uses must be"),
    ):
        with pytest.raises(error, match=text):
            commands._set_vulkan(*arguments)
    retire = lambda: None  # noqa: E731
    before = sys.getrefcount(retire)
    with pytest.raises(errors.VkshareError):  # the CPU backend runs programs
        commands._set_vulkan(1, [], retire)
    assert sys.getrefcount(retire) == before
    assert not commands._is_compiled
