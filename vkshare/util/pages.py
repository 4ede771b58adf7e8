"""The contents of shared pages: of surfaces, fences and queues. The fd of a page stays the caller's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from vkshare.errors import DescriptorError
from vkshare.util.library_calls import check, ffi, lib, take_fd

_MUTEX, _FENCE, _QUEUE = "vkshare:mutex", "vkshare:fence", "vkshare:queue"  # the names that the core gives its memfds


def page_fds(pid: int) -> Iterator[str]:
    """Yield a path below /proc for each file descriptor of a process that is a page; none for a process that ended."""
    names = tuple(f"/memfd:{name}" for name in (_MUTEX, _FENCE, _QUEUE))
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if os.readlink(entry.path).startswith(names):
                    yield entry.path


def inspect_path(path: str) -> dict[str, Any] | None:
    """Return the page of page_fds(), or None if it is not vkshare's or of another version. OSError: it was closed."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return queue_page_inspect(fd) if _QUEUE in os.readlink(path) else page_inspect(fd)
    except DescriptorError:
        return None
    finally:
        os.close(fd)


def page_inspect(fd: int) -> dict[str, Any]:
    """Return vks_page_view of a fence's or surface's page as a dict, its slots as dicts. DescriptorError."""
    view = ffi.new("vks_page_view *")
    check(lib.vks_page_inspect(fd, view), "page_inspect")
    page = _fields(view)
    page["slots"] = [_fields(slot) for slot in view.slots[0 : min(page.pop("n_slots"), lib.VKS_SLOTS)]]
    return page


def queue_page_inspect(fd: int) -> dict[str, Any]:
    """Return vks_queue_view as a dict, its ends as the dicts "producer" and "consumer". DescriptorError."""
    view = ffi.new("vks_queue_view *")
    check(lib.vks_queue_inspect(fd, view), "queue_page_inspect")
    page = _fields(view)
    producer, consumer = page.pop("ends")
    return {"kind": 3, **page, "producer": _fields(producer), "consumer": _fields(consumer)}


def queue_page_make(
    width: int,
    height: int,
    format: int,
    count: int,
    metadata_size: int,
    network: int,
    single_threaded: bool,
    kind: int,
    color: Mapping[str, int] | None = None,
) -> int:
    """Return the fd of a new queue's page, the caller's. Kind: 1 starts full, 2 lets each end begin alone."""
    info = ffi.new(
        "vks_queue_info *",
        {
            "width": width,
            "height": height,
            "format": format,
            "count": count,
            "metadata_size": metadata_size,
            "network": network,
            "single_threaded": single_threaded,
            "full": kind & 1,
            "early": kind & 2 != 0,
            "color": dict(color or {}),
        },
    )
    return take_fd(lambda cell: lib.vks_queue_page_make(info, cell), "SurfaceQueue")


def queue_page_read(fd: int) -> Any:
    """Return vks_queue_info of a queue's page. DescriptorError."""
    info = ffi.new("vks_queue_info *")
    check(lib.vks_queue_page_read(fd, info), "SurfaceQueue.open")
    return info


def queue_page_counts(fd: int) -> tuple[int, int, int, int, int]:
    """Return how many pairs were enqueued, committed and dequeued, and the pids of the producer and the consumer."""
    counts = ffi.new("vks_queue_statistics *")
    check(lib.vks_queue_page_count(fd, counts), "SurfaceQueue.statistics")
    return queue_counts(counts)


def queue_counts(counts: Any) -> tuple[int, int, int, int, int]:
    """Return vks_queue_statistics as a tuple."""
    return counts.enqueued, counts.committed, counts.dequeued, counts.producer_pid, counts.consumer_pid


def _fields(view: Any) -> dict[str, Any]:
    """Return a structure as a dict. A name comes from another process: bytes that are not UTF-8 are replaced."""
    kind = ffi.typeof(view)
    values = {name: getattr(view, name) for name, _ in (kind.item if kind.kind == "pointer" else kind).fields}
    if "name" in values:
        values["name"] = ffi.string(values["name"]).decode(errors="replace")
    if "color" in values:
        values["color"] = _fields(values["color"])
    return values
