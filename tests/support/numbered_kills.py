"""A process that kills itself at a numbered point: the n-th call of a function of vkshare.remote, on any thread.

The process imports this module before it starts threads. VKS_TEST_KILL_AT has the number.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import threading
from typing import Any

VARIABLE = "VKS_TEST_KILL_AT"
_PART = f"{os.sep}vkshare{os.sep}remote{os.sep}"
_MOST = 4.0  # decimal digits of the number


def point(dice: random.Random) -> int:
    """A number. Small ones, where a session begins, come as often as those of each later decade."""
    return int(10 ** dice.uniform(0, _MOST))


def arm() -> None:
    """Count the calls from now on, if the variable is set."""
    if VARIABLE not in os.environ:
        return
    left = itertools.count(int(os.environ[VARIABLE]) - 1, -1)

    def count(frame: Any, event: str, _: Any) -> None:
        if event == "call" and _PART in frame.f_code.co_filename and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)


arm()
