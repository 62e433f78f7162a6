# SPDX-License-Identifier: Apache-2.0
# Shared by the end-to-end scripts: named checks, one line each ("ok NAME" or "FAIL NAME: why").
# The oracle is the same command run natively. CAISSON is the command under test.

set -u
: "${CAISSON:?set CAISSON to the caisson binary}"
T=$(mktemp -d "${TMPDIR:-/tmp}/caisson-e2e.XXXXXX")
trap 'rm -rf "$T"' EXIT
export LC_ALL=C

ok() { echo "ok $1"; }
fail() {
	echo "FAIL $1: $2"
	E2E_FAILED=1
}

# check NAME CONDITION...: the command must succeed.
check() {
	local name=$1
	shift
	if "$@" >"$T/check.out" 2>&1; then ok "$name"; else
		fail "$name" "$* gave $?: $(tail -n 3 "$T/check.out" | tr '\n' ' ')"
	fi
}

# box [options --] PROGRAM...: in the sandbox, without a terminal, with a time limit.
box() {
	"$CAISSON" run --no-tty --timeout "${BOX_TIMEOUT:-120}" "$@"
}

# same NAME PROGRAM...: stdout and exit status in the sandbox are those of the native run.
same() {
	local name=$1 want got
	shift
	"$@" >"$T/native.out" 2>"$T/native.err" </dev/null
	want=$?
	box ${BOX_OPTS:-} -- "$@" >"$T/box.out" 2>"$T/box.err" </dev/null
	got=$?
	if [ "$want" != "$got" ]; then
		fail "$name" "exit status $got, natively $want: $(tail -n 3 "$T/box.err" | tr '\n' ' ')"
	elif ! cmp -s "$T/native.out" "$T/box.out"; then
		fail "$name" "output differs: $(diff "$T/native.out" "$T/box.out" | head -n 6 | tr '\n' ' ')"
	else
		ok "$name"
	fi
}

# status NAME WANT COMMAND...: the exit status must be WANT.
status() {
	local name=$1 want=$2 got
	shift 2
	"$@" >"$T/status.out" 2>"$T/status.err" </dev/null
	got=$?
	if [ "$got" = "$want" ]; then ok "$name"; else
		fail "$name" "exit status $got, wanted $want: $(tail -n 3 "$T/status.err" | tr '\n' ' ')"
	fi
}

# says NAME WANT_STATUS TEXT COMMAND...: the status, and TEXT in the one line on stderr.
says() {
	local name=$1 want=$2 text=$3 got
	shift 3
	"$@" >"$T/says.out" 2>"$T/says.err" </dev/null
	got=$?
	if [ "$got" != "$want" ]; then
		fail "$name" "exit status $got, wanted $want: $(head -n 3 "$T/says.err" | tr '\n' ' ')"
	elif ! grep -qF -- "$text" "$T/says.err"; then
		fail "$name" "message lacks '$text': $(head -n 3 "$T/says.err" | tr '\n' ' ')"
	elif [ "$(wc -l <"$T/says.err")" != 1 ]; then
		fail "$name" "message is not one line: $(head -n 3 "$T/says.err" | tr '\n' ' ')"
	else
		ok "$name"
	fi
}

finish() { exit "${E2E_FAILED:-0}"; }
