# SPDX-License-Identifier: Apache-2.0
# runs alone
# A bad wire (lossy_relay.py: 5 % loss, 100 ms round trip, reordering, duplicates) between the sandbox, or
# a namespace with the host's stack, and a peer: what is sent arrives whole, both ways, in at most twice the
# host stack's time for the same relay. The host uses CUBIC too, and neither side splits for the wire.
. "$(dirname "$0")/../lib/e2e.sh"
LIB=$(cd "$(dirname "$0")/../lib" && pwd)

if [ "$(id -u)" != 0 ] || ! ip netns list >/dev/null 2>&1 || ! command -v ethtool >/dev/null; then
	echo "skip a bad wire: needs root, ip netns and ethtool"
	finish
	exit
fi
IN=csl-in-$$ WIRE=csl-wire-$$ OUT=csl-out-$$
cleanup() {
	for ns in $OUT $WIRE $IN; do
		ip netns pids $ns 2>/dev/null | xargs -r kill -9
		ip netns del $ns 2>/dev/null
	done
	rm -rf "$T"
}
trap cleanup EXIT
for ns in $IN $WIRE $OUT; do ip netns add $ns || exit 1; done
if ! { ip link add wa netns $WIRE type veth peer name eth0 netns $IN && ip link add wb netns $WIRE type veth peer name eth0 netns $OUT; }; then
	echo "skip a bad wire: no veth here"
	finish
	exit
fi
ip -n $IN addr add 10.231.80.2/24 dev eth0
ip -n $OUT addr add 10.231.80.1/24 dev eth0
for end in "$IN eth0" "$OUT eth0" "$WIRE wa" "$WIRE wb"; do
	set -- $end
	# Frames as a wire has them: complete, and none larger than the MTU.
	ip netns exec $1 ethtool -K $2 tso off gso off gro off tx off rx off >/dev/null 2>&1
	ip netns exec $1 sysctl -qw net.ipv6.conf.$2.disable_ipv6=1 2>/dev/null
	ip -n $1 link set $2 up
done

cat >"$T/peer.py" <<'EOF'
# serve SEED BYTES: sends what it is asked for, or takes it, and tells the digest; get/put ADDR BYTES
import hashlib, random, socket, sys, time
# The same algorithm on every side, whatever this host's default is (BBR ignores loss).
def cubic(s):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    return s
def data(n): return random.Random(1).randbytes(n)
def take(s, n):
    b = bytearray()
    while len(b) < n:
        d = s.recv(65536)
        if not d: raise SystemExit("closed early")
        b += d
    return bytes(b)
if sys.argv[1] == "serve":
    l = socket.create_server(("", 7100))
    while True:
        c, _ = l.accept()
        with cubic(c):
            verb, n = c.recv(64).decode().split()
            if verb == "get": c.sendall(data(int(n)))
            else:
                c.sendall(b"go")
                c.sendall(hashlib.sha256(take(c, int(n))).digest())
else:
    verb, addr, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    total = 0
    for i in range(int(sys.argv[4])):
        s = cubic(socket.create_connection((addr, 7100), 120))
        start = time.monotonic()
        s.sendall(b"%s %d" % (verb.encode(), n))
        if verb == "get": ok = take(s, n) == data(n)
        else:
            take(s, 2)
            s.sendall(data(n))
            ok = take(s, 32) == hashlib.sha256(data(n)).digest()
        total += time.monotonic() - start
        if not ok: raise SystemExit("what arrived is not what was sent")
    print("%.2f" % total)
EOF
ip netns exec $OUT python3 "$T/peer.py" serve &
# measure SEED COMMAND...: the transfers over a fresh wire with this seed
measure() {
	local seed=$1
	shift
	ip netns exec $WIRE python3 "$LIB/lossy_relay.py" wa wb "$seed" 5 50 2 1 &
	local relay=$!
	sleep 0.5
	"$@"
	kill $relay
	wait $relay 2>/dev/null
}
for seed in 1 2; do
	measure $seed ip netns exec $IN sh -c "python3 $T/peer.py get 10.231.80.1 300000 2; python3 $T/peer.py put 10.231.80.1 300000 2" >"$T/host.$seed" 2>&1
done
for seed in 1 2; do
	measure $seed "$CAISSON" run --no-tty --network netns=/run/netns/$IN --bind "$T:$T" -- \
		sh -c "python3 $T/peer.py get 10.231.80.1 300000 2; python3 $T/peer.py put 10.231.80.1 300000 2" >"$T/box.$seed" 2>&1
done
compare() {
	host=$(for s in 1 2; do sed -n "$2p" "$T/host.$s"; done | awk '{ n += $1 } END { print n }')
	mine=$(for s in 1 2; do sed -n "$2p" "$T/box.$s"; done | awk '{ n += $1; if ($1 <= 0) bad = 1 } END { print bad ? 0 : n }')
	if awk "BEGIN { exit !($mine > 0 && $mine <= 2 * $host) }"; then
		ok "$1 over a bad wire: whole, $mine s, the host's stack $host s"
	else
		fail "$1 over a bad wire" "$mine s, the host's stack $host s; $(cat "$T/box.1" "$T/box.2" | tr '\n' ' ')"
	fi
}
compare "receiving" 1
compare "sending" 2
finish
