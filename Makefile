# Two commands: `make demo` and `make test`; `make bench` measures speed and memory. Everything is installed, pinned, into .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo lint test test-slow bench clean

setup: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "visl needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/visl demo --out demo --force

lint: setup
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n auto -m 'not slow'

test-slow: setup
	$(BIN)/pytest -n auto -m slow

bench: setup
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf .venv demo build dist src/*.egg-info
