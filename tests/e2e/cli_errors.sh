# SPDX-License-Identifier: Apache-2.0
# What a user's mistakes look like: one clear line, docker's exit statuses.
. "$(dirname "$0")/../lib/e2e.sh"

says "no program" 125 "no program given" "$CAISSON" run
says "unknown option" 125 "unknown option '--frobnicate'" "$CAISSON" run --frobnicate -- true
says "unknown command" 125 "unknown command 'frobnicate'" "$CAISSON" frobnicate
says "missing rootfs" 125 "give an existing directory" box --rootfs "$T/none" -- true
touch "$T/file"
says "rootfs is a file" 125 "is not a directory" box --rootfs "$T/file" -- true
says "memory without unit sense" 125 "--memory: 'lots'" box --memory lots -- true
says "memory too small" 125 "at least 4m" box --memory 1k -- true
says "negative pids" 125 "--pids: '-1'" box --pids -1 -- true
says "pids overflow" 125 "--pids:" box --pids 99999999999999999999 -- true
says "bad cpus" 125 "--cpus: 'none'" box --cpus none -- true
says "bad timeout" 125 "--timeout: '1y'" box --timeout 1y -- true
says "relative workdir" 125 "--workdir" box --workdir tmp -- true
says "bind without destination" 125 "--bind" box --bind /tmp -- true
says "bind of a missing source" 125 "--bind: '$T/none'" box --bind "$T/none:/x" -- true
says "bad bind mode" 125 "mode is ro or rw" box --bind /tmp:/x:wo -- true
for u in "+1" " 1" "1:" "-1" "4294967295" "4294967296" "1e3" "0x0" "1000abc" "" "root" "1:2:3" "1:,2"; do
	says "user string '$u'" 125 "--user" box --user "$u" -- true
done
says "empty env name" 125 "--env" box --env =x -- true
says "unknown layer" 125 "isolation layer" box --allow-weaker all -- true
says "missing program" 127 "no-such-program" box -- no-such-program
says "missing program with a path" 127 "/no/such/program" box -- /no/such/program
says "directory as program" 126 "/etc" box -- /etc
says "not executable" 126 "/etc/passwd" box -- /etc/passwd
printf '#!/no/such/interpreter\n' >"$T/script"
printf 'MZ not an executable\n' >"$T/exe"
printf '\177ELF\1\1\1\0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' >"$T/elf32"
chmod 755 "$T/script" "$T/exe" "$T/elf32"
says "missing interpreter" 127 "/t/script" box --bind "$T:/t" -- /t/script
says "foreign format" 126 "/t/exe" box --bind "$T:/t" -- /t/exe
says "32-bit program" 126 "/t/elf32" box --bind "$T:/t" -- /t/elf32
says "missing working directory" 127 "/no/such/dir" box --workdir /no/such/dir -- /bin/true
status "program name that looks like an option" 127 box -- --bind
status "help" 0 "$CAISSON" run --help
status "version" 0 "$CAISSON" --version
finish
