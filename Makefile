PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: help install demo test test-slow test-extras lint types unit docs guides pictures bench fuzz chaos test-lowest audit clean

INPUTS ?= 1000000
SEED ?= 1
MOMENTS ?= 200

help:
	@echo "make demo    train on digits with 40 % wrong labels, ordinary training beside the default"
	@echo "make test    lint, types and the tests, in under ten minutes; make test-slow has the slow ones"
	@echo "make docs    the site, into build/site/html"
	@echo "make guides  run the guides and write what they print into them"
	@echo "make pictures  draw the diagrams of docs/, and photograph runs and pages anew (needs Chromium)"
	@echo "make test-extras  the wheel and each extra alone, in environments of their own"
	@echo "make bench   the quick benchmarks (HOLDFAST_DATA names the folder with the data)"
	@echo "make fuzz    wrong inputs through every door (INPUTS, SEED); what fails is kept for the tests"
	@echo "make chaos   kill every command at moments of chance (MOMENTS), fill its disk, turn its clock"
	@echo "make test-lowest   the fast tests with the lowest versions that pyproject.toml allows"
	@echo "make audit   known holes in the pinned packages (needs the net)"
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

# One thread a process: two workers with two OpenMP threads each wait for one another on two cores. A file goes to one of
# them whole, so that what its tests share is made once.
unit: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -m "not slow"

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

pictures: install
	$(BIN)/python site/diagrams.py
	OMP_NUM_THREADS=1 $(BIN)/python site/pictures.py

bench: install
	$(BIN)/python benchmarks/mnist_noise.py --quick
	$(BIN)/python benchmarks/cifar_noise.py --quick
	$(BIN)/python benchmarks/epoch_cost.py --quick
	$(BIN)/python benchmarks/label_issues.py --quick
	$(BIN)/python benchmarks/check.py --quick
	$(BIN)/python benchmarks/clean.py --quick

fuzz: install
	$(BIN)/python tests/hostile/fuzz.py --inputs $(INPUTS) --seed $(SEED) --keep

chaos: install
	$(BIN)/python tests/hostile/chaos.py --moments $(MOMENTS)

# Two environments beside .venv: one that resolves and asks, one that is tested.
.venv-tools/ready:
	$(PYTHON) -m venv .venv-tools
	.venv-tools/bin/pip install --quiet --disable-pip-version-check uv pip-audit
	@touch $@

# torch stays as it is installed, to the letter: other builds bring gigabytes of CUDA with them. LOWEST_TORCH names another.
LOWEST_TORCH ?= torch==$(shell $(BIN)/python -c "from importlib.metadata import version; print(version('torch'))")
test-lowest: install .venv-tools/ready
	echo "$(LOWEST_TORCH)" > .venv-tools/torch.txt
	.venv-tools/bin/uv pip compile --quiet pyproject.toml --extra review --extra excel --extra datasets \
		--extra tensorboard --resolution lowest-direct \
		--python-version 3.11 --no-build --override .venv-tools/torch.txt --no-header --no-annotate \
		$(addprefix --find-links ,$(PIP_FIND_LINKS)) -o .venv-tools/lowest.txt
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r .venv-tools/lowest.txt
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check pytest httpx hypothesis
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --no-deps -e .
	OMP_NUM_THREADS=1 .venv-lowest/bin/pytest -m "not slow" -W default \
		--deselect tests/hostile/test_packages.py::test_what_is_installed_is_what_is_pinned \
		tests/data tests/methods tests/hostile tests/stop tests/clean tests/test_cli.py tests/test_fit.py \
		tests/test_checkpoint.py tests/test_config.py tests/test_predict.py

# Strict: what could not be looked up is an error and not "no known vulnerabilities".
audit: .venv-tools/ready
	.venv-tools/bin/pip-audit --strict --disable-pip --no-deps -r constraints.txt

clean:
	rm -rf .venv .venv-tools .venv-lowest build dist runs .mypy_cache .ruff_cache .pytest_cache
