# Everything runs in a virtual environment that this file makes: .venv, or the folder given as VENV=...
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DATA ?= diabetes friedman1

.PHONY: demo test quick long lint docs lowest clean

demo: $(VENV)/.installed
	$(BIN)/opttree warm-up forest boosted tao-c tao-l get get-linear
	for name in $(DATA); do \
		$(BIN)/opttree compare --data $$name --methods forest,boosted,tao-l,tao-c,get-linear,get,linear,cart,rf --depth auto --cv 4 --out out || exit; \
	done

# all rings: rooms, contracts, pages and system; build/tests.xml has the seconds of every test
test: $(VENV)/.installed
	$(BIN)/opttree warm-up
	$(BIN)/python -m pytest -n 2 --durations=0 --durations-min=3 --junitxml=build/tests.xml
	$(BIN)/python -m tests.durations build/tests.xml

# the first ring: the rooms, without what is slow
quick: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 -m "not slow and not long" --ignore=tests/contracts --ignore=tests/system tests

# what takes ten seconds or more and seldom changes, test by test
long: $(VENV)/.installed
	$(BIN)/opttree warm-up
	$(BIN)/python -m pytest -n 2 -m long tests

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/python docs/tools/prose.py
	$(BIN)/proselint check --config .proselint.json README.md CONTRIBUTING.md SECURITY.md docs/*.md docs/guide docs/methods docs/research

docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -b html docs docs/_build/html
	$(BIN)/python docs/tools/check.py docs/_build/html

# the suite with the oldest libraries that setup.cfg allows; newer extras need newer ones, and do not always say so
EXTRAS = tests/site tests/races tests/papers/test_benchmarks.py tests/papers/test_methods.py tests/papers/test_protocols.py \
	tests/papers/test_ranks.py tests/papers/test_reports.py tests/solvers/ensembles/test_stacked.py \
	$(addprefix tests/system/test_,cluster.py kills.py notebooks.py packaging.py)
lowest: $(VENV)/.installed
	mkdir -p build
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --output-file build/lowest.txt setup.cfg
	$(BIN)/uv venv --quiet --clear build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest --constraint build/lowest.txt --editable . \
		pytest pytest-timeout pytest-xdist hypothesis array-api-strict polars duckdb psutil onnx "pyarrow<25"
	build/lowest/bin/opttree warm-up
	build/lowest/bin/python -m pytest -n 2 -W default tests $(addprefix --ignore=,$(EXTRAS))

$(VENV)/.installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[dev]" || $(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) out build dist docs/_build docs/generated docs/gallery *.egg-info .pytest_cache .mypy_cache .ruff_cache
