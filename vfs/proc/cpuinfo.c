/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/cpuinfo from the CPUID instruction, as a guest program itself could ask it: one socket
 * with cpu_count cores. Flag names and their order are Linux's (x86 cpufeatures words).
 */
#include <cpuid.h>
#include <time.h>
#include <x86intrin.h>

#include "vfs/proc/proc_priv.h"

/* One 32-bit word of feature bits and Linux's names for them; NULL: not shown. */
struct feature_word {
	uint32_t leaf, subleaf;
	int reg; /* 0 eax … 3 edx */
	const char *name[32];
};

static const struct feature_word g_words[] = {
	{ 1, 0, 3,
	  { "fpu", "vme", "de", "pse", "tsc", "msr", "pae", "mce", "cx8", "apic", NULL, "sep",
	    "mtrr", "pge", "mca", "cmov", "pat", "pse36", "pn", "clflush", NULL, "dts", "acpi",
	    "mmx", "fxsr", "sse", "sse2", "ss", "ht", "tm", "ia64", "pbe" } },
	{ 0x80000001, 0, 3,
	  { [11] = "syscall", [19] = "mp", [20] = "nx", [22] = "mmxext", [25] = "fxsr_opt",
	    [26] = "pdpe1gb", [27] = "rdtscp", [29] = "lm", [30] = "3dnowext", [31] = "3dnow" } },
	{ 0x80000007, 0, 3, { [8] = "constant_tsc" } },
	{ 1, 0, 2,
	  { "pni", "pclmulqdq", "dtes64", "monitor", "ds_cpl", "vmx", "smx", "est", "tm2", "ssse3",
	    "cid", "sdbg", "fma", "cx16", "xtpr", "pdcm", NULL, "pcid", "dca", "sse4_1", "sse4_2",
	    "x2apic", "movbe", "popcnt", "tsc_deadline_timer", "aes", "xsave", NULL, "avx", "f16c",
	    "rdrand", "hypervisor" } },
	{ 0x80000001, 0, 2,
	  { "lahf_lm", "cmp_legacy", "svm", "extapic", "cr8_legacy", "abm", "sse4a", "misalignsse",
	    "3dnowprefetch", "osvw", "ibs", "xop", "skinit", "wdt", NULL, "lwp", "fma4", "tce",
	    NULL, "nodeid_msr", NULL, "tbm", "topoext", "perfctr_core", "perfctr_nb", NULL, "bpext",
	    "ptsc", "perfctr_llc", "mwaitx" } },
	{ 7, 0, 1,
	  { "fsgsbase", "tsc_adjust", "sgx", "bmi1", "hle", "avx2", NULL, "smep", "bmi2", "erms",
	    "invpcid", "rtm", "cqm", NULL, "mpx", "rdt_a", "avx512f", "avx512dq", "rdseed", "adx",
	    "smap", "avx512ifma", NULL, "clflushopt", "clwb", "intel_pt", "avx512pf", "avx512er",
	    "avx512cd", "sha_ni", "avx512bw", "avx512vl" } },
	{ 0xd, 1, 0, { "xsaveopt", "xsavec", "xgetbv1", "xsaves", [4] = "xfd" } },
	{ 7, 1, 0, { [4] = "avx_vnni", [5] = "avx512_bf16", [23] = "avx_ifma" } },
	{ 0x80000008, 0, 1,
	  { [0] = "clzero", [2] = "xsaveerptr", [4] = "rdpru", [9] = "wbnoinvd" } },
	{ 6, 0, 0, { [2] = "arat" } },
	{ 7, 0, 2,
	  { [1] = "avx512vbmi", [2] = "umip", [3] = "pku", [4] = "ospke", [5] = "waitpkg",
	    [6] = "avx512_vbmi2", [8] = "gfni", [9] = "vaes", [10] = "vpclmulqdq",
	    [11] = "avx512_vnni", [12] = "avx512_bitalg", [14] = "avx512_vpopcntdq",
	    [16] = "la57", [22] = "rdpid", [25] = "cldemote", [27] = "movdiri",
	    [28] = "movdir64b" } },
	{ 7, 0, 3,
	  { [2] = "avx512_4vnniw", [3] = "avx512_4fmaps", [4] = "fsrm",
	    [8] = "avx512_vp2intersect", [10] = "md_clear", [14] = "serialize", [16] = "tsxldtrk",
	    [22] = "amx_bf16", [23] = "avx512_fp16", [24] = "amx_tile", [25] = "amx_int8" } },
};

struct cpu_id {
	uint32_t max, max_ext;
	char vendor[13], model_name[49];
	uint32_t family, model, stepping, cache_kb, clflush, phys_bits, virt_bits, tlb_4k;
	uint64_t khz;
	struct strbuf flags;
};

static uint32_t cpuid_reg(const struct cpu_id *id, uint32_t leaf, uint32_t subleaf, int reg)
{
	uint32_t r[4] = { 0 };

	if (leaf > (leaf & 0x80000000 ? id->max_ext : id->max))
		return 0;
	__cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
	return r[reg];
}

/* The TSC's rate: from CPUID where told, else measured once over two milliseconds. */
static uint64_t tsc_khz(const struct cpu_id *id)
{
	static uint64_t measured;
	uint64_t khz = __atomic_load_n(&measured, __ATOMIC_RELAXED);

	if (khz)
		return khz;
	uint32_t den = cpuid_reg(id, 0x15, 0, 0), num = cpuid_reg(id, 0x15, 0, 1),
		 crystal = cpuid_reg(id, 0x15, 0, 2);

	if (den && num && crystal) {
		khz = (uint64_t)crystal * num / den / 1000;
	} else {
		struct timespec a, b;
		uint64_t ns, t0, t1;

		clock_gettime(CLOCK_MONOTONIC_RAW, &a);
		t0 = __rdtsc();
		do {
			clock_gettime(CLOCK_MONOTONIC_RAW, &b);
			t1 = __rdtsc();
			ns = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000ull + (uint64_t)b.tv_nsec -
			     (uint64_t)a.tv_nsec;
		} while (ns < 2000000);
		khz = (t1 - t0) * 1000000 / ns;
	}
	__atomic_store_n(&measured, khz, __ATOMIC_RELAXED);
	return khz;
}

/* The last-level figure Linux shows: L2 on AMD, the biggest of leaf 4 on Intel. */
static uint32_t cache_kb(const struct cpu_id *id)
{
	uint32_t best = 0;

	if (!strcmp(id->vendor, "AuthenticAMD") || !strcmp(id->vendor, "HygonGenuine"))
		return cpuid_reg(id, 0x80000006, 0, 2) >> 16;
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t a = cpuid_reg(id, 4, i, 0), b = cpuid_reg(id, 4, i, 1),
			 c = cpuid_reg(id, 4, i, 2);

		if ((a & 31) == 0)
			break;
		uint64_t size = (uint64_t)((b >> 22) + 1) * (((b >> 12) & 0x3ff) + 1) *
				((b & 0xfff) + 1) * ((uint64_t)c + 1);

		if ((size >> 10) > best)
			best = (uint32_t)(size >> 10);
	}
	return best;
}

static void read_cpu(struct cpu_id *id)
{
	uint32_t a, b, c, d;

	memset(id, 0, sizeof(*id));
	__cpuid(0, a, b, c, d);
	id->max = a;
	memcpy(id->vendor, &b, 4);
	memcpy(id->vendor + 4, &d, 4);
	memcpy(id->vendor + 8, &c, 4);
	__cpuid(0x80000000, a, b, c, d);
	id->max_ext = a;
	for (uint32_t i = 0; i < 3 && id->max_ext >= 0x80000004; i++) {
		uint32_t r[4];

		__cpuid(0x80000002 + i, r[0], r[1], r[2], r[3]);
		memcpy(id->model_name + 16 * i, r, 16);
	}
	__cpuid(1, a, b, c, d);
	id->family = (a >> 8) & 15;
	if (id->family == 15)
		id->family += (a >> 20) & 0xff;
	id->model = (a >> 4) & 15;
	if (id->family >= 6)
		id->model += ((a >> 16) & 15) << 4;
	id->stepping = a & 15;
	id->clflush = ((b >> 8) & 0xff) * 8;
	a = cpuid_reg(id, 0x80000008, 0, 0);
	id->phys_bits = a ? a & 0xff : 36;
	id->virt_bits = a ? (a >> 8) & 0xff : 48;
	id->cache_kb = cache_kb(id);
	id->khz = tsc_khz(id);
	for (size_t w = 0; w < sizeof(g_words) / sizeof(g_words[0]); w++) {
		uint32_t bits = cpuid_reg(id, g_words[w].leaf, g_words[w].subleaf, g_words[w].reg);

		for (int i = 0; i < 32; i++)
			if ((bits >> i & 1) && g_words[w].name[i])
				strbuf_printf(&id->flags, "%s%s", id->flags.len ? " " : "",
					      g_words[w].name[i]);
	}
}

static const char *trimmed(const char *s)
{
	while (*s == ' ')
		s++;
	return s;
}

int proc_show_cpuinfo(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	struct cpu_id id;

	read_cpu(&id);
	for (uint32_t i = 0; i < ps->cpu_count; i++) {
		strbuf_printf(out,
			      "processor\t: %u\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\n"
			      "model name\t: %s\nstepping\t: %u\n",
			      i, id.vendor, id.family, id.model, trimmed(id.model_name),
			      id.stepping);
		strbuf_printf(out, "cpu MHz\t\t: %llu.%03llu\n", (unsigned long long)id.khz / 1000,
			      (unsigned long long)id.khz % 1000);
		if (id.cache_kb)
			strbuf_printf(out, "cache size\t: %u KB\n", id.cache_kb);
		strbuf_printf(out,
			      "physical id\t: 0\nsiblings\t: %u\ncore id\t\t: %u\ncpu cores\t: %u\n"
			      "apicid\t\t: %u\ninitial apicid\t: %u\nfpu\t\t: yes\n"
			      "fpu_exception\t: yes\ncpuid level\t: %u\nwp\t\t: yes\n",
			      ps->cpu_count, i, ps->cpu_count, i, i, id.max);
		strbuf_printf(out, "flags\t\t: %s\nbugs\t\t:\nbogomips\t: %llu.%02llu\n",
			      id.flags.data ? id.flags.data : "",
			      (unsigned long long)id.khz / 500,
			      (unsigned long long)id.khz / 5 % 100);
		strbuf_printf(out,
			      "clflush size\t: %u\ncache_alignment\t: %u\naddress sizes\t: %u bits "
			      "physical, %u bits virtual\npower management:\n\n",
			      id.clflush, id.clflush, id.phys_bits, id.virt_bits);
	}
	strbuf_free(&id.flags);
	return 0;
}

void proc_put_cpu_list(struct strbuf *out, const uint8_t *bits, uint32_t n)
{
	const char *sep = "";

	for (uint32_t i = 0; i < n; i++) {
		if (!(bits[i / 8] >> (i % 8) & 1))
			continue;
		uint32_t last = i;

		while (last + 1 < n && (bits[(last + 1) / 8] >> ((last + 1) % 8) & 1))
			last++;
		strbuf_printf(out, last > i ? "%s%u-%u" : "%s%u", sep, i, last);
		sep = ",";
		i = last;
	}
}

/* Groups of 32 bits, the first only as wide as it must be. */
void proc_put_cpu_mask(struct strbuf *out, const uint8_t *bits, uint32_t n)
{
	for (uint32_t group = (n + 31) / 32; group-- > 0;) {
		uint32_t v = 0, width = 8;

		for (uint32_t i = group * 32; i < n && i < group * 32 + 32; i++)
			v |= (uint32_t)(bits[i / 8] >> (i % 8) & 1) << (i % 32);
		if (group == (n + 31) / 32 - 1 && n % 32)
			width = (n % 32 + 3) / 4;
		strbuf_printf(out, "%0*x%s", (int)width, v, group ? "," : "");
	}
}
