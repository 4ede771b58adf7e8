"""Ctrl-C between any two steps of Python inside the package."""

from __future__ import annotations

import dis
import os
import sys
from types import FrameType
from typing import Any

import pytest

import vkshare as vks

# Of tests that interrupt at each place. Since 3.12 a function that is traced from the middle on has few instructions.
at_any_place = pytest.mark.skipif(
    sys.gettrace() is not None or sys.version_info >= (3, 12),
    reason="traces each instruction, as Python 3.11 does where nothing else traces the run",
)

_PACKAGE = os.path.dirname(vks.__file__) + os.sep
# Python hears signals after these, before the next one.
_HEARS = {dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME") if name in dis.opmap}


class CtrlC:
    """KeyboardInterrupt at the n-th place inside vkshare where Python would hear the signal; n = 0: none."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.places = 0
        self._before: dict[FrameType, int] = {}

    def __enter__(self) -> CtrlC:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._before.clear()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            before = self._before.get(frame)
            self._before[frame] = frame.f_code.co_code[frame.f_lasti]
            if before in _HEARS:
                self.places += 1
                if self.places == self.n:
                    raise KeyboardInterrupt
        return self._step
