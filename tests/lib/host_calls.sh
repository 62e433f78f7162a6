#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# host_calls.sh sentry|gofer|stub|net: the host syscalls that part's filter lets through, one a line, as
# the filter's source lists them.
cd "$(dirname "$0")/../.." || exit 1
case $1 in
sentry) sed -n '/host_filter_rule g_rules/,/^#ifdef\|^};/s/^\t[A-Z_]*("\([a-z0-9_]*\)".*/\1/p' sentry/filter.c ;;
gofer) sed -n 's/.*{ SYS_\([a-z0-9_]*\), [01], .*/\1/p' gofer/filter.c ;;
stub) sed -n 's/^\tCALL(p, \(SYS_\|STUB_NR_\)\([A-Za-z0-9_]*\),.*/\2/p' platform/systrap/trap_filter.c |
	sed 's/HELLO/gettid/' ;;
net) sed -n 's/^\t\tANY("\([a-z0-9_]*\)").*/\1/p; s/^\t\t{ .name = "\([a-z0-9_]*\)".*/\1/p' netstack/nat/filter.c ;;
*) exit 2 ;;
esac | sort -u
