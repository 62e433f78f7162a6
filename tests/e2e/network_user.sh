# SPDX-License-Identifier: Apache-2.0
# runs alone
# --network user: two network namespaces, one for the host side and one for "the internet" with
# servers of every kind; sandboxes run in the first.
. "$(dirname "$0")/../lib/e2e.sh"
here=$(cd "$(dirname "$0")" && pwd)

says "a bad --publish" 125 "is not of the form" "$CAISSON" run --network user --publish 80 -- true
says "--publish without a network" 125 "needs --network user" "$CAISSON" run --publish 1:1 -- true
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! ip netns list >/dev/null 2>&1; then
	echo "skip user networking between namespaces: need root and ip"
	finish
fi

H=caisson-h-$$ I=caisson-i-$$
cleanup() {
	for p in $PIDS; do kill "$p" 2>/dev/null; done
	ip netns del $H 2>/dev/null
	ip netns del $I 2>/dev/null
	rm -rf "/etc/netns/$H" "$T"
}
PIDS=
trap cleanup EXIT
if ! { ip netns add $H && ip netns add $I && ip -n $H link add eth0 type veth peer name eth0 netns $I; }; then
	echo "skip user networking between namespaces: no veth here"
	finish
fi
for side in "$H 1" "$I 2"; do
	set -- $side
	ip -n $1 link set lo up
	ip -n $1 addr add 10.77.0.$2/24 dev eth0
	ip -n $1 -6 addr add fd77::$2/64 dev eth0 nodad
	ip -n $1 link set eth0 up
done
ip -n $H addr add 10.77.0.9/24 dev eth0 # a second address of the host
ip -n $H route add unreachable 198.51.100.0/24
ip -n $H route add 169.254.0.0/16 dev eth0
ip -n $I addr add 169.254.169.254/16 dev eth0
ip netns exec $H sysctl -qw net.ipv4.ping_group_range="0 2147483647"
mkdir -p "/etc/netns/$H"
echo "nameserver 10.77.0.2" >"/etc/netns/$H/resolv.conf"
chmod 755 "$T"
export T

helper() { pgrep -P "$1" caisson-net; } # of the sandbox that this caisson runs
py="python3 $here/network_user.py"
# background FILE COMMAND...: waits until it says "ready".
background() {
	local out=$1 tries=0
	shift
	"$@" >"$out" 2>&1 &
	PIDS="$PIDS $!"
	until grep -q ready "$out" || [ $tries -ge 100 ]; do
		tries=$((tries + 1))
		sleep 0.2
	done
}
background "$T/s1" ip netns exec $I $py serve tcp 10.77.0.2 fd77::2 169.254.169.254
background "$T/s2" ip netns exec $I $py serve dns 10.77.0.2 fd77::2
background "$T/s3" ip netns exec $H $py serve tcp 127.0.0.1 ::1 10.77.0.1 10.77.0.9 fd77::1

# One sandbox for all that must work outwards.
cat >"$T/out.sh" <<-EOF
	for a in 10.77.0.2 fd77::2; do
		for t in download upload halfclose reset udp refused; do $py \$t \$a | sed "s/\$/ \$a/"; done
	done
	$py parallel 10.77.0.2
	$py reset_out 10.77.0.2
	$py unreachable 198.51.100.7 113
	$py unreachable 203.0.113.7 101
	$py resolve www.test
	$py resolve_tcp 10.0.2.3
	$py denied 127.0.0.1 169.254.169.254 169.254.1.1 10.77.0.1 10.77.0.9 10.0.2.2 fd77::1 64:ff9b::7f00:1 | sed 's/denied/denied_host/'
	ping -c 2 -W 5 10.77.0.2 >/dev/null && echo ok ping
	ping -c 1 -W 5 10.0.2.2 >/dev/null && echo ok ping_gate
	curl -sf -m 20 http://www.test:7006/ --http0.9 | grep -qx 10.77.0.1 && echo ok curl
	cat /etc/resolv.conf | grep -qx "nameserver 10.0.2.3" && echo ok resolv.conf
	grep -q "10.0.2.15.*caisson" /etc/hosts && [ "\$(cat /etc/hostname)" = caisson ] && echo ok hosts
EOF
ip netns exec $H "$CAISSON" run --no-tty --timeout 240 --network user --bind "$here:$here:ro" --bind "$T:/t:ro" -- sh /t/out.sh >"$T/out" 2>&1
for t in download upload halfclose reset udp refused; do
	for a in 10.77.0.2 fd77::2; do check "$t $a" grep -qx "ok $t $a" "$T/out"; done
done
for t in parallel reset_out unreachable resolve resolve_tcp denied_host ping ping_gate curl resolv.conf hosts; do
	check "$t" grep -qx "ok $t" "$T/out"
done
check "unreachable, both errors" test "$(grep -cx 'ok unreachable' "$T/out")" = 2
grep -q failed "$T/out" && grep failed "$T/out"
sleep 0.5
check "a reset arrives as one" grep -qx reset "$T/peer"

# Limits on memory: a reader that does not read.
ip netns exec $H "$CAISSON" run --no-tty --timeout 100 --network user --bind "$here:$here:ro" -- $py slow 10.77.0.2 >"$T/slow" &
BOX=$!
rss=0
for i in 1 2 3 4 5 6 7 8; do
	sleep 0.5
	now=$(awk '/VmRSS/ { print $2 }' /proc/$(helper $BOX)/status 2>/dev/null)
	[ "${now:-0}" -gt $rss ] && rss=$now
done
wait $BOX
check "slow reader" grep -qx "ok slow" "$T/slow"
check "the helper's memory stays small ($rss kB)" test $rss -gt 0 -a $rss -lt 20000

# Published ports: as root, from outside and from the host's loopback.
background "$T/pub" ip netns exec $H "$CAISSON" run --no-tty --timeout 100 --network user --publish 8080:80 --publish 127.0.0.1:8081:80 \
	--publish 5300:53/udp --publish 0:80 --bind "$here:$here:ro" -- sh -c "$py serve_udp 53 & exec $py serve_tcp 80"
sleep 1
check "publish, IPv4, the client's address" ip netns exec $I $py call_tcp 10.77.0.1 8080 10.77.0.2 20000000
check "publish, IPv6" ip netns exec $I $py call_tcp fd77::1 8080 fd77::2
check "publish, from the host itself" ip netns exec $H $py call_tcp 127.0.0.1 8080 10.0.2.2
check "publish, UDP" ip netns exec $I $py call_udp 10.77.0.1 5300 10.77.0.2
check "publish on one address only" sh -c "! ip netns exec $I $py call_tcp 10.77.0.1 8081 x 2>&1 | grep -q ok"
check "publish on loopback" ip netns exec $H $py call_tcp 127.0.0.1 8081 10.0.2.2
port=$(sed -n 's/.*published host port \([0-9]*\) as.*/\1/p' "$T/pub")
check "publish, a port chosen" ip netns exec $I $py call_tcp 10.77.0.1 "${port:-0}" 10.77.0.2
says "a taken port" 125 "is taken" ip netns exec $H "$CAISSON" run --network user --publish 8080:80 -- true

# What it asks of the host while it serves is on its list.
NET=$(helper ${PIDS##* })
if command -v strace >/dev/null; then
	strace -qq -p "$NET" -o "$T/trace" &
	STRACE=$!
	sleep 1
	for i in 1 2 3; do ip netns exec $I $py call_tcp 10.77.0.1 8080 10.77.0.2; done >/dev/null
	ip netns exec $I $py call_udp 10.77.0.1 5300 10.77.0.2 >/dev/null
	kill $STRACE
	wait $STRACE
	sed -n 's/^\([a-z0-9_]*\)(.*/\1/p' "$T/trace" | sort -u >"$T/calls"
	check "its host calls are those of its list" sh -c "test -s '$T/calls' && ! grep -vxF -f '$here/../golden/net_calls.txt' '$T/calls'"
fi

# What the helper is: no privileges, and dead before its sandbox.
check "no capabilities" grep -q "CapEff:.0000000000000000" /proc/$NET/status
check "no new privileges, filtered" sh -c "grep -q 'NoNewPrivs:.1' /proc/$NET/status && grep -q 'Seccomp:.2' /proc/$NET/status"
check "not root" sh -c "! grep -q '^Uid:.0' /proc/$NET/status"
check "an empty root" test -z "$(ls -A /proc/$NET/root/ 2>/dev/null)"
cpu() { awk '{ print $14 + $15 }' /proc/$NET/stat; }
a=$(cpu)
w=$(awk '/voluntary_ctxt/ { n += $2 } END { print n }' /proc/$NET/status)
sleep 3
check "idle" test "$a $w" = "$(cpu) $(awk '/voluntary_ctxt/ { n += $2 } END { print n }' /proc/$NET/status)"

ip netns exec $H "$CAISSON" run --no-tty --timeout 100 --network user --bind "$here:$here:ro" -- sh -c "$py dead 10.77.0.2; echo alive" >"$T/dead" 2>&1 &
BOX=$!
tries=0
until grep -q open "$T/dead" || [ $tries -ge 100 ]; do tries=$((tries + 1)); sleep 0.2; done
kill -9 "$(helper $BOX)"
wait $BOX
check "helper killed: errors inside" grep -qx "ok dead" "$T/dead"
check "helper killed: the sandbox lives" grep -qx alive "$T/dead"

# The gateway leads to the host's loopback only when asked, and only there.
check "host loopback is denied" sh -c "! ip netns exec $H '$CAISSON' run --no-tty --network user --bind '$here:$here:ro' -- $py halfclose 10.0.2.2 | grep -q ok"
check "host-loopback" sh -c "ip netns exec $H '$CAISSON' run --no-tty --network user,host-loopback --bind '$here:$here:ro' -- $py halfclose 10.0.2.2 | grep -q ok"

# Resolvers on the host's loopback, and one that is silent before one that answers.
printf 'nameserver 10.77.0.77\nnameserver 127.0.0.11\n' >"/etc/netns/$H/resolv.conf"
background "$T/s4" ip netns exec $H $py serve dns 127.0.0.11
check "a resolver on loopback, after a dead one" sh -c "ip netns exec $H '$CAISSON' run --no-tty --timeout 60 --network user --bind '$here:$here:ro' -- $py resolve www.test | grep -q ok"

# Where the host lets nobody ping there is no answer, and the log says why.
ip netns exec $H sysctl -qw net.ipv4.ping_group_range="1 0"
ip netns exec $H "$CAISSON" run --no-tty --timeout 30 --log "$T/log" --network user -- ping -c 1 -W 1 10.77.0.2 >/dev/null 2>&1
check "pings refused by the host: a line in the log file" grep -q ping_group_range "$T/log"

# Files: what the user binds stays, and the host's are not touched.
before=$(cat /etc/hosts /etc/hostname /etc/resolv.conf | cksum)
echo "127.0.0.1 mine" >"$T/hosts"
check "an own /etc/hosts" sh -c "'$CAISSON' run --no-tty --bind '$T/hosts:/etc/hosts' -- cat /etc/hosts | grep -qx '127.0.0.1 mine'"
mkdir "$T/etc" && echo x >"$T/etc/hosts"
check "an own /etc" sh -c "'$CAISSON' run --no-tty --bind '$T/etc:/etc:rw' -- cat /etc/hosts | grep -qx x && [ \"\$(ls '$T/etc')\" = hosts ]"
check "the host's files are as before" test "$before" = "$(cat /etc/hosts /etc/hostname /etc/resolv.conf | cksum)"

# Anybody may have it.
if setpriv --reuid 12345 --regid 12345 --clear-groups "$CAISSON" run --no-tty -- true 2>/dev/null; then
	check "rootless" sh -c "ip netns exec $H setpriv --reuid 12345 --regid 12345 --clear-groups '$CAISSON' run --no-tty --timeout 100 --network user --bind '$here:$here:ro' -- $py upload 10.77.0.2 | grep -qx 'ok upload'"
	says "rootless, a privileged port" 125 "for root only" ip netns exec $H setpriv --reuid 12345 --regid 12345 --clear-groups "$CAISSON" run --network user --publish 80:80 -- true
else
	echo "skip rootless: user namespaces are not for everybody here"
fi
finish
