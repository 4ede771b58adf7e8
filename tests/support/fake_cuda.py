"""A pytest plugin: `fake_cuda` puts modules in the place of cuda-bindings, with no GPU behind them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from vkshare.interop.cuda import driver as cuda

Install = Callable[..., Any]


class FakeDriver:
    """As much of cuda.bindings.driver as is called before anything is imported. Each call gives (CUresult, ...)."""

    def __init__(self, *gpus: bytes, initialises: int | Exception = 0) -> None:
        """`gpus`: a UUID each. `initialises`: what cuInit returns, or raises."""
        self._gpus = gpus
        self._initialises = initialises

    @staticmethod
    def CUresult(code: int) -> Any:
        return SimpleNamespace(name={1: "CUDA_ERROR_INVALID_VALUE"}[code])

    def cuInit(self, flags: int) -> tuple[int]:
        if isinstance(self._initialises, Exception):
            raise self._initialises
        return (self._initialises,)

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return 0, len(self._gpus)

    def cuDeviceGet(self, index: int) -> tuple[int, int]:
        return 0, index

    def cuDeviceGetName(self, length: int, device: int) -> tuple[int, bytes]:
        return 0, f"Fake GPU {device}".encode().ljust(length, b"\0")

    def cuDeviceGetUuid(self, device: int) -> tuple[int, Any]:
        return 0, SimpleNamespace(bytes=self._gpus[device])

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:
        return 0, 0x1000 + device


def _forget() -> None:
    for each in (cuda.bindings, cuda._uuids, cuda.gpu):
        each.cache_clear()


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """``fake_cuda(uuid, ...)`` is a machine with such GPUs, ``fake_cuda(None)`` one without cuda-bindings."""

    def install(*gpus: Any, tensors_on: int = 0, **options: Any) -> Any:
        _forget()
        monkeypatch.setattr(cuda, "_ordinal", lambda pointer: (0, tensors_on))
        monkeypatch.setattr(cuda, "_initialised_in", [])
        package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
        bindings.driver = None if gpus == (None,) else FakeDriver(*gpus, **options)  # type: ignore[attr-defined]
        is_missing = bindings.driver is None
        monkeypatch.setitem(sys.modules, "cuda", None if is_missing else package)
        monkeypatch.setitem(sys.modules, "cuda.bindings", None if is_missing else bindings)
        return bindings

    _forget()
    yield install
    _forget()
