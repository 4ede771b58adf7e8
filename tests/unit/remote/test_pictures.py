"""The viewer's images: each turn passes on, whatever fails. Rules M4, M6, M16."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import InvalidCallError
from vkshare.remote import relay_messages as m
from vkshare.remote.pictures import Pictures

pytestmark = pytest.mark.no_driver


class Session:
    """An executor, as images know it."""

    def __init__(self, client: int) -> None:
        self.client = client


FIRST: Any = Session(1)
SECOND: Any = Session(2)


class Failing:
    """A device whose next calls fail."""

    def __init__(self, device: vks.Device) -> None:
        self._device = device
        self.failures: list[tuple[str, Exception]] = []

    def __getattr__(self, name: str) -> Any:
        if self.failures and self.failures[0][0] == name:
            raise self.failures.pop(0)[1]
        return getattr(self._device, name)


@pytest.fixture
def device(vks_device: vks.Device) -> Failing:
    return Failing(vks_device)


@pytest.fixture
def pictures(device: Failing) -> Iterator[Pictures]:
    device_: Any = device
    made = Pictures(device_)
    made.add(m.Image(1, 8, 8, "rgba8unorm", ("copy", "render")))
    yield made
    made.close()


def _turns(*numbers: int) -> tuple[m.Turn, ...]:
    return tuple(m.Turn(1, number, True) for number in numbers)


def _take(pictures: Pictures, executor: Any, *numbers: int) -> None:
    with pictures.turns(executor, _turns(*numbers)):
        pass


def _next_turn(pictures: Pictures) -> int:
    first = pictures._pictures[1].first
    assert first is not None
    return first.mutex.statistics().key


@pytest.mark.rule("M4", "M16")
def test_turns_of_one_request_on_one_image_are_an_error_and_pass_on(pictures: Pictures) -> None:
    with pytest.raises(InvalidCallError):
        _take(pictures, FIRST, 0, 1, 2)
    _take(pictures, SECOND, 3)
    wait_until(lambda: _next_turn(pictures) == 4)


@pytest.mark.rule("M4", "M16")
def test_a_turn_of_a_session_that_has_no_handle_passes_on_among_turns_that_wait(
    pictures: Pictures, device: Failing
) -> None:
    _take(pictures, SECOND, 3)  # the programs' sessions are in no order
    device.failures = [("open_surface", OSError("no file descriptor is free"))]
    with pytest.raises(OSError, match="no file descriptor"):
        _take(pictures, FIRST, 0)
    _take(pictures, FIRST, 1)
    _take(pictures, FIRST, 2)
    wait_until(lambda: _next_turn(pictures) == 4)


@pytest.mark.rule("M4", "M16")
def test_a_turn_that_cannot_be_passed_on_now_is_passed_on_later_with_one_message(
    pictures: Pictures, device: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    device.failures = [("open_surface", OSError("no file descriptor is free"))] * 4
    with caplog.at_level(logging.WARNING, "vkshare.remote"):
        with pytest.raises(OSError, match="no file descriptor"):
            _take(pictures, FIRST, 0)
        pictures.reap()
        pictures.reap()
        assert not device.failures
        assert _next_turn(pictures) == 0
        pictures.reap()
    wait_until(lambda: _next_turn(pictures) == 1)
    assert [each.getMessage() for each in caplog.records] == [
        "turn 0 of image 1 is passed on later: no file descriptor is free"
    ]
    _take(pictures, SECOND, 1)
    pictures.forget(1, 2)
    wait_until(lambda: pictures.reap() or 1 not in pictures._pictures)


@pytest.mark.rule("M4", "M16")
def test_an_image_that_could_not_be_made_is_an_error_of_each_turn_and_no_wait(
    pictures: Pictures, device: Failing
) -> None:
    device.failures = [("create_surface", MemoryError("no memory is left"))]
    with pytest.raises(MemoryError):
        _take(pictures, FIRST, 0)
    for number, executor in enumerate((FIRST, SECOND, SECOND), 1):
        with pytest.raises(InvalidCallError, match="could not make image 1: create another surface"):
            _take(pictures, executor, number)
    pictures.forget(1, 4)
    assert 1 not in pictures._pictures


@pytest.mark.rule("M16")
def test_a_later_message_of_a_turn_that_has_passed_on_takes_no_turn(pictures: Pictures, device: Failing) -> None:
    device.failures = [("open_surface", OSError("no file descriptor is free"))]
    with pytest.raises(OSError, match="no file descriptor"):
        _take(pictures, FIRST, 0)
    with pytest.raises(InvalidCallError, match="turn 0 of image 1 is over for this program"):
        _take(pictures, FIRST, 0)
    _take(pictures, FIRST, 1)
    _take(pictures, SECOND, 2)
    wait_until(lambda: _next_turn(pictures) == 3)


@pytest.mark.rule("M6", "M16")
def test_a_release_that_fails_is_repeated(pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = pictures.begin(FIRST, _turns(0)[0])
    kept: Any = pictures._pictures[1].handles[FIRST]

    def release(key: int) -> None:
        kept.surface = handle
        raise OSError("not now")

    kept.surface = SimpleNamespace(release=release, close=handle.close)
    pictures.end(_turns(0)[0], kept.surface)
    assert _next_turn(pictures) == 0
    pictures._pictures[1].passing[0].surface = handle
    pictures.reap()
    _take(pictures, SECOND, 1)
    wait_until(lambda: _next_turn(pictures) == 2)
