# SPDX-License-Identifier: Apache-2.0
# runs alone
# The egress policy, against a table of attempts to get round it. The oracle is a capture of every
# frame that leaves the sandbox, outside of it; a run without a policy shows that the capture sees them.
. "$(dirname "$0")/../lib/e2e.sh"

if ! command -v ip >/dev/null || [ "$(id -u)" != 0 ] || ! ip netns list >/dev/null 2>&1; then
	echo "skip egress: need root and ip"
	finish
fi

HERE=$(cd "$(dirname "$0")" && pwd)
OUT=ceo$$ BOXNS=ceb$$
cleanup() {
	[ -n "${WORLD:-}" ] && kill "$WORLD" 2>/dev/null
	[ -n "${BOXPID:-}" ] && kill "$BOXPID" 2>/dev/null
	[ -d "$T/state" ] && "$CAISSON" --root "$T/state" delete --force one 2>/dev/null
	ip netns del $OUT 2>/dev/null
	ip netns del $BOXNS 2>/dev/null
	rm -rf "$T"
}
trap cleanup EXIT
if ! ip netns add $OUT; then
	echo "skip egress: no network namespaces here"
	finish
fi
ip -n $OUT link set lo up
ip -n $OUT addr add 203.0.113.53/32 dev lo
ip -n $OUT route add local 192.0.2.0/24 dev lo
ip -n $OUT route add local 198.51.100.0/24 dev lo

# A new namespace for a sandbox, which takes its addresses away, and the world beside it.
fresh() {
	[ -n "${WORLD:-}" ] && { kill "$WORLD"; wait "$WORLD" 2>/dev/null; }
	ip netns del $BOXNS 2>/dev/null
	ip -n $OUT link del veth 2>/dev/null
	ip netns add $BOXNS
	ip -n $OUT link add veth type veth peer name eth0 netns $BOXNS
	ip -n $OUT addr add 203.0.113.1/24 dev veth
	ip -n $OUT -6 addr add 2001:db8:77::1/64 dev veth nodad
	ip -n $OUT link set veth up
	ip -n $BOXNS addr add 203.0.113.2/24 dev eth0
	ip -n $BOXNS -6 addr add 2001:db8:77::2/64 dev eth0 nodad
	ip -n $BOXNS link set eth0 up
	ip -n $BOXNS route add default via 203.0.113.1
	ip -n $BOXNS -6 route add default via 2001:db8:77::1
	: >"$T/world"
	ip netns exec $OUT python3 "$HERE/egress.py" world "$1" >"$T/world" 2>&1 &
	WORLD=$!
	local tries=0
	until grep -qx ready "$T/world" || [ $tries -ge 100 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	grep -qx ready "$T/world" || fail "the world outside" "$(tail -n 1 "$T/world")"
}
net() {
	${NET_EXEC:-} "$CAISSON" run --no-tty --timeout 150 --network netns=/run/netns/$BOXNS --dns 203.0.113.53 --bind "$HERE:/e2e" "$@"
}
# TCP and UDP from outside to the server inside, once it is there.
visit() {
	ip netns exec $OUT timeout 150 python3 -c '
import socket, time
for i in range(600):
    try:
        with socket.create_connection(("203.0.113.2", 7000), 1) as s:
            print(s.makefile().read())
        break
    except OSError:
        time.sleep(0.2)
u = socket.socket(type=socket.SOCK_DGRAM)
u.settimeout(1)
for i in range(10):
    u.sendto(b"datagram", ("203.0.113.2", 7000))
    try:
        print(u.recv(100).decode())
        break
    except OSError:
        pass' >"$T/visit" 2>&1
}

# ---- the table ----
cat >"$T/policy" <<'P'
# what egress.py expects
allow 203.0.113.1:9999/udp
allow 203.0.113.1:8080/tcp
good.example:443/tcp	# one name
*.cdn.example:443/tcp
P
fresh "$T/frames"
visit &
VISIT=$!
net --net-policy "$T/policy" --audit "$T/audit" --audit-connections --env RESOLVER=127.0.0.53 -- \
	python3 /e2e/egress.py attempts >"$T/lines" 2>"$T/err"
wait $VISIT
check "what is allowed works" grep -qx "allowed works" "$T/lines"
check "what is allowed still works" grep -qx "allowed still works" "$T/lines"
check "connections from outside are answered" grep -qx "hello from inside" "$T/visit"
check "datagrams from outside are answered" grep -qx "hello datagram" "$T/visit"
check "nothing else leaves" sh -c "python3 '$HERE/egress.py' judge '$T/frames' policy '$T/lines'"
check "the resolver hides what may not be reached" sh -c "! grep -n ^LEAK '$T/lines'"
check "TCP refusals are ECONNREFUSED" grep -q "tcp to 198.51.100.7 port 8080.*ConnectionRefusedError" "$T/lines"
check "UDP refusals are EPERM" grep -q "udp to 198.51.100.7 port 9999.*PermissionError" "$T/lines"
check "each refusal is a record" python3 - "$T/audit" <<'P'
import json, sys
r = [json.loads(l) for l in open(sys.argv[1])]
no = [x for x in r if x["event"] == "refused"]
assert len(no) > 120, len(no)
assert all(x["time"] and x["sandbox"].startswith("run-") and x["rule"] for x in no)
assert all(x.get("pid") and x.get("comm", "").startswith("python3") for x in no if x["proto"] == "tcp"), "pid"
assert any(x.get("address") == "169.254.169.254" and x["rule"] == "metadata" for x in no)
assert any(x["proto"] == "dns" and x["name"] == "metadata.google.internal" and x["rule"] == "default" and x["pid"] for x in no)
assert any(x.get("address") == "192.0.2.80" and x.get("port") == 80 and x["name"] == "good.example" for x in no)
assert any(x["event"] == "answer-dropped" and x["address"] == "10.0.0.5" and x["rule"] == "private" for x in r)
c = [x for x in r if x["event"] == "connection"]
assert any(x["direction"] == "out" and x.get("name") == "good.example" for x in c)
assert any(x["direction"] == "out" and x["port"] == 8080 and x["bytes_out"] == 18 and x["bytes_in"] > 50 for x in c)
assert any(x["direction"] == "in" and x["bytes_out"] == 17 for x in c)
P

fresh "$T/frames"
visit &
VISIT=$!
net --env RESOLVER=203.0.113.53 -- python3 /e2e/egress.py attempts >"$T/lines" 2>"$T/err"
wait $VISIT
check "without a policy the capture sees them" sh -c "python3 '$HERE/egress.py' judge '$T/frames' control '$T/lines'"

# ---- lists ----
fresh "$T/frames"
net --allow-net '' -- python3 -c '
import socket
for a in ("203.0.113.1", "203.0.113.53", "198.51.100.7"):
    for t in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(type=t)
        try:
            s.connect((a, 53))
            s.send(b"x")
            print("sent")
        except OSError:
            pass
try:
    print(socket.gethostbyname("good.example"))
except OSError:
    print("no name")' >"$T/empty" 2>&1
check "an empty list means none" grep -qx "no name" "$T/empty"
check "and nothing leaves" python3 "$HERE/egress.py" judge "$T/frames" silent "$T/empty"
says "a bad rule" 125 "--allow-net '10.0.0.0/40': '/40' is no prefix length" net --allow-net 10.0.0.0/40 -- true
printf 'allow 192.0.2.1\n\nallow exa mple.com\n' >"$T/bad"
says "a bad line in a file" 125 "$T/bad:3: more than one target" net --net-policy "$T/bad" -- true
says "a missing file" 125 "$T/none: No such file" net --net-policy "$T/none" -- true
says "a policy without a network" 125 "needs a network" "$CAISSON" run --no-tty --allow-net 192.0.2.1 -- true

# ---- reloading ----
fresh "$T/frames"
cat >"$T/inside.py" <<'P'
import os, socket, sys, time
def wait(name):
    while not os.path.exists("/shared/" + name):
        time.sleep(0.05)
def tell(name):
    open("/shared/" + name, "w").close()
s = socket.create_connection(("203.0.113.1", 8080), 5)
tell("open")
wait("bad")
socket.create_connection(("203.0.113.1", 8080), 5).close()
print("a bad file changes nothing")
tell("still")
wait("good")
s.settimeout(5)
try:
    s.recv(10)
    print("the connection goes on")
except PermissionError:
    print("the connection ends")
try:
    socket.create_connection(("203.0.113.1", 8080), 5)
except ConnectionRefusedError:
    print("refused now")
socket.create_connection(("203.0.113.1", 80), 5)
print("the new rule holds")
P
mkdir "$T/shared"
cp "$T/inside.py" "$T/shared/"
echo "allow 203.0.113.1:8080" >"$T/policy"
# In the background the job must be caisson itself, to get the signal.
NET_EXEC=exec net --net-policy "$T/policy" --bind "$T/shared:/shared:rw" -- python3 /shared/inside.py >"$T/lines" 2>"$T/err" &
BOXPID=$!
waitfile() {
	local tries=0
	until [ -e "$T/shared/$1" ] || [ $tries -ge 300 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
}
waitsaid() {
	local tries=0
	until grep -q "$1" "$T/err" || [ $tries -ge 100 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
}
waitfile open
echo "allow 203.0.113.1:808x" >"$T/policy"
kill -RTMIN $BOXPID
waitsaid "stays as it was"
touch "$T/shared/bad"
waitfile still
echo "allow 203.0.113.1:80/tcp" >"$T/policy"
kill -RTMIN $BOXPID
waitsaid "again"
touch "$T/shared/good"
wait $BOXPID
BOXPID=
check "a bad reload says so" grep -q "$T/policy:1: '808x' is no port.*stays as it was" "$T/err"
for line in "a bad file changes nothing" "the connection ends" "refused now" "the new rule holds"; do
	check "reload: $line" grep -qx "$line" "$T/lines"
done

# ---- rates ----
fresh "$T/frames"
net --allow-net 203.0.113.1 --net-rate 200k --net-connects 5 -- python3 -c '
import socket, time
n = 0
for i in range(12):
    try:
        socket.create_connection(("203.0.113.1", 8080), 5).close()
        n += 1
    except ConnectionRefusedError:
        pass
assert 5 <= n <= 8, n
time.sleep(1.2)
s = socket.create_connection(("203.0.113.1", 8080), 5)
start = time.time()
s.sendall(b"GET / HTTP/1.1\r\nX: ")
sent = 0
s.settimeout(60)
u = socket.socket(type=socket.SOCK_DGRAM)
while time.time() - start < 3:
    try:
        u.sendto(bytes(1000), ("203.0.113.1", 5))
        sent += 1028
    except OSError:
        time.sleep(0.001)
assert sent < 4 * 204800 + 300000, sent
print("limited")' >"$T/lines" 2>"$T/err"
check "rates hold" sh -c "grep -qx limited '$T/lines' || { cat '$T/err'; false; }"

# ---- under an engine ----
BUSYBOX=$(command -v busybox) || {
	echo "skip egress of containers: busybox is not installed"
	finish
}
fresh "$T/frames"
B=$T/bundle
oci() { timeout 60 "$CAISSON" --root "$T/state" "$@"; }
mkdir -p "$B/rootfs/bin" "$B/rootfs/etc"
cp "$BUSYBOX" "$B/rootfs/bin/busybox"
for a in sh wget sleep; do ln -s busybox "$B/rootfs/bin/$a"; done
echo "nameserver 203.0.113.53" >"$B/rootfs/etc/resolv.conf"
config() {
	rm -f "$B/config.json"
	oci spec --bundle "$B"
	python3 - "$B/config.json" "$BOXNS" "$1" <<'P'
import json, sys
path, ns, allow = sys.argv[1:]
c = json.load(open(path))
c["process"]["terminal"] = False
c["root"]["readonly"] = False
c["process"]["args"] = ["sh", "-c", "wget -q -O- http://good.example:443/ >>/out; while :; do "
                        "wget -q -O- http://203.0.113.1:8080/ >>/out || echo no >>/out; sleep 0.2; done"]
c["linux"]["namespaces"] = [n for n in c["linux"]["namespaces"] if n["type"] != "network"]
c["linux"]["namespaces"].append({"type": "network", "path": "/run/netns/" + ns})
c["annotations"] = {"dev.caisson.net.allow": allow, "dev.caisson.net.dns": "203.0.113.53"}
json.dump(c, open(path, "w"))
P
}
waitout() { # COUNT TEXT: so many lines of the container's
	local tries=0
	until [ "$(grep -ao "$2" "$B/rootfs/out" 2>/dev/null | wc -l)" -ge "$1" ]; do
		tries=$((tries + 1))
		[ $tries -ge 200 ] && return 1
		sleep 0.1
	done
}
config "203.0.113.1:80x"
check "a bad annotation" sh -c "! '$CAISSON' --root '$T/state' create --bundle '$B' one </dev/null >'$T/out' 2>&1 && grep -q '80x' '$T/out'"
config "203.0.113.1:8080, good.example:443"
oci create --bundle "$B" one </dev/null >"$T/out" 2>&1 && oci start one
check "a container's rules and resolver" waitout 3 fine
check "its image's resolv.conf stays" grep -qx "nameserver 203.0.113.53" "$B/rootfs/etc/resolv.conf"
echo "deny 203.0.113.1/33" >"$T/policy"
check "update with a bad file" sh -c "! '$CAISSON' --root '$T/state' update --net-policy '$T/policy' one 2>'$T/out' && grep -q 'policy:1:.*stays as it was' '$T/out'"
echo "good.example" >"$T/policy"
: >"$B/rootfs/out"
check "update" oci update --net-policy "$T/policy" one
check "and it holds" waitout 2 no
oci delete --force one
finish
