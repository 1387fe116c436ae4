# A thin front over meson. `make help` lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
STAGE = $(patsubst %/,%,$(DESTDIR))
BUILD ?= build
ASAN_BUILD ?= build-asan
FUZZ_BUILD ?= build-fuzz
MINUTES ?= 1
FUZZ_SECONDS ?= $(shell expr $(MINUTES) \* 60)
FUZZ ?=
QUICK ?=
PYTHON ?= /usr/bin/python3
MESON ?= meson
QUIET_NINJA = ninja -C $(1) $(if $(V),-v,--quiet)
MESON_OPTIONS = --prefix=$(PREFIX) --libdir=lib

all: $(BUILD)/build.ninja ## build into build/ (the default)
	@$(call QUIET_NINJA,$(BUILD))

setup: $(BUILD)/.packages-build ## install missing packages for the build

check: $(BUILD)/.packages-check $(BUILD)/build.ninja $(if $(QUICK),,$(ASAN_BUILD)/build.ninja) ## run all tests (QUICK=1: two minutes of them); the last line is "N passed, M failed"
	@$(call QUIET_NINJA,$(BUILD))
	@$(PYTHON) tests/run --build $(BUILD) $(if $(QUICK),--quick,--asan-build $(ASAN_BUILD))

warnings: $(BUILD)/.packages-build $(BUILD)/.packages-check ## build with gcc and with clang; a warning is an error
	@for compiler in gcc clang; do \
		rm -rf build-warnings/$$compiler; CC=$$compiler $(MESON) setup --werror -Dtests=false build-warnings/$$compiler >/dev/null && \
		$(call QUIET_NINJA,build-warnings/$$compiler) && echo "$$compiler: no warnings" || exit 1; \
	done

torture: $(BUILD)/.packages-check $(BUILD)/.packages-torture $(BUILD)/.packages-deb $(BUILD)/speedscope $(BUILD)/build.ninja ## run the long tests: hours; DYNTRACE_TORTURE=0.1 for a tenth
	@$(call QUIET_NINJA,$(BUILD))
	@$(PYTHON) tests/run --build $(BUILD) --torture

fuzz: $(BUILD)/.packages-check $(FUZZ_BUILD)/build.ninja ## look for inputs that break a parser: MINUTES (1) for each of FUZZ (all)
	@$(call QUIET_NINJA,$(FUZZ_BUILD)) fuzzers
	@tests/fuzz/run_all $(FUZZ_BUILD) $(FUZZ_SECONDS) $(FUZZ)

mutants: $(BUILD)/.packages-check ## take rules out one by one: does a test notice?
	@$(PYTHON) tests/mutants/run

demo: $(BUILD)/.packages-demo all ## trace a redis server and look at the events
	@demo/run $(BUILD)

bench: $(BUILD)/.packages-bench $(BUILD)/build.ninja ## compare with other tracers
	@$(call QUIET_NINJA,$(BUILD))
	@bench/run $(BUILD)

install: $(BUILD)/build.ninja ## install below PREFIX (/usr/local), staged in DESTDIR
	@$(MESON) configure $(BUILD) -Dprefix=$(PREFIX) >/dev/null
	@$(call QUIET_NINJA,$(BUILD))
	@DESTDIR="$(STAGE)" $(MESON) install -C $(BUILD) --no-rebuild --quiet
	@while read -r file; do case $$file in /*) echo "$${file#"$(STAGE)"}" ;; esac; done <$(BUILD)/meson-logs/install-log.txt >$(BUILD)/installed.txt

uninstall: ## remove what `make install` installed
	@[ -e $(BUILD)/installed.txt ] || { echo "nothing was installed from here ('make install' keeps a list in $(BUILD))" >&2; exit 1; }
	@while read -r file; do [ -d "$(STAGE)$$file" ] || rm -f "$(STAGE)$$file" || exit 1; done <$(BUILD)/installed.txt
	@for folder in lib/dyntrace share/dyntrace share/doc/dyntrace/examples share/doc/dyntrace include/dyntrace; do \
		rmdir "$(STAGE)$(PREFIX)/$$folder" 2>/dev/null || true; \
	done

deb: $(BUILD)/.packages-deb ## build Debian packages into build/deb/
	@tools/make-deb $(BUILD)/deb

release: ## tag the version of meson.build as a release, if CHANGELOG.md and debian/changelog agree
	@tools/make-release

clean: ## remove the builds
	rm -rf $(BUILD) $(ASAN_BUILD) $(FUZZ_BUILD) build-mutants build-warnings

help:
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

# The app that judges `export --speedscope` in the long tests.
$(BUILD)/speedscope: | $(BUILD)/.packages-torture
	@rm -rf $@.new && mkdir -p $@.new && (cd $@.new && npm pack --silent speedscope@1.25.0 && tar xzf speedscope-*.tgz) >/dev/null && \
		mv $@.new $@ || echo "set-up: npm can't fetch speedscope: its test is skipped" >&2

# One stamp per group: packages are checked again only when the lists change. Then meson is configured again, since
# optional packages (musl, lttng-ust) may be there now.
$(BUILD)/.packages-%: .ci/install-packages
	@.ci/install-packages $*
	@mkdir -p $(BUILD) && touch $@
	@if [ -e $(BUILD)/build.ninja ]; then $(MESON) setup --reconfigure $(BUILD) >/dev/null; fi

$(BUILD)/.packages-demo $(BUILD)/.packages-check $(BUILD)/.packages-torture $(BUILD)/.packages-bench $(BUILD)/.packages-deb: $(BUILD)/.packages-build

$(BUILD)/build.ninja: | $(BUILD)/.packages-build
	@$(MESON) setup $(MESON_OPTIONS) $(BUILD) >/dev/null || { $(MESON) setup $(MESON_OPTIONS) $(BUILD); exit 1; }

$(ASAN_BUILD)/build.ninja: | $(BUILD)/.packages-build $(BUILD)/.packages-check
	@$(MESON) setup $(MESON_OPTIONS) -Doptimization=g -Ddebug=false -Dc_args=-g1 -Db_sanitize=address,undefined -Db_lundef=false $(ASAN_BUILD) >/dev/null

$(FUZZ_BUILD)/build.ninja: | $(BUILD)/.packages-build $(BUILD)/.packages-check
	@CC=clang $(MESON) setup $(MESON_OPTIONS) -Dfuzzers=true $(FUZZ_BUILD) >/dev/null

.NOTPARALLEL:
.PHONY: all setup check warnings torture mutants fuzz demo bench install uninstall deb release clean help
