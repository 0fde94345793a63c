# What a person does with this tree. Needs a Rust toolchain, a C compiler and make; scripts/need.sh says what else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
.PHONY: build run test tools test-engines test-web test-fast test-guest lint pictures demo crash crash-seeds chaos full-size mount-long mount-soak transfer-long bench-dav bench-sites bench-web bench-http bench-cluster bench-catalogue bench-mount bench-wan bench-run lighthouse clean help

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: web/dist/index.html ## Build target/release/holdfast
	@scripts/need.sh cc
	cargo build --release --locked -p holdfast-cli

# The released program under tests that are compiled as `make test` does.
tests := HOLDFAST_BIN=$(CURDIR)/target/release/holdfast cargo test --profile ci --locked --workspace

# The pages, which the program embeds. Cargo does not notice a folder that was not there: what makes it touches what reads it.
pages := $(shell find web -name node_modules -prune -o -path web/dist -prune -o -type f -print)

web/node_modules/.package-lock.json: web/package-lock.json
	@scripts/need.sh node
	npm ci --prefix web --no-audit --no-fund
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(pages)
	npm run --prefix web build
	@touch crates/pages/build.rs

run: build ## Build and serve a drive on this machine; HOLDFAST_DATA names its folder
	@scripts/run.sh

# What is tested is linted as it is compiled. Tools are fetched meanwhile, and what other lints compile they compile while suites wait for something.
test: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/scripts/rustc-lint
test: web/dist/index.html ## Everything that must hold: lints, docs, licences, tests, third-party suites
	@scripts/need.sh cc clippy-driver
	cargo fetch --locked
	@$(MAKE) --no-print-directory tools & tools=$$!; failed=0; cargo test --profile ci --locked --workspace --no-run || failed=1; wait $$tools; exit $$failed
	node scripts/suites.mjs all short web lint

tools: ## Install what the tests need, or name it
	@scripts/need.sh fuse3 postgresql swift weed haproxy nginx apache2 vsftpd proftpd dovecot caddy litmus cadaver rclone curl unzip openssl git sqlite3 fsx pjdfstest fio chromium firefox sshd ssh-keygen unshare setpriv strace python3

test-engines: build ## Every suite at its usual size on PostgreSQL with files, SeaweedFS and Swift (long)
	@scripts/need.sh cc node fuse3 postgresql swift weed litmus cadaver rclone curl unzip
	HOLDFAST_BIN=$(CURDIR)/target/release/holdfast SUITES_MINUTES=120 node scripts/suites.mjs engines

test-web: build ## The pages alone, in Chromium and Firefox; SHOTS=1 keeps pictures of them in web/e2e/shots
	@scripts/need.sh node chromium firefox
	HOLDFAST_BIN=$(CURDIR)/target/release/holdfast node scripts/suites.mjs web

test-guest: build ## Limits with control groups of version 2 alone, on Debian's stock kernel in a virtual machine (root; five minutes)
	@scripts/need.sh cc python3 setpriv
	HOLDFAST_BIN=$(CURDIR)/target/release/holdfast scripts/test-guest.sh \
		$$(cargo test --profile ci --locked -p holdfast-sandbox --test all --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))/\1/p') \
		$$(cargo test --profile ci --locked -p holdfast-e2e --test run_limits --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))/\1/p')

test-fast: web/dist/index.html ## The tests alone, in the dev profile
	@scripts/need.sh cc fuse3 postgresql swift weed haproxy nginx apache2 vsftpd proftpd dovecot caddy litmus cadaver rclone curl unzip openssl git sqlite3 fsx pjdfstest fio sshd ssh-keygen unshare setpriv strace python3
	cargo fetch --locked
	cargo test --workspace --locked

lint: web/dist/index.html ## Formatting, lints, documentation
	npm run --prefix web check
	@scripts/need.sh cc clippy-driver rustfmt
	cargo fmt --all --check
ifndef RUSTC_WORKSPACE_WRAPPER
	cargo clippy --profile ci --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --profile ci --locked --workspace --no-deps --document-private-items
endif

pictures: build ## Take the pictures of the documentation anew, in Chromium
	@scripts/need.sh node chromium
	HOLDFAST_BIN=$(CURDIR)/target/release/holdfast node web/e2e/pictures.mjs

demo: build ## Put a real source tree in and get it back, with rclone, cadaver and curl, and print rates
	@scripts/demo.sh

crash: build ## Kill the server 300 times under mixed writers (about two minutes)
	HOLDFAST_KILLS=300 $(tests) --test kill -- --nocapture

crash-seeds: build ## Cut the power 11,000 times on a disk that forgets (about half an hour)
	HOLDFAST_SEEDS=10000 HOLDFAST_WEB_SEEDS=1000 $(tests) --test crash_disk --test crash_web -- --nocapture

chaos: build ## Ten minutes of everything that can fail, on three nodes with PostgreSQL, an object store and a balancer
	@scripts/need.sh postgresql weed haproxy openssl
	HOLDFAST_CHAOS_SECONDS=600 HOLDFAST_CHAOS_ROUNDS=100 \
		$(tests) --test chaos --test cluster -- --nocapture

full-size: build ## Bounds on space and memory at full size: 10,000 files ten times, 8 uploads of 1 GiB, an archive above 4 GiB; and ten minutes of requests made up from the API's description (about a quarter of an hour)
	@scripts/need.sh litmus cadaver rclone curl unzip python3
	HOLDFAST_TREE_FILES=10000 HOLDFAST_UPLOAD_MIB=1024 ARCHIVE_LARGE=1 SCHEMATHESIS_SECONDS=300 \
		$(tests) --test space --test memory --test third_party -- --nocapture

mount-long: build ## Hold mounts to their full size: a million operations of fsx with five seeds, on two mounts in turn as well, 300 kills, 100 archives, fio, PostgreSQL (four hours)
	@scripts/need.sh fuse3 fsx pjdfstest fio postgresql git sqlite3
	HOLDFAST_FSX_OPERATIONS=1000000 HOLDFAST_FSX_SEEDS=5 HOLDFAST_MOUNT_STEPS=50000 HOLDFAST_MOUNT_KILLS=100 HOLDFAST_MOUNT_ROUNDS=300 \
		HOLDFAST_FSX_TURNS=200000 HOLDFAST_MOUNT_UNTARS=100 \
		HOLDFAST_FIO_MIB=512 HOLDFAST_PGBENCH_SCALE=10 HOLDFAST_PGBENCH_SECONDS=60 HOLDFAST_PGBENCH_ROUNDS=5 \
		$(tests) --test mount --test mount_first --test mount_net --test mount_programs --test mount_two -- --nocapture

mount-soak: build ## An hour of writing to a mount whose server dies and freezes; every file is compared, memory is watched
	@scripts/need.sh fuse3
	HOLDFAST_SOAK_SECONDS=3600 $(tests) --test mount_soak -- --nocapture

transfer-long: build ## Hold transfers to their full size: a million names, hundreds of power cuts, 50 kills of either end, an outage of 20 minutes (forty minutes)
	@scripts/need.sh nginx openssl sshd ssh-keygen unshare
	HOLDFAST_TRANSFER_NAMES=1000000 HOLDFAST_TRANSFER_SEEDS=300 HOLDFAST_TRANSFER_CUTS=320 HOLDFAST_TRANSFER_DRIVE_KILLS=50 \
	HOLDFAST_TRANSFER_SFTP_KILLS=50 HOLDFAST_TRANSFER_SFTP_SEEDS=100 HOLDFAST_OUTAGE_SECONDS=1200 HOLDFAST_TRANSFER_FAR_KILLS=20 \
		$(tests) --test transfer --test transfer_drive --test transfer_power --test transfer_web --test transfer_sftp --test transfer_ssh --test transfer_outage -- --nocapture

bench-dav: build ## Measure WebDAV beside other servers
	@scripts/bench-dav.sh

bench-sites: build ## Measure published sites beside nginx
	@scripts/bench-sites.sh

bench-web: build ## Measure the pages in Chromium: uploads beside curl, a folder of 100,000 files, memory of the tab
	@scripts/need.sh node chromium curl
	HOLDFAST_BIN=$$PWD/target/release/holdfast node web/e2e/bench.mjs

bench-http: build ## Measure web servers side by side, and the load generator beside wrk
	@scripts/bench-http.sh

bench-cluster: build ## Measure a cluster as report 004 did: hosts with shares of the processor, a slow link, 1 to 8 nodes (root, ten minutes)
	@scripts/bench-cluster.sh

bench-catalogue: build ## Measure what operations of the catalogue cost from ten thousand to ten million files, on SQLite and PostgreSQL (forty minutes)
	@scripts/bench-catalogue.sh

web/lighthouse/node_modules/.package-lock.json: web/lighthouse/package-lock.json
	@scripts/need.sh node
	npm ci --prefix web/lighthouse --no-audit --no-fund
	@touch $@

lighthouse: build web/lighthouse/node_modules/.package-lock.json ## Hold the file list to 95 points of Lighthouse (180 MB of tools the first time)
	@scripts/need.sh node chromium
	HOLDFAST_BIN=$$PWD/target/release/holdfast node web/e2e/lighthouse.mjs

bench-mount: build ## Measure making files on mounted spaces beside gocryptfs and the disk, report 003's tests among them (RIVALS names more)
	@scripts/bench-mount.sh

bench-wan: build ## Measure tools that fetch files over report 001's bad networks (root; hours, or BENCH_WAN=--short for two minutes)
	@scripts/need.sh curl aria2c rclone rsync sshd iperf3
	PATH=$$PATH:$(CURDIR)/target/bench-tools/bin target/release/holdfast bench wan --tool holdfast --tool holdfast-tcp --tool curl --tool curl@bbr --tool aria2 --tool rclone \
		--tool rsync --tool scp --tool iperf3-cubic --tool iperf3-bbr --output bench-results/wan $(BENCH_WAN)

bench-run: build ## Measure what confining a program costs it, as report 002 did, beside bubblewrap, sandlock and bindfs (long, or SHORT=1 for a minute or two)
	@scripts/bench-run.sh

clean: ## Remove what was built (not your drive in .holdfast)
	cargo clean
