"""Waits that could never end are refused when they begin. Rule R9."""

from __future__ import annotations

import os

import pytest
from support.run_volumes import rounds, seeded

from vkshare.errors import InvalidCallError
from vkshare.server.deadlock_check import WaitGraph, identity

pytestmark = pytest.mark.no_driver


@pytest.mark.rule("R9")
def test_a_wait_for_itself_or_in_a_cycle_is_refused() -> None:
    graph = WaitGraph()
    with pytest.raises(InvalidCallError, match="only a later request of this client"):
        graph.begin_wait(1, 1)
    graph.begin_wait(1, None)  # another party's fence
    graph.begin_wait(1, 2)
    graph.begin_wait(2, 3)
    with pytest.raises(InvalidCallError, match="client 1, which must signal that value, waits for this client"):
        graph.begin_wait(3, 1)
    graph.end_wait(2)
    graph.begin_wait(3, 1)
    with pytest.raises(InvalidCallError):
        graph.begin_wait(2, 3)


@pytest.mark.rule("R9")
def test_a_wait_is_refused_exactly_when_it_closes_a_cycle() -> None:
    """Compares with reachability in the wait-for graph, computed from scratch."""
    rng = seeded()
    for _ in range(rounds(2000, 200)):
        graph, edges = WaitGraph(), dict[int, int]()
        for _ in range(60):
            client, owner = rng.randrange(8), rng.randrange(8)
            if client in edges:
                graph.end_wait(client)
                del edges[client]
                continue
            reached, at = set[int](), [owner]
            while at:
                node = at.pop()
                if node not in reached:
                    reached.add(node)
                    at += [edges[node]] if node in edges else []
            if client in reached:
                with pytest.raises(InvalidCallError):
                    graph.begin_wait(client, owner)
            else:
                graph.begin_wait(client, owner)
                edges[client] = owner


def test_the_identity_of_a_page_is_the_same_for_each_of_its_fds() -> None:
    one, two = os.memfd_create("page"), os.memfd_create("page")
    again = os.dup(one)
    graph = WaitGraph()
    graph.add_fence(7, identity(one))
    assert graph.signaller(identity(again)) == 7
    assert graph.signaller(identity(two)) is None
    graph.remove_fence(identity(again))
    assert graph.signaller(identity(one)) is None
    for fd in (one, two, again):
        os.close(fd)
