# SPDX-License-Identifier: Apache-2.0
# An interactive shell on a terminal: editing, ^C, ^Z, fg, ^D, window size. Each drive runs
# natively first and must succeed there.
. "$(dirname "$0")/../lib/e2e.sh"
DRIVE="python3 $(dirname "$0")/../lib/tty_drive.py"

drive() {
	local name=$1
	cat >"$T/script"
	if ! $DRIVE 33x101 "$T/script" -- bash --norc --noediting >"$T/drive.out" 2>&1; then
		fail "$name (native)" "$(tail -n 2 "$T/drive.out" | tr '\n' ' ')"
	elif $DRIVE 33x101 "$T/script" -- "$CAISSON" run --tty --timeout 60 -- bash --norc --noediting \
		>"$T/drive.out" 2>&1; then
		ok "$name"
	else
		fail "$name" "$(tail -n 2 "$T/drive.out" | tr '\n' ' ')"
	fi
}

export PS1='$ '
drive "prompt, command, exit status" <<'X'
send PS1='rea''dy> '\r
expect ready> 
send echo $((6*7))\r
expect 42
send exit 9\r
status 9
X
drive "interrupt" <<'X'
send PS1='rea''dy> '\r
expect ready> 
send cat\r
send line\r
expect line
expect line
send \x03
expect ready> 
send echo st=$?\r
expect st=130
send exit 0\r
status 0
X
drive "stop and foreground" <<'X'
send PS1='rea''dy> '\r
expect ready> 
send sleep 100\r
pause 1
send \x1a
expect Stopped
send jobs\r
expect sleep 100
send fg\r
expect sleep 100
pause 1
send \x03
expect ready> 
send exit 0\r
status 0
X
drive "background job reads the terminal" <<'X'
send PS1='rea''dy> '\r
expect ready> 
send cat &\r
expect ready> 
send sleep 1; jobs\r
expect Stopped
send kill -9 $!\r
pause 1
send exit 0\r
send exit 0\r
status 0
X
drive "end of file" <<'X'
send PS1='rea''dy> '\r
expect ready> 
send cat; echo after''wards\r
pause 1
send \x04
expect afterwards
send \x04
status 0
X
drive "window size" <<'X'
send PS1='rea''dy> '\r
expect ready> 
send stty size\r
expect 33 101
send bash -c "trap 'echo win''ch; exit' WINCH; echo go''ing; sleep 5 & wait"\r
expect going
pause 0.3
resize 40x120
expect winch
send stty size\r
expect 40 120
send exit 0\r
status 0
X
drive "stty and erase" <<'X'
send PS1='rea''dy> '\r
expect ready> 
send stty -echo; read x; stty echo; echo "got:$x"\r
send secrex\x7ft\r
expect got:secret
send stty -a | grep -o isig\r
expect isig
send exit 0\r
status 0
X
drive "full-screen program" <<'X'
send PS1='rea''dy> '\r
expect ready> 
send seq 100 | TERM=vt100 more\r
expect --More--
send q
expect ready> 
send exit 0\r
status 0
X
check "no terminal without --tty" sh -c "'$CAISSON' run --no-tty -- sh -c 'test ! -t 0'"
# A terminal whose person does not read, or goes away, keeps nobody waiting.
cat >"$T/stuck.py" <<'X'
import os, pty, signal, subprocess, sys, time
mode, argv = sys.argv[1], sys.argv[2:]
m, s = pty.openpty()
start = time.time()
p = subprocess.Popen(argv, stdin=s, stdout=s, stderr=subprocess.DEVNULL, start_new_session=True)
os.close(s)
if mode == "hangup":
    got = b""
    while b"up" not in got:
        got += os.read(m, 100)
    os.close(m)
if mode == "type": # more than any buffer takes, and the guest reads none of it
    os.set_blocking(m, False)
    for _ in range(400):
        try:
            os.write(m, b"x" * 1000)
        except BlockingIOError:
            time.sleep(0.005)
try:
    status = p.wait(30)
except subprocess.TimeoutExpired:
    status = "hangs"
    p.kill()
print(status, round(time.time() - start, 1))
sys.exit(0 if status == int(os.environ["WANT"]) and time.time() - start < 15 else 1)
X
export WANT=124
check "nobody reads" python3 "$T/stuck.py" read "$CAISSON" run --tty --timeout 3 -- yes
check "the guest reads nothing" python3 "$T/stuck.py" type "$CAISSON" run --tty --timeout 4 -- sleep 60
export WANT=129
check "hangup" python3 "$T/stuck.py" hangup "$CAISSON" run --tty --timeout 25 -- sh -c 'echo up; exec sleep 60'
finish
