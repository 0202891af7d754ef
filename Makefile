# hushrank: `make demo` shows it, `make test` checks it, `make help` lists the rest.
# Everything that a target writes is ignored by git: .venv/, build/, demo/ and tools' caches.

PYTHON ?= python3
UV_VERSION := uv>=0.11,<0.14
# Tests wait more than half of their time: for engines, servers, child processes and each other. With two workers a processor
# a fifth of the processors would stand idle, more while one worker waits for an engine.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3)
ARGS ?=
SYSTEMS ?= linux darwin win32

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
UV := $(BIN)/uv
LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes
IMAGE_EXTRAS := gcp collect
STAMP := .venv/.installed-from-the-lock
PYTEST_FLAGS := --durations=30 -n $(WORKERS) --maxprocesses=8 --dist=worksteal

export PREFECT_SERVER_ANALYTICS_ENABLED := false
export DO_NOT_TRACK := 1
unexport PYTHONDONTWRITEBYTECODE  # where it is set, every process compiles every library again: seconds each
ifdef PIP_INDEX_URL  # uv does not read pip's own setting
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

.PHONY: help setup gcs-server demo demo-survey test test-quick test-wine mutants soak lint types wheel-test js docs pages infra lock bench frontier clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?/\1|/' | column -t -s '|'
	@echo
	@echo 'Another interpreter: make clean setup PYTHON=python3.12   Some tests: make test ARGS="tests/privacy -k noise"'

setup: $(STAMP)  ## Make .venv with every extra, as the lock has them, and this package, editable

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'hushrank needs Python 3.11 or newer; $(PYTHON) is older or missing. Name one: make setup PYTHON=python3.12' >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo '$(PYTHON) comes without its venv module. On Debian or Ubuntu: sudo apt-get install python3-venv' >&2; \
	  exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV_VERSION)'
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

demo: setup  ## Rank three nights of a simulated log, as Prefect flows that Beam counts, in demo/
	@echo '1. A log: 5 000 simulated people compare 12 items on three nights. Their true scores are in demo/truth.csv.'
	@test -e demo/survey.yaml || { $(BIN)/hushrank simulate demo --nights 3 --items 12 --people 5000 --habit 0.6 --named >/dev/null; \
	  sed -i.before 's/^runner: local/runner: {kind: local, beam: true}/' demo/survey.yaml && rm demo/survey.yaml.before; }
	@echo '2. Three nights: each is one Prefect flow. Apache Beam bounds and counts answers; noise is drawn once; one budget pays for all.'
	@PREFECT_HOME=$(CURDIR)/demo/prefect $(BIN)/hushrank backfill demo/survey.yaml --from 2026-01-01 --to 2026-01-03
	@echo '3. The board and its history: what each night published, and ranks over time.'
	@$(BIN)/hushrank history demo/survey.yaml --plot demo/history.svg
	@echo
	@echo 'demo/out/report.html  the page that is published: ranking, intervals, privacy statement'
	@echo 'demo/history.svg      ranks over the three nights'
	@echo 'A page leads from a file of your own to a report: $(BIN)/hushrank app FOLDER'
	@echo 'Prefect shows the three runs: PREFECT_HOME=$$PWD/demo/prefect $(BIN)/prefect server start, then http://127.0.0.1:4200/runs'

demo-survey: setup  ## Ask 2 000 simulated people on a page, collect private answers and rank them, in demo-survey/
	@rm -rf demo-survey
	@$(BIN)/hushrank survey demo demo-survey

gcs-server:  ## Build fake-gcs-server, the second Cloud Storage of the tests, in ~/.cache/hushrank (needs go; once)
	@$(PYTHON) -m tests.go_cloud_storage

test: setup  ## Run every test, fast and slow; skipped ones are listed with their reasons
	$(BIN)/python -m pytest $(PYTEST_FLAGS) $(ARGS)

# What tells most within a minute on two cores: rows, sensitivities, the ledger, configurations, statements, a release of each kind and its checks.
QUICK := tests/flows/config tests/transforms/common \
  tests/transforms/comparisons/test_bound.py tests/transforms/comparisons/test_aggregate.py tests/estimation/common/test_links.py \
  tests/privacy/test_units.py tests/privacy/test_stream.py tests/privacy/test_staircases.py tests/privacy/test_ranking_sensitivity.py \
  tests/privacy/test_measurement_sensitivity.py tests/privacy/test_randomness.py tests/privacy/test_amplification.py \
  tests/flows/ledger/test_ledger.py tests/flows/ledger/test_account.py tests/flows/ledger/test_budget_text.py tests/flows/ledger/test_local_file.py \
  tests/flows/release/test_wording.py tests/flows/release/test_units.py tests/flows/release/test_release.py tests/flows/statement/test_sentences.py \
  tests/verifier/test_older.py tests/verifier/test_recomputed.py tests/flows/scenarios/test_run.py tests/test_docs_style.py

test-quick: setup  ## Run what tells most within a minute, and list the files of tests that it leaves out
	@echo "Left out are tests that are marked slow or engine, and these numbers of files of tests (make test runs all):"
	@find tests -name 'test_*.py' | grep -vE '$(subst $(subst ,, ),|,$(strip $(QUICK)))' | xargs -n 1 dirname | sort | uniq -c
	$(BIN)/python -m pytest -q -n $$(getconf _NPROCESSORS_ONLN) --dist=worksteal -m "not slow and not engine" $(QUICK) $(ARGS)

test-wine: setup  ## Run the command and tests of paths on Windows' own Python, under Wine (Debian, root; 3 GB once)
	.ci/wine $(ARGS)

mutants: setup  ## Plant every privacy bug of tests/mutants and run what must catch it (ARGS="-k ledger": some)
	$(BIN)/python -m tests.mutants --workers $(WORKERS) $(ARGS)

soak: setup  ## Run whole what `make test` samples: every crash, bad input, new examples, new draws; hours
	$(BIN)/python -m pytest $(PYTEST_FLAGS) --soak -m "soak or hypothesis" --real-draws \
	  --hypothesis-profile=new-examples $(ARGS)

lint: setup  ## Check style and formatting with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 --exclude tests .  # texts have the encoding that the code names
	$(BIN)/ruff format --check .

types: setup  ## Check types with mypy, strict, as on Linux, macOS and Windows
	@rm -rf build/types && mkdir -p build/types/hushrank
	@ln -s $(CURDIR)/entry/* $(patsubst %/__init__.py,$(CURDIR)/%,$(filter-out entry/%,$(wildcard */__init__.py))) build/types/hushrank
	@printf '%s\n' $(SYSTEMS) | xargs -P 2 -I@ sh -c 'echo mypy --platform @ && $(BIN)/mypy --platform @ --cache-dir .mypy_cache/@'

wheel-test: setup  ## Build the wheel, install it away from the tree and run the tests against it
	@rm -rf build/dist
	$(UV) build --quiet --python $(BIN)/python --out-dir build/dist
	@away=$$(mktemp -d); trap 'rm -rf "$$away"' EXIT; set -x; \
	$(UV) venv --quiet --python $(BIN)/python "$$away/venv"; \
	$(UV) pip install --quiet --python "$$away/venv" --require-hashes --requirement requirements.lock; \
	$(UV) pip install --quiet --python "$$away/venv" --no-deps build/dist/*.whl; \
	cp -r tests pyproject.toml "$$away"; \
	cd "$$away"; venv/bin/python -m pytest $(PYTEST_FLAGS) $(ARGS)

js:  ## Build the JavaScript client, and what the survey page is made of, from clients/js (needs npm)
	cd clients/js && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build

docs: setup  ## Build the documentation site in build/site; a broken link stops it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

pages: setup  ## Rewrite what docs/reference.md and docs/cli.md hold of the code
	$(BIN)/python docs/generated_pages.py

infra: setup  ## Check the image, the template and the Terraform files of infra/
	UV="$(UV)" ./infra/check.sh

lock: setup  ## Rewrite both locks and the bill of materials from pyproject.toml (ARGS=--upgrade for the newest versions)
	$(LOCK) --all-extras --group test --group dev --group bench --group docs $(ARGS) pyproject.toml -o requirements.lock
	$(LOCK) $(addprefix --extra ,$(IMAGE_EXTRAS)) --constraint requirements.lock pyproject.toml -o infra/image.lock
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock
	$(BIN)/python infra/third_party.py --sbom infra/sbom.cdx.json

bench: setup  ## Measure the speed and accuracy that the README claims (hours; 10 GB of disk)
	@for script in $$(grep -l __main__ benchmarks/*.py); do echo "== $$script"; $(BIN)/python "$$script"; done

frontier: setup  ## Measure the accuracy of every method at equal epsilon and rewrite docs/frontier.md (an hour)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.frontier --write docs $(ARGS)

clean:  ## Remove everything that the other targets made
	rm -rf .venv build demo demo-survey clients/js/node_modules clients/js/dist clients/js/examples/*/built *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
