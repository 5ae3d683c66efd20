# Every target sets up what it needs by itself in .venv; `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help run test test-cluster check bench soak lock clean setup setup-bench setup-cluster
MAKEFLAGS += --no-print-directory

PYTHON ?=
BIN := .venv/bin
ARGS ?=
# Three processes, since many tests wait; each has whole files: what a file sets up is set up once. Each has a Spark session of its own. The files that take
# longest come first (tests/conftest.py); xdist by itself would begin with those of the most tests.
TOGETHER ?= -n 3 --dist loadfile --no-loadscope-reorder
SIZE ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv and install everything but the benchmark peers (PYTHON=... picks the interpreter)
	@PYTHON='$(PYTHON)' sh requirements/setup.sh dev

setup-bench:
	@PYTHON='$(PYTHON)' sh requirements/setup.sh dev bench

run: setup ## Run the main job into out/ (SIZE=small or medium is quicker; ARGS=... adds options)
	@$(BIN)/contentcast run $(if $(SIZE),--size $(SIZE)) $(ARGS)

# The docs belong to `make check`, so that checking and testing runs their code blocks once. What a page shows is what a command prints
# once the kernels are compiled, so both compile them first.
test: setup ## Run all tests but those of the docs and those that need downloads (ARGS=... adds pytest options)
	@$(BIN)/contentcast warm
	@$(BIN)/python -m pytest $(TOGETHER) --ignore=tests/docs --ignore=tests/downloads $(ARGS)

setup-cluster: setup
	@sh requirements/setup-cluster.sh

test-cluster: setup-cluster ## Fetch Kafka, Delta, Iceberg and S3A with Maven, and test Spark with them (ARGS=... adds pytest options)
	@CONTENTCAST_CLUSTER_PYTHON=.venv/cluster/bin/python $(BIN)/python -m pytest tests/downloads $(ARGS)

check: setup ## Check format, lint, types, import order and the docs: code blocks, names, links
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/contentcast warm
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/docs

bench: setup-bench ## Measure against peers in the same run (ARGS=... adds options)
	@$(BIN)/python -m benchmarks $(ARGS)

soak: setup ## Play 1,000 stories of crashes, cuts and churn to every protocol (ARGS='--seeds 50'), 10,000 of durable delivery, then attack all entrances
	@$(BIN)/python -m contentcast.simulation.faults --protocol all --seeds 1000 $(ARGS)
	@$(BIN)/python -m contentcast.simulation.coming_and_going --seeds 1000
	@$(BIN)/python -m tests.simulation.durable --seeds 10000
	@$(BIN)/python -m tests.fuzz --minutes 10 --first 2000000
	@$(BIN)/python -m tests.fuzz_inputs --minutes 20 --first 2000000
	@$(BIN)/python -m tests.fuzz_frames --count 10000000

# --no-config and the --no-emit options keep this machine's registry settings out of the locks. The larger lock comes first: what both
# hold has one version, one that suits the benchmark peers too.
LOCK = $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links
COMPILE = $(LOCK) pyproject.toml --extra spark --extra live --extra web --extra dev
# The newest Sparks that Delta and Iceberg have releases for (requirements/jars.toml).
SPARKS = 4.2.1 4.1.4

lock: setup ## Renew requirements/*.lock from pyproject.toml (ARGS='--upgrade' for the newest versions)
	@$(COMPILE) $(ARGS) --extra bench --output-file requirements/bench.lock
	@$(COMPILE) $(ARGS) --constraints requirements/bench.lock --output-file requirements/dev.lock
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["cluster"], sep="\n")' \
		| $(LOCK) - $(ARGS) --output-file requirements/cluster.lock
	@for version in $(SPARKS); do echo "pyspark==$$version" | $(LOCK) - --no-deps --output-file requirements/spark-$$version.lock; done
	@! grep -nE '://' requirements/*.lock || { echo 'lock: an address of a registry got into a lock' >&2; exit 1; }
	@sh requirements/setup.sh dev

clean: ## Remove .venv and all caches
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
