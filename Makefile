# `make` prints the menu. A target first installs what it needs, and prints that; further runs are
# quick. .ci/run runs `make check`.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := menu
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
REMUDA := target/release/remuda
# What tests use: optimised, and checks arithmetic and assertions (Cargo.toml).
TESTED := target/checked/remuda
# Gives way to every other process.
IDLE := chrt --idle 0
BENCH := $(CARGO) run --release -p remuda-bench --bin

.PHONY: menu
menu: ## Print this menu
	@echo "Remuda: a congestion-control plane for a host"
	@echo
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

.PHONY: setup
setup: ## Install the Debian packages that building needs
	@bash tools/setup.sh

.PHONY: build
build: setup ## Build the remuda command, optimised
	$(CARGO) build --release -p remuda

.PHONY: demo
demo: build ## Compare rein with each fixed arm, live, on three paths; a table and an HTML page (root)
	$(REMUDA) demo --html out/demo.html

.PHONY: test
test: setup ## Run everything that CI runs
	@$(MAKE) --jobs=2 test-build test-fetch
	@$(MAKE) tidy
	@$(MAKE) --jobs=3 test-live test-computing test-in-guests

# Fetches what the tests below install, while the first build has the processors.
.PHONY: test-fetch
test-fetch: guest-kernels
	@bash tools/page.sh install
	@bash tools/unpack.sh prometheus nginx

# The live tests mostly wait. The others use the processors meanwhile, and give way to them.
.PHONY: test-computing
test-computing:
	@$(IDLE) $(MAKE) lint
	@$(IDLE) $(MAKE) test-rust
	@$(IDLE) $(MAKE) test-python
	@$(IDLE) $(MAKE) test-page
	@$(IDLE) $(MAKE) train-antelope-smoke
	@$(IDLE) $(MAKE) train-lingbo-smoke
	@$(IDLE) $(MAKE) train-learned-smoke
	@$(IDLE) $(MAKE) train-tcp-rl-smoke

.PHONY: test-in-guests
test-in-guests:
	@$(IDLE) $(MAKE) test-guest
	@$(IDLE) $(MAKE) test-kernel

.PHONY: check
check: test ## The same as make test

.PHONY: lint
lint: setup ## Check formatting, lints and shell scripts
	$(CARGO) fmt --check
	$(CARGO) clippy --profile checked --workspace --all-targets --quiet -- -D warnings
	shellcheck tools/*.sh datapath/vm/fuzz/*.sh .ci/run

# Every test runs in one build of the whole workspace, so that each library is compiled once: cargo
# compiles a library anew for another set of packages, as its features may differ. The build also
# makes target/checked/remuda.
TEST := $(CARGO) test --profile checked --workspace

# Integration tests, by the names of their files.
tests-of = $(sort $(basename $(notdir $(wildcard $(addsuffix /tests/*.rs,$(1))))))
GUEST_TESTS := boots detectors fidelity
KERNEL_TESTS := scenarios
LONG_TESTS := debug outside service
# These need root. Those of two packages of one name run together.
LIVE_TESTS := $(filter-out $(LONG_TESTS), \
	live $(call tests-of,datapath/bpf emulation/live tests tests/conformance))
PURE_TESTS := $(filter-out $(LIVE_TESTS) $(GUEST_TESTS) $(KERNEL_TESTS) $(LONG_TESTS), \
	$(call tests-of,. * */*))

.PHONY: test-build
test-build: setup ## Build every test, and the remuda command that tests use
	$(TEST) --no-run

.PHONY: tidy
tidy: test-build ## Check the text of the sources: lengths, words, names, paths
	$(TEST) --test tidy

.PHONY: test-rust
test-rust: test-build ## Run the deterministic tests: no root, no network
	$(TEST) --no-fail-fast --lib --bins $(addprefix --test ,$(PURE_TESTS))
	$(TEST) --doc

.PHONY: test-live
test-live: test-build ## Test with real TCP, BPF and namespaces (root; else prints SKIPPED)
	REMUDA_BIN=$(CURDIR)/$(TESTED) $(TEST) --no-fail-fast $(addprefix --test ,$(LIVE_TESTS)) \
		-- --test-threads=1 --nocapture

.PHONY: guest
guest: setup ## Fetch QEMU and the Debian kernel for the virtual machines of tests
	@bash tools/guest.sh

.PHONY: test-guest
test-guest: test-build ## Test real TCP and BPF on Debian's kernel, in a virtual machine (no root)
	@if [[ $$(uname -m) == x86_64 ]]; then \
		bash tools/guest.sh; \
		REMUDA_BIN=$(CURDIR)/$(TESTED) $(TEST) $(addprefix --test ,$(GUEST_TESTS)) -- --nocapture; \
	else \
		echo "SKIPPED: virtual machines need an x86-64 host"; \
	fi

.PHONY: module
module: setup ## Build the kernel module for the running kernel (its headers must be installed)
	@bash tools/module.sh --running

# The architecture of the package: this host's, or arm64.
ARCH ?=

.PHONY: deb
deb: build ## Build the Debian package of the command and its services (ARCH=arm64: for arm64)
	@if [[ -z "$(ARCH)" || "$(ARCH)" == $$(dpkg --print-architecture) ]]; then \
		bash tools/deb.sh; \
	elif [[ "$(ARCH)" == arm64 ]]; then \
		bash tools/cross.sh; \
		bash tools/deb.sh --arch arm64; \
	else \
		echo "deb: ARCH=$(ARCH): it must be arm64, or left out for this host's" >&2; \
		exit 2; \
	fi

.PHONY: module-deb
module-deb: setup ## Build the Debian package of the kernel module, remuda-dkms
	@bash tools/module-deb.sh

.PHONY: guest-kernels
guest-kernels: setup
	@if [[ $$(uname -m) == x86_64 ]]; then \
		bash tools/guest.sh --headers 6.1 6.12; \
		bash tools/newest-headers.sh || echo "SKIPPED: no headers of Debian's newest kernel"; \
		bash tools/checkpatch.sh; \
	fi

.PHONY: test-kernel
test-kernel: test-build guest-kernels ## Test the kernel module on Debian's 6.1 and 6.12, in virtual machines (no root)
	@if [[ $$(uname -m) == x86_64 ]]; then \
		REMUDA_BIN=$(CURDIR)/$(TESTED) $(TEST) $(addprefix --test ,$(KERNEL_TESTS)) -- --nocapture; \
	else \
		echo "SKIPPED: virtual machines need an x86-64 host"; \
	fi

.PHONY: test-kernel-debug
test-kernel-debug: build ## Test the kernel module on a kernel with KASAN, lockdep, UBSAN and kmemleak
	@bash tools/debug-kernel.sh
	$(CARGO) test --release -p remuda-guest --test detectors
	REMUDA_BIN=$(CURDIR)/$(REMUDA) $(CARGO) test --release -p remuda-guest --test debug \
		-- --nocapture

.PHONY: deny
deny: setup ## Check the licenses and sources of dependencies, and known vulnerabilities
	@bash tools/deny.sh

# The optimised build is the other one, from which and to which the agent is upgraded.
.PHONY: test-long
test-long: deny test-build build ## Test a package outside the workspace, and the agent as a service of Debian 13 (no root)
	$(TEST) --test outside
	@if [[ $$(uname -m) == x86_64 ]]; then \
		bash tools/systemd-guest.sh; \
		bash tools/deb.sh --version 0~other --into target/deb/other; \
		bash tools/deb.sh --program $(TESTED) --into target/deb/tested; \
		REMUDA_BIN=$(CURDIR)/$(TESTED) REMUDA_OTHER_BIN=$(CURDIR)/$(REMUDA) \
		REMUDA_DEB=$$(ls $(CURDIR)/target/deb/tested/*.deb) \
		REMUDA_OTHER_DEB=$$(ls $(CURDIR)/target/deb/other/*.deb) \
			$(TEST) --test service -- --test-threads=1 --nocapture; \
	else \
		echo "SKIPPED: virtual machines need an x86-64 host"; \
	fi

.PHONY: soak-kernel
soak-kernel: build ## Run the kernel module for 21 minutes while flows churn and agents are killed
	@bash tools/guest.sh --headers 6.12
	$(CARGO) build --release -p remuda-guest --bin remuda-kernel
	$(CARGO) run --release -p remuda-guest --bin remuda-kernel-soak -- --seconds 1260

.PHONY: test-python
test-python: test-build ## Test the Python package: types, environments, results, arms (in target/venv)
	REMUDA_PROFILE=checked REMUDA_BIN=$(CURDIR)/$(TESTED) bash tools/python.sh test

.PHONY: wheel
wheel: setup ## Make a wheel of the Python package, which needs no Rust where it is installed
	@bash tools/python.sh wheel

.PHONY: test-page
test-page: test-build ## Test the report of a matrix in headless Chromium; screenshots in target/page
	REMUDA_PROFILE=checked REMUDA_BIN=$(CURDIR)/$(TESTED) bash tools/page.sh

.PHONY: train-antelope
train-antelope: build ## Train Antelope's model from scratch, in 9,600 simulated environments
	@bash tools/train.sh full

.PHONY: antelope-families
antelope-families: build ## Judge antelope on each family of paths left out of its training (an hour; continues)
	@bash tools/python.sh build
	$(REMUDA) train antelope --collect --data out/antelope/samples
	target/venv/bin/python -P -m remuda.training.antelope_families --data out/antelope/samples \
		--out out/antelope/families --remuda $(REMUDA) --write docs/antelope-families.md --home learned

.PHONY: train-antelope-smoke
train-antelope-smoke: test-build ## Train with 40 environments, twice, and check that the bytes are the same
	@REMUDA_PROFILE=checked bash tools/train.sh smoke

.PHONY: bench
bench: build ## Measure the cost of datapath, agent and simulator, beside the kernel and portus
	$(CARGO) run --release -p remuda-bench
	@bash tools/python.sh bench

.PHONY: agent-cost
agent-cost: build ## The agent's CPU and memory for 10 to 50,000 flows; writes docs/cost.md (root)
	$(CARGO) run --release -p remuda-bench -- agent-cost --seconds 10 --write docs/cost.md

.PHONY: fidelity
fidelity: build guest ## Compare our reno, cubic and bbr with the kernel's own; writes docs/fidelity.md
	$(BENCH) remuda-fidelity -- --guest target/guest/6.12 \
		--rounds 1 --write docs/fidelity.md

.PHONY: fidelity-modules
fidelity-modules: build guest ## The same for vegas, westwood, illinois and dctcp, which are kernel modules
	$(BENCH) remuda-fidelity -- --guest target/guest/6.12 \
		--arms vegas,westwood,illinois,dctcp --rates 24 --buffers 1,4,mark --rounds 1 --seconds 20 \
		--write docs/fidelity.md --part 'make fidelity-modules'

.PHONY: fidelity-recovery
fidelity-recovery: build guest ## The same of reno and cubic where packets are overtaken, or the application pauses
	$(BENCH) remuda-fidelity -- --guest target/guest/6.12 \
		--arms reno,cubic --rates 24,48 --buffers reorder,idle --rounds 2 --seconds 20 \
		--write docs/fidelity.md --part 'make fidelity-recovery'

.PHONY: netem
netem: guest ## Compare our emulator with the kernel's netem; writes docs/netem.md
	@bash tools/setup.sh iproute2
	$(BENCH) remuda-netem -- --write docs/netem.md

.PHONY: quic
quic: build ## Compare QUIC under the agent with noq's algorithms and quinn; writes docs/quic.md (root)
	$(BENCH) remuda-quic-bench -- --write docs/quic.md

.PHONY: soak
soak: build ## Transfer over QUIC and TCP for 21 minutes while the agent is killed and hangs (root)
	$(BENCH) remuda-soak

.PHONY: sim-to-real
sim-to-real: build guest ## Run scenarios simulated and on real TCP, and compare; writes docs/sim-to-real.md
	$(BENCH) remuda-sim-to-real -- --guest target/guest/6.12 --rounds 3 \
		--write docs/sim-to-real.md

.PHONY: kernel-cost
kernel-cost: build ## Count instructions per ACK in the kernel module; writes docs/kernel-module.md
	@bash tools/guest.sh --headers 6.12
	$(CARGO) build --release -p remuda-guest --bin remuda-kernel
	$(BENCH) remuda-kernel-cost -- --write docs/kernel-module.md

.PHONY: switches
switches: setup ## Measure switches between all pairs of arms, simulated; writes docs/switching.md
	$(BENCH) remuda-switches -- --write docs

.PHONY: switches-live
switches-live: build ## The same on real TCP, and with setsockopt alone; writes docs/switching-live.md
	$(BENCH) remuda-switches -- --live --write docs

.PHONY: matrix-smoke
matrix-smoke: build ## Rank all arms over sixty environments of every kind
	$(REMUDA) matrix --suite smoke --arm all --out out/matrix

RANKED := smoke wireless ccbench-solo ccbench-friendly sharing
# Suite files with paths that were recorded, which the project does not have.
RECORDED ?=

.PHONY: choice
choice: build ## What antelope misses on every suite and RECORDED=FILE, and where for long; writes docs/choice.md (a quarter of an hour)
	$(BENCH) remuda-choice -- $(addprefix --apart ,$(RECORDED)) --write docs/choice.md

.PHONY: ranking
ranking: build ## Rank all arms and policies over five suites and RECORDED=FILE; writes docs/ranking.md (hours; continues)
	@for suite in $(RANKED) $(RECORDED); do \
		name=$$(basename $$suite .toml); \
		echo "ranking: $$name"; \
		$(REMUDA) matrix --arm all --suite $$suite --out out/ranking/$$name \
			--keep out/ranking/runs >/dev/null; \
	done
	$(BENCH) remuda-ranking -- --write docs/ranking.md \
		$(addprefix out/ranking/,$(RANKED) $(basename $(notdir $(RECORDED))))

.PHONY: anole-table
anole-table: setup ## Measure the arm anole beside its paper, simulated; writes docs/anole.md
	$(BENCH) remuda-anole-table -- --write docs/anole.md

.PHONY: harm
harm: setup ## Measure what a CUBIC flow keeps beside each arm and policy, simulated; writes docs/harm.md
	$(BENCH) remuda-harm -- --write docs/harm.md
	$(BENCH) remuda-harm -- --policies --write docs/harm-policies.md

.PHONY: advise-table
advise-table: setup ## Measure how right `remuda advise` is on 60 paths, simulated; writes docs/advise.md
	$(BENCH) remuda-advise-table -- --write docs/advise.md

.PHONY: papers-live
papers-live: build ## Measure rows of Anole's and LingBo's tables on real TCP (root, 90 minutes; continues)
	@bash tools/python.sh build
	$(BENCH) remuda-papers-live -- --write docs/papers-live.md

.PHONY: initial-windows
initial-windows: setup ## Measure learned initial windows beside TCP-RL's paper on real TCP (root, two hours; continues)
	@bash tools/unpack.sh nginx
	$(BENCH) remuda-initial-windows -- --write docs/initial-windows-table.md

.PHONY: antelope-table
antelope-table: setup ## Measure Antelope's acceptance table, simulated; writes docs/antelope.md
	$(BENCH) remuda-antelope-table -- --write docs/antelope.md

.PHONY: antelope-table-live
antelope-table-live: build ## Measure rows of that table on real TCP (root, 105 minutes)
	$(BENCH) remuda-antelope-table -- --live --write docs/antelope.md

.PHONY: antelope-ablations
antelope-ablations: setup ## Measure the benefit of each part of Antelope, simulated; writes docs/antelope.md
	$(BENCH) remuda-antelope-table -- --ablations --seeds 120 \
		--held-out drawn:1000000..1003000 --write docs/antelope.md

.PHONY: antelope-online
antelope-online: setup ## Measure what learning from live flows is worth, simulated; writes docs/antelope-online.md
	@bash tools/python.sh build
	$(BENCH) remuda-antelope-table -- --online --write docs/antelope-online.md

.PHONY: arm-cost
arm-cost: build ## Measure the cost of the arm anole: a report, the agent with 100 flows (root)
	$(CARGO) run --release -p remuda-bench -- arm-cost --write docs/cost.md

.PHONY: antelope-cost
antelope-cost: build ## Measure Antelope's cost: models, features, the agent with 100 flows (root)
	$(CARGO) run --release -p remuda-bench -- policy-cost --policy antelope --write docs/antelope.md

.PHONY: train-lingbo
train-lingbo: build ## Train LingBo's network from scratch
	@bash tools/train.sh lingbo

.PHONY: train-lingbo-smoke
train-lingbo-smoke: test-build ## Train LingBo's network shortly, twice, and check that the bytes are the same
	@REMUDA_PROFILE=checked bash tools/train.sh lingbo-smoke

.PHONY: train-learned
train-learned: build ## Train the network of the arm learned from scratch
	@bash tools/train.sh learned

.PHONY: train-learned-smoke
train-learned-smoke: test-build ## Train it shortly, twice, and check that the bytes are the same
	@REMUDA_PROFILE=checked bash tools/train.sh learned-smoke

.PHONY: train-tcp-rl
train-tcp-rl: build ## Train the networks of the policy tcp_rl from scratch
	@bash tools/train.sh tcp_rl

.PHONY: train-tcp-rl-smoke
train-tcp-rl-smoke: test-build ## Train them shortly, twice, and check that the bytes are the same
	@REMUDA_PROFILE=checked bash tools/train.sh tcp_rl-smoke

.PHONY: tcp-rl-table
tcp-rl-table: setup ## Measure the policy tcp_rl beside its paper, simulated; writes docs/tcp-rl.md
	$(BENCH) remuda-tcp-rl-table -- --write docs/tcp-rl.md

.PHONY: rein-table
rein-table: setup ## Measure the policy rein on its suite, simulated; writes docs/rein.md
	$(BENCH) remuda-rein-table -- --write docs/rein.md

.PHONY: learned-families
learned-families: build ## Measure what learned loses on paths that it was not trained on (half an hour; continues)
	@bash tools/python.sh build
	target/venv/bin/python -P -m remuda.training.left_out --out out/learned-families \
		--write docs/learned-families.md

.PHONY: lingbo-table
lingbo-table: setup ## Measure LingBo's acceptance table, simulated; writes docs/lingbo.md
	$(BENCH) remuda-lingbo-table -- --write docs/lingbo.md

.PHONY: arms
arms: setup ## Compare every arm with its paper, simulated; writes docs/arms.md
	$(BENCH) remuda-arms -- --write docs/arms.md

.PHONY: conformance
conformance: setup ## Compare libccp, the VM and compiled BPF over three million steps of random programs
	$(CARGO) run --release -p remuda-conformance -- --steps 3000000

.PHONY: fuzz
fuzz: setup ## Fuzz the VM, with sanitizers, and every parser for an hour altogether
	@bash datapath/vm/fuzz/run.sh 900
	REMUDA_FUZZ_SECONDS=180 $(TEST) --test fuzz -- --test-threads=1 --nocapture

.PHONY: clean
clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf out
