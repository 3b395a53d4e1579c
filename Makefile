# What this repository can do. `make help` lists it.

# Go 1.26.8 has published net/http holes; see docs/decisions.md.
export GOTOOLCHAIN := go1.27.3

# One set of flags for build, tests, linter and xcaddy.sh, so that nothing is
# compiled twice. The tags leave out databases of Caddy's certificate authority.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath -tags=nobadger,nomysql,nopgx

golangci := v2.15.0
redocly := 2.77.0
# Modules of their own, so that what they import is no dependency of the gateway.
modules := bench tests/openapi examples/upstream/go clients/go ops/packages
go_files := $(shell git ls-files -co --exclude-standard '*.go' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help run build test check test-clients clients postman install-test-tools vectors vectors-archive vet unit race alerts bench faults faults-again fuzz mutants soak sbom vulnerabilities packages lint docs pictures fmt clean

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

check: lint ## while you work: vet, the linters, and the tests that start no servers; 3 minutes
	go test $(at_once) $$(go list ./... | grep -vE '/(tests|store/redis|store/file|sandbox|commands)(/|$$)') ./tests/house ./tests/mutants

install-test-tools: ## install redis-server, promtool, python3, nginx, haproxy, iproute2, openssl, wrk, rpm, chromium and what the recipes need where they are missing
	@tests/install-tools.sh redis-server promtool amtool python3 nginx haproxy ip openssl wrk node npm javac python3-jwt rpm chromium valgrind

vectors: install-test-tools
	python3 tests/vectors/generate.py --check

vectors-archive: ## pack the signature suite for others into dist/
	tests/vectors/archive.sh

vet:
	go vet ./...
	@set -e; for module in $(modules); do (set -x; cd $$module && go vet ./...); done

# The clients are installed from their packages in other languages, which takes
# minutes, so `make test` leaves them out.
test-clients: ## install each client of clients/ from its package and run the common cases; 3 minutes
	@echo "Each client whose language is installed is packed, installed in an empty directory and tested"
	@echo "against the gateway and a server that fails on purpose: 3 minutes. What is missing is said at the"
	@echo "end; tests/install-client-runtimes.sh installs it."
	go test -json -timeout 30m -parallel 4 ./tests/clients/matrix | go run ./tests/report -passed 2

clients: ## pack each client whose language is installed into dist/clients, with checksums
	@clients/pack.sh dist/clients

postman: ## make the Postman collection from docs/openapi.yaml
	npm install --silent --no-audit --no-fund --prefix bin/postman js-yaml@4
	NODE_PATH=$(CURDIR)/bin/postman/node_modules node clients/postman/generate.mjs

# The race detector watches the packages where goroutines meet. Those whose
# tests take long run under it alone; in the others some tests count
# allocations, which the detector changes. It needs cgo.
raced := /(auditfile|commands|offenders|secret|store/file|store/redis|sandbox|caddymodule)(/|$$)

# Of the tests that all stores share, these have one client and take long. Under the
# detector they would take four times as long, and it has nothing to see.
one_client := Test(Suite|Single|Sentinel|Cluster)$$/(Order|NonceLife|NonceClockJump|WiderWindow|NarrowerWindow|AnyWindow|History)$$

# The end-to-end tests write down answers that they see, and tests/openapi, a
# module of its own, holds docs/openapi.yaml against them.
answers := $(CURDIR)/bin/test/answers

# Most tests wait, for servers, for alerts or for a disk, so more packages run at
# once than there are CPUs. Those that take longest begin first.
at_once := -p $(shell expr 2 '*' $$(nproc))

unit: ## the tests that run without the race detector, end to end included
	CARD_TEST_ANSWERS=$(answers) go test -json $(at_once) -timeout 20m ./tests/ops ./tests/alerts ./tests/request $$(go list ./... | grep -vE '$(raced)|/tests/clients/matrix$$') | go run ./tests/report
	go test -run TestChain ./caddymodule
	go test -run '$(one_client)' ./store/redis ./store/file
	cd bench && go test -count=1 ./...
	cd ops/packages && go test -count=1 ./...
	cd tests/openapi && CARD_TEST_ANSWERS=$(answers) go test -count=1 -timeout 20m ./...

race: ## the tests of the packages where goroutines meet, under the race detector
	CGO_ENABLED=1 go test -json -race $(at_once) -timeout 20m -skip '$(one_client)' ./store/redis ./store/file $$(go list ./... | grep -vE '/(cmd|ops|tests)/|/tests$$') | go run ./tests/report

test-stores: ## the tests that need Redis with Redis 8, Valkey 8 and the server of this machine, half an hour; on Debian
	tests/stores.sh

alerts: ## every fault of the table of alerts at the real ranges of the rules, 15 minutes on two idle CPUs; it writes docs/alerts.md
	@tests/install-tools.sh redis-server promtool
	CARD_TEST_ALERTS=all CARD_TEST_ALERTS_PAGE=$(CURDIR)/docs/alerts.md go test -count=1 -timeout 3h -v -run TestFaults ./tests/alerts

bench: ## compare with Caddy, nginx, HAProxy and nginx + Lua on this machine; says how long it takes; ARGS=-h lists what can be chosen
	@tests/install-tools.sh nginx nginx-lua haproxy wrk redis-server
	@cd bench && go run . $(ARGS)

faults: ## the whole fault bench, 40 minutes on two idle CPUs; it writes docs/reliability.md
	@tests/install-tools.sh redis-server
	@echo "Some 60 faults, one after the other, on an embedded store, one Redis, a Sentinel set and a"
	@echo "cluster, with over a million replays; then 400 histories. It takes about 40 minutes on two CPUs"
	@echo "that have nothing else to do, and writes the tables of docs/reliability.md."
	CARD_TEST_FAULTS=all CARD_TEST_FAULTS_PAGE=$(CURDIR)/docs/reliability.md go test -count=1 -timeout 3h -v ./tests/faults

# The tests of single faults: a server's clock that steps, old content that comes
# back, evicted nonces, a network cut in two, a damaged journal, a wider window.
repeat := 20
redis_faults := Test(ClockStepOfTheServer|OldContentRestored|FloorOfBeforeExplainsNothing|DamagedBeat|Flush|FlushBetweenLooks|Eviction|LostNoncesFenceTheirKey|MasterWithoutAcknowledgements|TakeoverThatLostNonces|SentinelFailover|ClusterFailover|TwoMastersAreRefused)$$|TestSingle/(WiderWindow|AnyWindow|NarrowerWindow|Reopen)$$
file_faults := Test(CorruptedJournal|Mark|ReplayFloor|TornTail|TornChange|DamagedChange|KilledWhileItChanges|NeverBegun|DamageIsNoticed|WiderWindow)$$|TestSuite/(WiderWindow|AnyWindow|NarrowerWindow|Reopen)$$

faults-again: ## the tests of single faults, 20 times each; repeat=N sets how often
	@tests/install-tools.sh redis-server
	go test -count=$(repeat) -timeout 3h -run '$(redis_faults)' ./store/redis/...
	go test -count=$(repeat) -timeout 3h -run '$(file_faults)' ./store/file/...

FUZZTIME ?= 10m
fuzz: ## every fuzz target, FUZZTIME (10m; short: as in CI) each; 2 hours on two CPUs; TARGETS=REGEXP chooses
	@tests/install-tools.sh haproxy redis-server
	@echo "Some 30 targets, each for the time $(FUZZTIME): with 10m about 2 hours on two CPUs. What is"
	@echo "found is kept under testdata/fuzz of the package; what is tried is in the cache of Go."
	tests/fuzz.sh $(FUZZTIME) '$(TARGETS)'

pictures: ## make docs/pictures again, of the console with made-up keys; it needs Chromium and Redis
	@tests/install-tools.sh redis-server chromium
	CARD_TEST_PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run TestPictures ./tests/console

SOAK ?= 20m
RATE ?= 500
soak: ## correct requests for 20 minutes (SOAK, RATE a second): what the process holds must not grow; it writes docs/reliability.md
	CARD_TEST_SOAK=$(SOAK) CARD_TEST_SOAK_RATE=$(RATE) CARD_TEST_SOAK_PAGE=$(CURDIR)/docs/reliability.md go test -count=1 -timeout 3h -v -run TestSoak ./tests/soak

CARD_TEST_MUTANTS ?= .
mutants: ## change some 120 rules, one at a time: a test must fail with each; 20 minutes on two CPUs
	@tests/install-tools.sh redis-server
	@echo "Some 120 rules are changed, one at a time, and the tests of the package run with each: 20 minutes"
	@echo "on two CPUs. The files stay as they are."
	CARD_TEST_MUTANTS='$(CARD_TEST_MUTANTS)' go test -count=1 -timeout 3h -v -parallel 2 -run TestMutants ./tests/mutants

sbom: ## the bill of materials of bin/card-gateway-production, which ./xcaddy.sh builds, into dist/
	tests/supply/sbom.sh

vulnerabilities: ## published weaknesses in the code that the gateway calls; GOVULNDB=file:///… uses a copy of the database
	tests/supply/vulnerabilities.sh

packages: ## build a deb, an rpm and an image (an OCI layout) from the production binary, into dist/
	./xcaddy.sh bin/card-gateway-production
	cd ops/packages && go run . -binary $(CURDIR)/bin/card-gateway-production -commit "$$(git describe --always --exclude='*' --abbrev=12 --dirty=+dirty 2>/dev/null)" -out $(CURDIR)/dist

lint: bin/golangci-lint-$(golangci) bin/redocly-$(redocly) ## vet, gofmt, golangci-lint, shellcheck and the linter of docs/openapi.yaml
	@tests/install-tools.sh shellcheck
	tests/lint-shell.sh
	tests/lint-flags.sh
	go vet ./...
	@set -e; for module in $(modules); do (set -x; cd $$module && go vet ./...); done
	@unformatted=$$(gofmt -l $(go_files)); if [ -n "$$unformatted" ]; then \
		echo "not formatted (make fmt): $$unformatted"; exit 1; fi
	bin/golangci-lint-$(golangci) run ./...
	@# Without the warnings that exceptions for the other module are not used here.
	@set -e; for module in $(modules); do (set -x; cd $$module && LOG_LEVEL=error $(CURDIR)/bin/golangci-lint-$(golangci) run ./...); done
	bin/redocly-$(redocly)/node_modules/.bin/redocly lint --format=stylish docs/openapi.yaml

docs: ## write docs/api.md and the page of `make run` from docs/openapi.yaml
	cd tests/openapi && go run ./apidoc

bin/redocly-$(redocly):
	@tests/install-tools.sh npm
	npm install --no-audit --no-fund --silent --prefix $@.new @redocly/cli@$(redocly)
	mv $@.new $@

bin/golangci-lint-$(golangci):
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(golangci)
	mv bin/golangci-lint $@

fmt: ## format the Go files and the Caddyfiles
	gofmt -w $(go_files)
	go run ./cmd/card-gateway fmt --overwrite Caddyfile.example
	go run ./cmd/card-gateway fmt --overwrite demo/Caddyfile
	go run ./cmd/card-gateway fmt --overwrite demo/page.caddyfile
	go run ./cmd/card-gateway fmt --overwrite ops/kubernetes/Caddyfile
	go run ./cmd/card-gateway fmt --overwrite ops/two-nodes/Caddyfile
	go run ./cmd/card-gateway fmt --overwrite ops/compose/Caddyfile

clean: ## remove what was built and what `make run` has made
	rm -rf bin dist demo/data
