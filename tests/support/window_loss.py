"""The beginning of programs that tests run while their window system goes away."""

LOSS = """
    import os, sys, time
    import vkshare as vks
    def tell(*words):
        print(*words, flush=True)
    def until_lost(call):
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            try:
                call()
            except vks.SurfaceLostError as error:
                assert "has gone away" in str(error), error
                return
            time.sleep(0.01)
        raise AssertionError("the loss was not noticed")
    def until_ended(pid):
        # Its socket still accepts connections until it has ended; the parent, a test, does not reap it before.
        with open(f"/proc/{pid}/stat") as file:
            while file.read().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
                file.seek(0)
"""

# handlers(): the two that Xlib has, put back at once.
X_HANDLERS = """
    import ctypes, os, signal, sys, time
    xlib = ctypes.CDLL("libX11.so.6")
    for name in ("XSetIOErrorHandler", "XSetErrorHandler"):
        getattr(xlib, name).restype = ctypes.c_void_p
        getattr(xlib, name).argtypes = [ctypes.c_void_p]
    def handlers():
        found = []
        for name in ("XSetIOErrorHandler", "XSetErrorHandler"):
            setter = getattr(xlib, name)
            found.append(setter(None))
            setter(found[-1])
        return found
"""
