"""`vkshare demo desktop`: eight processes in one window, in order, without a wait for a slow or dead one (R18, R19)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the demo needs Pillow")

import support.demo_runs
from PIL import Image
from support.demo_runs import on, picture, said, shown_demo
from support.private_displays import XDisplay, wait_for, without_displays

from vkshare import cli
from vkshare.demos import marks
from vkshare.demos.desktop import pictures
from vkshare.demos.desktop.census import Census, Order
from vkshare.demos.desktop.pictures import fitted, number_on
from vkshare.demos.desktop.places import DRIFT, NAMES, PANEL, SEATS, Desk, Picture, Seat
from vkshare.demos.desktop.run import faults
from vkshare.demos.lettering import length

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.slow]

SMALL = (640, 360)
ALONE = without_displays(dict(os.environ))


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return support.demo_runs.demo("desktop", "--size", "640x360", *arguments, environment=ALONE)


# ---- a run as a user starts it -------------------------------------------------------------------------------------


@pytest.mark.every_driver
@pytest.mark.rule("R18", "R19")
def test_eight_processes_are_shown_in_order_and_the_report_says_so(vks_adapter: Any, tmp_path: Path) -> None:
    file = tmp_path / "out.png"
    run = demo(*on(vks_adapter), "--headless", "--frames", "60", "--json", "--output", str(file))
    report = json.loads(run.stdout)
    assert (run.returncode, said(run.stderr), report["faults"]) == (0, [], [])
    assert report["ok"]
    assert report["adapter"] == vks_adapter.name
    assert [client["name"] for client in report["clients"]] == list(NAMES)
    for client in report["clients"]:
        assert client["shown"] > 0
        assert client["looks"] > 0, f"{client['name']}'s numbers were read off the picture"
    assert report["steady"]["composites"] >= 60
    pixels = picture(file)
    assert pixels.shape == (SMALL[1], SMALL[0], 4)
    for seat in SEATS:
        if seat.name not in ("drifter", "crash"):
            x, y, width, height = Desk(*SMALL).rect(seat.place)
            assert len(np.unique(pixels[y : y + height, x : x + width].reshape(-1, 4), axis=0)) > 10, seat.name


@pytest.mark.full
def test_the_compositor_may_be_in_the_same_process(only_on_cpu: None) -> None:
    run = demo("--backend", "cpu", "--headless", "--frames", "20", "--one-process")
    assert (run.returncode, run.stderr) == (0, "")
    assert "every client was shown, in order, and waited for no other client" in run.stdout
    for name in NAMES:
        assert f"\n{name} " in run.stdout


@pytest.mark.full
@pytest.mark.rule("R18")
def test_in_a_window_all_are_seen_at_once_and_can_be_dragged_and_escape_ends_it(
    vks_adapter: Any, x11: XDisplay
) -> None:
    desk = Desk(*SMALL)

    def is_there(pixels: Any, seat: Seat, away: tuple[int, int] = (0, 0)) -> bool:
        x, y, *size = desk.rect(seat.place)
        layout = Picture(*size)
        at = layout.render_mark[0] + x + away[0], layout.render_mark[1] + y + away[1]
        return marks.read(pixels, at, layout.mark_cell) >= 0

    def is_foreseen(pixels: Any) -> bool:
        """The panel's last line has green in it: the drifter, who has no slot, is live."""
        x, y, width, height = desk.rect(PANEL.place)
        row = pixels[y + 78 * height // 100 : y + 87 * height // 100, x + 72 * width // 100 : x + width, :3].astype(int)
        return bool((row[..., 1] > row[..., [0, 2]].max(-1) + 40).any())

    def all_are_there() -> bool:
        pixels = x11.picture(run.window)
        return is_foreseen(pixels) and all(is_there(pixels, seat) for seat in SEATS if seat.has_slot)

    more = ("--size", "640x360", "--crash-after", "20")
    with shown_demo(x11, "desktop", *on(vks_adapter), *more) as run:
        wait_for(all_are_there, "all eight", 60)
        slow = SEATS[NAMES.index("slow")]  # where the drifter does not come
        x, y = desk.rect(slow.place)[:2]

        def drag(x: int, y: int) -> None:
            x11.pointer_to(run.window, x, y)
            x11.button(1, down=True)
            x11.pointer_to(run.window, x - 8, y + 16)
            x11.button(1, down=False)

        for _ in range(5):  # the window manager keeps clicks for itself until the window has the focus
            x11.focus(run.window)
            drag(20, 5)  # the wallpaper, which stays below the others
            drag(x + 20, y + 20)
            with contextlib.suppress(AssertionError):
                wait_for(lambda: is_there(x11.picture(run.window), slow, (-8, 16)), "it is where it was dragged to", 5)
                break
        assert is_there(x11.picture(run.window), slow, (-8, 16))
        assert run.press_escape() == (0, [])


# ---- a run that is interrupted, and processes that die -------------------------------------------------------------


class Endless:
    """A demo that only the test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder  # for what is temporary
        command = [sys.executable, "-m", "vkshare", "demo", "desktop", "--backend", "cpu", "--size", "640x360"]
        more = ["--headless", "--frames", "1000000", "--crash-after", "0.2"]
        environment = {**ALONE, "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            [*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def children(self) -> dict[str, int]:
        """Pids by name; the compositor's is "compositor"."""
        found = {}
        for each in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            try:
                arguments = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
            except OSError:  # it has ended since it was listed
                continue
            *_, code, words, _ = [b"", b"", *arguments]  # the last one ends the line
            if b"vkshare.demos.desktop" in code:
                found[json.loads(words)[0].get("name", "compositor")] = int(each)
        return found

    def wait_for(self, condition: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """Until the children are so."""
        deadline = time.monotonic() + 60
        while not condition(children := self.children()):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return children

    def end(self, children: dict[str, int]) -> tuple[int, str]:
        """Exit status and stderr; no process, socket or folder of it is left."""
        _, err = self.process.communicate(timeout=30)
        assert not [pid for pid in children.values() if Path(f"/proc/{pid}/exe").exists()]
        assert list(self.folder.iterdir()) == []
        return self.process.returncode, err


@pytest.fixture
def endless(only_on_cpu: None) -> Iterator[Endless]:
    # A socket's path is short, which tmp_path may not be.
    with tempfile.TemporaryDirectory(prefix="vks-") as folder:
        run = Endless(Path(folder))
        yield run
        _end(run)


def _end(run: Endless) -> None:
    if run.process.poll() is None:
        run.process.kill()
    run.process.communicate()


@pytest.mark.rule("R18")
def test_who_crashes_is_started_again_and_ctrl_c_ends_all(endless: Endless) -> None:
    first = endless.wait_for(lambda children: "crash" in children)["crash"]
    children = endless.wait_for(lambda children: children.get("crash", first) != first)
    endless.process.send_signal(signal.SIGINT)
    assert endless.end(children) == (130, "vkshare demo: interrupted\n")


@pytest.mark.full
def test_sigterm_ends_all(endless: Endless) -> None:
    children = endless.wait_for(lambda children: len(children) == 9)
    endless.process.terminate()
    assert endless.end(children) == (143, "vkshare demo: terminated\n")


def test_a_compositor_that_is_killed_ends_the_run_with_its_name(endless: Endless) -> None:
    children = endless.wait_for(lambda children: len(children) == 9)
    os.kill(children["compositor"], signal.SIGKILL)
    status, err = endless.end(children)
    assert status == 1
    assert err == f"vkshare demo: the compositor process (pid {children['compositor']}) was killed by SIGKILL\n"


@pytest.mark.full
def test_no_process_outlives_a_parent_that_is_killed(endless: Endless) -> None:
    children = endless.wait_for(lambda children: len(children) == 9)
    endless.process.kill()
    endless.process.communicate(timeout=30)
    wait_for(lambda: not [pid for pid in children.values() if Path(f"/proc/{pid}/exe").exists()], "all have ended", 30)


@pytest.mark.parametrize(
    ("arguments", "status", "reported"),
    [
        (("--frames", "0"), 2, "frames is 0; allowed is 1 or more"),
        (("--size", "300x200"), 2, "size is 300x200; allowed is 640x360 to"),
        (("--crash-after", "0"), 2, "crash-after is 0 s; allowed are 0.1 to 3600"),
        (("--output", "out.nothing"), 2, "'out.nothing' must end in .png"),
        (("--adapter", "no such adapter"), 1, "no such adapter"),
        (("--adapter", "no such adapter", "--one-process"), 2, "no such adapter"),
    ],
)
def test_a_wrong_argument_is_named(
    only_on_cpu: None, arguments: tuple[str, ...], status: int, reported: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", "desktop", "--headless", *arguments]) == status
    err = capfd.readouterr().err
    assert reported in err
    assert "Traceback" not in err


# ---- the verdict ---------------------------------------------------------------------------------------------------


def client(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "shown": 100, "looks": 9, "faults": [], "windows": 1, **changes}


def found(changed: str = "", restarts: int = 0, composites: int = 200, **changes: Any) -> list[str]:
    clients = [client(name, **(changes if name == changed else {})) for name in NAMES]
    return faults(clients, {"composites": composites, "slow": 5}, restarts)


@pytest.mark.rule("R18", "R19")
def test_a_run_is_good_only_if_every_client_was_shown_in_order_and_the_slow_one_delayed_nobody() -> None:
    assert found() == []
    assert found("clock", shown=0) == ["clock was never shown"]
    assert found("clock", looks=0) == ["no frame number of clock could be read in the picture"]
    assert found("clock", looks=0, shown=3) == [], "no client looked while it was there"
    assert found("bars", faults=["frame 3 was shown after frame 4"]) == ["bars: frame 3 was shown after frame 4"]
    assert found(composites=14) == ["14 composites for 5 frames of the slow client: it was waited for"]
    assert found("crash", restarts=2, windows=1) == [
        "the client that crashes was started again 2 times, and never seen again"
    ]
    assert found("crash", restarts=2, windows=2) == []


@pytest.mark.rule("R19")
def test_numbers_in_the_picture_tell_whether_frames_are_in_order() -> None:
    order = Order(3)
    reported = [order.seen(marks.code(frame, 3)) for frame in (0, 1, 1, 7, 300, 299, 301)]
    assert reported == ["", "", "", "", "", "frame 299 was shown after frame 300", ""]
    assert (order.last, order.looks) == (301, 6)
    assert order.seen(-1) == ""
    assert order.seen(marks.code(302, 4)) == "", "another client's"
    assert order.last == 301


def test_a_number_is_read_where_the_window_is_and_not_where_it_hangs_over_the_edge() -> None:
    layout = Picture(118, 60)
    image = Image.new("RGBA", (118, 60))
    number_on(image, layout, 5, 2)
    desktop = np.zeros((360, 640, 4), np.uint8)
    desktop[100:160, 200:318] = np.asarray(image)
    order = Order(2)
    assert order.look(desktop, (200, 100), layout) == ""
    assert (order.last, order.looks) == (5, 1)
    for outside in ((-20, 100), (200, -200), (600, 100), (200, 340)):
        assert order.look(desktop, outside, layout) == ""
    assert order.looks == 1


class Window:
    """As the compositor has one."""

    def __init__(self, title: str, shown: int) -> None:
        self.title, self.shown = title, shown
        self.x, self.y, self.width, self.height, self.end, self.is_closed = 0, 0, 100, 60, "", False

    def statistics(self) -> Any:
        return SimpleNamespace(shown=self.shown, lost=1, superseded=2)


def test_what_was_shown_is_counted_over_all_windows_that_a_client_has_had() -> None:
    compositor = SimpleNamespace(windows=[Window("crash: is killed", 5), Window("another", 9)])
    census = Census(compositor)
    count = census.counts[NAMES.index("crash")]
    census.take()
    assert (count.windows, count.shown, count.state, count.detail) == (1, 5, "live", "is killed")
    compositor.windows[0].shown = 8
    compositor.windows[0].end = "the client died in a frame"
    census.take()
    assert (count.windows, count.shown, count.state) == (1, 8, "gone")
    compositor.windows.pop(0)
    census.take()
    assert (count.shown, count.state) == (8, "not here")
    compositor.windows.append(Window("crash: is killed", 2))
    census.take()
    assert (count.windows, count.shown, count.lost, count.superseded) == (2, 10, 2, 4)
    assert not census.is_complete


# ---- how it looks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [SMALL, (1280, 720), (1000, 1000), (2560, 1080)])
def test_windows_lie_inside_the_desktop_and_beside_each_other(size: tuple[int, int]) -> None:
    desk = Desk(*size)
    rects = [desk.rect(seat.place) for seat in (*SEATS, PANEL)]
    for x, y, width, height in rects:
        assert min(x, y) >= 0
        assert x + width <= size[0]
        assert y + height <= size[1]
    covered = np.zeros(size[::-1], int)
    for x, y, width, height in rects:
        covered[y : y + height, x : x + width] += 1
    assert covered.max() == 1
    drifter = SEATS[NAMES.index("drifter")]
    for place in DRIFT:
        x, y, width, height = desk.rect((*place, *drifter.place[2:]))
        assert min(x, y) >= 0
        assert x + width <= size[0]
        assert y + height <= size[1]


@pytest.mark.parametrize("name", ["clock", "slow", "countdown", "card"])
def test_a_picture_covers_its_window_and_changes(name: str) -> None:
    def drawn(seconds: float) -> Any:
        image = Image.new("RGBA", (276, 200) if name != "card" else (236, 60), (1, 2, 3, 4))
        if name == "slow":
            pictures.slow(image, int(seconds))
        elif name == "countdown":
            pictures.countdown(image, 3 - seconds, 3)
        else:
            getattr(pictures, name)(image, 0, seconds)
        return np.asarray(image).copy()

    first, later = drawn(0.1), drawn(1.4)
    assert not (first == (1, 2, 3, 4)).all(-1).any(), "nothing is left of what was there"
    assert name == "clock" or (first != later).any(), "the clock shows the time of day"


def test_waves_are_the_same_by_any_library() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ours, theirs = (np.asarray(pictures.Waves(library, 90, 50).at(2.5)) for library in (np, torch))
    assert np.abs(ours.astype(int) - theirs).max() <= 4


def test_words_are_cut_to_the_room_that_they_have() -> None:
    assert fitted("short", 13, 200) == "short"
    cut = fitted("drawn by llvmpipe (LLVM 15.0.6, 256 bits)", 13, 120)
    assert cut.startswith("drawn by llvm")
    assert cut.endswith("…")
    assert length(cut, 13) <= 120
