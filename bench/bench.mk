# SPDX-License-Identifier: Apache-2.0
# `make bench [PEERS='--peer runc --peer "bwrap=bwrap … --"'] [REPS=5]`; `make bench-idle [COUNT=20]`
REPS ?= 5
PEERS ?=
BENCH_BIN := $(B)/bench/micro $(B)/bench/true
$(BENCH_BIN): $(B)/bench/%: bench/%.c
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -Wall -Werror -static -pthread -o $@ $<
.PHONY: bench
bench: all $(BENCH_BIN)
	python3 bench/run.py $(B) --reps $(REPS) $(PEERS)
.PHONY: bench-idle
COUNT ?= 20
bench-idle: all
	python3 bench/idle.py $(B) --count $(COUNT)
