/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patched syscall sites. The instructions before a `syscall` (5 bytes at least) give way to a
 * 7-byte `jmp *entry`, where `entry` is a word of a table in low guest memory and holds the address
 * of the site's trampoline. The trampoline runs the displaced instructions and goes to the stub,
 * or, when GS base is not the thread's slot, makes the syscall itself, which traps.
 *
 *	b8 27 00 00 00	mov $39, %eax		ff 24 25 88 12 60 60	jmp *0x60601288
 *	0f 05		syscall
 *
 * Nothing else about the text changes: whoever enters it at an instruction that is gone (a jump
 * into the middle, a thread that stood there, a signal frame that returns there, a restarted
 * syscall) meets a byte that raises #UD: the upper half of `entry` is always 60 60, and entries
 * are picked so that their lower bytes trap too where an instruction began on them. event.c then
 * goes on in the trampoline's copy, or takes it as the syscall that stood there.
 *
 * Text is written while it is not executable, so no processor can be executing it: other threads
 * fault on the fetch, and switch.c has them wait for the end of the patch and try again.
 *
 * An area is a table and its trampolines: a piece of a memfd that the sentry maps writable and
 * guests map r-- and r-x. A fork shares its parent's area as it shares the text; entries are only
 * ever added. So what a guest process can read there is about its own text or its ancestors'.
 */
#include "platform/systrap/patch_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/base/fence.h"
#include "platform/base/log.h"

#define AREA_COUNT 1024
#define AREA_SIZE ((size_t)PATCH_TABLE_SIZE + TRAMPOLINES_SIZE)
#define HOT_BUCKETS 256
#define HOT_TRAPS 24 /* a patch costs about as much as this many traps */
#define HOT_REFUSED 0xffff
#define PAGE_MASK_ (~(GUEST_PAGE_SIZE - 1))

_Static_assert(PATCH_VERDICTS <= PLATFORM_REFUSALS, "statistics have room");
_Static_assert(GUEST_RESERVED_END - GUEST_RESERVED_START == PATCH_TABLE_SIZE, "the table");
_Static_assert(GUEST_RESERVED_START >> 16 == 0x6060, "the upper half of an entry's address traps");

/* ---- the sandbox's memory for areas ---- */

int patch_start(struct systrap *p)
{
	const size_t size = AREA_COUNT * AREA_SIZE;

	p->patch_fd = -1;
	if (p->flags & PLATFORM_NOPATCH)
		return 0;
	p->patch_fd = memfd_create("caisson-patch", MFD_CLOEXEC);
	if (p->patch_fd < 0 || ftruncate(p->patch_fd, (off_t)size))
		return -errno;
	p->patch_memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			       p->patch_fd, 0);
	if (p->patch_memory == MAP_FAILED) {
		p->patch_memory = NULL;
		return -errno;
	}
	return 0;
}

void patch_log(struct systrap *p)
{
	struct platform_stats st;

	if (!p->patch_memory || !log_enabled(LOG_INFO))
		return;
	patch_stats(p, &st);
	log_info("systrap: %llu of %llu switches from patched sites, %llu sites patched, %llu analysed "
		 "before, %llu restored",
		 (unsigned long long)st.fast_switches,
		 (unsigned long long)__atomic_load_n(&p->stats.switches, __ATOMIC_RELAXED),
		 (unsigned long long)st.patched, (unsigned long long)st.scans_saved,
		 (unsigned long long)st.restored);
	for (int i = PATCH_OK + 1; i < PATCH_VERDICTS; i++)
		if (st.refused[i])
			log_info("systrap: %llu sites refused: %s", (unsigned long long)st.refused[i],
				 patch_verdict_name((enum patch_verdict)i));
}

void patch_stop(struct systrap *p)
{
	if (p->patch_memory)
		munmap(p->patch_memory, AREA_COUNT * AREA_SIZE);
	if (p->patch_fd >= 0)
		close(p->patch_fd);
	lock_destroy(&p->scan_lock);
	patch_cache_free(&p->scan_cache);
	patch_scan_stop();
}

void patch_stats(struct systrap *p, struct platform_stats *st)
{
	st->fast_switches = __atomic_load_n(&p->stats.fast_switches, __ATOMIC_RELAXED);
	st->patched = __atomic_load_n(&p->stats.patched, __ATOMIC_RELAXED);
	st->scans_saved = __atomic_load_n(&p->stats.scans_saved, __ATOMIC_RELAXED);
	st->restored = __atomic_load_n(&p->stats.restored, __ATOMIC_RELAXED);
	for (int i = 0; i < PATCH_VERDICTS; i++) {
		st->refused[i] = __atomic_load_n(&p->stats.refused[i], __ATOMIC_RELAXED);
		st->refusal[i] = patch_verdict_name((enum patch_verdict)i);
	}
}

/* ---- areas ---- */

static struct patch_area *area_new(struct systrap *p)
{
	struct patch_area *a = calloc(1, sizeof(*a));
	uint32_t i;

	if (a)
		a->sites = calloc(TRAMPOLINE_COUNT, sizeof(*a->sites));
	if (!a || !a->sites) {
		free(a);
		return NULL;
	}
	lock_acquire(&p->lock);
	for (i = 0; i < AREA_COUNT && p->area_used[i / 64] & 1ull << (i % 64); i++)
		;
	if (i < AREA_COUNT)
		p->area_used[i / 64] |= 1ull << (i % 64);
	lock_release(&p->lock);
	if (i == AREA_COUNT) {
		free(a->sites);
		free(a);
		return NULL;
	}
	ref_init(&a->ref);
	lock_init(&a->lock, RANK_PLATFORM);
	a->plat = p;
	a->index = i;
	a->table = p->patch_memory + i * AREA_SIZE;
	a->trampolines = a->table + PATCH_TABLE_SIZE;
	return a;
}

/* The last process that mapped it has ended. #hostcalls: fallocate */
static void area_put(struct patch_area *a)
{
	struct systrap *p = a->plat;

	if (!ref_put(&a->ref))
		return;
	if (a->count && fallocate(p->patch_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  (off_t)(a->index * AREA_SIZE), (off_t)AREA_SIZE))
		memset(a->table, 0, AREA_SIZE);
	lock_acquire(&p->lock);
	p->area_used[a->index / 64] &= ~(1ull << (a->index % 64));
	lock_release(&p->lock);
	lock_destroy(&a->lock);
	free(a->sites);
	free(a);
}

void patch_inherit(struct systrap_addrspace *parent, struct systrap_addrspace *child)
{
	struct patch_area *a = area_of(parent);

	if (!a)
		return;
	ref_get(&a->ref);
	__atomic_store_n(&child->area, a, __ATOMIC_RELEASE);
}

void patch_release(struct systrap_addrspace *as)
{
	if (as->area)
		area_put(as->area);
	free(as->hot);
}

/* Maps a fresh area into c's process. With op_lock. */
static int area_map(struct systrap_context *c)
{
	struct patch_area *a = area_new(c->plat);
	struct order_list l;

	if (!a)
		return -ENOMEM;
	const uint64_t at = a->index * AREA_SIZE;

	order_begin(&l, c);
	order_add(&l, 1, c->plat->patch_fd, SYS_mmap, GUEST_RESERVED_START, PATCH_TABLE_SIZE,
		  PROT_READ, MAP_SHARED | MAP_FIXED, 0, at);
	order_add(&l, 1, c->plat->patch_fd, SYS_mmap, TRAMPOLINE_ADDR, TRAMPOLINES_SIZE,
		  PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, 0, at + PATCH_TABLE_SIZE);
	int ret = order_run(&l);

	if (ret) {
		/* It may be half mapped: it is not used again while the process lives. */
		if (l.approved)
			systrap_as_kill(&c->as->base);
		area_put(a);
		return ret;
	}
	__atomic_store_n(&c->as->area, a, __ATOMIC_RELEASE);
	return 0;
}

/* ---- sites ---- */

static int entry_free(const struct patch_area *a, uint32_t at)
{
	for (uint32_t i = at; i < at + 8; i++)
		if (i >= PATCH_TABLE_SIZE || a->used[i / 8] & 1u << (i % 8))
			return 0;
	return 1;
}

/* A free entry whose address traps where it must; 0 when there is none. */
static uint32_t entry_alloc(struct patch_area *a, const struct patch_plan *plan)
{
	for (uint32_t at = 8; at < PATCH_TABLE_SIZE; at++) {
		uint8_t low = (uint8_t)at, mid = (uint8_t)(at >> 8);

		/* Rare addresses are kept for those who need them; others are aligned. */
		if (plan->trap_mid ? !patch_trapping_byte(mid) : patch_trapping_byte(mid))
			continue;
		if (plan->trap_low ? !patch_trapping_byte(low) : at % 8 || low < 0x48 || low == 0x60)
			continue;
		if (!entry_free(a, at))
			continue;
		for (uint32_t i = at; i < at + 8; i++)
			a->used[i / 8] |= (uint8_t)(1u << (i % 8));
		return (uint32_t)GUEST_RESERVED_START + at;
	}
	return 0;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

static uint8_t *put32(uint8_t *at, uint32_t v)
{
	return put(at, &v, 4);
}

static uint8_t *put64(uint8_t *at, uint64_t v)
{
	return put(at, &v, 8);
}

/*
 * The displaced instructions, then (flags and all registers but rcx and r11 untouched):
 *	rdgsbase %r11;  mov MSG_SELF(%r11), %rcx;  lea -SELF_MAGIC(%rcx,%r11), %rcx;  jrcxz fast
 *	syscall;  ud2
 * fast:	movabs $after, %rcx;  jmp stub_fast
 */
static void write_trampoline(struct patch_area *a, uint32_t index, const struct patch_site *s)
{
	static const uint8_t check[] = { 0xf3, 0x49, 0x0f, 0xae, 0xcb, /* rdgsbase %r11 */
					 0x49, 0x8b, 0x8b };	       /* mov disp32(%r11), %rcx */
	static const uint8_t lea[] = { 0x4a, 0x8d, 0x8c, 0x19 };       /* lea disp32(%rcx,%r11), %rcx */
	static const uint8_t slow[] = { 0xe3, 0x04, 0x0f, 0x05, 0x0f, 0x0b }; /* jrcxz .+4 */
	uint8_t *start = a->trampolines + (size_t)index * TRAMPOLINE_SIZE, *at = start;
	uint64_t base = TRAMPOLINE_ADDR + (uint64_t)index * TRAMPOLINE_SIZE;
	static const uint8_t movabs[] = { 0x48, 0xb9 };

	at = put(at, s->bytes, s->length);
	at = put(at, check, sizeof(check));
	at = put32(at, MSG_SELF);
	at = put(at, lea, sizeof(lea));
	at = put32(at, (uint32_t)-SELF_MAGIC);
	at = put(at, slow, sizeof(slow));
	at = put(at, movabs, sizeof(movabs));
	at = put64(at, s->start + s->length + 2);
	*at++ = 0xe9;
	at = put32(at, (uint32_t)(STUB_TEXT_ADDR + a->plat->stub->fast -
				  (base + (uint64_t)(at + 4 - start))));
	memset(at, 0xcc, (size_t)(start + TRAMPOLINE_SIZE - at));
	memcpy(a->table + (s->entry - GUEST_RESERVED_START), &base, sizeof(base));
	fence_full();
}

/* For patch_hide(), which may look at any time. */
static void note_page(struct patch_area *a, uint64_t addr)
{
	uint32_t bit = patch_page_bit(addr);

	__atomic_fetch_or(&a->pages[bit / 64], 1ull << (bit % 64), __ATOMIC_RELEASE);
}

/* The site's table entry, made when it is new to the area; 0 when there is no room. */
static uint32_t site_entry(struct patch_area *a, uint64_t start, const uint8_t *bytes,
			   const struct patch_plan *plan)
{
	uint32_t entry = 0;

	lock_acquire(&a->lock);
	for (uint32_t i = 0; i < a->count && !entry; i++) {
		const struct patch_site *s = &a->sites[i];

		if (s->start == start && s->length == plan->length &&
		    s->boundaries == plan->boundaries && !memcmp(s->bytes, bytes, plan->length))
			entry = s->entry;
	}
	if (!entry && a->count < TRAMPOLINE_COUNT && (entry = entry_alloc(a, plan))) {
		struct patch_site *s = &a->sites[a->count];

		s->start = start;
		s->entry = entry;
		s->length = plan->length;
		s->boundaries = plan->boundaries;
		memcpy(s->bytes, bytes, plan->length);
		note_page(a, start);
		note_page(a, start + PATCH_JUMP_SIZE - 1);
		write_trampoline(a, a->count, s);
		__atomic_store_n(&a->count, a->count + 1, __ATOMIC_RELEASE);
	}
	lock_release(&a->lock);
	return entry;
}

int patch_write_text(struct systrap_context *c, uint64_t start, const uint8_t *bytes, int prot)
{
	struct systrap_addrspace *as = c->as;
	uint64_t first = start & PAGE_MASK_;
	uint64_t len = ((start + PATCH_JUMP_SIZE - 1) & PAGE_MASK_) + GUEST_PAGE_SIZE - first;
	struct order_list l;
	int ret, back;

	__atomic_fetch_add(&as->patch_generation, 1, __ATOMIC_SEQ_CST);
	order_begin(&l, c);
	order_add(&l, 1, -1, SYS_mprotect, first, len, PROT_READ | PROT_WRITE, 0, 0, 0);
	ret = order_run(&l);
	if (!ret && addrspace_write(&as->base, gaddr(start), bytes, PATCH_JUMP_SIZE) != PATCH_JUMP_SIZE)
		ret = -EFAULT;
	order_begin(&l, c);
	order_add(&l, (prot & PROT_WRITE) != 0, -1, SYS_mprotect, first, len, (uint64_t)prot, 0, 0, 0);
	back = order_run(&l);
	__atomic_fetch_add(&as->patch_generation, 1, __ATOMIC_SEQ_CST);
	return ret ? ret : back;
}

static int write_jump(struct systrap_context *c, uint64_t start, uint32_t entry)
{
	uint8_t jump[PATCH_JUMP_SIZE] = { 0xff, 0x24, 0x25 };

	memcpy(jump + 3, &entry, 4);
	return patch_write_text(c, start, jump, PROT_READ | PROT_EXEC);
}

/* ---- which sites are worth it ---- */

static uint64_t *hot_bucket(const struct systrap_addrspace *as, uint64_t after)
{
	uint64_t *hot = __atomic_load_n(&as->hot, __ATOMIC_ACQUIRE);

	return hot ? &hot[(after ^ after >> 8 ^ after >> 16) % HOT_BUCKETS] : NULL;
}

/* A bucket is address << 16 | count. Threads may lose each other's counts. */
int patch_note_trap(struct systrap_addrspace *as, uint64_t after)
{
	if (!as->plat->patch_memory)
		return 0;
	uint64_t *b = hot_bucket(as, after);

	if (!b) {
		uint64_t *fresh = calloc(HOT_BUCKETS, sizeof(*fresh)), *none = NULL;

		if (fresh && !__atomic_compare_exchange_n(&as->hot, &none, fresh, 0,
							  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			free(fresh);
		return 0;
	}
	uint64_t was = __atomic_load_n(b, __ATOMIC_RELAXED), count = was & 0xffff;

	if (was >> 16 != (after & 0xffffffffffffull))
		count = 0;
	if (count == HOT_REFUSED)
		return 0;
	count = count < HOT_TRAPS ? count + 1 : 1;
	__atomic_store_n(b, after << 16 | count, __ATOMIC_RELAXED);
	return count == HOT_TRAPS;
}

static int refuse(struct systrap_context *c, uint64_t after, enum patch_verdict why)
{
	uint64_t *b = hot_bucket(c->as, after);

	if (b)
		__atomic_store_n(b, after << 16 | HOT_REFUSED, __ATOMIC_RELAXED);
	stat_add(&c->plat->stats.refused[why]);
	log_debug("systrap: syscall site before %#llx is not patched: %s", (unsigned long long)after,
		  patch_verdict_name(why));
	return -EINVAL;
}

/* The decoder's verdict, or what it said of the same bytes in this process or another. */
static enum patch_verdict scan(struct systrap *p, const uint8_t *text, size_t before,
			       struct patch_plan *plan)
{
	enum patch_verdict why = PATCH_MEMORY;

	lock_acquire(&p->scan_lock);
	if (patch_cache_find(&p->scan_cache, text, before, &why, plan)) {
		stat_add(&p->stats.scans_saved);
	} else if (!patch_scan_start()) {
		why = patch_scan(text, before, plan);
		patch_cache_add(&p->scan_cache, text, before, why, plan);
	}
	lock_release(&p->scan_lock);
	return why;
}

/* #hostcalls: brk mmap munmap (capstone's memory) */
int systrap_ctx_patch(struct context *base, uint64_t after, uint64_t start, uint64_t end)
{
	struct systrap_context *c = to_context(base);
	struct systrap_addrspace *as = c->as;
	uint8_t text[PATCH_SCAN_BEFORE + 2];
	struct patch_plan plan;
	enum patch_verdict why;

	if (!c->plat->patch_memory)
		return -EOPNOTSUPP;
	if (after < start || after > end || after - start < 2)
		return -EINVAL;
	uint64_t before = after - 2 - start;

	if (before > PATCH_SCAN_BEFORE)
		before = PATCH_SCAN_BEFORE;
	if (systrap_as_peek(as, after - 2 - before, text, before + 2) != (ssize_t)(before + 2))
		return refuse(c, after, PATCH_MEMORY);
	if (text[before] != 0x0f || text[before + 1] != 0x05)
		return -EINVAL; /* patched already, or a jump into one that is */
	why = scan(c->plat, text, before, &plan);
	if (why != PATCH_OK)
		return refuse(c, after, why);

	int ret = 0;
	uint32_t entry = 0;
	const uint8_t *bytes = text + before - plan.length;

	lock_acquire(&as->op_lock);
	if (!as->area)
		ret = area_map(c);
	if (!ret && !(entry = site_entry(as->area, after - 2 - plan.length, bytes, &plan)))
		why = PATCH_FULL;
	if (entry)
		ret = write_jump(c, after - 2 - plan.length, entry);
	lock_release(&as->op_lock);
	if (ret)
		why = PATCH_MEMORY;
	if (why != PATCH_OK)
		return refuse(c, after, why);
	stat_add(&c->plat->stats.patched);
	return 0;
}
