# SPDX-License-Identifier: Apache-2.0
# What a start makes and costs, in figures that do not depend on the machine's speed.
# runs alone
. "$(dirname "$0")/../lib/e2e.sh"
HERE=$(cd "$(dirname "$0")/../.." && pwd)

is() { [ "$1" = "$2" ]; }
at_most() { [ "$1" -le "$2" ]; }

# ---- the phase timer ----
box --log "$T/log" -- /bin/true
for who in caisson gofer sentry; do
	check "phases of $who" grep -Eq "^$who I [0-9.]+ phases: .* [0-9]+ us$" "$T/log"
done
check "the program's own phase" grep -Eq "^sentry .*phases: .*filter \+[0-9]+ program \+[0-9]+" "$T/log"
check "and the end's" grep -Eq "^sentry .*phases: exit \+[0-9]+ stopped \+[0-9]+" "$T/log"
check "patched sites are counted" grep -Eq "systrap: [0-9]+ of [0-9]+ switches from patched sites, [0-9]+ sites patched" "$T/log"
status "a platform flag that is none" 125 "$CAISSON" run --platform-flags nopatch,nonsense -- /bin/true
box --log "$T/nopatch" --platform-flags nopatch,nostub -- /bin/true
check "nopatch patches nothing" sh -c "! grep -q 'from patched sites' '$T/nopatch'"

# ---- messages: running a program again asks the gofer nothing ----
cat >"$T/run.sh" <<'X'
i=0; while [ $i -lt $1 ]; do /bin/true; i=$((i+1)); done
X
sent() {
	strace -f -qq -e trace=sendmsg,sendmmsg,sendto -o "$T/calls" "$CAISSON" run --no-tty \
		--bind "$T/run.sh:/run.sh" -- /bin/sh /run.sh "$1" </dev/null
	grep -c '\(sendmsg\|sendmmsg\|sendto\)(' "$T/calls"
}
check "a cached program is run without a message" is "$(sent 3)" "$(sent 23)"

# ---- namespaces, memory and time of an idle sandbox ----
"$CAISSON" run --no-tty -- /bin/sleep 300 </dev/null &
top=$!
for _ in $(seq 100); do
	pids=$(cat "/proc/$top/task/$top/children")
	[ "$(echo "$pids" | wc -w)" = 2 ] && [ "$(cat /proc/$(pgrep -P "$top" caisson-sentry)/task/*/children | wc -w)" -ge 2 ] && break
	sleep 0.1
done
netns() { readlink "/proc/$(pgrep -P "$top" "$1")/ns/net"; }
if [ "$(id -u)" = 0 ]; then
	check "one network namespace for both" is "$(netns caisson-sentry)" "$(netns caisson-gofer)"
fi
check "and not the host's" sh -c "[ '$(netns caisson-sentry)' != '$(readlink /proc/self/ns/net)' ]"
check "the runtime is back in its own" is "$(readlink "/proc/$top/ns/net")" "$(readlink /proc/self/ns/net)"
kill "$top"
wait "$top"
# Two of them: the pages of our own binaries are shared by all sandboxes then.
python3 "$HERE/bench/idle.py" "$(dirname "$CAISSON")" --count 2 --seconds 3 >"$T/idle"
check "private memory of an idle sandbox is within 3 MiB" at_most "$(awk '$1 == "all" { print $3 }' "$T/idle")" 3072
check "an idle sandbox takes no CPU time" at_most "$(awk '/^CPU time/ { print $(NF-1) }' "$T/idle")" 20
finish
