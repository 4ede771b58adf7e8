"""Numbers, timeouts and keywords: what is taken and how the rest is refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.native_objects import (
    TOP,
    Device,
    Fence,
    Index,
    Surface,
)
from support.time_limits import at_least

from vkshare import errors

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


@pytest.mark.rule("K14")
@pytest.mark.parametrize("bad", [-1, TOP, 10**40, -(10**40), Index(-1)])
def test_a_number_outside_64_bits_is_a_value_error_with_name_value_and_range(
    fence: Fence, surface: Surface, bad: Any
) -> None:
    value = bad.value if isinstance(bad, Index) else bad
    for call, name in (
        (lambda: surface.acquire(bad, 0), "key"),
        (lambda: surface.release(bad), "key"),
    ):
        with pytest.raises(ValueError, match=rf"{name} is {value}, allowed is 0 to 2\*\*64 - 1"):
            call()


@pytest.mark.rule("X1")
@pytest.mark.parametrize("bad", [-1, TOP - 1, TOP, 10**40, -(10**40), Index(-1), Index(TOP - 1)])
def test_a_value_that_no_fence_can_reach_is_a_value_error_with_name_value_and_range(
    device: Device, fence: Fence, bad: Any
) -> None:
    value = bad.value if isinstance(bad, Index) else bad
    for call, text in (
        (lambda: fence.signal(bad), f"value is {value}, allowed is 1 to"),
        (lambda: fence.wait(bad, 0), f"value is {value}, allowed is 0 to"),
        (lambda: fence.is_done(bad), f"value is {value}, allowed is 0 to"),
        (lambda: fence.event_fd(bad), f"value is {value}, allowed is 0 to"),
        (lambda: Fence(device, bad), f"initial is {value}, allowed is 0 to"),
        (lambda: device.submit(waits=(fence, bad)), f"waits: a fence's value is {value}, allowed is 0 to"),
        (lambda: device.submit(signals=(fence, bad)), f"signals: a fence's value is {value}, allowed is 1 to"),
    ):
        with pytest.raises(ValueError, match=rf"{text} 2\*\*64 - 2"):
            call()
    assert fence.queued_value == 0


@pytest.mark.rule("X1")
def test_the_highest_value_can_be_waited_for_and_zero_cannot_be_signalled(device: Device, fence: Fence) -> None:
    assert not fence.is_done(TOP - 2)
    assert fence.is_done(0)
    for call in (lambda: fence.signal(0), lambda: device.submit(signals=(fence, 0))):
        with pytest.raises(ValueError, match="is 0, allowed is 1 to"):
            call()


@pytest.mark.rule("K14")
@pytest.mark.parametrize("bad", [1.0, "1", None, b"1", (1,), object()])
def test_a_number_of_another_type_is_a_type_error_with_its_name(fence: Fence, surface: Surface, bad: Any) -> None:
    for call, name in (
        (lambda: fence.signal(bad), "value"),
        (lambda: fence.wait(bad, 0), "value"),
        (lambda: surface.acquire(bad, 0), "key"),
        (lambda: surface.release(bad), "key"),
    ):
        with pytest.raises(TypeError, match=f"{name} must be an integer"):
            call()


@pytest.mark.rule("K14")
def test_whatever_has_an_index_is_a_number(fence: Fence, surface: Surface) -> None:
    fence.signal(Index(7))
    assert fence.value == 7
    surface.acquire(False)
    surface.release(Index(TOP - 1))
    surface.acquire(TOP - 1, 0)


def test_an_index_that_raises_is_passed_on(fence: Fence) -> None:
    class Broken:
        def __index__(self) -> int:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fence.signal(Broken())


@pytest.mark.rule("K13")
@pytest.mark.parametrize("bad", [-1, -0.001, float("nan"), float("-inf"), -(10**400)])
def test_a_negative_or_nan_timeout_is_a_value_error_that_names_it(
    device: Device, fence: Fence, surface: Surface, bad: Any
) -> None:
    submission = device.submit()
    for call in (
        lambda: fence.wait(0, bad),
        lambda: fence.wait(0, timeout=bad),
        lambda: surface.acquire(0, bad),
        lambda: surface.recover(bad),
        lambda: surface._cpu_access(bad),
        lambda: device.wait_idle(bad),
        lambda: submission.wait(bad),
    ):
        with pytest.raises(ValueError, match="timeout is"):
            call()


@pytest.mark.parametrize("bad", ["1", b"1", [1], object(), 1j])
def test_a_timeout_of_another_type_is_a_type_error(device: Device, fence: Fence, surface: Surface, bad: Any) -> None:
    for call in (lambda: fence.wait(0, bad), lambda: surface.acquire(0, bad), lambda: device.wait_idle(bad)):
        with pytest.raises(TypeError, match="timeout must be float seconds or None"):
            call()


@pytest.mark.parametrize("forever", [None, float("inf"), 1e300, 10**400, 9e9 + 1])
def test_a_huge_timeout_waits_for_ever(fence: Fence, forever: Any) -> None:
    timer = threading.Timer(0.05, fence.signal, (3,))
    timer.start()
    fence.wait(3, forever)
    timer.join()


@pytest.mark.rule("K12", "X7")
def test_a_timeout_is_kept_and_zero_only_tests(device: Device, fence: Fence, surface: Surface) -> None:
    for call in (lambda t: fence.wait(1, t), lambda t: surface.acquire(5, t)):
        with pytest.raises(TimeoutError, match=r"within 0\.0 s"):
            call(0)
        with at_least(0.05), pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            call(0.05)
    with pytest.raises(errors.AcquireTimeout, match="key 5"):
        surface.acquire(5, 0)


def test_arguments_go_by_position_and_by_name(fence: Fence, surface: Surface) -> None:
    fence.signal(value=2)
    fence.wait(value=2, timeout=0)
    assert fence.is_done(value=1)
    surface.acquire(key=0, timeout=1, mode="cpu+gpu")
    surface.release(key=3)
    surface.acquire(3, timeout=0)
    surface.release(**{"".join(["k", "ey"]): 4})  # a name that is not interned
    surface.acquire(4)


def test_wrong_arguments_are_type_errors_that_name_the_function(fence: Fence, surface: Surface, device: Device) -> None:
    for call, text in (
        (lambda: fence.signal(), r"Fence.signal\(\) is missing the required argument 'value'"),
        (lambda: fence.signal(1, 2), "at most 1 positional"),
        (lambda: fence.signal(1, value=2), "multiple values for argument 'value'"),
        (lambda: fence.wait(1, time=2), "unexpected keyword argument 'time'"),
        (lambda: surface.acquire(0, 0, "gpu"), "at most 2 positional"),
        (lambda: surface.acquire(mode=1), "mode must be a str"),
        (lambda: device.submit(wait=()), "unexpected keyword argument 'wait'"),
        (lambda: device._reap(True, True), "at most 1 positional"),
        (lambda: fence._notify(1, object(), 1), "event_queue must be a EventQueue"),
    ):
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(ValueError, match="mode is 'cpu', allowed is 'cpu\\+gpu' or 'gpu'"):
        surface.acquire(mode="cpu")
