# Every command of the project, one line each. `make train` and `make test` install by themselves.
PYTHON ?= python3
# Which torch: said here or in .env, else the one that is installed, else the lock's.
TORCH_BACKEND ?= $(shell sed -n 's/^TORCH_BACKEND=//p' .env 2>/dev/null | tail -n 1 | tr -d "\"' \r")
BACKEND := $(or $(strip $(TORCH_BACKEND)),$(patsubst .venv/.installed-%,%,$(firstword $(wildcard .venv/.installed-*))),default)
RUN := .venv/bin/python -m
INSTALLED := .venv/.installed-$(BACKEND)

.PHONY: train test test-slow test-system check serve bench doctor tensorboard demo-voice env-example install lock

train: $(INSTALLED); @$(RUN) train
test: $(INSTALLED); $(RUN) pytest -q
test-slow: $(INSTALLED); $(RUN) pytest -q -m slow --timeout 1800
test-system: $(INSTALLED); $(RUN) pytest -q -m system --timeout 1800
check: $(INSTALLED); $(RUN) ruff format --check . && $(RUN) ruff check . && $(RUN) mypy && $(RUN) pytest -q
serve: $(INSTALLED); @$(RUN) api
doctor: $(INSTALLED); @$(RUN) xtts doctor
tensorboard: $(INSTALLED); @$(RUN) train.tensorboard
demo-voice: $(INSTALLED); $(RUN) train.base
bench: $(INSTALLED); $(RUN) benchmarks voice
env-example: $(INSTALLED); $(RUN) tests.test_env_example
install: $(INSTALLED)
lock: $(INSTALLED); .venv/bin/uv pip compile pyproject.toml --extra dev --extra api --extra onnx --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet -o requirements.lock

$(INSTALLED): requirements.lock pyproject.toml .ci/install; @PYTHON="$(PYTHON)" TORCH_BACKEND="$(BACKEND)" sh .ci/install
