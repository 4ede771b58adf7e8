"""The part of the pytest plugin that has simulated network links as a fixture (rule E22)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vkshare.testing.link import LinkProxy


@pytest.fixture
def vks_link() -> Iterator[Callable[..., LinkProxy]]:
    """Simulates a link to an address: ``vks_link("127.0.0.1:7700", delay=0.1)``, arguments as LinkProxy has them."""
    from vkshare.testing.link import LinkProxy

    with ExitStack() as stack:
        yield lambda target, **options: stack.enter_context(LinkProxy(target, **options))
