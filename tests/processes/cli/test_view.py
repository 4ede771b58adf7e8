"""`vkshare view`: published pictures by their names, in browsers, from another process (rule W2)."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.program_messages import spoken, without_false_messages
from support.view_servers import RawPage, certificate, need_aiohttp

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
        assert (process.returncode, out, without_false_messages(err)) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return (line.rstrip("\n") for line in process.stdout)


def test_the_end_of_the_publisher_is_said_and_the_next_publisher_is_shown_at_the_same_address(device: Any) -> None:
    need_aiohttp()
    process = None
    try:
        with device.create_surface(8, 4) as surface, surface.publish("a picture"):
            process = start("a picture", "--serve")
            server = served(process)
        waits = f"waiting for a picture to be published again: its publisher (pid {os.getpid()}) has ended"
        lines = lines_of(process)
        assert next(lines) == waits
        with device.create_surface(16, 6, "r8unorm") as surface, surface.publish("a picture"):
            assert next(lines) == "a picture is published again"
            with RawPage(server) as page:
                page.open()
                assert page.frame()[1][4:12] == bytes([16, 0, 0, 0, 6, 0, 0, 0])
        assert next(lines) == waits
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, out, without_false_messages(err)) == (0, "", "")
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def test_the_next_publisher_is_shown_where_the_first_was_killed(device: Any, runtime: Path) -> None:
    need_aiohttp()
    owners, process = [], None
    program = OWNER.replace("killed", "a picture")
    try:
        for turn in range(2):
            owner = subprocess.Popen([sys.executable, "-c", program, device.backend], stdout=subprocess.PIPE, text=True)
            owners.append(owner)
            assert owner.stdout is not None
            assert owner.stdout.readline() == "shown\n"
            if process is None:
                process = start("a picture", "--serve")
                served(process)
                lines = lines_of(process)
            else:
                assert next(lines) == "a picture is published again"
            owner.kill()
            owner.wait()
            assert next(lines).endswith(f"its publisher (pid {owner.pid}) has ended"), turn
    finally:
        for each in (*owners, process):
            if each is not None:
                each.kill()
                each.wait()


def test_headless_it_writes_what_would_be_in_the_window(picture: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures are written with Pillow")
    file = tmp_path / "out.png"
    for seconds in ("1", "4", "16"):  # the picture may come late on a loaded machine
        process = start("a picture", "--headless", "--size", "18x8", "--seconds", seconds, "--output", str(file))
        out, err = process.communicate(timeout=TIMEOUT)
        if "no picture" not in err:
            break
    assert (process.returncode, out, without_false_messages(err)) == (0, "", "")
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
    assert (process.returncode, out, without_false_messages(err)) == (0, "", "")
    with image.open(file) as opened:
        assert (np.asarray(opened) == 9).all()


def test_without_a_name_it_lists_those_that_there_are(picture: Any, capsys: Any) -> None:
    assert cli.main(["view"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "kind", "size", "format", "rate", "input", "pid"]
    assert line.startswith("a picture  surface  8x4   rgba8unorm")
    assert line.split()[-2:] == ["-", str(os.getpid())]


def test_view_and_ps_list_which_names_want_input(device: Any, capsys: Any) -> None:
    with device.create_surface(8, 4) as surface, surface.publish("a picture", wants_input=True):
        assert cli.main(["view"]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[-2:] == ["wanted", str(os.getpid())]
        assert cli.main(["ps"]) == 0
        head, line = capsys.readouterr().out.splitlines()[:2]
        assert line[head.index("INPUT") :].startswith("wanted")
        assert cli.main(["ps", "--json"]) == 0
        (entry,) = json.loads(capsys.readouterr().out)["published"]
        assert entry["wants_input"] is True


def test_without_names_it_says_so(capsys: Any) -> None:
    assert cli.main(["view"]) == 0
    assert "no process of this user has published a picture" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--serve"], "one picture"),
        (["x", "--key", "file"], "--serve"),
        (["x", "--serve", "--key", "file"], "--certificate"),
        (["x", "--serve", "nowhere"], "--serve is 'nowhere'; allowed are"),
        (["x", "--serve", "--headless"], "not for --serve"),
        (["--headless"], "one picture"),
        (["x", "--headless"], "--seconds"),
        (["x", "--headless", "--seconds", "1", "--output", "x.y"], "must end in"),
        (["x", "--headless", "--seconds", "1", "--size", "0x1"], "'x'"),
        (["x", "--serve", "0.0.0.0:0"], "give --certificate FILE [--key FILE] for https"),
        (["x", "--serve", "--host", "a/b"], "--host is 'a/b'; allowed are"),
        (["x", "--serve", "--certificate", "nofile.pem"], "certificate nofile.pem cannot be read: No such file"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(arguments: list[str], words: str, capsys: Any) -> None:
    if len(arguments) > 2 or "nowhere" in arguments:
        need_aiohttp()
    assert cli.main(["view", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_certificate_without_its_key_is_named_and_so_is_the_option(tmp_path: Path, capsys: Any) -> None:
    need_aiohttp()
    chain, key = certificate(tmp_path)
    assert cli.main(["view", "x", "--serve", "--certificate", str(chain)]) == 2
    assert f"{chain} has no private key in PEM form: give --key FILE" in capsys.readouterr().err
    assert cli.main(["view", "x", "--serve", "--certificate", str(key)]) == 2
    assert f"{key} has no certificate" in capsys.readouterr().err


def test_a_wrong_token_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    need_aiohttp()
    monkeypatch.setenv("VKSHARE_VIEW_TOKEN", "abc")
    assert cli.main(["view", "x", "--serve"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "VKSHARE_VIEW_TOKEN has 3 characters" in line
    assert "22 to 256" in line
    assert "None" not in line


def test_without_a_display_it_says_what_there_is_instead(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "VKSHARE_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(["view", "x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("no display: set DISPLAY, or use --headless --output FILE, or --serve")


def test_a_display_that_is_not_there_says_what_there_is_instead(picture: Any) -> None:
    pytest.importorskip("glfw", reason="windows need glfw")
    process = start("a picture", DISPLAY=":9999", WAYLAND_DISPLAY="", VKSHARE_REMOTE="")
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    (line,) = without_false_messages(err).splitlines()
    assert line.endswith("or use --headless --output FILE, or --serve")


def test_a_port_in_use_says_what_to_choose(picture: Any, capsys: Any) -> None:
    need_aiohttp()
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert cli.main(["view", "a picture", "--serve", f"127.0.0.1:{other.getsockname()[1]}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("Address already in use; choose another port, or 0 for any")


def test_without_pyav_it_says_at_the_start_that_there_is_no_video(picture: Any, tmp_path: Path) -> None:
    need_aiohttp()
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['av'] = None")
    process = start("a picture", "--serve", PYTHONPATH=str(tmp_path))
    try:
        served(process)
        assert process.stderr is not None
        assert "there is no video" in next(spoken(process.stderr))
    finally:
        process.kill()
        process.communicate()


def test_an_unknown_name_is_one_line_and_status_2(capsys: Any) -> None:
    need_aiohttp()
    assert cli.main(["view", "nothing", "--serve"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "nothing" in line
