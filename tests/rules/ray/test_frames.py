"""Frames between Ray's actors, on one node and on two. Rules G4 and G5."""

from __future__ import annotations

import pytest
from support.ray_cluster import FAR, NEAR, PATIENCE, get, renderer, until, viewer, with_a_cluster

import vkshare as vks

ray = pytest.importorskip("ray", reason="needs Ray (vkshare[ray])")
pytest_plugins = ["support.ray_cluster"]
pytestmark = with_a_cluster


@pytest.mark.rule("G4")
def test_on_one_node_an_actor_gets_the_memory_itself_to_read() -> None:
    source, one, two = renderer(), viewer(), viewer()
    ref = source.frame.remote()
    assert get([one.number.remote(ref), two.number.remote(ref)]) == [1, 1]
    seen = get([one.memory.remote(ref), two.memory.remote(ref)])
    assert seen[0][0] == seen[1][0]  # the same memory
    assert [is_read_only for _, _, is_read_only in seen] == [True, True]
    before = get([source.copied.remote(), one.memory.remote(ref)])
    for _ in range(20):
        get(one.memory.remote(source.frame.remote()))
    copied, (_, looked, _) = get([source.copied.remote(), one.memory.remote(ref)])
    assert looked == before[1][1]  # no byte was copied
    assert copied - before[0] <= 20 * 2 * 64 * 48 * 4  # the reading and writing of each frame by its renderer
    assert "for reading" in get(one.write.remote(ref))


@pytest.mark.rule("G4")
@pytest.mark.parametrize("format", ["rgba8unorm", "rgba16float", "r32uint", "nv12"])
def test_on_another_node_an_actor_gets_the_same_pixels(format: str) -> None:
    try:
        with vks.open() as device:
            device.create_surface(64, 48, format).close()
    except vks.UnsupportedError as error:
        pytest.skip(str(error))
    source, far, near = renderer(format=format), viewer(FAR), viewer()
    for number in range(1, 6):
        ref = source.frame.remote()
        assert get([far.number.remote(ref), near.number.remote(ref)]) == [number, number]
        del ref


@pytest.mark.rule("G4")
@pytest.mark.parametrize("where", [NEAR, FAR], ids=["near", "far"])
def test_surfaces_travel_inside_other_values_and_without_a_pool(where: dict[str, float]) -> None:
    source, other = renderer(), viewer(where)
    assert get(other.numbers.remote(source.frames.remote())) == [1, 2, "text"]
    assert get([other.number.remote(source.plain.remote(each)) for each in (7, 8)]) == [7, 8]
    assert get(source.statistics.remote()).alive <= 2


@pytest.mark.rule("G4")
@pytest.mark.rule("G5")
@pytest.mark.parametrize("where", [NEAR, FAR], ids=["near", "far"])
def test_a_frame_that_is_passed_on_keeps_its_pixels_when_its_renderer_goes_on(where: dict[str, float]) -> None:
    source, middle, last = renderer(count=1), viewer(where), viewer(where)
    passed_on = middle.forward.remote(source.frame.remote())
    assert get(last.number.remote(passed_on)) == 1
    for number in range(2, 6):
        assert get(last.number.remote(source.frame.remote())) == number
    assert get(last.number.remote(passed_on)) == 1


@pytest.mark.rule("G4")
def test_actors_of_two_nodes_that_look_at_each_others_frames_do_not_wait_for_each_other() -> None:
    one, two = renderer(count=16), renderer(FAR, count=16)
    for _ in range(3):
        ours, theirs = [[each.frame.remote() for _ in range(8)] for each in (one, two)]
        seen = [two.number_of.remote(each) for each in ours] + [one.number_of.remote(each) for each in theirs]
        assert len({*get(seen)}) == 8
    del ours, theirs
    for each in (one, two):
        until(lambda each=each: get(each.statistics.remote()).alive == 0)  # type: ignore[misc]


@pytest.mark.rule("G5")
@pytest.mark.parametrize("where", [NEAR, FAR], ids=["near", "far"])
def test_a_value_that_cannot_travel_is_an_error_at_its_reader_and_costs_no_surface(where: dict[str, float]) -> None:
    source, other = renderer(count=2), viewer(where)
    for _ in range(4):
        with pytest.raises(vks.InvalidCallError, match="cannot travel: ClosedError"):
            get(other.numbers.remote(source.with_a_closed_one.remote()))
    until(lambda: get(source.statistics.remote()).alive == 0)
    assert get(other.number.remote(source.frame.remote())) == 5


@pytest.mark.rule("G5")
def test_a_frame_lives_as_long_as_its_reference_and_the_pool_is_bounded() -> None:
    source, other = renderer(count=3), viewer()
    refs = [source.frame.remote() for _ in range(3)]
    assert get([other.number.remote(each) for each in refs]) == [1, 2, 3]
    with pytest.raises(vks.AcquireTimeout, match="none of 3 frames came back"):
        get(source.frame.remote(0))  # it is dropped
    counts = get(source.statistics.remote())
    assert (counts.alive, counts.drops, counts.frames) == (3, 1, 3)
    assert get([other.number.remote(each) for each in refs]) == [1, 2, 3]  # none was overwritten
    waits = source.frame.remote(PATIENCE)
    assert ray.wait([waits], timeout=0.2)[0] == []  # it waits for a surface
    del refs[1]
    assert get(other.number.remote(waits)) == 5
    assert get([other.number.remote(each) for each in refs]) == [1, 3]
    del refs[:], waits
    until(lambda: get(source.statistics.remote()).alive == 0)
    assert get(source.statistics.remote()).waits >= 1


@pytest.mark.rule("G5")
def test_many_frames_leave_nothing() -> None:
    source, near, far = renderer(), viewer(), viewer(FAR)

    def turn(times: int) -> None:
        for _ in range(times):
            ref = source.frame.remote()
            near_number, far_number = get([near.number.remote(ref), far.number.remote(ref)])
            assert near_number == far_number

    turn(20)
    before = get([each.fds.remote() for each in (source, near, far)])
    turn(150)
    until(lambda: get(source.statistics.remote()).alive == 0)
    # A pool may have made another surface, which has five.
    after = get([each.fds.remote() for each in (source, near, far)])
    assert all(len(now) <= len(then) + 15 for now, then in zip(after, before, strict=True)), (before, after)
