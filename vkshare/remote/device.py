"""The device that a program draws with on another machine."""

from __future__ import annotations

import os
from pathlib import Path

from vkshare.core.device import Device
from vkshare.remote.backend import RemoteBackend
from vkshare.remote.host_connection import TIMEOUT, HostConnection
from vkshare.util.closing import on_error


def open_device(
    path: str | os.PathLike[str], name: str = "", timeout: float | None = TIMEOUT, *, held_limit: int = 0
) -> Device:
    """Opens a device at a host of this machine.

    Parameters
    ----------
    path
        The host's socket: ``Host.path``.
    name
        Shown by ``vkshare ps``.
    timeout
        Seconds to wait for a viewer to connect to the host; None: without limit.
    held_limit
        As of vks.open().

    Returns
    -------
    Device
        Close it, or use it in a ``with`` block.

    Raises
    ------
    OSError
        No host listens there.
    TimeoutError
        No viewer has come in time.
    """
    connection = HostConnection(Path(path), name[:64], timeout)
    with on_error(connection.close):
        backend = RemoteBackend(connection)
        device = Device._start(backend, name, held_limit=held_limit)
    with on_error(device.close):
        connection.attach(device)
    return device
