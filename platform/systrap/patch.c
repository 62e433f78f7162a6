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
#include "platform/systrap/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

struct patch_site {
	uint64_t start; /* of the displaced instructions */
	uint32_t entry; /* its table entry */
	uint8_t length, boundaries;
	uint8_t bytes[12]; /* what was displaced */
};

struct patch_area {
	struct ref ref;
	struct systrap *plat;
	uint32_t index;
	uint8_t *table, *trampolines; /* the sentry's view */
	struct lock lock;	      /* RANK_PLATFORM */
	uint32_t count;		      /* [a] sites; a site never changes once counted */
	struct patch_site *sites;     /* TRAMPOLINE_COUNT */
	uint8_t used[PATCH_TABLE_SIZE / 8]; /* [lock] a bit for each byte of the table */
};

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

void patch_stop(struct systrap *p)
{
	if (p->patch_memory) {
		struct platform_stats st;

		patch_stats(p, &st);
		log_info("systrap: %llu of %llu switches from patched sites, %llu sites patched",
			 (unsigned long long)st.fast_switches,
			 (unsigned long long)__atomic_load_n(&p->stats.switches, __ATOMIC_RELAXED),
			 (unsigned long long)st.patched);
		for (int i = PATCH_OK + 1; i < PATCH_VERDICTS; i++)
			if (st.refused[i])
				log_info("systrap: %llu sites refused: %s",
					 (unsigned long long)st.refused[i],
					 patch_verdict_name((enum patch_verdict)i));
		munmap(p->patch_memory, AREA_COUNT * AREA_SIZE);
	}
	if (p->patch_fd >= 0)
		close(p->patch_fd);
	lock_destroy(&p->scan_lock);
	patch_scan_stop();
}

void patch_stats(struct systrap *p, struct platform_stats *st)
{
	st->fast_switches = __atomic_load_n(&p->stats.fast_switches, __ATOMIC_RELAXED);
	st->patched = __atomic_load_n(&p->stats.patched, __ATOMIC_RELAXED);
	for (int i = 0; i < PATCH_VERDICTS; i++) {
		st->refused[i] = __atomic_load_n(&p->stats.refused[i], __ATOMIC_RELAXED);
		st->refusal[i] = patch_verdict_name((enum patch_verdict)i);
	}
}

/* ---- areas ---- */

static struct patch_area *area_of(const struct systrap_addrspace *as)
{
	return __atomic_load_n(&as->area, __ATOMIC_ACQUIRE);
}

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
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
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
		write_trampoline(a, a->count, s);
		__atomic_store_n(&a->count, a->count + 1, __ATOMIC_RELEASE);
	}
	lock_release(&a->lock);
	return entry;
}

/* Puts the jump into the text, which is not executable for that moment. With op_lock. */
static int write_text(struct systrap_context *c, uint64_t start, uint32_t entry)
{
	struct systrap_addrspace *as = c->as;
	uint64_t first = start & PAGE_MASK_;
	uint64_t len = ((start + PATCH_JUMP_SIZE - 1) & PAGE_MASK_) + GUEST_PAGE_SIZE - first;
	uint8_t jump[PATCH_JUMP_SIZE] = { 0xff, 0x24, 0x25 };
	struct order_list l;
	int ret, back;

	memcpy(jump + 3, &entry, 4);
	__atomic_fetch_add(&as->patch_generation, 1, __ATOMIC_SEQ_CST);
	order_begin(&l, c);
	order_add(&l, 1, -1, SYS_mprotect, first, len, PROT_READ | PROT_WRITE, 0, 0, 0);
	ret = order_run(&l);
	if (!ret && addrspace_write(&as->base, gaddr(start), jump, sizeof(jump)) !=
			    (ssize_t)sizeof(jump))
		ret = -EFAULT;
	order_begin(&l, c);
	order_add(&l, 0, -1, SYS_mprotect, first, len, PROT_READ | PROT_EXEC, 0, 0, 0);
	back = order_run(&l);
	__atomic_fetch_add(&as->patch_generation, 1, __ATOMIC_SEQ_CST);
	return ret ? ret : back;
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
	if (addrspace_read(&as->base, gaddr(after - 2 - before), text, before + 2) !=
	    (ssize_t)(before + 2))
		return refuse(c, after, PATCH_MEMORY);
	if (text[before] != 0x0f || text[before + 1] != 0x05)
		return -EINVAL; /* patched already, or a jump into one that is */
	lock_acquire(&c->plat->scan_lock);
	why = patch_scan_start() ? PATCH_MEMORY : patch_scan(text, before, &plan);
	lock_release(&c->plat->scan_lock);
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
		ret = write_text(c, after - 2 - plan.length, entry);
	lock_release(&as->op_lock);
	if (ret)
		why = PATCH_MEMORY;
	if (why != PATCH_OK)
		return refuse(c, after, why);
	stat_add(&c->plat->stats.patched);
	return 0;
}

/* ---- where a stopped thread really is ---- */

int patch_place(struct systrap_addrspace *as, uint64_t rip, struct patch_place *pl)
{
	struct patch_area *a = area_of(as);
	uint64_t index = (rip - TRAMPOLINE_ADDR) / TRAMPOLINE_SIZE;
	uint64_t offset = (rip - TRAMPOLINE_ADDR) % TRAMPOLINE_SIZE;

	if (!a || rip < TRAMPOLINE_ADDR || index >= __atomic_load_n(&a->count, __ATOMIC_ACQUIRE))
		return 0;
	const struct patch_site *s = &a->sites[index];

	pl->at_call = offset >= s->length;
	pl->rip = s->start + (pl->at_call ? s->length : offset);
	pl->after = s->start + s->length + 2;
	return 1;
}

/* The site at `start`, if the guest's text has its jump there now. */
static const struct patch_site *site_at(struct systrap_addrspace *as, struct patch_area *a,
					uint64_t start)
{
	uint8_t now[PATCH_JUMP_SIZE];
	uint32_t entry;

	if (addrspace_read(&as->base, gaddr(start), now, sizeof(now)) != (ssize_t)sizeof(now) ||
	    now[0] != 0xff || now[1] != 0x24 || now[2] != 0x25)
		return NULL;
	memcpy(&entry, now + 3, 4);
	for (uint32_t i = 0; i < __atomic_load_n(&a->count, __ATOMIC_ACQUIRE); i++)
		if (a->sites[i].start == start && a->sites[i].entry == entry)
			return &a->sites[i];
	return NULL;
}

int patch_undefined(struct systrap_addrspace *as, uint64_t rip, uint64_t *to)
{
	struct patch_area *a = area_of(as);

	if (!a)
		return 0;
	for (uint32_t b = 3; b < PATCH_JUMP_SIZE; b++) {
		const struct patch_site *s = site_at(as, a, rip - b);

		if (!s || !(s->boundaries & 1u << b))
			continue;
		if (b == s->length) {
			*to = rip + 2;
			return 1;
		}
		*to = TRAMPOLINE_ADDR + (uint64_t)(s - a->sites) * TRAMPOLINE_SIZE + b;
		return 2;
	}
	return 0;
}

uint64_t patch_step(struct systrap_addrspace *as, uint64_t rip)
{
	struct patch_area *a = area_of(as);
	const struct patch_site *s = a ? site_at(as, a, rip) : NULL;

	return s ? TRAMPOLINE_ADDR + (uint64_t)(s - a->sites) * TRAMPOLINE_SIZE : rip;
}
