# Every target sets up what it needs, inside this checkout: .venv and var/.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PORT ?=
DATABASE ?=
EMBEDDED = $(BIN)/python -m headgate_airflow.embedded
EMBEDDED_OPTIONS = $(if $(PORT),--port $(PORT)) $(if $(DATABASE),--database $(DATABASE))

export MPLBACKEND := Agg
export MPLCONFIGDIR := $(CURDIR)/var/cache/matplotlib
export SPARK_LOCAL_DIRS := $(CURDIR)/var/tmp
unexport PYTHONDONTWRITEBYTECODE

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): requirements.txt pyproject.toml
	@bash .ci/environment $(VENV)

setup: $(READY) ## Create the environment (every other target does this by itself)

run: $(READY) ## Plan the demo streams through Airflow once, shed with the plans, write a report
	@source .ci/java && $(EMBEDDED) run $(EMBEDDED_OPTIONS)

up: $(READY) ## Start Airflow with the demo streams on localhost and keep it running; Ctrl-C stops it
	@source .ci/java && $(EMBEDDED) up $(EMBEDDED_OPTIONS)

test: $(READY) ## Run all tests
	@source .ci/java && $(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

test-fast: $(READY) ## Run the tests that need neither Spark nor Airflow nor patience
	@$(BIN)/python -m pytest -m "not spark and not airflow and not browser and not slow" $(ARGS)

check: $(READY) ## Lint, types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(READY) ## Measure everything that has a bar; writes docs/benchmarks.md
	@$(BIN)/python -m benchmarks $(ARGS)

reproduce: $(READY) ## Reproduce the papers' figures; FAMILY=lira for one, QUICK=1 for a quick look, RENEW=1 to update docs
	@$(BIN)/python -m benchmarks.reproduce $(FAMILY) $(if $(QUICK),--quick) $(if $(RENEW),--renew)

wheel: $(READY) ## Build the package into dist/
	@$(BIN)/pip wheel --quiet --no-deps -w dist . && rm -rf build *.egg-info

lock: ## Update requirements.txt from pyproject.toml (needs uv)
	@uv lock --quiet --upgrade
	@uv export --quiet --extra dev --no-hashes --no-emit-project --no-annotate --no-header \
	    -o requirements.txt
	@rm -f uv.lock

clean: ## Remove the environment and everything the demo made
	@rm -rf $(VENV) var build dist *.egg-info

.PHONY: help setup run up test test-fast check bench reproduce wheel lock clean
