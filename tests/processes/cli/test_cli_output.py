"""`vkshare` where standard output is closed, full or without a reader, and where its traces have no directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vkshare import cli

pytestmark = pytest.mark.program

COMMANDS = {
    "info": ["info"],
    "doctor": ["doctor", "--json"],
    "ps": ["ps"],
    "demo": ["demo", "shared", "--frames", "2"],
    "serve": ["serve", "--headless", "--size", "32x32", "--seconds", "0.1"],
    "view": ["view", "--help"],
    "record": ["record", "--help"],
    "play": ["play", "--help"],
    "remote": ["remote", "--help"],
    "viewer": ["viewer", "--help"],
    "trace": ["trace", "--help"],
    "approve": ["approve", "--help"],
}
WORDS = {
    "closed": "standard output is closed",
    "full": "standard output cannot be written: No space left on device",
    "no reader": "standard output cannot be written: Broken pipe",
}


@contextmanager
def standard_output(kind: str) -> Iterator[int]:
    if kind == "no reader":
        reader, descriptor = os.pipe()
        os.close(reader)
    else:
        descriptor = os.open("/dev/full" if kind == "full" else os.devnull, os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def start(arguments: list[str], kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    closing = ["sh", "-c", 'exec "$@" >&-', "sh"] if kind == "closed" else []
    command = [*closing, sys.executable, "-X", "dev", "-W", "error", "-m", "vkshare", *arguments]
    environment = {**os.environ, "VKSHARE_SERVER": str(folder / "socket")}
    with standard_output(kind) as descriptor:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.PIPE,
            text=True,
            timeout=100,
        )


def test_each_sub_command_has_a_line_in_the_table() -> None:
    assert set(COMMANDS) == set(cli._COMMANDS)


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("command", [*COMMANDS, "--version", "--help"])
def test_output_that_goes_nowhere_is_one_line_and_a_status(command: str, kind: str, tmp_path: Path) -> None:
    ended = start(COMMANDS.get(command, [command]), kind, tmp_path)
    assert ended.returncode == 1
    lines = [line.rpartition("\r")[2].removeprefix("\x1b[K") for line in ended.stderr.splitlines()]
    assert [line for line in lines if WORDS[kind] in line], ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
    assert "Warning" not in ended.stderr


def test_ctrl_c_while_modules_are_imported_is_a_status_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> object:
        raise KeyboardInterrupt(name)

    monkeypatch.setattr("importlib.import_module", interrupted)
    assert cli.main(["info"]) == 130
    assert capsys.readouterr() == ("", "")


def test_closed_standard_streams_are_filled_before_a_page_of_shared_memory_is() -> None:
    program = (
        "import os, sys; from vkshare.cli import output; output.fill_closed_streams(); print(os.memfd_create('page'))"
    )
    command = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-c", program]
    reported = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert int(reported) > 2


# ---- traces ------------------------------------------------------------------------------------------------------


@pytest.fixture
def read_only(tmp_path: Path) -> Path:
    if os.geteuid() == 0:
        return Path("/proc/sys")  # root may write anywhere else
    tmp_path.chmod(0o500)
    return tmp_path


def trace_into(directory: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "VKSHARE_TRACE": directory}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", ["info", "ps", "doctor"])
def test_a_trace_into_a_directory_that_does_not_exist_is_one_warning(command: str) -> None:
    ended = trace_into("/nonexistent", "-m", "vkshare", command)
    assert ended.stderr.count("VKSHARE_TRACE is '/nonexistent'") == 1
    assert "Traceback" not in ended.stderr
    assert "No such file or directory" in ended.stderr
    assert ended.stdout


def test_a_trace_into_a_file_is_a_warning_of_any_program_that_opens_a_device(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    ended = trace_into(str(file), "-c", "import vkshare; vkshare.open(backend='cpu').close()")
    assert ended.returncode == 0
    assert len(ended.stderr.splitlines()) == 1
    assert "Not a directory" in ended.stderr


def test_a_trace_into_a_directory_that_cannot_be_written_is_a_warning(read_only: Path) -> None:
    ended = trace_into(str(read_only), "-c", "import vkshare; vkshare.open(backend='cpu').close()")
    assert ended.returncode == 0
    assert len(ended.stderr.splitlines()) == 1
    assert "so that nothing is traced" in ended.stderr
