"""Each driver's surfaces on each other driver, in one process that has them all (rule G3)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vkshare import formats

ROOT = Path(__file__).parents[3]
DRIVERS = ("lavapipe25", "lavapipe22", "swiftshader")
PROGRAM = """
import json, sys
import numpy as np
import vkshare as vks
from vkshare.core.mirror import Mirror
from vkshare.errors import UnsupportedError

random = np.random.default_rng(1)

def codes(plane, dtype):
    if np.dtype(dtype).kind == "f":
        return random.random(plane).astype(dtype)
    return random.integers(0, np.iinfo(dtype).max, plane, endpoint=True).astype(dtype)

def moves(home, mirror):
    for writer, reader in ((home, mirror), (mirror, home), (home, mirror)):
        with writer.access(timeout=60):
            arrays = [codes(each.shape, each.dtype) for each in writer.read_planes()]
            writer.write_planes(arrays)
        with reader.access(timeout=60, writable=False):
            found = reader.read_planes()
        assert [each.tobytes() for each in found] == [each.tobytes() for each in arrays], (home, mirror)

report = {}
devices = [vks.open(each) for each in vks.adapters()]
for a in devices:
    for b in devices:
        if a is b:
            continue
        paths = {}
        for name in sys.argv[1:]:
            try:
                home = a.create_surface(38, 14, name)
            except UnsupportedError:
                continue
            try:
                mirror = b.mirror(home)
            except UnsupportedError as error:
                assert a.name in str(error) and b.adapter.name in str(error), error
                continue
            with home, mirror:
                moves(home, mirror)
                paths[name] = mirror.statistics().path if isinstance(mirror, Mirror) else "opened"
        report[f"{a.adapter.driver} -> {b.adapter.driver}"] = paths
for device in devices:
    device.close()
print(json.dumps(report))
"""


def all_drivers() -> dict[str, str]:
    """The environment of a process that has all of them."""
    found, files = dict(os.environ), []
    for driver in DRIVERS:
        command = [sys.executable, str(ROOT / "tools" / "sysroot"), "--env", driver]
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        variables = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
        if "VK_DRIVER_FILES" not in variables:
            pytest.skip(f"{driver} is not here: make sysroot")
        files.append(variables.pop("VK_DRIVER_FILES"))
        found.update(variables)
    found |= {"VK_DRIVER_FILES": os.pathsep.join(files), "VKSHARE_VALIDATION": "0"}
    return {name: value for name, value in found.items() if name not in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER")}


@pytest.mark.program
@pytest.mark.no_driver
@pytest.mark.rule("G1", "G3")
def test_each_pair_of_drivers_mirrors_every_format_that_both_have() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *formats.FORMATS],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=all_drivers(),
    )
    assert ended.returncode == 0, ended.stderr
    report: dict[str, dict[str, str]] = json.loads(ended.stdout)
    assert len(report) == 12
    for pair, paths in report.items():
        assert set(paths) == set(formats.FORMATS), pair  # these drivers have all of them
        assert set(paths.values()) <= {"memory", "host", "opened"}, pair
    assert "memory" in set().union(*(paths.values() for paths in report.values()))
