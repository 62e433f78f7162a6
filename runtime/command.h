/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. Each gets its own argv (argv[0] is its name) and returns the exit status. */
#ifndef CAISSON_RUNTIME_COMMAND_H
#define CAISSON_RUNTIME_COMMAND_H

int run_for_people(int argc, char **argv); /* `run -- PROGRAM`: cmd_run.c */
int cmd_run(int argc, char **argv);	   /* decides between the two kinds: cmd_create.c */
int cmd_doctor(int argc, char **argv);

/* The OCI commands. */
int cmd_create(int argc, char **argv);
int cmd_start(int argc, char **argv);
int cmd_state(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_delete(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_debug(int argc, char **argv);
int cmd_pause(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_update(int argc, char **argv);
int cmd_spec(int argc, char **argv);
int cmd_features(int argc, char **argv);
int cmd_checkpoint(int argc, char **argv);

#endif
