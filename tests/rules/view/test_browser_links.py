"""A page over a bad link: dropped sockets, stalls, a laptop that was closed (rule W7)."""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
import pytest
from support.chromium_pages import equals, state
from support.run_volumes import rounds
from support.view_servers import HANG

from vkshare.testing.link import LinkProxy

pytest_plugins = ["support.chromium_pages", "support.view_servers"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W7")]


def noise(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (30, 40, 4), dtype=np.uint8)


def through(link: LinkProxy, url: str) -> str:
    """The page's address by the link, as by a tunnel."""
    return f"http://{link.address}/#{url.partition('#')[2]}"


def test_a_socket_that_is_cut_is_replaced_and_the_page_goes_on(show: Any, new_page: Any) -> None:
    source = show(40, 30)
    with LinkProxy(source.server.address) as link:
        source.send(noise(1))
        page = new_page(through(link, source.server.url))
        equals(page, noise(1))
        kinds: tuple[Literal["reset", "end"], ...] = ("reset", "end")
        for seed, kind in enumerate(kinds, 2):
            link.disconnect(kind)
            source.send(noise(seed))
            equals(page, noise(seed))
        state(page, "shown")
    assert source.server.statistics().accepted >= 3


def test_a_link_that_stalls_costs_the_producer_nothing_and_ends_with_the_newest_picture(
    show: Any, new_page: Any
) -> None:
    source = show(40, 30)
    with LinkProxy(source.server.address) as link:
        source.send(noise(1))
        page = new_page(through(link, source.server.url))
        equals(page, noise(1))
        link.stall(None)
        last = rounds(2_000, 100)
        for seed in range(2, last + 1):
            source.send(noise(seed))  # each is taken: the pipe has three surfaces
        link.resume()
        equals(page, noise(last))


def test_a_page_that_gives_no_sign_of_life_is_let_go_and_comes_back(show: Any, new_page: Any, monkeypatch: Any) -> None:
    from vkshare.view import service

    monkeypatch.setattr(service, "LIMITS", service.Limits(heartbeat=0.5))
    source = show(40, 30)
    with LinkProxy(source.server.address) as link:
        source.send(noise(1))
        page = new_page(through(link, source.server.url))
        equals(page, noise(1))
        link.stall(None)
        limit = time.monotonic() + HANG
        while source.server.statistics().viewers:  # the laptop is closed
            assert time.monotonic() < limit
            time.sleep(0.01)
        source.send(noise(2))
        link.resume()
        equals(page, noise(2))


@pytest.mark.full
def test_a_slow_and_lossy_link_shows_the_newest_picture(show: Any, new_page: Any) -> None:
    source = show(40, 30)
    with LinkProxy(source.server.address, delay=0.1, jitter=0.02, rate=250_000, loss=0.01, seed=1) as link:
        source.send(noise(1))
        page = new_page(through(link, source.server.url))
        for seed in range(2, 60):
            source.send(noise(seed))
        equals(page, noise(59))
