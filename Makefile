# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# An exact torch version takes its CPU build where one is offered; a looser range may pull CUDA's.
TORCH  := torch==2.13.0

export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test lint check faults bench mini clean

demo: $(VENV)/.ready
	@bash samples/demo.sh $(BIN)/conduit

test: $(VENV)/.ready-dev lint
	$(BIN)/python -m pytest

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The figures that the README quotes.
check: $(VENV)/.ready-dev
	$(BIN)/python -m pytest tests/figures -s

# Four question sets under every policy, then the ablations: most of an hour on two cores with 300 questions each;
# `make bench EACH=40` is a first look. Times are taken on a few questions, while nothing else runs.
EACH ?= 300
WORKERS ?= 2
bench: $(VENV)/.ready
	$(BIN)/python -m samples.questions.make --out out/questions --each $(EACH)
	for set in single named distractors duplicates; do \
	  $(BIN)/conduit bench out/questions/$$set.jsonl --store out/store --out out/bench/$$set \
	    --timed 10 --diagnostics 20 --workers $(WORKERS) || exit; \
	done
	for set in single named distractors duplicates; do \
	  $(BIN)/conduit bench out/questions/$$set.jsonl --store out/store --out out/bench/$$set-ablations \
	    --preset ablations --ratios 0.05,0.1 --repeats 0 --count-flops 0 --workers $(WORKERS) || exit; \
	done

# What was broken on purpose, and what survived.
faults: $(VENV)/.ready-dev
	$(BIN)/python -m tests.fault_table

# The bundled reader from nothing, in hours; continues after an interruption. See samples/mini/CARD.md.
mini: $(VENV)/.ready
	$(BIN)/python -m samples.mini.recipe --runs samples/mini/runs --out samples/mini/runs/export

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.ready: $(VENV)/.made pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check "$(TORCH)" -e .
	touch $@

$(VENV)/.ready-dev: $(VENV)/.made pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check "$(TORCH)" -e ".[dev]"
	touch $@ $(VENV)/.ready

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
