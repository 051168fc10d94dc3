# `make` alone lists the targets.
CARGO ?= cargo
CACHE ?= $(or $(STEERSMAN_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/steersman)
TOOLS := $(CACHE)/tools
BIN := $(or $(CARGO_TARGET_DIR),target)/checks
DIST := $(or $(CARGO_TARGET_DIR),target)/dist
export PATH := $(TOOLS)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
# Built for a single run (see tools/demo.toml), without the optional command families that it does not need.
.PHONY: demo
demo: ## Run a chart operator on an embedded cluster until its sample is ready
	$(CARGO) run --config tools/demo.toml --package steersman-cli --bin steer --no-default-features -- dev examples/minimart --until-ready

.PHONY: install
install: ## Install `steer` into cargo's bin directory
	$(CARGO) install --locked --path crates/cli

##@ Check
# Suites use the programs that `make test` has built: built alone they would have other features, and rebuild all dependencies.
DEBUG := $(or $(CARGO_TARGET_DIR),target)/debug
BUILD_DEBUG = $(CARGO) test --workspace --quiet --no-run --test cli --test recorded_kubernetes

# Seed of the property tests, fixed so that a failure is caused by the change under test. Another number tries other cases.
export PROPTEST_RNG_SEED ?= 1

.PHONY: test
test: ## Run the tests
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) nextest run --workspace --no-tests=pass && $(CARGO) test --workspace --doc --quiet; \
	else \
		$(CARGO) test --workspace; \
	fi
	# No program is built with this feature, since its flag is not in the reference.
	$(CARGO) test --quiet --package steersman --features otlp --lib otlp::

.PHONY: lint
lint: fmt-check clippy deny machete ## Check format, lints and dependencies

.PHONY: libraries
libraries: doc hack package-check ## Check the crates as libraries: docs, each crate alone, packages

.PHONY: fmt-check
fmt-check:
	$(CARGO) fmt --all -- --check

.PHONY: clippy
clippy:
	$(CARGO) clippy --workspace --all-targets --quiet -- --deny warnings

.PHONY: deny
deny:
	@if command -v cargo-deny >/dev/null; then \
		$(CARGO) deny --locked check bans licenses sources; \
	else \
		echo "SKIPPED: cargo-deny is not installed, 'make tools' installs it"; \
	fi

.PHONY: machete
machete:
	@if command -v cargo-machete >/dev/null; then \
		cargo-machete --with-metadata crates oracles benches examples; \
	else \
		echo "SKIPPED: cargo-machete is not installed, 'make tools' installs it"; \
	fi

.PHONY: doc
doc: ## Build the API documentation, with all links checked
	RUSTDOCFLAGS=--deny=warnings $(CARGO) doc --workspace --no-deps --all-features --quiet

.PHONY: reference
reference: ## Generate docs/reference from the code
	$(CARGO) run --quiet --bin steer -- man --markdown docs/reference

.PHONY: book
book: ## Build the book of docs/ into target/book (with mdbook: make tools-book)
	@command -v mdbook >/dev/null || { echo "mdbook is not installed: 'make tools-book' installs it" >&2; exit 1; }
	mdbook build docs

.PHONY: hack
hack: ## Check each crate alone, with each of its features, on the minimum Rust version
	tools/check-crates

.PHONY: mutants
mutants: ## Run mutation tests on a fixed sample of each crate, ten minutes per crate (MUTANTS="yaml patch" selects crates)
	tools/ensure $(TOOLS) cargo-mutants 27.1.0
	tools/mutants $(MUTANTS)

.PHONY: package-check
package-check: ## Package every crate as for a registry, and check the contents of the packages
	tools/check-packages

.PHONY: sim
sim: ## Simulate operators with every fault: all planted bugs must be found, and no fixed twin or example may fail
	$(CARGO) test --workspace --quiet --profile checks --test zoo $(patsubst %,--test %_simulation,shell memcached ptemplate cronjob foo collector) \
		-- --ignored --nocapture --test-threads 1
	$(CARGO) test --workspace --quiet --profile checks --test cli -- --ignored --nocapture --test-threads 1 sim_command::

.PHONY: oracle-sim
oracle-sim: ## Simulate operators in Go, on controller-runtime and on Helm's packages: their planted bugs must be found (needs Go)
	oracles/sim/build generated-name late-finalizer >/dev/null
	$(CARGO) test --workspace --quiet --profile checks --test cli -- --ignored --nocapture --test-threads 1 sim_go::

.PHONY: sim-public
sim-public: ## Simulate unmodified public operators in Go, with a report in target/sim-public (an hour; needs Go)
	$(CARGO) build --workspace --quiet --profile checks --bin steer
	oracles/sim/public/run $(BIN)/steer $(OPERATORS)

.PHONY: test-scaffold
test-scaffold: ## Scaffold Rust projects as in the tutorials, run their tests, and edit one under `steer dev`
	$(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture scaffold_rust:: dev::a_change_of_the_reconciler
	$(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture --test-threads 1 documents::

.PHONY: kudo
kudo: ## Kill KUDO's operator at every write of a plan; with STEERSMAN_KUDO_OPERATORS, also run the public packages
	$(CARGO) test --workspace --quiet --test kudo_operator -- --ignored crash::
	if [ -n "$$STEERSMAN_KUDO_OPERATORS" ]; then $(CARGO) test --workspace --quiet \
		--test kudo --test kudo_operator -- --ignored --nocapture public_packages; fi

.PHONY: oracle-kudo
oracle-kudo: ## Run KUDO's own tests, and compare with its golden files
	oracles/kubernetes/build kubectl >/dev/null
	$(BUILD_DEBUG)
	oracles/kudo/suites $(DEBUG)/steer
	STEERSMAN_KUDO="$$(oracles/kudo/source)" $(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture kudo_golden::

# Pinned Python and Ansible in a virtual environment outside the checkout, created on first use.
ANSIBLE_SUITES := plays:: advanced:: inputs::

.PHONY: test-ansible
test-ansible: ## Test Ansible operators with real plays, and their Python code
	environment=$$(tools/ansible) || { echo "SKIPPED: test-ansible, there is no Python with Ansible" >&2; exit 0; }; \
		export VIRTUAL_ENV="$$environment" && \
		"$$environment/bin/python3" -m unittest discover --start-directory crates/ansible-operator/python/tests && \
		$(CARGO) test --workspace --quiet --test ansible_operator -- --ignored --nocapture --test-threads 2 $(ANSIBLE_SUITES) && \
		$(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture ansible_kill:: && \
		$(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture --test-threads 1 an_ansible_project && \
		PATH="$$environment/bin:$$PATH" $(CARGO) test --workspace --quiet --test cli -- --nocapture documents::ansible documents::tutorial_memcached_ansible

##@ Compare with the reference implementations (needs Go; the first run builds them into a cache)
.PHONY: test-slow
test-slow: test-scaffold kudo sim oracle-helm oracle-helm-commands oracle-helm-releases oracle-helm-operator oracle-kubernetes oracle-kubectl oracle-registry oracle-kuttl oracle-envtest oracle-envtest-projects oracle-clients oracle-cluster oracle-operators test-ansible oracle-ansible oracle-ansible-operators oracle-kudo oracle-gateway oracle-openapi conformance fuzz ## Run all slow suites: comparisons, simulations and fuzzing

.PHONY: oracle-helm
oracle-helm: ## Compare the chart engine with Helm's packages, on generated cases
	oracles/helm/build oracle helm >/dev/null
	$(CARGO) run --quiet --profile checks --package steersman-oracles

.PHONY: oracle-helm-commands
oracle-helm-commands: ## Compare commands of helm and steer
	oracles/helm/build helm >/dev/null
	$(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture helm::

CONTROL_PLANE := kube-apiserver etcd kube-controller-manager kube-scheduler kwok kubectl

.PHONY: oracle-helm-releases
oracle-helm-releases: ## Use helm and steer in turn on the releases of ten charts, on a real control plane
	oracles/kubernetes/build helm $(CONTROL_PLANE) >/dev/null
	$(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture releases::

.PHONY: oracle-helm-operator
oracle-helm-operator: ## Run chart operators on the embedded cluster and on a real control plane, observed by kubectl
	oracles/kubernetes/build helm $(CONTROL_PLANE) >/dev/null
	$(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture --test-threads 1 operators::

# Minimum percentage of cases in which the embedded API server responds like the real one. Never lowered.
KUBERNETES_EQUAL ?= 99.5
# Number of generated cases in addition to the written ones. A new machine first records the real server's responses, ten per
# second: all 20000 take half an hour.
KUBERNETES_GENERATED ?= 2000
KUBERNETES_SCHEMAS := $(or $(STEERSMAN_SHARED),../shared)/kubernetes/openapi-schemas.json

.PHONY: oracle-kubernetes
oracle-kubernetes: ## Compare patches and rules with Kubernetes' libraries, and the API server with the real one
	oracles/kubernetes/build libs kube-apiserver etcd >/dev/null
	$(CARGO) test --quiet --profile checks --package steersman-patch --package steersman-cel --package steersman-structural --test oracle -- --ignored --nocapture --test-threads 1
	@[ -f $(KUBERNETES_SCHEMAS) ] || echo "SKIPPED: generated cases, there is no $(KUBERNETES_SCHEMAS)"
	@mkdir -p target
	$(BUILD_DEBUG)
	$(DEBUG)/k8s-oracle --equal $(KUBERNETES_EQUAL) --out target/kubernetes-differences.txt \
		$(if $(wildcard $(KUBERNETES_SCHEMAS)),--generated $(KUBERNETES_GENERATED))

.PHONY: recordings
recordings: ## Refresh the recorded responses of the reference implementations that make test replays
	oracles/kubernetes/build libs kube-apiserver etcd >/dev/null
	oracles/helm/build oracle helm >/dev/null
	STEERSMAN_RECORD=1 STEERSMAN_ORACLE_CASES=9000 $(CARGO) test --quiet --package steersman-patch --package steersman-cel --package steersman-structural --test oracle -- --ignored --nocapture --test-threads 1
	STEERSMAN_RECORD=1 $(CARGO) run --quiet --package steersman-oracles -- --scale 0.16
	STEERSMAN_RECORD=1 $(CARGO) run --quiet --package steersman-k8s-oracle --bin k8s-oracle -- --generated $(KUBERNETES_GENERATED)

CHARTS := $(or $(STEERSMAN_SHARED),../shared)/charts
LIFECYCLE ?= DandyDeveloper_charts__redis-ha dexidp_helm-charts__dex backstage_charts__backstage \
	bitnami-labs_sealed-secrets__sealed-secrets cert-manager_cert-manager__cert-manager

WITH_CLUSTER := oracles/kubernetes/with-cluster --steer $(DEBUG)/steer

.PHONY: oracle-cluster
oracle-cluster: ## Stress a cluster with kills, full disks and watches, and run real controllers, helm, an autoscaler and an operator on it
	oracles/kubernetes/build helm kubectl kube-controller-manager kube-scheduler kwok operator sample-apiserver cert-manager etcd >/dev/null
	$(CARGO) test --workspace --quiet --test cluster -- --ignored --nocapture disk:: hostile:: watch:: real_autoscaler::
	$(BUILD_DEBUG)
	$(WITH_CLUSTER) sh -c 'oracles/kubernetes/greeter "$$KUBECONFIG"'
	$(WITH_CLUSTER) --no-workloads sh -c 'oracles/kubernetes/aggregation "$$KUBECONFIG"'
	$(WITH_CLUSTER) sh -c 'oracles/kubernetes/workloads "$$KUBECONFIG"'
	$(WITH_CLUSTER) --no-workloads sh -c 'oracles/kubernetes/with-controllers "$$KUBECONFIG" oracles/kubernetes/workloads "$$KUBECONFIG"'
	$(WITH_CLUSTER) --metrics sh -c 'oracles/kubernetes/metrics "$$KUBECONFIG"'
	$(WITH_CLUSTER) --no-workloads --metrics sh -c 'oracles/kubernetes/with-controllers "$$KUBECONFIG" oracles/kubernetes/metrics "$$KUBECONFIG"'
	@if [ -d $(CHARTS) ]; then \
		$(WITH_CLUSTER) sh -c 'oracles/kubernetes/helm-lifecycle "$$KUBECONFIG" $(LIFECYCLE:%=$(CHARTS)/%/chart)' && \
		$(WITH_CLUSTER) --webhooks auto sh -c 'oracles/kubernetes/cert-manager "$$KUBECONFIG" $(CHARTS)/cert-manager_cert-manager__cert-manager/chart'; \
	else \
		echo "SKIPPED: no charts in $(CHARTS)"; \
	fi

# One test at a time, since they install and remove CRDs of the same names.
.PHONY: oracle-operators
oracle-operators: ## Run the tests of the example operators on a real control plane
	oracles/kubernetes/build kube-apiserver etcd kube-controller-manager kube-scheduler kwok >/dev/null
	scratch=$$(mktemp -d) && oracles/kubernetes/control-plane run "$$scratch/cluster" --all -- \
		sh -c 'STEERSMAN_TEST_KUBECONFIG="$$KUBECONFIG" $(CARGO) test --workspace --quiet \
			$(patsubst %,--test %,shell memcached ptemplate cronjob foo) -- --test-threads 1'; status=$$?; rm -rf "$$scratch"; exit $$status

.PHONY: oracle-kuttl
oracle-kuttl: ## Run suites with the real kuttl and with steer, and compare the result of every test case
	oracles/kubernetes/build kuttl kubectl >/dev/null
	$(BUILD_DEBUG)
	$(WITH_CLUSTER) oracles/kubernetes/kuttl-verdicts $(DEBUG)/steer crates/testkit/tests/suites

.PHONY: oracle-envtest
oracle-envtest: ## Run controller-runtime's tests and our own with steer envtest's binaries and with the real ones
	oracles/kubernetes/build kube-apiserver etcd kubectl >/dev/null
	$(CARGO) build --quiet --profile checks --package steersman-cli
	oracles/envtest/run $(BIN)/steer controller-runtime ./suite

.PHONY: oracle-envtest-projects
oracle-envtest-projects: ## Run the tests of other projects with steer envtest's binaries and with the real ones
	oracles/kubernetes/build kube-apiserver etcd kubectl >/dev/null
	$(CARGO) build --quiet --profile checks --package steersman-cli
	oracles/envtest/run $(BIN)/steer fluxcd-ssa cluster-api karpenter

.PHONY: oracle-clients
oracle-clients: ## Run programs on client-go, client-node, fabric8, kubernetes and kopf against the embedded cluster and a real one
	oracles/kubernetes/build kube-apiserver etcd control-plane >/dev/null
	$(BUILD_DEBUG)
	oracles/clients/run $(DEBUG)/steer

.PHONY: oracle-kubectl
oracle-kubectl: ## Compare commands of three kubectl versions on the embedded cluster and a real one, and rendered overlays
	oracles/kubernetes/build kubectl kubectl-1.34 kubectl-1.30 kube-apiserver etcd kube-controller-manager kube-scheduler kwok control-plane >/dev/null
	$(CARGO) test --workspace --quiet --test cli -- --nocapture kustomize::
	$(BUILD_DEBUG)
	mkdir -p target
	real=$$(mktemp -d) && $(WITH_CLUSTER) sh -c 'oracles/kubernetes/control-plane run "$$0" --all -- \
		$(DEBUG)/kubectl-oracle --real "$$0/kubeconfig" --ours "$$KUBECONFIG" --out target/kubectl-differences.txt' "$$real"; \
		status=$$?; rm -rf "$$real"; exit $$status

.PHONY: oracle-ansible
oracle-ansible: ## Compare plays run warm and cold: their results, conditions and objects
	environment=$$(tools/ansible) || { echo "SKIPPED: oracle-ansible, there is no Python with Ansible" >&2; exit 0; }; \
		VIRTUAL_ENV="$$environment" \
		$(CARGO) test --workspace --quiet --test ansible_operator -- --ignored --nocapture oracle::

# One test at a time, since they install CRDs of the same names.
.PHONY: oracle-ansible-operators
oracle-ansible-operators: ## Run the tests of Ansible operators on a real control plane
	environment=$$(tools/ansible) || { echo "SKIPPED: oracle-ansible-operators, there is no Python with Ansible" >&2; exit 0; }; \
		oracles/kubernetes/build kube-apiserver etcd kube-controller-manager kube-scheduler kwok >/dev/null && \
		scratch=$$(mktemp -d) && VIRTUAL_ENV="$$environment" oracles/kubernetes/control-plane run "$$scratch/cluster" --all -- \
		sh -c 'STEERSMAN_TEST_KUBECONFIG="$$KUBECONFIG" STEERSMAN_TEST_NODES=1 \
			$(CARGO) test --workspace --quiet --test ansible_operator -- --ignored --test-threads 1 $(ANSIBLE_SUITES)'; status=$$?; rm -rf "$$scratch"; exit $$status

# One test at a time, since each expects a cluster of its own. The tokens are those of the tests.
.PHONY: oracle-gateway
oracle-gateway: ## Run the gateway's tests on a real control plane
	oracles/kubernetes/build kube-apiserver etcd kube-controller-manager kube-scheduler kwok >/dev/null
	scratch=$$(mktemp -d) && oracles/kubernetes/control-plane run "$$scratch/cluster" --all \
		--token root-token,root,root,system:masters \
		$(foreach user,editor viewer stranger,--token $(user)-token,$(user),$(user)) -- \
		sh -c 'STEERSMAN_TEST_KUBECONFIG="$$KUBECONFIG" $(CARGO) test --workspace --quiet --test gateway -- --test-threads 1'; \
		status=$$?; rm -rf "$$scratch"; exit $$status

# Number of cases that Schemathesis generates per operation, in addition to those that cover its schemas.
OPENAPI_EXAMPLES ?= 20

.PHONY: oracle-openapi
oracle-openapi: ## Test the gateway against its OpenAPI description with Schemathesis
	environment=$$(tools/schemathesis) || { echo "SKIPPED: oracle-openapi, there is no Python with Schemathesis" >&2; exit 0; }; \
		$(BUILD_DEBUG) && \
		"$$environment/bin/python3" oracles/openapi/run $(DEBUG)/steer --max-examples $(OPENAPI_EXAMPLES)

.PHONY: oracle-registry
oracle-registry: ## Push an image built by steer to a real registry
	oracles/kubernetes/build registry >/dev/null
	$(CARGO) test --workspace --quiet --test cli -- --ignored --nocapture image::

# Image names that have to be missing.
MISSING_IMAGES := foo:non-existent webserver:404

.PHONY: conformance
conformance: ## Run the Kubernetes conformance tests of the API and the controllers on the embedded cluster
	oracles/kubernetes/build e2e.test >/dev/null
	$(BUILD_DEBUG)
	@echo 'sig-api-machinery:'
	@$(WITH_CLUSTER) \
		sh -c 'oracles/kubernetes/conformance --known oracles/kubernetes/conformance.known "$$KUBECONFIG"'
	@echo 'the other groups:'
	@$(WITH_CLUSTER) --pod-run-time 1m $(MISSING_IMAGES:%=--missing-image %) \
		sh -c 'oracles/kubernetes/conformance --tests oracles/kubernetes/conformance.groups \
		--known oracles/kubernetes/conformance.known "$$KUBECONFIG"'

.PHONY: fuzz
fuzz: ## Run each fuzzer for a minute
	fuzz/run 60

##@ The portal (needs Node; the tests and screenshots need Chromium too)
PORTAL := crates/gateway/portal.tar.gz

.PHONY: portal-tools
portal-tools:
	tools/browser

portal/node_modules/.package-lock.json: portal/package-lock.json | portal-tools
	cd portal && npm ci --no-audit --no-fund
	@touch $@

.PHONY: portal-client
portal-client: portal/node_modules/.package-lock.json ## Generate the portal's client from the gateway's OpenAPI description
	STEERSMAN_RECORD=1 $(CARGO) test --quiet --workspace --test gateway -- the_portal_has_the_description
	cd portal && npm run --silent client

.PHONY: portal-files
portal-files: portal/node_modules/.package-lock.json
	cd portal && npm run --silent build

.PHONY: portal
portal: portal-files ## Build the portal into the archive that the gateway embeds
	cd portal && npm run --silent pack -- ../$(PORTAL)

.PHONY: portal-check
portal-check: portal-files ## Check the portal's client, types and lints, and that the archive is reproduced from its sources
	cd portal && npm run --silent check && npm run --silent pack -- --check ../$(PORTAL)

.PHONY: test-portal
test-portal: portal-tools portal/node_modules/.package-lock.json ## Test the portal of `steer dev` in a browser, including accessibility
	$(BUILD_DEBUG)
	cd portal && STEER=$(abspath $(DEBUG))/steer npm test -- --project portal

.PHONY: screenshots
screenshots: portal-tools portal/node_modules/.package-lock.json ## Take the screenshots in docs/screenshots
	$(BUILD_DEBUG)
	cd portal && STEER=$(abspath $(DEBUG))/steer npm test -- --project screenshots

##@ Measure
# Measured programs are built as they are shipped, each alone: built together, each would get the features of the others. The
# benchmarks themselves use a profile that builds in half the time.
.PHONY: bench
bench: bench-ansible bench-chart bench-cluster bench-gateway bench-helm-operator bench-kudo bench-runtime bench-sim ## Run all benchmarks

.PHONY: bench-ansible
bench-ansible: ## Measure plays beside an operator that starts ansible-runner per reconcile, as operator-sdk does
	environment=$$(tools/ansible) || { echo "SKIPPED: bench-ansible, there is no Python with Ansible" >&2; exit 0; }; \
		$(CARGO) build --workspace --quiet --profile checks --bin steer --bin steersman-bench-ansible && \
		$(BIN)/steersman-bench-ansible --python "$$environment/bin/python3" --steer $(BIN)/steer $(BENCH_ANSIBLE)

.PHONY: bench-chart
bench-chart: ## Measure rendering beside helm, and the loading of charts
	oracles/helm/build helm >/dev/null
	$(CARGO) build --quiet --profile dist --package steersman-cli
	$(CARGO) run --quiet --profile checks --package steersman-bench-chart -- --steer $(DIST)/steer

.PHONY: bench-gateway
bench-gateway: ## Measure 500 event streams of the gateway, with 200 changes per second
	$(CARGO) build --workspace --quiet --profile checks --bin steer --bin steersman-bench-gateway
	$(BIN)/steersman-bench-gateway --steer $(BIN)/steer --check $(BENCH_GATEWAY)

.PHONY: bench-helm-operator
bench-helm-operator: ## Measure an operator with 100 and with 2000 releases, beside one on Helm's Go packages
	oracles/kubernetes/build $(CONTROL_PLANE) >/dev/null
	benches/peers/build helm-operator >/dev/null
	$(CARGO) build --quiet --profile dist --package steersman-cli
	$(CARGO) run --quiet --profile checks --package steersman-bench-helm-operator -- --steer $(DIST)/steer

.PHONY: bench-kudo
bench-kudo: ## Measure 500 instances of a KUDO package, with plans running and finished
	$(CARGO) build --quiet --profile dist --package steersman-cli
	$(CARGO) run --quiet --profile checks --package steersman-bench-kudo -- --steer $(DIST)/steer --check

.PHONY: bench-runtime
bench-runtime: ## Measure one operator on Steersman, controller-runtime and plain kube-rs, on a real API server
	oracles/kubernetes/build kube-apiserver etcd >/dev/null
	$(CARGO) build --quiet --profile dist --package myownshell-operator
	$(CARGO) build --quiet --profile dist --package myownshell-plain-kube
	$(CARGO) build --quiet --profile checks --package steersman-bench-runtime
	scratch=$$(mktemp -d) && oracles/kubernetes/control-plane run "$$scratch/cluster" -- \
		$(BIN)/steersman-bench-runtime --ours $(DIST)/myownshell-operator --plain-kube $(DIST)/myownshell-plain-kube \
			--controller-runtime "$$(benches/peers/build myownshell-controller-runtime)" $(BENCH_RUNTIME); \
		status=$$?; rm -rf "$$scratch"; exit $$status
	benches/runtime/lines

.PHONY: bench-sim
bench-sim: ## Measure crash simulations of MyOwnShell, in virtual time and as a program, and check their determinism
	$(CARGO) build --quiet --profile dist --package myownshell-operator --package steersman-bench-simulate
	$(DIST)/steersman-bench-simulate --check

.PHONY: bench-cluster
bench-cluster: ## Measure the embedded cluster and a real control plane under the same load
	oracles/kubernetes/build kube-apiserver etcd control-plane >/dev/null
	$(CARGO) build --quiet --profile dist --package steersman-cli --package steersman-bench-cluster
	$(DIST)/steersman-bench-cluster --steer $(DIST)/steer

##@ Set up
.PHONY: tools
tools: ## Install the tools that the checks use into a cache
	tools/ensure $(TOOLS)

.PHONY: tools-book
tools-book: ## Install mdbook, for make book, into a cache
	tools/ensure $(TOOLS) mdbook 0.5.4

.PHONY: tools-ansible
tools-ansible: ## Create the virtual environment of the Ansible suites in a cache
	tools/ansible

.PHONY: clean-cache
clean-cache: ## Remove the cache of tools and oracles
	rm -rf $(CACHE)
