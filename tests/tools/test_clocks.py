"""No test asserts how long something took: a busy machine stops a test for as long as it likes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from support.tree_paths import TESTS

pytestmark = pytest.mark.no_driver

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time_ns"}
LEAST = 10  # seconds: a limit that only ends a hang
# `support/time_limits.py` has the limits that end hangs, and what is measured in the serial part.
EXEMPT = ("support/time_limits.py", "tools/test_clocks.py")


class Function:
    """What a test's function does with clocks: times, differences of times, deadlines that come soon."""

    def __init__(self, node: ast.AST):
        self._body = [each for part in ast.iter_child_nodes(node) for each in _outside_lambdas(part)]
        self._times: set[str] = set()
        self._durations: set[str] = set()
        self._soon: set[str] = set()
        for _ in range(3):  # what is computed from what was computed
            for each in self._body:
                self._learn(each)

    def asserts(self) -> Iterator[int]:
        """Lines that assert how long something took, or that it took less than LEAST seconds."""
        for each in self._body:
            if isinstance(each, ast.Assert) and any(self._judges(part) for part in ast.walk(each.test)):
                yield each.lineno

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign | ast.AugAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            if self._is_duration(node.value):
                self._durations |= names
            elif self._is_soon(node.value):
                self._soon |= names
            elif self._is_time(node.value):
                self._times |= names
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            kept = node.func.value
            if isinstance(kept, ast.Name) and any(self._is_duration(argument) for argument in node.args):
                self._durations.add(kept.id)

    def _judges(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Compare) or "process_time" in ast.unparse(node):  # a ratio to work done is none
            return False
        sides = [node.left, *node.comparators]
        return any(self._is_duration(side) for side in sides) or (
            any(_reads_clock(side) for side in sides) and any(_names(side) & self._soon for side in sides)
        )

    def _is_time(self, node: ast.AST) -> bool:
        return _reads_clock(node) or bool(_names(node) & self._times)

    def _is_duration(self, node: ast.AST) -> bool:
        return bool(_names(node) & self._durations) or any(
            isinstance(each, ast.BinOp)
            and isinstance(each.op, ast.Sub)
            and self._is_time(each.left)
            and self._is_time(each.right)
            for each in ast.walk(node)
        )

    def _is_soon(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Add)
            and self._is_time(node.left)
            and isinstance(node.right, ast.Constant)
            and isinstance(node.right.value, int | float)
            and node.right.value < LEAST
        )


def _outside_lambdas(node: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Lambda):
        yield node
        for each in ast.iter_child_nodes(node):
            yield from _outside_lambdas(each)


def _reads_clock(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in CLOCKS
        for each in _outside_lambdas(node)
    )


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in _outside_lambdas(node) if isinstance(each, ast.Name)}


def judgements(source: str) -> list[int]:
    """Lines of a module that assert about wall-clock time."""
    if not any(clock in source for clock in CLOCKS):
        return []
    functions = (
        each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return sorted({line for each in functions for line in Function(each).asserts()})


def test_no_test_asserts_how_long_something_took() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if not str(path.relative_to(TESTS)).startswith(EXEMPT)
        for line in judgements(path.read_text())
    ]
    assert not found, f"see tests/support/time_limits.py: {', '.join(found)}"


@pytest.mark.parametrize(
    "body",
    [
        "start = time.monotonic(); f(); assert time.monotonic() - start < 1",
        "start = time.monotonic(); f(); took = time.monotonic() - start; assert 0.1 <= took < 2",
        "a = time.perf_counter(); took = []; took.append(time.perf_counter() - a); assert max(took) < 0.2",
        "end = time.monotonic() + 5; assert time.monotonic() < end",
    ],
)
def test_an_assertion_about_a_duration_is_found(body: str) -> None:
    assert judgements(f"def test(): {body}")


@pytest.mark.parametrize(
    "body",
    [
        "end = time.monotonic() + 20; assert time.monotonic() < end",
        "before = time.monotonic_ns(); t = f(); assert before <= t <= time.monotonic_ns()",
        "start = time.monotonic(); print(time.monotonic() - start); assert f()",
    ],
)
def test_limits_that_end_a_hang_and_the_order_of_times_are_left_alone(body: str) -> None:
    assert not judgements(f"def test(): {body}")
