/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extended state. While a stub thread is stopped, its guest's state lies as a standard-form
 * XSAVE image in the signal frame, in the slot; rt_sigreturn loads it from there. What the CPU
 * would refuse is refused here, since a refusal in rt_sigreturn kills the process.
 */
#include <errno.h>
#include <string.h>

#include "platform/systrap/systrap.h"

#define LEGACY_SIZE 512
#define HEADER_SIZE 64
#define MXCSR 24
#define MXCSR_MASK 28
#define DEFAULT_MXCSR 0x1f80u
#define DEFAULT_MXCSR_MASK 0xffbfu
#define DEFAULT_FCW 0x37f
#define SW_BYTES 464 /* the kernel's description of the image, up to LEGACY_SIZE */
#define SW_MAGIC 0x46505853u
#define XSTATE_BV 512
#define XCOMP_BV 520
#define FEATURE_FP_SSE 3ull
#define FEATURE_PKRU (1ull << 9)

struct sw_bytes {
	uint32_t magic, extended_size;
	uint64_t features;
	uint32_t xstate_size;
};

static uint8_t *image(struct systrap_context *c)
{
	return (uint8_t *)c->msg + c->fpstate;
}

/*
 * From the zygote's first frame: what the host saves, and the initial state for all others. The
 * zygote ran libc code, so its registers are cleared; PKRU keeps the host's default.
 */
void fpstate_probe(struct systrap *p)
{
	struct systrap_context *z = p->zygote;
	uint8_t *fp = image(z);
	struct sw_bytes sw;
	uint64_t bv;

	memcpy(&sw, fp + SW_BYTES, sizeof(sw));
	if (sw.magic == SW_MAGIC && sw.xstate_size >= LEGACY_SIZE + HEADER_SIZE &&
	    sw.xstate_size <= p->base.xstate_size) {
		p->base.xstate_size = sw.xstate_size;
		p->base.xcr0 = sw.features;
	}
	memcpy(&bv, fp + XSTATE_BV, sizeof(bv));
	bv &= FEATURE_PKRU;
	memcpy(fp + XSTATE_BV, &bv, sizeof(bv));

	uint32_t mask;
	const uint32_t mxcsr = DEFAULT_MXCSR;
	const uint16_t fcw = DEFAULT_FCW;

	memcpy(&mask, fp + MXCSR_MASK, sizeof(mask));
	memset(fp, 0, SW_BYTES);
	memcpy(fp, &fcw, sizeof(fcw));
	memcpy(fp + MXCSR, &mxcsr, sizeof(mxcsr));
	memcpy(fp + MXCSR_MASK, &mask, sizeof(mask));
	memcpy(p->template, (uint8_t *)z->msg + SLOT_STACK, SLOT_SIZE - SLOT_STACK);
	p->template_fpstate = z->fpstate - SLOT_STACK;
}

int systrap_fpstate_get(struct context *base, void *buf, size_t size)
{
	struct systrap_context *c = to_context(base);

	if (size < c->plat->base.xstate_size)
		return -EINVAL;
	int ret = frame_ensure(c);

	if (ret)
		return ret;
	memcpy(buf, image(c), c->plat->base.xstate_size);
	memset((uint8_t *)buf + SW_BYTES, 0, LEGACY_SIZE - SW_BYTES);
	return 0;
}

void systrap_fpstate_reset(struct context *base)
{
	struct systrap_context *c = to_context(base);
	const struct systrap *p = c->plat;

	if (frame_ensure(c))
		return; /* the process is gone */
	/* The four bytes after the image are the kernel's second magic number. */
	memcpy(image(c), p->template + p->template_fpstate, p->base.xstate_size + 4);
}

int systrap_fpstate_set(struct context *base, const void *buf, size_t size)
{
	static const uint8_t zeros[HEADER_SIZE];
	struct systrap_context *c = to_context(base);
	const struct systrap *p = c->plat;
	const uint8_t *in = buf;
	uint32_t mxcsr, mask;
	uint64_t bv = FEATURE_FP_SSE;

	if (size != LEGACY_SIZE && size < p->base.xstate_size)
		return -EINVAL;
	memcpy(&mxcsr, in + MXCSR, sizeof(mxcsr));
	memcpy(&mask, p->template + p->template_fpstate + MXCSR_MASK, sizeof(mask));
	if (mxcsr & ~(mask ? mask : DEFAULT_MXCSR_MASK))
		return -EINVAL;
	if (size != LEGACY_SIZE) {
		memcpy(&bv, in + XSTATE_BV, sizeof(bv));
		if (bv & ~p->base.xcr0 ||
		    memcmp(in + XCOMP_BV, zeros, LEGACY_SIZE + HEADER_SIZE - XCOMP_BV))
			return -EINVAL;
	}
	systrap_fpstate_reset(base);
	memcpy(image(c), in, SW_BYTES);
	if (size == LEGACY_SIZE) {
		uint64_t kept;

		memcpy(&kept, p->template + p->template_fpstate + XSTATE_BV, sizeof(kept));
		bv |= kept;
		memcpy(image(c) + XSTATE_BV, &bv, sizeof(bv));
	} else {
		memcpy(image(c) + XSTATE_BV, in + XSTATE_BV, p->base.xstate_size - XSTATE_BV);
	}
	return 0;
}
