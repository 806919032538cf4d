# make tune   tune the nano GPT end to end
# make test   run the tests, and the notebooks: it says which, and how
# make check  what CI runs besides the tests: style, types, layering of imports
# make gate   what CI runs last: nano's bundle recorded on this machine, and checked: the gate must not alarm by itself
# make regress  check nano's recorded bundle: slower, or wrong?
# make figures  record the bundles and figures again (two hours); make docs  write them into docs/results.md and the README,
#               the commands into docs/
# make mutations  break a thousand schedules (the tests break 50): none may be accepted with a wrong result; and a million
#               answers of processes (the tests 10,000): none may be anything but data
# make packages   install wheel and sdist into empty environments of Python 3.11 to 3.13, and use them far from here
# make notebooks  run the notebooks and save them with what they show; make site  build the documentation into build/site
# Each target makes .venv and installs what it needs and no more: with uv where there is one, else (or with UV=) with pip.

comma := ,
UV := $(shell uv --version 2>/dev/null)
PYTHON ?= $(if $(UV),>=3.11$(comma)<3.14,python3)
VENV := .venv
BIN := $(VENV)/bin
BLOCKS := figures comparisons threads growth jobs targets gpu mesh precision rounded_nets quantised quantised_onnx models grid kernelbench foreign_models torch_backend dynamic large regressions warmth samplers fit analysis expected backends affine rules tensors calls onnx_ops array_api ablations generation own_schedules debug selftest database cluster scale faults
TESTS := $(wildcard tests/test_*.py tests/*/test_*.py tests/*/*/test_*.py)
SOURCES := autotune schedules payload tests $(wildcard results/*.py) docs/_commands.py docs/_nano.py

.PHONY: packages tune test check regress gate mutations format figures docs notebooks site clean

# An install into an environment that another one writes would break it.
.NOTPARALLEL:

ifneq ($(UV),)
INSTALL := uv pip install --quiet --python $(BIN)/python
NEW := uv venv --quiet --seed --python '$(PYTHON)' $(VENV)
else
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
NEW := '$(PYTHON)' -m venv $(VENV)
endif

$(BIN)/python:
	rm -rf $(VENV)
	$(NEW)

# One stamp an extra: what a target needs is installed when pyproject.toml or Python is newer than that, and left alone else.
$(VENV)/.plain: pyproject.toml $(BIN)/python
	$(INSTALL) --editable .
	touch $@

$(VENV)/.with-%: pyproject.toml $(BIN)/python
	$(INSTALL) --editable '.[$*]'
	touch $@ $(VENV)/.plain

packages: $(VENV)/.with-test
	PYTHONS=3.11,3.12,3.13 $(BIN)/python -m pytest tests/test_wheel.py

tune: $(VENV)/.plain
	$(BIN)/autotune tune nano --trials 200 --seed 0 --bundle build/tune/nano
	@echo 'to have the command autotune in this shell: . $(BIN)/activate'

test: $(VENV)/.with-test
	@echo 'tests/: $(words $(TESTS)) files, a process a core, with little care in measuring (AUTOTUNE_CARE=little): no test is about speed.'
	@echo 'Then notebooks/: $(words $(wildcard notebooks/*.ipynb)), each from its first cell to its last. One file alone: $(BIN)/python -m pytest FILE'
	$(BIN)/python -m pytest -n auto
	$(BIN)/python -m pytest -n auto --nbmake --nbmake-timeout=300 notebooks

check: $(VENV)/.with-check
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python results/render.py --check headlines $(BLOCKS)
	$(BIN)/python docs/_commands.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

regress: $(VENV)/.plain
	$(BIN)/autotune regress results/*/bundles/nano --quick

gate: $(VENV)/.plain
	rm -rf build/gate && mkdir -p build/gate && cp -r $(firstword $(wildcard results/*/bundles/nano)) build/gate/nano
	$(BIN)/autotune regress build/gate/nano --quick --update --history build/gate/history.jsonl
	$(BIN)/autotune regress build/gate/nano --quick --factor 1.2 || [ $$? -eq 3 ]  # too noisy to judge is no alarm

mutations: $(VENV)/.with-test
	MUTATIONS=1000 $(BIN)/python -m pytest tests/worker/test_mutation.py
	ANSWERS=1000000 $(BIN)/python -m pytest tests/worker/test_typed_json.py

figures: $(VENV)/.with-results
	set -e; for block in $(BLOCKS); do PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python results/$$block.py measure; done

docs: $(VENV)/.plain
	$(BIN)/python results/render.py headlines $(BLOCKS)
	$(BIN)/python docs/_commands.py

notebooks: $(VENV)/.with-notebooks
	$(BIN)/python -m pytest --nbmake --overwrite --nbmake-timeout=300 notebooks

site: $(VENV)/.with-docs
	$(BIN)/mkdocs build --strict

format: $(VENV)/.with-check
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
