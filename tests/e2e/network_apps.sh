# SPDX-License-Identifier: Apache-2.0
# runs alone
# Real programs between two network namespaces joined by a veth: the servers of net_servers.sh outside
# and the clients of net_clients.sh in the sandbox, then the reverse.
. "$(dirname "$0")/../lib/e2e.sh"
LIB=$(cd "$(dirname "$0")/../lib" && pwd)

if [ "$(id -u)" != 0 ] || ! ip netns list >/dev/null 2>&1; then
	echo "skip real network programs: need root and ip netns"
	finish
	exit
fi
missing=
for tool in curl wget openssl nginx wrk redis-server redis-benchmark iperf3 ssh ping dig dnsmasq node go ss setpriv \
	/usr/sbin/sshd /usr/lib/postgresql/*/bin/initdb; do
	PATH="$PATH:/usr/sbin:/usr/local/go/bin" command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	fail "tools" "missing:$missing"
	finish
	exit
fi

IN=cse-in-$$ OUT=cse-out-$$
cleanup() {
	for ns in $OUT $IN; do
		ip netns pids $ns 2>/dev/null | xargs -r kill -9
		ip netns del $ns 2>/dev/null
	done
	[ -n "${BOX:-}" ] && kill "$BOX" 2>/dev/null
	rm -rf "$T"
}
trap cleanup EXIT

# A new pair each time: outside is 10.231.78.1, the side of the sandbox .2.
join() {
	ip netns add $OUT && ip netns add $IN && ip link add v0 netns $OUT type veth peer name eth0 netns $IN || return
	ip -n $OUT addr add 10.231.78.1/24 dev v0
	ip -n $OUT -6 addr add fd31:78::1/64 dev v0 nodad
	ip -n $IN addr add 10.231.78.2/24 dev eth0
	ip -n $IN -6 addr add fd31:78::2/64 dev eth0 nodad
	ip -n $OUT link set v0 up && ip -n $OUT link set lo up && ip -n $IN link set eth0 up
}
part() {
	ip netns pids $OUT | xargs -r kill -9
	ip netns del $OUT
	ip netns del $IN
}
# Words without spaces: in the background $! is then the sandbox's own process.
BOXED="$CAISSON run --no-tty --network netns=/run/netns/$IN --env IN_BOX=1 --env PATH --bind $LIB:$LIB --bind $T:$T:rw --"
wait_ready() {
	local tries=0
	until [ -e "$T/ready" ]; do
		tries=$((tries + 1))
		if [ $tries -gt 180 ]; then
			fail "$1: servers start" "$(cat "$T/waits") is not open: $(tail -n 4 "$T/servers" | tr '\n' ' ')"
			return 1
		fi
		sleep 0.5
	done
	rm "$T/ready"
}
# Each line of the clients is a check.
report() { sed "s/^\(ok\|FAIL\) /\1 $1: /" "$T/clients"; grep -q '^FAIL' "$T/clients" && E2E_FAILED=1
	[ "$(grep -c '^ok\|^FAIL' "$T/clients")" -ge 50 ] || fail "$1" "the clients stopped early: $(tail -n 2 "$T/clients")"; }

chmod 755 "$T"
head -c 20000000 /dev/urandom >"$T/big"
ssh-keygen -q -t ed25519 -N '' -f "$T/key"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$T/tls.key" -out "$T/tls.crt" -days 2 -subj /CN=test 2>/dev/null
cat "$T/tls.key" "$T/tls.crt" >"$T/tls.pem"
export PATH="$PATH:/usr/local/go/bin"
if ! (cd "$T" && GO111MODULE=off CGO_ENABLED=0 go build -o httpd "$LIB/net_httpd.go") 2>"$T/go.err"; then
	fail "building the Go server" "$(head -n 2 "$T/go.err")"
fi

join || { echo "skip real network programs: no veth here"; finish; exit; }
ip netns exec $OUT sh "$LIB/net_servers.sh" "$T" >"$T/servers" 2>&1 &
if wait_ready "clients inside"; then
	$BOXED sh "$LIB/net_clients.sh" "$T" 10.231.78.1 fd31:78::1 >"$T/clients" 2>&1
	report "client inside"
fi
part
join
$BOXED sh "$LIB/net_servers.sh" "$T" >"$T/servers" 2>&1 &
BOX=$!
if wait_ready "servers inside"; then
	ip netns exec $OUT sh "$LIB/net_clients.sh" "$T" 10.231.78.2 fd31:78::2 >"$T/clients" 2>&1
	report "server inside"
fi
finish
