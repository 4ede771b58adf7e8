"""Actors and nodes of Ray that are killed. Rule G6."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.ray_cluster import FAR, NEAR, get, renderer, until, viewer, with_a_cluster

ray = pytest.importorskip("ray", reason="needs Ray (vkshare[ray])")
pytest_plugins = ["support.ray_cluster"]
pytestmark = [*with_a_cluster, pytest.mark.rule("G6")]


def until_it_fails(call: Callable[[], object]) -> None:
    """Repeats the call until it is Ray's error."""

    def fails() -> bool:
        try:
            call()
        except ray.exceptions.RayError:
            return True
        return False

    until(fails)


def test_a_viewer_that_dies_with_frames_costs_the_renderer_none() -> None:
    source, stays = renderer(count=2), viewer()
    refs = [source.frame.remote(), source.frame.remote()]  # both surfaces are made
    assert get([stays.number.remote(each) for each in refs]) == [1, 2]
    refs.clear()
    fds = get(source.fds.remote())
    for _ in range(5):
        dies = viewer()
        get(dies.pid.remote())
        with pytest.raises(ray.exceptions.RayActorError):
            get(dies.die_with.remote(source.frame.remote()))
    number = 7
    for _ in range(4):
        number += 1
        assert get(stays.number.remote(source.frame.remote())) == number
    until(lambda: get(source.statistics.remote()).alive == 0)
    assert get(source.statistics.remote()).recovered == 5
    more = Counter(get(source.fds.remote())) - Counter(fds)
    assert more.total() <= 4, more  # the watch of other processes begins with the first that dies
    assert not any("memfd" in each for each in more), more


@pytest.mark.parametrize("where", [NEAR, FAR], ids=["near", "far"])
def test_a_renderer_that_dies_is_rays_error_at_the_viewer_which_goes_on(where: dict[str, float]) -> None:
    other = viewer(where)
    before = 0
    for round_number in range(6):
        source = renderer()
        ref = source.frame.remote()
        assert get(other.number.remote(ref)) == 1
        os.kill(get(source.pid.remote()), signal.SIGKILL)
        with pytest.raises(ray.exceptions.RayError):
            get(source.frame.remote())
        next_frame = source.frame.remote()
        with pytest.raises(ray.exceptions.RayError):
            get(other.number.remote(next_frame))
        del ref, next_frame
        if round_number == 1:
            before = get(other.shared_memories.remote())
    # Those of the last one are closed when the next new surface comes.
    assert get(other.shared_memories.remote()) <= before + 2
    source = renderer()
    assert get(other.number.remote(source.frame.remote())) == 1


def test_a_node_that_dies_is_rays_error_and_the_other_one_goes_on(cluster: Any) -> None:
    source, far, near = renderer(), viewer(FAR), viewer()
    there = renderer(FAR)
    refs = [source.frame.remote()]
    assert get([each.number.remote(refs[0]) for each in (far, near)]) == [1, 1]
    lost = there.frame.remote()
    assert get(near.number.remote(lost)) == 1
    cluster.remove_node(cluster.second, allow_graceful=False)
    until_it_fails(lambda: get(far.number.remote(refs[0])))  # its workers notice that a moment later
    until_it_fails(lambda: get(near.number.remote(there.frame.remote())))
    del lost
    assert get(near.number.remote(refs[0])) == 1
    refs.clear()
    for number in range(2, 8):
        assert get(near.number.remote(source.frame.remote())) == number
    until(lambda: get(source.statistics.remote()).alive == 0)
