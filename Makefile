# Every target makes what it needs: `make demo` and `make test` work on a fresh clone.
.DEFAULT_GOAL := help
.PHONY: help install demo test test-all check bench figures java lock clean

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
NAME  ?= windows
ARGS  ?=

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(STAMP) ## make .venv with everything, pinned by requirements.lock

$(STAMP): requirements.lock pyproject.toml scripts/install
	@scripts/install $(VENV)
	@touch $@

demo: $(STAMP) ## a market stream and 1,000 standing queries, live (ARGS="--seconds 20")
	@scripts/java check
	@$(BIN)/headrace demo $(ARGS)

test: $(STAMP) ## the tests
	@scripts/java check
	@$(BIN)/python -m pytest -q -m "not slow and not nightly" $(ARGS)

test-all: $(STAMP) ## the tests, the slow and nightly ones too
	@scripts/java check
	@$(BIN)/python -m pytest -q $(ARGS)

check: $(STAMP) ## ruff, mypy, import rules
	@$(BIN)/ruff check src tests
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo --no-cache

bench: $(STAMP) ## a benchmark (NAME=windows ARGS="--quick")
	@scripts/java check
	@$(BIN)/headrace bench $(NAME) $(ARGS)

figures: $(STAMP) ## the README's table of figures, out of the results in docs/figures, and the pictures of docs
	@$(BIN)/python -m headrace.bench.figures
	@$(BIN)/python -m headrace.bench.joins_picture docs/stabbing.svg

java: ## install Debian's headless Java runtime
	@scripts/java install

lock: $(STAMP) ## pin the newest versions that pyproject.toml allows
	@$(BIN)/pip-compile --quiet --upgrade --extra dev --strip-extras --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml

clean: ## remove .venv and what tools leave behind
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
