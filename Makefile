# `make help` lists every target.
PYTHON ?= python3
PORT ?= 8080
BIN := .venv/bin
HARDPACK_HOME ?= $(CURDIR)/.hardpack
export HARDPACK_HOME
# a machine may forbid Python to keep what it compiled, and then each process compiles all modules and tests anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run up down test check fmt docs site test-fast test-spark test-kafka test-equivalence mutants test-histories test-histories-spark soak test-dags test-kafka-postgres-dags test-system test-scheduler test-postgres test-services test-production test-crashes test-neighbours test-sinks test-install test-versions bench bench-quick bench-cold bench-sensing bench-million bench-layouts bench-company bench-many bench-scaling bench-reading bench-far bench-what-if bench-cluster monitoring env jars lock changelog dist screenshots clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##|^##@' $(MAKEFILE_LIST) | sed -E 's/^##@ (.*)/\n\1/; s/^([a-z-]+):.*## /  \1\t/' | expand -t 18

##@ Use
run: preflight-port env jars ## load the demo topic, compact it once through Airflow, show what happened
	@$(BIN)/python -m hardpack_airflow.demo run --port $(PORT)

up: preflight env jars ## keep Airflow running on loopback, with a topic that goes on growing
	@$(BIN)/python -m hardpack_airflow.demo up --port $(PORT)

down: ## stop what `make up` started
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m hardpack_airflow.demo down --port $(PORT); fi

clean: down ## remove everything that was made here: environment, jars, lakehouse, reports
	rm -rf .venv .hardpack .pyiceberg.yaml spark-warehouse *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Test
test: preflight env jars check test-fast test-histories test-spark test-kafka-postgres-dags test-system ## lint, types and every layer of tests

# these layers make tens of thousands of small files; memory takes and forgets them faster than a disk
MEMORY := $(shell df -k --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 4000000 {print "/dev/shm"}')
test-fast test-histories test-spark test-kafka-postgres-dags test-system: export PYTEST_DEBUG_TEMPROOT = $(MEMORY)

check: env ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-fast: env ## pure rules and structure, no JVM, on two cores
	$(BIN)/pytest -q -n 2 -m "not spark and not dags and not system and not kafka and not equivalence and not scheduler and not services and not production and not neighbours and not crashes and not histories and not sinks and not install and not versions"

test-spark: env jars ## the engine on two Spark sessions, file by file, and a history on a real table
	SPARK_HISTORIES=1 $(BIN)/pytest -q -n 2 --dist loadfile --durations=12 -m "spark and not equivalence"

test-kafka: env jars ## the same records cleaned by a real broker and in a table
	$(BIN)/pytest -q -s -m kafka

test-equivalence: env jars ## all of Kafka's cases and logs, and 2,000 random logs, through Spark, and in the shapes of five sinks (two hours)
	HARDPACK_RANDOM_LOGS=2000 $(BIN)/pytest -q -s -m equivalence -o timeout=7200

mutants: env ## planted bugs: in the rules, for which tests fail, and in the rest, which histories find (half an hour)
	$(BIN)/python -m tests.equivalence.mutants
	$(BIN)/python -m tests.histories.mutants

test-histories: env ## random histories of a table in memory, judged by an oracle (a minute, no JVM)
	$(BIN)/pytest -q -n 2 -m "histories and not spark"

test-histories-spark: env jars ## a sample of such histories on real tables (SPARK_HISTORIES=10, minutes)
	$(BIN)/pytest -q -m "histories and spark"

soak: env ## many more of them, as HISTORIES=50000 SEED=1 says
	$(BIN)/python -m tests.histories --histories $(or $(HISTORIES),50000) --seed $(or $(SEED),1)

test-dags: env jars ## the DAGs parsed and run without a scheduler, file by file on two cores
	$(BIN)/pytest -q -n 2 --dist loadfile -m dags

test-kafka-postgres-dags: env jars ## these three layers at once, as each of them waits for other processes
	$(BIN)/pytest -q -n 2 --dist loadfile -m "kafka or postgres or dags"

test-system: env jars ## one whole run through a real scheduler
	$(BIN)/pytest -q -m system

test-scheduler: env jars ## runs at once, killed and cleared tasks under a real scheduler (about half an hour)
	$(BIN)/pytest -q -s -m scheduler

test-postgres: env jars ## a real PostgreSQL from Maven Central, examined by both engines
	$(BIN)/pytest -q -m postgres

test-services: env jars ## PostgreSQL, REST, Glue and S3 from package registries, each examined by both engines (needs Go)
	$(BIN)/pytest -q -m services

test-production: test-services ## the main job on PostgreSQL or REST, S3 and a Spark cluster (about a quarter of an hour)
	$(BIN)/pytest -q -s -m production --ignore tests/production/test_outages.py
	@# in a process of its own, as a JVM keeps the jars that it was started with
	$(BIN)/pytest -q -s tests/production/test_outages.py

test-neighbours: env jars ## appender, cleaner, bin-pack, expiry and deletes on one table for twenty minutes
	$(BIN)/pytest -q -s -m neighbours tests/compaction
	@# in a process of its own, as a Spark session keeps the catalog that it was opened with
	$(BIN)/pytest -q -s -m neighbours tests/production

test-sinks: env jars ## Kafka Connect and Spark's streaming write tables while these are cleaned (twenty minutes)
	$(BIN)/pytest -q -s -m sinks

test-install: env ## the wheel by plain pip in an empty environment, and the main job from there (minutes)
	$(BIN)/pytest -q -s -m install

test-versions: env ## the main job with each Airflow, Spark and Python of docs/airflow.md (half an hour)
	$(BIN)/pytest -q -s -m versions

test-crashes: env jars ## 1,000 passes that end at random points, 100 that are killed (about three hours)
	$(BIN)/pytest -q -s -m crashes

bench: env jars ## our way and others side by side on the same files, three rounds (hours; BENCH="--sets local_5" for less)
	$(BIN)/python -m tests.benchmarks --sets uniform_half,local_5,uniform_5,zipf,tombstones,many_small,one_log --kafka $(BENCH)

bench-quick: env jars ## the same on a twentieth of the rows, one round
	$(BIN)/python -m tests.benchmarks --quick

bench-cold: env jars ## verbs on a small table from shell to prompt, beside PySpark scripts (minutes)
	$(BIN)/python -m tests.benchmarks.cold

bench-sensing: env ## what a look at 1,000 tables of 100 logs costs, the first time and after
	$(BIN)/python -m tests.benchmarks.sensing

bench-million: env jars ## plan and commit of one log of a million files, beside an appender (minutes)
	$(BIN)/python -m tests.benchmarks.million

bench-layouts: env jars ## a pass on tables as sinks leave them, against the plain one (minutes)
	$(BIN)/python -m tests.benchmarks.layouts

bench-company: env jars ## 3,000 tables, 300 of them due and 50 broken, in one Airflow (ten minutes)
	$(BIN)/python -m tests.benchmarks.company

bench-many: env jars ## 300 small tables that are all due, in one DAG run (ten minutes)
	$(BIN)/python -m tests.benchmarks.many

bench-scaling: env jars ## a model of N cores from event logs, held against 1, 2 and 4 slots (a quarter of an hour)
	$(BIN)/python -m tests.benchmarks.scaling

bench-reading: env ## 10,000 seeks and a whole log in order, beside DuckDB, pyiceberg, pyarrow and a real broker (minutes)
	$(BIN)/python -m tests.benchmarks.reading --consumed 5000000

bench-far: env jars ## a pass on local disk, on S3 and on S3 behind a delay, and what it asks the storage for (needs Go; minutes)
	$(BIN)/python -m tests.benchmarks.far

bench-what-if: env jars ## what a replay tells of other dirty ratios, beside real passes at these (ten minutes)
	$(BIN)/python -m tests.benchmarks.what_if

bench-cluster: env jars ## one and two workers of a Spark cluster, tables of several sizes
	$(BIN)/python -m tests.benchmarks.cluster

monitoring: env jars ## each alert in its situation, by Prometheus' own promtool (Debian's package prometheus)
	promtool check rules --lint=all --lint-fatal infra/monitoring/alerts.yml
	promtool test rules infra/monitoring/alerts_test.yml
	$(BIN)/pytest -q tests/dags/test_alerts.py

##@ Develop
fmt: env ## format and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: env ## make the pages of the docs that follow from the code
	$(BIN)/python -m infra.docs.settings_page
	$(BIN)/python -m infra.docs.policies_page
	$(BIN)/python -m infra.docs.report_schema

site: env ## the docs as a site, in build/site
	$(BIN)/python -m infra.docs.site

env: .venv/.done ## make the environment from the lock

jars: env ## fetch Iceberg's runtime and the JDBC driver once
	@$(BIN)/hardpack jars

lock: env ## resolve the dependencies anew
	$(BIN)/uv pip compile -q infra/uv.in --generate-hashes --universal --python-version 3.11 --no-header -o infra/uv.lock.txt --upgrade
	$(BIN)/uv pip compile -q setup.cfg --extra airflow --extra demo --extra dev --extra postgres --generate-hashes --universal --python-version 3.11 --no-header --no-annotate -o requirements.lock --upgrade
	$(BIN)/uv pip compile -q setup.cfg --extra airflow --extra kafka --extra kubernetes --extra postgres --generate-hashes --universal --python-version 3.11 --no-header --no-annotate -c requirements.lock -o infra/container/requirements.lock

changelog: env ## put the notes of docs/changes into docs/changelog.md, as VERSION=0.2.0 says
	$(BIN)/towncrier build --yes --version $(VERSION)

dist: env ## build sdist and wheel into dist/
	rm -rf dist
	$(BIN)/uv build -q -o dist .

screenshots: env jars ## take the README's pictures from a running system (needs Chromium)
	$(BIN)/python -m infra.local.screenshots --port $(PORT)

.PHONY: preflight preflight-port
preflight:
	@$(PYTHON) infra/preflight.py

preflight-port:
	@$(PYTHON) infra/preflight.py --port $(PORT)

.venv/.done: requirements.lock infra/uv.lock.txt setup.cfg pyproject.toml
	@$(PYTHON) infra/preflight.py
	$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r infra/uv.lock.txt
	$(BIN)/uv pip sync -q --require-hashes --compile-bytecode requirements.lock
	$(BIN)/uv pip install -q --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q jobs plugins expectations
	@touch $@
