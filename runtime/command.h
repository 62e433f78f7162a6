/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. Each gets its own argv (argv[0] is its name) and returns the exit status. */
#ifndef CAISSON_RUNTIME_COMMAND_H
#define CAISSON_RUNTIME_COMMAND_H

int cmd_run(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

#endif
