"""A process that may not call memfd_create(), as in some containers: every error names that call and what to do."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
from support import seccomp_filter
from support.tree_paths import TESTS

import vkshare as vks

pytestmark = pytest.mark.skipif(
    seccomp_filter.MEMFD_CREATE is None, reason="the number of memfd_create() is not known here"
)

PROGRAM = """
import sys
from support import seccomp_filter
import vkshare as vks, numpy  # noqa
from vkshare.core import device, surface, fence, queue as surface_queue  # noqa
early = None
if sys.argv[1] == "late":
    early = vks.open()
    early.create_surface(8, 8).close()
seccomp_filter.refuse(seccomp_filter.MEMFD_CREATE, int(sys.argv[2]))
device = early or vks.open()
for what, call in {
    "surface": lambda: device.create_surface(64, 64),
    "fence": lambda: device.create_fence().export(),
    "queue": lambda: vks.SurfaceQueue(device, 8, 8),
}.items():
    try:
        call()
    except Exception as error:
        print(f"{what}: {type(error).__name__}: {error}")
device.close()
"""


@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_each_error_names_memfd_create_and_the_seccomp_profile(vks_adapter: vks.Adapter, when: str, error: int) -> None:
    del vks_adapter  # the run's driver, which the program opens too
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, when, str(error)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reported = done.stdout.splitlines()
    assert [line.split(":")[0] for line in reported] == ["surface", "fence", "queue"], done.stdout
    for line in reported:
        assert ": UnsupportedError: " in line
        assert "memfd_create() was refused" in line
        assert "seccomp profile" in line
        assert "tiling" not in line
