"""Colours by their names and by H.273's numbers. Rule Y2."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from vkshare import color
from vkshare.color import Color

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("Y2")]


def test_the_numbers_are_those_of_h_273() -> None:
    assert Color().codes == {"primaries": 1, "transfer": 13, "matrix": 0, "range": 1, "siting": 0}
    hdr = Color("bt2020", "pq", "bt2020", "limited", "top-left")
    assert hdr.codes == {"primaries": 9, "transfer": 16, "matrix": 9, "range": 0, "siting": 2}
    assert color.BT709.codes == {"primaries": 1, "transfer": 1, "matrix": 1, "range": 0, "siting": 0}


def test_each_color_comes_back_from_its_numbers() -> None:
    parts = (color.PRIMARIES, color.TRANSFERS, color.MATRICES, color.RANGES, color.SITINGS)
    for words in itertools.product(*parts):
        one = Color(*words)
        assert color.from_codes(**one.codes) == one


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(Color)])
def test_another_word_or_number_is_named(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is 'bt47'; allowed are"):
        Color(**{field: "bt47"})
    with pytest.raises(ValueError, match=rf"{field} is 77 \(ITU-T H.273\); allowed are"):
        color.from_codes(**(Color().codes | {field: 77}))


def test_a_color_as_text_has_its_words() -> None:
    assert str(Color()) == "bt709 srgb rgb full"
    assert str(color.BT709) == "bt709 bt709 bt709 limited left"
