"""A window at the viewer, as the target of a swapchain."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vkshare.errors import InvalidCallError
from vkshare.present.targets import Headless
from vkshare.remote import environment
from vkshare.remote import relay_messages as m
from vkshare.remote.backend import RemoteBackend, RemoteImage
from vkshare.window.events import Event

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.core.surface import Surface
    from vkshare.remote.host_connection import HostConnection


class _Window:
    """One open window at the viewer: what a swapchain presents to."""

    interval = round(1e9 / 60)  # ns from frame to frame in fifo modes

    def __init__(self, connection: HostConnection, target: RemoteTarget) -> None:
        self._connection = connection
        self._target = target
        self.number = connection.number_of(m.Op.OPEN_WINDOW, m.NewWindow(target.width, target.height, target.title))
        connection.watch_window(self.number)

    def present(self, surface: Surface) -> None:
        """Shows the surface's picture. The work that draws it has run, which the host has taken so."""
        image = surface._open_image()
        assert isinstance(image, RemoteImage)
        self._connection.check_window(self.number)
        self._connection.call(m.Op.PRESENT, m.Present(self.number, image.number))

    @property
    def size(self) -> tuple[int, int] | None:
        """The window's size at the viewer, once it has another one than the target."""
        return self._connection.size_of(self.number)

    def events(self) -> list[Event]:
        """The events since the last call."""
        self._connection.check_window(self.number)
        return self._connection.events_of(self.number)

    def close(self) -> None:
        self._connection.forget_window(self.number)
        self._connection.drop(m.Op.CLOSE_WINDOW, self.number)
        self._target._window.clear()


def _way_to_one() -> str:
    """How the program gets a remote device, for a message."""
    if environment.VARIABLE not in os.environ:
        return " (Host.open())"
    chosen = " ".join(f"{name}={value}" for name, value in environment.local_choices(os.environ).items())
    return (
        f" (unset {chosen}, with which vks.open() opens a local one)" if chosen else " (vks.open() without arguments)"
    )


@dataclass(frozen=True, slots=True)
class RemoteTarget(Headless):
    """A window at the viewer: a target of a remote device's ``create_swapchain()``. Made by ``Host.window()``.

    Parameters
    ----------
    width, height
        Pixels.
    title
        Text of its title bar.
    """

    title: str = ""
    _window: list[_Window] = field(default_factory=list, repr=False, compare=False)  # while a swapchain is open

    def events(self) -> list[Event]:
        """Returns the window's input events since the last call, the oldest first, as ``Window.poll()`` has them.

        Raises
        ------
        InvalidCallError
            No swapchain is open on it.
        SurfaceLostError
            The viewer cannot show it, for example because its display is gone.
        RemoteLostError
            The host or the viewer is gone.
        """
        if not self._window:
            raise InvalidCallError(f"the window {self.title!r} is not open: a swapchain on it opens it")
        return self._window[0].events()

    def _presenter(self, device: Device) -> _Window:
        backend = device._backend
        if not isinstance(backend, RemoteBackend):
            raise InvalidCallError(f"a window at a viewer needs a remote device{_way_to_one()}, not {device!r}")
        if self._window:
            raise InvalidCallError(f"the window {self.title!r} has a swapchain: close it first")
        window = _Window(backend.connection, self)
        self._window.append(window)
        return window
