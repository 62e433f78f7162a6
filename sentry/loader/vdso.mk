# SPDX-License-Identifier: Apache-2.0
# Builds the vDSO, a freestanding shared object for guests, and embeds it in sentry.a by VDSO_OBJ.

VDSO_SRC := sentry/loader/vdso/vdso_image.c
VDSO_DIR := $(B)/sentry/loader/vdso
VDSO_OBJ := $(VDSO_DIR)/vdso_blob.S.o
VDSO_CFLAGS := -std=gnu11 -Wall -Wextra -Werror -O2 -ffreestanding -fPIC -fno-stack-protector \
	-fcf-protection=none -fno-builtin -fno-jump-tables -fvisibility=hidden -mno-sse \
	-fasynchronous-unwind-tables -D_GNU_SOURCE -I.

$(VDSO_DIR)/vdso.so: $(VDSO_SRC) sentry/loader/vdso/vvar.h sentry/loader/vdso/vdso.lds
	@mkdir -p $(@D)
	@$(CC) $(VDSO_CFLAGS) -c $< -o $(VDSO_DIR)/vdso_image.o
	@ld -shared -nostdlib -soname linux-vdso.so.1 -Bsymbolic --hash-style=both --eh-frame-hdr \
		-z noexecstack -z max-page-size=4096 --build-id=none --orphan-handling=warn \
		-T sentry/loader/vdso/vdso.lds -o $@ $(VDSO_DIR)/vdso_image.o
	@strip --strip-unneeded $@
$(VDSO_OBJ): sentry/loader/vdso/vdso_blob.S $(VDSO_DIR)/vdso.so
	@echo "  VDSO $(VDSO_DIR)/vdso.so"
	@$(CC) -DVDSO_IMAGE='"$(VDSO_DIR)/vdso.so"' -c $< -o $@
