"""The C programs of examples/c_client and the core's receiver, compiled for the tests."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import socket
import subprocess
from functools import cache
from pathlib import Path

import pytest

from support import cmake_build
from support.cmake_build import ROOT
from vkshare.util import library

BUILD = ROOT / "build" / "examples"


def compiler() -> list[str]:
    """The C compiler's command; skips the test where there is none."""
    found = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or shutil.which("gcc") or ""]
    if not found[0]:
        pytest.skip("there is no C compiler here")
    return found


@cache
def program(name: str) -> Path:
    """cpu_client or vulkan_client, built if its sources are newer: seconds once, then some 50 ms a process."""
    compiler()
    cmake_build.build(BUILD, name, "-DVKSHARE_EXAMPLES=ON", "-DCMAKE_BUILD_TYPE=Debug")
    return BUILD / name


def compiled(folder: Path, source: str, *flags: str) -> Path:
    """What becomes of that C text."""
    text, made = folder / "made.c", folder / "made"
    text.write_text(source)
    command = [*compiler(), "-std=gnu11", "-I", str(ROOT / "native"), str(text), "-o", str(made), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


_RECEIVER = """
#include <stdio.h>
#include <string.h>
#include "vkshare.h"

#define EXPORTED __attribute__((visibility("default")))
#define RECEIVER(kind) \\
    EXPORTED int receive_##kind(int sock, void *body, char text[232]) \\
    { \\
        vks_##kind##_descriptor d; \\
        vks_clear_error(); \\
        vks_status status = vks_##kind##_descriptor_recv(sock, vks_now() + 50000000, &d); \\
        strcpy(text, vks_last_error()->text); \\
        memcpy(body, &d.body, sizeof d.body); \\
        vks_##kind##_descriptor_close(&d); \\
        vks_##kind##_descriptor_close(&d); \\
        return status; \\
    }
RECEIVER(surface)
RECEIVER(fence)
"""

OK, TIMEOUT, CLOSED, BAD_PAGE = 0, 1, 7, 14  # vks_status


class Receiver:
    """vks_surface_descriptor_recv() and vks_fence_descriptor_recv(), in this process."""

    def __init__(self, folder: Path) -> None:
        # The name of the library is that of vkshare._native's, which is loaded already and serves both.
        made = compiled(folder, _RECEIVER, "-shared", "-fPIC", *library.link_options())
        self._library = ctypes.CDLL(str(made))

    def receive(self, sock: socket.socket, kind: str = "surface") -> tuple[int, bytes, str]:
        """The status, the body's bytes, and the error's text."""
        body, text = ctypes.create_string_buffer(112), ctypes.create_string_buffer(232)
        status = self._library[f"receive_{kind}"](sock.fileno(), body, text)
        return status, body.raw, text.value.decode()
