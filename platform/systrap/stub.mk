# SPDX-License-Identifier: Apache-2.0
# Builds the freestanding stub into a flat image and embeds it in platform.a through STUB_OBJ.

STUB_DIR := $(B)/platform/systrap
STUB_OBJ := $(STUB_DIR)/stub_blob.S.o
STUB_CFLAGS := -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -O2 -ffreestanding -fpie \
	-mgeneral-regs-only -mfsgsbase -fno-stack-protector -fcf-protection=none -fno-builtin \
	-fno-asynchronous-unwind-tables -fno-jump-tables -fvisibility=hidden -mno-red-zone -I.

$(STUB_DIR)/stub.c.stub.o: platform/systrap/stub.c platform/systrap/sysmsg.h
	@mkdir -p $(@D)
	@$(CC) $(STUB_CFLAGS) -c $< -o $@
$(STUB_DIR)/stub_entry.S.stub.o: platform/systrap/stub_entry.S platform/systrap/sysmsg.h
	@mkdir -p $(@D)
	@$(CC) -I. -c $< -o $@
$(STUB_DIR)/stub.elf: $(STUB_DIR)/stub_entry.S.stub.o $(STUB_DIR)/stub.c.stub.o platform/systrap/stub.lds
	@ld -nostdlib -static -z noexecstack -T platform/systrap/stub.lds -o $@ $(filter %.o,$^)
$(STUB_DIR)/stub.bin: $(STUB_DIR)/stub.elf
	@objcopy -O binary $< $@
$(STUB_OBJ): platform/systrap/stub_blob.S $(STUB_DIR)/stub.bin
	@echo "  STUB $(STUB_DIR)/stub.bin"
	@$(CC) -DSTUB_IMAGE='"$(STUB_DIR)/stub.bin"' -c $< -o $@
