#!/usr/bin/env python3
"""Print rule x backend from the results of the last `make test` or `make test-full`: passed, failed, skipped and why.

    python tools/rules.py [RULE or PREFIX ...]      e.g. K X9

A rule holds on a backend when at least one of its tests passed there and none failed. Tests of the
C core and of the model stand under `native` and count for the CPU backend, which runs nothing else.
The rules are those of docs/spec; a mark there (pages only, Vulkan only) says that a rule concerns
one of cpu and lavapipe25 alone. `make test` leaves out what `make test-full` has: a rule without a
test in these results is named at the end, as one that did not run. Exit status 1 when a rule did
not pass on cpu or lavapipe25, where it concerns them, or failed anywhere.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

import specification
from results import NATIVE, Case, Results, load_all
from specification import Rule

BACKENDS = (NATIVE, "cpu", "lavapipe25", "lavapipe22", "swiftshader", "gpu")
Table = dict[str, dict[str, list[Case]]]  # rule -> backend -> its tests


def tests_by_rule(all_results: list[Results]) -> Table:
    """Sort every test of a run by the rules that it names and the backend that it ran on."""
    table: Table = defaultdict(lambda: defaultdict(list))
    for results in all_results:
        for test in results.tests:
            for rule in test.rules:
                table[rule][results.backend].append(test)
    return table


def verdict(tests: list[Case]) -> str:
    """Return passed, failed, skipped, or a dash where no test ran at all."""
    outcomes = {test.outcome for test in tests}
    return next((outcome for outcome in ("failed", "passed", "skipped") if outcome in outcomes), "-")


def missing_backends(rule: Rule, by_backend: dict[str, list[Case]]) -> list[str]:
    """Return the backends on which a rule had to pass and did not."""
    needed = [backend for backend, is_needed in (("cpu", rule.cpu), ("lavapipe25", rule.vulkan)) if is_needed]
    missing = []
    for backend in needed:
        tests = by_backend.get(backend, []) + (by_backend.get(NATIVE, []) if backend == "cpu" else [])
        if verdict(tests) != "passed":
            missing.append(backend)
    failed = [backend for backend, tests in by_backend.items() if verdict(tests) == "failed"]
    return [*missing, *(backend for backend in failed if backend not in missing)]


def how_open(missing: list[str], by_backend: dict[str, list[Case]]) -> str:
    """Say on which backends a rule failed or was skipped, and on which no test of it ran."""
    absent = [backend for backend in missing if not by_backend.get(backend)]
    ran = [backend for backend in missing if backend not in absent]
    said = [f"not passed on {', '.join(ran)}"] if ran else []
    said += [f"did not run on {', '.join(absent)}, run `make test-full`"] if absent else []
    return "; ".join(said)


def main() -> int:
    rules = specification.read()
    all_results = load_all()
    if not all_results:
        print("there are no results: run `make test` first", file=sys.stderr)
        return 1
    table = tests_by_rule(all_results)
    if unknown := sorted(set(table) - set(rules)):
        print(f"tests name rules that docs/spec does not have: {', '.join(unknown)}", file=sys.stderr)
    wanted = [rule for rule in rules if not sys.argv[1:] or rule in sys.argv[1:] or rule[0] in sys.argv[1:]]
    print(f"{'rule':5}" + "".join(f"{backend:12}" for backend in BACKENDS) + "text")
    open_rules: dict[str, list[str]] = {}
    for rule in wanted:
        by_backend = table.get(rule, {})
        verdicts = "".join(f"{verdict(by_backend.get(backend, [])):12}" for backend in BACKENDS)
        print(f"{rule:5}{verdicts}{rules[rule].text}")
        whys = Counter(f"{b}: {t.reason}" for b, tests in by_backend.items() for t in tests if t.outcome != "passed")
        for why in whys:
            print(f"{'':5}{why}")
        if missing := missing_backends(rules[rule], by_backend):
            open_rules[rule] = missing
    print(f"\n{len(wanted) - len(open_rules)} of {len(wanted)} rules passed where they must")
    for rule, missing in open_rules.items():
        print(f"{rule}: {how_open(missing, table.get(rule, {}))}")
    return int(bool(open_rules) or bool(unknown))


if __name__ == "__main__":
    sys.exit(main())
