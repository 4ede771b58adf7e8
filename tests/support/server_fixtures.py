"""A pytest plugin: `place`, the folder in which the render servers of a test listen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.render_servers import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Where servers of a test listen, and what is on them; all end after the test."""
    with Place(tmp_path) as place:
        yield place
