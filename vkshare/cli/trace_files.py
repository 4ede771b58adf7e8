"""The files that traced processes leave behind (native/os/trace.h), checked as what comes from outside is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vkshare.util import trace
from vkshare.util.library_calls import ffi, lib

_HEADER = struct.Struct("<QIIIIIIQQQQQ")  # vks_trace_header up to `command`
_CHUNK = struct.Struct("<II16s")  # vks_trace_chunk
_MAGIC, _CHUNK_MAGIC = 0x6563617274736B76, 0x6B6E6863
_HEADER_SIZE, _CHUNK_SIZE, _COMMAND_SIZE = 4096, 8192, 1024
_LONGEST = 30 * 86400 * 10**9  # ns: no record is of so long after the last process began

RECORD = np.dtype(
    [
        *(("kind", "<u2"), ("status", "<u2"), ("device", "<u4")),
        *((name, "<u8") for name in ("begin", "end", "object", "value", "key", "order", "work")),
    ]
)
_TEXT_AT = RECORD.fields["key"][1] if RECORD.fields else 0  # where a record with a text has it


class NotATrace(ValueError):
    """The file is none of ours, or of another version."""


@dataclass(slots=True)
class Recorded:
    """The trace file of one program of one process: execve() begins another file."""

    pid: int
    process: int  # with the pid: tells processes apart that had one pid
    began: int  # CLOCK_MONOTONIC ns
    command: list[str]
    dropped: int  # records for which there was no room
    records: Any = field(default_factory=lambda: np.empty(0, RECORD))  # in the order of their chunks
    threads: Any = field(default_factory=lambda: np.empty(0, np.uint32))  # the kernel's id of each record's thread
    names: dict[int, str] = field(default_factory=dict)  # of the threads, by the kernel
    half_written: int = 0  # records in which their process was killed
    damaged: int = 0  # chunks and records that say what cannot be

    def text(self, index: int) -> str:
        """The text of a record that has one."""
        content: bytes = self.records[index].tobytes()
        return content[_TEXT_AT:].partition(b"\0")[0].decode(errors="replace")


def read_all(directory: Path) -> tuple[list[Recorded], list[tuple[Path, str]]]:
    """Return the traces in the order of their start, and the unreadable files with the reasons."""
    found, bad = [], []
    for path in sorted(directory.glob("*.vkt")):
        try:
            found.append(read(path))
        except (OSError, NotATrace) as error:
            bad.append((path, str(error)))
    found.sort(key=lambda recorded: recorded.began)
    latest = max((recorded.began for recorded in found), default=0) + _LONGEST
    for recorded in found:
        _drop_impossible(recorded, latest)
    return found, bad


def read(path: Path) -> Recorded:
    """Raises NotATrace, or OSError."""
    content = path.read_bytes()
    if len(content) < _HEADER_SIZE:
        raise NotATrace(f"{path.name} has {len(content)} bytes: its process was killed as it began")
    magic, version, *sizes, pid, _, process, began, _, _, dropped = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise NotATrace(f"{path.name} is not a trace of vkshare")
    if version != lib.VKS_TRACE_VERSION or sizes != [_HEADER_SIZE, _CHUNK_SIZE, RECORD.itemsize]:
        raise NotATrace(
            f"{path.name} is of another version of vkshare ({version}, this one is {lib.VKS_TRACE_VERSION})"
        )
    command = content[_HEADER.size : _HEADER.size + _COMMAND_SIZE].rstrip(b"\0").split(b"\0")
    recorded = Recorded(pid, process, began, [argument.decode(errors="replace") for argument in command], dropped)
    _read_chunks(recorded, content)
    return recorded


def _read_chunks(recorded: Recorded, content: bytes) -> None:
    records, threads = [], []
    for at in range(_HEADER_SIZE, len(content), _CHUNK_SIZE):
        chunk = content[at : at + _CHUNK_SIZE]
        magic, thread, name = _CHUNK.unpack_from(chunk.ljust(_CHUNK.size, b"\0"))
        if len(chunk) < _CHUNK_SIZE or magic != _CHUNK_MAGIC:
            recorded.damaged += 1
            continue
        recorded.names[thread] = name.partition(b"\0")[0].decode(errors="replace")
        rows = np.frombuffer(chunk, RECORD, offset=RECORD.itemsize)
        empty = np.flatnonzero(rows["kind"] == 0)
        count = int(empty[0]) if empty.size else rows.size
        recorded.half_written += count < rows.size and any(rows[count].tobytes())
        records.append(rows[:count])
        threads.append(np.full(count, thread, np.uint32))
    if records:
        recorded.records, recorded.threads = np.concatenate(records), np.concatenate(threads)


def _drop_impossible(recorded: Recorded, latest: int) -> None:
    rows = recorded.records
    good = (rows["kind"] < len(trace.KINDS)) & (rows["begin"] > 0)
    good &= (rows["begin"] <= rows["end"]) & (rows["end"] <= latest)
    recorded.damaged += int(rows.size - np.count_nonzero(good))
    recorded.records, recorded.threads = rows[good], recorded.threads[good]


def status(number: int) -> str:
    """Return the name of a record's status."""
    name = ffi.typeof("vks_status").elements.get(number)  # such as VKS_NOT_OWNER
    return f"status {number}" if name is None else name.removeprefix("VKS_").lower().replace("_", " ")


def in_order(found: list[Recorded]) -> Iterator[tuple[int, int]]:
    """(which of `found`, which of its records), by when they began; what encloses another comes first."""
    if not found:
        return
    begin, end = (np.concatenate([recorded.records[name] for recorded in found]) for name in ("begin", "end"))
    which = np.concatenate([np.full(recorded.records.size, i) for i, recorded in enumerate(found)])
    index = np.concatenate([np.arange(recorded.records.size) for recorded in found])
    order = np.lexsort((-(end - begin).astype(np.int64), begin))
    yield from zip(which[order].tolist(), index[order].tolist(), strict=True)
