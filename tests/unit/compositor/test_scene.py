"""Scene: what is drawn of a stack of windows, and where they are at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkshare.compositor.scene import Drawn, Placement, Scene, Tween

pytestmark = pytest.mark.no_driver

MS = 1_000_000


def window(x: float, y: float, width: int, height: int, opacity: float = 1.0, *, opaque: bool = False) -> Placement:
    return Placement(width, height, opaque, True, Tween(x, x), Tween(y, y), Tween(opacity, opacity))


def scene_of(*windows: Placement) -> Scene:
    scene = Scene()
    for each in windows:
        scene.add(each)
    return scene


def over(drawn: list[Drawn], x: int, y: int) -> list[Placement]:
    """Returns the windows that make up a pixel, from the topmost one that hides all below it."""
    found: list[Placement] = []
    for one in drawn:
        if one.x <= x < one.x + one.window.width and one.y <= y < one.y + one.window.height:
            if one.window.is_opaque and one.opacity >= 1:
                found = []
            found.append(one.window)
    return found


small = st.integers(-4, 12)
sides = st.integers(1, 14)
windows = st.lists(
    st.builds(
        lambda x, y, w, h, opacity, opaque: window(x, y, w, h, opacity, opaque=opaque),
        small, small, sides, sides, st.sampled_from([0.0, 0.5, 1.0]), st.booleans(),
    ),
    max_size=7,
)  # fmt: skip


@given(windows)
def test_windows_left_out_of_the_draw_list_change_no_pixel(made: list[Placement]) -> None:
    scene = scene_of(*made)
    drawn, is_covered = scene.draw_list(0, 10, 8)
    everything = [Drawn(each, *each.origin(0), each.opacity.at(0)) for each in made if each.opacity.at(0) > 0]
    for y in range(8):
        for x in range(10):
            assert over(drawn, x, y) == over(everything, x, y)
            if is_covered:
                assert over(drawn, x, y)[0].is_opaque


def test_hidden_windows_and_windows_outside_the_target_are_not_drawn() -> None:
    below, top, outside = window(2, 2, 3, 3), window(0, 0, 10, 8, opaque=True), window(10, 0, 5, 5)
    drawn, is_covered = scene_of(below, top, outside).draw_list(0, 10, 8)
    assert ([one.window for one in drawn], is_covered) == ([top], True)
    top.opacity = Tween(0.9, 0.9)
    drawn, is_covered = scene_of(below, top, outside).draw_list(0, 10, 8)
    assert ([one.window for one in drawn], is_covered) == ([below, top], False)


def test_a_window_without_a_picture_is_neither_drawn_nor_hit_and_hides_nothing() -> None:
    below, top = window(0, 0, 4, 4), window(0, 0, 4, 4, opaque=True)
    top.has_picture = False
    scene = scene_of(below, top)
    assert [one.window for one in scene.draw_list(0, 10, 8)[0]] == [below]
    assert scene.at(1, 1, 0) is below


def test_the_topmost_window_that_is_seen_is_hit() -> None:
    a, b = window(0, 0, 5, 5), window(3, 3, 5, 5)
    scene = scene_of(a, b)
    assert [scene.at(x, y, 0) for x, y in ((0, 0), (3, 3), (7.9, 7.9), (8, 8), (4.9, 2.9))] == [a, b, b, None, a]
    scene.raise_to_top(a)
    assert scene.at(3, 3, 0) is a
    scene.lower_to_bottom(a)
    assert scene.at(3, 3, 0) is b
    b.opacity = Tween(0, 0)
    assert scene.at(3, 3, 0) is a


def test_a_tween_starts_where_it_is_and_ends_where_it_shall() -> None:
    tween = Tween(0, 0).to(100, 10 * MS, 20 * MS)
    assert [tween.at(time * MS) for time in (0, 10, 20, 30, 99)] == [0, 0, 50, 100, 100]
    assert tween.at(15 * MS) < 25 < 75 < tween.at(25 * MS), "eased at both ends"
    turned = tween.to(0, 20 * MS, 10 * MS)
    assert (turned.at(20 * MS), turned.at(30 * MS)) == (50, 0)
    assert tween.to(7, 20 * MS, 0).at(20 * MS) == 7


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 50 * MS))
def test_a_tween_never_leaves_the_span_between_its_ends(start: float, end: float, time: int) -> None:
    value = Tween(start, start).to(end, 10 * MS, 20 * MS).at(time)
    assert min(start, end) - 1e-6 <= value <= max(start, end) + 1e-6


def test_a_scene_changes_while_something_moves_or_fades() -> None:
    a = window(0, 0, 4, 4)
    scene = scene_of(a)
    assert not scene.is_changing(0)
    for name in ("x", "y", "opacity"):
        setattr(a, name, getattr(a, name).to(1, 5, 10))
        assert scene.is_changing(14)
        assert not scene.is_changing(15)
        setattr(a, name, Tween(1, 1))


def test_a_window_that_is_not_in_the_stack_cannot_be_raised_into_it() -> None:
    a, b = window(0, 0, 4, 4), window(0, 0, 4, 4)
    scene = scene_of(a)
    scene.raise_to_top(b)
    scene.lower_to_bottom(b)
    assert scene.stack == (a,)
    with pytest.raises(ValueError, match="not in list"):
        scene.remove(b)


def test_an_immediate_move_also_applies_to_a_composite_of_an_earlier_time() -> None:
    tween = Tween(0, 0).to(100, 10 * MS, 0)
    assert [tween.at(time) for time in (9 * MS, 10 * MS, 11 * MS)] == [100, 100, 100]
