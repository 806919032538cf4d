# make tune   tune the nano GPT end to end
# make test   run the tests
# make check  what CI runs besides the tests: style, types, the house's arrows
# make figures  measure the README's figures again (half an hour); make docs  write them into the README
# make mutations  break a thousand schedules (the tests break 150): none may be accepted with a wrong result
# Each target makes .venv and installs what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := autotune schedules payload tests results/figures.py results/comparisons.py results/samplers.py

.PHONY: tune test check format figures docs mutations clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .[dev]
	touch $@

tune: $(VENV)/.installed
	$(BIN)/autotune tune nano --trials 200 --seed 0

test: $(VENV)/.installed
	$(BIN)/python -m pytest

check: $(VENV)/.installed
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python results/figures.py render --check
	$(BIN)/python results/comparisons.py render --check

mutations: $(VENV)/.installed
	MUTATIONS=1000 $(BIN)/python -m pytest tests/test_mutation.py

figures: $(VENV)/.installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python results/figures.py measure
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python results/comparisons.py measure

docs: $(VENV)/.installed
	$(BIN)/python results/figures.py render
	$(BIN)/python results/comparisons.py render

format: $(VENV)/.installed
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
