"""`vkshare ps`: every shared surface and fence of this user's processes, who owns it and who waits (rule K33).

Pages are found as memfds in /proc/PID/fd and mapped read-only: looking disturbs nobody.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vkshare.cli import table

HELP = "each shared surface and fence: who owns it, who waits for which key since when"

_MUTEX, _FENCE = "vkshare:mutex", "vkshare:fence"  # the names that the core gives its memfds
_STATUSES = ("ok", "lost", "closed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    told = collect()
    print(json.dumps(told, indent=2) if args.json else _text(told))
    return 0


# ---- finding -----------------------------------------------------------------------------------------------------


def collect() -> dict[str, Any]:
    """What `vkshare ps --json` prints: {"surfaces": [...], "fences": [...], "unreadable": [...]}."""
    pages: dict[tuple[int, int], dict[str, Any]] = {}  # by device and inode of the memfd: one page, many processes
    for pid in _own_processes():
        for fd in _page_fds(pid):
            with contextlib.suppress(OSError):  # it ended, or closed the fd, in this moment
                status = os.stat(fd)
                page = pages.setdefault((status.st_dev, status.st_ino), {"processes": set(), "page": None})
                page["processes"].add(pid)
                if page["page"] is None:
                    page["page"] = _look(fd)
    told: dict[str, Any] = {"surfaces": [], "fences": [], "unreadable": []}
    now = time.monotonic()
    for found in pages.values():
        if found["page"] is not None:
            where, what = _told(found["page"], found["processes"], now)
            told[where].append(what)
    for entries in told.values():
        entries.sort(key=lambda entry: entry["id"])
    return told


def _own_processes() -> Iterator[int]:
    uid = os.geteuid()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                yield int(entry.name)


def _page_fds(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if os.readlink(entry.path).startswith((f"/memfd:{_MUTEX}", f"/memfd:{_FENCE}")):
                    yield entry.path


def _look(path: str) -> dict[str, Any] | None:
    """The page, or None if it is none of ours or of another version."""
    from vkshare import _native
    from vkshare.errors import DescriptorError

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _native.page_look(fd)
    except DescriptorError:
        return None
    finally:
        os.close(fd)


# ---- telling -----------------------------------------------------------------------------------------------------


def _process_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "gone"


def _told(page: dict[str, Any], processes: set[int], now: float) -> tuple[str, dict[str, Any]]:
    """Under which head it is listed, and what. A page that was written over must not hide the others."""
    try:
        if page["kind"] == 2:
            return "surfaces", _surface(page, processes, now)
        return "fences", _fence(page, processes)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return "unreadable", {"id": f"{page['id']:016x}", "why": why, "processes": sorted(processes)}


def _surface(page: dict[str, Any], processes: set[int], now: float) -> dict[str, Any]:
    from vkshare import formats
    from vkshare.keyed_mutex import STATES

    names = {slot["slot"]: slot["name"] for slot in page["slots"]}
    owner = None
    if page["state"] == 1:
        pid = page["owner_pid"]
        owner = {"pid": pid, "process": _process_name(pid), "device": names.get(page["owner_slot"], "")}
    with contextlib.suppress(ValueError):
        page["format"] = formats.from_code(page["format"]).name
    return {
        "id": f"{page['id']:016x}",
        "width": page["width"],
        "height": page["height"],
        "format": page["format"],
        "state": STATES[page["state"]],
        "owner": owner,
        "key": page["key"],
        "generation": page["generation"],
        "value": page["value"],
        "queued": page["queued"],
        "completed": page["completed"],
        "handles": [{"pid": slot["pid"], "device": slot["name"]} for slot in page["slots"]],
        "waiters": [
            {
                "pid": slot["pid"],
                "process": _process_name(slot["pid"]),
                "device": slot["name"],
                "key": slot["waiting_key"],
                "seconds": max(0.0, now - slot["waiting_since"] / 1e9),
            }
            for slot in page["slots"]
            if slot["waiting"]
        ],
        "processes": sorted(processes),
    }


def _fence(page: dict[str, Any], processes: set[int]) -> dict[str, Any]:
    pid = page["owner_pid"]
    return {
        "id": f"{page['id']:016x}",
        "signaller": {"pid": pid, "process": _process_name(pid)},
        "status": _STATUSES[page["state"]] if page["state"] < len(_STATUSES) else "invalid",
        "queued": page["queued"],
        "completed": page["completed"],
        "processes": sorted(processes),
    }


def _party(party: dict[str, Any]) -> str:
    device = f" {party['device']!r}" if party.get("device") else ""
    return f"{party['pid']} {party['process']}{device}"


def _text(told: dict[str, Any]) -> str:
    if not any(told.values()):
        return "no process of this user shares a surface or a fence"
    parts = []
    if told["surfaces"]:
        rows: list[tuple[object, ...]] = []
        for s in told["surfaces"]:
            owner = _party(s["owner"]) if s["owner"] else "-"
            size = f"{s['width']}x{s['height']}"
            work = f"{s['completed']}/{s['value']}"
            handles = len(s["handles"])
            rows.append((s["id"], size, s["format"], s["state"], owner, s["key"], s["generation"], work, handles))
        head = ("SURFACE", "SIZE", "FORMAT", "STATE", "OWNER", "KEY", "GENERATION", "DONE/PROMISED", "HANDLES")
        parts.append(table.render(head, rows, right=("KEY", "GENERATION", "DONE/PROMISED", "HANDLES")))
    waits = [
        (s["id"], _party(w), w["key"], table.seconds(w["seconds"])) for s in told["surfaces"] for w in s["waiters"]
    ]
    if waits:
        parts.append(table.render(("SURFACE", "WAITS", "FOR KEY", "SINCE"), waits, right=("FOR KEY", "SINCE")))
    if told["fences"]:
        lines = [
            (f["id"], _party(f["signaller"]), f["status"], f["completed"], f["queued"], len(f["processes"]))
            for f in told["fences"]
        ]
        columns = ("FENCE", "SIGNALLER", "STATUS", "VALUE", "QUEUED", "PROCESSES")
        parts.append(table.render(columns, lines, right=("VALUE", "QUEUED", "PROCESSES")))
    if told["unreadable"]:
        bad = [(p["id"], ", ".join(map(str, p["processes"])), p["why"]) for p in told["unreadable"]]
        parts.append(table.render(("UNREADABLE PAGE", "PROCESSES", "WHY"), bad))
    return "\n\n".join(parts)
