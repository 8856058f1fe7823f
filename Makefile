# Every target that a newcomer needs; `make help` lists them.
SHELL := /bin/bash
GO ?= go
BIN := bin/scheduler
# The packages that take longest come first: the others are compiled meanwhile.
PACKAGES ?= ./admin ./internal/test/clustertest ./jobs/postgres ./internal/engine ./jobs/fence \
	./locking/memcached ./internal/test/testrun ./internal/cli ./examples/warehouse ./...
RUNS ?= 5
FUZZTIME ?= 30s

# testrun runs go test, and leaves no process and no file behind: go doc ./internal/test/testrun
TESTRUN := bin/testrun
# Lint runs vet. Tests need neither symbol tables nor debug information, which take long to write.
# Many tests wait for servers, not for the processor: three packages run at a time, and four
# parallel tests of each.
AT_A_TIME := 3
TESTFLAGS := -p $(AT_A_TIME) -parallel 4 -shuffle=on -vet=off -ldflags='-s -w'
# The checks of unsafe pointers that -race adds take a tenth of the processor time, and no package
# of this module uses such pointers. SQLite is translated C: with the race detector it takes six
# times the processor time, and Argon2, which fills 19 MiB for each password, three times.
RACEFLAGS = -p $(AT_A_TIME) -shuffle=on -vet=off -race -ldflags='-s -w' \
	-gcflags='all=-dwarf=false -d=checkptr=0' \
	-gcflags='modernc.org/...=-race=false -dwarf=false -d=checkptr=0' \
	-gcflags='golang.org/x/crypto/argon2=-race=false -dwarf=false -d=checkptr=0'
# The tests of these packages only compute, or start programs: only a soak runs them with the race
# detector. Of ./admin, `make race` runs the tests that admin/main_test.go names.
PLAIN := ./configs ./examples/... ./internal/cli ./internal/test/clustertest \
	./internal/test/deploytest ./internal/test/lockhistory ./jobs/schedule
RACED = $(if $(filter ./...,$(PACKAGES)),$(filter-out \
	$(shell $(GO) list $(PLAIN)),$(shell $(GO) list $(PACKAGES))),$(PACKAGES))
# The compiler takes a seventh less time when its garbage is collected less often.
# A program with the race detector sleeps for a second before it exits, unless told otherwise.
TESTENV := GOGC=400 GORACE=atexit_sleep_ms=20 GO='$(GO)'

# Tests of pages in Chromium take longest. `make browser` runs those whose names end like this.
BROWSER := 'InABrowser$$'

# Modules of their own, so that users do not get the libraries in them: the linters, and the checks
# of openapi.json and of the dashboard.
TOOL := $(GO) tool -modfile=tools/go.mod
NESTED := internal/test/openapitest internal/test/dashboardtest

.DEFAULT_GOAL := help
.PHONY: help run demo build clean test browser race soak test-under-load short helm lint fuzz \
	tools testrun bench bench-river warehouse

help: ## list the targets
	@awk '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		match($$0, /^[a-z-]+:.*## /) { split($$0, t, ":"); \
			printf "  %-16s %s\n", t[1], substr($$0, RLENGTH + 1) }' $(MAKEFILE_LIST)

##@ Use

run: build ## run one replica with nothing installed; its page is on http://127.0.0.1:8080
	$(BIN) run -c configs/embedded.yaml

demo: build ## three replicas in one process, contending for tables: pages on ports 8080 to 8082
	$(BIN) demo

build: ## build bin/scheduler
	CGO_ENABLED=0 $(GO) build -o $(BIN) ./cmd/scheduler

clean: ## remove what was built
	rm -rf bin

##@ Check

# Without cgo, each test binary is linked a ninth faster. The race detector needs cgo.
test: tools testrun ## all tests with real servers but those of browser, without the race detector
	CGO_ENABLED=0 $(TESTENV) exec $(TESTRUN) -- $(TESTFLAGS) -timeout 20m -skip $(BROWSER) \
		$(PACKAGES)

browser: tools testrun ## the tests of the page's details in Chromium
	CGO_ENABLED=0 $(TESTENV) exec $(TESTRUN) -- $(TESTFLAGS) -timeout 20m -run $(BROWSER) ./admin

race: tools testrun ## the tests of concurrent code with the race detector
	$(TESTENV) exec $(TESTRUN) -- $(RACEFLAGS) -timeout 20m $(RACED)

# Beside other tests, pages show that the database is slow.
soak: ALONE := '^TestPagesDoNotShift$$'
# The long tests need the processor.
soak: AT_A_TIME := 2
# The simulation of 150 days takes longest.
soak: PACKAGES := ./internal/engine $(PACKAGES)
soak: tools testrun ## all tests for longer with the race detector; 40 minutes or more
	HOLDFAST_SOAK=1 $(TESTENV) $(TESTRUN) -- $(RACEFLAGS) -timeout 20m -run $(ALONE) \
		./internal/test/clustertest
	HOLDFAST_SOAK=1 $(TESTENV) exec $(TESTRUN) -- $(RACEFLAGS) -timeout 45m -skip $(ALONE) \
		$(PACKAGES)

test-under-load: tools testrun ## make test RUNS times (5) with one busy loop per processor
	CGO_ENABLED=0 $(TESTENV) exec $(TESTRUN) -runs $(RUNS) -busy $$(nproc) -- \
		$(TESTFLAGS) -timeout 20m -skip $(BROWSER) $(PACKAGES)

short: ## tests that need no servers
	$(GO) test -short ./...

# A module of its own: Helm compiles for minutes, and users must not get its dependencies.
helm: ## lint and render the Helm chart; the first time takes minutes
	cd deploy/helm/test && $(GO) vet ./... && $(GO) test ./...

lint: ## vet, staticcheck, gofmt, columns, openapi.json, dashboard, go mod tidy, govulncheck
	$(GO) vet ./...
	@for m in $(NESTED); do $(GO) -C $$m test -vet=all ./... || exit; done
	$(TOOL) staticcheck ./...
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	@.ci/columns
	@for m in . tools $(NESTED); do $(GO) -C $$m mod tidy -diff || exit; done
	@GO='$(GO)' .ci/vulnerabilities

fuzz: ## each fuzz target for FUZZTIME, 30s unless said otherwise
	@set -e; grep -rHoE --include='*_test.go' '^func Fuzz\w+' . | \
	sed -E 's/(.*)\/[^/]+_test.go:func (Fuzz.*)/\1 \2/' | sort -u | \
	while read -r package target; do echo "$$package $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; done

tools: ## install the servers that tests need, or say what is missing
	@bash .ci/tools

# With the tests' flags: the packages that both need are compiled once.
testrun:
	@CGO_ENABLED=0 GOGC=400 $(GO) build $(BUILDFLAGS) -o $(TESTRUN) ./internal/test/testrun

##@ Measure

bench: tools ## three replicas with 200 and 1,000 jobs a second, and locks against plain memcached
	$(GO) run ./examples/bench
	$(GO) run ./examples/bench -no-op -tables 50 -jobs 1000
	$(GO) test -run '^$$' -bench . -benchtime 2s -timeout 20m ./locking/... ./internal/engine \
		./jobs/...
	$(GO) test -run '^$$' -bench 'LargeTable|Triggers|Dependents|Recoveries|Backfills' \
		-benchtime 1x -timeout 20m .

# A module of its own: Holdfast does not depend on a peer.
bench-river: tools ## the same with no-op jobs, beside River: 1,000, 3,000 and 6,000 jobs a second
	cd examples/bench/river && $(GO) build -o $(CURDIR)/bin/river .
	$(GO) run ./examples/bench -no-op -fsync -jobs 1000,3000,6000 \
		-river $(CURDIR)/bin/river $(BENCHFLAGS)

warehouse: tools ## roll-ups beside pgbench, without locks and with them: deadlocks and totals
	$(GO) run ./examples/warehouse
