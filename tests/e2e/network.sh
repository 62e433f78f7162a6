# SPDX-License-Identifier: Apache-2.0
# The network: loopback programs, and a network namespace taken over (veth, IPv4 and IPv6).
. "$(dirname "$0")/../lib/e2e.sh"

check "loopback only" sh -c "'$CAISSON' run --no-tty -- python3 -c '
import socket
socket.create_server((\"127.0.0.1\", 0)); socket.create_server((\"::1\", 0), family=socket.AF_INET6)
try:
    socket.create_connection((\"192.0.2.1\", 53), 5)
except OSError as e:
    print(e.errno)' | grep -qx 101"
check "http over loopback" box -- python3 -c '
import threading, http.server, urllib.request
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever, daemon=True).start()
for i in range(20):
    assert urllib.request.urlopen("http://127.0.0.1:%d/" % s.server_port).status == 200'
check "asyncio, a megabyte each way" box -- python3 -c '
import asyncio
async def echo(r, w):
    while d := await r.read(65536):
        w.write(d); await w.drain()
    w.close()
async def main():
    s = await asyncio.start_server(echo, "::1", 0)
    r, w = await asyncio.open_connection("::1", s.sockets[0].getsockname()[1])
    async def send():
        w.write(bytes(1 << 20)); await w.drain(); w.write_eof()
    t = asyncio.create_task(send())
    assert len(await r.read(-1)) == 1 << 20
asyncio.run(main())'

if ! command -v ip >/dev/null || ! command -v curl >/dev/null || [ "$(id -u)" != 0 ] || ! ip netns list >/dev/null 2>&1; then
	echo "skip network namespaces: need root, ip and curl"
	finish
	exit
fi

NS=caisson-e2e-$$
VETH=cse$$
cleanup() {
	[ -n "${BOX:-}" ] && kill "$BOX" 2>/dev/null
	ip netns del $NS 2>/dev/null
	ip link del $VETH 2>/dev/null
	rm -rf "$T"
}
trap cleanup EXIT
if ! { ip netns add $NS && ip link add $VETH type veth peer name eth0 netns $NS; }; then
	echo "skip network namespaces: no veth here"
	finish
	exit
fi
ip addr add 10.231.77.1/24 dev $VETH
ip -6 addr add fd31:77::1/64 dev $VETH nodad
ip link set $VETH up
ip -n $NS addr add 10.231.77.2/24 dev eth0
ip -n $NS -6 addr add fd31:77::2/64 dev eth0 nodad
ip -n $NS link set eth0 up
ip -n $NS route add default via 10.231.77.1
ip -n $NS route add 169.254.1.1 dev eth0 scope link
ip -n $NS route add 10.232.0.0/16 via 169.254.1.1 metric 7
ip -n $NS -6 route add default via fd31:77::1
ip -n $NS neigh add 10.231.77.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent
# Everything of the namespace that the sandbox takes over.
namespace() {
	ip -n $NS -o addr show dev eth0 | sed 's/forever.*//; s/ tentative//'
	ip -n $NS route
	ip -n $NS -6 route
	ip -n $NS neigh show nud permanent
}
head -c 20000000 /dev/urandom >"$T/big"
namespace >"$T/before"
# The server runs outside and fetches are made from inside, and the reverse, in one sandbox.
python3 -m http.server 8231 --bind 10.231.77.1 --directory "$T" >/dev/null 2>&1 &
OUTSIDE=$!
"$CAISSON" run --no-tty --network netns=/run/netns/$NS --bind "$T:/data" -- sh -c '
	ip -4 addr show dev eth0 | grep -q 10.231.77.2/24 && echo address
	ip route | grep -q "default via 10.231.77.1" && echo route
	for i in 1 2 3 4 5 6 7 8 9 10; do curl -sf -o /tmp/got http://10.231.77.1:8231/big && break; sleep 1; done
	cmp /tmp/got /data/big && echo fetched
	exec python3 -m http.server 80 --bind :: --directory /data >/dev/null 2>&1' >"$T/inside" 2>&1 &
BOX=$!
tries=0
until curl -sf -m 5 -o "$T/got6" "http://[fd31:77::2]/big" || [ $tries -ge 30 ]; do
	tries=$((tries + 1))
	sleep 1
done
check "addresses moved in" grep -qx address "$T/inside"
check "routes moved in" grep -qx route "$T/inside"
check "client inside, 20 MB" grep -qx fetched "$T/inside"
check "server inside, IPv6" cmp "$T/big" "$T/got6"
check "server inside, IPv4" sh -c "curl -sf -m 60 -o '$T/got4' http://10.231.77.2/big && cmp '$T/big' '$T/got4'"
check "the host's stack let go" sh -c "! ip -n $NS addr show dev eth0 | grep -q inet"
check "closed port" sh -c "curl -s -m 5 http://10.231.77.2:81/; test \$? = 7"
kill $BOX $OUTSIDE
wait $BOX
BOX=
namespace >"$T/after"
check "the namespace is as it was" diff "$T/before" "$T/after"
finish
