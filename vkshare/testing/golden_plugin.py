"""The part of the pytest plugin that has the fixture vks_golden, and the results of the whole run.

Under xdist the controller gives its workers the run's id, adds up their reports, and writes the
page.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from vkshare.testing.goldens import Golden, GoldenRun

_FOLDER = "vks_goldens"
_RESULTS = "vks_results"
_run = pytest.StashKey["GoldenRun"]()
_lines = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_FOLDER, "folder of the reference pictures, from rootdir (default: goldens, beside the test)")
    parser.addini(_RESULTS, "folder of the pictures that fail, from rootdir", default="build/vks-goldens")


def _run_of(config: pytest.Config) -> GoldenRun:
    """Return the run of this process; the first call creates it."""
    from vkshare.testing.goldens import GoldenRun

    if _run not in config.stash:
        given = getattr(config, "workerinput", {}).get("vks_run")
        results = config.rootpath / str(config.getini(_RESULTS))
        updates = bool(config.getoption("vks_update_goldens"))
        config.stash[_run] = GoldenRun(config.rootpath, results, run=given, updates=updates)
    return config.stash[_run]


@pytest.fixture
def vks_golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a picture with its reference: ``vks_golden(surface_or_array, "name", tolerance=1)``."""
    from vkshare.testing.goldens import Golden

    named = str(request.config.getini(_FOLDER))
    folder = request.config.rootpath / named if named else Path(request.path).parent / "goldens"
    # vks_adapter is a parameter of the tests that take a device; asking for it would add it to others.
    has_adapter = "vks_adapter" in request.fixturenames
    adapter = request.getfixturevalue("vks_adapter") if has_adapter else None
    return Golden(_run_of(request.config), request.node.nodeid, folder, adapter)


# ---- the run -----------------------------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["vks_run"] = _run_of(node.config).run


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", None) or {}  # a worker that crashed has none
    if "vks_goldens" in output:
        _run_of(node.config).join(output["vks_goldens"])


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _run not in config.stash:
        return
    run = config.stash[_run]
    if hasattr(config, "workeroutput"):
        config.workeroutput["vks_goldens"] = run.output()
        return
    from vkshare.testing.failures import PAGE

    remaining, approved = run.finish()
    lines = [f"{each.path.relative_to(run.root.resolve())}  {each.failure.test}" for each in approved]
    if remaining:
        page = run.results / PAGE
        lines.append(f"{len(remaining)} differ: {page.as_uri()}")
        lines.append("`vkshare approve` takes them over as references")
    config.stash[_lines] = lines


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(_lines, [])
    if lines:
        terminalreporter.section("goldens")
        for line in lines:
            terminalreporter.write_line(line)
