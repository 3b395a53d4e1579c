# What this repository can do. `make help` lists it.

# Go 1.26.8 has published net/http holes; see docs/decisions.md.
export GOTOOLCHAIN := go1.27.3

# One set of flags for build, tests, linter and xcaddy.sh, so that nothing is
# compiled twice. The tags leave out databases of Caddy's certificate authority.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath -tags=nobadger,nomysql,nopgx

golangci := v2.15.0
go_files := $(shell git ls-files -co --exclude-standard '*.go' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help run build test install-test-tools vectors vet unit race bench faults faults-again lint fmt clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## start the gateway with the sandbox issuer on 127.0.0.1:8080; Ctrl-C stops it
	@echo "Building bin/card-gateway. The first time Go fetches about 190 MB and compiles a"
	@echo "thousand packages: 4 to 7 minutes on two cores. After that it takes seconds."
	@$(MAKE) --no-print-directory build
	@demo/run.sh

build: ## build bin/card-gateway, the sandbox issuer included
	go build -ldflags "$$(./version.sh)" -o bin/card-gateway ./cmd/card-gateway

test: install-test-tools vectors vet unit race ## install what the tests need, then vectors, vet, unit and end-to-end tests

install-test-tools: ## install redis-server, promtool, python3, nginx, wrk and what the recipes need where they are missing
	@tests/install-tools.sh redis-server promtool amtool python3 nginx wrk node npm javac python3-jwt

vectors: install-test-tools
	python3 tests/vectors/generate.py --check

vet:
	go vet ./...
	cd bench && go vet ./...
	cd examples/upstream/go && go vet ./...

# The race detector watches the packages where goroutines meet. Those whose
# tests take long run under it alone; in the others some tests count
# allocations, which the detector changes. It needs cgo.
raced := /(store/file|store/redis|sandbox|caddymodule)(/|$$)

unit: ## the tests that run without the race detector, end to end included
	go test -timeout 20m $$(go list ./... | grep -vE '$(raced)')
	go test -run Allocations ./caddymodule
	cd bench && go test -count=1 ./...

race: ## the tests of the packages where goroutines meet, under the race detector
	CGO_ENABLED=1 go test -race -timeout 20m $$(go list ./... | grep -vE '/(cmd|ops|tests)/|/tests$$')

# A module of its own, so that what it compares with and what draws its plots
# are no dependencies of the gateway.
bench: ## compare with Caddy, nginx and nginx + Lua on this machine; says how long it takes; ARGS=-h lists what can be chosen
	@tests/install-tools.sh nginx nginx-lua wrk redis-server
	@cd bench && go run . $(ARGS)

faults: ## the whole fault bench, 40 minutes on two idle CPUs; it writes docs/reliability.md
	@tests/install-tools.sh redis-server
	@echo "Some 60 faults, one after the other, on an embedded store, one Redis, a Sentinel set and a"
	@echo "cluster, with over a million replays; then 400 histories. It takes about 40 minutes on two CPUs"
	@echo "that have nothing else to do, and writes the tables of docs/reliability.md."
	CARD_TEST_FAULTS=all CARD_TEST_FAULTS_PAGE=$(CURDIR)/docs/reliability.md go test -count=1 -timeout 3h -v ./tests/faults

# The tests of single faults: a server's clock that steps, old content that comes
# back, evicted nonces, a network cut in two, a gateway that was cut off and
# killed, a damaged journal, a wider window.
repeat := 20
redis_faults := Test(ClockStepOfTheServer|ClockSetBack|OldContentRestored|Flush|FlushBetweenLooks|Eviction|LostNoncesFenceTheirKey|MasterWithoutAcknowledgements|TakeoverThatLostNonces|SentinelFailover|ClusterFailover|KilledAfterCut)$$|TestSingle/(WiderWindow|AnyWindow|Reopen)$$
file_faults := Test(CorruptedJournal|Mark|ReplayFloor|TornTail|NeverBegun|DamageIsNoticed|WiderWindow)$$|TestSuite/(WiderWindow|AnyWindow|Reopen)$$

faults-again: ## the tests of single faults, 20 times each; repeat=N sets how often
	@tests/install-tools.sh redis-server
	go test -count=$(repeat) -timeout 3h -run '$(redis_faults)' ./store/redis
	go test -count=$(repeat) -timeout 3h -run '$(file_faults)' ./store/file

lint: bin/golangci-lint-$(golangci) ## vet, gofmt, golangci-lint and shellcheck
	@tests/install-tools.sh shellcheck
	tests/lint-shell.sh
	tests/lint-flags.sh
	go vet ./...
	cd bench && go vet ./...
	cd examples/upstream/go && go vet ./...
	@unformatted=$$(gofmt -l $(go_files)); if [ -n "$$unformatted" ]; then \
		echo "not formatted (make fmt): $$unformatted"; exit 1; fi
	bin/golangci-lint-$(golangci) run ./...
	@# Without the warnings that exceptions for the other module are not used here.
	cd bench && LOG_LEVEL=error ../bin/golangci-lint-$(golangci) run ./...
	cd examples/upstream/go && LOG_LEVEL=error ../../../bin/golangci-lint-$(golangci) run ./...

bin/golangci-lint-$(golangci):
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(golangci)
	mv bin/golangci-lint $@

fmt: ## format the Go files and the Caddyfiles
	gofmt -w $(go_files)
	go run ./cmd/card-gateway fmt --overwrite Caddyfile.example
	go run ./cmd/card-gateway fmt --overwrite demo/Caddyfile

clean: ## remove what was built and what `make run` has made
	rm -rf bin dist demo/data
