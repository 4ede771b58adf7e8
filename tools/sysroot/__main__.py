"""Drivers and tools for tests, without changing the system.

    python3 tools/sysroot                 unpack signed Debian 12 packages into .cache/sysroot, once
    python3 tools/sysroot --env DRIVER    print KEY=VALUE lines that select lavapipe25, lavapipe22, swiftshader, cpu, or
                                          gpu (the system's own drivers), and the OpenGL that goes with it
    python3 tools/sysroot --tool NAME     print the path of glslangValidator, spirv-val, -opt, -as, -dis, spin,
                                          abidw or abidiff
    python3 tools/sysroot --emulator      print the path of qemu-aarch64-static, unpacked when first asked for
    python3 tools/sysroot --check         prove each driver: an instance with the validation layer, and its devices

Needs Python 3.11 or later, apt and dpkg; no root. VKSHARE_SYSROOT puts it elsewhere,
VKSHARE_DEBIAN_MIRROR names a Debian mirror.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import layout
import recipe
from debian import SysrootError


def check(sysroot: layout.Sysroot) -> int:
    """Run the probe once a driver; the CPU environment must have none."""
    failed = False
    for driver in (*recipe.DRIVERS, "cpu"):
        probe = Path(__file__).with_name("probe.py")
        environment = os.environ | sysroot.environment(driver)
        done = subprocess.run([sys.executable, str(probe)], env=environment, capture_output=True, text=True)
        text = done.stdout.strip() or done.stderr.strip()
        good = done.returncode == 0
        if driver == "cpu" and "VkResult -9" in text:  # VK_ERROR_INCOMPATIBLE_DRIVER
            good, text = True, "no Vulkan driver, as it should be"
        failed |= not good
        print(f"{driver:12} {'ok    ' if good else 'FAILED'} {text}")
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", metavar="DRIVER", choices=(*recipe.DRIVERS, "cpu", "gpu"))
    parser.add_argument("--tool", metavar="NAME")
    parser.add_argument("--emulator", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    # Answers go to stdout, so that a shell can take them; progress does not.
    sysroot = layout.Sysroot(layout.default_root(), say=lambda text: print(text, file=sys.stderr, flush=True))
    try:
        sysroot.ensure()
        if options.env:
            print("\n".join(f"{key}={value}" for key, value in sysroot.environment(options.env).items()))
        if options.tool:
            print(sysroot.tool(options.tool))
        if options.emulator:
            print(sysroot.emulator())
        return check(sysroot) if options.check else 0
    except SysrootError as error:
        print(f"tools/sysroot: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
