PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: help install demo test lint types unit bench clean

help:
	@echo "make demo    train on digits with 40 % wrong labels, ordinary training beside the default"
	@echo "make test    lint, types and all tests"
	@echo "make bench   the quick benchmarks (HOLDFAST_DATA names the folder with the data)"
	@echo "make clean   remove what these made"

install: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: install
	$(BIN)/python examples/demo.py

test: lint types unit

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

# One thread a process: two workers with two OpenMP threads each wait for one another on two cores.
unit: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

bench: install
	$(BIN)/python benchmarks/mnist_noise.py --quick
	$(BIN)/python benchmarks/cifar_noise.py --quick
	$(BIN)/python benchmarks/epoch_cost.py --quick
	$(BIN)/python benchmarks/label_issues.py --quick
	$(BIN)/python benchmarks/check.py --quick
	$(BIN)/python benchmarks/clean.py --quick

clean:
	rm -rf .venv runs .mypy_cache .ruff_cache .pytest_cache
