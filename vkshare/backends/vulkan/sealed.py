"""Memory of software drivers: their own mappings, filled with pages of a sealed memfd (rule X26).

A software driver maps a file for memory that can be exported. lavapipe's file begins with {size,
offset} of the mapping, which the driver reads when it imports the file and again when it frees the
memory; every party can rewrite them. SwiftShader's file is not sealed: every party can truncate it,
and the next access of the others is a SIGBUS.

So a driver's file never leaves the process, and no driver opens a file from outside. Each party
allocates exportable memory of its own, and maps one sealed memfd of vkshare's over the pixels in
it. The bytes before the pixels (lavapipe's header) stay in the driver's own file, where no peer can
write.
"""

from __future__ import annotations

import os

from vkshare.errors import UnsupportedError
from vkshare.util import shared_memory
from vkshare.util.closing import on_error

_LARGEST_HEADER = 1 << 16  # bytes before the pixels; lavapipe has one page of them, SwiftShader has none


def make(own: int, address: int) -> tuple[int, int]:
    """Gives new memory pages that can be shared.

    Parameters
    ----------
    own
        An fd of the driver's file, which stays the caller's.
    address
        Where the driver has mapped the memory.

    Returns
    -------
    fd, offset
        A memfd laid out as the driver's file, the caller's, and where in it the memory begins.
    """
    fd = shared_memory.memfd_create("vkshare:surface", os.fstat(own).st_size)
    with on_error(lambda: os.close(fd)):
        offset = adopt(own, address, fd)
        os.pwrite(fd, os.pread(own, offset, 0), 0)  # the header: for importers other than vkshare
    return fd, offset


def adopt(own: int, address: int, fd: int) -> int:
    """Gives memory the pages of another party's memfd, as make() made it. Returns where in it the memory begins.

    Raises
    ------
    DescriptorError
        `fd` is not a writable memfd whose size and seals are final, or is not as large as the driver's file.
    UnsupportedError
        This driver does not map the file that it exports.
    """
    offset = shared_memory.memory_replace(own, fd, address, 0)
    if offset > _LARGEST_HEADER:
        raise UnsupportedError("image memory", f"the driver's memory begins {offset} bytes into its file")
    return offset
