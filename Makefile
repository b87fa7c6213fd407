# Akin: `make demo` sets up what serves and serves the demo corpus; `make test` sets up the rest too, and tests.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Exact, and first: any other request for torch would bring several gigabytes of CUDA packages.
TORCH := torch==2.13.0
PYTHONS := 3.11 3.12 3.13
PORT ?= 8000
DEMO := .demo

# Where it is set, every process compiles all of its modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-system test-together test-forks check docs format bench screenshots trials pythons lock clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/compiled $(VENV)/developing ## Install all that tests and checks need into .venv

# Each of the two steps says what it does: the first takes minutes, once. With uv, which takes a tenth of the time;
# it knows nothing of pip's settings, so pip is asked where it fails. Bars are for people alone.
QUIETLY := $(shell test -t 2 || echo --quiet)
LOCKED_INTO = $(BIN)/uv pip install $(QUIETLY) --python $(BIN)/python --require-hashes --no-deps -r $(1) || \
  $(BIN)/pip install $(QUIETLY) --require-hashes --no-deps -r $(1)

$(VENV)/serving: local.lock docker/build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "Akin needs Python 3.11 to 3.13; name one with: make PYTHON=python3.11"; exit 1; }
	@echo "1/4 A virtual environment in $(VENV)/, with the installer uv"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --require-hashes -r docker/build.lock
	@echo "2/4 $(TORCH), the largest package (some 200 MB; on some machines its build for GPUs, gigabytes)"
	@$(BIN)/pip install $(QUIETLY) $(TORCH)
	@echo "3/4 The $$(grep -c '^[A-Za-z].*==' local.lock) other packages that index, search and serve"
	@$(call LOCKED_INTO,local.lock)
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/compiled: $(VENV)/serving
	@echo "4/4 Machine code for this processor (half a minute, once)"
	@$(BIN)/python -m akin.compiling
	@touch $@

$(VENV)/developing: $(VENV)/serving requirements.lock
	@echo "What tests and checks need beside"
	@$(call LOCKED_INTO,requirements.lock)
	@touch $@

demo: $(VENV)/compiled ## Index the demo corpus and serve it on 127.0.0.1:8000
	$(BIN)/akin demo --data $(DEMO) --port $(PORT)

test: setup ## Run the tests; of whole systems a sample
	@$(MAKE) --no-print-directory --jobs 2 test-forks test-together

# Tests write to memory where it has 4 GB free and programs may run from there: on a disk they wait for each
# file to be synchronised.
IN_MEMORY := $(if $(TMPDIR),,$(shell awk '/^MemAvailable/ { print ($$2 > 4000000) }' /proc/meminfo 2>/dev/null | \
  grep -q 1 && df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print ($$4 > 4000000) }' | grep -q 1 && \
  ! grep -q '^[^ ]* /dev/shm .*noexec' /proc/mounts && echo TMPDIR=/dev/shm))
# One thread each, on every core.
TOGETHER := $(IN_MEMORY) OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -m
test-together: setup
	$(TOGETHER) "not trial and not forks and not system"

test-system: setup ## Run the tests of whole systems: browser, processes, containers, a cluster, what is installed
	$(TOGETHER) "not trial and system"

# Writers that are killed fork, which only a process of one thread may.
test-forks: setup
	$(IN_MEMORY) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "not trial and forks" tests/trials/crashes

# Strict (mkdocs.yml): a warning is an error. Its advice to move to another program is not for every run.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

check: $(VENV)/developing ## Check format, lint, types, import rules and the site of the documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers auto
	$(BIN)/lint-imports
	$(SITE) build  # quieter, it would pass over warnings

docs: $(VENV)/developing ## Serve the site of the documents on 127.0.0.1:8001
	$(SITE) serve --dev-addr 127.0.0.1:8001

format: $(VENV)/developing ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The whole: make bench SUITE=full
SUITE := quick
bench: setup ## Measure speed beside the alternatives, and write docs/measured/performance.md
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --target build/peers -r benchmarks/peers.txt
	PYTHONPATH=build/peers $(BIN)/python -m benchmarks --suite $(SUITE) --json docs/measured/performance.json
	$(BIN)/python -m benchmarks.indexing.scale

screenshots: setup ## Take the pictures of the page in docs/images; needs Chromium
	$(BIN)/python -m docs.screenshots

# One of them: make trials TRIAL=tests/trials/crashes/test_crashes.py
TRIALS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m trial --timeout 0 --capture=no
trials: setup ## Run the long trials, which take hours: kills, damage, hostile requests, swaps, sizes
	$(if $(TRIAL),$(TRIALS) $(TRIAL),$(TRIALS) -m "trial and forks" tests/trials/crashes)  # apart: others have threads
	$(if $(TRIAL),,$(TRIALS) -m "trial and not forks")

# Each in an environment of its own, .venv-3.12 and so on; those that pyenv keeps are here too.
pythons: setup ## Test under each Python that Akin claims and that is here; check the wheels for the others
	@for version in $(PYTHONS); do \
	  python=$$(ls "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python 2>/dev/null | tail -1); \
	  if python$$version -c '' 2>/dev/null; then python=python$$version; fi; \
	  if [ -n "$$python" ]; then \
	    echo "== Python $$version: the tests" && $(MAKE) test test-system PYTHON="$$python" VENV=.venv-$$version || exit 1; \
	  else \
	    echo "== Python $$version is not here: the wheels of all dependencies" && \
	    for wanted in "$(TORCH)" "--require-hashes -r requirements.lock"; do \
	      $(BIN)/pip install --quiet --dry-run --ignore-installed --no-deps --only-binary=:all: \
	        --python-version $$version --target build/wheels $$wanted || exit 1; \
	    done; \
	  fi; \
	done

LOCKED := uv pip compile --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --quiet
SERVERS := --extra postgres --extra ray --extra redis --extra telemetry --constraints requirements.lock

lock: ## Resolve the dependencies anew into requirements.lock, local.lock and the locks of docker/
	$(BIN)/pip install --quiet uv
	$(BIN)/$(LOCKED) pyproject.toml --extra dev --no-emit-package torch -o requirements.lock
	$(BIN)/$(LOCKED) pyproject.toml --extra local --constraints requirements.lock --no-emit-package torch -o local.lock
	$(BIN)/$(LOCKED) pyproject.toml --extra serve $(SERVERS) -o docker/cpu.lock
	@! grep --quiet '^nvidia-' requirements.lock local.lock docker/cpu.lock && grep --quiet '^torch==.*+cpu ' docker/cpu.lock || { \
	echo "The locks hold torch for GPUs, with gigabytes of CUDA packages: set UV_FIND_LINKS to a folder that holds" \
	"the wheel of its CPU build."; exit 1; }
	env --unset=UV_FIND_LINKS $(BIN)/$(LOCKED) pyproject.toml --extra gpu $(SERVERS) \
	  --python-platform x86_64-manylinux_2_28 -o docker/cuda.lock
	@grep --quiet '^nvidia-' docker/cuda.lock || { echo "docker/cuda.lock holds no CUDA: the registry that uv \
	uses has a build of torch without it."; exit 1; }
	env --unset=UV_FIND_LINKS $(BIN)/$(LOCKED) pyproject.toml --extra cuvs $(SERVERS) \
	  --python-platform x86_64-manylinux_2_28 -o docker/cuvs.lock
	echo uv | $(BIN)/$(LOCKED) --no-annotate - -o docker/build.lock

clean: ## Remove what make made
	rm -rf $(VENV) $(addprefix .venv-,$(PYTHONS)) $(DEMO) build *.egg-info .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
