# SPDX-License-Identifier: Apache-2.0
# The first things anyone tries.
. "$(dirname "$0")/../lib/e2e.sh"

same "true" /bin/true
same "false" /bin/false
same "echo" /bin/echo hello world
same "exit status" /bin/sh -c 'exit 42'
status "killed by a signal" 137 box -- /bin/sh -c 'kill -9 $$; sleep 5'
status "killed by its own TERM" 143 box -- /bin/sh -c 'sh -c "kill -TERM \$\$"; exit $?'
same "cat a file" /bin/cat /etc/debian_version
same "ls" /bin/ls /usr/include/linux
same "pipeline" /bin/sh -c 'echo one two three | tr " " "\n" | sort -r | head -n 2'
same "stdin at end" /bin/cat
check "stdin passes" sh -c "echo through | '$CAISSON' run --no-tty -- cat | grep -qx through"
check "10 MB through stdin and stdout" sh -c "test \"\$(head -c 10000000 /dev/zero | '$CAISSON' run --no-tty -- cat | md5sum)\" = \"\$(head -c 10000000 /dev/zero | md5sum)\""
check "stderr is apart" sh -c "'$CAISSON' run --no-tty -- sh -c 'echo out; echo err >&2' 2>/dev/null | grep -qx out"
check "environment" sh -c "'$CAISSON' run --no-tty --env A=b -- sh -c 'echo \$A' | grep -qx b"
check "the caller's environment stays out" sh -c "SECRET=x '$CAISSON' run --no-tty -- env | { ! grep SECRET; }"
check "working directory" sh -c "'$CAISSON' run --no-tty --workdir /usr -- pwd | grep -qx /usr"
check "user" sh -c "'$CAISSON' run --no-tty --user 1000:1001 -- id -u | grep -qx 1000"
check "group" sh -c "'$CAISSON' run --no-tty --user 1000:1001 -- id -g | grep -qx 1001"
check "hostname" sh -c "'$CAISSON' run --no-tty --hostname boxy -- uname -n | grep -qx boxy"
check "own pid namespace" sh -c "test \$('$CAISSON' run --no-tty -- sh -c 'ls -d /proc/[0-9]* | wc -l') -lt 5"
check "own kernel" sh -c "'$CAISSON' run --no-tty -- uname -v | grep -qi caisson"
mkdir "$T/dir"
echo inside >"$T/dir/f"
check "bind, read" sh -c "'$CAISSON' run --no-tty --bind '$T/dir:/data' -- cat /data/f | grep -qx inside"
status "bind is read-only" 2 box --bind "$T/dir:/data" -- sh -c 'echo x > /data/g'
check "nothing was written" test ! -e "$T/dir/g"
check "bind, write" box --bind "$T/dir:/data:rw" -- sh -c 'echo x > /data/g && mkdir /data/d && mv /data/f /data/d/f'
check "it was written" sh -c "grep -qx x '$T/dir/g' && test -f '$T/dir/d/f'"
check "root is writable inside" box -- sh -c 'echo x > /etc/new && cat /etc/new'
check "and untouched outside" test ! -e /etc/new
status "read-only root" 2 box --read-only -- sh -c 'echo x > /etc/new'
status "shadow is hidden" 1 box -- cat /etc/shadow
check "root's home is empty" sh -c "test -z \"\$('$CAISSON' run --no-tty -- ls -A /root)\""
finish
