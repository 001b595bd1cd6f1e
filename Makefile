# Everything runs in a virtual environment that this file makes: .venv, or the folder given as VENV=...
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DATA ?= diabetes friedman1

.PHONY: demo test lint clean

demo: $(VENV)/.installed
	$(BIN)/opttree warm-up tao-c tao-l get get-linear
	for name in $(DATA); do \
		$(BIN)/opttree compare --data $$name --methods cart,rf,tao-c,tao-l,get,get-linear --depth 4 --cv 4 --out out || exit; \
	done

test: $(VENV)/.installed
	$(BIN)/opttree warm-up
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
