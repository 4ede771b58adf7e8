#!/usr/bin/env python3
"""Check that the layers of the C core depend downwards only: by their includes, and by the symbols of their objects.

    python tools/layers.py                    the includes of native/
    python tools/layers.py --objects FOLDER   the objects too: FOLDER has them as native/LAYER/FILE.c.o (a CMake build)

CMakeLists.txt has the layers in order, from the lowest. A layer may use itself and the layers below
it. One line an upward edge; exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from results import ROOT


def order(root: Path = ROOT) -> list[str]:
    """The layers, from the lowest."""
    found = re.search(r"foreach\(layer ([\w ]+)\)", (root / "CMakeLists.txt").read_text())
    if not found:
        raise SystemExit("layers: CMakeLists.txt has no `foreach(layer ...)` that lists the layers in order")
    return [*found[1].split(), "python"]


def include_edges(root: Path, layers: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yields (layer, layer above it, reason) for each include that points upwards."""
    for layer in layers:
        for path in sorted((root / "native" / layer).glob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = re.match(r'#\s*include "(\w+)/', line)
                if found and found[1] in layers and layers.index(found[1]) > layers.index(layer):
                    yield layer, found[1], f"{path.relative_to(root)}:{number}: {line.strip()}"


def built(root: Path = ROOT) -> Path | None:
    """The folder of the objects that `make build` made; None: it was not run."""
    return next(iter(root.glob("build/RelWithDebInfo-*/CMakeFiles/vkshare_core.dir")), None)


def symbols(objects: Iterable[Path]) -> Iterator[tuple[Path, str, bool]]:
    """Yields (object, symbol, whether the object defines it) of the global symbols."""
    command = ["nm", "--print-file-name", "-g", *map(str, objects)]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        path, _, rest = line.rpartition(":")
        kind, name = rest.split()[-2:]
        yield Path(path), name, kind != "U"


def source(path: Path) -> str:
    """The source file of an object, from the root."""
    return f"native/{path.parent.name}/{path.name.removesuffix('.o')}"


def object_edges(root: Path, folder: Path, layers: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yields (layer, layer above it, reason) for each symbol that an object takes from a higher layer."""
    objects = sorted(path for path in folder.rglob("*.c.o") if path.parent.parent.name == "native")
    current = [path for path in objects if (root / source(path)).exists()]  # a build keeps objects of removed files
    found = list(symbols(current))
    homes = {name: path.parent.name for path, name, is_defined in found if is_defined and path.parent.name in layers}
    for path, name, is_defined in found:
        layer, home = path.parent.name, homes.get(name)
        if layer in layers and not is_defined and home and layers.index(home) > layers.index(layer):
            yield layer, home, f"{source(path)} uses {name}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--objects", type=Path, help="a folder of CMake with the objects")
    options = parser.parse_args(arguments)
    layers = order(options.root)
    edges = [*include_edges(options.root, layers)]
    if options.objects:
        edges += object_edges(options.root, options.objects, layers)
    for layer, above, reason in edges:
        print(f"{layer} -> {above}, which is above it: {reason}")
    return 1 if edges else 0


if __name__ == "__main__":
    sys.exit(main())
