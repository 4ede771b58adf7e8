"""A program that owns an X11 window, as another toolkit does: it prints the id, and obeys the lines of its input.

    size 140 90 | hide | show | destroy

It answers each with "done" once the X server has carried it out.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_WIDTH_AND_HEIGHT = 4 | 8  # CWWidth, CWHeight
_BACKGROUND = 2  # CWBackPixel


def main() -> None:
    import xcffib.xproto

    connection: Any = xcffib.connect(os.environ["DISPLAY"])
    core, screen, window = connection.core, connection.setup.roots[0], connection.generate_id()
    place = (0, 0, 96, 64, 0)
    core.CreateWindow(24, window, screen.root, *place, 1, screen.root_visual, _BACKGROUND, [0], is_checked=True).check()
    core.MapWindow(window, is_checked=True).check()
    print(window, flush=True)
    for line in sys.stdin:
        name, *values = line.split()
        if name == "size":
            core.ConfigureWindow(window, _WIDTH_AND_HEIGHT, list(map(int, values)), is_checked=True).check()
        else:
            request = {"hide": core.UnmapWindow, "show": core.MapWindow, "destroy": core.DestroyWindow}[name]
            request(window, is_checked=True).check()
        print("done", flush=True)


if __name__ == "__main__":
    main()
