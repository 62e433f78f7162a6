# SPDX-License-Identifier: Apache-2.0
# `make bench [PEERS='--peer "bwrap=bwrap … --"'] [REPS=5]`
REPS ?= 5
PEERS ?=
$(B)/bench/micro: bench/micro.c
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -Wall -Werror -static -pthread -o $@ $<
.PHONY: bench
bench: all $(B)/bench/micro
	python3 bench/run.py $(B) --reps $(REPS) $(PEERS)
