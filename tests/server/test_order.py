"""Waits that could never end are refused when they begin. Rule R9."""

from __future__ import annotations

import os

import pytest
from support.run_volumes import rounds, seeded

from vkshare.errors import InvalidCallError
from vkshare.server.order import Order, identity


@pytest.mark.rule("R9")
def test_nobody_waits_for_oneself_nor_in_a_circle() -> None:
    order = Order()
    with pytest.raises(InvalidCallError, match="only a later request of this client"):
        order.wait(1, 1)
    order.wait(1, None)  # another party's fence
    order.wait(1, 2)
    order.wait(2, 3)
    with pytest.raises(InvalidCallError, match="client 1, who is to signal that value, waits for this client"):
        order.wait(3, 1)
    order.waited(2)
    order.wait(3, 1)
    with pytest.raises(InvalidCallError):
        order.wait(2, 3)


@pytest.mark.rule("R9")
def test_a_wait_is_refused_exactly_when_it_closes_a_circle() -> None:
    """Against reachability, computed anew: who waits reaches whoever the one waited for reaches."""
    rng = seeded()
    for _ in range(rounds(2000, 200)):
        order, edges = Order(), dict[int, int]()
        for _ in range(60):
            client, owner = rng.randrange(8), rng.randrange(8)
            if client in edges:
                order.waited(client)
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
                    order.wait(client, owner)
            else:
                order.wait(client, owner)
                edges[client] = owner


def test_a_page_is_known_by_whichever_fd_it_comes() -> None:
    one, two = os.memfd_create("page"), os.memfd_create("page")
    again = os.dup(one)
    order = Order()
    order.made(7, identity(one))
    assert order.owner(identity(again)) == 7
    assert order.owner(identity(two)) is None
    order.ended(identity(again))
    assert order.owner(identity(one)) is None
    for fd in (one, two, again):
        os.close(fd)
