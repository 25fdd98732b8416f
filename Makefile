# Everything lives in .venv; nothing is installed outside this folder.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: install run test test-sglang lint screenshots bench soak clean
.DEFAULT_GOAL := run

install: $(STAMP)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "make: $(PYTHON) cannot make a virtual environment; on Debian: apt install python3-venv" >&2; exit 1; }
	@echo "Installing specdeck into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,web]'
	@touch $@

run: install          ## open the dashboard (rehearsal machine when there is no GPU)
	@$(BIN)/specdeck

test: install lint    ## every test that needs no SGLang
	$(BIN)/pytest -n 2 --dist loadfile -m "not sglang and not soak"

test-sglang: install  ## install the real SGLang on the CPU and drive it
	$(BIN)/python tests/real/install.py
	$(BIN)/pytest -m sglang

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

screenshots: install
	$(BIN)/python screenshots/make.py

bench: install        ## every limit, measured, beside the peers; benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

soak: install         ## a day of a busy server in ten minutes (SOAK_S, SOAK_LINES), and a million damaged lines
	$(BIN)/pytest -m soak

clean:
	rm -rf $(VENV) .venv-sglang .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
