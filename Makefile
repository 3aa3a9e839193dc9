# The two commands are `make up` and `make test`; `make help` lists the others.
.DEFAULT_GOAL := help
export CGO_ENABLED := 0
.PHONY: help up down simulate join test e2e e2e-ha conformance kubectl-tests compare churn build images lint generate bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## install what is missing, build, start a cluster with two nodes, and say how to use it (HA=1: no machine whose loss stops it; IPV6=1: both families)
	@HOWDAH_HA='$(or $(HA),$(HOWDAH_HA))' HOWDAH_IPV6='$(or $(IPV6),$(HOWDAH_IPV6))' hack/up.sh

down: ## remove the cluster with its volumes and keys
	@hack/down.sh

simulate: ## add NODES=100 simulated nodes to the cluster that is up, or with NODES=0 take them away
	@hack/simulate.sh $(NODES)

join: ## add a node to the cluster that is up, by a bootstrap token, or with NODES=0 take it away
	@hack/join.sh $(NODES)

test: ## run every test, unit to end to end, on a cluster of its own; leaves nothing running
	@hack/test.sh

e2e: ## run the end-to-end tests on the cluster that is up (ARGS="-run X -v" go to go test)
	@hack/e2e.sh $(ARGS)

e2e-ha: ## lose each machine of a highly available cluster once, on a cluster of its own; leaves nothing running (ARGS go to go test)
	@hack/e2e-ha.sh $(ARGS)

conformance: ## run Kubernetes' own conformance tests on the cluster that is up (FOCUS and SKIP choose, PROCS run at a time)
	@FOCUS='$(FOCUS)' SKIP='$(SKIP)' PROCS='$(PROCS)' CSI='$(CSI)' hack/conformance.sh

kubectl-tests: ## run Kubernetes' own tests of kubectl on a standalone (WHAT chooses)
	@WHAT='$(WHAT)' hack/kubectl-tests.sh

churn: ## break control planes, database and connections for DURATION=10m while informers and watches must miss nothing
	@hack/churn.sh $(or $(DURATION),10m)

compare: ## record what Kubernetes' own apiserver answers to the cases of test/compare, and compare (ONLY chooses)
	@ONLY='$(ONLY)' hack/compare.sh

build: ## build the binary into .build/bin
	go build -o .build/bin/howdah ./cmd/howdah

images: ## build every image
	@hack/images.sh build

lint: ## check form: gofmt, go vet, staticcheck, buf lint
	@hack/lint.sh

generate: ## regenerate what tools make: Go from proto/, eBPF objects
	@hack/generate.sh

bench: build ## measure a standalone with simulated nodes, or with ARGS=--cluster the cluster that is up; prints JSON lines
	cd test && KUBECONFIG=$(CURDIR)/.howdah/kubeconfig go run ./bench --howdah $(CURDIR)/.build/bin/howdah $(ARGS)

clean: down ## also remove the images and everything built, and stop a Docker daemon started here
	@hack/clean.sh
