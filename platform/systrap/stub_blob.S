/* SPDX-License-Identifier: Apache-2.0 */
/* The stub's image as data of the sentry; STUB_IMAGE is given by stub.mk. */
	.section .rodata
	.balign	4096
	.globl	systrap_stub_image, systrap_stub_image_end
systrap_stub_image:
	.incbin	STUB_IMAGE
systrap_stub_image_end:
	.section .note.GNU-stack, "", @progbits
