# One verb per task. `make` alone lists them. CI runs the same verbs.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
SEEDS   ?= 10000
JOBS    ?= 6
WITHOUT := -p no:schemathesis -p no:anyio  # pytest plugins that no test here uses, and that every process would import

.DEFAULT_GOAL := help
.PHONY: help install install-dev up test parts test-parts web web-check screenshots constraints lint fmt reference docs release bench compare sim chaos soak clean

# Tests start hundreds of processes, so Python may write compiled code, even if the environment forbids it.
test test-parts bench compare sim chaos soak: export PYTHONDONTWRITEBYTECODE =

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[36m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Create .venv with timeball in it (PYTHON=python3.12 picks another interpreter)

install-dev: $(VENV)/.installed-dev ## Create .venv with all that tests, linters and benchmarks need

up: install ## Start Timeball on http://127.0.0.1:1300
	$(BIN)/timeball up

test: install-dev ## Run every test, on SQLite and on a temporary PostgreSQL (ARGS="-k cron" selects some)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(WITHOUT) $(ARGS)

parts: install-dev ## Install real servers and tools for make test-parts into .parts (asks first, unless CI=true)
	$(BIN)/python -m tests.parts

test-parts: PYTEST = $(BIN)/python -m pytest $(WITHOUT) -m parts
test-parts: install-dev ## Run the full suites against the parts; a failed test is run once more and reported
	@test -e .parts/installed || test "$$CI" != true || { echo "The parts are missing. Run: make parts"; exit 1; }
	@$(PYTEST) $(ARGS); code=$$?; test $$code -eq 1 || exit $$code; \
		echo "Tests failed, see above. Running the failed tests again:"; \
		$(PYTEST) --last-failed --last-failed-no-failures none $(ARGS) && echo "The tests failed at first and passed in the second run."

web: install-dev ## Build the web UI from web/ into src/timeball/web/static (needs Node 20.19 or newer, or gets one)
	$(BIN)/python -m scripts.web build

web-check: install-dev ## Check the web UI: lint, types, tests, and that the committed bundle is what the sources give
	$(BIN)/python -m scripts.web check

screenshots: parts ## Take a picture of every page of the web UI into build/screenshots (ARGS="overview jobs" selects some)
	$(BIN)/python -m tests.parts.browser.screenshots $(ARGS)

constraints: ## Pin the newest versions that pyproject.toml allows in constraints.txt, for every supported Python
	$(PYTHON) -m venv build/uv && build/uv/bin/pip install --quiet --disable-pip-version-check uv
	build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --extra dev --extra docs --upgrade \
		--no-header --no-annotate --output-file constraints.txt pyproject.toml

lint: install-dev ## Check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: install-dev ## Format the code
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

reference: install-dev ## Generate docs/reference and parts of docs/design from the code
	$(BIN)/python -m scripts.reference
	$(BIN)/python -m scripts.promises
	$(BIN)/python -m scripts.states

docs: install-dev ## Build the documentation site with search in build/site
	$(BIN)/properdocs build --strict

release: install-dev ## Build sdist, wheel, bill of materials and checksums of HEAD into dist, twice, and compare the bytes
	$(BIN)/python -m scripts.release $(ARGS)

bench: install-dev ## Measure throughput, lateness and growth (ARGS="lifecycle --quick" selects some)
	$(BIN)/python -m bench $(ARGS)

compare: install-dev ## Fail if the working tree is slower than BASE=REV (default: bench/BASE); at most 40 minutes
	$(BIN)/python -m bench.compare $(if $(BASE),--base $(BASE)) $(ARGS)

sim: install-dev ## Simulate SEEDS=10000 fault schedules, and check cron in 50,000 random cases
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)
	TIMEBALL_CRON_CASES=50000 $(BIN)/python -m pytest -n $(JOBS) tests/properties -k cron

chaos: MINUTES ?= 10
chaos: install-dev ## Break a fleet of real processes for MINUTES=10, and check every promise (ARGS="--faults kill")
	$(BIN)/timeball chaos --minutes $(MINUTES) $(ARGS)

soak: MINUTES ?= 20
soak: install-dev ## Attack servers on both stores for MINUTES=20 beside 200 honest jobs per second, and check every promise
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

clean: ## Remove .venv, caches and build products
	rm -rf $(VENV) .parts build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Timeball needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The stamp files are newer than both prerequisites as long as nothing has to be installed again.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.installed
