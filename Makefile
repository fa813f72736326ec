# Every target makes what it needs: `make demo` and `make test` work on a fresh clone.
.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-spark coverage oracle chaos check format docs wheel check-wheel bench figures java lock audit clean

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV   := $(VENV)/.installed-dev
NAME  ?= windows
ARGS  ?=
SECONDS ?= 3600
QUERIES ?= 20000
VERSION ?= 4.0.1 4.1.1 4.2.0 4.3.0
SEED  ?=
DRAW  := $(if $(SEED),HEADRACE_SEED=$(SEED))

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP) ## make .venv with what running needs, pinned by requirements.lock

$(STAMP): requirements.lock pyproject.toml scripts/install
	@scripts/install $(VENV) requirements.lock
	@touch $@

$(DEV): requirements-dev.lock pyproject.toml scripts/install
	@scripts/install $(VENV) requirements-dev.lock
	@touch $@ $(STAMP)

demo: $(STAMP) ## a market stream and 1,000 standing queries, live (ARGS="--seconds 20")
	@scripts/java check
	@$(BIN)/headrace demo $(ARGS)

test: $(DEV) ## the tests (SEED=123 ARGS="tests/engine/test_oracle.py -k closed_window" repeats one)
	@scripts/java check
	@$(DRAW) $(BIN)/python -m tests.lanes -m "not slow and not nightly" $(ARGS)

test-all: $(DEV) ## the tests, the slow and nightly ones too, and other versions of Spark
	@scripts/java check
	@$(DRAW) $(BIN)/python -m tests.lanes $(ARGS)
	@$(if $(ARGS),:,$(DRAW) scripts/test-spark "$(VERSION)")

test-spark: ## a smoke test of everything on other versions of Spark (VERSION=4.0.1)
	@scripts/java check
	@$(DRAW) scripts/test-spark "$(VERSION)" $(ARGS)

coverage: $(DEV) ## the tests, and how much of the code they ran (ARGS="tests/sql")
	@scripts/java check
	@status=0; $(DRAW) $(BIN)/coverage run -m pytest -q -m "not slow and not nightly" $(ARGS) || status=$$?; \
	  $(BIN)/coverage report && exit $$status

oracle: $(DEV) ## thousands of random queries, each compared with Spark's answer (QUERIES=20000 SEED=7)
	@scripts/java check
	@$(BIN)/python -m tests.engine.many --queries $(QUERIES) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos: $(DEV) ## kills, full disks, damaged files and a wrong clock for an hour (SECONDS=600 SEED=7)
	@scripts/java check
	@$(BIN)/python -m tests.chaos.run --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

check: $(DEV) ## ruff, mypy, import rules
	@$(BIN)/ruff format --check --quiet src tests scripts || { echo 'run: make format' >&2; exit 1; }
	@$(BIN)/ruff check src tests scripts
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo --no-cache

format: $(DEV) ## lay the code out as `make check` wants it
	@$(BIN)/ruff format src tests scripts

# mkdocs --quiet would not count warnings, and --strict ends with an error only where some were counted.
docs: $(DEV) ## the site, in build/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

wheel: $(DEV) ## the package, in dist
	@rm -rf build/lib build/bdist.* dist && mkdir -p build
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist . >build/wheel.log 2>&1 || { cat build/wheel.log >&2; exit 1; }
	@ls dist/*.whl

check-wheel: wheel ## install that package where nothing else is, and run a stream with it
	@scripts/java check
	@scripts/check-wheel $(BIN)/python dist/*.whl

bench: $(DEV) ## a benchmark (NAME=windows ARGS="--quick")
	@scripts/java check
	@$(BIN)/headrace bench $(NAME) $(ARGS)

figures: $(DEV) ## the README's table of figures, out of the results in docs/figures, and the pictures of docs
	@$(BIN)/python -m headrace.bench.figures
	@$(BIN)/python -m headrace.bench.joins_picture docs/stabbing.svg
	@$(BIN)/python -m headrace.bench.plain_picture docs/plain.svg
	@$(BIN)/python -m headrace.bench.windows_picture docs/panes.svg

java: ## install Debian's headless Java runtime
	@scripts/java install

COMPILE = $(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: $(DEV) ## pin the newest versions that pyproject.toml allows, with their hashes: for users, and for developers
	@$(COMPILE) --output-file requirements.lock pyproject.toml
	@$(COMPILE) --extra dev --extra bench --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml

audit: $(DEV) ## look the pinned versions up among known vulnerabilities
	@scripts/audit $(BIN) requirements.lock requirements-dev.lock

clean: ## remove .venv and what tools leave behind
	@rm -rf $(VENV) build dist .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
