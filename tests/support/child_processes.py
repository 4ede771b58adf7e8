"""Children of a test: what they raise fails the test in the parent."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable


def in_child(body: Callable[[], object]) -> None:
    """Runs `body` in a forked child; fails with its traceback if it raises or dies."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            os.write(write, traceback.format_exc().encode()[-60000:])
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        reported = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with status {status}:\n{reported}"


def in_new_process(body: Callable[[], None]) -> None:
    """Runs `body`, a function of a module, in an interpreter that inherits nothing; fails if it raises or dies."""
    process = multiprocessing.get_context("spawn").Process(target=body)
    process.start()
    process.join()
    assert process.exitcode == 0, f"the process ended with {process.exitcode}; its traceback is on stderr"
