# SPDX-License-Identifier: Apache-2.0
# Containers that share a sandbox: podman pods, and bundles joined by namespace paths or annotations.
. "$(dirname "$0")/../lib/e2e.sh"

[ "$(id -u)" = 0 ] || { echo "ok skipped: needs root"; exit 0; }
for tool in busybox jq; do
	command -v $tool >/dev/null || { echo "ok skipped: $tool is not installed"; exit 0; }
done
CAISSON=$(readlink -f "$CAISSON")
R="$CAISSON --root $T/state"
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
has() { case $1 in *"$2"*) ;; *) echo "'$1' lacks '$2'"; return 1 ;; esac; }
lacks() { case $1 in *"$2"*) echo "'$1' has '$2'"; return 1 ;; esac; }
until_ok() { # N COMMAND...: tries it N times, 0.1 s apart
	local n=$1
	shift
	while [ "$n" -gt 0 ]; do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; n=$((n - 1)); done
	return 1
}
status_is() { is "$(timeout 20 $R state "$1" | jq -r .status)" "$2"; }

# ---- bundles ----
mkdir -p "$T/fs/bin" "$T/fs/tmp" "$T/fs/proc" "$T/share"
cp "$(command -v busybox)" "$T/fs/bin/busybox"
chroot "$T/fs" /bin/busybox --install -s /bin
mkfifo "$T/share/fifo"
bundle() { # NAME JQ-EXPRESSION SHELL-TEXT: a bundle with a root of its own
	mkdir -p "$T/$1"
	cp -a "$T/fs" "$T/$1/rootfs"
	(cd "$T/$1" && rm -f config.json && $CAISSON spec)
	jq --arg cmd "$3" --arg share "$T/share" '.process.terminal=false | .root.readonly=false
		| .process.args=["sh","-c",$cmd]
		| .mounts += [{destination:"/share",type:"bind",source:$share,options:["bind","rw"]}]
		| '"$2" "$T/$1/config.json" >"$T/$1/new" && mv "$T/$1/new" "$T/$1/config.json"
}
start() { timeout 60 $R create --bundle "$T/$1" --pid-file "$T/$1.pid" "$1" >"$T/$1.out" 2>"$T/$1.err" </dev/null && timeout 60 $R start "$1"; }
stop() { timeout 60 $R delete --force "$1"; }
cleanup() {
	for id in c b a s t; do stop $id >/dev/null 2>&1; done
	[ -z "${PODMAN:-}" ] || $PODMAN pod rm -fa -t 0 >/dev/null 2>&1
	[ -z "${PODMAN:-}" ] || $PODMAN rmi -fa >/dev/null 2>&1
	umount "$T/root/overlay" 2>/dev/null
	rm -rf "$T"
}
trap cleanup EXIT
ns() { # KINDS PID: linux.namespaces with those joined by path
	echo '.linux.namespaces |= map(.type as $t | if ('"$1"' | index($t)) then .path = "/proc/'"$2"'/ns/" + (if $t == "network" then "net" else $t end) else . end)'
}
bundle s '.hostname="podhost" | .annotations={"io.kubernetes.cri.container-type":"sandbox"}' 'sleep 1000'
check "the sandbox's container" start s
S=$(cat "$T/s.pid")
bundle a "$(ns '["network","ipc","uts"]' "$S")" 'echo a >/only-a; echo through >/share/fifo; httpd -f -p 127.0.0.1:8080 -h /share'
check "joined by paths" start a
bundle b "$(ns '["network","ipc","uts","pid"]' "$S")"' | .annotations={"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-id":"s"}' 'sleep 1001'
check "joined by annotation, pid namespace shared" start b
echo served >"$T/share/f"
ex() { timeout 30 $R exec "$@"; }
check "a FIFO between containers" is "$(ex b cat /share/fifo)" through
check "one network" is "$(until_ok 50 ex b wget -q -O /dev/null http://127.0.0.1:8080/f; ex b wget -q -O - http://127.0.0.1:8080/f)" served
check "uts shared" is "$(ex a hostname)" podhost
check "roots apart" is "$(ex a ls /only-a; ex b ls /only-a 2>/dev/null; ex s ls /only-a 2>/dev/null)" /only-a
check "pid namespaces apart" is "$(ex a ps | grep -c 'sleep 100')" 0
check "pid 1 of one's own" has "$(ex a ps | grep ' 1 ')" "httpd"
check "pid namespace shared" has "$(ex b ps)" "sleep 1000"
check "seen from the other side" has "$(ex s ps)" "sleep 1001"
check "ps counts its own only" is "$($R ps --format json b | jq length)" 1
bundle c "$(ns '["network"]' "$(cat "$T/a.pid")")" 'trap "exit 4" TERM; echo ready; while :; do sleep 0.1; done'
check "joined through one that has joined" start c
until_ok 50 grep -q ready "$T/c.out"
check "not the others' uts" is "$(ex c hostname)" caisson
check "kill reaches one" $R kill c TERM
check "it alone ends" until_ok 50 status_is c stopped
check "others go on" is "$(ex b wget -q -O - http://127.0.0.1:8080/f)" served
check "delete one" stop c
check "kill -9 of one's own process" sh -c "kill -9 $(cat "$T/b.pid")"
check "its processes end" until_ok 50 sh -c "! $R exec s ps | grep -q 'sleep 1001'"
check "delete a running one" stop a
gone() { ! ps -eo args | grep -v grep | grep -q "$T/$1"; }
check "delete what was killed" stop b
check "the same again" start b
says "a namespace of nobody's" 1 'linux.namespaces[' sh -c "cd $T/a && jq '.linux.namespaces |= map(if .type == \"ipc\" then .path = \"/proc/1/ns/ipc\" else . end)' config.json >n && mv n config.json && exec $R create --bundle $T/a t"
bundle t "$(ns '["pid"]' "$S")" true
says "a network of one's own in a shared sandbox" 1 'which has one network' $R create --bundle "$T/t" t
check "the sandbox ends" $R kill s KILL
check "and with it all" until_ok 50 status_is b stopped
for id in b s; do check "delete $id" stop $id; done
check "nothing left" is "$(ls "$T/state")" ""

# ---- podman ----
for tool in podman conmon; do
	command -v $tool >/dev/null || { echo "ok skipped: $tool is not installed"; finish; }
done
cat >"$T/containers.conf" <<CONF
[containers]
log_driver="k8s-file"
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
runtime_supports_json=["crun","runc","caisson"]
CONF
export CONTAINERS_CONF=$T/containers.conf
PODMAN="podman --root $T/root --runroot $T/run --tmpdir $T/tmp --runtime $CAISSON"
pod() { timeout 60 $PODMAN "$@"; }
if ! tar -C "$T/fs" -c . | pod import -c 'ENV PATH=/bin' - bb >/dev/null 2>"$T/err"; then
	echo "ok skipped: podman does not work here: $(tail -n 1 "$T/err")"
	finish
fi
check "podman pod create" pod pod create --name p --network none --infra-image bb --infra-command "/bin/sleep 1000"
check "run in it" pod run -d --pod p --name web -v "$T/share:/v" bb httpd -f -p 127.0.0.1:80 -h /v
check "localhost is shared" is "$(pod run --rm --pod p bb sh -c 'for i in 1 2 3 4 5 6 7 8 9; do wget -q -O - http://127.0.0.1/f && break; sleep 0.3; done' </dev/null)" served
status "exit status in a pod" 7 pod run --rm --pod p bb sh -c 'exit 7'
check "exec in a pod" is "$(pod exec web hostname)" p
check "stop one" pod stop -t 1 web
check "start it again" pod start web
check "pod ps" has "$(pod pod ps --format '{{.Name}} {{.Status}} {{.NumberOfContainers}}')" "p Running 2"
check "pod stop" pod pod stop -t 1 p
check "pod start" pod pod start p
check "after the restart" is "$(pod run --rm --pod p bb sh -c 'for i in 1 2 3 4 5 6 7 8 9; do wget -q -O - http://127.0.0.1/f && break; sleep 0.3; done' </dev/null)" served
check "pod rm" pod pod rm -f -t 0 p
check "--network container:" pod run -d --name one --network none bb sh -c 'echo one >/tmp/f; exec httpd -f -p 127.0.0.1:80 -h /tmp'
check "--network container:, reached" is "$(pod run --rm --network container:one bb sh -c 'for i in 1 2 3 4 5 6 7 8 9; do wget -q -O - http://127.0.0.1/f && break; sleep 0.3; done' </dev/null)" one
check "rm" pod rm -f -t 0 one
finish
