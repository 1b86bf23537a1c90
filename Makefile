# Everything that a developer does, by name. `make help` lists it.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Where it is set, each of the hundreds of processes that tests start compiles a thousand modules anew: 2.7 s
# of processor time for a node instead of 1.1.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
STAMPS := .cache/setup

# ONCE=1: end after the Spark jobs instead of serving on.
ONCE ?=
# PEER=kafka: measure Apache Kafka beside us, and a C server that shows what is possible. PEER=limit: that alone.
PEER ?=
# Passed to pytest, e.g. ARGS="-k segment -x".
ARGS ?=
# make sim: SEEDS=n runs that many, from FIRST on; SEED=n replays one with a trace (BUG=name: with it);
#     TXN=1: every seed with transactions.
SEEDS ?= 1000
FIRST ?= 0
SEED ?=
BUG ?=
# Sizes of the shares that `make test` and `make full` run.
FUZZ_FRAMES ?= 20000
FLOOD_SECONDS ?= 3
FUZZ_FRAMES_FULL ?= 1000000
CRASH_ROUNDS_FULL ?= 20

# Three shares, one after the other. Tests of one process each; tests whose clusters are their own, which
# mostly wait; all others, which share clusters, a Spark session and servers that stay until the end. Two
# workers run each of the first two.
QUICK := tests/unit tests/property tests/codegen tests/sim tests/tidy
ALONE := tests/contract tests/cluster tests/robustness/faults
OTHERS := tests $(patsubst %,--ignore=%,$(QUICK) $(ALONE))
# Of these, tests that load a small machine by themselves: `make full` runs all of them, with nothing beside.
HEAVY := tests/spark tests/docker
# What failed tests of `make full` wrote; other runs of pytest do not remove it.
KEPT := .cache/full
# Exit status 5: nothing selected. A share may well have nothing that ARGS select.
OR_NOTHING = $(if $(ARGS),|| [ $$? -eq 5 ])

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

# --- setup -----------------------------------------------------------------------------------

LOCKED := pyproject.toml uv.lock tools/setup/system.sh tools/setup/environment.sh

$(STAMPS)/python: $(LOCKED)
	@mkdir -p $(STAMPS)
	@sh tools/setup/system.sh python
	@sh tools/setup/environment.sh
	@touch $@

$(STAMPS)/spark: $(LOCKED) spark/pom.xml tools/setup/spark_jars.sh
	@mkdir -p $(STAMPS)
	@sh tools/setup/system.sh python java maven
	@sh tools/setup/environment.sh spark
	@sh tools/setup/spark_jars.sh
	@touch $@ $(STAMPS)/python

# The other clients, the metadata store and the tools that tests run against.
.PHONY: peers
peers: $(STAMPS)/python
	@sh tools/setup/system.sh etcd kcat java maven gcc openssl node faketime chromium
	@[ "$$(id -u)" -ne 0 ] || sh tools/setup/system.sh strace ext4
	@for lock in $$(find tests tools -name package-lock.json -not -path '*/node_modules/*'); do \
	    dir=$$(dirname $$lock); \
	    [ $$dir/node_modules/.package-lock.json -nt $$lock ] || npm ci --silent --no-audit --no-fund --prefix $$dir || exit 1; \
	done

# A newer etcd than the distribution's. Not a part of `peers`: it takes a minute, and Go.
.PHONY: newer-etcd
newer-etcd: $(STAMPS)/python ## the second version of etcd that the store's tests run on
	@sh tools/setup/system.sh go
	@sh tools/setup/etcd.sh

# Checks our HTTP/2 case by case. It needs Go; half a minute, once.
.PHONY: h2spec
h2spec: $(STAMPS)/python ## the program that checks HTTP/2 servers against the RFC
	@sh tools/setup/system.sh go
	@sh tools/setup/h2spec.sh

# Small programs that drive Go clients for the tests; half a minute, once.
.PHONY: go-clients
go-clients: $(STAMPS)/python
	@sh tools/setup/go_clients.sh

# The tests that kafka-python's wheel leaves out; a few seconds, once.
.PHONY: kafka-python-suite
kafka-python-suite: $(STAMPS)/python
	@sh tools/setup/kafka_python_suite.sh

# For the tests of the compose stack. Without root no engine can be started anyway: if none answers
# there, the tests are skipped and say so.
.PHONY: engine
engine: $(STAMPS)/python
	@[ "$$(id -u)" -ne 0 ] || sh tools/setup/system.sh docker compose debootstrap

.PHONY: setup
setup: $(STAMPS)/python ## the Python environment in .venv, and what it needs of the system
	@:

.PHONY: setup-all
setup-all: $(STAMPS)/python $(STAMPS)/spark peers newer-etcd h2spec go-clients kafka-python-suite engine ## all that any target needs
	@:

# --- run -------------------------------------------------------------------------------------

.PHONY: run
run: $(STAMPS)/spark ## a broker, a sample log through it, Spark jobs on it; then serves on (ONCE=1: ends)
	@$(BIN)/python tools/run_demo.py $(if $(ONCE),--once)

# --- check -----------------------------------------------------------------------------------

.PHONY: lint
lint: $(STAMPS)/python ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: fix
fix: $(STAMPS)/python ## what can be repaired mechanically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.tidy.exemptions

.PHONY: proto
proto: $(STAMPS)/python ## generate protos/gen
	$(BIN)/python tools/gen_protos.py

.PHONY: verify-proto
verify-proto: $(STAMPS)/python ## is protos/gen what the protos generate?
	$(BIN)/python tools/gen_protos.py --check

.PHONY: docs
docs: $(STAMPS)/python ## generate docs/apis.md and docs/metrics.md
	$(BIN)/python -m tools.gen_docs

.PHONY: verify-docs
verify-docs: $(STAMPS)/python ## are these pages what the code gives?
	$(BIN)/python -m tools.gen_docs --check

.PHONY: static
static: lint verify-proto verify-docs

.PHONY: test-tools
test-tools: peers h2spec go-clients kafka-python-suite engine

# The sources are checked while the tools that tests need are fetched and built.
.PHONY: ready
ready: $(STAMPS)/spark
	@$(MAKE) test-tools & tools=$$!; $(MAKE) static; checked=$$?; wait $$tools && exit $$checked

.PHONY: check
check: static ## under 3 minutes: lint, generated code, style rules, unit tests
	$(PYTEST) tests/tidy tests/unit tests/sim -q -n 2 -m "not full and not slow and not etcd and not java" $(ARGS)

.PHONY: audit-dependencies
audit-dependencies: $(STAMPS)/python ## are there known holes in what uv.lock names? Asks the network, so no other target runs it
	$(BIN)/uv audit --frozen --preview-features audit-command $(ARGS)

.PHONY: test
test: ready ## some 35 minutes: at least one case of everything
	$(PYTEST) $(QUICK) -n 2 --dist worksteal -q -m "not full and not bench" $(ARGS) $(OR_NOTHING)
	$(PYTEST) $(ALONE) -n 2 --dist worksteal -q -m "not full and not bench" $(ARGS) $(OR_NOTHING)
	$(PYTEST) $(OTHERS) -n 2 --dist loadgroup -q -m "not full and not bench" --fuzz-frames $(FUZZ_FRAMES) --flood-seconds $(FLOOD_SECONDS) $(ARGS) $(OR_NOTHING)

.PHONY: test-docker
test-docker: engine $(STAMPS)/spark ## the compose stack in a real Docker engine; starts one if none runs and we are root
	$(PYTEST) tests/docker -q $(ARGS)

.PHONY: compat-kafka-python
compat-kafka-python: kafka-python-suite ## kafka-python's own integration tests against us (ARGS="--mode nodes3": not in one process)
	@$(BIN)/python -m tests.compat.kafka_python $(ARGS)

.PHONY: full
full: ready newer-etcd ## hours: every client in every mode, long fuzz, all crash points
	@mkdir -p $(KEPT)
	$(PYTEST) $(QUICK) -n 2 --dist worksteal -q -m "not bench" --basetemp $(KEPT)/1 $(ARGS) $(OR_NOTHING)
	$(PYTEST) $(ALONE) -n 2 --dist worksteal -q -m "not bench" --basetemp $(KEPT)/2 $(ARGS) $(OR_NOTHING)
	$(PYTEST) $(OTHERS) $(patsubst %,--ignore=%,$(HEAVY)) -n 2 --dist loadgroup -q -m "not bench" --basetemp $(KEPT)/3 --fuzz-frames $(FUZZ_FRAMES_FULL) --crash-rounds $(CRASH_ROUNDS_FULL) $(ARGS) $(OR_NOTHING)
	$(PYTEST) $(HEAVY) -q -m "not bench" --basetemp $(KEPT)/4 $(ARGS) $(OR_NOTHING)

.PHONY: sim
sim: $(STAMPS)/python ## simulated replication: SEEDS=n many, SEED=n one of them with a trace
	@$(BIN)/python -m tests.sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --first $(FIRST)) $(if $(BUG),--bug $(BUG)) $(if $(TXN),--transactions)

.PHONY: sim-bugs
sim-bugs: $(STAMPS)/python ## does the simulation still find every known bug?
	@$(BIN)/python -m tests.sim --bugs

.PHONY: bench
bench: $(STAMPS)/python ## the load generator against us (PEER=kafka: and Apache Kafka and a small C server, PEER=limit: and that alone)
	@sh tools/setup/system.sh gcc openssl $(if $(filter kafka%,$(PEER)),java maven)
	@$(BIN)/python -m tests.bench $(if $(PEER),--peer $(PEER)) $(if $(filter kafka,$(PEER)),--peer kafka3 --peer limit) $(ARGS)

.PHONY: bench-failover
bench-failover: $(STAMPS)/python ## a leader is killed, paused, ended: how long writes wait, with us and with Apache Kafka
	@sh tools/setup/system.sh java maven
	@$(BIN)/python -m tests.bench.failover $(ARGS)

.PHONY: bench-restart
bench-restart: $(STAMPS)/python ## a killed node with 10 GB comes back; then more and more partitions
	@sh tools/setup/system.sh gcc openssl java maven
	@$(BIN)/python -m tests.bench.restart $(ARGS)

.PHONY: bench-nodes
bench-nodes: $(STAMPS)/python ## the same load on one, two and three nodes of this host
	@sh tools/setup/system.sh gcc openssl
	@$(BIN)/python -m tests.bench.nodes $(ARGS)

.PHONY: bench-control
bench-control: $(STAMPS)/python ## what the death of a node costs controller and gateways with 100 000 partitions
	@$(BIN)/python -m tests.bench.control_plane $(ARGS)

.PHONY: bench-tenants
bench-tenants: $(STAMPS)/python ## what a noisy neighbour, many instances and logins cost a tenant
	@sh tools/setup/system.sh gcc openssl
	@$(BIN)/python -m tests.bench.tenants $(ARGS)

.PHONY: bench-spark
bench-spark: $(STAMPS)/spark ## Spark's reads, loads, streams and mirrors with us beside the same with Apache Kafka (ARGS="--rows 'load/*'": some)
	@sh tools/setup/system.sh gcc openssl java maven
	@$(BIN)/python -m tests.bench.spark_bench $(ARGS)

.PHONY: clean
clean: ## remove what can be made again, but not .venv
	rm -rf .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
