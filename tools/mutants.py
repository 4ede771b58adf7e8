#!/usr/bin/env python3
"""Break one rule at a time in a copy of the tree and demand that the rule's tests notice.

    python tools/mutants.py [RULE or MUTANT ...]     e.g. K7, K7-2, X (all of X); nothing means all
    python tools/mutants.py --check                  only whether every mutant fits the tree as it is

tests/mutants/FAMILY.toml lists the mutants of the rules K, X, Q, ..., at most two a rule:

    [[K7]]
    why = "what is broken, in one sentence"
    file = "native/surface/surface.c"
    before = '''the code as it stands'''        found once in the file, whatever its white space and its lines
    after = '''the code that breaks the rule'''
    edits = [{file, before, after}, ...]        in place of those three, where one change is not enough
    suite = "ctest"                             which tests must turn red: pytest (default), ctest or model
    driver = "lavapipe25"                       for pytest: the driver to run them on (cpu)
    select = "-k expression"                    for pytest: more arguments; for ctest: a regular expression of names

With pytest the rule's own tests run (--rule RULE). Exit status 1 for every mutant that does not
fit, does not build, changes no binary, or stays green; also where a test that turned red is red
without the mutant too.
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import re
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from mutant_tree import Tree, snapshot
from results import ROOT
from test_jobs import sysroot

MUTANTS = ROOT / "tests" / "mutants"
MOST = 2  # of a rule: each costs a build and a run of the rule's tests
PYTEST_FAILED = 1


@dataclass(frozen=True)
class Edit:
    """A snippet of a file, and what replaces it."""

    file: str
    before: str
    after: str

    def apply(self, text: str) -> str:
        """Return the file's text with the snippet replaced. ValueError: the snippet does not stand there once."""
        pattern = r"\s+".join(map(re.escape, self.before.split()))
        changed, found = re.subn(pattern, lambda _: self.after.strip("\n").lstrip(), text)
        if found != 1:
            raise ValueError(f"{self.file} has its snippet {found} times, and must have it once:\n{self.before}")
        return changed


@dataclass(frozen=True)
class Mutant:
    """One broken rule and how its tests are run."""

    name: str
    rule: str
    edits: tuple[Edit, ...]
    why: str
    suite: str = "pytest"
    driver: str = "cpu"
    select: str = ""

    @property
    def files(self) -> set[str]:
        """The files that the mutant changes."""
        return {edit.file for edit in self.edits}

    def apply(self, folder: Path) -> dict[str, str]:
        """Return the text of each file of a tree that the mutant changes, changed. ValueError: a snippet is lost."""
        texts = {name: (folder / name).read_text() for name in self.files}
        for edit in self.edits:
            texts[edit.file] = edit.apply(texts[edit.file])
        return texts


def load(folder: Path = MUTANTS) -> list[Mutant]:
    """Read every mutant, in the order of their rules."""
    mutants = []
    for path in sorted(folder.glob("*.toml")):
        for rule, entries in tomllib.loads(path.read_text()).items():
            if len(entries) > MOST or not rule.startswith(path.stem):
                raise ValueError(
                    f"{path.name}: {rule} has {len(entries)} mutants; allowed are {MOST}, in its family's file"
                )
            for number, entry in enumerate(entries, 1):
                edits = entry.pop("edits", None) or [{key: entry.pop(key) for key in ("file", "before", "after")}]
                mutants.append(Mutant(f"{rule}-{number}", rule, tuple(Edit(**edit) for edit in edits), **entry))
    return mutants


@dataclass
class Verdict:
    """The verdict on a mutant. `wrong` is "" if `tests` noticed it, the first with `message`."""

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
    # The unbroken tree comes first: its binaries are what the mutant's are compared with.
    if not tree.prepare(mutant.suite):
        return Verdict(mutant, "the tree does not build without it")
    try:
        if wrong := tree.apply(mutant) or tree.build(mutant.suite):
            return Verdict(mutant, wrong)
        status, output = run_tests(tree, mutant)
        tests, message = red_tests(mutant.suite, output)
        if status == 0:
            wrong = "stays green"
        elif mutant.suite == "pytest" and (not tests if status == PYTEST_FAILED else 0 < status < 124):
            wrong = f"its tests did not run (status {status})"
        return Verdict(mutant, wrong, tests, message)
    finally:
        tree.mend()


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
            complaints.append(f"red on {driver} without any mutant: {', '.join(red) or f'status {status}'} ({message})")
    for mutant in alone.values():
        if run_tests(tree, mutant)[0]:
            complaints.append(f"{mutant.name}: its tests are red, or absent, without the mutant too")
    return complaints


def select(names: list[str]) -> list[Mutant]:
    """Return the mutants that answer to these rules, names or prefixes."""
    return [m for m in load(MUTANTS) if not names or {m.rule, m.rule[0], m.name} & set(names)]


def check(mutants: list[Mutant]) -> int:
    """Whether every mutant fits; nothing is changed."""
    wrong = 0
    for mutant in mutants:
        try:
            mutant.apply(ROOT)
        except (OSError, ValueError) as error:
            wrong += 1
            print(f"{mutant.name} does not fit: {error}")
    print(f"{len(mutants)} mutants, {wrong} do not fit")
    return int(wrong > 0)


def run_all(mutants: list[Mutant], jobs: int, base: Path) -> tuple[list[Verdict], list[str]]:
    """Judge the mutants in `jobs` trees at once; return their verdicts, and complaints about the tests themselves."""
    original = snapshot(base / "original")
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    # C tests first, so that each tree changes from one build to the other at most once.
    for mutant in sorted(mutants, key=lambda m: m.suite):
        waiting.put(mutant)

    def work(number: int) -> tuple[list[Verdict], list[str]]:
        tree = Tree(original, base / f"tree{number}")
        verdicts: list[Verdict] = []
        with contextlib.suppress(queue.Empty):
            while True:
                mutant = waiting.get_nowait()
                started = time.monotonic()
                verdicts.append(judge(tree, mutant))
                report(verdicts[-1], time.monotonic() - started)
        return verdicts, judge_unbroken(tree, [verdict for verdict in verdicts if not verdict.wrong])

    with ThreadPoolExecutor(jobs) as threads:
        shares = list(threads.map(work, range(jobs)))
    return [verdict for share, _ in shares for verdict in share], [each for _, share in shares for each in share]


def report(verdict: Verdict, seconds: float) -> None:
    """Print one line a mutant, and which test noticed it."""
    mutant = verdict.mutant
    reported = verdict.wrong.upper() or "noticed"
    where = f"{mutant.name:7} {mutant.suite:6} {mutant.driver:10}"
    print(f"{where} {seconds:4.0f} s  {reported:12} {mutant.why}", flush=True)
    if not verdict.wrong:
        by = verdict.tests[0].rpartition("::")[2] if verdict.tests else "the run's end: it hung or crashed"
        print(f"{'':33} by {by}: {verdict.message[:160]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="RULE")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep the trees and their logs, and name them")
    parser.add_argument("--check", action="store_true", help="only whether the mutants fit")
    options = parser.parse_args()
    mutants = select(options.names)
    if not mutants:
        print(f"no mutant answers to {options.names or 'anything'} in tests/mutants", file=sys.stderr)
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
        print(f"{verdict.mutant.name}: {verdict.wrong}")
    count = len(wrong) + len(complaints) + len(mutants) - len(verdicts)
    print(f"{len(mutants)} mutants, {count} complaints, {time.monotonic() - started:.0f} s")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
