# vkshare. `make demo` and `make test` set everything up by themselves; `make help` lists the rest.

PYTHON ?= python3
VENV := .venv/bin
SOURCES := CMakeLists.txt pyproject.toml $(shell find native cmake shaders -type f 2>/dev/null)
ARGS ?=
export T K

.DEFAULT_GOAL := help
.PHONY: help venv sysroot build setup optional-sysroot demo test test-full check ctest model rules mutants abi soak bench lint format shaders docs docs-images wheel sdist system-deps clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  ARGS='...' is passed on to demo, test, test-full, check, mutants, bench and soak"

venv: ## .venv with what vkshare and its developers need; names what the system lacks
	@$(PYTHON) tools/venv.py

sysroot: ## .cache/sysroot: drivers, validation layer and tools, without changing the system
	@$(PYTHON) tools/sysroot

# A make of its own: a .venv that was made anew has taken the stamp with it.
build: venv ## build the C core and install the package into .venv, editable
	@$(MAKE) --silent build/.stamp

# The editable install finds Python modules in the tree; only C and CMake need it again.
build/.stamp: $(SOURCES)
	@mkdir -p build
	@echo "build: the C core, into .venv"
	@flock build/.lock $(VENV)/pip install -qq --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

demo: build ## the main job: three processes draw one surface in turn
	$(VENV)/vkshare demo shared --output build/demo.png $(ARGS)

# The packages of .venv and the drivers of the sysroot are fetched at the same time. Without a sysroot the CPU backend
# is tested; the table says why the others were not.
setup: $(if $(and $(CI),$(filter 0,$(shell id -u))),system-deps)
	@$(MAKE) --no-print-directory -j2 build optional-sysroot

optional-sysroot:
	@$(PYTHON) tools/sysroot || true

test: setup ## the tests, in some minutes; ends with a table (ARGS='--only cpu', '-- -k fence', ...)
	$(VENV)/python tools/run_tests.py $(ARGS)

test-full: setup ## everything on each driver, ASAN, TSAN, the wheel on each interpreter; half an hour
	$(VENV)/python tools/run_tests.py --full $(ARGS)

check: build ## some tests on one driver, in seconds: T=tests/rules/core/test_fence.py K=signal D=lavapipe25
	@$(VENV)/python tools/check.py --driver "$(D)" $(if $(K),-k "$$K") $(if $(T),"$$T") $(ARGS)

ctest: venv ## the C tests: plain, under ASAN + UBSAN, and under TSAN
	$(VENV)/python tools/run_tests.py --full --only ctest

model: venv sysroot ## check the protocol's Promela model with spin
	$(VENV)/python tests/model/run.py $(ARGS)

rules: ## rule x backend, from the results of the last test or test-full
	$(VENV)/python tools/rules.py $(ARGS)

mutants: build sysroot ## break each rule once; its tests must notice (ARGS='K7 X3' selects)
	$(VENV)/python tools/mutants.py $(ARGS)

abi: build sysroot ## record the C library's binary interface in native/vkshare.abi
	$(VENV)/python tools/abi.py --write

soak: build sysroot ## the full volumes of the rules; takes hours
	VKSHARE_SOAK=1 $(VENV)/python tools/run_tests.py --full --limit 86400 $(ARGS)

bench: build ## measure (ARGS='submit --json', ARGS=all, ...)
	$(VENV)/python -m benchmarks $(ARGS)

C_SOURCES = $(shell git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | grep -v third_party)

lint: venv ## ruff, mypy, the layers, clang-format, prose, citations and docstrings: what would be changed
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports --no-cache --no-logo
	@$(VENV)/clang-format --dry-run --Werror $(C_SOURCES)
	$(VENV)/python tools/prose.py
	$(VENV)/python tools/citations.py
	$(VENV)/python tools/layers.py
	$(VENV)/python tools/docstrings.py

format: venv ## ruff and clang-format change the sources
	$(VENV)/ruff format .
	$(VENV)/clang-format -i $(C_SOURCES)

shaders: venv sysroot ## compile shaders/*.glsl to the checked-in SPIR-V
	$(VENV)/python tools/shaders.py

docs: build ## the site, in build/site: guide, reference, decisions, results
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --quiet --strict

docs-images: build sysroot ## draw the pictures in docs/images from real runs: presentation, vsync, server
	$(VENV)/pip install -qq --disable-pip-version-check 'matplotlib>=3.8'
	$(VENV)/python tools/figures.py

wheel: venv ## one abi3 wheel for CPython 3.11 and later and glibc 2.34 and later, in dist/
	$(VENV)/python tools/build_wheel.py

sdist: venv ## the source archive, in dist/
	$(VENV)/python -m build --sdist --no-isolation --outdir dist .

system-deps: ## root: install the display servers and compilers that the tests use
	tools/system-deps

clean: ## forget what was built (.venv and .cache stay)
	rm -rf build dist
