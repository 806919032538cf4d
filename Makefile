# make tune   tune the nano GPT end to end
# make test   run the tests
# make check  what CI runs besides the tests: style, types, the house's arrows
# make regress  check nano's recorded bundle: slower, or wrong?
# make figures  record the bundles and figures again (an hour and a half); make docs  write them into the README
# make mutations  break a thousand schedules (the tests break 150): none may be accepted with a wrong result
# Each target makes .venv and installs what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := autotune schedules payload tests results/figures.py results/comparisons.py results/samplers.py \
	results/regressions.py results/warmth.py

.PHONY: tune test check regress mutations format figures docs clean

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
	$(BIN)/python results/regressions.py render --check
	$(BIN)/python results/warmth.py render --check

regress: $(VENV)/.installed
	$(BIN)/autotune regress results/*/bundles/nano --quick

mutations: $(VENV)/.installed
	MUTATIONS=1000 $(BIN)/python -m pytest tests/test_mutation.py

figures: $(VENV)/.installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python results/figures.py measure
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python results/comparisons.py measure
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python results/regressions.py measure
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python results/warmth.py measure

docs: $(VENV)/.installed
	$(BIN)/python results/figures.py render
	$(BIN)/python results/comparisons.py render
	$(BIN)/python results/regressions.py render
	$(BIN)/python results/warmth.py render

format: $(VENV)/.installed
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
