"""Device.submit: the commands that it takes, and surfaces that are not owned."""

from __future__ import annotations

from typing import Any

import pytest
from support.native_objects import (
    TOP,
    Device,
    Fence,
    List,
    Surface,
    make_surface,
)

from vkshare import errors

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


def test_things_that_are_no_commands_are_refused(device: Device, surface: Surface) -> None:
    for bad in (None, True, False, "x", 1.5, object(), surface, [List(surface)]):
        with pytest.raises(TypeError):
            device.submit(bad)
    with pytest.raises(ValueError, match="NULL"):
        device.submit(0)
    for bad in (-1, TOP):
        with pytest.raises(ValueError, match="commands is"):
            device.submit(bad)
    with pytest.raises(ValueError, match="give the raw ones last"):
        device.submit(4096, List(surface))
    with pytest.raises(errors.VkshareError):  # the CPU backend has no command buffers
        device.submit(4096)


def test_a_compile_that_raises_or_sets_nothing_submits_nothing(device: Device, surface: Surface) -> None:
    class Raises(List):
        def _compile(self) -> None:
            raise ZeroDivisionError

    class Idle(List):
        def _compile(self) -> None:
            pass

    surface.acquire()
    before = device._counters()["submissions"]
    with pytest.raises(ZeroDivisionError):
        device.submit(Raises(surface))
    with pytest.raises(errors.InvalidCallError, match="not compiled"):
        device.submit(Idle(surface))
    blank = List.__new__(List)
    with pytest.raises((errors.InvalidCallError, AttributeError)):
        device.submit(blank)
    assert device._counters()["submissions"] == before


def test_a_list_that_another_ones_compile_resets_is_compiled_again_but_not_for_ever(
    device: Device, surface: Surface
) -> None:
    class Resets(List):
        other: List

        def _compile(self) -> None:
            super()._compile()
            self.other._reset()

    once, first, second = Resets(surface), Resets(surface), Resets(surface)
    once.other, first.other, second.other = List(surface), second, first
    surface.acquire()
    device.submit(once.other).wait(5)
    device.submit(once.other, once).wait(5)
    with pytest.raises(errors.InvalidCallError, match="reset meanwhile"):
        device.submit(first, second)


def test_many_lists_in_one_call_run_in_order(device: Device, surface: Surface) -> None:
    surface.acquire()
    lists = [List(surface, (value / 255, 0, 0, 1)) for value in range(30)]
    device.submit(*lists).wait(5)
    surface._cpu_access(5)
    assert surface.memory[0] == 29


@pytest.mark.rule("K21", "K31")
def test_submitting_what_is_not_owned_shows_the_access_line(device: Device, surface: Surface) -> None:
    with pytest.raises(errors.NotOwnerError, match=r"with surface\.access\(acquire=KEY, release=KEY\) as view:"):
        device.submit(List(surface))
    with pytest.raises(errors.NotOwnerError, match=r"with surface\.access"):
        surface.release(1)
    with pytest.raises(errors.NotOwnerError):
        surface._cpu_access(0)


@pytest.mark.rule("K21")
def test_unowned_surfaces_that_discard_go_to_the_python_layer(device: Device, fence: Fence) -> None:
    calls: list[Any] = []

    class Discarding(Device):
        def _submit_discarding(self, *arguments: Any) -> str:
            calls.append(arguments)
            return "discarded"

    device = Discarding()
    fence = Fence(device, 1)
    target, strict = make_surface(device, discard_unowned=True), make_surface(device)
    commands = List(target)
    assert device.submit(commands) == "discarded"
    assert device.submit(commands, waits=iter([(fence, 1)]), signals=fence) == "discarded"
    assert calls == [((commands,), (), ()), ((commands,), ((fence, 1),), fence)]
    with pytest.raises(errors.NotOwnerError):
        device.submit(commands, List(strict))
    assert fence.queued_value == 1
    target.acquire()
    device.submit(commands).wait(5)
    assert len(calls) == 2
    device._shutdown()
