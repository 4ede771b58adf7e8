"""Engines' memory on software drivers whose pages were replaced (adopted.py), so that it is adopted again as it is.

A driver gives its own file for such memory, which its mapping does not show any more. The file's
identity finds the memfd that it shows. The table is the process's, as the mappings are; an entry ends
once the memfd is mapped nowhere in the process.
"""

from __future__ import annotations

import os
import threading

from vkshare.util import fd_ops

_lock = threading.Lock()
_entries: dict[tuple[int, int], tuple[int, int]] = {}  # the driver's file -> the memfd's fd, offset of the memory


def find(own: int) -> tuple[int, int] | None:
    """A new fd of the memfd that the memory of that driver's file shows, the caller's, and where the memory begins."""
    with _lock:
        _drop_unmapped()
        entry = _entries.get(_identity(own))
        return None if entry is None else (fd_ops.duplicate(entry[0]), entry[1])


def note(own: int, pages: int, offset: int) -> None:
    """The memory of the driver's file shows this memfd from now on. Both fds stay the caller's."""
    with _lock:
        _entries[_identity(own)] = (fd_ops.duplicate(pages), offset)


def drop_unmapped() -> None:
    """Ends the entries of memory that engines have freed."""
    with _lock:
        _drop_unmapped()


def _drop_unmapped() -> None:
    if not _entries:
        return
    mapped = set()
    with open("/proc/self/maps") as lines:
        for line in lines:
            device, inode = line.split(maxsplit=5)[3:5]
            major, minor = (int(part, 16) for part in device.split(":"))
            mapped.add((os.makedev(major, minor), int(inode)))
    for own, (pages, _) in list(_entries.items()):
        if _identity(pages) not in mapped:
            del _entries[own]
            os.close(pages)


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
