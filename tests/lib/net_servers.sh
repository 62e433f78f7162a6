#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# net_servers.sh DIR: starts the servers that net_clients.sh talks to, all of them on every address
# of this network namespace, and says "ready" in DIR/ready once each listens. DIR holds big (the file
# that is served), key and key.pub (ssh), tls.pem, httpd (net_httpd.go built) and is writable. Runs until
# it is killed. Used natively and, with IN_BOX set, in the sandbox.
set -u
D=$1
W=$(mktemp -d)
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
chmod 755 "$W"
ip link set lo up 2>/dev/null

python3 -m http.server 8001 --bind :: --directory "$D" >/dev/null 2>&1 &
mkdir -p "$W/nginx"
cat >"$W/nginx.conf" <<EOF
daemon off; worker_processes 2; pid $W/nginx.pid; error_log $W/nginx.err; user root;
events { worker_connections 512; }
http { access_log off; sendfile on; client_body_temp_path $W/nginx; proxy_temp_path $W/nginx;
	fastcgi_temp_path $W/nginx; uwsgi_temp_path $W/nginx; scgi_temp_path $W/nginx;
	server { listen 8002; listen [::]:8002; root $D; location = /small { return 200 "small\n"; } } }
EOF
nginx -c "$W/nginx.conf" -p "$W" 2>"$W/nginx.log" &
node -e '
const fs = require("fs");
require("http").createServer((q, r) => {
	if (q.method == "POST") { let n = 0; q.on("data", d => n += d.length); q.on("end", () => r.end(n + "\n")); }
	else fs.createReadStream(process.argv[1] + q.url).on("error", () => r.destroy()).pipe(r);
}).listen(8003, "::");' "$D" &
"$D/httpd" serve :8004 "$D" &
(cd "$D" && exec openssl s_server -quiet -accept '*:8005' -cert tls.pem -key tls.pem -WWW) >/dev/null 2>&1 &
cd "$W"
redis-server --port 6379 --bind '*' '-::*' --protected-mode no --save '' --appendonly no --dir "$W" >"$W/redis.log" &
dnsmasq --keep-in-foreground --port 5353 --no-resolv --no-hosts --user=root --pid-file="$W/dnsmasq.pid" \
	--address=/example.test/192.0.2.7 --address=/example.test/2001:db8::7 --edns-packet-max=4096 \
	$(i=0; while [ $i -lt 60 ]; do printf ' --txt-record=long.test,%0200d' $i; i=$((i + 1)); done) &
iperf3 -s -p 5201 >/dev/null 2>&1 &
mkdir -p /run/sshd
# The sandbox's view of the host's /etc has no password file, and sshd takes root for locked then.
[ -n "${IN_BOX:-}" ] && echo 'root:*:::::::' >/etc/shadow
cp "$D/key" "$W/host_key" && cp "$D/key.pub" "$W/authorized" && chmod 600 "$W/host_key" "$W/authorized"
cat >"$W/sshd.conf" <<EOF
Port 2222
HostKey $W/host_key
AuthorizedKeysFile $W/authorized
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile $W/sshd.pid
Subsystem sftp internal-sftp
EOF
/usr/sbin/sshd -D -f "$W/sshd.conf" -E "$W/sshd.log" &
PG=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
mkdir "$W/pg" && chown postgres "$W/pg"
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
as_postgres "$PG/initdb" -D "$W/pg" -A trust --no-sync >"$W/initdb.log" 2>&1
echo "host all all all trust" >>"$W/pg/pg_hba.conf"
as_postgres "$PG/postgres" -D "$W/pg" -c listen_addresses='*' -c unix_socket_directories="$W/pg" \
	-c fsync=off >"$W/pg.log" 2>&1 &
listening() {
	for port in 8001 8002 8003 8004 8005 6379 5353 5201 2222 5432; do
		ss -Hltn "sport = :$port" | grep -q . || { echo $port >"$D/waits"; return 1; }
	done
}
until listening; do sleep 0.3; done
echo ready >"$D/ready"
while :; do sleep 1000; done
