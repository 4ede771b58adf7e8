"""`vkshare ps`: every shared surface, fence and queue of this user's processes, its owner and its waiters (rule K33).

And the names that they have published (rule W1), for which their processes are asked.

Pages are found as memfds in /proc/PID/fd and mapped read-only: a look does not change them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vkshare.cli import table

HELP = (
    "each published name; each exported surface, fence and queue: owners and values; of a surface also its waiters, "
    "and their time"
)

_ENDS = ("never opened", "open", "closed")
_STATUSES = ("ok", "lost", "closed", "broken")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    reported = collect()
    print(json.dumps(reported, indent=2) if args.json else _text(reported))
    return 0


# ---- finding -----------------------------------------------------------------------------------------------------


def collect() -> dict[str, Any]:
    """Return the contents of `vkshare ps --json`, a dict of five lists.

    {"surfaces": [...], "fences": [...], "queues": [...], "unreadable": [...], "published": [...]}.
    """
    from vkshare.util.pages import inspect_path, page_fds

    pages: dict[tuple[int, int], dict[str, Any]] = {}  # by device and inode of the memfd: one page, many processes
    for pid in _own_processes():
        for fd in page_fds(pid):
            with contextlib.suppress(OSError):  # it ended, or closed the fd, in this moment
                status = os.stat(fd)
                page = pages.setdefault((status.st_dev, status.st_ino), {"processes": set(), "page": None})
                page["processes"].add(pid)
                if page["page"] is None:
                    page["page"] = inspect_path(fd)
    reported: dict[str, Any] = {"surfaces": [], "fences": [], "queues": [], "unreadable": []}
    now = time.monotonic()
    for found in pages.values():
        if found["page"] is not None:
            where, what = _told(found["page"], found["processes"], now)
            reported[where].append(what)
    for entries in reported.values():
        entries.sort(key=lambda entry: entry["id"])
    reported["published"] = _published()
    return reported


def _published() -> list[dict[str, Any]]:
    """The names, in order. Stopped processes do not answer for theirs."""
    from vkshare.core import published

    return [
        {
            **{name: getattr(each, name) for name in ("name", "kind", "width", "height", "format", "rate", "key")},
            "color": dataclasses.asdict(each.color),
            "wants_input": each.wants_input,
            "owner": _process(each.pid),
            "backend": each.backend,
            "adapter": str(each.adapter),
            "adapter_name": each.adapter_name,
        }
        for each in published.find()
    ]


def _own_processes() -> Iterator[int]:
    uid = os.geteuid()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                yield int(entry.name)


# ---- report ------------------------------------------------------------------------------------------------------


def _process(pid: int, **more: Any) -> dict[str, Any]:
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        name = "gone"
    return {"pid": pid, "process": name, **more}


def _ago(time_ns: int, now: float) -> float:
    return max(0.0, now - time_ns / 1e9)


def _told(page: dict[str, Any], processes: set[int], now: float) -> tuple[str, dict[str, Any]]:
    """Under which head it is listed, and what. A page that was written over must not hide the others."""
    try:
        if page["kind"] == 2:
            where, what = "surfaces", _surface(page, now)
        elif page["kind"] == 3:
            where, what = "queues", _queue(page, now)
        else:
            where, what = "fences", _fence(page)
    except Exception as error:
        where, what = "unreadable", {"why": f"{type(error).__name__}: {error}"}
    return where, {"id": f"{page['id']:016x}", **what, "processes": sorted(processes)}


def _image(page: dict[str, Any]) -> dict[str, Any]:
    from vkshare import formats

    if page["format"] == 0:  # a buffer
        nbytes = page["width"] | page["height"] << 32
        return {"width": 0, "height": 0, "format": "buffer", "color": None, "nbytes": nbytes}
    with contextlib.suppress(ValueError):
        page["format"] = formats.from_code(page["format"]).name
    return {**{name: page[name] for name in ("width", "height", "format")}, "color": _color(page["color"])}


def _color(numbers: dict[str, int]) -> dict[str, str] | None:
    """The fields of Color; None: the page does not say them, as those of C programs, or has unknown numbers."""
    from vkshare import color

    with contextlib.suppress(ValueError):
        return dataclasses.asdict(color.from_codes(**numbers)) if any(numbers.values()) else None
    return None


def _meaning(shared: dict[str, Any]) -> str:
    """The colour of a surface, as text."""
    from vkshare.color import Color

    return "-" if shared["color"] is None else str(Color(**shared["color"]))


def _surface(page: dict[str, Any], now: float) -> dict[str, Any]:
    from vkshare.core.keyed_mutex import STATES

    names = {slot["slot"]: slot["name"] for slot in page["slots"]}
    owner = _process(page["owner_pid"], device=names.get(page["owner_slot"], ""))
    return {
        **_image(page),
        "state": STATES[page["state"]],
        "owner": owner if page["state"] == 1 else None,
        **{name: page[name] for name in ("key", "generation", "value", "queued", "completed")},
        "handles": [{"pid": slot["pid"], "device": slot["name"]} for slot in page["slots"]],
        "waiters": [
            _process(
                slot["pid"], device=slot["name"], key=slot["waiting_key"], seconds=_ago(slot["waiting_since"], now)
            )
            for slot in page["slots"]
            if slot["waiting"]
        ],
    }


def _fence(page: dict[str, Any]) -> dict[str, Any]:
    return {
        "signaller": _process(page["owner_pid"]),
        "status": _STATUSES[page["state"]] if page["state"] < len(_STATUSES) else "invalid",
        "queued": page["queued"],
        "completed": page["completed"],
    }


def _queue(page: dict[str, Any], now: float) -> dict[str, Any]:
    """`ready` can be dequeued, or passed over where the surface was recovered since; `pending` wait for a flush.

    `free` is how many of the surfaces have no pair here.
    """
    from vkshare.util.library_calls import lib

    count, taken, committed, written = (page[name] for name in ("count", "taken", "committed", "written"))
    places = 1 << (2 * count - 1).bit_length()
    if not (0 < count <= lib.VKS_MAX_QUEUE_SURFACES and taken <= committed <= written <= taken + places):
        raise ValueError(f"of {count} surfaces {written} were enqueued, {committed} committed and {taken} dequeued")

    def ago(time_ns: int) -> float | None:
        return _ago(time_ns, now) if time_ns else None

    def end(name: str) -> dict[str, Any]:
        reported = page[name]
        state = _ENDS[reported["state"]]
        process = _process(reported["pid"], device=reported["name"])
        return {
            "state": "dead" if reported["dead"] else state,
            **(process if state == "open" else dict.fromkeys(process)),
            "seconds": ago(reported["since"]),
        }

    return {
        **_image(page),
        "network": f"{page['network']:016x}",
        **{name: page[name] for name in ("count", "metadata_size", "single_threaded")},
        "ready": committed - taken,
        "pending": written - committed,
        "free": max(0, taken + count - written),
        "enqueued": written,
        "dequeued": taken,
        "enqueued_seconds_ago": ago(page["committed_at"]),
        "dequeued_seconds_ago": ago(page["taken_at"]),
        "producer": end("producer"),
        "consumer": {**end("consumer"), "waits_seconds": ago(page["waiting_since"])},
    }


def _party(party: dict[str, Any]) -> str:
    device = f" {party['device']!r}" if party.get("device") else ""
    return f"{party['pid']} {party['process']}{device}"


def _since(seconds: float | None) -> str:
    return "never" if seconds is None else f"{table.seconds(seconds)} ago"


def _size(shared: dict[str, Any]) -> str:
    """The size of a surface or a buffer, as text."""
    return f"{shared['nbytes']} bytes" if "nbytes" in shared else f"{shared['width']}x{shared['height']}"


def _queue_tables(queues: list[dict[str, Any]]) -> list[str]:
    counts: list[tuple[object, ...]] = []
    ends: list[tuple[object, ...]] = []
    for q in queues:
        numbers = (q["ready"], q["pending"], q["free"], q["enqueued"])
        moved = (_since(q["enqueued_seconds_ago"]), _since(q["dequeued_seconds_ago"]))
        counts.append(
            (
                *(q["id"], q["network"], f"{q['count']} of {_size(q)}", q["format"], _meaning(q)),
                *(q["metadata_size"], *numbers, *moved),
            )
        )
        for name in ("producer", "consumer"):
            end = q[name]
            waits = end.get("waits_seconds")
            party = _party(end) if end["pid"] is not None else "-"
            waited = "-" if waits is None else table.seconds(waits)
            ends.append((q["id"], name, end["state"], party, _since(end["seconds"]), waited))
    head = ("QUEUE", "NETWORK", "SURFACES", "FORMAT", "COLOUR", "METADATA", "READY", "PENDING", "FREE", "ENQUEUED")
    of_ends = ("QUEUE", "END", "STATE", "PROCESS", "SINCE", "WAITS")
    return [_table((*head, "LAST ENQUEUE", "LAST DEQUEUE"), counts, 7), _table(of_ends, ends, 2)]


def _text(reported: dict[str, Any]) -> str:
    if not any(reported.values()):
        return "no process of this user shares a surface, a fence or a queue, or has published one"
    surfaces: list[tuple[object, ...]] = []
    waits: list[tuple[object, ...]] = []
    for s in reported["surfaces"]:
        owner = _party(s["owner"]) if s["owner"] else "-"
        work = f"{s['completed']}/{s['value']}"
        of_owner = owner, s["key"], s["generation"], work, len(s["handles"])
        surfaces.append((s["id"], _size(s), s["format"], _meaning(s), s["state"], *of_owner))
        waits += [(s["id"], _party(w), w["key"], table.seconds(w["seconds"])) for w in s["waiters"]]
    fences = [
        (f["id"], _party(f["signaller"]), f["status"], f["completed"], f["queued"], len(f["processes"]))
        for f in reported["fences"]
    ]
    bad = [(p["id"], ", ".join(map(str, p["processes"])), p["why"]) for p in reported["unreadable"]]
    head = ("SURFACE", "SIZE", "FORMAT", "COLOUR", "STATE", "OWNER", "KEY", "GENERATION", "DONE/PROMISED", "HANDLES")
    of_fences = ("FENCE", "SIGNALLER", "STATUS", "VALUE", "QUEUED", "PROCESSES")
    names = [
        (
            *(p["name"], p["kind"], _size(p), p["format"], _meaning(p), f"{p['rate']:.1f}/s"),
            *("wanted" if p["wants_input"] else "-", _party(p["owner"])),
        )
        for p in reported["published"]
    ]
    tables = [
        _table(("PUBLISHED", "KIND", "SIZE", "FORMAT", "COLOUR", "RATE", "INPUT", "OWNER"), names, 0),
        _table(head, surfaces, 4),
        _table(("SURFACE", "WAITS", "FOR KEY", "SINCE"), waits, 2),
        _table(of_fences, fences, 3),
        *_queue_tables(reported["queues"]),
        _table(("UNREADABLE PAGE", "PROCESSES", "WHY"), bad, 0),
    ]
    return "\n\n".join(filter(None, tables))


def _table(head: tuple[str, ...], rows: Sequence[Sequence[object]], right: int) -> str:
    """Empty without rows. The last `right` columns are set to the right."""
    return table.render(head, rows, right=head[len(head) - right :]) if rows else ""
