"""The render server. Nearly all of it is sockets, threads and processes, which no driver changes: on the cpu suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.servers import Place

if os.environ.get("VKSHARE_TEST_DRIVER", "") not in ("", "cpu"):
    collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_drivers.py"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Where servers of a test listen, and what is on them; all end after the test."""
    with Place(tmp_path) as place:
        yield place
