# SPDX-License-Identifier: Apache-2.0
# A handful of modules of CPython's own test suite: what passes natively passes in the sandbox, and
# no single test is skipped there that ran natively. tests/cpython/run.py runs the whole suite.
. "$(dirname "$0")/../lib/e2e.sh"

# Those that once differed (fcntl, shutil), then each a part of the kernel.
MODULES="test_fcntl test_shutil test_spwd test_os test_posix test_mmap test_pty test_openpty
	test_epoll test_select test_tempfile test_pathlib test_thread test_ctypes
	test_asyncore test_urllib2_localnet test_httpservers test_socketserver test_resource"

python3 "$(dirname "$0")/../cpython/run.py" --caisson "$CAISSON" --state "$T/state.json" \
	--keep "$T/kept" --jobs 2 --timeout 300 $MODULES >"$T/run.out" 2>&1
for m in $MODULES; do
	line=$(grep "^inside $m " "$T/run.out" | tail -n 1)
	case $line in
	*DIFFERENT*) fail "$m" "${line#*DIFFERENT }: $(tail -n 12 "$T/kept/$m.inside.txt" 2>&1 | tr '\n' ' ')" ;;
	"inside $m "*passed*) ok "$m" ;;
	*) fail "$m" "$(grep -w "$m" "$T/run.out" | head -n 1) $(tail -n 2 "$T/run.out" | tr '\n' ' ')" ;;
	esac
done
finish
