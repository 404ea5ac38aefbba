# qanat: `make help` lists what there is. Everything lives in .venv (and .venv-parity for torch and transformers).

PYTHON ?= python3
BIN := .venv/bin
PARITY := .venv-parity/bin
PEERS := .venv-peers/bin
LLAMA := 0.3.36
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test proof conformance page-test ray parity parity-env stages goldens lint format bench peers clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: .venv/.core  ## Let the built-in model answer (installs into .venv the first time)
	@$(BIN)/qanat run "Who are you?" </dev/null
	@$(BIN)/qanat run "hello, what's up?" </dev/null
	@echo "Next: $(BIN)/qanat chat    $(BIN)/qanat explain \"hello, what's up?\"    $(BIN)/qanat --help" >&2

test: .venv/.dev  ## Run the tests (no download, no GPU, minutes)
	$(BIN)/python -m pytest -n $(WORKERS)

conformance: .venv/.dev  ## Let clients and testers that others wrote judge the server (JUDGES=light: those of CI)
	$(BIN)/python tests/conformance/run.py $(JUDGES)

proof: .venv/.dev  ## Run the exhaustive tests: every classic mistake, 20 MB of text, 20,000 broken files
	$(BIN)/python -m pytest -n $(WORKERS) -m proof

ray: .venv-ray/.ready  ## Run two replicas behind Ray Serve, kill one under load (installs Ray into .venv-ray)
	.venv-ray/bin/python -m pytest -m ray -s -n 0 tests/deploy -o addopts="-q --strict-markers" -W ignore

parity: .venv-parity/.ready  ## Compare live with torch and transformers (a large install, into .venv-parity)
	$(PARITY)/python -m pytest -m parity -o addopts="-q --strict-markers"
	$(PARITY)/qanat verify pocket

parity-env: .venv-parity/.ready  ## Only install what `make parity` and `qanat verify` need

page-test: .venv/.page-test  ## Test the page at / in a browser (installs playwright; needs Debian's chromium)
	$(BIN)/python -m pytest -n $(WORKERS) tests/page -m 'not alone'
	$(BIN)/python -m pytest -n 0 tests/page -m alone

stages: .venv/.dev  ## Stage by stage: <Stage> test results: Passed / Failed
	@$(BIN)/python tools/stages.py

goldens: .venv-parity/.ready  ## Record again what transformers answers (tests/golden)
	@for script in tools/goldens/*.py; do \
	  case $$script in */conditioning.py) continue;; esac; \
	  echo "$$script"; $(PARITY)/python $$script || exit 1; done

lint: .venv/.dev  ## Style, types and import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev  ## Rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.dev  ## Measure: prompt, decoding, memory and start beside the machine's ceilings; tokenizer MB/s
	$(BIN)/qanat bench
	$(BIN)/python benchmarks/tokenizer.py

peers: .venv-peers/.ready .venv-parity/.ready .venv/.dev  ## Build llama.cpp, so that benchmarks/compare.py can compare

clean:  ## Remove environments and caches of this folder
	rm -rf .venv .venv-parity .venv-peers .venv-ray .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "qanat needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Creating .venv" >&2
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.core: .venv/.python pyproject.toml
	@echo "Installing qanat into .venv (a few small packages)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.dev: .venv/.core pyproject.toml
	@echo "Installing the test tools into .venv" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

.venv-ray/.ready: pyproject.toml
	@echo "Installing Ray into .venv-ray (0.3 GB)" >&2
	@$(PYTHON) -m venv .venv-ray
	@.venv-ray/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,ray]'
	@touch $@

# No browser is downloaded: the one of the system is driven. As root, as in CI, it is installed if it is missing.
.venv/.page-test: .venv/.dev pyproject.toml
	@command -v chromium >/dev/null || \
	  { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || { \
	  echo "There is no chromium: install it (Debian: apt-get install chromium)" >&2; exit 1; }
	@echo "Installing playwright into .venv" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,page-test]'
	@touch $@

.venv-parity/.ready: pyproject.toml
	@echo "Installing torch and transformers into .venv-parity: 0.2 GB to download for a CPU build of torch," >&2
	@echo "several GB where the package index offers only CUDA builds (set PIP_INDEX_URL or PIP_FIND_LINKS to choose)." >&2
	@$(PYTHON) -m venv .venv-parity
	@$(PARITY)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(PARITY)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,parity]'
	@touch $@

# The source stays in build/peers: its converter makes the files that llama.cpp reads.
.venv-peers/.ready:
	@echo "Building llama.cpp for this processor into .venv-peers (minutes; needs a C++ compiler)" >&2
	@mkdir -p build/peers
	@$(PYTHON) -m venv .venv-peers
	@test -e build/peers/llama_cpp_python-$(LLAMA).tar.gz || \
	  $(PEERS)/python -m pip download --quiet --disable-pip-version-check --no-deps \
	    --no-binary llama-cpp-python --dest build/peers llama-cpp-python==$(LLAMA)
	@tar -xzf build/peers/llama_cpp_python-$(LLAMA).tar.gz -C build/peers
	@$(PEERS)/python -m pip install --quiet --disable-pip-version-check \
	  --no-binary llama-cpp-python build/peers/llama_cpp_python-$(LLAMA).tar.gz
	@touch $@
