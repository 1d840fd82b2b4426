# Needs rustup, a C compiler, make, Python 3 and, for the tests, openssl. `make help` lists what there is.
PYTHON ?= python3
CARGO ?= cargo
export CARGO

.PHONY: help demo demo-up demo-down drill kills build check check-deploy test test-sdk fuzz soak bench static-table clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "%-14s%s\n", $$1, $$2 }'

demo: ## show it on a disposable stack, each step checked (DEMO=docker|native|embedded forces one)
	@$(PYTHON) deploy/demo run

demo-up: ## start such a stack and leave it running
	@$(PYTHON) deploy/demo up

demo-down: ## remove it with its data
	@$(PYTHON) deploy/demo down

build: ## the release programs, in target/release
	$(CARGO) build --release --locked -p signet -p signet-mock-cli -p signet-load

check: check-deploy ## format, lints, documentation, deploy files
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

check-deploy: ## Dockerfile and compose file, without an engine
	@$(PYTHON) deploy/check_deploy.py

test: ## format, lints and all tests, against services that it starts and stops
	@$(PYTHON) deploy/test.py

test-sdk: ## ordinary calls of the official SDKs and of frameworks, from their registries, on a miss and on a hit (needs npm)
	@$(PYTHON) tools/sdk/run.py $(SDK_FLAGS)

drill: ## bad days under load: kills, Redis off, an old copy of Postgres; every kept receipt must be found (DRILL_OLD_BIN)
	@$(PYTHON) deploy/drill.py

kills: ## kill -9 at random moments in both modes, counted by another process (KILLS a mode, default 250)
	@$(PYTHON) deploy/kills.py

fuzz: ## the fuzz targets, each until ten minutes bring no new coverage (needs a C++ compiler)
	@$(PYTHON) tools/fuzz/run.py

soak: ## the long counts: more cases a property and crash states, fuzzing, 500 kills, the optional encoder, the drill, a million records verified
	SIGNET_SOAK=1 PROPTEST_CASES=$${PROPTEST_CASES:-20000} $(PYTHON) deploy/test.py --profile soak
	rm -rf target/soak-model
	$(CARGO) run --release --locked -p signet -- model fetch --data target/soak-model
	DEMO_KILLS=20 $(PYTHON) deploy/demo run
	$(PYTHON) deploy/kills.py
	$(PYTHON) deploy/drill.py
	$(PYTHON) deploy/verify_rate.py
	$(PYTHON) tools/fuzz/run.py

bench: ## micro-benchmarks, and a manifest of matched runs in loadtest/manifests
	$(CARGO) bench --workspace --locked --benches
	@$(PYTHON) deploy/bench.py
	@$(PYTHON) deploy/ship_rate.py

static-table: ## make the embedded encoder's table again, from its pinned sources (ten minutes; needs npm)
	@$(PYTHON) tools/static-table/build.py

clean: demo-down ## remove what was built and what the demo left
	$(CARGO) clean
	rm -rf .demo
