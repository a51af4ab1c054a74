# `make help` lists what there is. A fresh machine needs make, python3.11 (or newer) and a package
# index; everything else is installed into .venv from the locked requirements.

PYTHON ?= $(shell command -v python3.11 || echo python3)
BIN := .venv/bin
PIP := -m pip --disable-pip-version-check --quiet install
T ?=

# A recipe's first line, where a Python of this machine is needed.
define have_python
@command -v $(PYTHON) >/dev/null && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "error: Windlass needs Python 3.11 or newer. do: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help up test unit check format protos descriptors bench reliability hostile fuzz conformance ceph histories \
	migration docs lock clean .venv .venv-libmaas .venv-conformance

help: ## show this
	@grep -hE '^[a-z.-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

up: .venv ## run everything on this machine and create a first cluster
	@$(BIN)/windlass up

test: .venv .venv-libmaas ## run the whole suite; T=tests/domain for a room, T=--both for more
	@$(BIN)/python -m tests $(T)

unit: .venv ## run the tests that need no servers, within a minute
	@$(BIN)/python -m pytest -q -n auto tests/architecture tests/domain tests/wire

check: .venv ## format, lint, types, and who may import whom
	@$(BIN)/ruff format --check -q
	@$(BIN)/ruff check -q
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo

format: .venv ## put the code into its form
	@$(BIN)/ruff check --fix -q; $(BIN)/ruff format -q

protos: .venv ## compile the contracts into protos/gen
	@$(BIN)/python -m protos.compile

descriptors: .venv ## write build/descriptors.binpb, all contracts as one FileDescriptorSet
	@$(BIN)/python -m protos.compile --descriptors build/descriptors.binpb

bench: .venv ## measure, and write build/bench.json
	@$(BIN)/python -m tests.bench

reliability: .venv ## kill processes at random and count what is left, all night; T="kills --runs 1" for one
	@$(BIN)/python -m tests.reliability $(T)

hostile: .venv ## attack a running server, with an honest client beside; T="resets --seconds 5" for one kind
	@$(BIN)/python -m tests.security.hostile $(T)

fuzz: .venv ## throw 200,000 hostile cases at the doors; T="--cases 5000 --seed 7" for others
	@$(BIN)/python -m tests.fuzz $(T)

conformance: .venv ## be held against what others made; T=etcd for one stage
	@$(BIN)/python -m tests.conformance $(T)

ceph: .venv ## run against a real Ceph of Debian's packages, or say what is missing
	@$(BIN)/python -m tests.conformance ceph

histories: .venv ## record the workflow histories that the suite replays
	@$(BIN)/python -m tests.histories

migration: .venv ## draft a revision for a change of the tables: make migration M="what changes"
	@$(BIN)/python -m store draft "$(M)"

docs: .venv ## paste what the code says of itself into docs/cli.md and docs/settings.md
	@$(BIN)/python -m tests.docs

lock: ## write requirements/*.txt anew from pyproject.toml
	$(have_python)
	@$(PYTHON) requirements/lock.py

clean: ## remove what make made; the state of `make up` too
	@rm -rf .venv .venv-libmaas .venv-conformance .windlass build *.egg-info

# An environment is there once its last file is. What an interrupted run left is begun anew.
.venv: .venv/.installed
.venv-libmaas: .venv-libmaas/.installed
.venv-conformance: .venv-conformance/.installed

.venv/.installed: requirements/dev.txt pyproject.toml
	$(have_python)
	@echo "installing into .venv (once) ..."
	@test -e $@ || rm -rf .venv
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP) --require-hashes -r requirements/dev.txt || \
		{ echo "error: the packages could not be installed. do: check that pip reaches a package index (pip config list)" >&2; exit 1; }
	@$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv-libmaas/.installed .venv-conformance/.installed: .venv-%/.installed: requirements/%.txt
	$(have_python)
	@test -e $@ || rm -rf .venv-$*
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python $(PIP) --require-hashes -r $<
	@touch $@
