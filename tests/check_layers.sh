# SPDX-License-Identifier: Apache-2.0
# Who may include whom: each row is a folder and the folders whose headers it may name. A header
# outside the row, or a syscall instruction outside the places that may have one, is an error.
fail=0
layer() {
	dir=$1
	shift
	allowed=$(printf '%s|' "$@")
	bad=$(grep -rnE '^#include "' --include='*.c' --include='*.h' --include='*.S' $dir 2>/dev/null |
		grep -vE "#include \"(${allowed%|})")
	if [ -n "$bad" ]; then
		echo "layering: $dir may not include:"
		echo "$bad"
		fail=1
	fi
}
layer platform/base platform/base/
layer platform/abi platform/base/ platform/abi/
layer platform/host platform/base/ platform/host/
layer platform/systrap platform/
layer gofer platform/base/ platform/abi/ platform/host/filter.h gofer/
layer vfs platform/base/ platform/abi/ platform/host/ gofer/proto/ vfs/
layer netstack platform/base/ netstack/ platform/host/
layer sentry platform/ vfs/ netstack/ sentry/
layer netstack/egress platform/base/ netstack/addr.h netstack/egress/
layer runtime platform/base/ netstack/egress/ runtime/
bad=$(grep -rnE 'asm.*"[^"]*\b(syscall|sysenter)\b' --include='*.c' --include='*.h' --include='*.S' vfs gofer netstack runtime sentry 2>/dev/null |
	grep -v sentry/loader/vdso)
if [ -n "$bad" ]; then
	echo "a syscall instruction outside platform/:"
	echo "$bad"
	fail=1
fi
[ "$fail" = 0 ] && echo "ok layers"
exit $fail
