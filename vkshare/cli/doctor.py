"""`vkshare doctor`: what is missing or odd on this machine or in this container, and what to do about it."""

from __future__ import annotations

import argparse
import fcntl
import glob
import importlib.util
import json
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vkshare.cli import table

HELP = "what is missing or odd on this machine, and what to do about it"

_FUTURE_WRITE = 0x10  # F_SEAL_FUTURE_WRITE, Linux 5.1; Python's fcntl does not name it
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of the kernel
_FEW_FDS = 1024
_STUCK = 5.0  # seconds without an enqueue or a dequeue


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    name: str
    state: str  # "ok" | "odd": works, but worse or with surprises | "missing": vkshare does not work without
    found: str
    advice: str = ""


def _judged(name: str, is_good: bool, found: str, advice: str, otherwise: str = "odd") -> Finding:
    """Ok, or `otherwise` and the advice."""
    return Finding(name, "ok", found) if is_good else Finding(name, otherwise, found, advice)


def _tried(name: str, attempt: Callable[[], object], advice: str) -> Finding:
    """Ok, or missing where the attempt fails."""
    try:
        attempt()
    except OSError as error:
        return Finding(name, "missing", str(error), advice)
    return Finding(name, "ok", "works")


def kernel() -> list[Finding]:
    found = f"{platform.system()} {platform.release()} {platform.machine()}"
    return [_judged("kernel", platform.system() == "Linux", found, "vkshare runs on Linux", "missing")]


def extension() -> list[Finding]:
    try:
        from vkshare.util.library_calls import lib
    except ImportError as error:
        advice = "install vkshare again for this interpreter, with a C compiler where there is no wheel"
        return [Finding("C extension", "missing", str(error), advice)]
    return [Finding("C extension", "ok", f"page layout version {lib.VKS_LAYOUT_VERSION}")]


def adapters() -> list[Finding]:
    from vkshare.core import adapter as _adapter

    findings = []
    for each in _adapter.adapters():
        can = each.capabilities
        works = bool(can.surface_memory & {"opaque_fd", "memfd"})
        reasons = "; ".join(f"{what}: {why}" for what, why in can.reasons.items())
        advice = "surfaces of this adapter cannot be shared: update its driver, or use another adapter"
        where = "the driver's memory" if each.kind == "gpu" else "sealed memfds, which no party can cut off"
        found = f"{each.name}, {each.driver}" + (f"; surfaces are in {where}" if works else f" ({reasons})")
        findings.append(_judged(f"adapter ({each.kind})", works, found, advice))
    for name, reason in _adapter.skipped():
        advice = "install libvulkan1 and a driver (mesa-vulkan-drivers has lavapipe), or go on with the CPU backend"
        findings.append(Finding(f"not usable: {name}", "odd", reason, advice))
    return findings


def device_nodes() -> list[Finding]:
    nodes = sorted(glob.glob("/dev/dri/renderD*") + glob.glob("/dev/nvidia[0-9]*"))
    closed = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    found = f"no permission to open {', '.join(closed)}" if closed else ", ".join(nodes)
    advice = "add this user to the group that owns them (ls -l), often render or video, or pass them to the container"
    return [_judged("GPU nodes", not closed, found or "none: no GPU, or not passed to this container", advice)]


def pidfd() -> list[Finding]:
    advice = "deaths of peers cannot be seen: use Linux 5.3 or later, and a seccomp profile that allows pidfd_open"
    return [_tried("pidfd_open", lambda: os.close(os.pidfd_open(os.getpid())), advice)]


def memfd_seals() -> list[Finding]:
    try:
        fd = os.memfd_create("vkshare:doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        advice = "surfaces and pages live in memfds: use a seccomp profile that allows memfd_create"
        return [Finding("memfd", "missing", str(error), advice)]
    try:
        os.ftruncate(fd, 4096)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        seal = partial(fcntl.fcntl, fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | _FUTURE_WRITE)
        advice = "followers could write a fence page: use Linux 5.1 or later"
        return [
            Finding("memfd seals", "ok", "SHRINK, GROW and SEAL work"),
            _tried("memfd FUTURE_WRITE", seal, advice),
        ]
    except OSError as error:
        return [Finding("memfd seals", "missing", str(error), "use Linux 3.17 or later with sealing")]
    finally:
        os.close(fd)


def futex_waitv() -> list[Finding]:
    from vkshare.util.library_calls import lib

    has = bool(lib.vks_have_futex_waitv())
    found = "works" if has else "not there: held work that waits for other parties is polled"
    meanwhile = "meanwhile held work is polled every millisecond"
    advice = f"use Linux 5.16 or later and a seccomp profile that allows it; {meanwhile}"
    return [_judged("futex_waitv", has, found, advice)]


def fd_limit() -> list[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    reported = f"{soft} (hard limit {hard}), {used} open here"
    advice = f"each surface takes 2 to 4 fds: raise it, ulimit -n {_FEW_FDS} or more"
    return [_judged("fd limit", soft >= _FEW_FDS, reported, advice)]


def seccomp() -> list[Finding]:
    modes = {"0": "none", "1": "strict", "2": "a filter (a container's, most likely)"}
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError as error:
        return [Finding("seccomp", "odd", f"unknown: {error}")]
    mode = next((line.split()[1] for line in lines if line.startswith("Seccomp:")), "")
    return [Finding("seccomp", "ok", modes.get(mode, "unknown"))]


def proc() -> list[Finding]:
    try:
        Path("/proc/self/stat").read_text()
        os.listdir("/proc/self/fd")
    except OSError as error:
        advice = (
            "mount /proc: a peer's start time is read from it, so that a pid which is used again is not taken for it"
        )
        return [Finding("/proc", "missing", str(error), advice)]
    try:
        Path(f"/proc/{os.getppid() or 1}/stat").read_text()
    except OSError as error:
        advice = "if /proc is mounted with hidepid, other users' dead processes look like reused pids"
        return [Finding("/proc", "odd", f"the parent process cannot be seen: {error}", advice)]
    return [Finding("/proc", "ok", "readable")]


def pid_namespace() -> list[Finding]:
    try:
        inside = os.stat("/proc/self/ns/pid").st_ino != _INITIAL_PID_NAMESPACE
    except OSError as error:
        return [Finding("pid namespace", "odd", f"unknown: {error}")]
    found = "not the initial one (a container)" if inside else "the initial one"
    advice = "parties must share one pid namespace to see each other's death: run them in one container, or share it"
    return [_judged("pid namespace", not inside, found, advice)]


def cores() -> list[Finding]:
    usable = len(os.sched_getaffinity(0))
    total = os.cpu_count() or usable
    advice = "hand-overs between processes then take a context switch each, and the rasteriser has one thread"
    return [_judged("cores", usable > 1, f"{usable} usable of {total}", advice)]


_OPTIONAL = {  # extra of pyproject.toml -> what needs it, and its packages: the module, and its name on PyPI
    "video": ("`vks.video` and `vkshare play`", {"av": "av (PyAV)"}),
    "view": ("pages of `vkshare view --serve`, video and recordings", {"aiohttp": "aiohttp", "av": "av (PyAV)"}),
    "notebook": ("pictures in notebooks", {"anywidget": "anywidget", "PIL": "pillow"}),
    "remote": ("`vkshare remote` and `vkshare viewer`", {"zstandard": "zstandard"}),
}


def optional_packages() -> list[Finding]:
    """Find the packages of viewing and remoting that are not installed: the rest works without them."""
    findings = []
    for extra, (what, packages) in _OPTIONAL.items():
        missing = [name for module, name in packages.items() if importlib.util.find_spec(module) is None]
        found = f"{', '.join(missing)}: not installed" if missing else ", ".join(packages.values())
        advice = f"{what} need {'it' if len(missing) == 1 else 'them'}: pip install 'vkshare[{extra}]'"
        findings.append(_judged(f"vkshare[{extra}]", not missing, found, advice))
    return findings


def surface_queues() -> list[Finding]:
    """Find the user's queues with a dead end, and queues whose surfaces do not move."""
    from vkshare.cli import ps

    reported = ps.collect()["queues"]
    findings = [
        Finding(f"surface queue {queue['id']}", "odd", found, advice)
        for queue in reported
        for found, advice in _troubles(queue)
    ]
    open_ones = f"{len(reported)} open in this user's processes" if reported else "no process of this user has one open"
    return findings or [Finding("surface queues", "ok", open_ones)]


def _troubles(queue: dict[str, Any]) -> Iterator[tuple[str, str]]:
    producer, consumer = queue["producer"], queue["consumer"]
    for name, end in (("producer", producer), ("consumer", consumer)):
        if end["state"] == "dead":
            yield (
                f"the process of its {name}, {end['pid']}, is gone",
                "open that end again, and call recover() on one of the network's ends: it brings back what was held",
            )
    times = queue["enqueued_seconds_ago"], queue["dequeued_seconds_ago"], producer["seconds"], consumer["seconds"]
    idle = min((seconds for seconds in times if seconds is not None), default=0.0)
    if idle < _STUCK:
        return
    since = f"nothing has moved for {table.seconds(idle)}"
    if queue["ready"] and consumer["state"] == "open":
        full = "it is full" if queue["ready"] == queue["count"] else f"{queue['ready']} of {queue['count']} are ready"
        who = f"process {consumer['pid']} ({consumer['process']}, {consumer['device']!r})"
        yield f"{full} and {since}", f"its consumer does not dequeue: check what {who} does or waits for"
    elif queue["ready"] and consumer["state"] != "dead":
        found = f"{queue['ready']} of {queue['count']} are ready, its consumer is {consumer['state']}, {since}"
        yield found, "open its consumer, or close the queue"
    if queue["pending"] and producer["state"] == "open":
        found = f"{queue['pending']} were enqueued with wait=False and not committed, {since}"
        yield found, f"its producer, process {producer['pid']} ({producer['process']}), has to call flush()"


_ALL: tuple[Callable[[], list[Finding]], ...] = (
    kernel,
    extension,
    adapters,
    device_nodes,
    pidfd,
    memfd_seals,
    futex_waitv,
    fd_limit,
    seccomp,
    proc,
    pid_namespace,
    cores,
    optional_packages,
    surface_queues,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Exit status 1 if something is missing without which vkshare does not work, else 0."""
    findings = examine()
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print(_text(findings))
    return 1 if any(finding.state == "missing" for finding in findings) else 0


def examine(examinations: tuple[Callable[[], list[Finding]], ...] = _ALL) -> list[Finding]:
    """All findings. An examination that itself fails is a finding too."""
    findings: list[Finding] = []
    for examination in examinations:
        try:
            findings += examination()
        except Exception as error:
            name, found = examination.__name__.replace("_", " "), f"could not be examined: {error!r}"
            findings.append(Finding(name, "missing", found, "report this with the text above"))
    return findings


def _text(findings: list[Finding]) -> str:
    parts = [table.render(("", "WHAT", "FOUND"), [(f.state, f.name, f.found) for f in findings])]
    advice = [f for f in findings if f.advice]
    if advice:
        parts.append("\n".join(f"{f.name}: {f.advice}" for f in advice))
    missing = sum(f.state == "missing" for f in findings)
    odd = sum(f.state == "odd" for f in findings)
    verdict = "vkshare works here" if not missing else "vkshare does not work here as it is"
    parts.append(f"{verdict}: {missing} missing, {odd} odd (Python {sys.version.split()[0]})")
    return "\n\n".join(parts)
