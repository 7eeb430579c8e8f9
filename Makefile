PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: help install demo test test-slow test-extras lint types unit docs guides bench clean

help:
	@echo "make demo    train on digits with 40 % wrong labels, ordinary training beside the default"
	@echo "make test    lint, types and the tests, in under ten minutes; make test-slow has the slow ones"
	@echo "make docs    the site, into build/site/html"
	@echo "make guides  run the guides and write what they print into them"
	@echo "make test-extras  the wheel and each extra alone, in environments of their own"
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
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m "not slow"

test-slow: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m slow

test-extras:
	PYTHON=$(PYTHON) tests/extras.sh

.venv/docs-ready: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

docs: .venv/docs-ready
	$(BIN)/python site/stage.py build/site/docs
	$(BIN)/zensical build --strict --clean
	$(BIN)/linkchecker --config site/linkchecker.ini build/site/html/index.html
	@echo "to look at: python -m http.server --directory build/site/html"

guides: install
	OMP_NUM_THREADS=1 $(BIN)/python tests/guides.py --write docs/start.md docs/compare.md docs/guides/*.md

bench: install
	$(BIN)/python benchmarks/mnist_noise.py --quick
	$(BIN)/python benchmarks/cifar_noise.py --quick
	$(BIN)/python benchmarks/epoch_cost.py --quick
	$(BIN)/python benchmarks/label_issues.py --quick
	$(BIN)/python benchmarks/check.py --quick
	$(BIN)/python benchmarks/clean.py --quick

clean:
	rm -rf .venv build dist runs .mypy_cache .ruff_cache .pytest_cache
