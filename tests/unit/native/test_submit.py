"""Device.submit: waits, signals and what a Submission tells."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.native_objects import (
    TOP,
    Device,
    Fence,
    Index,
    List,
    Surface,
    make_surface,
)

from vkshare import errors

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


def test_submit_runs_a_list_and_compiles_it_once(device: Device, surface: Surface) -> None:
    commands = List(surface, (0.0, 1.0, 0.0, 1.0))
    assert not commands._is_compiled
    surface.acquire()
    for _ in range(3):
        device.submit(commands).wait(5)
    surface._cpu_access(5)
    assert commands.compilations == 1
    assert commands._is_compiled
    assert surface.memory[:4] == bytes((0, 255, 0, 255))
    commands._reset()
    assert not commands._is_compiled
    device.submit(commands).wait(5)
    assert commands.compilations == 2


def test_a_submission_tells_where_it_stands(device: Device, fence: Fence) -> None:
    other = Fence(device)
    submission = device.submit(waits=(other, 1), signals=fence)
    assert submission.is_held
    assert not submission.is_done()
    assert submission.device is device
    assert "held" in repr(submission)
    with pytest.raises(TimeoutError, match="held: not done within"):
        submission.wait(0)
    other.signal(1)
    submission.wait(5)
    assert submission.is_done()
    assert not submission.is_held
    assert "done" in repr(submission)
    assert fence.value == 1
    first, second = device.submit(), device.submit()
    assert 0 < first.serial < second.serial
    second.wait(5)
    assert device._completed >= second.serial
    assert device._counters()["submitted"] >= second.serial
    device.wait_idle(5)


# form -> (what is given, value of f, value of g)
SIGNAL_FORMS: dict[str, tuple[Callable[[Fence, Fence], Any], int, int]] = {
    "a pair": (lambda f, g: (f, 5), 5, 0),
    "a pair with an index": (lambda f, g: (f, Index(5)), 5, 0),
    "a list that is a pair": (lambda f, g: [f, 5], 5, 0),
    "pairs": (lambda f, g: ((f, 5), (g, 6)), 5, 6),
    "a list of pairs": (lambda f, g: [(f, 5), (g, 6)], 5, 6),
    "a fence": (lambda f, g: f, 1, 0),
    "fences": (lambda f, g: (f, g), 1, 1),
    "one fence in a tuple": (lambda f, g: (f,), 1, 0),
    "a list of fences": (lambda f, g: [f, g], 1, 1),
    "a fence and a pair": (lambda f, g: (f, (g, 6)), 1, 6),
    "a pair and a fence": (lambda f, g: ((f, 5), g), 5, 1),
    "a generator": (lambda f, g: (item for item in [(f, 5), g]), 5, 1),
    "more than fit on the stack": (lambda f, g: (*((Fence(f.device), 1) for _ in range(20)), (f, 5)), 5, 0),
    "nothing": (lambda f, g: (), 0, 0),
}


@pytest.mark.parametrize("form", SIGNAL_FORMS)
def test_signals_may_be_one_item_or_a_sequence(device: Device, form: str) -> None:
    given, f_value, g_value = SIGNAL_FORMS[form]
    f, g = Fence(device), Fence(device)
    device.submit(signals=given(f, g)).wait(5)
    assert (f.value, g.value) == (f_value, g_value)


def test_waits_may_be_one_item_or_a_sequence(device: Device) -> None:
    f, g = Fence(device, 1), Fence(device, 1)
    earlier = device.submit()
    many = [earlier] * 10 + [(f, 1)] * 10
    for waits in ((f, 1), ((f, 1), (g, 1)), [(f, 1)], earlier, (earlier,), (earlier, earlier), ((f, 1), earlier),
                  (earlier, (g, 1)), iter([(f, 1)]), [f, 1], (), [], many):  # fmt: skip
        device.submit(waits=waits).wait(5)


@pytest.mark.parametrize("name", ["waits", "signals"])
def test_items_of_another_form_are_type_errors_that_say_what_is_allowed(
    device: Device, fence: Fence, name: str
) -> None:
    for bad in (
        None,
        1,
        "f",
        object(),
        [1],
        (1, 2),
        ((fence, 1, 2),),
        ((1, fence),),
        [[fence, 1]],
        {fence: 1}.items,
        (fence, 1, 2),
    ):
        with pytest.raises(TypeError, match=f"{name} must be .*pair"):
            device.submit(**{name: bad})
    for bad in ((fence, 1.0), (fence, "1"), (fence, None), ((fence, 1.0),)):
        with pytest.raises(TypeError, match=f"{name}: a fence's value must be an integer"):
            device.submit(**{name: bad})
    for bad in ((fence, -1), ((fence, TOP),)):
        with pytest.raises(ValueError, match=f"{name}: a fence's value is"):
            device.submit(**{name: bad})
    with pytest.raises(errors.InvalidCallError, match="never initialised"):
        device.submit(**{name: (Fence.__new__(Fence), 1)})
    assert fence.queued_value == 0


@pytest.mark.parametrize("bad", ["x", [1], None, True, 1.5, {}, object()])
def test_what_is_no_command_is_told_what_a_submission_takes(device: Device, bad: Any) -> None:
    with pytest.raises(TypeError, match=r"commands must be CommandLists or VkCommandBuffers .*submit\(\*commands\)"):
        device.submit(bad)


def test_a_refused_submission_names_the_list_and_the_surface(device: Device) -> None:
    owned, other = make_surface(device), make_surface(device)
    owned.acquire()
    lists = List(owned), List(other)
    with pytest.raises(errors.NotOwnerError, match=rf"commands\[1\] uses {re.escape(repr(other))}: this handle does"):
        device.submit(*lists)
    other.acquire()
    device.submit(*lists).wait(5)
    other._close()
    with pytest.raises(errors.ClosedError, match=rf"commands\[1\] uses {re.escape(repr(other))}"):
        device.submit(*lists)
    stranger = Device(name="stranger")
    with pytest.raises(errors.DeviceMismatchError, match=r"commands\[0\] is of .*record\(\)"):
        stranger.submit(lists[0])
    stranger._shutdown()


def test_a_refused_submission_names_the_fence(device: Device, fence: Fence) -> None:
    stranger, closed = Device(name="stranger"), Fence(device)
    foreign = Fence(stranger)
    closed.close()
    follower = Fence._open(device, *foreign._export())
    for error, options, who in (
        (errors.ClosedError, {"waits": [(fence, 0), (closed, 1)]}, f"waits[1], {closed!r}"),
        (errors.ClosedError, {"signals": closed}, f"signals, {closed!r}"),
        (errors.DeviceMismatchError, {"signals": [fence, foreign]}, f"signals[1], {foreign!r}"),
        (errors.DeviceMismatchError, {"waits": (foreign, 1)}, f"waits, {foreign!r}"),
        (errors.InvalidCallError, {"waits": (follower, 0), "signals": (follower, 1)}, f"signals, {follower!r}"),
    ):
        with pytest.raises(error, match=re.escape(who)):
            device.submit(**options)
    assert fence.queued_value == 0
    stranger._shutdown()


def test_a_repr_that_fails_while_a_submission_is_refused_is_passed_on(device: Device) -> None:
    class Broken(Fence):
        def __repr__(self) -> str:
            raise ZeroDivisionError

    closed = Broken(device)
    closed.close()
    with pytest.raises(ZeroDivisionError):
        device.submit(signals=closed)


def test_pickling_a_submission_names_the_fence_to_send(device: Device) -> None:
    for use in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match=r"signals=fence.*fence\.export\(\)"):
            use(device.submit())


def test_a_bare_fence_is_nothing_to_wait_for(device: Device, fence: Fence) -> None:
    with pytest.raises(TypeError, match="waits must be"):
        device.submit(waits=fence)
    with pytest.raises(TypeError, match="signals must be"):
        device.submit(signals=device.submit())


@pytest.mark.rule("X1")
def test_bad_signal_values_are_value_errors_and_nothing_runs(device: Device, surface: Surface, fence: Fence) -> None:
    fence.signal(10)
    surface.acquire()
    for bad in (0, 1, 10, TOP - 1):
        with pytest.raises(ValueError, match="signal"):
            device.submit(List(surface), signals=(fence, bad))
        with pytest.raises(ValueError, match=r"10|0"):
            fence.signal(bad)
    device.wait_idle(5)
    assert fence.queued_value == 10
    assert surface.memory[:4] == bytes(4)


def test_objects_of_another_device_are_refused_with_a_hint(device: Device, surface: Surface) -> None:
    other = Device()
    foreign = Fence(other)
    surface.acquire()
    for call, hint in (
        (lambda: device.submit(signals=(foreign, 1)), r"open_fence\(\)"),
        (lambda: device.submit(waits=(foreign, 1)), r"open_fence\(\)"),
        (lambda: device.submit(waits=other.submit()), r"open_fence\(\)"),
        (lambda: other.submit(List(surface)), r"open_surface\(surface\.export\(\)\)"),
    ):
        with pytest.raises(errors.DeviceMismatchError, match=hint):
            call()
    other._shutdown()
