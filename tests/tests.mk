# SPDX-License-Identifier: Apache-2.0
# How tests are built. Unit tests: one program per tests/unit/<module>/test_*.c, linked with that
# module and what it may include. Guest tests: one static and one dynamic program per file.

UNIT_LIBS := -lcheck -lsubunit -lm -lrt -lseccomp -lcapstone -luring -lxxhash -lpthread
UNIT_DEPS_base := base
UNIT_DEPS_platform := platform base
UNIT_DEPS_gofer := gofer proto platform base
UNIT_DEPS_vfs := vfs proto platform base
UNIT_DEPS_egress := egress base
UNIT_DEPS_netstack := netstack egress platform base
UNIT_DEPS_nat := nat netstack egress platform base
UNIT_DEPS_sentry := sentry vfs netstack egress proto platform base
UNIT_DEPS_runtime := runtime egress base
UNIT_MODULES := base platform gofer vfs egress netstack nat sentry runtime

define unit_rule
unit_$(1)_BIN := $$(patsubst tests/unit/%.c,$(B)/tests/unit/%,$$(wildcard tests/unit/$(1)/test_*.c))
$$(unit_$(1)_BIN): $(B)/tests/unit/%: tests/unit/%.c $$(foreach d,$$(UNIT_DEPS_$(1)),$(B)/$$(d).a)
	@mkdir -p $$(@D)
	@echo "  UNIT $$<"
	@$$(CC) $$(CPPFLAGS) $$(CFLAGS) -Wno-missing-prototypes $$(filter-out -static-pie,$$(LDFLAGS)) -pie -o $$@ $$< \
		-Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(UNIT_LIBS) $(if $(filter runtime,$(1)),-ljson-c)
UNIT_BIN += $$(unit_$(1)_BIN)
.PHONY: unit-$(1)
unit-$(1): $$(unit_$(1)_BIN)
	@for t in $$^; do echo "== $$$$t"; $$$$t || exit 1; done
endef
$(foreach m,$(UNIT_MODULES),$(eval $(call unit_rule,$(m))))

GUEST_SRC := $(wildcard tests/guest/*.c)
GUEST_BIN := $(patsubst tests/guest/%.c,$(B)/tests/guest/%,$(GUEST_SRC))
$(GUEST_BIN): $(B)/tests/guest/%: tests/guest/%.c tests/lib/guest.h
	@mkdir -p $(@D)
	@echo "  GUEST $<"
	@$(CC) -I. -D_GNU_SOURCE -std=gnu11 -O1 -g -Wall -Werror -Wno-unused-result -Wno-stringop-overflow -Wno-stringop-overread -Wno-nonnull -Wno-array-bounds -static -pthread -o $@ $< -lrt -lm

.PHONY: unit guest-tests
unit: $(addprefix unit-,$(UNIT_MODULES))
guest-tests: $(GUEST_BIN)

# The stages of `make check`. The ASan variant runs the unit tests and is the sandbox of the
# guest tests once more (guest programs are plain: a stub process can not carry shadow memory); the
# TSan variant runs the unit tests.
.PHONY: check check-tsan check-unit
test-programs: all $(UNIT_BIN) $(GUEST_BIN)
check-unit: $(UNIT_BIN)
	python3 tests/run.py $(B) --suite unit
# Where threads meet: the unit tests under ThreadSanitizer, which `check` runs as well.
check-tsan:
	$(MAKE) -s -j2 VARIANT=tsan unit-programs
	python3 tests/run.py build/tsan --suite unit
check: deps
	$(MAKE) -s -j2 test-programs
	$(MAKE) -s -j2 VARIANT=asan all unit-programs
	$(MAKE) -s -j2 VARIANT=tsan unit-programs
	sh tests/check_layers.sh
	python3 tests/run.py $(B) --asan build/asan --tsan build/tsan --modes all
unit-programs: $(UNIT_BIN) $(B)/caisson-gofer
.PHONY: test-programs unit-programs

# `make fuzz [ROUNDS=N]`: a harness per trust boundary, under AddressSanitizer and UBSan. Guest-side
# fuzzers (syscall_fuzz, elf_fuzz) are run by tests/e2e/hostile.sh.
ROUNDS ?= 20000
FUZZ_DEPS_config := runtime egress base
FUZZ_DEPS_egress := egress base
FUZZ_DEPS_nat := nat netstack egress platform base
FUZZ_DEPS_frame := netstack egress platform base
FUZZ_DEPS_gofer := gofer proto platform base
FUZZ_DEPS_patch := platform base
define fuzz_rule
$(B)/tests/fuzz/$(1)_fuzz: tests/fuzz/$(1)_fuzz.c $$(foreach d,$$(FUZZ_DEPS_$(1)),$(B)/$$(d).a)
	@mkdir -p $$(@D)
	@echo "  FUZZ $$<"
	@$$(CC) $$(CPPFLAGS) $$(CFLAGS) -Wno-missing-prototypes $$(filter-out -static-pie,$$(LDFLAGS)) -pie -o $$@ $$< \
		-Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(UNIT_LIBS) -ljson-c
FUZZ_BIN += $(B)/tests/fuzz/$(1)_fuzz
endef
$(foreach f,config egress frame gofer nat patch,$(eval $(call fuzz_rule,$(f))))
.PHONY: fuzz fuzz-programs
fuzz-programs: $(FUZZ_BIN)
fuzz: deps
	$(MAKE) -s VARIANT=asan fuzz-programs
	@for f in config egress frame gofer nat patch; do echo "== $$f"; build/asan/tests/fuzz/$${f}_fuzz $(ROUNDS) || exit 1; done
