"""tests/rules/video: PyAV is there, or the test is skipped."""

from __future__ import annotations

import pytest
from support.recorded_files import need_av


@pytest.fixture(autouse=True)
def _has_av() -> None:
    need_av()
