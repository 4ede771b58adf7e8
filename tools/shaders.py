#!/usr/bin/env python3
"""Compile shaders/*.vert, *.frag and *.comp to the SPIR-V beside them, and keep shaders/manifest.json.

    python tools/shaders.py            compile what changed (all of it when the compiler changed), validate all
    python tools/shaders.py --check    change nothing; exit 1 where hashes, spirv-val or (same compiler) bytes disagree

The manifest is {"compiler": version, "shaders": {"NAME.frag": sha256 of the GLSL}}; NAME.frag
becomes NAME.frag.spv. The hash goes on over shaders/*.glsl, which any of them may include.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHADERS = ROOT / "shaders"
MANIFEST = SHADERS / "manifest.json"
TARGET = "vulkan1.1"  # SPIR-V 1.3: every driver that we support takes it


def tool(name: str) -> str:
    """Return the path of a tool of the sysroot."""
    command = [sys.executable, str(ROOT / "tools" / "sysroot"), "--tool", name]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def compile_glsl(compiler: str, source: Path, target: Path) -> None:
    """Compile one shader; the compiler's message is the error's text."""
    command = [compiler, "-V", "--target-env", TARGET, "--quiet", "-o", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source.relative_to(ROOT)} does not compile:\n{done.stdout}{done.stderr}")


def sha256(source: Path) -> str:
    """Return the hash of a shader and of all that it may include."""
    files = [source, *sorted(SHADERS.glob("*.glsl"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    compiler, validator = tool("glslangValidator"), tool("spirv-val")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    sources = sorted(path for suffix in ("vert", "frag", "comp") for path in SHADERS.glob(f"*.{suffix}"))
    hashes = {path.name: sha256(path) for path in sources}
    known: dict[str, Any] = json.loads(MANIFEST.read_text()) if MANIFEST.is_file() else {"compiler": "", "shaders": {}}
    wrong = [f"{name}: the manifest has another hash" for name in hashes if known["shaders"].get(name) != hashes[name]]
    wrong += [f"{name}: in the manifest, not in shaders/" for name in known["shaders"] if name not in hashes]
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            spirv, fresh = SHADERS / f"{source.name}.spv", Path(folder) / source.name
            if known["compiler"] == version or not options.check:
                compile_glsl(compiler, source, fresh)
                if not spirv.is_file() or spirv.read_bytes() != fresh.read_bytes():
                    wrong.append(f"{spirv.name}: not what {version} makes of {source.name}")
                if not options.check:
                    spirv.write_bytes(fresh.read_bytes())
            command = [validator, "--target-env", TARGET, str(spirv)]
            checked = subprocess.run(command, capture_output=True, text=True, check=False)
            if checked.returncode:
                raise SystemExit(f"spirv-val {spirv.name}:\n{checked.stdout}{checked.stderr}")
    if options.check:
        print("\n".join(wrong) or f"{len(sources)} shaders agree with their SPIR-V")
        return int(bool(wrong))
    MANIFEST.write_text(json.dumps({"compiler": version, "shaders": hashes}, indent=1) + "\n")
    print(f"{len(sources)} shaders by {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
