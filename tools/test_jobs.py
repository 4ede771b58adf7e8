"""The jobs of a test run: which suite runs on which backend, by which commands, in which environment.

A new job is a function that returns a `Job`, and one line in `all_jobs`. A new module of pytest
needs nothing here; its marks (pyproject.toml) say on which drivers it runs,
tests/support/run_volumes.py how much it does.
"""

from __future__ import annotations

import glob
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from results import NATIVE, RESULTS, ROOT, Results, from_junit

DRIVERS = ("cpu", "lavapipe25", "swiftshader", "lavapipe22", "gpu")  # the longest first
WHOLE_DRIVERS = ("cpu", "lavapipe25", "gpu")  # others run what is marked driver_dependent alone in `make test`
SERIAL_DRIVERS = ("cpu", "lavapipe25")  # in `make test`; in `make test-full` each driver has a serial part
PARTS = {"cpu": 4, "lavapipe25": 4}  # that run beside each other, each with every fourth module
INTERPRETERS = ("3.11", "3.12", "3.13", "3.14")
PYTEST = [sys.executable, "-m", "pytest", "--continue-on-collection-errors"]
NO_TESTS_COLLECTED = 5  # pytest's exit status
C_BUILDS = {"tsan": "thread", "asan": "address,undefined", "plain": ""}  # the longest first
C_BUILDS_OF_TEST = ("plain",)
KILLS = {False: "300", True: "10000"}  # in native/tests/test_kills.c, by whether this is `make test-full`
ARGUMENT_CALLS = {False: "8000", True: "1000000"}  # in native/tests/test_arguments.c, the latter under ASAN (C8)
ZIG = "0.17.1"  # a C compiler for other architectures, with their C libraries
ZIG_FDS = 4096
OLDEST_CMAKE = "3.22.6"  # CMakeLists.txt's cmake_minimum_required, of which PyPI has this release


@dataclass
class Job:
    """One row of the table. `unavailable` says why it cannot run here; `alone` keeps others away while it measures."""

    backend: str
    suite: str
    commands: list[list[str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    collect: Callable[[], Results | None] = lambda: None
    unavailable: str = ""
    alone: bool = False
    accepts: tuple[int, ...] = (0,)
    again: Callable[[str], str] = lambda test: ""  # the command that runs one of its tests again

    @property
    def name(self) -> str:
        """The job's name in file names and on the command line."""
        return f"{self.backend}.{self.suite}"

    @property
    def results_path(self) -> Path:
        """Where its results are kept."""
        return RESULTS / f"{self.name}.json"

    def answers_to(self, names: set[str]) -> bool:
        """Return whether one of `names` means this job: its backend, suite, the suite's first word, or all."""
        first = self.suite.partition("-")[0]
        return bool(names & {self.backend, self.suite, first, f"{self.backend}.{first}", self.name})


def our_environment() -> dict[str, str]:
    """Ours, with bytecode kept: tests start thousands of processes, of which each would compile everything anew."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def venv_path() -> dict[str, str]:
    """Return the PATH on which the venv's programs come first: cmake, ninja, ctest."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def sysroot(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run tools/sysroot; its progress goes to our stderr."""
    command = [sys.executable, str(ROOT / "tools" / "sysroot"), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | (environment or {}), check=False)


def driver_environment(driver: str) -> dict[str, str] | None:
    """Return the variables that select a driver, None where the sysroot cannot be made."""
    done = sysroot("--env", driver)
    return None if done.returncode else dict(line.split("=", 1) for line in done.stdout.splitlines())


def all_jobs(pytest_arguments: list[str], *, full: bool = False) -> list[Job]:
    """Return every job of `make test`, or of `make test-full`, the long ones first, and those that cannot run here."""
    jobs = [job for driver in DRIVERS for job in _pytest_jobs(driver, pytest_arguments, full)]
    jobs += [_ctest_job(build, full) for build in C_BUILDS if full or build in C_BUILDS_OF_TEST]
    jobs.append(_model_job(full))
    if full:
        jobs += [_wheel_job(version) for version in INTERPRETERS]
        jobs += [_cmake_job(), _aarch64_job()]
    return jobs


# --- pytest, a driver at a time


def pytest_environment(driver: str) -> dict[str, str]:
    """Return the variables that make pytest run on a driver, those of the sysroot aside."""
    return {
        "VKSHARE_TEST_DRIVER": driver,
        "VKSHARE_BACKEND": "cpu" if driver == "cpu" else "vulkan",
        "VKSHARE_VALIDATION": "1",
        "PYTHONFAULTHANDLER": "1",
    }


def _pytest_jobs(driver: str, arguments: list[str], full: bool) -> Iterator[Job]:
    environment, unavailable = prepare_driver(driver)
    environment |= pytest_environment(driver) | ({"VKSHARE_FULL": "1"} if full else {})
    selection = [] if full else ["--brief"]
    for suite, marks, files in _pytest_suites(driver, 1 if arguments else PARTS.get(driver, 1), full):
        job = Job(driver, suite, environment=environment, unavailable=unavailable, alone=marks == "serial")
        results = results_options(job.results_path, driver)
        job.commands = [[*PYTEST, *selection, "-m", marks, *results, *(arguments or files)]]
        job.collect = _loader(job.results_path, suite)
        job.accepts = (0, NO_TESTS_COLLECTED) if job.alone or arguments else (0,)
        job.again = lambda test: f"make check D={driver} T={shlex.quote(test)}"
        yield job


def _pytest_suites(driver: str, parts: int, full: bool) -> Iterator[tuple[str, str, list[str]]]:
    """The suites of a driver: their names, the marks of their tests, and the modules that have such tests.

    To collect the other modules takes longer than to run some of these suites.
    """
    modules = sorted((ROOT / "tests").rglob("test_*.py"))
    if not full and driver not in WHOLE_DRIVERS:
        modules = [path for path in modules if "driver_dependent" in path.read_text()]
    for part in range(parts):
        name = f"pytest-{part + 1}" if parts > 1 else "pytest"
        yield name, "not serial", [str(path) for path in modules[part::parts]]
    if full or driver in SERIAL_DRIVERS:
        yield "pytest-serial", "serial", [str(path) for path in modules if "mark.serial" in path.read_text()]


def results_options(path: Path, backend: str) -> list[str]:
    """Return pytest's options that write a results file."""
    return ["--results", str(path), "--results-backend", backend]


def _loader(path: Path, suite: str) -> Callable[[], Results | None]:
    def load() -> Results | None:
        if not path.is_file():
            return None
        results = Results.load(path)
        results.suite = suite
        return results

    return load


def prepare_driver(driver: str) -> tuple[dict[str, str], str]:
    """Return the sysroot's variables for a driver, and why it cannot run here where it cannot."""
    environment = driver_environment(driver)
    if driver == "cpu" and environment is None:
        # The CPU backend needs nothing of the sysroot, only that no driver is found.
        return {"VK_DRIVER_FILES": str(ROOT / ".cache" / "no-driver.json")}, ""
    if environment is None:
        return {}, "tools/sysroot could not be made (its message is above)"
    if driver != "gpu":
        return environment, ""
    devices = [*Path("/dev").glob("nvidiactl"), *Path("/dev/dri").glob("renderD*")]
    if not devices:
        return {}, "no real GPU here (neither /dev/nvidiactl nor /dev/dri/renderD*)"
    probe = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "sysroot" / "probe.py"), "--gpu"],
        env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return environment, "" if probe.returncode == 0 else "no Vulkan driver for a real GPU here"


# --- C tests, the model, the wheel


def _ctest_job(build: str, full: bool) -> Job:
    folder = ROOT / "build" / build
    junit = RESULTS / f"ctest-{build}.xml"
    job = Job(NATIVE, f"ctest-{build}", environment=driver_environment("lavapipe25") or {})
    job.environment |= venv_path() | {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1",
        "TSAN_OPTIONS": "second_deadlock_stack=1",
        "VKS_ARGUMENT_CALLS": os.environ.get("VKS_ARGUMENT_CALLS", ARGUMENT_CALLS[full and build == "asan"]),
        "VKS_KILLS": os.environ.get("VKS_KILLS", KILLS[full]),
    }
    run = ["ctest", "--test-dir", str(folder), "-j2", "--no-tests=error", "--output-on-failure"]
    job.commands = [*c_build_commands(build), [*run, "--output-junit", str(junit)]]
    if build == "tsan" and shutil.which("setarch"):
        # TSAN cannot map its shadow where the kernel randomises addresses widely.
        job.commands[-1][:0] = ["setarch", os.uname().machine, "-R"]
    job.collect = lambda: from_junit(junit, ROOT / "native" / "tests", job.suite) if junit.is_file() else None
    job.again = lambda test: f"make check D={build} T={test}"
    return job


def c_build_commands(build: str) -> list[list[str]]:
    """Return the commands that bring one of the C tests' builds up to date."""
    folder = str(ROOT / "build" / build)
    options = ["-DVKSHARE_PYTHON=OFF", "-DVKSHARE_TESTS=ON", "-DVKSHARE_KILL_POINTS=ON"]
    sanitize = f"-DVKSHARE_SANITIZE={C_BUILDS[build]}"
    return [
        ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", folder, *options, sanitize],
        ["cmake", "--build", folder, "-j2"],
    ]


def _cmake_job() -> Job:
    """Build the C core with the oldest CMake that CMakeLists.txt accepts, run one test, and use what it installs."""
    folder = ROOT / "build" / "cmake"
    old, tree, junit = folder / OLDEST_CMAKE, str(folder / "tree"), RESULTS / "ctest-cmake.xml"
    example, engine = ROOT / "examples" / "c_library", str(folder / "engine")
    job = Job(NATIVE, "cmake", environment=venv_path())
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
    cmake, ctest = (["env", f"PYTHONPATH={old}", str(old / "bin" / name)] for name in ("cmake", "ctest"))
    options = ["-DVKSHARE_PYTHON=OFF", "-DVKSHARE_TESTS=ON", "-DVKSHARE_EXAMPLES=ON", "-DVKSHARE_FAULT_LAYER=ON"]
    job.commands = [
        [*pip, "--upgrade", "--target", str(old), f"cmake=={OLDEST_CMAKE}"],
        [*cmake, "-G", "Ninja", "-S", str(ROOT), "-B", tree, *options],
        [*cmake, "--build", tree, "-j2"],
        [*cmake, "--install", tree, "--prefix", str(folder / "usr")],
        [*cmake, "-G", "Ninja", "-S", str(example), "-B", engine, f"-DCMAKE_PREFIX_PATH={folder / 'usr'}"],
        [*cmake, "--build", engine],
        [f"{engine}/engine"],
        [*ctest, "--test-dir", tree, "--no-tests=error", "-R", "^test_decimal$", "--output-junit", str(junit)],
    ]
    job.collect = lambda: from_junit(junit, ROOT / "native" / "tests", job.suite) if junit.is_file() else None
    return job


def _aarch64_job() -> Job:
    """Build the C core for another architecture and C library, and run the rasteriser's tests in an emulator (E21)."""
    folder = ROOT / "build" / "aarch64"
    zig, tree, junit = folder / "zig", str(folder / "tree"), RESULTS / "ctest-aarch64.xml"
    job = Job(NATIVE, "aarch64", environment=venv_path() | {"ZIG_GLOBAL_CACHE_DIR": str(folder / "cache")})
    emulator = sysroot("--emulator")
    if emulator.returncode:
        job.unavailable = "qemu is not here: tools/sysroot could not unpack it"
        return job
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < ZIG_FDS:
        job.unavailable = f"zig has each file of a C library open: {ZIG_FDS} fds, and the hard limit is {most}"
        return job
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
    compiler = f"{zig / 'ziglang' / 'zig'};cc;-target;aarch64-linux-musl"
    options = [
        "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_C_COMPILER={compiler}",
        f"-DCMAKE_CROSSCOMPILING_EMULATOR={emulator.stdout.strip()}", "-DCMAKE_EXE_LINKER_FLAGS=-static",
        "-DVKSHARE_PYTHON=OFF", "-DVKSHARE_TESTS=ON",
    ]  # fmt: skip
    names = sorted(path.stem for path in (ROOT / "native" / "tests").glob("test_raster*.c"))
    job.commands = [
        [*pip, "--upgrade", "--target", str(zig), f"ziglang=={ZIG}"],
        ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", tree, *options],
        ["cmake", "--build", tree, "-j2", "--target", *names],
        [
            "ctest",
            "--test-dir",
            tree,
            "--no-tests=error",
            "-R",
            "^test_raster",
            "--output-on-failure",
            "--output-junit",
            str(junit),
        ],
    ]
    job.collect = lambda: from_junit(junit, ROOT / "native" / "tests", job.suite) if junit.is_file() else None
    return job


def _model_job(full: bool) -> Job:
    job = Job(NATIVE, "model")
    script = ROOT / "tests" / "model" / "run.py"
    spin = sysroot("--tool", "spin")
    if spin.returncode:
        job.unavailable = "spin is not here: tools/sysroot could not be made"
    else:
        job.environment = {"PATH": f"{Path(spin.stdout.strip()).parent}:{os.environ['PATH']}"}
        volume = "--full" if os.environ.get("VKSHARE_SOAK") else "--quick" if full else "--holding"
        job.commands = [[sys.executable, str(script), volume, "--json", str(job.results_path)]]
        job.collect = _loader(job.results_path, "model")
        job.again = lambda test: f"make model ARGS={shlex.quote(f'--only {shlex.quote(test)}')}"
    return job


def _wheel_job(version: str) -> Job:
    job = Job(f"python{version}", "wheel")
    interpreter = find_interpreter(version)
    if interpreter is None:
        job.unavailable = f"no usable python{version} was found on PATH or in pyenv"
        return job
    job.environment, _ = prepare_driver("cpu")
    job.environment |= {"VKSHARE_TEST_DRIVER": "cpu", "VKSHARE_BACKEND": "cpu"}
    script = str(ROOT / "tools" / "test_wheel.py")
    job.commands = [[sys.executable, script, interpreter, "--results", str(job.results_path)]]
    job.collect = _loader(job.results_path, job.suite)
    job.again = lambda test: f"make test-full ARGS='--only {job.name}'"
    return job


def find_interpreter(version: str) -> str | None:
    """Return a CPython of that version that can make virtual environments, on PATH or among pyenv's.

    The environment that runs us is left out: one made from it would depend on it. Folders may be
    unreadable.
    """
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    folders = [folder for folder in os.environ["PATH"].split(":") if folder != os.path.dirname(sys.executable)]
    candidates = [os.path.join(folder, f"python{version}") for folder in folders]
    candidates += sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python{version}"), reverse=True)
    test = f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for path in candidates:
        if not os.access(path, os.X_OK):
            continue
        if subprocess.run([path, "-c", test], capture_output=True, check=False).returncode == 0:
            return path
    return None
