# `make` alone lists what there is.
CARGO ?= cargo
CACHE ?= $(or $(STEERSMAN_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/steersman)
TOOLS := $(CACHE)/tools
export PATH := $(TOOLS)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
.PHONY: demo
demo: ## Run the main job: a chart kept by an operator on an embedded cluster, until it is ready
	$(CARGO) run --bin steer -- dev examples/minimart --until-ready

.PHONY: install
install: ## Install `steer` into cargo's bin directory
	$(CARGO) install --locked --path crates/cli

##@ Check
.PHONY: test
test: ## Run the tests
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) nextest run --workspace --no-tests=pass && $(CARGO) test --workspace --doc --quiet; \
	else \
		$(CARGO) test --workspace; \
	fi

.PHONY: lint
lint: fmt-check clippy deny ## Check format, lints and dependencies

.PHONY: fmt-check
fmt-check:
	$(CARGO) fmt --all -- --check

.PHONY: clippy
clippy:
	$(CARGO) clippy --workspace --all-targets --quiet -- --deny warnings

.PHONY: deny
deny:
	@if command -v cargo-deny >/dev/null; then \
		$(CARGO) deny --offline check bans licenses sources; \
	else \
		echo "SKIPPED: cargo-deny is not installed, 'make tools' installs it"; \
	fi

##@ Check against the real things (needs Go and a nightly Rust; the first run builds them into a cache)
.PHONY: test-slow
test-slow: oracle-helm oracle-helm-commands oracle-kubernetes oracle-cluster conformance fuzz ## Compare with Helm and Kubernetes, and fuzz

.PHONY: oracle-helm
oracle-helm: ## Compare the chart engine with Helm's packages on generated cases
	oracles/helm/build oracle helm >/dev/null
	$(CARGO) run --quiet --profile checks --package steersman-oracles

.PHONY: oracle-helm-commands
oracle-helm-commands: ## Type the same commands for helm and for steer
	oracles/helm/build helm >/dev/null
	$(CARGO) test --quiet --test helm -- --ignored --nocapture

# How many of a hundred written cases the embedded API server answers as the real one at least. It only rises; the aim is 99.5.
KUBERNETES_EQUAL ?= 93

.PHONY: oracle-kubernetes
oracle-kubernetes: ## Compare patches and rules with Kubernetes' libraries, and the API server with the real one
	oracles/kubernetes/build libs kube-apiserver etcd >/dev/null
	$(CARGO) test --quiet --profile checks --package steersman-patch --package steersman-cel --package steersman-structural --test oracle -- --ignored --nocapture --test-threads 1
	$(CARGO) run --quiet --bin k8s-oracle -- --equal $(KUBERNETES_EQUAL) --out target/kubernetes-differences.txt

CHARTS := $(or $(STEERSMAN_SHARED),../shared)/charts
LIFECYCLE ?= DandyDeveloper_charts__redis-ha dexidp_helm-charts__dex backstage_charts__backstage \
	bitnami-labs_sealed-secrets__sealed-secrets cert-manager_cert-manager__cert-manager

.PHONY: oracle-cluster
oracle-cluster: ## Kill a cluster a hundred times, watch it a hundred times, and let the real helm work on it
	oracles/kubernetes/build helm >/dev/null
	$(CARGO) test --quiet --profile checks --package steersman-cluster --test disk --test watch -- --ignored --nocapture
	$(CARGO) build --quiet --profile checks --package steersman-cli
	@if [ -d $(CHARTS) ]; then \
		oracles/kubernetes/with-cluster --steer target/checks/steer \
			sh -c 'oracles/kubernetes/helm-lifecycle "$$KUBECONFIG" $(LIFECYCLE:%=$(CHARTS)/%/chart)'; \
	else \
		echo "SKIPPED: no charts in $(CHARTS)"; \
	fi

.PHONY: conformance
conformance: ## Run Kubernetes' own conformance tests of its API machinery against the embedded cluster
	oracles/kubernetes/build e2e.test >/dev/null
	$(CARGO) build --quiet --profile checks --package steersman-cli
	oracles/kubernetes/with-cluster --steer target/checks/steer \
		sh -c 'oracles/kubernetes/conformance --known oracles/kubernetes/conformance.known "$$KUBECONFIG"'

.PHONY: fuzz
fuzz: ## Feed hostile input for a minute each
	fuzz/run 60

##@ Measure
.PHONY: bench
bench: bench-chart ## Run every measurement

.PHONY: bench-chart
bench-chart: ## Render charts beside helm, and load them in the library
	oracles/helm/build helm >/dev/null
	$(CARGO) build --quiet --release --package steersman-cli
	$(CARGO) run --quiet --release --package steersman-bench-chart

##@ Set up
.PHONY: tools
tools: ## Install the tools that the checks use into a cache
	tools/ensure $(TOOLS)

.PHONY: clean-cache
clean-cache: ## Remove the cache of tools and oracles
	rm -rf $(CACHE)
