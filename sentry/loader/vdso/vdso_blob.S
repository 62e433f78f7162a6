/* SPDX-License-Identifier: Apache-2.0 */
/* The vDSO image as data of the sentry. */
	.section .rodata
	.balign 4096
	.globl vdso_image_start, vdso_image_end
vdso_image_start:
	.incbin VDSO_IMAGE
vdso_image_end:
	.section .note.GNU-stack, "", @progbits
