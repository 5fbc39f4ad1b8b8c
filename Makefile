# Converb: `make demo` shows it, `make test` tests it, `make help` lists the rest.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release
LIBRARY := libconverb_verbs.so
# The names that programs ask for. All are links to the one library: copies would be several
# engines in one process.
LINKS := libibverbs.so.1 libibverbs.so librdmacm.so.1 librdmacm.so
# Where bash, zsh and fish look for what completes a command, in this order.
COMPLETIONS := bash-completion/completions/converb zsh/site-functions/_converb \
	fish/vendor_completions.d/converb.fish

.DEFAULT_GOAL := build
.PHONY: all build demo test test-all interop bench install uninstall clean help

all: build

build: ## build everything in release mode, with the folder of links that `converb run` uses
	$(CARGO) build --release --locked --workspace
	@mkdir -p $(RELEASE)/converb-lib
	@for link in $(LINKS); do ln -sf ../$(LIBRARY) $(RELEASE)/converb-lib/$$link; done

demo: ## install perftest, build, and run ib_write_bw over loopback
	@scripts/install-packages demo
	@$(MAKE) --no-print-directory build
	@scripts/demo $(RELEASE)/converb

test: ## install what the tests use and run them all (not the virtual machine)
	@scripts/install-packages test
	@scripts/run-tests test

test-all: ## `make test` and `make interop`, with the long versions of tests that have one
	@CONVERB_TEST_ALL=1 $(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory interop

interop: ## run against Linux's rdma_rxe in a virtual machine (needs root)
	@scripts/install-packages interop
	@scripts/run-tests interop

bench: ## measure ratios against plain sockets in the same run
	@scripts/install-packages bench
	@$(MAKE) --no-print-directory build
	@bench/run

install: build ## install under PREFIX (default /usr/local), DESTDIR for packagers
	install -D -m 755 $(RELEASE)/converb $(DESTDIR)$(PREFIX)/bin/converb
	install -D -m 755 $(RELEASE)/$(LIBRARY) $(DESTDIR)$(PREFIX)/lib/$(LIBRARY)
	install -d $(DESTDIR)$(PREFIX)/lib/converb
	for link in $(LINKS); do ln -sf ../$(LIBRARY) $(DESTDIR)$(PREFIX)/lib/converb/$$link; done
	install -d $(dir $(addprefix $(DESTDIR)$(PREFIX)/share/,$(COMPLETIONS)))
	$(RELEASE)/converb completions bash >$(DESTDIR)$(PREFIX)/share/$(word 1,$(COMPLETIONS))
	$(RELEASE)/converb completions zsh >$(DESTDIR)$(PREFIX)/share/$(word 2,$(COMPLETIONS))
	$(RELEASE)/converb completions fish >$(DESTDIR)$(PREFIX)/share/$(word 3,$(COMPLETIONS))

uninstall: ## remove what `make install` put under PREFIX
	rm -f $(DESTDIR)$(PREFIX)/bin/converb $(DESTDIR)$(PREFIX)/lib/$(LIBRARY)
	for link in $(LINKS); do rm -f $(DESTDIR)$(PREFIX)/lib/converb/$$link; done
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/,$(COMPLETIONS))
	rmdir $(DESTDIR)$(PREFIX)/lib/converb

clean: ## remove everything that was built
	$(CARGO) clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18
