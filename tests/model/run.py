"""Checks the models of the shared pages with spin, then drops each point of the protocol and demands an objection.

    python tests/model/run.py [--quick | --full] [--only TEXT] [--json FILE] [--jobs N]

A model that holds must have been searched to the end (nothing truncated, no limit met); a model with a point left
out must give an error. Anything else is a surprise, and the exit status is 1. Needs spin and a C compiler; without them
everything is skipped, and the output says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from instances import FULL, QUICK, Instance

HERE = Path(__file__).resolve().parent
#: Safety properties only; every interleaving (partial-order reduction does not go with `unless` over shared variables).
PAN_FLAGS = ("-w", "-DSAFETY", "-DNOREDUCE", "-DNOFAIR")
#: Far deeper than any run of these models; a truncated search counts as a failure.
DEPTH = 10_000
#: 2**22 slots of the hash table to begin with: small variants start quickly.
HASH = 22
COMPILER = os.environ.get("CC", "cc")


@dataclass(frozen=True)
class Variant:
    """One run of the checker: an instance of a model, whole or with one point left out."""

    instance: Instance
    drop: str = ""

    @property
    def name(self) -> str:
        return f"{self.instance.model}/{self.instance.name}" + self.change

    @property
    def change(self) -> str:
        if not self.drop:
            return ""
        return f" without {self.drop[5:]}" if self.drop.startswith("DROP_") else f" with {self.drop}"

    @property
    def source(self) -> Path:
        return HERE / f"{self.instance.model}.pml"

    @property
    def defines(self) -> list[str]:
        defines = [f"-D{name}={value}" for name, value in self.instance.defines.items()]
        return defines + ([f"-D{self.drop}"] if self.drop else [])


@dataclass
class Result:
    variant: Variant
    verdict: str = ""  # "holds", "fails", or what kept the search from an answer
    states: int = 0
    depth: int = 0
    memory_mib: float = 0.0
    seconds: float = 0.0
    detail: str = ""
    rules: list[str] = field(default_factory=list)

    @property
    def expected(self) -> str:
        return "fails" if self.variant.drop else "holds"

    @property
    def as_expected(self) -> bool:
        return self.verdict == self.expected


def rules_of(source: Path) -> list[str]:
    """The rules that a model names in its comments, as `rule: K7 K8`."""
    named: set[str] = set()
    for line in re.findall(r"rule: ((?:[A-Z]\d+[ ,]*)+)", source.read_text()):
        named.update(re.findall(r"[A-Z]\d+", line))
    return sorted(named, key=lambda rule: (rule[0], int(rule[1:])))


def find_spin() -> str | None:
    """On PATH, else what tools/sysroot unpacked, if it did."""
    sysroot = HERE.parents[1] / "tools" / "sysroot"
    if not (path := shutil.which("spin")) and sysroot.exists():
        asked = call([sys.executable, str(sysroot), "--tool", "spin"], HERE, 600)
        path = shutil.which(asked.stdout.strip()) if asked.returncode == 0 else None
    return path


def call(command: list[str], folder: Path, limit_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False)


def build(spin: str, variant: Variant, folder: Path, memory_mib: int) -> str:
    """Makes the checker `pan`. Returns what went wrong, if anything."""
    translated = call([spin, f"-P{COMPILER} -E -x c", "-a", *variant.defines, str(variant.source)], folder, 60)
    if not (folder / "pan.c").exists():
        return "spin: " + " ".join((translated.stdout + translated.stderr).split())[:300]
    flags = [*PAN_FLAGS, f"-DMEMLIM={memory_mib}", *variant.instance.pan_flags]
    level = "-O0" if variant.drop else "-O1"  # an error is found soon: compiling takes longer than searching
    compiled = call([COMPILER, level, *flags, "-o", "pan", "pan.c"], folder, 120)
    return "" if compiled.returncode == 0 else "cc: " + compiled.stderr[:300]


def judge(output: str) -> tuple[str, str]:
    """The verdict of a run of pan, and why."""
    violation = re.search(r"pan:\d+: (assertion violated.*|invalid end state.*)", output)
    errors = re.search(r"errors: (\d+)", output)
    if not errors:
        return "no answer", " ".join(output.split())[-200:]
    if int(errors.group(1)):
        return ("fails", violation.group(1)) if violation else ("no answer", "an error of the checker's own")
    for excuse in ("max search depth too small", "Search not completed", "out of memory", "reached -DMEMLIM"):
        if excuse in output:
            return "not completed", excuse
    return "holds", ""


def number(pattern: str, output: str) -> float:
    found = re.search(pattern, output)
    return float(found.group(1)) if found else 0.0


def check(spin: str, variant: Variant, memory_mib: int, limit_s: float) -> Result:
    result = Result(variant, rules=rules_of(variant.source))
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vkshare-model-") as name:
        folder = Path(name)
        try:
            problem = build(spin, variant, folder, memory_mib)
            if problem:
                result.verdict, result.detail = "not built", problem
            else:
                output = call(["./pan", f"-m{DEPTH}", f"-w{HASH}", "-E"], folder, limit_s).stdout
                result.verdict, result.detail = judge(output)
                result.states = int(number(r"([\d.e+]+) states, stored", output))
                result.depth = int(number(r"depth reached (\d+)", output))
                result.memory_mib = number(r"([\d.]+)\s+total actual memory usage", output)
        except subprocess.TimeoutExpired:
            result.verdict, result.detail = "not completed", f"longer than {limit_s:.0f} s"
    result.seconds = time.monotonic() - started
    return result


def variants_of(instances: tuple[Instance, ...], only: str) -> list[Variant]:
    every = [Variant(i, drop) for i in instances for drop in ("", *i.drops)]
    return [v for v in every if only.lower() in v.name.lower()]


def report(result: Result) -> None:
    mark = "as expected" if result.as_expected else f"SURPRISE: {result.detail or 'nothing was found'}"
    numbers = f"{result.states:>11,} {result.depth:>6} {result.memory_mib:>6.0f} {result.seconds:>6.1f}"
    print(f"{result.variant.name:72} {numbers}  {result.verdict:13} {mark}", flush=True)


def write_json(path: Path, results: list[Result], skipped: str = "") -> None:
    """The form that tools/rules.py reads."""
    tests: list[dict[str, object]] = [
        {
            "id": r.variant.name,
            "outcome": "passed" if r.as_expected else "failed",
            "reason": "" if r.as_expected else f"expected {r.expected}, got {r.verdict}: {r.detail}",
            "rules": r.rules,
            "seconds": round(r.seconds, 2),
            "states": r.states,
            "depth": r.depth,
            "memory_mib": r.memory_mib,
            "verdict": r.verdict,
        }
        for r in results
    ]
    if skipped:
        for source in sorted(HERE.glob("*.pml")):
            tests.append({"id": source.stem, "outcome": "skipped", "reason": skipped, "rules": rules_of(source)})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"backend": "native", "suite": "model", "tests": tests}, indent=1) + "\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small instances, 90 s for all (the default)")
    size.add_argument("--holding", action="store_true", help="small and short ones that hold: for make test")
    size.add_argument("--full", action="store_true", help="larger instances too: for make soak")
    parser.add_argument("--only", default="", metavar="TEXT", help="variants whose name holds TEXT")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    spin = find_spin()
    if not spin or not shutil.which(COMPILER):
        reason = f"{COMPILER if spin else 'spin'} was not found (tools/sysroot brings spin)"
        print(f"model: skipped: {reason}")
        if options.json:
            write_json(options.json, [], reason)
        return 0
    variants = variants_of(QUICK + FULL if options.full else QUICK, options.only)
    if options.holding:
        variants = [variant for variant in variants if not (variant.drop or variant.instance.long)]
    memory_mib, limit_s = (12_000, 3600.0) if options.full else (2_000, 300.0)
    print(f"{'variant':72} {'states':>11} {'depth':>6} {'MiB':>6} {'s':>6}  {'verdict':13}")
    started = time.monotonic()
    results: list[Result] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda v: check(spin, v, memory_mib, limit_s), variants):
            report(result)
            results.append(result)
    surprises = sum(not r.as_expected for r in results)
    print(f"{len(results)} variants, {surprises} surprises, {time.monotonic() - started:.0f} s")
    print("What holds was searched to the end: no state left out, no depth truncated.")
    if options.json:
        write_json(options.json, results)
    return 1 if surprises or not results else 0


if __name__ == "__main__":
    sys.exit(main())
