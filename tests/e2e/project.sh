# SPDX-License-Identifier: Apache-2.0
# A real C project from Debian's sources, configured, built with make -j4 and tested inside, with
# writes going to a bind mount; its own test suite must say the same as natively.
. "$(dirname "$0")/../lib/e2e.sh"

# fetch PACKAGE: its upstream tarball into $T, from Debian's source archive.
fetch() {
	mkdir -p "$T/lists/partial"
	. /etc/os-release
	echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" >"$T/sources.list"
	local opt="-o Dir::Etc::sourcelist=$T/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$T/lists"
	(cd "$T" && apt-get $opt update -qq && apt-get $opt source -qq --download-only "$1") >"$T/fetch.log" 2>&1
}

build='set -e; ./configure >/dev/null; make -s -j4 >/dev/null 2>&1; make -s test 2>&1 | grep -c OK; make -s distclean >/dev/null 2>&1'
if ! fetch zlib; then
	fail "fetch zlib's source" "$(tail -n 2 "$T/fetch.log" | tr '\n' ' ')"
	finish
fi
mkdir "$T/native" "$T/inside"
for d in native inside; do tar xf "$T"/zlib_*.orig.tar.* -C "$T/$d" --strip-components=1; done
want=$(cd "$T/native" && sh -c "$build" 2>&1)
got=$(box --bind "$T/inside:/src:rw" --workdir /src -- sh -c "$build" 2>"$T/err")
if [ "$want" = "$got" ] && [ "${want:-0}" -ge 2 ]; then ok "zlib builds and its tests pass"; else
	fail "zlib builds and its tests pass" "natively '$want', inside '$got': $(tail -n 2 "$T/err" | tr '\n' ' ')"
fi
check "the trees are alike afterwards" diff -r "$T/native" "$T/inside"
finish
