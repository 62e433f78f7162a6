# SPDX-License-Identifier: Apache-2.0
# runs alone
# Pods under containerd's CRI plugin, as the kubelet makes them: a daemon, a CNI network and images of
# the test's own; Caisson is the runtime handler.
. "$(dirname "$0")/../lib/e2e.sh"

[ "$(id -u)" = 0 ] || { echo "ok skipped: needs root"; exit 0; }
for tool in containerd ctr containerd-shim-runc-v2 busybox podman python3 ip; do
	command -v $tool >/dev/null || { echo "ok skipped: $tool is not installed"; exit 0; }
done
[ -x /usr/lib/cni/bridge ] || { echo "ok skipped: containernetworking-plugins is not installed"; exit 0; }
PY=/usr/bin/python3 # Debian's, which has Debian's modules
$PY -c 'import grpc' 2>/dev/null || { echo "ok skipped: python3-grpcio is not installed"; exit 0; }
CAISSON=$(readlink -f "$CAISSON")
LIB=$(readlink -f "$(dirname "$0")/../lib")
S=$(mktemp -d /tmp/ccri.XXXXXX) # socket paths must be short
mkdir -p "$S/net" "$S/share" "$S/img/bin" "$S/img/tmp"
cat >"$S/net/10-test.conflist" <<CONF
{ "cniVersion": "0.4.0", "name": "caissoncri", "plugins": [
  { "type": "bridge", "bridge": "ccri0", "isGateway": true, "ipMasq": false,
    "ipam": { "type": "host-local", "dataDir": "$S/ipam", "ranges": [[{ "subnet": "10.213.77.0/24" }]],
              "routes": [{ "dst": "0.0.0.0/0" }] } } ] }
CONF
cat >"$S/config.toml" <<CONF
version = 2
root = "$S/root"
state = "$S/state"
[grpc]
  address = "$S/c.sock"
[ttrpc]
  address = "$S/t.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$S/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/bb:latest"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$S/net"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "caisson"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.caisson]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.caisson.options]
      BinaryName = "$CAISSON"
CONF
DAEMON=
cri() { timeout 120 $PY "$LIB/cri.py" "$S/c.sock" "$@"; }
cleanup() {
	[ -z "${POD:-}" ] || { cri stop-pod "$POD"; cri rm-pod "$POD"; } >/dev/null 2>&1
	[ -z "$DAEMON" ] || { kill "$DAEMON"; wait "$DAEMON"; } 2>/dev/null
	ip link del ccri0 2>/dev/null
	podman --root "$S/pr" --runroot "$S/prr" rmi -fa >/dev/null 2>&1
	umount "$S/pr/overlay" 2>/dev/null
	for m in $(awk -v s="$S/" 'index($2, s) == 1 { print $2 }' /proc/mounts | sort -r); do umount -l "$m"; done
	rm -rf "$S" "$T"
}
trap cleanup EXIT
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
has() { case $1 in *"$2"*) ;; *) echo "'$1' lacks '$2'"; return 1 ;; esac; }
until_ok() { # N COMMAND...: tries it N times, 0.1 s apart
	local n=$1
	shift
	while [ "$n" -gt 0 ]; do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; n=$((n - 1)); done
	return 1
}

cp "$(command -v busybox)" "$S/img/bin/busybox"
chroot "$S/img" /bin/busybox --install -s /bin
PM="podman --root $S/pr --runroot $S/prr --tmpdir $S/pt"
if ! tar -C "$S/img" -c . | $PM import -c 'ENV PATH=/bin' -c 'ENTRYPOINT ["/bin/sleep","1000000"]' - bb >/dev/null 2>"$T/err" ||
	! $PM save -q --format docker-archive -o "$S/bb.tar" bb 2>"$T/err"; then
	echo "ok skipped: no image can be made: $(tail -n 1 "$T/err")"
	exit 0
fi
containerd -c "$S/config.toml" >"$S/log" 2>&1 &
DAEMON=$!
until_ok 200 ctr -a "$S/c.sock" -n k8s.io version

check "the image" timeout 60 ctr -a "$S/c.sock" -n k8s.io image import "$S/bb.tar"

pods() { # PID-SHARED: a pod with two containers, through its whole life
	local p=$1 name=pod$1
	POD=$(cri pod $name caisson "$p") || { fail "$name" "no sandbox: $(grep -E "level=(error|fatal)|grpc.v1.cri" "$S/log" | tail -n 2 | cut -c1-400)"; return; }
	echo "from the file" >"$S/share/f"
	A=$(cri create "$POD" $name "$p" a localhost/bb:latest $name-a.log "$S/share" httpd -f -p 80 -h /share)
	B=$(cri create "$POD" $name "$p" b localhost/bb:latest $name-b.log "$S/share" sh -c 'trap "exit 3" TERM; echo b speaks; while :; do sleep 0.1; done')
	check "$name: start" cri start "$A"
	check "$name: start the other" cri start "$B"
	check "$name: localhost" is "$(until_ok 50 cri exec "$B" 10 wget -q -O - http://127.0.0.1/f; cri exec "$B" 10 wget -q -O - http://127.0.0.1/f)" "from the file"
	IP=$(cri exec "$A" 10 ifconfig eth0 | sed -n 's/.*inet addr:\([0-9.]*\).*/\1/p')
	check "$name: the pod's address from the host" is "$(python3 -c "import urllib.request as u; print(u.urlopen('http://$IP/f', timeout=20).read().decode().strip())")" "from the file"
	status "$name: exec-sync, status" 5 cri exec "$A" 10 sh -c 'exit 5'
	status "$name: exec-sync, time limit" 1 cri exec "$A" 1 sleep 77
	check "$name: and the process is gone" until_ok 50 sh -c "! $PY $LIB/cri.py $S/c.sock exec $A 10 ps | grep -q 'sleep 77'"
	check "$name: logs" grep -q "b speaks" "/tmp/$name-b.log"
	check "$name: hostname" is "$(cri exec "$B" 10 hostname)" $name
	check "$name: pid namespace" is "$(cri exec "$A" 10 ps | grep -c 'b speaks')" "$p"
	check "$name: stats" test "$(cri stats "$A" | tr -d ' ')" -gt 0
	check "$name: stop one" cri stop "$B" 10
	check "$name: its exit code" is "$(cri status "$B")" "2 3"
	check "$name: the other runs" is "$(cri status "$A")" "1 0"
	check "$name: remove one" cri rm "$B"
	check "$name: stop the pod" cri stop-pod "$POD"
	check "$name: what ran in it" has "$(cri status "$A")" "2 "
	check "$name: remove the pod" cri rm-pod "$POD"
	POD=
	rm -f /tmp/$name-?.log
}
pods 0
pods 1
check "no process is left" until_ok 50 sh -c "! ps -eo args | grep -v grep | grep -q '$S.*shim\|caisson-waiter.*$S'"
finish
