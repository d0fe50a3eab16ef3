# Every command of the project, one line each. All install what they need first.
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
COMPILE := .venv/bin/uv pip compile pyproject.toml --extra api --extra onnx --extra lora --extra wyoming --extra streams --extra aac --extra cut --extra naturalness --extra speaker-judge --extra install --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet

.PHONY: help train test test-gpu test-slow test-system lint types check serve studio bench doctor tensorboard demo-voice env-example install lock

# `make help` prints the lines that begin with `##`.
## make train         fine-tune on your clips, or on the demo's
## make serve         serve the voice and its web page at http://localhost:8005
## make studio        record, train, compare and serve on one page
## make doctor        find out what is wrong with this machine
## make tensorboard   show the curves of a finished run at http://localhost:6006
## make install       install into .venv, nothing else
## make test          the default tests; test-slow, test-system and test-gpu run the others
## make check         lint (format and rules), types and the default tests; lint and types alone, too
## make bench         measure the service with the demo voice: memory, first sound
## make demo-voice    train the demo's base model again (a GPU, or days of two cores)
## make env-example   write .env.example and docs/settings.md from the settings
## make lock          resolve requirements.lock and requirements-dev.lock again
help:; @sed -n 's/^## //p' Makefile
train: $(INSTALLED); @$(RUN) train
test: $(DEVELOP); $(TWO_AT_ONCE)
test-slow: $(DEVELOP); $(RUN) pytest -q -m slow --timeout 1800
test-gpu: $(DEVELOP); $(RUN) pytest -q -m gpu --timeout 600
test-system: $(DEVELOP); $(RUN) pytest -q -m system --timeout 1800
lint: $(DEVELOP); $(RUN) ruff format --check . && $(RUN) ruff check .
types: $(DEVELOP); $(RUN) mypy
check: lint types test
serve: $(INSTALLED); @$(RUN) api
studio: $(INSTALLED); @$(RUN) extras.studio
doctor: $(INSTALLED); @$(RUN) xtts doctor
tensorboard: $(INSTALLED); @$(RUN) train.metrics.tensorboard_server
demo-voice: $(DEVELOP); $(RUN) demo_voice
bench: $(DEVELOP); $(RUN) benchmarks serving
env-example: $(DEVELOP); $(RUN) tests.test_env_example
install: $(INSTALLED)
lock: $(INSTALLED); $(COMPILE) --extra dev -o requirements-dev.lock && $(COMPILE) --constraint requirements-dev.lock -o requirements.lock

$(INSTALLED): requirements.lock pyproject.toml .ci/install; @PYTHON="$(PYTHON)" TORCH_BACKEND="$(BACKEND)" sh .ci/install
$(DEVELOP): requirements-dev.lock pyproject.toml .ci/install; @PYTHON="$(PYTHON)" TORCH_BACKEND="$(BACKEND)" sh .ci/install dev
