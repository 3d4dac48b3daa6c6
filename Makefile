# One command each; everything is made on the way. Needs python3 (3.11 or newer) with pip, and the package registries.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TEST_PROCESSES ?= 2

.PHONY: run install test check lint format fresh-install conformance bench bench-quick perf-check perf-baseline fuzz-gate bench-mcp bench-gateway bench-durability eval eval-slice docs lock clean

# Starts aish on the embedded model. Without a terminal it answers what stdin holds, or a sample question.
run: $(VENV)/.installed
	@$(BIN)/aish models pull smollm2 >/dev/null
	@$(BIN)/aish --sample --model embedded:smollm2

install: $(VENV)/.installed
	@echo "aish is at $(BIN)/aish"

# A process that has no test left takes some of the other's. `make test TEST_PROCESSES=0` runs all in one.
test: $(VENV)/.installed-dev
	$(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist worksteal

check: lint test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check src tests train bench
	$(BIN)/ruff check src tests train bench
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix src tests train bench
	$(BIN)/ruff format src tests train bench

docs: $(VENV)/.installed-dev
	$(BIN)/python -m aish.config.reference > docs/config.md

# The wheel, alone in a new environment: does what people will install start and answer?
fresh-install: $(VENV)/.installed-dev
	bash tests/fresh_install.sh $(PYTHON)

# Our MCP client and MCP server in the official MCP suite, scenario by scenario; writes docs/conformance.md. Needs npm.
conformance: $(VENV)/.installed-dev
	$(BIN)/python tests/conformance/run.py

# Everything that is measured, ours beside its peers, put into docs/benchmarks.md. About half an hour; peers go under .cache.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m bench --page

# The same in three minutes, printed only: a look, not a judgement.
bench-quick: $(VENV)/.installed-dev
	$(BIN)/python -m bench --quick

# Has anything become dearer? Instructions of fixed work against bench/baseline.json, in half a minute. Needs valgrind and cc.
perf-check: $(VENV)/.installed-dev
	$(BIN)/python bench/perf_check.py

# After a change that is meant to cost more, or that made things cheaper.
perf-baseline: $(VENV)/.installed-dev
	$(BIN)/python bench/perf_check.py --baseline

# Is what is proved safe harmless in a real bash? Two or three minutes. By hand: FUZZ="--lines 2000000 --seed 7".
fuzz-gate: $(VENV)/.installed-dev
	$(BIN)/python tests/fuzz_gate.py $(FUZZ)

# The MCP client beside the official SDK, as ratios. Makes an environment for the SDK under .cache.
bench-mcp: $(VENV)/.installed-dev
	$(BIN)/python bench/mcp.py

# The server beside LiteLLM and beside no gateway at all, held to its bars. Needs Linux and cc; LiteLLM goes under .cache.
bench-gateway: $(VENV)/.installed-dev
	$(BIN)/python bench/gateway.py

# How fast what is acknowledged becomes durable, in SQLite and PostgreSQL, held to its bars. Needs PostgreSQL's binaries.
bench-durability: $(VENV)/.installed-dev
	$(BIN)/python bench/durability.py

# How well the embedded model calls tools: every case that ships, in each mode. An hour or two on two cores.
eval: $(VENV)/.installed
	@$(BIN)/aish models pull smollm2 >/dev/null
	@mkdir -p .cache
	$(BIN)/aish eval --model embedded:smollm2 --mode constrained --mode prompted --mode prompted-raw \
		--json .cache/eval.json --html .cache/eval.html
	@echo "the page is at .cache/eval.html"

# A few cases of each suite, in a minute or two.
eval-slice: $(VENV)/.installed
	@$(BIN)/aish models pull smollm2 >/dev/null
	$(BIN)/aish eval --model embedded:smollm2 --mode constrained --limit 3

# The IDE tools beside the language servers behind them, held to their bars. Servers go under .cache; clangd is the system's.
bench-ide: $(VENV)/.installed-dev
	$(BIN)/python bench/ide.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The locks: every version with the hashes of its files. Change pyproject.toml or requirements/*.in, then run this.
UV := .cache/uv/bin/uv
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
lock: $(UV)
	$(COMPILE) requirements/pip.in --output-file requirements/pip.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra local --output-file requirements/run.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra local --extra dev --output-file requirements/dev.txt
	for lock in tests/locks/*/requirements.in; do $(COMPILE) $$lock --output-file $${lock%.in}.txt || exit 1; done
	for lock in tests/locks/*/package.json; do \
	  (cd $$(dirname $$lock) && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund) || exit 1; done

$(UV):
	$(PYTHON) -m venv .cache/uv
	.cache/uv/bin/pip install --quiet --disable-pip-version-check uv

# A pip of today: the commands that older ones make load a regular expression before they begin.
$(VENV)/bin/pip: requirements/pip.txt
	$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes --requirement requirements/pip.txt

$(VENV)/.installed: $(VENV)/bin/pip pyproject.toml requirements/run.txt
	@echo "installing aish into $(VENV) …"
	@$(PIP) --require-hashes --requirement requirements/run.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/bin/pip pyproject.toml requirements/dev.txt
	@echo "installing aish and its development tools into $(VENV) …"
	@$(PIP) --require-hashes --requirement requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.installed
