# SPDX-License-Identifier: Apache-2.0
# runs alone
# Hostile peers on a veth: ten thousand connections, a SYN flood, a flood of fragments, readers that do not
# read. The sandbox's memory stays bounded (its cgroup's number) and an honest client is still served.
. "$(dirname "$0")/../lib/e2e.sh"
LIB=$(cd "$(dirname "$0")/../lib" && pwd)

if [ "$(id -u)" != 0 ] || ! ip netns list >/dev/null 2>&1; then
	echo "skip abuse by peers: need root and ip netns"
	finish
	exit
fi
IN=csa-in-$$ OUT=csa-out-$$
cleanup() {
	[ -n "${BOX:-}" ] && kill "$BOX" 2>/dev/null && wait "$BOX"
	ip netns pids $OUT 2>/dev/null | xargs -r kill -9
	ip netns del $OUT 2>/dev/null
	ip netns del $IN 2>/dev/null
	rm -rf "$T"
}
trap cleanup EXIT
if ! { ip netns add $OUT && ip netns add $IN && ip link add v0 netns $OUT type veth peer name eth0 netns $IN; }; then
	echo "skip abuse by peers: no veth here"
	finish
	exit
fi
ip -n $OUT addr add 10.231.79.1/24 dev v0
ip -n $OUT link set v0 up
ip -n $IN addr add 10.231.79.2/24 dev eth0
ip -n $IN link set eth0 up
ip -n $IN route add default via 10.231.79.1
MAC=$(ip -n $IN -o link show dev eth0 | sed 's/.*link.ether \([0-9a-f:]*\).*/\1/')

abuse() { ip netns exec $OUT python3 "$LIB/net_abuse.py" "$@"; }
# Resident kB of the sentry, which holds the packets: they are charged where it is.
resident() { awk '/^Rss:/ { n += $2 } END { print n }' /proc/"$SENTRY"/smaps_rollup; }
served() {
	local worst
	worst=$(abuse honest 10.231.79.2 7000 20 2>"$T/honest")
	if [ -n "$worst" ]; then
		ok "$1: honest clients served (slowest $worst s)"
	else
		fail "$1: honest clients served" "$(tail -n 1 "$T/honest")"
	fi
}
bounded() {
	local now
	now=$(resident)
	if [ -n "$now" ] && [ $((now - BASE)) -lt "$2" ]; then
		ok "$1: memory bounded ($BASE kB, now $now kB)"
	else
		fail "$1: memory bounded" "$BASE kB, now $now kB, more than $2 kB above"
	fi
}
held() {
	local tries=0
	until [ -e "$T/held" ] || [ $tries -gt 600 ]; do
		tries=$((tries + 1))
		sleep 0.4
	done
	check "$1" rm "$T/held"
}

"$CAISSON" run --no-tty --memory 512m --network netns=/run/netns/$IN --bind "$LIB:$LIB" -- \
	python3 "$LIB/net_abuse.py" serve 7000 >"$T/box.out" 2>&1 &
BOX=$!
tries=0
until abuse honest 10.231.79.2 7000 1 >/dev/null 2>&1 || [ $tries -ge 60 ]; do
	tries=$((tries + 1))
	sleep 0.5
done
SENTRY=$(pgrep -P $BOX -f caisson-sentry | head -n 1)
served "in peace"
BASE=$(resident)

abuse syn v0 10.66 10.231.79.2 7000 "$MAC" 5 >"$T/count" &
sleep 1
served "SYN flood"
wait $!
bounded "SYN flood of $(cat "$T/count")" 65536
abuse frag v0 10.66 10.231.79.2 "$MAC" 5 >"$T/count" &
sleep 1
served "fragment flood"
wait $!
bounded "fragment flood of $(cat "$T/count")" 65536
abuse slow 10.231.79.2 7000 300 "$T" 2>/dev/null &
held "300 slow readers of 50 MB each"
sleep 1
served "slow readers"
bounded "slow readers" 131072
ip netns pids $OUT | xargs -r kill -9
BASE=$(resident)
abuse hold 10.231.79.2 7000 10000 "$T" >"$T/hold" 2>&1 &
held "10,000 connections open"
served "10,000 connections"
bounded "10,000 connections" 262144
finish
