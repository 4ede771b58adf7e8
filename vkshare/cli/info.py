"""`vkshare info`: the adapters of this machine, and what each was proven to do."""

from __future__ import annotations

import argparse
import dataclasses
import json
import uuid
from typing import Any

from vkshare import __version__, formats
from vkshare.cli import table

HELP = "what was found on this machine, and what each adapter can do"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    reported = collect()
    print(json.dumps(reported, indent=2) if args.json else _text(reported))
    return 0


def collect() -> dict[str, Any]:
    """Return the contents of `vkshare info --json`. vkshare.open() takes the first adapter."""
    from vkshare.core import adapter as _adapter

    found = _adapter.adapters()
    return {
        "version": __version__,
        "adapters": [_adapter_facts(a) for a in found],
        "skipped": [{"name": name, "reason": reason} for name, reason in _adapter.skipped()],
        "vsync": _vsync_facts(found),
    }


def _vsync_facts(adapters: list[Any]) -> dict[str, Any]:
    """The sources of vertical blanks in the order in which they are chosen, and which one a display would listen to."""
    from vkshare.vsync import source_selection
    from vkshare.vsync.sources.vulkan_calls import EXTENSIONS

    try:
        wanted = source_selection.forced()
    except ValueError as error:
        return {"chosen": None, "why": str(error), "sources": []}
    sources = []
    for attempt in source_selection.survey():
        facts = {"kind": attempt.kind, **dataclasses.asdict(attempt.trial)}
        facts["interval"] = None if attempt.trial.interval is None else float(attempt.trial.interval)
        if attempt.kind in EXTENSIONS:
            facts["why"] = _vulkan_reason(attempt.kind, adapters)
        sources.append(facts)
    works = [each["kind"] for each in sources if each["works"]]
    if wanted != "auto":
        return {"chosen": wanted, "why": f"{source_selection.VARIABLE} says so", "sources": sources}
    return {"chosen": (*works, "software")[0], "why": "the best that works", "sources": sources}


def _vulkan_reason(kind: str, adapters: list[Any]) -> str:
    """Return why a source of Vulkan drivers cannot be probed here, where no frame is presented."""
    from vkshare.vsync.sources.vulkan_calls import EXTENSIONS, NO_TIMING

    extensions = EXTENSIONS[kind]
    have = [a.name for a in adapters if a.backend == "vulkan" and set(extensions) <= set(a.physical.extensions)]
    names = " and ".join(extensions)
    if not have:
        return f"no adapter has {names}"
    if kind == "present-timing":
        return f"{', '.join(have)} has it, but {NO_TIMING}"
    return f"{', '.join(have)} has {names}; it can be tried on the device of an engine that enables it"


def _adapter_facts(adapter: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(adapter.capabilities)]
    facts = {name: _plain(getattr(adapter, name)) for name in ("name", "kind", "backend", "uuid", "driver")}
    return {**facts, "capabilities": {name: _plain(getattr(adapter.capabilities, name)) for name in names}}


def _plain(value: Any) -> Any:
    """Lists, hexadecimal text: what JSON can say."""
    if isinstance(value, frozenset):
        return sorted(value)
    return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) else value


def _text(reported: dict[str, Any]) -> str:
    lines = [f"vkshare {reported['version']}", ""]
    rows = [(a["name"], a["kind"], a["backend"], a["driver"]) for a in reported["adapters"]]
    lines += [table.render(("ADAPTER", "KIND", "BACKEND", "DRIVER"), rows), ""]
    for adapter in reported["adapters"]:
        lines += [adapter["name"], *(f"  {line}" for line in _capability_lines(adapter)), ""]
    for skipped in reported["skipped"]:
        lines.append(f"not usable: {skipped['name']}: {skipped['reason']}")
    lines += ["", *_vsync_lines(reported["vsync"])]
    return "\n".join(lines).rstrip()


def _vsync_lines(reported: dict[str, Any]) -> list[str]:
    if reported["chosen"] is None:
        return [f"vsync: {reported['why']}"]
    lines = [f"vsync: {reported['chosen']} ({reported['why']})"]
    for source in reported["sources"]:
        lines.append(f"  {source['kind']:<16} {'works' if source['works'] else 'no'}: {source['why']}")
    return lines


def _capability_lines(adapter: dict[str, Any]) -> list[str]:
    can = adapter["capabilities"]
    difference = can["max_timeline_difference"]
    ahead = "at most 2147483647 ahead (not reported)" if not difference else f"at most {difference} ahead"
    facts = {
        "uuid": adapter["uuid"],
        "tilings": ", ".join(can["tilings"]) or "none",
        "memory": ", ".join(can["surface_memory"]) or "none",
        "fences": "timeline semaphores cross processes" if can["export_timelines"] else "bridged by shared pages",
        "CPU access": "linear surfaces are mapped" if can["host_visible"] else "by copies",
        "formats": ", ".join(name for name in formats.FORMATS if name in can["formats"]) or "none",
        "largest": f"{can['max_dimension']} pixels a side",
        "fence values": "any distance ahead" if difference >= 2**64 - 2 else ahead,
        "sub-pixel": f"{can['subpixel_bits']} bits",
    }
    lines = [f"{name:<13} {value}" for name, value in facts.items()]
    return lines + [f"{'missing':<13} {what}: {why}" for what, why in can["reasons"].items()]
