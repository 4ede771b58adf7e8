"""Things that are open when the interpreter ends: their destructors run among modules that have lost their names."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.left_open import PLACES
from support.tree_paths import TESTS

import vkshare as vks
from vkshare.util.closing import Closing, destructor

PROGRAM = TESTS / "support" / "left_open.py"


@pytest.mark.parametrize("thing", ["a surface", "everything"])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_left_open_ends_with_the_interpreter_in_silence(
    vks_adapter: vks.Adapter, place: str, thing: str
) -> None:
    command = [sys.executable, "-W", "ignore", str(PROGRAM), place, thing]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    assert "Exception ignored" not in ended.stderr
    assert "Traceback" not in ended.stderr


class Thing(Closing):
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_lost_thing_is_closed_also_where_the_warning_is_an_error() -> None:
    thing = Thing()
    with pytest.raises(ResourceWarning, match="unclosed"):
        thing.__del__()
    assert thing.is_closed


def test_a_destructor_is_silent_only_while_the_interpreter_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    @destructor
    def fail(self: object) -> None:
        raise TypeError("a module's name is None")

    with pytest.raises(TypeError):
        fail(None)
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    destructor(lambda self: [][0])(None)


ASKED_AT_THE_END = """
import atexit, os, socket

def ask():
    sock.send(bytes(16))
    assert sock.recv(16) == b"gone"

atexit.register(ask)  # runs after what is registered later
import vkshare
from vkshare.ipc import fd_broker

read, write = os.pipe()
path, token = fd_broker.offer([read])
sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sock.settimeout(20)
sock.connect(path)
"""


def test_a_connection_that_asks_for_a_pickles_fds_while_the_interpreter_ends_breaks_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", ASKED_AT_THE_END], capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stderr) == (0, "")
