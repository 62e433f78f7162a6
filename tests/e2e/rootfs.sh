# SPDX-License-Identifier: Apache-2.0
# A Debian system that debootstrap made, as --rootfs: its package manager, users and interpreters
# work inside, and the tree on the host stays bit-identical.
. "$(dirname "$0")/../lib/e2e.sh"
: "${BUILD:?}"
R=$(dirname "$BUILD")/debian-rootfs

if [ "$(id -u)" != 0 ]; then
	ok "skipped: debootstrap needs root"
	finish
fi
if [ ! -f "$R/.complete" ]; then
	rm -rf "$R"
	. /etc/os-release
	if ! debootstrap --variant=minbase --include=python3,perl,gcc,libc6-dev "$VERSION_CODENAME" "$R" \
		http://deb.debian.org/debian >"$T/debootstrap.log" 2>&1; then
		fail "debootstrap" "$(tail -n 3 "$T/debootstrap.log" | tr '\n' ' ')"
		finish
	fi
	touch "$R/.complete"
fi
tree_hash() { (cd "$R" && find . -printf '%P %y %m %U %G %s %T@ %l\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum) | sha256sum; }
before=$(tree_hash)

inside() {
	local name=$1 want=$2 got
	shift 2
	got=$(box --rootfs "$R" -- "$@" 2>"$T/err" </dev/null)
	if [ "$got" = "$want" ]; then ok "$name"; else
		fail "$name" "got '$(echo "$got" | head -n 3 | tr '\n' ' ')', wanted '$want': $(tail -n 2 "$T/err" | tr '\n' ' ')"
	fi
}

# What chroot says natively is what the sandbox must say (but for the three files it provides).
for c in 'cat /etc/debian_version' 'dpkg -l | md5sum' 'ls -lR -I hosts -I hostname -I resolv.conf /etc | md5sum' 'stat -c "%n %a %u %g %s" /root /tmp /bin/su /etc/shadow' \
	'getent passwd root nobody' 'find / -xdev -type f -path "/usr/*" | sort | md5sum' \
	'perl -MConfig -e "print \$Config{version}"' 'python3 -c "import json, sqlite3, ssl, zlib; print(json.dumps([1]))"'; do
	inside "$c" "$(chroot "$R" sh -c "$c" 2>/dev/null)" sh -c "$c"
done
inside "add a user and become it" "uid=1000(bob) gid=1000(bob) groups=1000(bob)" \
	sh -c 'useradd -m bob && su bob -c id'
inside "dpkg removes and configures" "ok" sh -c \
	'dpkg --purge --force-all login >/dev/null 2>&1; test ! -e /bin/login && dpkg --audit >/dev/null; echo ok'
inside "compile inside" "42" sh -c \
	'cd /root && printf "int printf(const char*,...);int main(){printf(\"42\");return 0;}" > a.c && gcc -o a a.c && ./a'
inside "delete everything" "gone" sh -c 'rm -rf /usr/share /var/lib/dpkg /etc; ls /etc /usr/share >/dev/null 2>&1 || echo gone'
inside "scribble everywhere" "done" sh -c \
	'find /usr/bin -type f | while read -r f; do echo x >> "$f"; chmod 0 "$f"; mv "$f" "$f.x"; done 2>/dev/null; echo done'
if [ "$before" = "$(tree_hash)" ]; then ok "the tree is bit-identical"; else fail "the tree is bit-identical" "it changed"; fi
finish
