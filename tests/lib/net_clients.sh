#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# net_clients.sh DIR IPV4 IPV6: real programs against net_servers.sh at the two addresses, one line
# each ("ok NAME" or "FAIL NAME: why"). DIR is the servers' one, or a copy. Runs natively and in the
# sandbox alike.
set -u
D=$1 V4=$2 V6=$3
W=$(mktemp -d)
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
cd "$W" || exit 1

try() {
	name=$1
	shift
	if timeout 120 "$@" >"$W/out" 2>&1; then
		echo "ok $name"
	else
		echo "FAIL $name: $? $(tail -n 4 "$W/out" | tr '\n' ' ')"
	fi
}
# fetches NAME COMMAND...: writes the big file to its output
fetches() {
	name=$1
	shift
	if timeout 120 "$@" 2>"$W/err" | cmp - "$D/big" 2>>"$W/err"; then
		echo "ok $name"
	else
		echo "FAIL $name: $(tail -n 4 "$W/err" | tr '\n' ' ')"
	fi
}
# An iperf3 server closes its listening socket after each test and opens it again: a client that comes
# between is refused or reset, whatever the stack, and asks again.
iperf() {
	for i in 1 2 3 4 5; do
		timeout 60 iperf3 "$@" >"$W/iperf" 2>&1 && break
		grep -q "unable to connect\|receive control message\|server is busy" "$W/iperf" || break
		sleep 0.5
	done
	cat "$W/iperf"
	! grep -q "error -" "$W/iperf"
}
try_iperf() {
	name=$1
	shift
	if iperf "$@" >"$W/out" 2>&1; then
		echo "ok $name"
	else
		echo "FAIL $name: $(tail -n 4 "$W/out" | tr '\n' ' ')"
	fi
}
# says NAME TEXT COMMAND...: its output has the text
says() {
	name=$1 text=$2
	shift 2
	timeout 120 "$@" >"$W/out" 2>&1
	if grep -q -- "$text" "$W/out"; then
		echo "ok $name"
	else
		echo "FAIL $name: $(tail -n 4 "$W/out" | tr '\n' ' ')"
	fi
}

try "ping" ping -c 3 -i 0.2 "$V4"
try "ping, IPv6, fragments" ping -6 -c 2 -i 0.2 -s 20000 "$V6"
try "ping, fragments" ping -c 2 -i 0.2 -s 20000 "$V4"
for a in "$V4" "[$V6]"; do
	fetches "curl, http.server, $a" curl -sSf "http://$a:8001/big"
	fetches "curl, nginx, $a" curl -sSf "http://$a:8002/big"
	fetches "curl, node, $a" curl -sSf "http://$a:8003/big"
	fetches "curl, go, $a" curl -sSf "http://$a:8004/big"
	fetches "curl, openssl s_server, $a" curl -sSfk --http0.9 "https://$a:8005/big"
	fetches "wget, nginx, $a" wget -q -O - "http://$a:8002/big"
	fetches "go client, go, $a" "$D/httpd" get "http://$a:8004/big"
done
says "curl, upload to node" "^$(wc -c <"$D/big")$" curl -sSf --data-binary "@$D/big" -H Expect: "http://$V4:8003/"
says "curl, keep-alive" 20 sh -c "curl -sf $(seq -f "http://$V4:8002/small?%g" -s ' ' 20) | grep -c small"
try "curl, closed port" sh -c "curl -s http://$V4:9/; test \$? = 7"
fetches "node client" node -e 'require("http").get(process.argv[1], r => r.pipe(process.stdout))' "http://$V4:8002/big"
says "requests" "^ok" python3 -c '
import sys, requests, hashlib, concurrent.futures as f
want = hashlib.sha256(open(sys.argv[1], "rb").read()).digest()
with requests.Session() as s, f.ThreadPoolExecutor(4) as pool:
    for got in pool.map(lambda i: s.get("http://%s:%d/big" % (sys.argv[2], 8001 + i % 4), timeout=60).content, range(12)):
        assert hashlib.sha256(got).digest() == want
print("ok")' "$D/big" "$V4"
says "openssl s_client" "^Verify return code\|TLSv1.3" sh -c "printf 'GET /small HTTP/1.0\r\n\r\n' | openssl s_client -connect $V4:8005"
says "wrk, nginx" "requests in" wrk -t 2 -c 16 -d 2 "http://$V4:8002/small"
if grep -q "Socket errors\|Non-2xx" "$W/out"; then echo "FAIL wrk had errors: $(cat "$W/out")"; else echo "ok wrk without errors"; fi
try "redis-benchmark" redis-benchmark -h "$V4" -q -n 4000 -c 20 -t set,get,lpush,mset
try "redis-benchmark, pipelined" redis-benchmark -h "$V6" -q -n 20000 -P 16 -t set,get
pg() { command -v "$1" || ls /usr/lib/postgresql/*/bin/"$1" | tail -1; }
try "pgbench, initialise" "$(pg pgbench)" -h "$V4" -U postgres -i -q -s 1 postgres
try "pgbench" "$(pg pgbench)" -h "$V4" -U postgres -c 4 -T 2 postgres
try "pgbench, IPv6, prepared, connection each" "$(pg pgbench)" -h "$V6" -U postgres -c 2 -T 1 -C -S -M prepared postgres
for a in "$V4" "$V6"; do
	for n in 1 8; do
		try_iperf "iperf3, TCP, $n, $a" -c "$a" -p 5201 -t 1 -P $n
		try_iperf "iperf3, TCP, $n, $a, reverse" -c "$a" -p 5201 -t 1 -P $n -R
		try_iperf "iperf3, UDP, $n, $a" -c "$a" -p 5201 -t 1 -P $n -u -b 20M
		try_iperf "iperf3, UDP, $n, $a, reverse" -c "$a" -p 5201 -t 1 -P $n -u -b 20M -R
	done
done
try_iperf "iperf3, both ways" -c "$V4" -p 5201 -t 1 --bidir
cp "$D/key" "$W/key" && chmod 600 "$W/key"
SSH="-i $W/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
says "ssh" "^42$" ssh $SSH -p 2222 "root@$V4" echo 42
fetches "ssh, a pipe" ssh $SSH -p 2222 "root@$V6" cat "$D/big"
try "scp, to" scp -q $SSH -P 2222 "$D/big" "root@[$V6]:$W.up"
fetches "scp, from" sh -c "scp -q $SSH -P 2222 root@$V4:$D/big $W/down >&2 && cat $W/down"
says "dig" "^192.0.2.7$" dig +short +tries=2 @"$V4" -p 5353 example.test
says "dig, IPv6" "^2001:db8::7$" dig +short @"$V6" -p 5353 example.test AAAA
says "dig, TCP after truncation" "ANSWER: 60" dig @"$V4" -p 5353 long.test TXT
rm -rf "$W"
