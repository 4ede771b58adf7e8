"""`vkshare trace`: runs a command, and draws what its processes did with vkshare as one trace, on one clock."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from vkshare.cli.output import say

HELP = "run a command and write what its processes waited for, held, drew and presented as a Chrome/Perfetto trace"

_DEFAULT_SIZE = 64 << 20
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_say = partial(say, "trace")  # (text, exit status) -> exit status
_NOT_FOUND, _NOT_RUN = 127, 126  # as shells have it
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "vkshare trace FILE [--size BYTES] -- COMMAND ...\n       vkshare trace FILE --from DIRECTORY"
    _add_options(parser)
    parser.add_argument("file", metavar="FILE", type=Path, help="to write: .json, or compressed where it ends in .gz")
    parser.add_argument(
        "argv", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="what to run, and its arguments"
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size",
        type=_bytes,
        default=_DEFAULT_SIZE,
        metavar="BYTES",
        help="for each process, e.g. 256M (default: 64M, a million records); what does not fit is counted and dropped",
    )
    parser.add_argument(
        "--from",
        dest="directory",
        type=Path,
        metavar="DIRECTORY",
        help="run nothing: merge what processes left that were started with VKSHARE_TRACE=DIRECTORY",
    )


def run(args: argparse.Namespace) -> int:
    """Return the command's exit status.

    128 and the signal's number if one killed it; 1: the trace could not be written; 2: wrong
    arguments; 126 or 127: the command cannot be run.
    """
    argv = _command(args)
    if bool(argv) == bool(args.directory):
        return _say("give either a command after --, or --from DIRECTORY", 2)
    if args.directory is not None:
        if not args.directory.is_dir():
            return _say(f"--from {args.directory} is not a directory", 2)
        return _merge(args.directory, args.file, argv)
    try:
        with _replacing(args.file):  # it is known before the command has run, perhaps for hours, that it can be written
            pass
        directory = Path(tempfile.mkdtemp(prefix="vkshare-trace-"))
    except OSError as error:
        return _say(str(error), 1)
    try:
        status, is_run = _run(argv, directory, args.size)
        failed = _merge(directory, args.file, argv) if is_run else 0
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    if failed:
        _say(f"what was recorded is in {directory}: vkshare trace FILE --from {directory}", 1)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return status or failed


def _command(args: argparse.Namespace) -> list[str]:
    """Return the command to run. argparse leaves options between FILE and the command in the rest of the line."""
    rest: list[str] = args.argv
    if rest and rest[0].startswith("-"):
        end = rest.index("--") if "--" in rest else len(rest)
        options = argparse.ArgumentParser(prog="vkshare trace")
        _add_options(options)
        options.parse_args(rest[:end], args)
        rest = rest[end + 1 :]
    return rest


# ---- the command -------------------------------------------------------------------------------------------------


def _run(argv: list[str], directory: Path, size: int) -> tuple[int, bool]:
    """The exit status, and whether it is the command's."""
    env = {**os.environ, "VKSHARE_TRACE": os.fspath(directory), "VKSHARE_TRACE_SIZE": str(size)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    try:
        # The child must not begin with our mask; this process has no other thread yet.
        process = subprocess.Popen(argv, env=env, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before))
        status = _wait(process)
    except (FileNotFoundError, NotADirectoryError) as error:
        return _say(str(error), _NOT_FOUND), False
    except OSError as error:
        return _say(str(error), _NOT_RUN), False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return (status if status >= 0 else 128 - status), True


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Forwards signals to the command. The terminal sends Ctrl-C and SIGQUIT to both processes already."""
    while (status := process.poll()) is None:
        reported = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if reported.si_signo != signal.SIGCHLD and reported.si_code <= 0:  # of a process, not the kernel
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(reported.si_signo)
    return status


# ---- the file ----------------------------------------------------------------------------------------------------


def _merge(directory: Path, file: Path, argv: list[str]) -> int:
    from vkshare.cli import trace_files, trace_merge

    found, bad = trace_files.read_all(directory)
    try:
        opened: Any = partial(gzip.open, compresslevel=5) if file.suffix == ".gz" else open
        with _replacing(file) as path, opened(path, mode="wt", encoding="utf-8") as out:
            reported = trace_merge.write(found, out, {"command": argv} if argv else {})
    except OSError as error:
        return _say(str(error), 1)
    for path, why in bad:
        _say(f"left out: {why}" if path.name in why else f"left out: {path.name}: {why}", 1)
    if not found:
        _say("nothing was traced: no process that the command started used vkshare", 0)
    dropped, damaged, half = (
        sum(getattr(recorded, name) for recorded in found) for name in ("dropped", "damaged", "half_written")
    )
    lost = [f"{n} {what}" for n, what in ((half, "half-written"), (damaged, "damaged")) if n]
    _say(f"{file}: {reported}; {', '.join([f'{dropped} dropped', *lost])}", 0)
    if dropped:
        _say("a process had no more room for its records, or its disk none: give more with --size", 0)
    return 0


@contextlib.contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """A new file beside it, which takes its place when all went well: there is never half a trace.

    Nothing is left of one that stays empty.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(file)) from None
    os.close(descriptor)
    path = Path(name)
    try:
        yield path
        if path.stat().st_size:
            mask = os.umask(0)
            os.umask(mask)
            path.chmod(0o666 & ~mask)
            path.replace(file)
    finally:
        path.unlink(missing_ok=True)


def _bytes(text: str) -> int:
    parts = re.fullmatch(r"(\d{1,6})([kmg]?)b?", text.lower())
    size = int(parts[1]) * _UNITS[parts[2]] if parts else 0
    if not 1 << 14 <= size <= 1 << 40:
        raise argparse.ArgumentTypeError(f"{text} is not a number of bytes from 16K to 1024G")
    return size
