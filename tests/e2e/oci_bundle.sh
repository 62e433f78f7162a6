# SPDX-License-Identifier: Apache-2.0
# The OCI command line without an engine: life cycle, words and statuses that engines rely on,
# what is left behind, and what happens when a part is killed.
. "$(dirname "$0")/../lib/e2e.sh"

if [ "$(id -u)" != 0 ]; then
	echo "ok skipped: needs root"
	exit 0
fi
BUSYBOX=$(command -v busybox) || {
	echo "ok skipped: busybox is not installed"
	exit 0
}
CAISSON=$(readlink -f "$CAISSON")
B=$T/bundle R=$T/state
trap 'for i in $("$CAISSON" --root "$R" list -q); do "$CAISSON" --root "$R" delete --force "$i"; done; rm -rf "$T"' EXIT
oci() { timeout 60 "$CAISSON" --root "$R" "$@"; }
mkdir -p "$B/rootfs/bin" "$B/rootfs/tmp" "$B/rootfs/etc"
cp "$BUSYBOX" "$B/rootfs/bin/busybox"
for a in sh cat echo sleep ps id pwd ls true false kill env touch stat mknod mount hostname dd readlink head wc; do
	ln -s busybox "$B/rootfs/bin/$a"
done

# config PYTHON: a fresh config.json, edited by statements about c (the configuration) and p (process).
config() {
	rm -f "$B/config.json"
	oci spec --bundle "$B"
	python3 - "$B/config.json" "$1" <<'PY'
import json, sys
path, edit = sys.argv[1:]
c = json.load(open(path))
p = c["process"]
p["terminal"] = False
c["root"]["readonly"] = False
exec(edit)
json.dump(c, open(path, "w"))
PY
}
state_of() { oci state "$1" 2>/dev/null | sed -n 's/.*"status": "\(.*\)",/\1/p'; }
# wait_state ID STATUS: engines poll too.
wait_state() {
	local i
	for i in $(seq 100); do
		[ "$(state_of "$1")" = "$2" ] && return 0
		sleep 0.05
	done
	return 1
}
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
make() { oci create --bundle "$B" "$@" </dev/null >"$T/out" 2>&1; }
run() { oci run --bundle "$B" "$@" </dev/null; }
gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null || [ ! -e "/proc/$1" ]; }

# ---- life cycle ----
config 'p["args"] = ["sh", "-c", "echo up; exec sleep 1000"]'
check "create" make --pid-file "$T/pid" one
check "create prints nothing" test ! -s "$T/out"
check "pid file has no newline" sh -c "test \$(wc -l <'$T/pid') = 0"
check "state is created" is "$(state_of one)" created
check "state has the pid" sh -c "'$CAISSON' --root '$R' state one | grep -q \"\\\"pid\\\": \$(cat '$T/pid'),\""
check "the program does not run yet" test ! -s "$T/out"
says "same id again" 1 "container with given ID already exists" oci create --bundle "$B" one
check "start" oci start one
check "state is running" wait_state one running
sleep 0.3
check "its output is the creator's" grep -qx up "$T/out"
says "start twice" 1 "cannot start" oci start one
says "delete while it runs" 1 "cannot delete container one that is not stopped: running" oci delete one
check "exec" is "$(oci exec one echo hello </dev/null)" hello
status "exec's status" 7 oci exec one sh -c 'exit 7'
says "exec of a missing program" 255 "executable file not found in \$PATH" oci exec one nosuch
says "exec of a missing file" 255 "no such file or directory" oci exec one /no/such
check "exec's stdin" is "$(echo through | oci exec one cat)" through
check "exec's user" is "$(oci exec --user 12:34 one id -u </dev/null)" 12
for u in "+1" " 1" "1:" "-1" "4294967295" "4294967296" "1e3" "0x0" "1000abc" "" root "1:2:3"; do
	status "exec user string '$u' is refused" 255 oci exec --user "$u" one id
done
check "exec's cwd" is "$(oci exec --cwd /tmp one pwd </dev/null)" /tmp
status "exec with cwd in /proc/self/fd" 255 oci exec --cwd /proc/self/fd/7 one pwd
check "exec's environment" is "$(oci exec --env A=b one sh -c 'echo $A' </dev/null)" b
check "exec sees three files" is "$(oci exec one sh -c 'ls /proc/self/fd | wc -l' 5</ 6</etc </dev/null)" 4
oci exec --detach --pid-file "$T/epid" one sh -c 'sleep 777' </dev/null >/dev/null 2>&1
check "ps in JSON" sh -c "'$CAISSON' --root '$R' ps --format json one | grep -q '^\[1,[0-9]*\]'"
kill -9 "$(cat "$T/epid")"
sleep 0.3
check "killing exec's process ends the guest's" is "$(oci ps --format json one)" "[1]"
check "pause" oci pause one
check "state is paused" is "$(state_of one)" paused
says "exec in a paused container" 255 "paused" oci exec one true
check "a signal to a paused container is taken" oci kill one WINCH
check "resume" oci resume one
check "it goes on" oci exec one true
check "events" sh -c "'$CAISSON' --root '$R' events --stats one | grep -q '\"type\":\"stats\".*\"cpu\".*\"memory\".*\"pids\"'"
oci exec one sh -c 'i=0; while [ $i -lt 300 ]; do read -r x </proc/self/stat; i=$((i+1)); done' </dev/null
check "debug patch" sh -c "'$CAISSON' --root '$R' debug patch one | grep -Eq '^patched [1-9]'"
check "debug patch by process" is "$(oci debug patch "$(cat "$T/pid")" | grep -c '^patched ')" 1
says "debug patch of nothing" 1 "no container has the id or the process 999999" oci debug patch 999999
check "list" is "$(oci list -q)" one
check "kill" oci kill one KILL
check "state is stopped" wait_state one stopped
says "kill when stopped" 1 "container not running" oci kill one 9
status "kill --all when stopped" 0 oci kill --all one 9
says "exec when stopped" 255 "not running" oci exec one true
says "start when stopped" 1 "cannot start a container that has stopped" oci start one
check "delete" oci delete one
says "delete again" 1 "container does not exist" oci delete one
status "delete --force again" 0 oci delete --force one
says "state of nothing" 1 "container does not exist" oci state one
check "nothing is left of it" is "$(ls "$R")" ""
make two
check "a created container can be deleted" oci delete two
make two
check "or killed" sh -c "'$CAISSON' --root '$R' kill two KILL"
check "and is stopped then" wait_state two stopped
oci delete two
for id in .. a/b -x "$(printf 'x%.0s' $(seq 300))" 'a b' ''; do
	status "id '$(echo "$id" | head -c 20)' is refused" 1 oci create --bundle "$B" -- "$id"
done

# ---- run ----
config 'p["args"] = ["sh", "-c", "exit 7"]'
status "run, status" 7 run r1
config 'p["args"] = ["sh", "-c", "kill -9 $$"]'
status "run, killed (pid 1 can not)" 0 run r2
config 'p["args"] = ["sh", "-c", "sh -c \"kill -9 \\$\\$\"; exit $?"]'
status "run, a child is killed" 137 run r3
config 'p["args"] = ["nosuch"]'
says "run, missing program" 1 "executable file not found in \$PATH" run r4
config 'p["args"] = ["/etc"]'
says "run, a directory" 1 "permission denied" run r4
config 'p["cwd"] = "/proc/self/fd/9"'
says "run, cwd in /proc/self/fd" 1 "chdir to cwd" run r4
config 'p["cwd"] = "/made/for/me"; p["args"] = ["pwd"]'
check "run, cwd is made" is "$(run r4)" /made/for/me
config 'p["args"] = ["sh", "-c", "echo x > /written"]'
check "writes go to the rootfs" sh -c "cd '$B' && '$CAISSON' --root '$R' run --bundle . r5 && grep -qx x rootfs/written"
check "or stay inside with --overlay memory" sh -c "rm '$B/rootfs/written'; '$CAISSON' --root '$R' --overlay memory run --bundle '$B' r5 && test ! -e '$B/rootfs/written'"
config 'p["args"] = ["touch", "/new"]; c["root"]["readonly"] = True'
status "read-only root" 1 run r6
config 'p["args"] = ["id"]; p["user"] = {"uid": 2147483648, "gid": 5, "additionalGids": [7, 8]}'
check "big user ids" sh -c "'$CAISSON' --root '$R' run --bundle '$B' r7 </dev/null | grep -q 'uid=2147483648.*gid=5'"
config 'p["args"] = ["cat", "/proc/self/status"]; p["capabilities"] = {"bounding": ["CAP_KILL"], "permitted": ["CAP_KILL"], "effective": ["CAP_KILL"]}'
check "capabilities" sh -c "'$CAISSON' --root '$R' run --bundle '$B' r7 </dev/null | grep -q 'CapEff:.0*20\$'"
config 'p["args"] = ["hostname"]; c["hostname"] = "boxy"'
check "hostname" is "$(run r7)" boxy
mkdir -p "$T/vol"; echo there >"$T/vol/f"
config 'c["mounts"].append({"destination": "/v", "type": "bind", "source": "'"$T"'/vol", "options": ["rbind", "rprivate"]}); p["args"] = ["sh", "-c", "cat /v/f; echo back > /v/g"]'
check "bind" is "$(run r8)" there
check "bind, written" grep -qx back "$T/vol/g"
config 'c["mounts"].append({"destination": "/v", "type": "bind", "source": "'"$T"'/vol", "options": ["rbind", "ro"]}); p["args"] = ["touch", "/v/h"]'
status "bind, read-only" 1 run r8
config 'p["args"] = ["cat", "/etc/secret"]; c["linux"]["maskedPaths"].append("/etc/secret")'
echo secret >"$B/rootfs/etc/secret"
check "masked file" is "$(run r9)" ""
config 'p["args"] = ["touch", "/tmp/x"]; c["linux"]["readonlyPaths"].append("/tmp")'
status "read-only path" 1 run r9
ln -sfn /proc/sys/kernel/core_pattern "$B/rootfs/dev-null"
before=$(cat /proc/sys/kernel/core_pattern)
config 'c["linux"]["sysctl"] = {"kernel.core_pattern": "|/bin/evil"}'
says "sysctl of the host is refused" 1 "linux.sysctl" run r9
config 'c["linux"]["sysctl"] = {"net.core.somaxconn": "1\n2"}'
says "sysctl with a newline" 1 "one line" run r9
check "core_pattern is what it was" is "$(cat /proc/sys/kernel/core_pattern)" "$before"
config 'c["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]}; p["args"] = ["sh", "-c", "busybox mkdir /tmp/q"]'
check "seccomp" sh -c "'$CAISSON' --root '$R' run --bundle '$B' r9 </dev/null 2>&1 | grep -qi 'not supported'"
config 'p["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 77, "hard": 1048576}]; p["args"] = ["sh", "-c", "ulimit -n"]'
check "rlimits above the host's" is "$(run r9)" 77
config 'p["args"] = ["env"]; p["env"] = ["ONLY=this", "PATH=/bin"]'
check "the caller's environment stays out" sh -c "SECRET=1 '$CAISSON' --root '$R' run --bundle '$B' r9 </dev/null | { ! grep -q SECRET; }"
check "an empty environment is enough" sh -c "env -i '$CAISSON' --root '$R' run --bundle '$B' r9 </dev/null | grep -qx ONLY=this"

# ---- mistakes in config.json name their place ----
bad() {
	config "$2"
	says "$1" 1 "$3" run bad
}
bad "unknown mount type" 'c["mounts"][0]["type"] = "nfs"' "mounts[0]: type: 'nfs'"
bad "unknown mount option" 'c["mounts"][1]["options"].append("frob=1")' "mounts[1]"
bad "id-mapped mount" 'c["mounts"][1]["uidMappings"] = []' "mounts[1]"
bad "no args" 'p["args"] = []' "process: args"
bad "relative cwd" 'p["cwd"] = "tmp"' "process: cwd"
bad "uid is text" 'p["user"]["uid"] = "0"' "process.user.uid"
bad "uid too big" 'p["user"]["uid"] = 4294967295' "process.user.uid"
bad "negative uid" 'p["user"]["uid"] = -1' "process.user.uid"
bad "unknown rlimit" 'p["rlimits"][0]["type"] = "RLIMIT_X"' "process.rlimits[0]"
bad "missing root" 'c["root"]["path"] = "none"' "root.path"
bad "unknown namespace" 'c["linux"]["namespaces"].append({"type": "time2"})' "linux.namespaces[5]"
bad "host pid namespace" 'c["linux"]["namespaces"][0]["path"] = "/proc/1/ns/pid"' "linux.namespaces[0]"
bad "hook inside" 'c["hooks"] = {"startContainer": [{"path": "/bin/true"}]}' "hooks.startContainer"
bad "terminal without a socket" 'p["terminal"] = True' "terminal"
bad "seccomp listener" 'c["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/x"}' "linux.seccomp.listenerPath"
printf '{"ociVersion"' >"$B/config.json"
says "not JSON" 1 "config.json is not a JSON object" run bad
rm "$B/config.json"
says "no config.json" 1 "config.json: no such file or directory" run bad
says "no bundle" 1 "no such file or directory" oci create --bundle "$T/none" bad
config 'p["args"] = ["nosuch"]'
oci --log "$T/log" --log-format json create --bundle "$B" bad </dev/null >/dev/null 2>&1
check "the log is JSON" python3 -c 'import json,sys; e = json.loads(open(sys.argv[1]).readlines()[-1]); assert e["level"] == "error" and "not found in $PATH" in e["msg"] and e["time"].endswith("Z")' "$T/log"

# ---- fds, signals, deaths ----
config 'p["args"] = ["sh", "-c", "ls /proc/self/fd | wc -l; exec sleep 1000"]'
mkfifo "$T/fifo"
cat "$T/fifo" >/dev/null &
reader=$!
(exec 7>"$T/fifo" 8</ 9<"$B"; oci create --bundle "$B" --pid-file "$T/pid" fd </dev/null >"$T/out" 2>&1)
sleep 0.2
check "files of the caller are not kept open" gone "$reader"
oci start fd
sleep 0.3
check "the program has stdio only" grep -qx 4 "$T/out"
W=$(cat "$T/pid")
check "the waiter is not root" sh -c "grep -q '^Uid:.65534' /proc/$W/status"
check "and has no capabilities" sh -c "grep -q '^CapEff:.0000000000000000' /proc/$W/status && grep -q '^NoNewPrivs:.1' /proc/$W/status"
kids=$(pgrep -P "$W" | tr '\n' ' ')
check "it has gofer and sentry below it" test "$(echo $kids | wc -w)" = 2
kill -9 "$W"
sleep 0.3
check "its death ends them" sh -c "for k in $kids; do test ! -e /proc/\$k || exit 1; done"
check "state is stopped after that" is "$(state_of fd)" stopped
check "delete --force cleans up" sh -c "'$CAISSON' --root '$R' delete --force fd && test -z \"\$(ls '$R')\""
for victim in sentry gofer; do
	make --pid-file "$T/pid" k
	oci start k
	pkill -9 -P "$(cat "$T/pid")" -f "caisson-$victim"
	check "kill -9 of the $victim: stopped" wait_state k stopped
	check "kill -9 of the $victim: delete" oci delete k
done
config 'p["args"] = ["sh", "-c", "trap \"echo got; exit 3\" TERM; echo ready; while :; do sleep 0.1; done"]'
make --pid-file "$T/pid" sig
oci start sig
for i in $(seq 50); do grep -q ready "$T/out" && break; sleep 0.1; done
kill -TERM "$(cat "$T/pid")"
check "a signal to the waiter reaches the program" wait_state sig stopped
check "which handled it" grep -qx got "$T/out"
oci delete sig

# ---- cgroups ----
if [ -d /sys/fs/cgroup/memory ] || [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	CG=caisson-e2e-$$
	config 'c["linux"]["cgroupsPath"] = "/'$CG'/c"; c["linux"]["resources"] = {"memory": {"limit": 100000000}, "pids": {"limit": 50}, "cpu": {"shares": 512}}; p["args"] = ["sleep", "1000"]'
	make --pid-file "$T/pid" cg
	oci start cg
	check "the waiter is in its cgroup" sh -c "cat /sys/fs/cgroup/memory/$CG/c/cgroup.procs /sys/fs/cgroup/$CG/c/cgroup.procs 2>/dev/null | grep -qx $(cat "$T/pid")"
	check "update from stdin" sh -c "echo '{\"memory\":{\"limit\":200000000},\"pids\":{\"limit\":60}}' | '$CAISSON' --root '$R' update --resources - cg"
	check "update by flags" oci update --pids-limit 70 cg
	oci delete --force cg
	check "its cgroup is gone" sh -c "test ! -e /sys/fs/cgroup/memory/$CG/c && test ! -e /sys/fs/cgroup/$CG/c"
	find /sys/fs/cgroup -depth -type d -name "$CG" -exec rmdir {} + 2>/dev/null
fi

# ---- leaks ----
config 'p["args"] = ["true"]'
mounts=$(wc -l </proc/self/mountinfo)
for i in $(seq 10); do run "loop$i" >/dev/null; done
check "no mount is left" is "$(wc -l </proc/self/mountinfo)" "$mounts"
check "no state is left" is "$(ls "$R")" ""
check "no process is left" sh -c "! pgrep -f '[r]oot $R (create|run)' >/dev/null"
finish
