"""The main job, `vkshare demo shared`: what it draws, what it finds wrong, and that it always ends."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
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
from support.demo_runs import said

import vkshare
from vkshare import cli
from vkshare.core import adapter
from vkshare.demos import marks, pictures, shared
from vkshare.demos.inspection import Inspector
from vkshare.demos.layout import Layout
from vkshare.demos.lettering import Facts, Layer, Lettering
from vkshare.demos.options import Options, choose
from vkshare.demos.painter import Painter, backdrop, colour_at
from vkshare.demos.party import Stamps
from vkshare.demos.process import Child
from vkshare.demos.scene import Scene
from vkshare.demos.solids import rounded_cube
from vkshare.errors import UnsupportedError

pytestmark = [pytest.mark.program, pytest.mark.slow]

SMALL = ("--frames", "30", "--size", "320x180")
ENDLESS = ("--frames", "1000000", "--size", "320x180")
SIZES = ((320, 180), (333, 334), (256, 400))


# ---- a run as a user starts it -----------------------------------------------------------------------------------


demo = functools.partial(support.demo_runs.demo, "shared")


@pytest.mark.every_driver
def test_a_run_checks_every_frame_and_writes_a_picture(tmp_path: Path) -> None:
    given, picture = tmp_path / "red.png", tmp_path / "out.png"
    Image.new("RGB", (90, 60), "red").save(given)
    run = demo(*SMALL, "--image", str(given), "--output", str(picture))
    assert run.returncode == 0, run.stderr
    assert said(run.stderr) == []
    assert "every frame is as it must be" in run.stdout
    for edge in ("renderer -> text", "text -> checker", "checker -> renderer"):
        assert edge in run.stdout
    x, y = Layout(320, 180).object_centre
    with Image.open(picture) as image:
        assert image.size == (320, 180)
        assert len(image.getcolors(320 * 180) or ()) > 1000
        red, green, blue = np.asarray(image)[round(y) + 8, round(x) + 8].tolist()
    assert red > 2 * max(green, blue), "the user's picture is on the cube"


def test_the_report_as_json_tells_the_adapter_and_why_and_counts_copies() -> None:
    run = demo(*SMALL, "--json")
    assert run.returncode == 0, run.stderr
    assert said(run.stderr) == []
    report = json.loads(run.stdout)
    assert report["ok"]
    assert report["frames"] == 30
    assert report["frames_per_second"] > 0
    assert report["adapter"]["name"]
    assert report["why"]
    assert [(h["giver"], h["taker"]) for h in report["handovers"]] == [
        ("renderer", "text"),
        ("text", "checker"),
        ("checker", "renderer"),
    ]
    assert all(0 <= h["p50"] <= h["p99"] for h in report["handovers"])
    copied = sum(report["copied_per_frame"].values())
    assert (copied == 0) == (report["tiling"] == "linear"), "linear surfaces are passed without a copy"


def test_a_demo_without_vulkan_is_not_run_unvalidated_where_validation_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Options()
    for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("vkshare.adapters", lambda: adapter.adapters("cpu"))
    monkeypatch.setenv("VKSHARE_VALIDATION", "1")
    with pytest.raises(UnsupportedError, match="the validation layer checks Vulkan"):
        choose(options)
    monkeypatch.setenv("VKSHARE_VALIDATION", "0")
    assert choose(options)[0].backend == "cpu"


def test_a_forced_copy_shows_in_the_bytes_copied() -> None:
    run = demo(*SMALL, "--json", "--force-copy")
    assert run.returncode == 0, run.stderr
    copied = json.loads(run.stdout)["copied_per_frame"]
    _, _, width, height = Layout(320, 180).text_area
    assert copied == {"renderer": 0, "text": width * height * 4, "checker": 320 * 180 * 4}


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--image", "no-such-file.png"), "no-such-file.png"),
        (("--frames", "0"), "frames is 0"),
        (("--size", "10x10"), "size is 10x10"),
        (("--output", "out.nothing"), "out.nothing"),
        (("--output", "no/such/folder/out.png"), "no/such/folder/out.png"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_starts(arguments: tuple[str, ...], reported: str) -> None:
    run = demo(*arguments)
    assert run.returncode == 2
    assert reported in run.stderr
    assert "Traceback" not in run.stderr


def test_an_adapter_that_is_not_there_ends_the_run_with_the_list_of_those_that_are() -> None:
    run = demo(*SMALL, "--adapter", "no such adapter")
    assert run.returncode == 1
    assert "no such adapter" in run.stderr
    assert "there are" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_progress_bar_is_drawn_on_a_terminal() -> None:
    pytest.importorskip("tqdm")
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    command = [sys.executable, "-m", "vkshare", "demo", "shared", *SMALL]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave) as process:
            os.close(slave)
            drawn = _read_all(master)
            assert process.wait(60) == 0
    finally:
        os.close(master)
    assert b"frames/s" in drawn


def _read_all(fd: int) -> bytes:
    drawn = b""
    with contextlib.suppress(OSError):  # EIO: the terminal has no other end any more
        while data := os.read(fd, 4096):
            drawn += data
    return drawn


# ---- a run that is interrupted -----------------------------------------------------------------------------------


class Run:
    """A demo of many frames, in a process group of its own as a terminal's foreground job is."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "vkshare", "demo", "shared", *ENDLESS, *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.children: dict[str, int] = {}

    def wait_for_children(self) -> None:
        """Until all three are started."""
        _until(lambda: len(self._find_children()) == 3, self)
        self.children = self._find_children()

    def wait_for_frames(self, count: int) -> None:
        """Until the checker has handed on that many, as the shared table of times tells."""
        self.wait_for_children()
        _until(lambda: self._released(count - 1), self)

    def end(self) -> tuple[int, str]:
        """Exit status and stderr, and no process of it is left."""
        _, err = self.process.communicate(timeout=30)
        for pid in self.children.values():
            _until(functools.partial(_is_gone, pid), None, 10)
        return self.process.returncode, err

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def _find_children(self) -> dict[str, int]:
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _parent(int(entry.name)) == self.process.pid:
                with contextlib.suppress(IndexError, ValueError, OSError):  # the last: it has ended since it was listed
                    arguments = (entry / "cmdline").read_bytes().split(b"\0")
                    found[("renderer", "text", "checker")[json.loads(arguments[-2])[1]]] = int(entry.name)
        return found

    def _released(self, frame: int) -> bool:
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if "vkshare:demo" in os.readlink(link):
                    with link.open("rb") as table:
                        table.seek((frame * 9 + 8) * 8)
                        return struct.unpack("<q", table.read(8))[0] > 0
        return False


def _until(condition: Callable[[], bool], run: Run | None, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert run is None or run.process.poll() is None, run.process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X", "0"]


def _is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    return not Path(f"/proc/{pid}").exists() or _state(pid) in "ZX"


def _state(pid: int) -> str:
    return _stat(pid)[0]


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


@pytest.fixture
def endless() -> Iterator[Run]:
    run = Run()
    yield run
    run.close()


@pytest.mark.parametrize("frames", [0, 5], ids=["while starting", "while drawing"])
def test_ctrl_c_ends_all_three_without_a_traceback(endless: Run, frames: int) -> None:
    endless.wait_for_frames(frames) if frames else endless.wait_for_children()
    os.killpg(endless.process.pid, signal.SIGINT)
    status, err = endless.end()
    assert status == 130
    assert said(err) == ["vkshare demo: interrupted"]


@pytest.mark.full
def test_sigterm_to_the_parent_ends_all_three(endless: Run) -> None:
    endless.wait_for_frames(5)
    endless.process.terminate()
    status, err = endless.end()
    assert status == 143
    assert said(err) == ["vkshare demo: terminated"]


@pytest.mark.parametrize(
    "party", ["renderer", pytest.param("text", marks=pytest.mark.full), pytest.param("checker", marks=pytest.mark.full)]
)
def test_a_killed_process_ends_the_run_with_its_name(endless: Run, party: str) -> None:
    endless.wait_for_frames(5)
    os.kill(endless.children[party], signal.SIGKILL)
    status, err = endless.end()
    assert status == 1
    assert f"the {party} process (pid {endless.children[party]}) was killed by SIGKILL" in err
    assert "Traceback" not in err


def test_no_process_outlives_a_parent_that_is_killed(endless: Run) -> None:
    endless.wait_for_frames(5)
    endless.process.kill()
    status, _ = endless.end()
    assert status == -signal.SIGKILL


# ---- what the demo says about a run --------------------------------------------------------------------------------


def _report(**changes: Any) -> dict[str, Any]:
    good: dict[str, Any] = {
        "frames": 10,
        "seconds": 1.0,
        "frames_per_second": 10.0,
        "width": 320,
        "height": 180,
        "format": "rgba8unorm",
        "tiling": "linear",
        "adapter": {"name": "A", "kind": "cpu", "backend": "cpu", "driver": "D"},
        "why": "it is the only one",
        "handovers": [
            {"giver": "renderer", "taker": "text", "p50": 1.0, "p99": 2.0, "held": 3.0},
            {"giver": "checker", "taker": "renderer", "p50": None, "p99": None, "held": 3.0},
        ],
        "copied_per_frame": {"renderer": 0.0, "text": 0.0, "checker": 0.0},
        "copied_setup": 0,
        "forced_copy": False,
        "faulty": 0,
        "faults": [],
        "output": None,
        "ok": True,
    }
    return good | changes


def _child(code: int | None, **reported: Any) -> Child:
    """A process that ended with that status (None: it still runs) after it had told that."""
    read, write = os.pipe()
    os.write(write, json.dumps(reported).encode() + b"\n")
    os.close(write)
    process: Any = SimpleNamespace(pid=7, returncode=code, poll=lambda: code)
    child = Child("checker", process, read)
    while child.read():
        pass
    return child


def test_a_death_is_blamed_before_a_failure_and_a_failure_before_what_follows_from_one() -> None:
    killed, failed = _child(-9, failed="AbandonedError: x"), _child(1, failed="UnsupportedError: no surfaces here")
    follows = _child(1, failed="AbandonedError: an owner died")
    assert killed.blame < failed.blame < follows.blame
    assert killed.obituary() == "the checker process (pid 7) was killed by SIGKILL"
    assert failed.obituary() == "the checker process failed: UnsupportedError: no surfaces here"
    ended, hangs = _child(3), _child(None, done={"copied": 0})
    assert ended.obituary() == "the checker process (pid 7) ended with status 3"
    assert hangs.obituary() == "the checker process (pid 7) did not end"
    assert [child.has_failed for child in (killed, failed, follows, ended, hangs)] == [True] * 4 + [False]
    for child in (killed, failed, follows, ended, hangs):
        child.close()


def test_one_wrong_frame_is_exit_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = _report(faulty=1, faults=["frame 3: it is the frame before once more"], ok=False)
    monkeypatch.setattr(shared, "run", lambda options, signals, progress: wrong)
    assert cli.main(["demo", "shared"]) == 1
    out = capsys.readouterr().out
    assert "1 of 10 frames are WRONG" in out
    assert "frame 3: it is the frame before once more" in out
    monkeypatch.setattr(shared, "run", lambda options, signals, progress: _report())
    assert cli.main(["demo", "shared"]) == 0


def test_without_pillow_the_extra_to_install_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "PIL" else find(name, *more))
    assert cli.main(["demo", "shared"]) == 1
    assert "pip install 'vkshare[demo]'" in capsys.readouterr().err


def test_a_hand_over_is_timed_from_the_later_of_release_and_request() -> None:
    fd = Stamps.create(2)
    stamps = Stamps(fd)
    os.close(fd)
    times = stamps._times
    times[0] = [[0, 0, 1_000], [100, 4_000, 9_000], [20_000, 20_500, 30_000]]
    times[1] = [[25_000, 31_000, 40_000], [0, 40_100, 50_000], [0, 50_100, 60_000]]
    assert stamps.handovers(0, 1) == pytest.approx([3e-6, 0.1e-6])
    assert stamps.handovers(1, 2) == pytest.approx([0.5e-6, 0.1e-6]), "it asked after the release"
    assert stamps.handovers(2, 0) == pytest.approx([1e-6]), "from one frame to the next"
    assert stamps.held(0) == pytest.approx([1e-6, 9e-6])
    assert stamps.seconds() == pytest.approx(60e-6)


# ---- what is in a frame --------------------------------------------------------------------------------------------


def _drawn(device: Any, size: tuple[int, int], frames: int = 2) -> list[Any]:
    """Frames as the renderer and the text process make them, read back."""
    layout = Layout(*size)
    drawn = []
    with (
        device.create_surface(*size) as surface,
        Painter(device, layout) as painter,
        Layer(device, layout.text_area) as layer,
    ):
        lettering = Lettering(layout, Facts.of_three_processes("an adapter", frames, True))
        for frame in range(frames):
            with surface.access() as view:
                device.submit(painter.record(surface, frame, frame / frames))
                layer.draw(view, lettering.draw, frame, frame / 60, 60.0)
                drawn.append(surface.read())
    return drawn


@pytest.mark.every_driver
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_frames_as_they_are_drawn_have_no_fault(device: Any, size: tuple[int, int]) -> None:
    inspector = Inspector(Layout(*size))
    for frame, pixels in enumerate(_drawn(device, size, frames=9)):
        assert inspector.faults(frame, pixels) == []


@pytest.fixture(scope="module")
def good_frames() -> list[Any]:

    with vkshare.open(backend="cpu", name="test") as device:
        return _drawn(device, (320, 180))


def _without_title(layout: Layout, pixels: Any) -> None:
    x, y, width, height = layout.title
    pixels[y : y + height, x : x + width, :3] = 20


def _without_number(layout: Layout, pixels: Any) -> None:
    x, y, width, height = layout.live_line
    pixels[y : y + height, x : x + width, :3] = 20


def _without_object(layout: Layout, pixels: Any) -> None:
    rows, columns = np.mgrid[0 : layout.height, round(0.5 * layout.width) : layout.width - 60]
    pixels[20:160, round(0.5 * layout.width) : layout.width - 60, :3] = colour_at(layout, columns + 0.5, rows + 0.5)[
        20:160
    ]


def _black_sky(layout: Layout, pixels: Any) -> None:
    pixels[:8] = 0


def _other_mark(at: str) -> Callable[[Layout, Any], None]:
    def change(layout: Layout, pixels: Any) -> None:
        x, y = getattr(layout, at)
        cell = layout.mark_cell
        pixels[y : y + cell, x : x + cell] = 255 - pixels[y : y + cell, x : x + cell]

    return change


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (_other_mark("render_mark"), "the renderer left"),
        (_other_mark("text_mark"), "the text process left"),
        (_without_title, "the title covers 0.0%"),
        (_without_number, "the frame number covers 0.0%"),
        (_without_object, "the object covers 0%"),
        (_black_sky, "not the backdrop"),
    ],
)
def test_the_checker_finds(good_frames: list[Any], change: Callable[[Layout, Any], None], reported: str) -> None:
    layout = Layout(320, 180)
    pixels = good_frames[0].copy()
    change(layout, pixels)
    (fault,) = Inspector(layout).faults(0, pixels)
    assert reported in fault


def test_the_checker_finds_the_frame_before(good_frames: list[Any]) -> None:
    inspector = Inspector(Layout(320, 180))
    assert inspector.faults(0, good_frames[0]) == []
    assert len(inspector.faults(1, good_frames[0])) == 3, "two marks, and the same checksum"


def test_marks_of_parties_and_frames_differ_and_can_be_read() -> None:
    codes = {marks.code(frame, party) for frame in range(1000) for party in range(2)}
    assert len(codes) == 2000
    pixels = np.zeros((10, 200, 4), np.uint8)
    assert marks.read(pixels, (3, 2), 4) == -1
    for (x, y, width, height), colour in marks.squares(marks.code(7, 1), (3, 2), 4):
        pixels[y : y + height, x : x + width] = colour
    assert marks.read(pixels, (3, 2), 4) == marks.code(7, 1)


@pytest.mark.every_driver
def test_uploaded_text_looks_like_text_that_is_drawn_in_place(device: Any) -> None:
    layout = Layout(320, 180)
    lettering = Lettering(layout, Facts.of_three_processes("an adapter", 10, True))
    with backdrop(device, layout) as surface:
        expected = Image.fromarray(surface.read())
        lettering.draw(expected, 3, 0.5, 60.0)
        with Layer(device, layout.text_area) as layer:
            surface.release(0)
            with surface.access() as view:
                layer.draw(view, lettering.draw, 3, 0.5, 60.0)
                actual = surface.read()
    assert np.abs(actual.astype(int) - np.asarray(expected)).max() <= 2


@pytest.mark.every_driver
def test_the_backdrop_is_where_the_checker_expects_it(device: Any) -> None:
    layout = Layout(320, 180)
    with backdrop(device, layout) as surface:
        pixels = surface.read()
    rows, columns = np.mgrid[0:180, 0:320]
    difference = np.abs(pixels[..., :3] - colour_at(layout, columns + 0.5, rows + 0.5))
    assert difference.max() <= 5, "the checker allows 6"
    assert (pixels[..., 3] == 255).all()


def test_a_transparent_picture_makes_no_hole_in_the_cube(device: Any, tmp_path: Path) -> None:
    Image.new("RGBA", (8, 4), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    with pictures.texture(device, str(tmp_path / "clear.png"), 16) as texture:
        assert (texture.read() == 255).all()


# ---- geometry ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solid", [rounded_cube(1, 0.16, 4, 3), rounded_cube(0.17, 0.17, 0, 3)], ids=["cube", "sphere"])
def test_a_solid_is_closed_and_its_faces_look_outwards(solid: Any) -> None:
    assert 2 * len(solid.edges) == 3 * len(solid.triangles), "each edge has two triangles"
    corners = solid.positions[solid.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert ((normals * corners.mean(1)).sum(1) > 0).all()
    assert np.linalg.norm(solid.normals, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("turn", [0.0, 0.13, 0.5, 0.77])
def test_every_frames_triangles_are_inside_the_depth_range(turn: float) -> None:
    batches = Scene(Layout(1280, 720)).batches(turn)
    assert {vertices.shape[1] for vertices in batches} == {8, 10}
    for vertices in batches:
        z, w = vertices[:, 2], vertices[:, 3]
        assert ((z >= 0) & (z <= w)).all()
        assert len(vertices) % 3 == 0
        assert vertices.dtype == np.float32


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="frames is 0; allowed is 1 to"):
        Options(frames=0)
    with pytest.raises(ValueError, match="size is 100x720"):
        Options(width=100)
