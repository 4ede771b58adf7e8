"""The binary interface of the C library is the recorded one, and a change of it is found."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import abi
import pytest

pytestmark = [pytest.mark.no_driver, pytest.mark.slow]

HEADER = """
typedef struct vks_device vks_device;
typedef struct vks_frame { unsigned index, width, height; unsigned long generation; } vks_frame;
int vks_device_wait_idle(vks_device *device, unsigned long deadline);
int vks_swapchain_drop(vks_device *device, const vks_frame *frame);
"""
SOURCE = """
#include "vkshare.h"
struct vks_device { int more; };
int vks_device_wait_idle(vks_device *device, unsigned long deadline) { return device->more + (int)deadline; }
int vks_swapchain_drop(vks_device *device, const vks_frame *frame) { return device->more + (int)frame->index; }
"""


@pytest.mark.rule("C6")
def test_the_interface_of_the_library_is_the_recorded_one() -> None:
    changed = abi.differences(abi.RECORD, abi.library())
    assert not changed, f"raise VKSHARE_SOVERSION if old programs would not survive it, then run make abi:\n{changed}"


@pytest.mark.rule("C6")
@pytest.mark.parametrize(
    ("before", "after", "is_found"),
    [
        ("height; unsigned long generation", "height; unsigned generation", True),
        ("unsigned long deadline)", "unsigned deadline)", True),
        ("int vks_swapchain_drop", "long vks_swapchain_drop", True),
        ("int more;", "long more;", False),  # within an opaque type
        ("device->more + (int)frame", "device->more - (int)frame", False),
    ],
)
def test_a_change_of_the_interface_is_found(tmp_path: Path, before: str, after: str, is_found: bool) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no cc here")

    def built(name: str, header: str, source: str) -> Path:
        (tmp_path / "vkshare.h").write_text(header)
        (tmp_path / "made.c").write_text(source)
        made = tmp_path / name
        command = [compiler, "-g", "-shared", "-fPIC", "-I", tmp_path, tmp_path / "made.c", "-o", made]
        subprocess.run([*map(str, command)], check=True)
        return made

    abi.write(tmp_path / "record", built("old.so", HEADER, SOURCE), tmp_path)
    new = built("new.so", HEADER.replace(before, after), SOURCE.replace(before, after))
    assert bool(abi.differences(tmp_path / "record", new, tmp_path)) == is_found
