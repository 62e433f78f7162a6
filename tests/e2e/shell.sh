# SPDX-License-Identifier: Apache-2.0
# bash, coreutils and friends: the same scripts natively and inside give the same output.
. "$(dirname "$0")/../lib/e2e.sh"

script() {
	local name=$1
	same "$name" bash -c "cd \$(mktemp -d) || exit 99; $2"
}

script "arithmetic and arrays" 'a=(1 2 3); echo $(( a[0] + ${#a[@]} )) "${a[@]/2/x}"'
script "functions and traps" 'f() { trap "echo bye" RETURN; echo hi; }; f; trap "echo exit" EXIT'
script "pipeline status" 'set -o pipefail; false | true; echo $?; true | false; echo ${PIPESTATUS[@]}'
script "long pipeline" 'seq 1 20000 | grep 7 | sed s/7/x/ | sort -u | awk "{n+=length(\$0)} END {print n}" | tr 0-9 a-j'
script "process substitution" 'diff <(seq 1 5) <(seq 2 6)'
script "here documents" 'cat <<X; read -r a b <<<"one two"; echo $b
text $((1+1))
X'
script "background and wait" 'sleep 0.1 & p=$!; wait $p; echo $?; (exit 7) & wait $!; echo $?'
script "many children" 'p=; for i in $(seq 50); do (exit $((i%3))) & p="$p $!"; done; n=0; for j in $p; do wait $j && n=$((n+1)); done; echo $n'
script "signals to children" 'sleep 100 & kill -TERM $!; wait $!; echo $?; sleep 100 & kill -9 $!; wait $! 2>/dev/null; echo $?'
script "trap of a signal" 'trap "echo usr1" USR1; kill -USR1 $$; echo after'
script "subshell environment" 'x=1; (x=2; echo $x); echo $x; export Y=z; bash -c "echo \$Y"'
script "job control" 'set -m; sleep 0.2 & jobs | sed "s/[0-9]\{3,\}//"; fg >/dev/null; echo $?'
script "stop and continue" 'set -m; sleep 0.3 & kill -STOP $!; sleep 0.05; jobs | grep -c Stopped; kill -CONT $!; wait -f $!; echo $?'
script "globs" 'touch a1 a2 b1 .h; echo a*; echo *; shopt -s dotglob; echo *; shopt -s extglob; echo !(a*)'
script "files" 'echo a > f; cp f g; mv g h; ln h i; ln -s i j; stat -c "%n %s %h %F" f h i j; rm i; cat j 2>&1 | tr -d "\n"; readlink j'
script "permissions" 'umask 027; touch f; mkdir d; stat -c "%a %n" f d; chmod 4755 f; stat -c %a f; chmod u-s,g+w f; stat -c %A f'
script "find" 'mkdir -p a/b/c; touch a/x a/b/y a/b/c/z; find . -type f | sort; find a -name z -delete; find . -type d -empty'
script "dd and truncate" 'dd if=/dev/zero of=f bs=1000 count=7 2>/dev/null; truncate -s 12345 f; stat -c %s f; dd if=f bs=1 skip=12340 2>/dev/null | od -An -tx1'
script "sparse files" 'truncate -s 10M s; stat -c "%s %b" s; echo end >> s; tail -c 4 s; du -k --apparent-size s | cut -f1'
script "tee, split, paste" 'seq 9 | tee t | split -l 3 - p; paste paa pab pac; wc -l t | cut -d" " -f1'
script "sort and uniq" 'printf "%s\n" b a c a B | sort | uniq -c; printf "10\n9\n" | sort -n; sort -R /dev/null'
script "checksums" 'seq 1000 > f; md5sum f; sha256sum f; cksum f; b2sum f'
script "tar and xz" 'mkdir d; seq 1000 > d/f; ln -s f d/l; tar cJf t.xz d; rm -r d; tar xf t.xz; ls -l d | awk "{print \$1, \$5, \$9}"; md5sum d/f'
script "gzip" 'seq 10000 | gzip -9n | tee z | gunzip | md5sum; md5sum z'
script "named pipes" 'mkfifo p; (echo through > p) & cat p; wait; test -p p && echo fifo'
script "file locks" 'exec 9>l; flock 9; (flock -n 8 || echo busy) 8>l; flock -u 9; (flock -n 8 && echo free) 8>l'
script "timeout" 'timeout 0.2 sleep 5; echo $?; timeout -s KILL 0.2 sleep 5; echo $?'
script "xargs" 'seq 100 | xargs -n 10 -P 4 echo | wc -l; printf "a b\0c" | xargs -0 -n1 echo'
script "env" 'env -i A=1 B=2 env | sort; env -u HOME bash -c "echo \${HOME-unset}"'
script "id of nobody" 'id -u; id -g'
script "ulimit" 'ulimit -n 64; ulimit -n; ulimit -Sc 0; ulimit -c; ulimit -f 1; dd if=/dev/zero of=f bs=1M count=1 2>/dev/null; echo $?'
script "dates" 'date -u -d @86400 +%F; TZ=UTC0 date -d "2024-02-29 +1 year" +%F; touch -d @1000000000 f; stat -c %Y f'
script "sed and awk" 'seq 5 | sed -n "2,4{s/./<&>/p}"; seq 10 | awk "NR%2{s+=\$1} END{print s, sqrt(16)}"'
script "perl" 'perl -e "print join(q(,), map { \$_*2 } grep { \$_ % 2 } 1..9), qq(\n); print scalar(localtime(0)) =~ /1970/ ? qq(epoch\n) : qq(?\n); print \`echo sub\`; exit 3"'
script "device files" 'head -c 4 /dev/zero | od -An -tx1; echo x > /dev/null; head -c 8 /dev/urandom | wc -c; echo y > /dev/full; echo $?'
script "proc self" 'cat /proc/self/comm; readlink /proc/self/fd/0; ls /proc/self/task | wc -l; tr "\0" " " < /proc/self/cmdline; echo; awk "/^Threads/{print \$2}" /proc/self/status'
script "deep directories" 'd=$(printf "x%.0s/" $(seq 100)); mkdir -p $d; cd $d && pwd | wc -c; cd - >/dev/null; rm -r x; ls | wc -l'
script "long names" 'n=$(printf "n%.0s" $(seq 255)); touch $n && ls | wc -c; touch ${n}n 2>&1 | grep -o "too long"'
script "rename" 'mkdir a b; touch a/f; mv a/f b/; mv b c; ls c; mv c c/d 2>&1 | grep -c cannot; rmdir c 2>&1 | grep -o "not empty"'
script "unlinked but open" 'exec 5>f; rm f; echo data >&5; cat /proc/$$/fd/5; readlink /proc/$$/fd/5 | grep -c deleted'
script "rsync" 'mkdir s; seq 100 > s/f; ln -s f s/l; chmod 640 s/f; rsync -a s/ d/; stat -c "%n %a %s" d/f; readlink d/l; echo x >> s/f; rsync -ai s/ d/ | cut -c1-3,13-'
finish
