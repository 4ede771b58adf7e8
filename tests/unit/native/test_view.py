"""ArrayBuffer, the native base of View, exports the memory of its view."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from vkshare import _native

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


class Lender(_native.ArrayBuffer):
    """With an array as the test says."""

    array: Any = None


def test_it_lends_the_buffer_of_its_array_which_stays_alive() -> None:
    lender = Lender()
    lender.array = bytearray(b"abc")
    before = sys.getrefcount(lender.array)
    memoryview(lender).release()
    after = sys.getrefcount(lender.array)
    assert after == before
    memory = memoryview(lender)
    memory[0] = ord("x")
    assert lender.array == b"xbc"
    lender.array = None
    assert bytes(memory) == b"xbc"
    with pytest.raises(BufferError):
        memory.obj.append(1)  # type: ignore[attr-defined]


def test_what_the_array_refuses_or_its_property_raises_is_passed_on() -> None:
    class Over(_native.ArrayBuffer):
        @property
        def array(self) -> object:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memoryview(Over())
    with pytest.raises(AttributeError):
        memoryview(_native.ArrayBuffer())
    lender = Lender()
    with pytest.raises(TypeError, match="bytes-like"):
        memoryview(lender)
    lender.array = b"read-only"
    assert memoryview(lender).readonly
