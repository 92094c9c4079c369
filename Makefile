# Two commands: `make book` and `make test`. `make` alone lists the others.

# The Python to start from; by default the first of these that is 3.11 or later.
PYTHON ?=
# Handed to pip, for people who want another build of torch.
PIP_ARGS ?=
# A name of the course, or the path of a model's folder.
MODEL ?= $(or $(INSIDE_GENERATE_MODEL),auto)
# Where the course is published: its repository on GitHub, the site, a JupyterHub. All may be empty.
REPO_URL ?=
SITE_URL ?=
HUB_URL ?=
# Handed to JupyterLab.
LAB_ARGS ?=
# Handed to book/gpu_check.py; its --help lists what there is.
GPU_ARGS ?=

VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PY := $(BIN)/python
# Python compiles what is imported, when it is; pip would compile all there is, for most of a minute.
PIP := $(PY) -m pip install -qq --disable-pip-version-check --no-compile $(PIP_ARGS)
PYTEST := $(PY) -m pytest
CANDIDATES := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
STAND_INS := qwen2.5-coder-0.5b-instruct smollm2-135m-instruct
PUBLISHED := --repo-url="$(REPO_URL)" --site-url="$(SITE_URL)" --hub-url="$(HUB_URL)"
LESSON := notebooks/00_the_whole_path.ipynb

# Containers often tell Python to keep nothing that it compiles; then each of hundreds of processes
# would compile torch and transformers anew, for some seconds.
unexport PYTHONDONTWRITEBYTECODE
export INSIDE_GENERATE_MODEL := $(MODEL)
# Set for the tests that only `make test-all` runs.
export TEST_ALL := $(filter test-all,$(MAKECMDGOALS))

.DEFAULT_GOAL := help
.PHONY: help book test test-all check mutants gpu-check lab offline clean clean-all

help:
	@echo "make book       set up .venv, fetch a model, run the notebooks, build _build/html"
	@echo "make test       set up, then the tests, tier by tier"
	@echo "make test-all   the same from a clean start, the checks of the code, a stick and a class"
	@echo "make check      lint, format, types and spelling"
	@echo "make mutants    break the loop's code on purpose, line by line, and see which tests notice"
	@echo "make gpu-check  what only a CUDA GPU can show, in 8 minutes, with the packages that are there"
	@echo "make lab        the notebooks in JupyterLab"
	@echo "make offline    pack pages, notebooks, packages and model into _build/offline, for a stick"
	@echo "make clean      remove what runs produce; models, .venv and the students' edition stay"
	@echo "make clean-all  remove .venv too"
	@echo
	@echo "make book MODEL=NAME|PATH    another model than the one found by itself"
	@echo "make book PYTHON=python3.12  another Python"
	@echo "make book PIP_ARGS=...       what pip is to be told, for another build of torch, say"
	@echo "make book REPO_URL=https://github.com/OWNER/NAME SITE_URL=... HUB_URL=...  pages to publish"

book: $(VENV)/.book
	@$(PY) -m inside_generate fetch --model "$(MODEL)"
	@$(PY) book/build.py $(PUBLISHED)

test: $(VENV)/.test
	@echo "== hermetic: a tiny model, no network"
	@OMP_NUM_THREADS=1 $(PYTEST) tests/hermetic -n 2 --dist loadfile
	@echo "== weights: real checkpoints"
	@$(PY) -m inside_generate fetch --model "$(MODEL)"
	@for name in $(STAND_INS); do $(PY) -m inside_generate fetch --model $$name || \
	  echo "Going on without $$name: its tests will be skipped"; done
	@$(PYTEST) tests/weights
	@echo "== notebooks: the lessons, executed once for tests and pages"
	@$(PY) book/build.py --notebooks-only
	@$(PYTEST) tests/notebooks -n 2 --dist loadfile
	@echo "== book: the pages"
	@$(PY) book/build.py $(PUBLISHED)
	@$(PYTEST) tests/book -n 2 --dist loadfile

test-all: clean check test
	@echo "== workshop: the stick without a network, a class on a JupyterHub"
	@$(PYTEST) tests/workshop

check: $(VENV)/.test
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy
	@$(PY) -m codespell_lib

# Some twenty minutes on two cores. A run that was stopped goes on; what is written anew is mutated anew.
mutants: $(VENV)/.test
	@$(PIP) -r .ci/requirements-mutants.txt
	@OMP_NUM_THREADS=1 $(PY) -m mutmut run
	@$(PY) -m mutmut results

# Nothing is set up here: a machine with a GPU brings its own PyTorch, and may have no network.
gpu-check:
	@$(or $(PYTHON),$(wildcard $(PY)),python3) book/gpu_check.py $(GPU_ARGS)

lab: $(VENV)/.book
	@$(PY) -m inside_generate fetch --model "$(MODEL)"
	@$(PY) -m jupyterlab --LabApp.default_url=/lab/tree/$(LESSON) $(LAB_ARGS)

offline: book
	@$(PY) book/offline.py --pip-args="$(PIP_ARGS)"

clean:
	@rm -rf $(filter-out _build/student,$(wildcard _build/* _build/.[!.]*)) .run-* fixtures mutants

clean-all: clean
	@rm -rf $(VENV)

# Each stamp is written last, so that a set-up that was interrupted starts again; the first one
# holds the folder's name, since a virtual environment does not survive a move.
ifneq ($(shell cat $(VENV)/.made 2>/dev/null),$(CURDIR))
$(VENV)/.made: moved
.PHONY: moved
endif
$(VENV)/.made:
	@found=; for python in $(CANDIDATES); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then found=$$python; break; fi; done; \
	if [ -z "$$found" ]; then \
	  echo "error: no Python 3.11 or later among: $(CANDIDATES); install one, or say where it is: make book PYTHON=/path/to/python3" >&2; exit 1; fi; \
	if ! $$found -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "error: $$found cannot make virtual environments; on Debian and Ubuntu type: sudo apt install python3-venv" >&2; exit 1; fi; \
	echo "Setting up $(VENV) with $$found"; \
	rm -rf $(VENV) && $$found -m venv $(VENV)
	@printf '%s' '$(CURDIR)' > $@

$(VENV)/.book: $(VENV)/.made requirements.txt .ci/constraints.txt pyproject.toml
	@echo "Installing the packages of requirements.txt into $(VENV) (some minutes the first time)"
	@$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.test: $(VENV)/.book .ci/requirements-test.txt
	@echo "Installing what the tests need into $(VENV)"
	@$(PIP) -r .ci/requirements-test.txt
	@touch $@
