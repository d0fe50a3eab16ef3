# Every command of the project, one line each. `make train` and `make test` install by themselves.
PYTHON ?= python3
# Which torch: said here or in .env, else the one that is installed, else the lock's.
TORCH_BACKEND ?= $(shell sed -n 's/^TORCH_BACKEND=//p' .env 2>/dev/null | tail -n 1 | tr -d "\"' \r")
BACKEND := $(or $(strip $(TORCH_BACKEND)),$(patsubst .venv/.installed-%,%,$(firstword $(filter-out %-dev,$(wildcard .venv/.installed-*)))),default)
RUN := .venv/bin/python -m
# What the programs run with, and what tests, checks and benchmarks need as well.
INSTALLED := .venv/.installed-$(BACKEND)
DEVELOP := $(INSTALLED)-dev
# Files of tests in two processes of one thread each: with more, the two wait for one another's cores.
TWO_AT_ONCE := OMP_NUM_THREADS=1 $(RUN) pytest -q -n 2 --dist loadfile
COMPILE := .venv/bin/uv pip compile pyproject.toml --extra api --extra onnx --extra lora --extra wyoming --extra aac --extra cut --extra naturalness --extra install --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet

.PHONY: help train test test-gpu test-slow test-system check serve studio bench doctor tensorboard demo-voice env-example install lock

help:; @sed -n 's/^\([a-z][a-z-]*\):.*/make \1/p' Makefile
train: $(INSTALLED); @$(RUN) train
test: $(DEVELOP); $(TWO_AT_ONCE)
test-slow: $(DEVELOP); $(RUN) pytest -q -m slow --timeout 1800
test-gpu: $(DEVELOP); $(RUN) pytest -q -m gpu --timeout 600
test-system: $(DEVELOP); $(RUN) pytest -q -m system --timeout 1800
check: $(DEVELOP); $(RUN) ruff format --check . && $(RUN) ruff check . && $(RUN) mypy && $(TWO_AT_ONCE)
serve: $(INSTALLED); @$(RUN) api
studio: $(INSTALLED); @$(RUN) extras.studio
doctor: $(INSTALLED); @$(RUN) xtts doctor
tensorboard: $(INSTALLED); @$(RUN) train.metrics.tensorboard_server
demo-voice: $(DEVELOP); $(RUN) demo_voice
bench: $(DEVELOP); $(RUN) benchmarks voice
env-example: $(DEVELOP); $(RUN) tests.test_env_example
install: $(INSTALLED)
lock: $(INSTALLED); $(COMPILE) --extra dev -o requirements-dev.lock && $(COMPILE) --constraint requirements-dev.lock -o requirements.lock

$(INSTALLED): requirements.lock pyproject.toml .ci/install; @PYTHON="$(PYTHON)" TORCH_BACKEND="$(BACKEND)" sh .ci/install
$(DEVELOP): requirements-dev.lock pyproject.toml .ci/install; @PYTHON="$(PYTHON)" TORCH_BACKEND="$(BACKEND)" sh .ci/install dev
