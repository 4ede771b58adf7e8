"""A pytest plugin: `cuda` is a cuda.bindings.driver that imports whatever it is given, and does what it is told."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

from vkshare.interop.cuda import driver, memory, plane, streams
from vkshare.interop.cuda.driver import GPU

CAPTURING, FAILED = 900, 700  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_ILLEGAL_ADDRESS
HERE = GPU(0, "Fake GPU", bytes(16), 0x1000)


class FakeDriver:
    """cuda.bindings.driver: `codes` and `gives` are what a function returns, `calls` what was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.codes: dict[str, int] = {}
        self.gives: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            return MagicMock()  # a structure, or an enumeration

        def function(*_: Any) -> tuple[int, int]:
            self.calls.append(name)
            return self.codes.get(name, 0), self.gives.get(name, 0x10)

        return function

    def freed(self) -> list[str]:
        """What was destroyed or freed, in order; and forgets all calls."""
        calls, self.calls = self.calls, []
        return [name for name in calls if "Destroy" in name or "Free" in name]


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    fake = FakeDriver()
    for module in (driver, memory, plane, streams):
        monkeypatch.setattr(module, "bindings", lambda: fake)
    monkeypatch.setattr(memory, "_to_free", [])
    monkeypatch.setattr(driver, "_attribute", lambda pointer, name, out: (1, out))  # it knows no pointer
    yield fake
    gc.collect()  # what frees itself does so by the fake
