/* SPDX-License-Identifier: Apache-2.0 */
/* Terminal settings as the kernel lays them out; glibc's struct termios differs. Data only. */
#ifndef CAISSON_ABI_TERMIOS_H
#define CAISSON_ABI_TERMIOS_H

#include <stdint.h>

#define LINUX_NCCS 19
#define LINUX_NCC 8

struct linux_termios2 { /* TCGETS2; TCGETS is its first 36 bytes */
	uint32_t iflag, oflag, cflag, lflag;
	uint8_t line;
	uint8_t cc[LINUX_NCCS];
	uint32_t ispeed, ospeed;
};
_Static_assert(sizeof(struct linux_termios2) == 44, "struct termios2 of x86-64");
#define LINUX_TERMIOS_SIZE 36u

struct linux_termio { /* TCGETA */
	uint16_t iflag, oflag, cflag, lflag;
	uint8_t line;
	uint8_t cc[LINUX_NCC];
};
_Static_assert(sizeof(struct linux_termio) == 18, "struct termio of x86-64");

struct linux_winsize {
	uint16_t row, col, xpixel, ypixel;
};

#endif
