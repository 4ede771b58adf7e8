"""A headless sway: what is really on its screen, and what users do to windows. Run by an ordinary user."""

from __future__ import annotations

import io
import json
import os
import pwd
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from support.display_servers import end, said, start, wait_for, without_displays

_SWAY_CONFIG = """output HEADLESS-1 resolution {width}x{height} position 0 0
default_border none
default_floating_border none
focus_follows_mouse no
xwayland disable
for_window [app_id=".*"] floating enable
for_window [title=".*"] floating enable
"""


class WaylandScreen:
    """The screen of a sway that runs, for a process with the environment of its clients."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    @property
    def environment(self) -> dict[str, str]:
        """os.environ for a program that is to show its windows here."""
        return self._environment

    def _run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        environment = {name: value for name, value in self.environment.items() if name != "LD_LIBRARY_PATH"}
        return subprocess.run(command, env=environment, capture_output=True, timeout=10, check=check)

    def command(self, *words: str) -> None:
        """A command of sway's: ``command('[title="mine"]', "kill")``; AssertionError if refused."""
        done = self._run("swaymsg", "--raw", "--", *words, check=False)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()

    def windows(self) -> list[dict[str, Any]]:
        """sway's nodes of the windows: "name" is the title, "rect" where it is."""
        tree = json.loads(self._run("swaymsg", "--raw", "--type", "get_tree").stdout)
        found, waiting = [], [tree]
        while waiting:
            node = waiting.pop()
            waiting += node["nodes"] + node["floating_nodes"]
            if node.get("pid"):
                found.append(node)
        return found

    def find(self, title: str, timeout: float = 10) -> dict[str, Any]:
        """Waits for the window of that title, and returns its node."""
        return wait_for(
            lambda: next((w for w in self.windows() if w["name"] == title), {}), f"a window called {title!r}", timeout
        )

    def resize(self, title: str, width: int, height: int) -> None:
        """Asks the compositor for another size, as a user who drags an edge does."""
        self.command(f'[title="{title}"]', "resize", "set", str(width), str(height))

    def ask_to_close(self, title: str) -> None:
        self.command(f'[title="{title}"]', "kill")

    def screen(self) -> np.ndarray:
        """The whole screen as (H, W, 4) uint8, RGBA: what grim gets from the compositor."""
        from PIL import Image

        png = self._run("grim", "-t", "png", "-l", "0", "-").stdout
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))

    def picture(self, title: str) -> np.ndarray:
        """The part of the screen where that window is."""
        rect = self.find(title)["rect"]
        return self.screen()[rect["y"] : rect["y"] + rect["height"], rect["x"] : rect["x"] + rect["width"]]


class WaylandDisplay(WaylandScreen):
    """A headless sway. Made by sway(). Run windows in a process of their own: glfw's library is chosen at import."""

    def __init__(self, folder: Path, width: int, height: int, user: pwd.struct_passwd | None) -> None:
        self._runtime = folder / "run"
        self._runtime.mkdir(mode=0o700)
        config = folder / "config"
        config.write_text(_SWAY_CONFIG.format(width=width, height=height))
        if user is not None:
            folder.chmod(0o755)
            os.chown(self._runtime, user.pw_uid, user.pw_gid)
        self._socket = self._runtime / "sway.sock"
        environment = without_displays(dict(os.environ)) | {
            "HOME": str(self._runtime),
            "XDG_RUNTIME_DIR": str(self._runtime),
            "SWAYSOCK": str(self._socket),
            "WLR_BACKENDS": "headless",
            "WLR_RENDERER": "pixman",
            "WLR_LIBINPUT_NO_DEVICES": "1",
        }
        environment.pop("LD_LIBRARY_PATH", None)  # of the test's drivers, none of the compositor's business
        self._log = folder / "sway.log"
        with open(self._log, "wb") as log:
            self._server = start(["sway", "--config", str(config)], user=user, env=environment, stderr=log)
        try:
            self.name: str = wait_for(self._find_socket, "sway has a socket")
            wait_for(self._answers, "sway answers")
        except BaseException:
            self.end()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """os.environ for a program that is to show its windows here."""
        return without_displays(dict(os.environ)) | {
            "WAYLAND_DISPLAY": self.name,
            "XDG_RUNTIME_DIR": str(self._runtime),
            "XDG_SESSION_TYPE": "wayland",
            "SWAYSOCK": str(self._socket),
        }

    @property
    def pid(self) -> int:
        """The compositor's."""
        return self._server.pid

    def _find_socket(self) -> str:
        assert self._server.poll() is None, f"sway ended: {said(self._log)}"
        names = [path.name for path in self._runtime.glob("wayland-*") if path.suffix != ".lock"]
        return names[0] if names else ""

    def _answers(self) -> bool:
        done = self._run("swaymsg", "--raw", "--type", "get_outputs", check=False)
        return done.returncode == 0 and b"HEADLESS-1" in done.stdout

    def kill(self) -> None:
        """SIGKILL: the compositor goes away under its windows."""
        self._server.send_signal(signal.SIGKILL)
        self._server.wait(5)

    def end(self) -> None:
        """Ends the compositor. Idempotent."""
        end(self._server)

    def __repr__(self) -> str:
        return f"<sway {self.name}, process {self.pid}>"
