"""The contracts of pyproject.toml, [tool.importlinter]: each shelf of vkshare/ imports only those below it."""

from __future__ import annotations

import ast
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest
from results import ROOT

pytestmark = pytest.mark.no_driver

PROGRAMS = {"cli", "demos", "testing"}  # they use vkshare by its public names
NOT_LAZY = {"_native", "__version__"}  # names that vkshare has without loading a shelf


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts in a folder with a vkshare/ of its own, which the editable install must not hide (-S)."""
    command = [sys.executable, "-S", "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    paths = [os.fspath(folder), *site.getsitepackages()]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"}
    return subprocess.run(
        [*command, "--no-cache", "--no-logo"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("vkshare", "benchmarks"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_no_shelf_imports_one_above_it(copy: Path) -> None:
    ran = lint(copy)
    assert (ran.returncode, "0 broken" in ran.stdout) == (0, True), ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("file", "planted", "seen"),
    [
        ("util/deadline.py", "import vkshare.core.fence\n", "util is not allowed to import vkshare.core"),
        ("core/access.py", "def late():\n    from vkshare.server import client\n", "core is not allowed to import"),
        ("ipc/sockets.py", "if TYPE_CHECKING:\n    import vkshare.core.view\n", "ipc is not allowed to import"),
        ("present/images.py", "from vkshare.vsync import tick\n", "present is not allowed to import vkshare.vsync"),
        ("vsync/throttle.py", "import threading\n", "vkshare.vsync.throttle is not allowed to import threading"),
        ("interop/cuda/driver.py", "import vkshare.interop.gl.egl\n", "cuda is not allowed to import"),
        ("core/queue.py", "from benchmarks import measure\n", "vkshare is not allowed to import benchmarks"),
    ],
)
def test_a_planted_import_that_points_up_breaks_a_contract(copy: Path, file: str, planted: str, seen: str) -> None:
    with (copy / "vkshare" / file).open("a") as source:
        source.write(f"\nfrom typing import TYPE_CHECKING\n{planted}")
    ran = lint(copy)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert seen in ran.stdout


def test_a_shelf_without_a_place_in_the_order_breaks_the_contract(copy: Path) -> None:
    (copy / "vkshare" / "novel").mkdir()
    (copy / "vkshare" / "novel" / "__init__.py").touch()
    ran = lint(copy)
    assert ran.returncode == 1
    assert "novel" in ran.stdout


def test_shelves_take_no_public_name_from_the_package_because_it_loads_a_shelf_that_the_contract_does_not_see() -> None:
    shelves = {path.stem for path in (ROOT / "vkshare").iterdir()}
    for path in sorted((ROOT / "vkshare").glob("*/**/*.py")):
        if path.relative_to(ROOT / "vkshare").parts[0] in PROGRAMS:
            continue
        for node in run_time_imports(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert all(alias.name != "vkshare" for alias in node.names), path
            elif node.module == "vkshare":
                assert {alias.name for alias in node.names} <= shelves | NOT_LAZY, path


def run_time_imports(node: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports of a module and its functions, without those for annotations."""
    found: list[ast.Import | ast.ImportFrom] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        found += [child] if isinstance(child, (ast.Import, ast.ImportFrom)) else run_time_imports(child)
    return found
