/* SPDX-License-Identifier: Apache-2.0 */
/* Options that stand before the OCI commands, as engines give them. */
#ifndef CAISSON_RUNTIME_OCI_H
#define CAISSON_RUNTIME_OCI_H

#define OCI_VERSION "1.0.2"

struct oci_global {
	const char *root;	 /* of all state; never NULL once a command runs */
	const char *log, *log_format;
	const char *overlay;	 /* NULL or "none": writes go to the rootfs; "memory" */
	const char *rootless;	 /* accepted, decided by trying */
	int debug, systemd_cgroup;
};

extern struct oci_global g_oci;

/* Takes the options before the command off the vector. Ends the process on a mistake. */
void oci_global_parse(int *argc, char ***argv);
/* --root's default, and the log: called by each OCI command before anything can fail. */
void oci_begin(int failure_status);

#endif
