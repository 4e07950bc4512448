# Every target sets up what it needs: a machine with Python (3.10 or newer) and make is enough.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo page test test-all test-slow approve search test-browser screenshots test-frameworks chromium lint format faults bench bench-against same-alerts bench-long bench-page bench-frameworks bench-probe framework-runs quality quality-grid recordings docs dist clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1 \t\2/p' $(MAKEFILE_LIST) | expand -t 25

demo: .venv/.core ## play a recorded GRPO run that blows up through the real monitor
	@$(BIN)/klarm demo

page: src/klarm/server/page/index.html ## build the page of `klarm serve`, with Node from PyPI where none is there

test: .venv/.dev ## run the tests: the same every time, in under three minutes
	@$(BIN)/pytest -n auto --dist worksteal -m "not slow" --closing-line "$(TESTED)" $(OPTIONS)

TESTED := Tested: all of klarm but the page in a browser and real frameworks. make test-all adds these, and what is slow: kills, damaged bytes, memory.

test-all: test test-slow test-browser test-frameworks ## run everything: also what is slow, the page in Chromium, real frameworks

test-slow: .venv/.dev ## kill, damage and fill up: the tests that take long
	@$(BIN)/pytest -n auto --dist worksteal -m slow $(OPTIONS)

approve: .venv/.dev ## write the approved texts of tests/approved again: read the diff
	@PYTHONPATH=bench $(BIN)/python tests/test_approved.py

search: .venv/.dev ## look for examples that break a property, with fresh seeds (as long as you like: OPTIONS="-k kl_explosion")
	@$(BIN)/pytest -n auto --dist worksteal -m hypothesis --hypothesis-profile=search $(OPTIONS)

test-browser: page .venv-browser/.installed chromium ## check the page: types, unit tests, and everything in a real Chromium
	@web/with-node npm run --silent check
	@web/with-node npm run --silent test
	@.venv-browser/bin/pytest tests/browser

screenshots: page .venv-browser/.installed chromium ## take the pictures of docs/page.md again
	@PYTHONPATH=tests/browser .venv-browser/bin/python tests/browser/take_screenshots.py docs/images

test-frameworks: .venv-frameworks/.installed ## run the tests within real TRL, SB3, RLlib ... (CPU, an environment of 3 GB)
	@.venv-frameworks/bin/pytest tests/frameworks src/klarm/integrations

faults: .venv/.dev ## break things around klarm many times: kills, crashes at every write, flipped bytes (some 15 minutes)
	@PYTHONPATH=tests/faults:tests/delivery $(BIN)/python tests/faults/long_form.py $(OPTIONS)

lint: .venv/.dev ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.dev ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv-bench/.installed ## measure overhead beside rlwatch; writes bench/results/overhead.json
	@.venv-bench/bin/python bench/overhead.py

bench-against: .venv/.core ## measure `log` beside an earlier commit: make bench-against REV=HEAD~1
	@$(BIN)/python bench/against.py $(or $(REV),HEAD~1)

same-alerts: .venv-bench/.installed ## compare alerts on recorded, framework and generated runs with an earlier commit: make same-alerts REV=bdee56f
	@PYTHONPATH=bench .venv-bench/bin/python bench/same_alerts.py $(or $(REV),HEAD~1) $(OPTIONS)

bench-long: .venv/.core ## measure a run of a million steps: slow calls of `log`, resuming, going back
	@$(BIN)/python bench/long_run.py $(OPTIONS)

bench-page: page .venv-bench-page/.installed chromium ## measure `klarm serve`, also in Chromium, beside TensorBoard; writes bench/results/page.json
	@PYTHONPATH=bench:tests/browser .venv-bench-page/bin/python -m page $(OPTIONS)

bench-frameworks: .venv-frameworks/.installed ## measure klarm's share of a training step; writes bench/results/framework_share.json
	@PYTHONPATH=recordings:tests/frameworks .venv-frameworks/bin/python bench/framework_share.py

bench-probe: .venv-frameworks/.installed ## measure how good the probe is and what it costs; writes bench/results/probe.json
	@PYTHONPATH=bench:recordings OMP_NUM_THREADS=1 .venv-frameworks/bin/python bench/probe.py $(OPTIONS)

framework-runs: .venv-frameworks/.installed ## train the tiny runs in TRL, SB3 and RLlib that bench/framework_runs/runs.jsonl.xz lacks, and append them (all 304: some 90 minutes of one core)
	@PYTHONPATH=bench:recordings OMP_NUM_THREADS=1 .venv-frameworks/bin/python -m framework_runs $(OPTIONS)

quality: .venv-bench/.installed ## measure how good the detectors are; writes bench/results/quality.json and pictures (OPTIONS=--quick: a tenth)
	@PYTHONPATH=bench .venv-bench/bin/python -m quality $(OPTIONS)

quality-grid: .venv-bench/.installed ## choose the constants of kl_runaway on runs to tune on; writes bench/results/grid.json (some 15 minutes on two cores, by estimate)
	@PYTHONPATH=bench .venv-bench/bin/python -m quality.grid $(OPTIONS)

recordings: .venv-recordings/.installed ## train the three tiny GRPO runs of the demo again (CPU, about two minutes)
	@.venv-recordings/bin/python recordings/tiny_grpo.py src/klarm/recordings

docs: .venv-docs/.installed ## build the docs as a site with search, into build/docs; a broken link is an error
	@mkdir -p build
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build >build/docs.log 2>&1 || { cat build/docs.log; exit 1; }
	@echo "read it: $(PYTHON) -m http.server --bind 127.0.0.1 --directory build/docs"

# The wheel is tried where nothing else is installed, and nothing of the checkout is at hand.
dist: page .venv-dist/.installed ## build wheel and sdist into dist/, install the wheel into an empty environment, run the demo there
	@rm -rf dist build/try
	@.venv-dist/bin/python -m build --outdir dist . >/dev/null
	@$(PYTHON) -m venv build/try
	@build/try/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@cd build/try && unset PYTHONPATH && bin/klarm demo --fast
	@build/try/bin/python -m pip show klarm | sed -n 1,2p
	@rm -rf build/try
	@ls dist

clean: ## remove environments, caches and results
	rm -rf .venv .venv-bench .venv-bench-page .venv-browser .venv-dist .venv-docs .venv-frameworks .venv-page .venv-recordings
	rm -rf build dist bench/results web/node_modules src/klarm/server/page
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The page is built again when its source has changed.
PAGE_SOURCE := $(shell find web/src web/index.html web/vite.config.ts web/tsconfig.json -type f)
src/klarm/server/page/index.html: web/node_modules/.installed $(PAGE_SOURCE)
	@PYTHON=$(PYTHON) web/with-node npm run --silent build
	@touch $@

web/node_modules/.installed: web/package.json web/package-lock.json web/.npmrc
	@PYTHON=$(PYTHON) web/with-node npm ci --no-progress --loglevel=error
	@touch $@

# Debian's and Ubuntu's way; elsewhere, install Chromium or Chrome yourself.
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
		echo "installing chromium ..."; \
		sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$sudo apt-get -qq update && $$sudo apt-get -qq install -y --no-install-recommends chromium fonts-liberation >/dev/null; \
	}

# One environment per purpose; each is made again when pyproject.toml changes.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("klarm needs Python 3.10 or newer, this is %d.%d; try: make PYTHON=python3.12 ..." % sys.version_info[:2] if sys.version_info < (3, 10) else 0)'
	@echo "setting up .venv ..."
	@$(PYTHON) -m venv .venv

.venv/.core: .venv/bin/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ .venv/.core

.venv-bench/.installed: pyproject.toml
	@echo "setting up .venv-bench ..."
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

.venv-bench-page/.installed: pyproject.toml bench/requirements-page.txt
	@echo "setting up .venv-bench-page (playwright, tensorboard) ..."
	@$(PYTHON) -m venv .venv-bench-page
	@.venv-bench-page/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements-page.txt -e '.[server]'
	@touch $@

.venv-browser/.installed: pyproject.toml tests/browser/requirements.txt
	@echo "setting up .venv-browser (playwright) ..."
	@$(PYTHON) -m venv .venv-browser
	@.venv-browser/bin/python -m pip install --quiet --disable-pip-version-check -r tests/browser/requirements.txt -e '.[dev]'
	@touch $@

.venv-docs/.installed: pyproject.toml
	@echo "setting up .venv-docs (mkdocs-material, mkdocstrings) ..."
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

.venv-dist/.installed: pyproject.toml
	@echo "setting up .venv-dist (build) ..."
	@$(PYTHON) -m venv .venv-dist
	@.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check build
	@touch $@

.venv-recordings/.installed: pyproject.toml
	@echo "setting up .venv-recordings (torch, trl) ..."
	@$(PYTHON) -m venv .venv-recordings
	@.venv-recordings/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@.venv-recordings/bin/python -m pip install --quiet --disable-pip-version-check trl
	@touch $@

# torch goes first, in a version with a CPU build; what lacks the GPU packages it depends on goes last.
FRAMEWORK_REQUIREMENTS := tests/frameworks/requirements.txt tests/frameworks/requirements-no-deps.txt
.venv-frameworks/.installed: pyproject.toml $(FRAMEWORK_REQUIREMENTS)
	@echo "setting up .venv-frameworks (torch, trl, ray ...) ..."
	@$(PYTHON) -m venv .venv-frameworks
	@.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check -r tests/frameworks/requirements.txt -e '.[dev]'
	@.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/frameworks/requirements-no-deps.txt
	@touch $@
