#!/usr/bin/env python3
"""Break one rule at a time in a copy of the tree and demand that the rule's tests notice.

    python tools/mutants.py [RULE or PATCH ...]      e.g. K7, K7-2, X (all of X); nothing means all
    python tools/mutants.py --check                  only whether every patch applies to the tree as it is

tests/mutants/RULE.patch or RULE-n.patch is a unified diff (for `patch -p1`) with header lines before it:

    suite: pytest | ctest | model       which tests must turn red (pytest)
    driver: lavapipe25                  for pytest: the driver to run them on (cpu)
    select: -k expression               for pytest: more arguments; for ctest: a regular expression of test names
    why: one sentence                   what is broken

With pytest the rule's own tests run (--rule RULE). Exit status 1 for every patch that does not apply, does not build,
changes no binary, or stays green; also where a test that turned red is red without the patch too.
"""

from __future__ import annotations

import argparse
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from mutant_tree import Tree, snapshot
from results import ROOT
from test_jobs import sysroot

MUTANTS = ROOT / "tests" / "mutants"
PYTEST_FAILED = 1


@dataclass(frozen=True)
class Mutant:
    """One patch and how its tests are run."""

    patch: Path
    rule: str
    suite: str = "pytest"
    driver: str = "cpu"
    select: str = ""
    why: str = ""

    @classmethod
    def read(cls, patch: Path) -> Mutant:
        """Read a patch's header lines."""
        header = re.split(r"^(?:diff|---) ", patch.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
        fields = dict(re.findall(r"^(suite|driver|select|why):[ \t]*(.*?)[ \t]*$", header, flags=re.MULTILINE))
        return cls(patch, patch.stem.partition("-")[0], **fields)

    @property
    def files(self) -> set[str]:
        """The files that the patch changes."""
        return set(re.findall(r"^\+\+\+ b/(\S+)", self.patch.read_text(), flags=re.MULTILINE))


@dataclass
class Verdict:
    """What became of a mutant. `wrong` is "" when it was noticed, by `tests`, the first with `message`."""

    mutant: Mutant
    wrong: str = ""
    tests: list[str] = field(default_factory=list)
    message: str = ""


def red_tests(suite: str, output: str) -> tuple[list[str], str]:
    """Return the names of the tests that failed, and what the first said."""
    if suite == "ctest":
        names = re.findall(r"^\s*\d+ - (\w+) \(", output, flags=re.MULTILINE)
        said = re.search(r"^\S*?(\w+\.c:\d+: expected .*|FAIL .*)$", output, flags=re.MULTILINE)
    else:
        names = re.findall(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - |$)", output, flags=re.MULTILINE)
        said = re.search(r"^FAILED \S+?::.*? - (.*)$", output, flags=re.MULTILINE)
        if not names:  # pytest came to no end: the last test that it named failed, hung or crashed
            last = re.findall(r"^(tests/\S+?::\S.*?)(?: (FAILED|ERROR|Fatal|~|\+).*| )?$", output, flags=re.MULTILINE)[
                -1:
            ]
            crash = re.search(r"Fatal Python error: .*", output)
            return [name for name, _ in last], crash.group() if crash else "it hung" if last else ""
    return names, said.group(1) if said else ""


def run_tests(tree: Tree, mutant: Mutant) -> tuple[int, str]:
    """Run a mutant's tests in a tree; return their exit status and output."""
    if mutant.suite == "ctest":
        return tree.ctest(mutant.select)
    if mutant.suite == "model":
        return tree.model(Path(sysroot("--tool", "spin").stdout.strip()))
    return tree.pytest(mutant.driver, ["-x", "--rule", mutant.rule, *shlex.split(mutant.select)])


def judge(tree: Tree, mutant: Mutant) -> Verdict:
    """Break the tree, run the tests, mend it."""
    verdict = Verdict(mutant)
    # The unbroken tree comes first: its binaries are what the mutant's are compared with.
    if not tree.prepare(mutant.suite):
        verdict.wrong = "the tree does not build without it"
        return verdict
    try:
        if not tree.apply(mutant.patch, mutant.files):
            verdict.wrong = "does not apply"
        elif not (wrong := tree.build(mutant.suite)):
            status, output = run_tests(tree, mutant)
            verdict.tests, verdict.message = red_tests(mutant.suite, output)
            if status == 0:
                verdict.wrong = "stays green"
            elif mutant.suite == "pytest" and status not in (PYTEST_FAILED, 124, 137) and 0 < status < 128:
                verdict.wrong = f"its tests did not run (status {status})"
        else:
            verdict.wrong = wrong
    finally:
        tree.mend()
    return verdict


def judge_unbroken(tree: Tree, verdicts: list[Verdict]) -> list[str]:
    """Run the tests that turned red in the mended tree, where they must be green; return complaints."""
    if not tree.is_unbroken():
        return ["the mended tree does not build what it did before: do not believe these verdicts"]
    alone: dict[tuple[str, ...], Mutant] = {}
    together: dict[tuple[str, str], set[str]] = {}
    for verdict in verdicts:
        mutant = verdict.mutant
        if verdict.tests:
            together.setdefault((mutant.suite, mutant.driver), set()).update(verdict.tests)
        else:  # it hung or crashed: in which test, only its whole run can tell
            alone[mutant.suite, mutant.driver, mutant.select, mutant.rule] = mutant
    complaints = []
    for (suite, driver), tests in sorted(together.items()):
        if suite == "ctest":
            status, output = tree.ctest(f"^({'|'.join(sorted(tests))})$")
        else:
            status, output = tree.pytest(driver, sorted(tests))
        if status:
            red, message = red_tests(suite, output)
            complaints.append(f"red on {driver} without any patch: {', '.join(red) or f'status {status}'} ({message})")
    for mutant in alone.values():
        if run_tests(tree, mutant)[0]:
            complaints.append(f"{mutant.patch.stem}: its tests are red, or absent, without the patch too")
    return complaints


def select(names: list[str]) -> list[Mutant]:
    """Return the mutants that answer to these rules, patches or prefixes."""
    mutants = [Mutant.read(path) for path in sorted(MUTANTS.glob("*.patch"), key=lambda path: path.stem)]
    return [m for m in mutants if not names or {m.rule, m.rule[0], m.patch.stem} & set(names)]


def check(mutants: list[Mutant]) -> int:
    """Whether every patch applies; nothing is changed."""
    wrong = 0
    for mutant in mutants:
        command = ["patch", "-p1", "--dry-run", "--fuzz=1", "--batch", "--input", str(mutant.patch)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            wrong += 1
            print(f"{mutant.patch.stem} does not apply:\n{done.stdout}")
        elif "fuzz" in done.stdout:
            print(f"{mutant.patch.stem} applies with fuzz: make it anew")
    print(f"{len(mutants)} patches, {wrong} do not apply")
    return int(wrong > 0)


def run_all(mutants: list[Mutant], jobs: int, base: Path) -> tuple[list[Verdict], list[str]]:
    """Judge the mutants in `jobs` trees at once; return their verdicts, and complaints about the tests themselves."""
    original = snapshot(base / "original")
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    # C tests first, so that each tree changes from one build to the other at most once.
    for mutant in sorted(mutants, key=lambda m: m.suite):
        waiting.put(mutant)
    verdicts: list[Verdict] = []
    complaints: list[str] = []
    shares: list[list[Verdict]] = [[] for _ in range(jobs)]

    def work(number: int) -> None:
        tree = Tree(original, base / f"tree{number}")
        while not waiting.empty():
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                break
            started = time.monotonic()
            verdict = judge(tree, mutant)
            verdicts.append(verdict)
            shares[number].append(verdict)
            report(verdict, time.monotonic() - started)
        complaints.extend(judge_unbroken(tree, [verdict for verdict in shares[number] if not verdict.wrong]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return verdicts, complaints


def report(verdict: Verdict, seconds: float) -> None:
    """Print one line a mutant, and which test noticed it."""
    mutant = verdict.mutant
    told = verdict.wrong.upper() or "noticed"
    where = f"{mutant.patch.stem:7} {mutant.suite:6} {mutant.driver:10}"
    print(f"{where} {seconds:4.0f} s  {told:12} {mutant.why}", flush=True)
    if not verdict.wrong:
        by = verdict.tests[0].rpartition("::")[2] if verdict.tests else "the run's end: it hung or crashed"
        print(f"{'':33} by {by}: {verdict.message[:160]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="RULE")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep the trees and their logs, and name them")
    parser.add_argument("--check", action="store_true", help="only whether the patches apply")
    options = parser.parse_args()
    mutants = select(options.names)
    if not mutants:
        print(f"no mutant answers to {options.names or 'anything'} in tests/mutants", file=sys.stderr)
        return 1
    if shutil.which("patch") is None:
        print("patch(1) is not here: install it (apt install patch)", file=sys.stderr)
        return 1
    if options.check:
        return check(mutants)
    sysroot()  # once, before two of us ask for it
    base = Path(tempfile.mkdtemp(prefix="vkshare-mutants-"))
    started = time.monotonic()
    try:
        verdicts, complaints = run_all(mutants, max(1, min(options.jobs, len(mutants))), base)
    finally:
        if options.keep:
            print(f"the trees, and a log in each, are in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    for complaint in complaints:
        print(complaint)
    wrong = [verdict for verdict in verdicts if verdict.wrong]
    for verdict in wrong:
        print(f"{verdict.mutant.patch.stem}: {verdict.wrong}")
    count = len(wrong) + len(complaints) + len(mutants) - len(verdicts)
    print(f"{len(mutants)} mutants, {count} complaints, {time.monotonic() - started:.0f} s")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
