# SPDX-License-Identifier: Apache-2.0
# Containers under podman, with storage of their own and without a network.
. "$(dirname "$0")/../lib/e2e.sh"

[ "$(id -u)" = 0 ] || { echo "ok skipped: needs root"; exit 0; }
for tool in podman conmon busybox; do
	command -v $tool >/dev/null || { echo "ok skipped: $tool is not installed"; exit 0; }
done
CAISSON=$(readlink -f "$CAISSON")
cat >"$T/containers.conf" <<CONF
[containers]
log_driver="k8s-file"
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
runtime_supports_json=["crun","runc","caisson"]
runtime_supports_nocgroups=["crun","caisson"]
CONF
export CONTAINERS_CONF=$T/containers.conf
PODMAN="podman --root $T/root --runroot $T/run --tmpdir $T/tmp --runtime $CAISSON"
pod() { timeout 60 $PODMAN "$@"; }
cleanup() {
	pod rm -fa -t 0 >/dev/null 2>&1
	pod rmi -fa >/dev/null 2>&1
	umount "$T/root/overlay" 2>/dev/null
	rm -rf "$T"
}
trap cleanup EXIT
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
has() { case $1 in *"$2"*) ;; *) echo "'$1' lacks '$2'"; return 1 ;; esac; }
NET="--network none"

mkdir -p "$T/img/bin" "$T/img/tmp"
cp "$(command -v busybox)" "$T/img/bin/busybox"
chroot "$T/img" /bin/busybox --install -s /bin
if ! tar -C "$T/img" -c . | pod import -c 'ENV PATH=/bin' - bb >/dev/null 2>"$T/err"; then
	echo "ok skipped: podman does not work here: $(tail -n 1 "$T/err")"
	exit 0
fi
run() { pod run --rm $NET "$@" </dev/null; }

check "run" is "$(run bb echo hi)" hi
status "run, status" 7 run bb sh -c 'exit 7'
status "run, missing program" 127 run bb nosuch
status "run, not executable" 126 run bb /etc
check "10 MB through stdin" is "$(head -c 10000000 /dev/zero | pod run --rm -i $NET bb cat | md5sum)" "$(head -c 10000000 /dev/zero | md5sum)"
check "stdout and stderr are apart" is "$(run bb sh -c 'echo o; echo e >&2' 2>/dev/null)" o
status "--read-only" 1 run --read-only bb touch /x
check "--read-only has a tmpfs" run --read-only bb touch /tmp/x
mkdir "$T/vol"
echo there >"$T/vol/f"
check "-v, read" is "$(run -v "$T/vol:/v" bb cat /v/f)" there
check "-v, write" run -v "$T/vol:/v" bb sh -c 'echo back > /v/g'
check "-v, written" grep -qx back "$T/vol/g"
status "-v ro" 1 run -v "$T/vol:/v:ro" bb touch /v/h
status "--tmpfs has a size" 1 run --tmpfs /t:size=1m bb dd if=/dev/zero of=/t/x bs=1M count=2
check "--user" is "$(run --user 1000:1001 bb sh -c 'id -u; id -g' | tr '\n' ' ')" "1000 1001 "
check "--hostname" is "$(run --hostname boxy bb hostname)" boxy
check "--init" has "$(run --init bb ps)" podman-init
check "-e" is "$(run -e A=b bb sh -c 'echo $A')" b
check "own network" is "$(run bb ls /sys/class/net 2>/dev/null | grep -vc '^lo$')" 0
status "--cap-drop" 1 run --cap-drop CHOWN bb chown 1:1 /tmp
status "--memory" 137 run --memory 64m bb dd if=/dev/zero of=/dev/null bs=200M count=1
check "--pids-limit" has "$(run --pids-limit 20 bb sh -c 'i=0; while [ $i -lt 40 ]; do sleep 3 & i=$((i+1)); done' 2>&1)" "can't fork"

# ---- one that stays ----
check "run -d" pod run -d --name c $NET bb sh -c 'trap "exit 3" TERM; echo started; while :; do sleep 0.2; done'
for i in $(seq 50); do pod logs c 2>/dev/null | grep -q started && break; sleep 0.1; done
check "logs" is "$(pod logs c)" started
check "ps" has "$(pod ps --format '{{.Names}} {{.Status}}')" "c Up"
status "exec, status" 5 pod exec c sh -c 'exit 5'
check "exec -i" is "$(echo abc | pod exec -i c cat)" abc
check "exec -u" is "$(pod exec -u 5 c id -u)" 5
check "exec -d" pod exec -d c sleep 555
check "top through ps" has "$(pod top c -ef)" "sleep 555"
check "stats" has "$(pod stats --no-stream --format '{{.Name}}' c)" c
check "pause" pod pause c
check "unpause" pod unpause c
echo data >"$T/data"
check "cp in" pod cp "$T/data" c:/data
check "cp in, seen" is "$(pod exec c cat /data)" data
check "cp out" sh -c "$PODMAN exec c sh -c 'echo out > /out' && $PODMAN cp c:/out '$T/out' && grep -qx out '$T/out'"
check "diff" has "$(pod diff c)" "/data"
check "update" pod update --memory 100m c
check "stop" pod stop -t 10 c
check "wait" is "$(pod wait c)" 3
check "start again" pod start c
check "kill" pod kill -s KILL c
check "killed" is "$(pod wait c)" 137
check "restart" pod restart -t 0 c
check "commit" pod commit -q c kept
check "committed" is "$(run kept cat /data)" data
check "rm -f" pod rm -f -t 0 c

cat >"$T/drive" <<'STEPS'
expect #
send stty size\r
expect 33 101
resize 40x120
pause 1
send stty size\r
expect 40 120
send exit 9\r
status 9
STEPS
check "run -it" timeout 60 python3 "$(dirname "$0")/../lib/tty_drive.py" 33x101 "$T/drive" -- $PODMAN run --rm -it $NET bb sh
finish
