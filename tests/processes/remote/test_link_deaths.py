"""Deaths of a whole end of a link. Rules M6 and M12."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.link_ends import TOKEN, End, join, listen, put
from support.run_volumes import rounds, unhurried

from vkshare.remote import LinkState

pytestmark = [pytest.mark.program, unhurried]

VIEWER = """
import sys, time
from vkshare.remote import LinkEvents, connect
links = []
link = connect(sys.argv[1], sys.argv[2], events=LinkEvents(lambda lane, message: links[0].send(lane, message)))
links.append(link)
print("up", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def viewer(address: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", VIEWER, address, TOKEN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


@pytest.mark.rule("M6", "M12")
def test_viewers_that_are_killed_are_noticed_and_replaced(stack: ExitStack) -> None:
    host = End()
    listener = stack.enter_context(listen(host))
    count = rounds(300, 3, full=10)
    for number in range(1, count + 1):
        with viewer(listener.address) as process:
            host.until_state(LinkState.UP, number)
            assert listener.link.generation == number
            put(listener.link, 1, b"echo %d" % number)
            host.until(lambda number=number: (1, b"echo %d" % number) in host.messages)
            put(listener.link, 1, bytes(500_000))
            os.kill(process.pid, signal.SIGKILL)
        host.until_state(LinkState.BROKEN, number)
    assert host.states.count(LinkState.REPLACED) == count - 1
    assert LinkState.LOST not in host.states


@pytest.mark.rule("M6")
def test_a_viewer_notices_that_its_host_was_killed(stack: ExitStack) -> None:
    program = (
        "import sys; from vkshare.remote import LinkEvents, LinkListener\n"
        "listener = LinkListener('127.0.0.1:0', sys.argv[1], events=LinkEvents(print), grace=0)\n"
        "print(listener.address, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, TOKEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        end = End()
        stack.enter_context(join(end, process.stdout.readline().strip()))
        process.kill()
        end.until_state(LinkState.LOST)
        assert end.states == [LinkState.UP, LinkState.LOST]
