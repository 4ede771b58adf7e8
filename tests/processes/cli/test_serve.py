"""`vkshare serve`: other processes' windows, shown until it is ended, and nothing left behind (rule R19)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL", reason="pictures are written with Pillow")

from support.demo_runs import ESCAPE, on, picture, said
from support.private_displays import XDisplay, wait_for, without_displays

import vkshare as vks
from vkshare import cli

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.slow]

RED, GREEN = (1, 0, 0, 1), (0, 1, 0, 1)
CRASHING = """
import os, signal, sys
import vkshare as vks
with vks.compositor.Desktop(sys.argv[1], name="crashing") as desktop:
    window = desktop.open_window(64, 48, title="crashing", at=(200, 100), is_opaque=True)
    for tick in window.ticks():
        with window.frame() as frame:
            desktop.device.submit(desktop.device.record().clear(frame.surface, (0, 0, 1, 1)))
            if window.statistics()["shown"] >= 2:
                os.kill(os.getpid(), signal.SIGKILL)
"""


class Serve:
    """`vkshare serve` in a process of its own, as a user starts it."""

    def __init__(self, path: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vkshare", "serve", "--path", str(path), "--json", *arguments],
            env=environment or without_displays(dict(os.environ)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()  # told once it listens
        if not line:
            raise AssertionError(self.process.communicate(timeout=20)[1])
        assert json.loads(line) == {"path": str(path)}

    def end(self) -> tuple[int, list[str], dict[str, Any]]:
        """Exit status, what it said on stderr, its last statistics; nothing is left of it."""
        out, err = self.process.communicate(timeout=30)
        assert not self.path.exists()
        assert list(self.path.parent.glob(f"{self.path.name}*")) == []
        return self.process.returncode, said(err), json.loads(out.splitlines()[-1])

    def children(self) -> list[int]:
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(each) for thread in threads for each in (thread / "children").read_text().split()]


@pytest.fixture
def serve(tmp_path: Path, vks_adapter: Any) -> Iterator[Callable[..., Serve]]:
    """serve(*arguments): on this run's adapter; killed after the test where it still runs."""
    started: list[Serve] = []

    def start(*arguments: str, **options: Any) -> Serve:
        started.append(Serve(tmp_path / f"socket-{len(started)}", *on(vks_adapter), *arguments, **options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


@contextmanager
def shown(serve: Serve, device: Any, colour: Any, at: tuple[int, int]) -> Iterator[Any]:
    """A client of a few lines, once it was seen."""
    with vks.compositor.Desktop(serve.path, name="client", device=device) as desktop:
        window = desktop.open_window(64, 48, title="client", at=at, is_opaque=True)
        draw(desktop, window, colour, until=lambda reported: reported["shown"] > 0)
        yield desktop, window


def draw(desktop: Any, window: Any, colour: Any, until: Callable[[dict[str, Any]], bool]) -> None:
    """Frames at the display's ticks."""
    for _ in window.ticks():
        with window.frame(timeout=20) as frame:
            desktop.device.submit(desktop.device.record().clear(frame.surface, colour))
        if until(window.statistics()):
            return
    raise AssertionError(f"the window was closed: {window.end}")


@pytest.mark.every_driver
@pytest.mark.rule("R19")
def test_a_client_of_a_few_lines_is_shown_and_sigterm_ends_it_with_the_picture(
    serve: Callable[..., Serve], device: Any, tmp_path: Path
) -> None:
    file = tmp_path / "shown.png"
    run = serve("--headless", "--size", "320x200", "--output", str(file))
    with shown(run, device, RED, at=(40, 30)):
        run.process.terminate()
        status, reported, last = run.end()
    assert (status, reported) == (0, [])
    assert last["server"]["clients"] == 1
    assert [window["title"] for window in last["windows"]] == ["client"]
    assert last["compositor"]["shown"] >= 1
    pixels = picture(file)
    assert pixels.shape == (200, 320, 4)
    assert (pixels[30:78, 40:104] == (255, 0, 0, 255)).all()
    pixels = pixels.copy()
    pixels[30:78, 40:104] = 0
    assert not pixels[..., :3].any(), "the rest is the background"


@pytest.mark.rule("R18", "R19")
def test_a_client_that_is_killed_in_a_frame_goes_and_the_others_stay(serve: Callable[..., Serve], device: Any) -> None:
    run = serve("--headless", "--size", "320x200", "--statistics", "0.05")
    with shown(run, device, GREEN, at=(0, 0)) as (desktop, window):
        other = subprocess.run([sys.executable, "-c", CRASHING, str(run.path)], timeout=60, check=False)
        assert other.returncode == -signal.SIGKILL
        before = window.statistics()["shown"]
        draw(desktop, window, GREEN, until=lambda reported: reported["shown"] > before + 5)
        lines = iter(run.process.stdout or ())
        seen: list[list[str]] = []
        while not (["client", "crashing"] in seen and seen[-1] == ["client"]):
            seen.append([each["title"] for each in json.loads(next(lines))["windows"]])
        run.process.terminate()
        status, reported, last = run.end()
    assert (status, reported) == (0, [])
    assert last["server"]["lost"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_signals_end_it_and_no_child_is_left_where_clients_have_processes(
    serve: Callable[..., Serve], device: Any, number: signal.Signals
) -> None:
    run = serve("--headless", "--isolation", "process")
    with vks.server.Client(run.path, name="painter", device=device) as client:
        surface = client.create_surface(64, 48)
        client.submit(client.record().clear(surface, RED), acquire={surface: 0}, release={surface: 1})
        client.sync()
        children = run.children()
        assert children, "it renders in a process of its own"
        run.process.send_signal(number)
        status, reported, _ = run.end()
    assert (status, reported) == (0, [])
    assert not [pid for pid in children if Path(f"/proc/{pid}/exe").exists()]


@pytest.fixture
def only_once(only_on_cpu: None) -> None:
    """What is below has nothing to do with the driver."""


def test_it_ends_by_itself_after_the_seconds_that_it_was_given(
    only_once: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--path", str(tmp_path / "socket"), "--headless", "--backend", "cpu", "--rate", "60000/1001")
    before = sys.getswitchinterval()
    assert cli.main(["serve", *arguments, "--seconds", "0.3", "--statistics", "0.1"]) == 0
    assert sys.getswitchinterval() == before
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"serving at {tmp_path / 'socket'}, on vkshare CPU, 59.9401 Hz headless"
    assert 2 <= len(lines) <= 4
    assert all("0 clients, 0 windows, 0 composites of 0 ticks" in line for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--rate", "0"), "'0' is not a number of Hz from 0.01 to 1000"),
        (("--rate", "1/0"), "'1/0' is not a number of Hz"),
        (("--seconds", "-1"), "'-1' is not a number of seconds above 0"),
        (("--statistics", "often"), "'often' is not a number of seconds"),
        (("--isolation", "none"), "invalid choice: 'none'"),
        (("--size", "big"), "'big' is not WIDTHxHEIGHT"),
        (("--size", "0x10"), "size is 0x10; allowed is 1x1 to 16384x16384"),
        (("--output", "out.nothing"), "'out.nothing' must end in .png"),
        (("--path", "x" * 200), "a socket's path has 1 to 107 bytes"),
        (("--adapter", "no such adapter"), "no such adapter"),
    ],
)
def test_a_wrong_argument_is_named(
    only_once: None, arguments: tuple[str, ...], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = cli.main(["serve", "--headless", *arguments])
    except SystemExit as error:
        status = int(error.code or 0)
    assert status == 2
    assert reported in capsys.readouterr().err


def test_a_second_server_at_the_same_path_is_refused_and_the_first_one_stays(
    only_once: None, serve: Callable[..., Serve], capsys: pytest.CaptureFixture[str]
) -> None:
    run = serve("--headless")
    assert cli.main(["serve", "--headless", "--backend", "cpu", "--path", str(run.path)]) == 1
    assert f"a server listens at {run.path} already" in capsys.readouterr().err
    run.process.terminate()
    assert run.end()[:2] == (0, [])


def test_without_a_display_it_says_what_would_perform(only_once: None, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vkshare", "serve", "--path", str(tmp_path / "socket")]
    done = subprocess.run(
        command, env=without_displays(dict(os.environ)), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "--headless" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("R18", "R19")
@pytest.mark.parametrize("way", ["escape", "close button"])
def test_in_a_window_a_client_is_seen_until_the_user_ends_it(
    serve: Callable[..., Serve], device: Any, x11: XDisplay, way: str
) -> None:
    run = serve("--size", "320x200", environment=x11.environment)
    place = x11.find("vkshare", 20)
    with shown(run, device, RED, at=(40, 30)):
        wait_for(lambda: (x11.picture(place)[31:77, 41:103, :3] == (255, 0, 0)).all(), "it is on the screen", 20)
        if way == "escape":
            x11.focus(place)
            x11.type(ESCAPE)
        else:
            x11.ask_to_close(place)
        status, reported, last = run.end()
    assert (status, reported) == (0, [])
    assert last["compositor"]["shown"] >= 1
