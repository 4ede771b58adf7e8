"""An Xvfb with openbox on it: what is really on its screen, and what users and other programs do to windows."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from support.display_servers import end, said, start, wait_for, without_displays

_NORMAL, _ICONIC = 1, 3  # WM_STATE, ICCCM 4.1.3.1
_RC_XML = """<openbox_config xmlns="http://openbox.org/3.4/rc">
  <focus><focusNew>yes</focusNew></focus>
  <desktops><number>1</number><popupTime>0</popupTime></desktops>
  <theme><animateIconify>no</animateIconify></theme>
  <resize><popupShow>Never</popupShow></resize>
</openbox_config>
"""  # no key and no mouse bindings: what is typed reaches the window; nothing moves without being asked to


class XDisplay:
    """An Xvfb with openbox on it. Made by xvfb(). Windows are named by their XID."""

    def __init__(self, folder: Path, width: int, height: int, window_manager: bool, options: tuple[str, ...]) -> None:
        self._folder = folder
        self._openbox: subprocess.Popen[bytes] | None = None
        self._connection: Any = None
        self._mapped: mmap.mmap | None = None
        read, write = os.pipe()
        with open(folder / "Xvfb.log", "wb") as log:
            command = ["Xvfb", "-displayfd", str(write), "-screen", "0", f"{width}x{height}x24"]
            command += ["-fbdir", str(folder), "-nolisten", "tcp", "-noreset", "-dpi", "96"]
            command += ["-nocursor", *options]  # Xvfb would draw the pointer into its framebuffer
            self._server = start(command, pass_fds=[write], stderr=log)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            number = pipe.readline().strip()  # ends at once if the server does
        if not number:
            end(self._server)
            raise RuntimeError(f"Xvfb did not start: {said(folder / 'Xvfb.log')}")
        self.number = int(number)
        self.name = f":{self.number}"
        try:
            self._connect()
            if window_manager:
                self._manage()
        except BaseException:
            self.end()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """os.environ for a program that is to show its windows here."""
        return without_displays(dict(os.environ)) | {"DISPLAY": self.name, "XDG_SESSION_TYPE": "x11"}

    @property
    def pid(self) -> int:
        """The server's."""
        return self._server.pid

    @property
    def is_running(self) -> bool:
        return self._server.poll() is None

    def _connect(self) -> None:
        import xcffib
        import xcffib.xproto
        import xcffib.xtest

        self._xcffib = xcffib
        self._x = xcffib.xproto
        self._connection = xcffib.connect(display=self.name)
        self._core = self._connection.core
        self.root: int = self._connection.get_setup().roots[0].root
        self._test = self._connection(xcffib.xtest.key)
        self._atoms: dict[str, int] = {}

    def _manage(self) -> None:
        rc = self._folder / "rc.xml"
        rc.write_text(_RC_XML)
        environment = self.environment | {"HOME": str(self._folder), "XDG_CACHE_HOME": str(self._folder)}
        with open(self._folder / "openbox.log", "wb") as log:
            command = ["openbox", "--sm-disable", "--config-file", str(rc)]
            self._openbox = start(command, env=environment, stderr=log)
        wait_for(self._window_manager, "openbox announces itself")
        self._probe()

    def _window_manager(self) -> str:
        assert self._openbox is not None
        assert self._openbox.poll() is None, f"openbox ended: {said(self._folder / 'openbox.log')}"
        owner = self._property(self.root, "_NET_SUPPORTING_WM_CHECK")  # EWMH: a window of its own, which names itself
        return self._text(owner[0], "_NET_WM_NAME") if owner else ""

    def _probe(self) -> None:
        """Shows a window until it is managed: openbox announces itself before, and may lose what is asked till then."""
        window = self._connection.generate_id()
        inside = self._x.WindowClass.InputOutput
        self._core.CreateWindow(0, window, self.root, 0, 0, 8, 8, 0, inside, 0, 0, [], is_checked=True).check()

        def is_managed() -> bool:
            self._core.UnmapWindow(window)
            self._core.MapWindow(window, is_checked=True).check()
            with contextlib.suppress(AssertionError):
                wait_for(lambda: self.state(window) == "normal", "it is managed", 0.1)
            return self.state(window) == "normal"

        wait_for(is_managed, "openbox manages windows")
        self.destroy(window)
        wait_for(lambda: window not in self.windows(), "the probe is gone")

    # -- what is on the screen

    def screen(self) -> np.ndarray:
        """The whole screen as (H, W, 4) uint8, RGBA with A = 255: a copy of the server's own framebuffer."""
        if self._mapped is None:
            with open(self._folder / "Xvfb_screen0", "rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        # XWD (X11/XWDFile.h): 25 big-endian words, a name, the colours at 12 bytes each, then the rows.
        header = struct.unpack_from(">25I", self._mapped)
        size, width, height, bits, stride, colours = header[0], *header[4:6], header[11], header[12], header[19]
        assert (bits, header[7]) == (32, 0), "the server's pixels are not 32 bits, least significant byte first"
        rows = np.frombuffer(self._mapped, np.uint8, height * stride, size + 12 * colours).reshape(height, stride)
        copied = rows[:, : 4 * width].copy()  # at once: what is drawn meanwhile must not mix with it by channel
        rgba = copied.reshape(height, width, 4)[:, :, [2, 1, 0, 3]]
        rgba[:, :, 3] = 255
        return rgba

    def picture(self, window: int) -> np.ndarray:
        """The part of the screen where the window's inside is, without its frame. What hides it is seen too."""
        x, y, width, height = self.place(window)
        screen = self.screen()
        picture = screen[max(y, 0) : y + height, max(x, 0) : x + width]
        assert picture.shape[:2] == (height, width), f"the window is partly outside: {width}x{height} at {x}, {y}"
        return picture

    def place(self, window: int) -> tuple[int, int, int, int]:
        """(x, y, width, height) of the window's inside, in pixels of the screen."""
        size = self._core.GetGeometry(window).reply()
        at = self._core.TranslateCoordinates(window, self.root, 0, 0).reply()
        return at.dst_x, at.dst_y, size.width, size.height

    # -- windows, as another program or the window manager would treat them

    def windows(self) -> list[int]:
        """The windows that the window manager manages."""
        return list(self._property(self.root, "_NET_CLIENT_LIST"))

    def find(self, title: str, timeout: float = 10) -> int:
        """Waits for the window of that title, and returns it."""
        return wait_for(
            lambda: next((w for w in self.windows() if self._text(w, "_NET_WM_NAME") == title), 0),
            f"a window called {title!r}",
            timeout,
        )

    def title(self, window: int) -> str:
        return self._text(window, "_NET_WM_NAME")

    def resize(self, window: int, width: int, height: int, *, wait: bool = True) -> None:
        """Asks for another size from outside; the window manager grants it. Waits until the window has it."""
        mask = self._x.ConfigWindow.Width | self._x.ConfigWindow.Height
        self._core.ConfigureWindow(window, mask, [width, height], is_checked=True).check()
        if wait:
            wait_for(lambda: self.place(window)[2:] == (width, height), f"the window is {width}x{height}")

    def move(self, window: int, x: int, y: int) -> None:
        """Puts the window, with its frame, at (x, y) of the screen."""
        before = self.place(window)[:2]
        mask = self._x.ConfigWindow.X | self._x.ConfigWindow.Y
        self._core.ConfigureWindow(window, mask, [x, y], is_checked=True).check()
        with contextlib.suppress(AssertionError):  # it may be there already
            wait_for(lambda: self.place(window)[:2] != before, "the window has moved", 0.5)

    def iconify(self, window: int) -> None:
        """Minimises it, and asserts that it is (without a window manager nothing would happen, silently)."""
        self._send(self.root, window, "WM_CHANGE_STATE", [_ICONIC, 0, 0, 0, 0])
        wait_for(lambda: (self.state(window), self._is_viewable(window)) == ("iconic", False), "it is minimised")

    def restore(self, window: int) -> None:
        """Shows it again, and asserts that it is shown."""
        self._core.MapWindow(window, is_checked=True).check()
        # The window manager tells the state first, and shows the frame later.
        wait_for(lambda: (self.state(window), self._is_viewable(window)) == ("normal", True), "it is restored")

    def state(self, window: int) -> str:
        """The window manager's WM_STATE: "normal", "iconic" or "withdrawn"."""
        state = self._property(window, "WM_STATE")
        return {_NORMAL: "normal", _ICONIC: "iconic"}.get(state[0] if state else 0, "withdrawn")

    def _is_viewable(self, window: int) -> bool:
        return bool(self._core.GetWindowAttributes(window).reply().map_state == self._x.MapState.Viewable)

    def ask_to_close(self, window: int) -> None:
        """What a window manager does when the user clicks at the close button: WM_DELETE_WINDOW."""
        self._send(window, window, "WM_PROTOCOLS", [self._atom("WM_DELETE_WINDOW"), 0, 0, 0, 0], mask=0)

    def destroy(self, window: int) -> None:
        """Destroys it behind its owner's back: the owner's next use of it is a BadWindow."""
        self._core.DestroyWindow(window, is_checked=True).check()

    # -- input, through XTEST: it goes where a user's would

    def focus(self, window: int) -> None:
        """Gives it the keyboard through the window manager, and waits until it has it."""
        self._send(self.root, window, "_NET_ACTIVE_WINDOW", [2, 0, 0, 0, 0])
        wait_for(lambda: self._core.GetInputFocus().reply().focus == window, "the window has the keyboard")

    def pointer_to(self, window: int, x: int, y: int) -> None:
        """Moves the pointer to (x, y) of the window's inside."""
        left, top, *_ = self.place(window)
        self._fake(self._x.MotionNotifyEvent, 0, left + x, top + y)

    def button(self, number: int, *, down: bool) -> None:
        """Presses or releases a button as X numbers them: 1 left, 2 middle, 3 right, 4 and 5 wheel up and down."""
        self._fake(self._x.ButtonPressEvent if down else self._x.ButtonReleaseEvent, number)

    def click(self, number: int = 1) -> None:
        self.button(number, down=True)
        self.button(number, down=False)

    def key(self, keysym: int | str, *, down: bool) -> None:
        """Presses or releases a key: a character, or a keysym as X11/keysymdef.h numbers them (0xff1b is Escape)."""
        code = self._keycode(ord(keysym) if isinstance(keysym, str) else keysym)
        self._fake(self._x.KeyPressEvent if down else self._x.KeyReleaseEvent, code)

    def type(self, keysym: int | str) -> None:
        self.key(keysym, down=True)
        self.key(keysym, down=False)

    # -- the end

    def kill(self) -> None:
        """SIGKILL: the server goes away under its windows."""
        self._server.send_signal(signal.SIGKILL)
        self._server.wait(5)

    def end(self) -> None:
        """Ends both processes. Idempotent."""
        with contextlib.suppress(Exception):  # it may be the server's death that we clean up after
            if self._connection is not None:
                self._connection.disconnect()
        self._connection = None
        if self._mapped is not None:
            with contextlib.suppress(BufferError):
                self._mapped.close()
            self._mapped = None
        end(self._openbox)
        end(self._server)
        self._remove_socket()

    def _remove_socket(self) -> None:
        """What a killed server leaves behind, unless another one has taken the number since."""
        path = f"/tmp/.X11-unix/X{self.number}"
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            try:
                client.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)

    def _fake(self, event: Any, detail: int, x: int = 0, y: int = 0) -> None:
        self._test.FakeInput(event.event_number, detail, 0, self.root, x, y, 0, is_checked=True).check()

    def _keycode(self, keysym: int) -> int:
        setup = self._connection.get_setup()
        first, count = setup.min_keycode, setup.max_keycode - setup.min_keycode + 1
        mapping = self._core.GetKeyboardMapping(first, count).reply()
        return first + list(mapping.keysyms).index(keysym) // mapping.keysyms_per_keycode

    def _send(self, target: int, window: int, kind: str, words: list[int], mask: int | None = None) -> None:
        data = self._x.ClientMessageData.synthetic(words, "IIIII")
        event = self._x.ClientMessageEvent.synthetic(32, window, self._atom(kind), data)
        if mask is None:
            mask = self._x.EventMask.SubstructureNotify | self._x.EventMask.SubstructureRedirect
        self._core.SendEvent(False, target, mask, event.pack(), is_checked=True).check()

    def _atom(self, name: str) -> int:
        if name not in self._atoms:
            self._atoms[name] = self._core.InternAtom(False, len(name), name).reply().atom
        return self._atoms[name]

    def _property(self, window: int, name: str) -> list[int]:
        """A property of 32-bit words; [] where there is none or no such window."""
        try:
            reply = self._core.GetProperty(False, window, self._atom(name), 0, 0, 1024).reply()
        except self._x.WindowError:
            return []
        return list(reply.value.to_atoms()) if reply.format == 32 else []

    def _text(self, window: int, name: str) -> str:
        try:
            reply = self._core.GetProperty(False, window, self._atom(name), 0, 0, 1024).reply()
        except self._x.WindowError:
            return ""
        return bytes(reply.value.buf()).decode() if reply.format == 8 else ""

    def __repr__(self) -> str:
        return f"<Xvfb {self.name}, process {self.pid}{'' if self.is_running else ', ended'}>"
