# Run `make` to see what there is to run.

GO        ?= go
BIN       ?= bin
TIMEOUT   ?= 20m
FUZZTIME  ?= 10s
BENCHARGS ?=
SOAK      ?= 12
DEMOARGS  ?=
MUTANTS   ?= .
RECORD    ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build leasectl into bin/
	$(GO) build -o $(BIN)/leasectl ./cmd/leasectl

.PHONY: test
test: ## Run all tests
	$(GO) test -timeout $(TIMEOUT) ./...

.PHONY: race
race: ## Run all tests under the race detector, as CI does (needs a C compiler)
	$(GO) test -race -timeout $(TIMEOUT) ./...

.PHONY: lint
lint: ## Check formatting, go vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: bench
bench: ## Measure whole job lives against raw etcd puts (BENCHARGS="-n 5000")
	$(GO) run ./cmd/leasectl bench e2e $(BENCHARGS)

.PHONY: demo
demo: ## Kill and freeze real workers, and see that no job is lost or done twice
	$(GO) run ./cmd/leasectl demo $(DEMOARGS)

.PHONY: fuzz
fuzz: ## Run every fuzz target for a while (FUZZTIME=10s, or a number of inputs: 3000x)
	@set -e; grep -rlE --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do \
		sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file" | while read -r target; do \
			echo "$$target in $$(dirname "$$file")"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname "$$file")" </dev/null; \
		done; \
	done

.PHONY: fuzz-brief
fuzz-brief: ## Run every fuzz target on 2000 inputs, as CI does
	./.ci/fuzz

.PHONY: explore
explore: ## Search the large worlds of the explorer: minutes
	$(GO) test -count=1 -timeout 60m -v -run 'TestExplore' ./internal/lane ./internal/line ./workqueue -explore.more
	$(GO) test -count=1 -v ./internal/memetcd -steps 50000

.PHONY: soak
soak: ## Chaos for hours, each round with a new seed (SOAK=12 rounds of about 25 minutes)
	$(GO) test ./integration -run '^TestChaos$$' -count=$(SOAK) -failfast -timeout 0 -v -artifacts -outputdir $(CURDIR) -duration 5m

.PHONY: rest
rest: ## Chaos of a minute, ten seeds, one and three members, both modes; tells when all was at rest (1 h)
	@set -e; $(GO) test -c -o $(BIN)/integration.test ./integration; cd integration; \
	for seed in 101 102 103 104 105 106 107 108 109 110; do for members in 1 3; do for mode in claim dispatch; do \
		../$(BIN)/integration.test -test.run '^TestChaos$$' -test.v -test.timeout 10m -seed $$seed -duration 60s -members $$members -mode $$mode \
			| grep -E 'quiescence:|summary:|^(---|FAIL|ok|panic)'; \
	done; done; done

.PHONY: mutants
mutants: ## Take each safety check out and see a test fail; writes docs/mutants.md (10 min; some: MUTANTS=^fence-)
	$(GO) test -count=1 -timeout 3h -parallel 4 -v ./internal/mutants -run TestMutantsAreCaught -mutants '$(MUTANTS)' -write

.PHONY: examples
examples: ## Test the examples that are modules of their own (2 min; the first build takes longer)
	cd examples/controller && $(GO) vet . && $(GO) test -count=1 -timeout $(TIMEOUT) -v .

.PHONY: recovery
recovery: ## Measure how soon work goes on after each fault, 30 events each (6 min)
	$(GO) test -timeout 1h ./integration -run '^$$' -bench BenchmarkRecovery -benchtime 30x

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities, where their database can be reached
	@out=$$($(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./... 2>&1); code=$$?; printf '%s\n' "$$out"; \
	if [ $$code -ne 0 ] && printf '%s' "$$out" | grep -qE 'fetching vulnerabilities|dial tcp|no such host|lookup disabled'; then \
		echo "vulncheck: the database of vulnerabilities cannot be reached from here, so nothing was checked" >&2; exit 0; \
	fi; exit $$code

.PHONY: simulate
simulate: ## Race three ways to share work, 100 trials each
	$(GO) run ./cmd/leasectl simulate

.PHONY: pictures
pictures: ## Draw the pictures of README.md again from what was recorded (RECORD=1 races anew)
	$(if $(RECORD),$(GO) test -count=1 ./internal/simulate -run '^TestRecordRace$$' -record $(CURDIR)/internal/simulate/report/testdata/race.json)
	$(GO) test -count=1 ./internal/simulate/report -run '^TestPictureOfTheRace$$' -update
	$(GO) test -count=1 ./internal/leasectl/top -run '^TestPictureOfTheScreen$$' -update

.PHONY: ci
ci: ## Run what CI runs, start to end
	./.ci/run

.PHONY: clean
clean: ## Remove what the other targets built
	rm -rf $(BIN) dist
