# SPDX-License-Identifier: Apache-2.0
# Caisson's one Makefile. `make run` and `make check` do everything on a fresh Debian machine.
#
#   make            build into build/$(VARIANT)
#   make run        install dependencies, build, run a real program in the sandbox
#   make check      install dependencies, build, run all tests; last line "N passed, N failed"
#   make bench | fuzz | check-layers | format | install PREFIX=/usr/local
#   make MODULE.a   (platform.a vfs.a gofer.a sentry.a …) build one module's archive alone
#
# VARIANT is release (default), debug, asan or tsan.

VARIANT ?= release
B := build/$(VARIANT)
CC ?= gcc
PREFIX ?= /usr/local
VERSION := 0.1.0

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
	-Wpointer-arith -Wwrite-strings -Wundef -Wno-unused-parameter
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection \
	-ftrivial-auto-var-init=zero -fno-strict-aliasing
CPPFLAGS := -I. -D_GNU_SOURCE -DCAISSON_VERSION='"$(VERSION)"'
CFLAGS_release := -O2 -g1 -D_FORTIFY_SOURCE=3 $(HARDEN) -fPIE
CFLAGS_debug := -O1 -g -DCAISSON_LOCK_DEBUG $(HARDEN) -fPIE
CFLAGS_asan := -O1 -g -DCAISSON_LOCK_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined -fPIE
CFLAGS_tsan := -O1 -g -fsanitize=thread -fPIE
LDFLAGS_release := -static-pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,pack-relative-relocs
LDFLAGS_debug := -pie
LDFLAGS_asan := -pie -fsanitize=address,undefined
LDFLAGS_tsan := -pie -fsanitize=thread
CFLAGS := -std=gnu11 $(WARN) $(CFLAGS_$(VARIANT)) -pthread
LDFLAGS := $(LDFLAGS_$(VARIANT)) -pthread

# ---- modules: each is an archive of all .c files below its folders ----
# The stub is freestanding code for guest processes; platform/systrap/stub.mk builds it.
src = $(sort $(foreach d,$(1),$(wildcard $(d)/*.c $(d)/*/*.c $(d)/*/*/*.c)))
STUB_SRC := $(wildcard platform/systrap/stub*.c)
base_SRC := $(call src,platform/base platform/abi)
platform_SRC := $(filter-out $(STUB_SRC) $(base_SRC),$(call src,platform))
proto_SRC := $(call src,gofer/proto)
gofer_SRC := $(filter-out $(proto_SRC),$(call src,gofer))
vfs_SRC := $(call src,vfs)
# The egress policy alone, for the runtime (and whoever judges again): knows no stack.
egress_SRC := $(call src,netstack/egress)
# caisson-net, which is linked with the stack and the policy.
nat_SRC := $(call src,netstack/nat)
netstack_SRC := $(filter-out $(egress_SRC) $(nat_SRC),$(call src,netstack))
# The vDSO is code for guests; sentry/loader/vdso.mk builds it.
sentry_SRC := $(filter-out sentry/loader/vdso/%,$(call src,sentry))
runtime_SRC := $(call src,runtime)
MODULES := base platform proto gofer vfs egress netstack nat sentry runtime

obj = $(patsubst %,$(B)/%.o,$(1))
define module_rule
$(1)_OBJ := $$(call obj,$$($(1)_SRC))
$(B)/$(1).a: $$($(1)_OBJ) $$($(1)_EXTRA)
	@rm -f $$@; ar rcs $$@ $$^
.PHONY: $(1).a
$(1).a: $(B)/$(1).a
endef

all: $(B)/caisson $(B)/caisson-sentry $(B)/caisson-gofer $(B)/caisson-net

-include platform/systrap/stub.mk
platform_EXTRA += $(STUB_OBJ)
-include sentry/loader/vdso.mk
sentry_EXTRA += $(VDSO_OBJ)
$(foreach m,$(MODULES),$(eval $(call module_rule,$(m))))

$(B)/%.c.o: %.c
	@mkdir -p $(@D)
	@echo "  CC $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

SENTRY_ARCHIVES := $(B)/sentry.a $(B)/vfs.a $(B)/netstack.a $(B)/egress.a $(B)/proto.a $(B)/platform.a $(B)/base.a
SENTRY_LIBS := -lseccomp -lcapstone -luring -lxxhash
# --start-group: weak syscall handlers must find their strong definitions in any archive order.
$(B)/caisson-sentry: $(SENTRY_ARCHIVES)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ -Wl,--whole-archive $(B)/sentry.a $(B)/vfs.a -Wl,--no-whole-archive \
		-Wl,--start-group $(filter-out $(B)/sentry.a $(B)/vfs.a,$^) -Wl,--end-group $(SENTRY_LIBS)
$(B)/caisson-gofer: $(B)/gofer.a $(B)/proto.a $(B)/platform.a $(B)/base.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ -Wl,--start-group $^ -Wl,--end-group -lseccomp -lxxhash
$(B)/caisson-net: $(B)/nat.a $(B)/netstack.a $(B)/egress.a $(B)/platform.a $(B)/base.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ -Wl,--start-group $^ -Wl,--end-group -lseccomp -lxxhash
$(B)/caisson: $(B)/runtime.a $(B)/egress.a $(B)/base.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ -Wl,--start-group $^ -Wl,--end-group -ljson-c -lseccomp

-include tests/tests.mk
-include bench/bench.mk

# ---- for people ----
# Debian packages for building, running and testing; installed only when one is missing.
DEBS := gcc make pkg-config libseccomp-dev liburing-dev libxxhash-dev libcapstone-dev check \
	libsubunit-dev libjson-c-dev python3
DEBS_CHECK := $(DEBS) bash coreutils perl git rsync xz-utils tar busybox-static debootstrap python3-venv \
	podman conmon catatonit containerd runc strace iproute2 curl procps \
	wget openssl nginx-light wrk redis-server redis-tools postgresql iperf3 openssh-client openssh-server \
	iputils-ping jq dnsutils dnsmasq-base ethtool containernetworking-plugins python3-grpcio nodejs golang-go python3-requests \
	libpython3.11-testsuite
deps:
	@sh tests/lib/install_debs.sh $(if $(filter check,$(MAKECMDGOALS)),$(DEBS_CHECK),$(DEBS))
run: deps
	@$(MAKE) -s -j2 all
	@$(B)/caisson run --no-tty --bind $(CURDIR)/docs/examples:/examples:ro -- python3 /examples/look_around.py
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/caisson
	install -m 755 $(B)/caisson $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(B)/caisson-sentry $(B)/caisson-gofer $(B)/caisson-net $(DESTDIR)$(PREFIX)/libexec/caisson/

.PHONY: all clean format check-layers install deps run
clean:
	rm -rf build
format:
	clang-format -i $$(git ls-files '*.c' '*.h')
check-layers:
	sh tests/check_layers.sh

-include $(foreach m,$(MODULES),$(patsubst %.o,%.d,$(call obj,$($(m)_SRC))))
