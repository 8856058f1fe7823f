# Every target that a newcomer needs; `make help` lists them.
SHELL := /bin/bash
GO ?= go
BIN := bin/scheduler
PACKAGES ?= ./...

.DEFAULT_GOAL := help
.PHONY: help run demo build test short lint bench warehouse fuzz tools clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

run: build ## run one replica with nothing installed: jobs fire at once, the page is on http://127.0.0.1:8080
	$(BIN) run -c configs/embedded.yaml

demo: build ## three replicas in one process, contending for tables: pages on ports 8080 to 8082
	$(BIN) demo

build: ## build bin/scheduler
	$(GO) build -o $(BIN) ./cmd/scheduler

test: tools ## all tests, integration included, with the race detector, in random order
	$(GO) test -race -shuffle=on -timeout 30m $(PACKAGES)

short: ## tests that need no servers
	$(GO) test -short ./...

lint: ## vet, staticcheck, gofmt, go mod tidy
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) mod tidy -diff

bench: tools ## three replica processes with 200 and 1,000 jobs a second, and the locks beside plain memcached
	$(GO) run ./examples/bench
	$(GO) test -run '^$$' -bench . -benchtime 2s ./locking/... ./jobs/...

FUZZTIME ?= 30s

fuzz: ## each fuzz target for FUZZTIME, 30s unless said otherwise
	@set -e; grep -rHoE --include='*_test.go' '^func Fuzz\w+' . | sed -E 's/(.*)\/[^/]+_test.go:func (Fuzz.*)/\1 \2/' | sort -u | \
	while read -r package target; do echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; done

warehouse: tools ## roll-ups beside pgbench, without locks and with them: deadlocks and totals
	$(GO) run ./examples/warehouse

tools: ## install the servers that integration tests need, or say what is missing
	@bash .ci/tools

clean: ## remove what was built
	rm -rf bin
