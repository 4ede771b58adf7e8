"""Programs of a host and their pictures, over a link that takes what a test wants. Rules M4, M7."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from vkshare.remote import relay_messages as m
from vkshare.remote.contexts import Context
from vkshare.server.request_types import Answer

pytestmark = pytest.mark.no_driver


class Link:
    """It notes the lanes of what it takes."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.pictures = 3
        self.full: set[int] = set()

    def send(self, lane: int, message: bytes, *, has_pixels: bool = False, **_: Any) -> bool:
        if lane in self.full:
            return False
        self.taken.append(lane)
        self.pictures -= has_pixels
        return True

    def picture_room(self) -> int:
        return self.pictures


class Client:
    def __init__(self) -> None:
        self.told: list[object] = []
        self.name = "program"

    def tell(self, opcode: int, body: object) -> None:
        self.told.append(body)

    def answer(self, request: object, outcome: Answer | Exception) -> None:
        raise AssertionError("nothing was asked")


def _contexts(link: Link, count: int) -> list[Context]:
    pictures: deque[Context] = deque()
    link_: Any = link
    return [Context(number, Client(), link_, 1, pictures) for number in range(1, count + 1)]  # type: ignore[arg-type]


def _picture(context: Context) -> None:
    context.send(m.Op.WRITE, m.Write(m.Turn(1, 0, True), ((0, 0, 1, 1),), b"1234", True), has_pixels=True)


@pytest.mark.rule("M7")
def test_programs_send_pictures_in_the_order_in_which_they_asked() -> None:
    link = Link()
    link.pictures = 0
    first, second, third = _contexts(link, 3)
    for context in (second, first, second, third):
        _picture(context)
    assert link.taken == []
    for _ in range(4):
        link.pictures = 1
        for context in [*first.pictures, first, second, third]:
            context.flush()
    assert link.taken == [2, 1, 3, 2]


@pytest.mark.rule("M4")
def test_a_program_whose_lane_is_full_keeps_no_other_from_sending_pictures() -> None:
    """Its session at the viewer may wait for that very picture, so that its lane would stay full for ever."""
    link = Link()
    first, second = _contexts(link, 2)
    link.full = {1}
    _picture(first)
    _picture(second)
    assert link.taken == [2]
    link.full.clear()
    first.flush()
    assert link.taken == [2, 1]


@pytest.mark.rule("M6")
def test_a_lost_program_is_notified_once_and_all_its_answers_are_errors() -> None:
    link = Link()
    (context,) = _contexts(link, 1)
    answers: list[object] = []
    for number in range(2000):
        turn = m.Turn(1, number, False)
        context.send(m.Op.READ, m.Read(turn, (0, 0, 1, 1), True), reply=answers.append)
        context.reads.append((lambda: None, answers.append))
    context.lose("it is gone")
    context.lose("it is gone again")
    assert [str(each) for each in answers] == ["it is gone"] * 4000
    assert [str(each.why) for each in context.control.told] == ["it is gone"]  # type: ignore[attr-defined]
