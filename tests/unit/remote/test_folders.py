"""Folders of hosts that were killed, and those that must stay."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from vkshare.ipc.socket_files import LockedListener
from vkshare.remote import folders

pytestmark = pytest.mark.no_driver

HOST = """
import os, tempfile, sys, vkshare as vks
tempfile.tempdir = sys.argv[1]
host = vks.remote.Host("127.0.0.1:0", token="a token of the tests")
print(host.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _age(folder: Path) -> None:
    old = time.time() - 3600
    os.utime(folder, (old, old))


def test_the_folder_of_a_killed_host_is_removed_and_that_of_a_living_one_stays(tmp: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip()).parent
        try:
            _age(folder)
            with folders.made("host") as path:
                assert folder.exists()
        finally:
            process.kill()
    assert not path.parent.exists()
    with folders.made("viewer"):
        assert folder.exists()
    with folders.made("host"):
        assert not folder.exists()


def test_folders_that_may_be_another_process_s_stay(tmp: Path) -> None:
    young, bare, linked = (tmp / f"vkshare-host-{name}" for name in ("young", "bare", "linked"))
    for folder in (young, bare):
        folder.mkdir(0o700)
    (young / "host.lock").touch()
    outside = tmp / "outside"
    outside.mkdir()
    (outside / "host.lock").touch()
    linked.symlink_to(outside)
    for folder in (bare, outside):
        _age(folder)
    with folders.made("host"):
        assert young.exists()
        assert bare.exists()
        assert (outside / "host.lock").exists()


def test_another_user_s_folders_stay(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp / "vkshare-host-theirs"
    folder.mkdir(0o700)
    (folder / "host.lock").touch()
    _age(folder)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    folders.remove_dead("vkshare-host-", "host")
    assert folder.exists()
    monkeypatch.undo()


def test_a_locked_folder_stays(tmp: Path) -> None:
    folder = tmp / "vkshare-host-ours"
    folder.mkdir(0o700)
    listener = LockedListener(folder / "host", socket.SOCK_STREAM)
    _age(folder)
    folders.remove_dead("vkshare-host-", "host")
    assert (folder / "host").exists()
    listener.close()
