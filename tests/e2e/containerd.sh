# SPDX-License-Identifier: Apache-2.0
# Containers under containerd's runc-v2 shim, driven by ctr, with a daemon of the test's own.
. "$(dirname "$0")/../lib/e2e.sh"

[ "$(id -u)" = 0 ] || { echo "ok skipped: needs root"; exit 0; }
for tool in containerd ctr containerd-shim-runc-v2 busybox python3; do
	command -v $tool >/dev/null || { echo "ok skipped: $tool is not installed"; exit 0; }
done
CAISSON=$(readlink -f "$CAISSON")
S=$(mktemp -d /tmp/cctd.XXXXXX) # socket paths must be short
cat >"$S/config.toml" <<CONF
version = 2
root = "$S/root"
state = "$S/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$S/c.sock"
[ttrpc]
  address = "$S/t.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$S/opt"
CONF
containerd -c "$S/config.toml" >"$S/log" 2>&1 &
DAEMON=$!
ctrd() { timeout 60 ctr -a "$S/c.sock" "$@"; }
cleanup() {
	for i in $(ctrd task ls -q 2>/dev/null); do ctrd task kill -s 9 "$i"; sleep 0.3; ctrd task rm -f "$i"; done >/dev/null 2>&1
	for i in $(ctrd container ls -q 2>/dev/null); do ctrd container rm "$i"; done >/dev/null 2>&1
	kill "$DAEMON"
	wait "$DAEMON" 2>/dev/null
	rm -rf "$S" "$T"
}
trap cleanup EXIT
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
has() { case $1 in *"$2"*) ;; *) echo "'$1' lacks '$2'"; return 1 ;; esac; }
for i in $(seq 100); do ctrd version >/dev/null 2>&1 && break; sleep 0.1; done
if ! ctrd version >/dev/null 2>&1; then
	echo "ok skipped: containerd does not start here: $(tail -n 1 "$S/log")"
	exit 0
fi

# An image without a registry: one layer with busybox, in docker's archive form.
python3 - "$S/image.tar" "$(command -v busybox)" <<'PY'
import hashlib, io, json, sys, tarfile
out, busybox = sys.argv[1:]
buf = io.BytesIO()
with tarfile.open(fileobj=buf, mode="w") as t:
    for d in ("bin", "tmp", "etc", "proc", "sys", "dev"):
        i = tarfile.TarInfo(d); i.type = tarfile.DIRTYPE; i.mode = 0o755; t.addfile(i)
    i = t.gettarinfo(busybox, "bin/busybox"); i.mode = 0o755; i.type = tarfile.REGTYPE
    data = open(busybox, "rb").read(); i.size = len(data); t.addfile(i, io.BytesIO(data))
    for a in "sh cat echo sleep id touch ls ps true".split():
        i = tarfile.TarInfo("bin/" + a); i.type = tarfile.SYMTYPE; i.linkname = "busybox"; t.addfile(i)
layer = buf.getvalue()
config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"]},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
manifest = json.dumps([{"Config": "config.json", "RepoTags": ["localhost/bb:1"], "Layers": ["layer.tar"]}]).encode()
with tarfile.open(out, "w") as t:
    for n, d in (("config.json", config), ("layer.tar", layer), ("manifest.json", manifest)):
        i = tarfile.TarInfo(n); i.size = len(d); t.addfile(i, io.BytesIO(d))
PY
check "import" ctrd image import "$S/image.tar"
IMG=localhost/bb:1 RB="--runc-binary $CAISSON"
run() { ctrd run --rm $RB "$@" </dev/null; }

check "run" is "$(run $IMG t1 echo hi)" hi
status "run, status" 5 run $IMG t1 sh -c 'exit 5'
says "missing program" 1 "executable file not found in" run $IMG t1 nosuch
status "--read-only" 1 run --read-only $IMG t1 touch /x
check "--mount" is "$(echo f >"$T/f"; run --mount "type=bind,src=$T,dst=/v,options=rbind:ro" $IMG t1 cat /v/f)" f
check "run -d" ctrd run -d $RB $IMG t2 sh -c 'while :; do sleep 0.2; done'
check "task ls" has "$(ctrd task ls)" RUNNING
status "task exec" 4 ctrd task exec --exec-id e1 t2 sh -c 'exit 4'
check "task ps" has "$(ctrd task ps t2)" PID
check "task metrics" has "$(ctrd task metrics t2)" memory
check "task pause" ctrd task pause t2
check "task is paused" has "$(ctrd task ls)" PAUSED
check "task resume" ctrd task resume t2
ctrd task exec --exec-id e2 t2 sleep 888 </dev/null >/dev/null 2>&1 &
sleep 1
check "kill of an exec" ctrd task kill --exec-id e2 -s 9 t2
sleep 1
check "ended in the guest too" is "$(ctrd task exec --exec-id e3 t2 ps 2>/dev/null | grep -c 'sleep 888')" 0
check "task kill" ctrd task kill -s 9 t2
for i in $(seq 50); do ctrd task ls | grep -q STOPPED && break; sleep 0.1; done
check "task is stopped" has "$(ctrd task ls)" STOPPED
ctrd task rm t2 >/dev/null 2>&1
check "container rm" ctrd container rm t2
finish
