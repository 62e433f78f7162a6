# SPDX-License-Identifier: Apache-2.0
# What a caller hands on to what it starts (limits, signals, umask, niceness, closed stdio) reaches the
# program as it would without a sandbox, and keeps no sandbox from starting.
. "$(dirname "$0")/../lib/e2e.sh"

cat >"$T/show.py" <<'PY'
import os, resource, signal, sys
out = []
for name in "AS CORE CPU DATA FSIZE MEMLOCK MSGQUEUE NICE NOFILE NPROC RTPRIO SIGPENDING STACK".split():
    out.append((name, resource.getrlimit(getattr(resource, "RLIMIT_" + name))))
with open("/proc/self/status") as f:
    out += [ln.strip() for ln in f if ln.startswith(("SigBlk", "SigIgn"))]
umask = os.umask(0)
out.append(("umask", umask, "nice", os.nice(0)))
out.append([fd for fd in range(3) if os.path.exists(f"/proc/self/fd/{fd}")])
os.write(int(sys.argv[1]), ("\n".join(map(str, out)) + "\n").encode())
PY
# The caller: python sets up what it is told, then becomes the command.
cat >"$T/with.py" <<'PY'
import os, resource, signal, sys
what, argv = sys.argv[1], sys.argv[2:]
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
exec(what)
os.execvp(argv[0], argv)
PY

# inherits NAME SETUP [FD that it prints to]
inherits() {
	local want got
	want=$(python3 "$T/with.py" "$2" python3 -S -E "$T/show.py" "${3:-1}" 2>&1 </dev/null)
	got=$(python3 "$T/with.py" "$2" "$CAISSON" run --no-tty --timeout 60 --bind "$T:/t:ro" -- \
		python3 -S -E /t/show.py "${3:-1}" 2>&1 </dev/null)
	if [ "$want" = "$got" ] && [ -n "$want" ]; then ok "$1"; else
		fail "$1" "$(diff <(echo "$want") <(echo "$got") | head -n 6 | tr '\n' ' ')"
	fi
}
# With a hard limit that stays, and, for a caller who may raise it again, with a low one.
room() { inherits "soft limit $1=$2" "r = resource; r.setrlimit(r.RLIMIT_$1, ($2, r.getrlimit(r.RLIMIT_$1)[1]))"
	[ -z "$may_raise" ] || limit "$1" "$2"; }
may_raise=$(python3 -c "import resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0)); r.setrlimit(r.RLIMIT_CORE, (0, -1)); print(1)" 2>/dev/null)
limit() { inherits "limit $1=$2" "resource.setrlimit(resource.RLIMIT_$1, ($2, $2))"; }

inherits "nothing special" pass
room FSIZE 4096
room NOFILE 20
room AS 300000000
room DATA 100000000
room CPU 30
limit NPROC 40
limit CORE 0
limit STACK 1048576
limit MEMLOCK 0
limit SIGPENDING 1
inherits "soft limits" "resource.setrlimit(resource.RLIMIT_NOFILE, (32, 4000)); resource.setrlimit(resource.RLIMIT_STACK, (262144, -1))"
inherits "ignored signals" "[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 3, 10, 13, 15, 17, 20, 23, 40)]"
inherits "ignored signals of libc's own" "import ctypes; [ctypes.CDLL(None).syscall(13, s, (ctypes.c_ulong * 4)(1), None, 8) for s in (32, 33)]"
inherits "blocked signals" "signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))"
inherits "umask 077" "os.umask(0o077)"
inherits "umask 0" "os.umask(0)"
inherits "niceness" "os.nice(7)"
inherits "no stdin" "os.close(0)"
inherits "no stdout" "os.close(1)" 2
inherits "no stderr" "os.close(2)"
inherits "no stdin and stderr" "os.close(0); os.close(2)"

# They are enforced, too.
same "a file size limit holds" bash -c 'cd /tmp && ulimit -f 1; trap "" XFSZ; head -c 5000 /dev/zero >caisson-limit.$$; s=$?; rm -f caisson-limit.$$; exit $s'
status "nohup holds" 0 bash -c "trap '' HUP; \"$CAISSON\" run --no-tty --timeout 60 -- sh -c 'sleep 1' & sleep 0.4; kill -HUP \$!; wait \$!"

# Without the right to raise a hard limit there is no room: one line says so.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	dir=$(dirname "$CAISSON")
	mkdir "$T/pub" && cp "$dir"/caisson "$dir"/caisson-sentry "$dir"/caisson-gofer "$T/pub/" && chmod -R a+rX "$T"
	says "no room" 125 "ulimit -v" setpriv --reuid 65534 --regid 65534 --clear-groups \
		bash -c "ulimit -v 500000; exec $T/pub/caisson run --no-tty -- true"
fi
finish
