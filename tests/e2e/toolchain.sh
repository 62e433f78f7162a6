# SPDX-License-Identifier: Apache-2.0
# Compilers and version control: builds inside behave as they do natively.
. "$(dirname "$0")/../lib/e2e.sh"

script() {
	local name=$1
	same "$name" bash -c "cd \$(mktemp -d) || exit 99; $2"
}

script "gcc compiles and runs" '
printf "#include <stdio.h>\n#include <math.h>\nint main(int c, char **v) { printf(\"%%d %%.3f\\\\n\", c, sqrt(2)); return c + 6; }\n" > a.c
gcc -O2 -o a a.c -lm && ./a x; echo $?; gcc -static -o s a.c -lm && ./s; echo $?; gcc -c no.c 2>&1 | grep -c "No such file"'
script "make -j4" '
for i in 1 2 3 4 5 6 7 8; do echo "int f$i(void) { return $i; }" > f$i.c; done
printf "OBJ := \$(patsubst %%.c,%%.o,\$(wildcard f*.c))\nl.a: \$(OBJ)\n\t@ar rcs \$@ \$^\n%%.o: %%.c\n\t@\$(CC) -c \$< -o \$@\n" > Makefile
make -s -j4 && ar t l.a | sort && make -s && echo again'
script "git" '
export GIT_AUTHOR_DATE="2020-01-01T00:00:00Z" GIT_COMMITTER_DATE="2020-01-01T00:00:00Z" HOME=$PWD
git init -q -b main r && cd r && git config user.email a@b && git config user.name n
for i in 1 2 3; do echo $i > f$i; git add f$i; git commit -qm c$i; done
git log --format=%H; git checkout -qb side HEAD~1; echo s > s; git add .; git commit -qm side; git checkout -q main
git merge -q side -m merge; git status --porcelain; cd ..; git clone -q r c; git -C c log --oneline | wc -l; git -C c fsck 2>&1 | tail -1; git -C r gc -q; git -C r rev-parse HEAD'
if command -v go >/dev/null && [ -z "${SKIP_GO:-}" ]; then
	GOROOT=$(go env GOROOT)
	cat >"$T/main.go" <<'X'
package main

import (
	"fmt"
	"os/exec"
	"sync"
	"time"
)

func main() {
	var wg sync.WaitGroup
	ch := make(chan int, 10)
	for i := 0; i < 100; i++ {
		wg.Add(1)
		go func(i int) { defer wg.Done(); time.Sleep(time.Millisecond); ch <- i }(i)
	}
	go func() { wg.Wait(); close(ch) }()
	s := 0
	for v := range ch {
		s += v
	}
	out, err := exec.Command("echo", "from go").Output()
	fmt.Println(s, string(out), err)
}
X
	BOX_TIMEOUT=300 BOX_OPTS="--bind $GOROOT:$GOROOT --bind $T:/src:rw --env GOFLAGS=-mod=mod --env GOCACHE=/tmp/gc --env GOTOOLCHAIN=local --env GO111MODULE=off"
	box $BOX_OPTS -- sh -c "cd /src && $GOROOT/bin/go build -o hello main.go && ./hello" >"$T/go.out" 2>"$T/go.err"
	if [ "$(head -n 1 "$T/go.out")" = "4950 from go" ]; then ok "go build and run"; else
		fail "go build and run" "$(tail -n 3 "$T/go.out" "$T/go.err" | tr '\n' ' ')"
	fi
	BOX_OPTS=
fi
if command -v node >/dev/null; then
	NODE=$(readlink -f "$(command -v node)")
	cat >"$T/a.js" <<'X'
const { execFileSync } = require('child_process'), fs = require('fs'), { Worker, isMainThread } = require('worker_threads');
fs.writeFileSync('/tmp/node-e2e', 'data');
console.log(fs.readFileSync('/tmp/node-e2e', 'utf8'), execFileSync('echo', ['from node']).toString().trim());
setTimeout(() => console.log('timer'), 10);
fs.promises.readdir('/usr').then(d => console.log(d.includes('bin')));
new Worker('console.log("worker")', { eval: true });
X
	same_node() {
		$NODE "$T/a.js" | sort >"$T/n1"
		box --bind "$NODE:/node" --bind "$T:/src" -- /node /src/a.js 2>"$T/node.err" | sort >"$T/n2"
		cmp -s "$T/n1" "$T/n2"
	}
	if same_node; then ok "node"; else fail "node" "$(tail -n 3 "$T/n2" "$T/node.err" | tr '\n' ' ')"; fi
fi
finish
