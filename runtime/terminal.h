/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's terminal while a sandbox uses it: raw mode on, always put back. */
#ifndef CAISSON_RUNTIME_TERMINAL_H
#define CAISSON_RUNTIME_TERMINAL_H

/* Raw mode on fd until terminal_restore(); the old settings are kept. */
void terminal_raw(int fd);
void terminal_restore(void);
/* Rows and columns, or 24x80. */
void terminal_size(int fd, unsigned *rows, unsigned *cols);

#endif
