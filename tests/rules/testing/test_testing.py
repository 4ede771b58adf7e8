"""vkshare.testing itself: pictures compared, messages of the validation layer filtered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vkshare.testing import assert_images_close, assert_images_equal, validation

pytestmark = pytest.mark.program


@pytest.fixture(autouse=True)
def _pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKSHARE_TEST_PICTURES", str(tmp_path))


def test_equal_pictures_pass_and_write_nothing(tmp_path: Path) -> None:
    picture = np.arange(60, dtype=np.uint8).reshape(3, 5, 4)
    assert_images_equal(picture, picture.copy())
    assert not list(tmp_path.iterdir())


def test_a_difference_is_told_and_three_pictures_are_written(tmp_path: Path) -> None:
    expected = np.zeros((3, 5, 4), np.uint8)
    actual = expected.copy()
    actual[2, 1, 0] = 9
    with pytest.raises(AssertionError, match=r"1 of 15 pixels differ by more than 0, at most by 9; first at x 1, y 2"):
        assert_images_equal(actual, expected, "spot")
    assert sorted(p.stem for p in tmp_path.iterdir()) == ["spot-actual", "spot-difference", "spot-expected"]


def test_the_files_are_named_after_the_test_by_default(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        assert_images_equal(np.zeros((2, 2, 1), np.uint8), np.ones((2, 2, 1), np.uint8))
    assert any("test_the_files_are_named" in p.name for p in tmp_path.iterdir())


def test_a_tolerance_is_kept_to_the_bit() -> None:
    expected = np.full((4, 4, 4), 100, np.uint8)
    assert_images_close(expected + 2, expected, 2)
    with pytest.raises(AssertionError):
        assert_images_close(expected + 3, expected, 2)
    with pytest.raises(AssertionError):
        assert_images_close(expected - 3, expected, 2)


def test_a_fraction_of_the_pixels_may_differ() -> None:
    expected = np.zeros((10, 10, 4), np.uint8)
    actual = expected.copy()
    actual[0, :5] = 255
    assert_images_close(actual, expected, differing=0.05)
    with pytest.raises(AssertionError):
        assert_images_close(actual, expected, differing=0.049)


def test_packed_pixels_are_compared_by_channel() -> None:
    expected = np.full((2, 2, 1), 1 << 10, np.uint32)  # green 1, red 0
    assert_images_close(np.full((2, 2, 1), 1, np.uint32), expected, 1)
    with pytest.raises(AssertionError):
        assert_images_close(np.full((2, 2, 1), 2, np.uint32), expected, 1)


def test_nan_differs_from_all_and_infinity_equals_itself() -> None:
    infinite = np.full((2, 2, 4), np.inf, np.float32)
    assert_images_equal(infinite, infinite.copy())
    with pytest.raises(AssertionError):
        assert_images_close(np.full((2, 2, 4), np.nan, np.float32), np.zeros((2, 2, 4), np.float32), 10)


@pytest.mark.parametrize("other", [np.zeros((3, 5, 3), np.uint8), np.zeros((3, 5, 4), np.float32)])
def test_other_shapes_and_types_are_not_compared(other: np.ndarray) -> None:
    with pytest.raises(AssertionError, match="not to be compared"):
        assert_images_close(other, np.zeros((3, 5, 4), np.uint8), 1000)


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "float16", "float32"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_every_format_can_be_written_as_a_picture(tmp_path: Path, dtype: str, channels: int) -> None:
    if dtype == "uint32" and channels != 1:
        pytest.skip("packed pixels have one channel")
    expected = np.zeros((4, 4, channels), dtype)
    with pytest.raises(AssertionError):
        assert_images_equal(expected + 1, expected, "any")
    assert len(list(tmp_path.iterdir())) == 3


def test_only_known_false_messages_of_the_same_layer_are_set_aside() -> None:
    known = validation.FILTERS[0]
    false = "image [vkshare opened a] x --instead, current layout is VK_IMAGE_LAYOUT_UNDEFINED"
    for layer, text, failures in (
        (known.layer, false, 0),
        ("1.3.275", false, 1),
        (known.layer, "image [vkshare b] x --instead, current layout is VK_IMAGE_LAYOUT_UNDEFINED", 1),
    ):
        collector = validation.Collector(layer)
        collector("error", known.message_id, text)
        assert len(collector.take()) == failures
        assert collector.take() == []


def test_every_filter_says_why_and_for_which_layer() -> None:
    for known in validation.FILTERS:
        assert known.message_id
        assert known.layer.count(".") == 2
        assert len(known.why) > 20


def test_information_is_no_failure() -> None:
    collector = validation.Collector("1.3.239")
    collector("info", "loader", "hello")
    collector("warning", "perf", "careful")
    assert [m.severity for m in collector.take()] == ["warning"]
