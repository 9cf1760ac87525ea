# Headnode.  `make` alone lists what it can do.

PYTHON ?= python3
VENV ?= .venv
TESTS ?=
# Percent of the random and exhaustive tests; make test-all runs all of them.
DEPTH ?= 25
# Tests of real processes mostly wait: seven files at a time, also on two processors.  Chaos has the machine to itself.
TESTS_SIDE_BY_SIDE := tests/contracts tests/core tests/project tests/scenarios
TESTS_ALONE := $(addprefix tests/live/test_,chaos.py chaos_of_machines.py chaos_of_verbs.py)
# Folders whose tests find each other; files of two folders may have one name.
TESTS_OF_TYPES := tests/contracts tests/core tests/live tests/project tests/scenarios
TESTS_BY_FILE := tests/live $(addprefix --ignore=,$(TESTS_ALONE))
# What differs between Pythons: warnings, sockets, processes, parsers.
TESTS_OF_PYTHONS ?= -n auto tests/contracts tests/core/cli tests/core/formats/test_round_trips.py tests/scenarios/test_cli_real_head.py
MANDIR ?= .man/man1
DEB ?= .deb
RPM ?= .rpm
WHEELS ?= dist
FUZZ_SECONDS ?= 60
BENCHMARKS ?= $(filter-out benchmarks/heads.py benchmarks/peers.py,$(wildcard benchmarks/*.py))

# Modules and tests are compiled once, not by each process that imports them.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
# What pip says is shown as it comes where it is a terminal: an installation takes a minute.
PIP := $(BIN)/python -m pip --disable-pip-version-check $(if $(MAKE_TERMOUT),,--quiet)
# hn in C, which hands commands to a resident client; without a compiler hn stays the script that pip has written.
LAUNCHER := packaging/launcher/hn.c packaging/launcher/build

.DEFAULT_GOAL := help
.PHONY: help install deb rpm wheels demo man test test-all test-pythons test-cgroup2 bless pictures format-lock check release house bench bench-compare fuzz format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## make .venv with hn in it
	@echo "installed: $(BIN)/hn"

deb: $(VENV)/.installed ## build a Debian package with all that Headnode needs; DEB=DIRECTORY says where
	@packaging/debian/build $(abspath $(BIN))/hn $(DEB)

rpm: $(VENV)/.installed ## build an RPM package with all that Headnode needs; RPM=DIRECTORY says where
	@packaging/rpm/build $(abspath $(BIN))/hn $(RPM)

wheels: $(VENV)/.with-tools ## build what pip installs: the source, a wheel with the launcher, one without; WHEELS=DIRECTORY
	@$(BIN)/python -m build --quiet --outdir $(WHEELS) .
	@HEADNODE_PURE_WHEEL=1 $(BIN)/python -m build --quiet --wheel --outdir $(WHEELS) .
	@ls $(WHEELS)/headnode-*

demo: $(VENV)/.installed ## start a cluster on this machine and watch three jobs run
	@$(BIN)/python -P -m headnode.apps.demo

man: $(VENV)/.installed ## write the manual pages; MANDIR=/usr/local/share/man/man1 says where
	@$(BIN)/hn man --directory $(MANDIR)

test: $(VENV)/.with-tools ## run the tests; TESTS=tests/core runs some
ifeq ($(strip $(TESTS)),)
	@failed=0; run="$(BIN)/python -m pytest -rs --depth $(DEPTH)"; \
	$$run -n auto --dist worksteal $(TESTS_SIDE_BY_SIDE) || failed=1; \
	$$run -n 7 --dist loadfile --no-loadscope-reorder $(TESTS_BY_FILE) || failed=1; \
	$$run $(TESTS_ALONE) || failed=1; exit $$failed
else
	@$(BIN)/python -m pytest -rs --depth $(DEPTH) $(TESTS)
endif

test-all: ## run the tests at full depth: what is random or exhaustive, whole
	@$(MAKE) --no-print-directory DEPTH=100 test

test-pythons: $(VENV)/.with-tools ## run the demo and TESTS_OF_PYTHONS under each other supported Python on this machine
	@for python in $$($(BIN)/python scripts/supported_pythons.py); do \
	venv=$(VENV)/other/$$(basename $$python); echo "== $$($$python --version)"; \
	$(MAKE) --no-print-directory PYTHON=$$python VENV=$$venv demo && \
	$(MAKE) --no-print-directory PYTHON=$$python VENV=$$venv TESTS="$(TESTS_OF_PYTHONS)" test || exit 1; done

test-cgroup2: $(VENV)/.with-tools ## test limits on nodes in a guest with control groups of version 2 alone
	@$(BIN)/python tests/guest/run.py

bless: format-lock ## write golden files, schemas and reference pages anew; read the difference
	@$(BIN)/python -m headnode.apps.cli.schemas
	@cp src/headnode/core/formats/schemas/* docs/reference/
	@PYTHONPATH=tests $(BIN)/python -m documents.command_line > docs/reference/command-line.md
	@PYTHONPATH=tests $(BIN)/python -m documents.program_options > docs/reference/program-options.md
	@PYTHONPATH=tests $(BIN)/python -m documents.job_languages > docs/reference/job-languages.md
	@PYTHONPATH=tests:scripts $(BIN)/python scripts/sdk_source.py
	@PYTHONPATH=tests $(BIN)/python -m documents.transition_pages > docs/contracts/02-job-task-node-states.md
	@HEADNODE_BLESS=1 $(BIN)/python -m pytest tests/scenarios/test_golden_screens.py tests/scenarios/test_golden_help.py \
	tests/scenarios/test_golden_conversions.py tests/scenarios/test_generated_log.py tests/project/test_glossary.py tests/project/test_protocol_page.py tests/project/test_rest_routes.py
	@git status --short tests/golden docs src/headnode/core/formats/schemas src/headnode/sdk

pictures: $(VENV)/.with-tools ## draw the pictures of the console in docs/pictures anew, with Chromium
	@PYTHONPATH=tests:tests/live $(BIN)/python scripts/console_pictures.py

format-lock: $(VENV)/.with-tools ## add to the lock of the released format what is new; write the samples of this version
	@PYTHONPATH=tests $(BIN)/python -m documents.released_format $$($(BIN)/hn --version | cut -d' ' -f2)

release: format-lock ## record journals and conversations of this version, and release it: it is never changed from now on
	@PYTHONPATH=tests:tests/core/state:tests/scenarios $(BIN)/python -m documents.released_journals $$($(BIN)/hn --version | cut -d' ' -f2)
	@PYTHONPATH=tests:tests/live $(BIN)/python -m documents.released_conversations $$($(BIN)/hn --version | cut -d' ' -f2)
	@PYTHONPATH=tests $(BIN)/python -m documents.released_format $$($(BIN)/hn --version | cut -d' ' -f2) --release

check: $(VENV)/.with-tools ## format, lint, types, names in tests, layers, purity of core, docs that match the code
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@for tests in $(TESTS_OF_TYPES); do MYPYPATH=$$tests:tests/core/batch:tests/core/scheduling/pool:tests/scenarios \
	$(BIN)/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests $$tests || exit 1; done
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest tests/project

bench: $(VENV)/.installed ## print what was promised, measured here; BENCHMARKS=benchmarks/journal.py runs one
	@missed=; for one in $(BENCHMARKS); do echo "== $$one"; PYTHONPATH=tests $(BIN)/python "$$one" || missed="$$missed $$one"; done; \
	test -z "$$missed" || { echo "below what was promised:$$missed" >&2; exit 1; }

bench-compare: $(VENV)/.installed ## compare processor time with another revision: REV=HEAD~1
	@$(BIN)/python scripts/bench_compare.py $(REV)

house: $(VENV)/.installed ## count files, lines, class names, import circles, beside their goals
	@$(BIN)/python scripts/house.py --list

fuzz: $(VENV)/.with-fuzzer ## throw strange bytes at the parsers; PARSERS="sss grid" FUZZ_SECONDS=600 for some, for longer
	@for one in $(or $(PARSERS),$$(cd fuzz && $(abspath $(BIN))/python -c 'import parsers; print(*parsers.PARSERS)')); do \
	echo "== $$one"; $(BIN)/python fuzz/fuzz.py "$$one" $(FUZZ_SECONDS) || exit 1; done

format: $(VENV)/.with-tools ## put the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## take away .venv and what the tools keep
	rm -rf $(VENV) .fuzz .man .deb .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The stamps say what is installed; a change of pyproject.toml installs again, one of the launcher builds it again.

$(VENV)/.packages: pyproject.toml packaging/launcher/wheel.py
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"Headnode needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; name another: make PYTHON=python3.12")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "the venv module of $(PYTHON) is missing; as root: apt-get install python3-venv" >&2; exit 1; }
	@echo "making $(VENV) and installing Headnode into it; this takes about a minute ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --editable . || { echo "pip could not install Headnode, see above; it needs a package index: https://pypi.org, or one that pip is configured for (PIP_INDEX_URL)" >&2; exit 1; }
	@$(BIN)/python -m compileall -q src/headnode
	@touch $@

$(VENV)/.installed: $(VENV)/.packages $(LAUNCHER)
	@packaging/launcher/build $(BIN)/hn || true
	@touch $@

$(VENV)/.with-fuzzer: $(VENV)/.packages | $(VENV)/.installed
	@echo "installing atheris ..."
	@$(PIP) install --editable '.[fuzz]' || { echo "atheris has no package for this Python; use one it has: make VENV=.fuzz/venv PYTHON=python3.12 fuzz" >&2; exit 1; }
	@touch $@

$(VENV)/.with-tools: $(VENV)/.packages | $(VENV)/.installed
	@echo "installing what the tests need ..."
	@$(PIP) install --editable '.[dev]'
	@$(PIP) install --editable '.[integrations]' || echo "Snakemake, Dask or PSI/J is not available: their tests are skipped" >&2
	@touch $@
