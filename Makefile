# Everything that the README names. `make chat` and `make test` set up what they need by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROMPT ?=
MODEL ?= smollm2
FUZZ_SECONDS ?= 300
SOAK_SECONDS ?= 600
CLIENTS ?=

.PHONY: chat serve setup native test clients lint format ui bench bench-peers fuzz soak sanitize arm clean

NATIVE_SOURCES := $(shell find native CMakeLists.txt -type f) pyproject.toml

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.tools: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "scikit-build-core>=0.11" "nanobind>=2.9" ninja cmake
	touch $@

$(VENV)/.native: $(VENV)/.tools $(NATIVE_SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.native
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable ".[dev]"
	touch $@

setup: $(VENV)/.native

native: $(VENV)/.native

# The prompt travels in the environment, so that its quotes mean nothing to a shell.
chat: export PYRITE_PROMPT = $(PROMPT)
chat: $(VENV)/.native
	@if [ -n "$$PYRITE_PROMPT" ]; \
	then $(BIN)/pyrite run $(MODEL) -- "$$PYRITE_PROMPT" </dev/null; \
	else $(BIN)/pyrite run $(MODEL); fi

serve: $(VENV)/.native
	$(BIN)/pyrite serve $(MODEL)

test: $(VENV)/.dev
	$(BIN)/python tools/fetch_test_models.py
	$(BIN)/python -m pytest

# Real clients against `pyrite serve`, each in an environment of its own under build/clients, which
# the first run installs. CLIENTS="openai llm" runs those alone.
clients: $(VENV)/.dev
	$(BIN)/python tools/fetch_test_models.py
	$(BIN)/python tools/clients.py $(CLIENTS)

fuzz: $(VENV)/.dev
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python tools/fuzz.py

# A mixed load on a server of its own; fails when memory, descriptors or latency grow.
soak: $(VENV)/.dev
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python tools/soak.py

# Figures of the README; with the peer beside ours once `make bench-peers` has built it.
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/quality.py smollm2 gemma3:270m

bench-peers: $(VENV)/.dev
	$(BIN)/python benchmarks/peers.py install

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_layers.py
	$(BIN)/python tools/write_docs.py --check

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Builds the chat page that is kept in src/pyrite/server/page; needs node and npm, which nothing else
# here does.
ui:
	cd ui && npm ci --ignore-scripts --no-audit --no-fund && npm run build

# The native tests under the sanitizers: address and undefined behaviour together, then threads. Told of
# undefined behaviour alone, a program would go on and end well.
sanitize: export UBSAN_OPTIONS = halt_on_error=1:print_stacktrace=1
sanitize: $(VENV)/.tools
	@for kinds in address,undefined thread; do \
		folder=build/sanitize-$${kinds%%,*}; \
		$(BIN)/cmake -S . -B $$folder -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
			-DPYRITE_TESTS=ON -DPYRITE_BINDINGS=OFF -DPYRITE_SANITIZE=$$kinds \
			-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 > /dev/null && \
		$(BIN)/cmake --build $$folder > /dev/null && \
		$(BIN)/ctest --test-dir $$folder --output-on-failure || exit 1; \
	done

# The native tests on 64-bit Arm, cross-compiled and emulated; needs two of Debian's packages, which it
# names.
arm: $(VENV)/.tools
	$(BIN)/python tools/arm.py

clean:
	rm -rf $(VENV) build
