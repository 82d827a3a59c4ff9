# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# An exact torch version takes its CPU build where one is offered; a looser range may pull CUDA's.
TORCH  := torch==2.13.0

export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test lint check faults mini clean

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

# What was broken on purpose, and what survived.
faults: $(VENV)/.ready-dev
	$(BIN)/python -m tests.fault_table

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
