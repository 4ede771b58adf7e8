"""The programs of examples/c_client and examples/cpp_engine, and the core's receiver, compiled for the tests."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import socket
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Self

import pytest

from support import cmake_build
from support.tree_paths import ROOT
from vkshare.util import library

BUILD = ROOT / "build" / "examples"


def compiler() -> list[str]:
    """The C compiler's command; skips the test where there is none."""
    return _command("CC", "cc", "gcc")


def cpp_compiler() -> list[str]:
    """The C++ compiler's command; skips the test where there is none."""
    return _command("CXX", "c++", "g++")


def _command(variable: str, *names: str) -> list[str]:
    found = shlex.split(os.environ.get(variable, "")) or [*filter(None, map(shutil.which, names))][:1]
    if not found:
        pytest.skip(f"there is no {' or '.join(names)} here")
    return found


@cache
def program(name: str) -> Path:
    """The path of cpp_engine or another, built if its sources are newer: seconds once, then some 50 ms a process."""
    compiler()
    cmake_build.build(BUILD, name, "-DVKSHARE_EXAMPLES=ON", "-DCMAKE_BUILD_TYPE=Debug")
    return BUILD / name


class Client:
    """A client that connected, and what it says."""

    def __init__(self, program: Path, folder: Path, *words: object, layers: str = "") -> None:
        path = folder / f"socket{time.monotonic_ns()}"
        env = os.environ | ({"VK_INSTANCE_LAYERS": layers} if layers else {})
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(30)
            self.process = subprocess.Popen(
                [program, path, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
            )
            self.socket, _ = listener.accept()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.socket.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self) -> tuple[int, str, str]:
        """Exit status, stdout, stderr."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


def complaints(said: str) -> list[str]:
    """Lines of the validation layer, but for its false ones."""
    lines = [line for line in said.splitlines() if "VUID" in line or "Validation Error" in line]
    # An image acquired from QUEUE_FAMILY_EXTERNAL in layout GENERAL is reported falsely on its first use (1.3.239).
    return [line for line in lines if "DrawState-InvalidImageLayout" not in line]


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
        body, text = ctypes.create_string_buffer(120), ctypes.create_string_buffer(232)
        status = self._library[f"receive_{kind}"](sock.fileno(), body, text)
        return status, body.raw, text.value.decode()
