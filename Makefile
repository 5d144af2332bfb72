# `make test` and `make demo` need Python 3.11 or newer with venv, pip and, for the C++ backend, g++.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed-test
PEERS := $(VENV)/.installed-peers
CASES ?= tests

.PHONY: demo test gate lint test-peers test-full bench compiler clean

# The main job on real input: compile a trained CNN exactly, compare compiled with eager bit for bit, print the report.
demo: $(INSTALLED) compiler
	$(BIN)/python -m examples.digits.demo

test: lint compiler
	$(BIN)/pytest -n 2 $(CASES)

# Facts of every kept case against the committed ones (`make test` runs it too); to accept a difference, add --accept.
gate: $(INSTALLED) compiler
	$(BIN)/assay gate tests/cases/corpus --baseline tests/cases/gate.json

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/pyright

# Against PyTorch (the CPU build), jax and ONNX Runtime, installed into the same .venv.
test-peers: $(PEERS) compiler
	$(BIN)/pytest -n 2 -m peers tests/peers

# The long checks: every f32 bit pattern of every elementary function, every sample of every operator, many random programs.
test-full: $(INSTALLED) compiler
	$(BIN)/pytest -n 2 --dist worksteal -m full --durations=10 $(CASES)

bench: $(PEERS) compiler
	$(BIN)/assay bench

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Assay needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo 'No venv module: apt-get install -y python3-venv' >&2; rm -rf $(VENV); exit 1; }
	@echo 'Installing into $(VENV); the first time this takes a minute or two.'
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(PEERS): $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0 jax onnxruntime onnx
	touch $@

compiler:
	@command -v $${CXX:-g++} >/dev/null || echo 'No C++ compiler: the C++ backend is off and its tests are skipped. To have it:  apt-get install -y g++' >&2

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis
