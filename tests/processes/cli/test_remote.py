"""`vkshare remote` and `vkshare viewer` for their users: arguments, messages, signals, displays. Rules M11, M14."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.link_ends import make_certificate

import vkshare as vks
from vkshare.cli import viewer as viewer_command

pytestmark = [pytest.mark.program, pytest.mark.no_driver]

TOKEN = "a token of these tests"
TIMEOUT = 60.0  # seconds: only ends hangs
PATIENCE = 10.0  # seconds until Ctrl-C is pressed again
LOCAL = ("VKSHARE_BACKEND", "VKSHARE_ADAPTER", "VKSHARE_REMOTE", "VKSHARE_REMOTE_TOKEN", *viewer_command.DISPLAYS)
HEADLESS = ("--headless", "--backend", "cpu")
OPEN = "import vkshare as vks; device = vks.open(); print(device.backend); device.close()"


def _environment(given: dict[str, str]) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in LOCAL}, **given}


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vkshare", *arguments],
        env=_environment(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


@contextlib.contextmanager
def _started(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "vkshare", *arguments]
    with subprocess.Popen(command, env=_environment(environment), text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def _host() -> Iterator[vks.remote.Host]:
    with vks.remote.Host("127.0.0.1:0", token=TOKEN) as host:
        yield host


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _line(process: subprocess.Popen[str], what: str) -> str:
    """The next line of standard error that has these words."""
    assert process.stderr is not None
    for line in process.stderr:
        if what in line:
            return line
    raise AssertionError(f"{what} was not printed")


# ---- the viewer's display -------------------------------------------------------------------------------------------


@pytest.mark.rule("M14")
def test_a_viewer_without_a_display_is_refused_before_it_connects() -> None:
    with _host() as host:
        ended = _run("viewer", host.address, VKSHARE_REMOTE_TOKEN=TOKEN)
        assert (ended.returncode, ended.stdout) == (2, "")
        words = "no display: set DISPLAY or WAYLAND_DISPLAY, or use --headless"
        assert ended.stderr == f"vkshare viewer: {words}\n"
        ended = _run("viewer", host.address, VKSHARE_REMOTE_TOKEN=TOKEN, DISPLAY=":987")
        assert ended.returncode == 2
        assert ended.stderr.startswith("vkshare viewer: no windows with DISPLAY=:987: ")
        assert ended.stderr.endswith("or use --headless\n")
        assert len(ended.stderr.splitlines()) == 1
        assert host.statistics().refused == 0
        ended = _run("viewer", host.address, *HEADLESS, "--seconds", "0", VKSHARE_REMOTE_TOKEN=TOKEN)
        assert ended.returncode == 0, ended.stderr


# ---- the viewer's arguments -----------------------------------------------------------------------------------------


@pytest.mark.rule("M11")
def test_a_viewers_wrong_arguments_are_named_as_options_and_variables(tmp_path: Path) -> None:
    short, text = tmp_path / "short", tmp_path / "text"
    short.write_text("short")
    text.write_bytes(b"\xff" * 32)
    cases = [
        (["foo"], "HOST:PORT: the address is 'foo'"),
        (["192.0.2.1:7"], "give --certificate FILE (the host's), or --certificate system"),
        (
            ["127.0.0.1:7", "--certificate", "nofile"],
            "--certificate: the certificate nofile cannot be read: No such file",
        ),
        (["127.0.0.1:7", "--certificate", str(short)], f"--certificate: {short} has no certificate"),
        (["127.0.0.1:7", "--token-file", "nofile"], "--token-file nofile: No such file"),
        (["127.0.0.1:7", "--token-file", str(text)], f"--token-file {text}: the file is no text"),
        (["127.0.0.1:7", "--token-file", str(short)], f"the token of --token-file {short} has 5 characters"),
        (["127.0.0.1:7", "--playout", "9"], "--playout is 9.0; allowed is 0 to 2"),
        (["127.0.0.1:7"], "no token: set VKSHARE_REMOTE_TOKEN, or give --token-file"),
    ]
    for arguments, words in cases:
        ended = _run("viewer", *arguments, "--headless")
        assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr
        assert words in ended.stderr
        assert "certificate=" not in ended.stderr
    ended = _run("viewer", "127.0.0.1:7", *HEADLESS, VKSHARE_REMOTE_TOKEN="short")
    assert "the token of VKSHARE_REMOTE_TOKEN has 5 characters" in ended.stderr


@pytest.mark.full  # it waits for ten seconds
@pytest.mark.rule("M14")
def test_a_viewer_waits_for_a_host_and_then_says_what_to_start() -> None:
    port = _free_port()
    ended = _run("viewer", f"127.0.0.1:{port}", *HEADLESS, VKSHARE_REMOTE_TOKEN=TOKEN)
    assert ended.returncode == 1
    advice = "start `vkshare remote` first, or check the address and the tunnel"
    assert ended.stderr == f"vkshare viewer: nothing listens at 127.0.0.1:{port}: {advice}\n"


@pytest.mark.rule("M14")
def test_the_end_of_the_host_is_said_once_and_is_status_0() -> None:
    with _host() as host, _started("viewer", host.address, *HEADLESS, VKSHARE_REMOTE_TOKEN=TOKEN) as viewer:
        assert viewer.stdout is not None
        assert viewer.stdout.readline().startswith("connected to")
        host.close()
        out, err = viewer.communicate(timeout=TIMEOUT)
    assert (viewer.returncode, err) == (0, "")
    assert out.startswith("the session has ended: ")
    assert "the session is over" not in out


# ---- signals --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M14")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_viewer_that_waits_for_a_busy_host_with_status_0(number: signal.Signals) -> None:
    with (
        _host() as host,
        vks.remote.Viewer(host.address, token=TOKEN, headless=True),
        _started("viewer", host.address, *HEADLESS, VKSHARE_REMOTE_TOKEN=TOKEN) as viewer,
    ):
        deadline = time.monotonic() + TIMEOUT
        while not host.statistics().refused and time.monotonic() < deadline:
            time.sleep(0.01)
        viewer.send_signal(number)
        assert viewer.communicate(timeout=TIMEOUT) == ("", "")
        assert viewer.returncode == 0


@pytest.mark.rule("M14")
def test_ctrl_c_at_the_prompt_of_the_token_is_status_0() -> None:
    command = [sys.executable, "-m", "vkshare", "viewer", "127.0.0.1:7", "--headless"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, command, _environment({}))
    shown = b""
    try:
        while b"token: " not in shown and select.select([terminal], [], [], TIMEOUT)[0]:
            shown += os.read(terminal, 1024)
        with contextlib.suppress(OSError):  # the end of the terminal
            while True:
                os.write(terminal, b"\x03")  # Python misses one that comes just before it begins to read
                while select.select([terminal], [], [], PATIENCE)[0]:
                    shown += os.read(terminal, 1024)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"Traceback" not in shown


# ---- the host -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M11")
def test_a_hosts_wrong_arguments_are_named_as_options_and_variables(tmp_path: Path) -> None:
    certificate, key = map(str, make_certificate(tmp_path, "host"))
    with socket.create_server(("127.0.0.1", 0)) as sock:
        taken = f"127.0.0.1:{sock.getsockname()[1]}"
        cases = [
            (["--bind", "foo"], "--bind: the address is 'foo'"),
            (["--bind", "0.0.0.0:0"], "give --certificate FILE --key FILE"),
            (["--bind", taken], f"cannot listen at {taken}: Address already in use; choose another port, or 0 for any"),
            (["--key", key], "--key is for --certificate"),
            (["--certificate", "nofile"], "--certificate: the certificate nofile cannot be read: No such file"),
            (["--certificate", certificate, "--key", "nofile"], "--key: the key nofile cannot be read: No such file"),
            (["--grace", "nan"], "--grace is nan; allowed is 0 to 86400"),
            (["--certificate", certificate], f"{certificate} has no private key in PEM form: give --key"),
            (
                ["--certificate", certificate, "--key", certificate],
                f"{certificate} has no private key in PEM form: give the file",
            ),
        ]
        for arguments, words in cases:
            ended = _run("remote", *arguments)
            assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr
            assert words in ended.stderr
            assert "certificate=" not in ended.stderr
            assert "Errno" not in ended.stderr
    ended = _run("remote", VKSHARE_REMOTE_TOKEN="short")
    assert "the token of VKSHARE_REMOTE_TOKEN has 5 characters" in ended.stderr


@pytest.mark.rule("M14")
def test_a_port_alone_is_one_on_loopback_and_any_address_is_printed_with_the_machines_name(tmp_path: Path) -> None:
    certificate, key = map(str, make_certificate(tmp_path, "host"))
    port = _free_port()
    with _started("remote", "--bind", str(port)) as host:
        assert _line(host, "on the other machine").endswith(f": vkshare viewer 127.0.0.1:{port}\n")
    with _started("remote", "--bind", "0.0.0.0:0", "--certificate", certificate, "--key", key) as host:
        line = _line(host, "on the other machine")
        assert "0.0.0.0" not in line
        assert line.endswith(" --certificate host.pem\n")


@pytest.mark.rule("M14", "M16")
def test_a_program_draws_at_the_viewer_whatever_the_environment_names() -> None:
    local = {"VKSHARE_BACKEND": "cpu", "VKSHARE_ADAPTER": "any"}
    with _started("remote", "--", sys.executable, "-c", OPEN, VKSHARE_REMOTE_TOKEN=TOKEN, **local) as host:
        address = _line(host, "on the other machine").split()[-1]
        for name, value in local.items():
            assert f"the program starts without {name}={value}" in _line(host, name)
        assert "waits for a viewer" in _line(host, "waits")
        ended = _run("viewer", address, *HEADLESS, VKSHARE_REMOTE_TOKEN="another token of the tests")
        assert ended.returncode == 1
        assert "the viewer has another token" in _line(host, "was refused")
        with _started("viewer", address, *HEADLESS, VKSHARE_REMOTE_TOKEN=TOKEN):
            out, err = host.communicate(timeout=TIMEOUT)
    assert (host.returncode, out) == (0, "remote\n"), err
    assert TOKEN not in err


@pytest.mark.rule("M14")
def test_a_host_without_a_program_names_variables_that_keep_programs_from_the_viewer() -> None:
    with _started("remote", VKSHARE_BACKEND="cpu") as host:
        assert "programs with VKSHARE_BACKEND=cpu do not draw at the viewer" in _line(host, "VKSHARE_BACKEND")
