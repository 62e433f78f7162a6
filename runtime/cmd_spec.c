/* SPDX-License-Identifier: Apache-2.0 */
/* spec, features, and the refusal of checkpoint and restore. */
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/args.h"
#include "runtime/command.h"
#include "runtime/error.h"
#include "runtime/oci.h"

static const char g_template[] =
	"{\n"
	"\t\"ociVersion\": \"" OCI_VERSION "\",\n"
	"\t\"process\": {\n"
	"\t\t\"terminal\": true,\n"
	"\t\t\"user\": { \"uid\": 0, \"gid\": 0 },\n"
	"\t\t\"args\": [ \"sh\" ],\n"
	"\t\t\"env\": [\n"
	"\t\t\t\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\",\n"
	"\t\t\t\"TERM=xterm\"\n"
	"\t\t],\n"
	"\t\t\"cwd\": \"/\",\n"
	"\t\t\"capabilities\": {\n"
	"\t\t\t\"bounding\": [ \"CAP_AUDIT_WRITE\", \"CAP_KILL\", \"CAP_NET_BIND_SERVICE\" ],\n"
	"\t\t\t\"effective\": [ \"CAP_AUDIT_WRITE\", \"CAP_KILL\", \"CAP_NET_BIND_SERVICE\" ],\n"
	"\t\t\t\"permitted\": [ \"CAP_AUDIT_WRITE\", \"CAP_KILL\", \"CAP_NET_BIND_SERVICE\" ]\n"
	"\t\t},\n"
	"\t\t\"rlimits\": [ { \"type\": \"RLIMIT_NOFILE\", \"hard\": 1024, \"soft\": 1024 } ],\n"
	"\t\t\"noNewPrivileges\": true\n"
	"\t},\n"
	"\t\"root\": { \"path\": \"rootfs\", \"readonly\": true },\n"
	"\t\"hostname\": \"caisson\",\n"
	"\t\"mounts\": [\n"
	"\t\t{ \"destination\": \"/proc\", \"type\": \"proc\", \"source\": \"proc\" },\n"
	"\t\t{ \"destination\": \"/dev\", \"type\": \"tmpfs\", \"source\": \"tmpfs\",\n"
	"\t\t  \"options\": [ \"nosuid\", \"strictatime\", \"mode=755\", \"size=65536k\" ] },\n"
	"\t\t{ \"destination\": \"/dev/pts\", \"type\": \"devpts\", \"source\": \"devpts\",\n"
	"\t\t  \"options\": [ \"nosuid\", \"noexec\", \"newinstance\", \"ptmxmode=0666\", \"mode=0620\", \"gid=5\" ] },\n"
	"\t\t{ \"destination\": \"/dev/shm\", \"type\": \"tmpfs\", \"source\": \"shm\",\n"
	"\t\t  \"options\": [ \"nosuid\", \"noexec\", \"nodev\", \"mode=1777\", \"size=65536k\" ] },\n"
	"\t\t{ \"destination\": \"/dev/mqueue\", \"type\": \"mqueue\", \"source\": \"mqueue\",\n"
	"\t\t  \"options\": [ \"nosuid\", \"noexec\", \"nodev\" ] },\n"
	"\t\t{ \"destination\": \"/sys\", \"type\": \"sysfs\", \"source\": \"sysfs\",\n"
	"\t\t  \"options\": [ \"nosuid\", \"noexec\", \"nodev\", \"ro\" ] },\n"
	"\t\t{ \"destination\": \"/sys/fs/cgroup\", \"type\": \"cgroup\", \"source\": \"cgroup\",\n"
	"\t\t  \"options\": [ \"nosuid\", \"noexec\", \"nodev\", \"relatime\", \"ro\" ] }\n"
	"\t],\n"
	"\t\"linux\": {\n"
	"\t\t\"resources\": { \"devices\": [ { \"allow\": false, \"access\": \"rwm\" } ] },\n"
	"\t\t\"namespaces\": [\n"
	"\t\t\t{ \"type\": \"pid\" }, { \"type\": \"network\" }, { \"type\": \"ipc\" }, { \"type\": \"uts\" },\n"
	"\t\t\t{ \"type\": \"mount\" }\n"
	"\t\t],\n"
	"\t\t\"maskedPaths\": [\n"
	"\t\t\t\"/proc/acpi\", \"/proc/asound\", \"/proc/kcore\", \"/proc/keys\", \"/proc/latency_stats\",\n"
	"\t\t\t\"/proc/timer_list\", \"/proc/timer_stats\", \"/proc/sched_debug\", \"/sys/firmware\", \"/proc/scsi\"\n"
	"\t\t],\n"
	"\t\t\"readonlyPaths\": [\n"
	"\t\t\t\"/proc/bus\", \"/proc/fs\", \"/proc/irq\", \"/proc/sys\", \"/proc/sysrq-trigger\"\n"
	"\t\t]\n"
	"\t}\n"
	"}\n";

int cmd_spec(int argc, char **argv)
{
	const char *bundle = ".";
	int rootless = 0;
	const struct arg_option options[] = { { "bundle", 'b', ARG_TEXT, &bundle, "where config.json is written" },
					      { "rootless", 0, ARG_FLAG, &rootless, "accepted; nothing differs" },
					      { 0 } };
	char path[4200];

	oci_begin(1);
	args_parse(options, "spec [--bundle DIR]", 1, &argc, &argv);
	snprintf(path, sizeof(path), "%s/config.json", bundle);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		die(1, "%s: %m; remove it first", path);
	if (write(fd, g_template, sizeof(g_template) - 1) != (ssize_t)sizeof(g_template) - 1)
		die(1, "%s: %m", path);
	close(fd);
	return 0;
}

int cmd_features(int argc, char **argv)
{
	static const char text[] =
		"{\n"
		"  \"ociVersionMin\": \"1.0.0\",\n"
		"  \"ociVersionMax\": \"" OCI_VERSION "\",\n"
		"  \"hooks\": [ \"prestart\", \"createRuntime\", \"poststart\", \"poststop\" ],\n"
		"  \"mountOptions\": [ \"async\", \"atime\", \"bind\", \"defaults\", \"dev\", \"diratime\", \"exec\",\n"
		"    \"noatime\", \"nodev\", \"nodiratime\", \"noexec\", \"nosuid\", \"nosymfollow\", \"private\",\n"
		"    \"rbind\", \"relatime\", \"ro\", \"rprivate\", \"rshared\", \"rslave\", \"rw\", \"shared\", \"slave\",\n"
		"    \"strictatime\", \"suid\", \"sync\" ],\n"
		"  \"linux\": {\n"
		"    \"namespaces\": [ \"cgroup\", \"ipc\", \"mount\", \"network\", \"pid\", \"user\", \"uts\" ],\n"
		"    \"cgroup\": { \"v1\": true, \"v2\": true, \"systemd\": false, \"systemdUser\": false },\n"
		"    \"seccomp\": { \"enabled\": true, \"archs\": [ \"SCMP_ARCH_X86_64\" ] },\n"
		"    \"apparmor\": { \"enabled\": false },\n"
		"    \"selinux\": { \"enabled\": false }\n"
		"  }\n"
		"}\n";

	(void)argc, (void)argv;
	fputs(text, stdout);
	return 0;
}

/* Engines probe with --help and take status 0 for support: so even that says no. */
int cmd_checkpoint(int argc, char **argv)
{
	(void)argc;
	oci_begin(1);
	die(1, "%s is not supported: a sandbox's state can not be saved", argv[0]);
}
