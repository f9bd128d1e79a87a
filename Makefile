# `make` prints the menu. What a target needs it installs first, and says so; the second time it is
# quick. `make check` is what .ci/run runs.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := menu
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
REMUDA := target/release/remuda

.PHONY: menu
menu: ## Print this menu
	@echo "Remuda: a congestion-control plane for a host"
	@echo
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

.PHONY: setup
setup: ## Install what building needs: Debian packages, once
	@bash tools/setup.sh

.PHONY: build
build: setup ## Build the remuda command, optimised
	$(CARGO) build --release -p remuda

.PHONY: demo
demo: build ## Three paths, rein against each fixed arm, live; a table and an HTML page (needs root)
	$(REMUDA) demo --html out/demo.html

.PHONY: test
test: setup lint test-rust test-live test-python test-page train-antelope-smoke test-guest test-kernel ## Everything that CI runs

.PHONY: check
check: test ## The same

.PHONY: lint
lint: setup ## Formatting, lints, shell scripts
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --quiet -- -D warnings
	shellcheck tools/*.sh datapath/vm/fuzz/*.sh .ci/run

.PHONY: test-rust
test-rust: setup ## Deterministic tests: no root, no network
	$(CARGO) test -p remuda-algorithms -p remuda-selector -p remuda-link -p remuda-wire \
		-p ccp-agent -p remuda -p remuda-client -p remuda-stats -p remuda-vm -p remuda-oracle \
		-p remuda-scenarios -p remuda-results -p remuda-real -p remuda-sim-to-real -p remuda-python \
		-p remuda-quic -p remuda-quinn -p remuda-quic-transfer -p remuda-quic-bench -p remuda-soak
	$(CARGO) test -p remuda-live --lib
	$(CARGO) test --release -p remuda-sim -p remuda-matrix -p remuda-report -p remuda-arms -p remuda-switches \
		-p remuda-antelope-table

.PHONY: test-live
test-live: build ## Real TCP, real BPF, real namespaces (needs root; says so if it skips)
	REMUDA_BIN=$(CURDIR)/$(REMUDA) $(CARGO) test --no-fail-fast \
		-p remuda-bpf -p remuda-live -p remuda-bench -p remuda-conformance -p remuda-tests \
		-- --test-threads=1 --nocapture

.PHONY: guest
guest: setup ## Fetch QEMU and the Debian kernel that virtual machines of tests boot
	@bash tools/guest.sh

.PHONY: test-guest
test-guest: build ## Real TCP, real BPF on Debian's kernel, in a virtual machine (no root)
	@if [[ $$(uname -m) == x86_64 ]]; then \
		bash tools/guest.sh; \
		REMUDA_BIN=$(CURDIR)/$(REMUDA) $(CARGO) test --release \
			-p remuda-guest -p remuda-fidelity -- --nocapture; \
	else \
		echo "SKIPPED: virtual machines need an x86-64 host"; \
	fi

.PHONY: module
module: setup ## Build the kernel module for the running kernel (its headers must be installed)
	@bash tools/module.sh --running

.PHONY: module-deb
module-deb: setup ## Build the Debian package of the kernel module, remuda-dkms
	@bash tools/module-deb.sh

.PHONY: test-kernel
test-kernel: build ## The kernel module on Debian's kernels 6.1 and 6.12, in virtual machines (no root)
	@if [[ $$(uname -m) == x86_64 ]]; then \
		bash tools/guest.sh --headers 6.1 6.12; \
		bash tools/newest-headers.sh || echo "SKIPPED: no headers of Debian's newest kernel"; \
		bash tools/checkpatch.sh; \
		REMUDA_BIN=$(CURDIR)/$(REMUDA) $(CARGO) test --release -p remuda-kernel \
			--test scenarios -- --nocapture; \
	else \
		echo "SKIPPED: virtual machines need an x86-64 host"; \
	fi

.PHONY: test-kernel-debug
test-kernel-debug: build ## The kernel module on a kernel with KASAN, lockdep, UBSAN and kmemleak
	@bash tools/debug-kernel.sh
	$(CARGO) test --release -p remuda-guest --test detectors
	REMUDA_BIN=$(CURDIR)/$(REMUDA) $(CARGO) test --release -p remuda-kernel --test debug \
		-- --nocapture

.PHONY: soak-kernel
soak-kernel: build ## The kernel module for 21 minutes of churn, agents killed all along
	@bash tools/guest.sh --headers 6.12
	$(CARGO) run --release -p remuda-kernel --bin remuda-kernel-soak -- --seconds 1260

.PHONY: test-python
test-python: build ## The Python package: types, environments, results, arms (into target/venv)
	REMUDA_BIN=$(CURDIR)/$(REMUDA) bash tools/python.sh test

.PHONY: test-page
test-page: build ## The report of a matrix in headless Chromium; screenshots in target/page
	REMUDA_BIN=$(CURDIR)/$(REMUDA) bash tools/page.sh

.PHONY: train-antelope
train-antelope: build ## Antelope's model from nothing: 9,600 simulated environments, boosted trees
	@bash tools/train.sh full

.PHONY: train-antelope-smoke
train-antelope-smoke: build ## The same with 40 environments, twice: the same bytes
	@bash tools/train.sh smoke

.PHONY: bench
bench: build ## Cost of datapath, agent and simulator, beside the kernel's own and beside portus
	$(CARGO) run --release -p remuda-bench
	@bash tools/python.sh bench

.PHONY: agent-cost
agent-cost: build ## The agent's CPU and memory for 10 to 50,000 flows; writes docs/cost.md (root)
	$(CARGO) run --release -p remuda-bench -- agent-cost --seconds 10 --write docs/cost.md

.PHONY: fidelity
fidelity: build guest ## Our reno, cubic and bbr against the kernel's own; writes docs/fidelity.md
	$(CARGO) run --release -p remuda-fidelity -- --guest target/guest/6.12 \
		--rounds 1 --write docs/fidelity.md

.PHONY: fidelity-modules
fidelity-modules: build guest ## The same of vegas, westwood, illinois and dctcp, which are modules
	$(CARGO) run --release -p remuda-fidelity -- --guest target/guest/6.12 \
		--arms vegas,westwood,illinois,dctcp --rates 24 --buffers 1,4,mark --rounds 1 --seconds 20 \
		--write docs/fidelity.md --part 'make fidelity-modules'

.PHONY: netem
netem: guest ## Our emulator beside the kernel's netem; writes docs/netem.md
	@bash tools/setup.sh iproute2
	$(CARGO) run --release -p remuda-fidelity --bin remuda-netem -- --write docs/netem.md

.PHONY: quic
quic: build ## QUIC under the agent beside noq's own algorithms, and quinn; writes docs/quic.md (root)
	$(CARGO) run --release -p remuda-quic-bench -- --write docs/quic.md

.PHONY: soak
soak: build ## 21 minutes of transfers over QUIC and TCP while the agent is killed and hangs (root)
	$(CARGO) run --release -p remuda-soak

.PHONY: sim-to-real
sim-to-real: build guest ## The same scenarios simulated and on real TCP; writes docs/sim-to-real.md
	$(CARGO) run --release -p remuda-sim-to-real -- --guest target/guest/6.12 --rounds 3 \
		--write docs/sim-to-real.md

.PHONY: kernel-cost
kernel-cost: build ## What an ACK costs in the kernel module, in instructions; writes docs/kernel-module.md
	@bash tools/guest.sh --headers 6.12
	$(CARGO) run --release -p remuda-kernel --bin remuda-kernel-cost -- \
		--write docs/kernel-module.md

.PHONY: switches
switches: setup ## What a switch between any two arms costs, simulated; writes docs/switching.md
	$(CARGO) run --release -p remuda-switches -- --write docs

.PHONY: switches-live
switches-live: build ## The same on this kernel's TCP, and by its own setsockopt; writes docs/switching-live.md
	$(CARGO) run --release -p remuda-switches -- --live --write docs

.PHONY: matrix-smoke
matrix-smoke: build ## Every arm in sixty environments of every kind; a ranking, and a table
	$(REMUDA) matrix --suite smoke --arm all --out out/matrix

.PHONY: antelope-table
antelope-table: setup ## Antelope's acceptance table, simulated; writes docs/antelope.md
	$(CARGO) run --release -p remuda-antelope-table -- --write docs/antelope.md

.PHONY: antelope-table-live
antelope-table-live: build ## Rows of it on this kernel's TCP (needs root, 105 minutes)
	$(CARGO) run --release -p remuda-antelope-table -- --live --write docs/antelope.md

.PHONY: antelope-ablations
antelope-ablations: setup ## What each part of Antelope is worth, simulated; writes docs/antelope.md
	$(CARGO) run --release -p remuda-antelope-table -- --ablations --seeds 120 \
		--held-out drawn:1000000..1003000 --write docs/antelope.md

.PHONY: antelope-online
antelope-online: setup ## What learning from live flows is worth, simulated; writes docs/antelope.md
	@bash tools/python.sh build
	$(CARGO) run --release -p remuda-antelope-table -- --online --write docs/antelope.md

.PHONY: antelope-cost
antelope-cost: build ## What Antelope costs: models, features, the agent for 100 flows (needs root)
	$(CARGO) run --release -p remuda-bench -- policy-cost --policy antelope --write docs/antelope.md

.PHONY: arms
arms: setup ## Every arm beside what its paper says, simulated; writes docs/arms.md
	$(CARGO) run --release -p remuda-arms -- --write docs/arms.md

.PHONY: conformance
conformance: setup ## Three million steps of random programs: libccp, the VM and compiled BPF
	$(CARGO) run --release -p remuda-conformance -- --steps 3000000

.PHONY: fuzz
fuzz: setup ## Half an hour of fuzzing the VM, with sanitizers
	@bash datapath/vm/fuzz/run.sh 900

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean
	rm -rf out
