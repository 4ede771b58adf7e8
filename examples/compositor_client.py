"""A window in the one that `vkshare serve` shows, drawn at its display's ticks; run several of them at once."""

import os

import vkshare as vks


def main():
    try:
        with vks.compositor.Desktop(name="pulse") as desktop:  # connects to the compositor of this user
            at = 40 + os.getpid() % 400, 40
            window = desktop.open_window(320, 200, title="pulse", at=at)
            for tick in window.ticks():
                bright = abs(tick.id % 120 - 60) / 60
                with window.frame() as frame:
                    desktop.device.submit(desktop.device.record().clear(frame.surface, (bright, 0.2, 0.4, 1)))
    except (vks.RemoteLostError, vks.ClosedError):
        pass  # while this waited for a tick, or for a surface to draw on
    print("the compositor has ended")


if __name__ == "__main__":
    main()
