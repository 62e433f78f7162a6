# SPDX-License-Identifier: Apache-2.0
# runs alone
# What a hostile guest, or a hostile moment, must not do. The attacks are in tests/fuzz/; the oracle
# is always outside the guest: the host's files, its process table, fd listings, a syscall trace.
. "$(dirname "$0")/../lib/e2e.sh"

here=$(cd "$(dirname "$0")/.." && pwd)
mkdir "$T/bin"
for p in hostile_guest syscall_fuzz elf_fuzz; do
	check "$p compiles" ${CC:-gcc} -D_GNU_SOURCE -std=gnu11 -O1 -w -static -pthread -o "$T/bin/$p" "$here/fuzz/$p.c"
done
# The frozen lists of host calls are what the filters say.
for who in sentry gofer stub net; do
	sh "$here/lib/host_calls.sh" $who >"$T/$who.calls"
	check "host calls of the $who are the frozen ones" diff "$here/golden/${who}_calls.txt" "$T/$who.calls"
done
python3 "$here/e2e/hostile.py" "$CAISSON" "$T" "$here" || E2E_FAILED=1
finish
