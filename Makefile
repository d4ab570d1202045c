# lsmam: LSM tree table and index access methods for PostgreSQL.
#
#   make && make install    build against $(PG_CONFIG) and install (release); prefix=DIR: elsewhere
#   make installcheck       pg_regress against a running server that preloads lsmam
#   make deps               Debian packages that building and the demo need, by apt-get; says how much
#   make check              the promises, on private servers, in minutes; installs the packages of its tests
#   make check PG=17        regression and isolation tests on another version, in a chroot that is
#                           made; 16 (from PyPI and npm), 17, 18, 19
#   make check-quick        documents, layers, unit and regression tests: a minute and a half
#   make check-all          all tests on 15 to 19: hours, with a lab of packages.  PART=2/6: one of so many parts
#   make lint               layers and documents
#   make check-upgrade      pg_upgrade from 15 to 17 to 18, in a chroot
#   make check-mutants      deliberate faults, in copies of the tree: the tests named in them fail
#   make check-one T=...    one test: regress/NAME, isolation/NAME, tap/NNN, unit/NAME
#   make check-pg           PostgreSQL's own test suites on lsm; fetches its source package;
#                           PG=17 or 18: on that version, in its chroot
#   make check-packages     Debian packages of all versions, or PG=17: built and used, in chroots
#   make check-unit         filter and sst libraries alone, also under ASan/UBSan
#   make check-layers       the rooms' rules: includes, calls, circles
#   make check-docs         links, names and line lengths in the documents
#   make demo               lsm against heap on a throwaway server, in a table; calls make deps
#   make debug              build for a debugger, on a private server of its own
#   make format             clang-format on lines changed since HEAD
#
# LSM_TESTING=1 compiles crash points in, ASSERT=1 our assertions, DEBUG=1
# without optimisation, V=1 shows all commands.  VERSION_BITS=2 leaves few
# numbers to versions of a row.  Flavours
# are built in directories of their own (build/<flavour>) and installed into a
# private copy of the PostgreSQL tree, so that they never mix.

PG_CONFIG ?= pg_config
LSM_VERSION := 1.1

top := $(patsubst %/,%,$(dir $(abspath $(firstword $(MAKEFILE_LIST)))))

# ---- what needs no PostgreSQL at hand ----

CHECK_GOALS := check check-quick check-all lint check-unit check-unit-plain check-unit-sanitize check-layers check-docs \
	check-pg check-one check-mutants check-packages check-upgrade debug format deps deps-build deps-check deps-all demo

.PHONY: $(CHECK_GOALS)

ifneq ($(filter $(CHECK_GOALS),$(MAKECMDGOALS)),)

deps:
	$(top)/src/test/install-deps.sh demo

deps-build deps-check deps-all:
	$(top)/src/test/install-deps.sh $(@:deps-%=%)

ifneq ($(filter-out 15,$(PG)),)
check:
	$(top)/src/test/install-deps.sh none debootstrap
	$(top)/src/test/check-chroot.sh $(PG)
else
# Random tests do the same each time; check-all draws a seed.
check: deps-check
	LSM_SEED=$${LSM_SEED:-20261124} LSM_TIER=check $(top)/src/test/check.sh
endif

check-quick: deps-check
	LSM_TIER=quick LSM_CHECK="layers docs unit-plain regress" $(top)/src/test/check.sh

check-all:
	$(top)/src/test/install-deps.sh all debootstrap patchelf chromium
	LSM_PART=$(PART) $(top)/src/test/check-versions.sh

lint: check-layers check-docs

check-upgrade:
	$(top)/src/test/install-deps.sh check debootstrap patchelf
	$(top)/src/test/check-upgrade.sh

ifneq ($(filter-out 15,$(PG)),)
check-pg:
	$(top)/src/test/install-deps.sh none debootstrap
	$(top)/src/test/pg/in-chroot.sh $(PG)
else
check-pg:
	$(top)/src/test/install-deps.sh none dpkg-dev bzip2 xz-utils python3 zlib1g-dev
	$(top)/src/test/pg/check-pg.sh
endif

check-packages:
	$(top)/src/test/install-deps.sh none debootstrap iproute2
	$(top)/src/test/packages.sh $(filter-out all,$(PG))

demo: deps
	$(top)/bench/demo.sh

check-layers:
	$(top)/src/test/check-layers.sh

check-docs:
	$(top)/src/test/check-docs.pl

check-one: deps-check
	$(top)/src/test/check-one.sh "$(T)"

check-mutants: deps-check
	$(top)/src/test/check-mutants.sh

debug: deps-build
	$(top)/src/test/debug.sh

format:
	$(top)/src/test/install-deps.sh none clang-format git
	$(top)/src/test/format.sh $(FILES)

check-unit: check-unit-plain check-unit-sanitize

check-unit-plain:
	$(top)/src/test/check-unit.sh plain

check-unit-sanitize:
	$(top)/src/test/check-unit.sh sanitize

else

# ---- the extension, by PGXS ----

MODULE_big = lsmam
EXTENSION = lsmam
# Version 1.0 and what came since: CREATE EXTENSION runs them all, so that an upgraded
# database and a new one cannot differ.  Scripts of released versions never change.
DATA_built = src/sql/lsmam--1.0.sql
DATA = $(patsubst $(top)/%,%,$(wildcard $(top)/src/sql/lsmam--*--*.sql))
SCRIPTS = src/bin/lsm_pg_upgrade
PGFILEDESC = "lsmam - LSM tree access methods"

# Directories of sources; src/README.md says what each is for.
lsm_rooms := filter sst $(addprefix tree/,memtable control disk elastic read compaction write) tree \
	am table index ddl executor sqlfunc

lsm_sources := $(sort $(wildcard $(top)/src/*.c $(foreach room,$(lsm_rooms),$(top)/src/$(room)/*.c)))
lsm_cxx_sources := $(sort $(wildcard $(top)/src/sst/*.cc))
OBJS = $(patsubst $(top)/%.c,%.o,$(lsm_sources)) \
	$(patsubst $(top)/%.cc,%.o,$(lsm_cxx_sources))

# Our functions call each other directly, and may be inlined: nobody replaces them.
SHLIB_LINK += -Wl,-Bsymbolic-functions -lrocksdb -lxxhash -llz4 -lzstd -lstdc++
EXTRA_CLEAN = src/sqlfunc/report_page.h $(addsuffix /.deps,src $(addprefix src/,$(lsm_rooms))) build

REGRESS = $(shell sed -n 's/^test://p' $(top)/src/test/regress_schedule)
REGRESS_OPTS = --inputdir=$(top) --load-extension=lsmam

# No bitcode: the C++ of src/sst has none, and inlining an AM gains nothing.
override with_llvm := no

# Debian's PGXS has directories that no prefix changes.
ifeq ($(origin prefix),command line)
override bindir := $(prefix)/bin
override datadir := $(prefix)/share/postgresql
override pkglibdir := $(prefix)/lib/postgresql
endif

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# A build elsewhere looks here for sources, and not for the objects of a build here.
ifneq ($(abspath $(CURDIR)),$(abspath $(top)))
srcdir := $(srcdir)
VPATH :=
vpath %.c $(top)
vpath %.cc $(top)
vpath %.control $(top)
endif

# A line for each file that is made; V=1: the commands.
ifndef V
.SILENT: $(OBJS) $(MODULE_big).so $(DATA_built) src/sqlfunc/report_page.h
lsm_says = @echo '  $1 $(2:$(top)/%=%)'
# of the rule that links, which is PGXS's
COMPILER = $(info $()  link $@)$(CC) $(CFLAGS)
endif

# PGXS looks for SCRIPTS by their paths here.
.PHONY: uninstall-scripts
uninstall: uninstall-scripts
uninstall-scripts:
	rm -f $(addprefix '$(DESTDIR)$(bindir)'/,$(notdir $(SCRIPTS)))

LSM_DEFS := -DLSM_VERSION='"$(LSM_VERSION)"'
ifdef LSM_TESTING
LSM_DEFS += -DLSM_TESTING
endif
ifdef ASSERT
LSM_DEFS += -DUSE_ASSERT_CHECKING
endif
ifdef VERSION_BITS
LSM_DEFS += -DLSM_VERSION_BITS=$(VERSION_BITS)
endif

ifdef DEBUG
LSM_DEFS += -O0 -g3 -fno-omit-frame-pointer -U_FORTIFY_SOURCE
endif

# In a shared library of a server that knows nothing of it.  What it finds is in the server's log.
ifdef UBSAN
LSM_DEFS += -fsanitize=undefined -fno-sanitize=vptr
SHLIB_LINK += -lubsan
endif

override CFLAGS_SL += -fno-semantic-interposition

LSM_WARN := -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers
LSM_DEPEND = -MMD -MP -MF $(@D)/.deps/$(*F).d

# The headers of 19 are for the dialect that its compiler takes by default.
LSM_PG_STD := $(if $(filter 15 16 17 18,$(MAJORVERSION)),-std=gnu11)

# Each room sees what it may see: filter and sst have no PostgreSQL on their
# include path.  The server's headers are system headers, to survive -Wextra.
LSM_PG_C = $(CC) $(CFLAGS) $(LSM_PG_STD) $(LSM_WARN) $(CFLAGS_SL) -D_GNU_SOURCE $(LSM_DEFS) \
	-I$(top)/src -isystem $(includedir_server)
LSM_PLAIN_C = $(CC) $(filter-out -Wdeclaration-after-statement,$(CFLAGS)) -std=gnu11 $(LSM_WARN) \
	$(CFLAGS_SL) -D_GNU_SOURCE $(LSM_DEFS) -I$(top)/src
# (what the server's compiler has taken, ours may not)
LSM_CXX = $(CXX) $(filter-out -fexcess-precision=standard,$(CXXFLAGS)) -std=c++17 $(LSM_WARN) -Wno-suggest-attribute=format $(CFLAGS_SL) -D_GNU_SOURCE $(LSM_DEFS) \
	-I$(top)/src

src/filter/%.o: src/filter/%.c
	$(call lsm_says,compile,$<)
	@mkdir -p $(@D)/.deps
	$(LSM_PLAIN_C) $(LSM_DEPEND) -c -o $@ $<

src/sst/%.o: src/sst/%.cc
	$(call lsm_says,compile,$<)
	@mkdir -p $(@D)/.deps
	$(LSM_CXX) $(LSM_DEPEND) -c -o $@ $<

src/%.o: src/%.c
	$(call lsm_says,compile,$<)
	@mkdir -p $(@D)/.deps
	$(LSM_PG_C) $(LSM_DEPEND) -c -o $@ $<

-include $(wildcard $(addsuffix /.deps/*.d,src $(addprefix src/,$(lsm_rooms))))

# The page of lsm_report(), as a string of C
src/sqlfunc/report_page.h: $(top)/src/sqlfunc/report.html
	$(call lsm_says,make,$@)
	@mkdir -p $(@D)
	sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
src/sqlfunc/report.o: src/sqlfunc/report_page.h
src/sqlfunc/report.o: LSM_DEFS += -Isrc

# Version 1.0 is the core objects plus the operator classes.
src/sql/lsmam--1.0.sql: $(top)/src/sql/lsmam_core.sql $(top)/src/sql/lsmam_opclasses.sql
	$(call lsm_says,make,$@)
	@mkdir -p $(@D)
	cat $^ > $@

endif
