"""`vkshare view`: published pictures by their names, in browsers, from another process (rule W2)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.view_servers import RawPage, need_aiohttp

from vkshare import cli
from vkshare.view import messages

pytest_plugins = ["support.published_names"]
pytestmark = [pytest.mark.program, pytest.mark.rule("W2"), pytest.mark.usefixtures("runtime")]

TIMEOUT = 60.0  # seconds: only ends hangs
OWNER = """
import sys, time, numpy, vkshare
device = vkshare.open(backend=sys.argv[1])
surface = device.create_surface(8, 4)
with surface.access():
    surface.write(numpy.full((4, 8, 4), 9, numpy.uint8))
publication = surface.publish("killed")
print("shown", flush=True)
while not publication.statistics().copies:
    time.sleep(0.01)
time.sleep(1)  # the copy arrives, and is drawn
print("watched", flush=True)
time.sleep(600)
"""


@pytest.fixture
def picture(device: Any, runtime: Path) -> Iterator[Any]:
    """A surface that this process has published as "a picture"."""
    with device.create_surface(8, 4) as surface:
        with surface.access(acquire=0, release=0):
            surface.write(np.full((4, 8, 4), 7, np.uint8))
        with surface.publish("a picture"):
            yield surface


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vkshare", "view", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def served(process: subprocess.Popen[str]) -> Any:
    """Return the address and the token, from the line that the command prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"a picture is shown at http://127\.0\.0\.1:(\d+)/#([\w-]{22,})\n", line)
    assert found, (line, process.communicate(timeout=TIMEOUT) if not line else "")
    return SimpleNamespace(address=("127.0.0.1", int(found[1])), token=found[2])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_published_picture_is_served_until_a_signal_ends_it_with_status_0(
    picture: Any, number: signal.Signals
) -> None:
    need_aiohttp()
    process = start("a picture", "--serve", VKSHARE_VIEW_TOKEN="t" * 32)
    try:
        server = served(process)
        assert server.token == "t" * 32
        with RawPage(server) as page:
            page.open()
            while page.frame()[1][:1] != bytes([messages.Kind.TILES]):
                pass
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def test_the_end_of_the_publisher_ends_it_with_status_0(device: Any) -> None:
    need_aiohttp()
    with device.create_surface(8, 4) as surface, surface.publish("a picture"):
        process = start("a picture", "--serve")
        try:
            served(process)
        except BaseException:
            process.kill()
            raise
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    assert "a picture has ended" in out


def test_headless_it_writes_what_would_be_in_the_window(picture: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures are written with Pillow")
    file = tmp_path / "out.png"
    process = start("a picture", "--headless", "--size", "18x8", "--seconds", "1", "--output", str(file))
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (0, "", "")
    with image.open(file) as opened:
        shown = np.asarray(opened)
    assert shown.shape == (8, 18, 3)
    assert (shown[:, 1:17] == 7).all()
    assert (shown[:, [0, 17], 0] == 18).all()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_headless_a_signal_ends_it_with_status_0_and_the_picture_of_a_killed_publisher(
    device: Any, runtime: Path, tmp_path: Path, number: signal.Signals
) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures are written with Pillow")
    owner = subprocess.Popen([sys.executable, "-c", OWNER, device.backend], stdout=subprocess.PIPE, text=True)
    file = tmp_path / "out.png"
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "shown\n"
        process = start("killed", "--headless", "--seconds", "600", "--output", str(file), "--size", "8x4")
        assert owner.stdout.readline() == "watched\n"
    finally:
        owner.kill()
        owner.communicate()
    time.sleep(0.5)  # whatever it does about the end, it does now
    assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (0, "", "")
    with image.open(file) as opened:
        assert (np.asarray(opened) == 9).all()


def test_without_a_name_it_lists_those_that_there_are(picture: Any, capsys: Any) -> None:
    assert cli.main(["view"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "kind", "size", "format", "rate", "pid"]
    assert line.startswith("a picture  surface  8x4   rgba8unorm")
    assert line.endswith(str(os.getpid()))


def test_without_names_it_says_so(capsys: Any) -> None:
    assert cli.main(["view"]) == 0
    assert "no process of this user has published a picture" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--serve"], "one picture"),
        (["x", "--key", "file"], "--serve"),
        (["x", "--serve", "--key", "file"], "--certificate"),
        (["x", "--serve", "nowhere"], "allowed are"),
        (["x", "--serve", "--headless"], "not for --serve"),
        (["--headless"], "one picture"),
        (["x", "--headless"], "--seconds"),
        (["x", "--headless", "--seconds", "1", "--output", "x.y"], "must end in"),
        (["x", "--headless", "--seconds", "1", "--size", "0x1"], "'x'"),
        (["x", "--serve", "0.0.0.0:0"], "certificate"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(arguments: list[str], words: str, capsys: Any) -> None:
    if len(arguments) > 2 or "nowhere" in arguments:
        need_aiohttp()
    assert cli.main(["view", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_unknown_name_is_one_line_and_status_2(capsys: Any) -> None:
    need_aiohttp()
    assert cli.main(["view", "nothing", "--serve"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "nothing" in line
