/* SPDX-License-Identifier: Apache-2.0 */
/* ELF headers from a hostile file: whatever they say, elf_open refuses or keeps its bounds. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/host/memfile.h"
#include "sentry/loader/loader.h"
#include "vfs/tmpfs/tmpfs.h"

static struct vfs *g_vfs;
static struct cred *g_cred;

struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[4];
	char interp[16];
};

static struct file *file_of(const void *data, size_t size)
{
	struct file *f = shmem_file_new(g_vfs, "elf", size ? size : 1, g_cred);
	struct uio u;

	ck_assert(!IS_ERR(f));
	uio_init_kernel(&u, (void *)data, size);
	ck_assert_int_eq(file_pwrite(f, &u, 0, UINT64_MAX, 0), (int)size);
	return f;
}

static int try(const struct image *im, struct elf_file *e)
{
	struct file *f = file_of(im, sizeof(*im));
	int err = elf_open(f, e);

	if (!err) {
		ck_assert(e->lo < e->hi);
		ck_assert_uint_le(e->hi, GUEST_TASK_SIZE);
		ck_assert(!e->interp || memchr(e->interp, 0, PATH_MAX));
		elf_close(e);
	}
	file_put(f);
	return err;
}

static struct image good(void)
{
	struct image im = { 0 };

	memcpy(im.eh.e_ident, ELFMAG, SELFMAG);
	im.eh.e_ident[EI_CLASS] = ELFCLASS64;
	im.eh.e_ident[EI_DATA] = ELFDATA2LSB;
	im.eh.e_type = ET_EXEC;
	im.eh.e_machine = EM_X86_64;
	im.eh.e_phoff = offsetof(struct image, ph);
	im.eh.e_phentsize = sizeof(Elf64_Phdr);
	im.eh.e_phnum = 3;
	im.ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0x400000,
				 .p_filesz = 100, .p_memsz = 200 };
	im.ph[1] = (Elf64_Phdr){ .p_type = PT_INTERP, .p_offset = offsetof(struct image, interp),
				 .p_filesz = 8 };
	im.ph[2] = (Elf64_Phdr){ .p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W };
	strcpy(im.interp, "/lib/ld");
	return im;
}

START_TEST(a_good_one)
{
	struct image im = good();
	struct elf_file e;

	ck_assert_int_eq(try(&im, &e), 0);
	ck_assert_int_eq(e.exec_stack, 0);
	ck_assert_uint_eq(e.lo, 0x400000);
	ck_assert_uint_eq(e.hi, 0x401000);
}
END_TEST

#define BAD(want, change)                               \
	do {                                            \
		struct image im = good();               \
		struct elf_file e;                      \
							\
		change;                                 \
		ck_assert_int_eq(try(&im, &e), want);   \
	} while (0)

START_TEST(bad_ones)
{
	BAD(-ENOEXEC, im.eh.e_ident[0] = 0);
	BAD(-ENOEXEC, im.eh.e_ident[EI_CLASS] = ELFCLASS32);
	BAD(-ENOEXEC, im.eh.e_machine = EM_386);
	BAD(-ENOEXEC, im.eh.e_type = ET_REL);
	BAD(-ENOEXEC, im.eh.e_phentsize = 55);
	BAD(-ENOEXEC, im.eh.e_phnum = 0);
	BAD(-ENOEXEC, im.eh.e_phnum = 0xffff);
	BAD(-ENOEXEC, im.eh.e_phnum = 1000); /* past the end of the file */
	BAD(-ENOEXEC, im.eh.e_phoff = UINT64_MAX);
	BAD(-ENOEXEC, im.eh.e_phoff = INT64_MAX - 4);
	BAD(-ENOEXEC, im.ph[0].p_type = PT_NULL); /* nothing to load */
	BAD(-ENOEXEC, im.ph[0].p_memsz = im.ph[0].p_filesz = 0);
	BAD(-EINVAL, im.ph[0].p_filesz = 300);
	BAD(-EINVAL, im.ph[0].p_memsz = UINT64_MAX);
	BAD(-EINVAL, im.ph[0].p_vaddr = UINT64_MAX - 50);
	BAD(-EINVAL, im.ph[0].p_vaddr = GUEST_TASK_SIZE - 100);
	BAD(-EINVAL, im.ph[0].p_offset = 1);
	BAD(-EINVAL, im.ph[0].p_offset = UINT64_MAX & ~4095ull);
	BAD(-ENOEXEC, im.ph[1].p_filesz = 1);
	BAD(-ENOEXEC, im.ph[1].p_filesz = PATH_MAX + 1);
	BAD(-ENOEXEC, im.ph[1].p_filesz = 7); /* no NUL at the end */
	BAD(-EIO, im.ph[1].p_offset = 1 << 20);
	BAD(-ENOEXEC, im.ph[1].p_offset = UINT64_MAX - 3);
}
END_TEST

START_TEST(mutations_never_break_the_bounds)
{
	struct elf_file e;

	srand(3);
	for (int i = 0; i < 3000; i++) {
		struct image im = good();
		uint8_t *bytes = (uint8_t *)&im;

		for (int n = rand() % 6; n >= 0; n--)
			bytes[rand() % (int)sizeof(im)] = (uint8_t)rand();
		(void)try(&im, &e);
	}
}
END_TEST

START_TEST(short_files)
{
	struct image im = good();

	for (size_t n = 0; n < offsetof(struct image, interp) + 8; n += 13) {
		struct file *f = file_of(&im, n);
		struct elf_file e;
		int err = elf_open(f, &e);

		ck_assert(err < 0);
		file_put(f);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("elf");
	TCase *t = tcase_create("open");
	SRunner *r;

	if (memfile_start())
		return 1;
	g_vfs = vfs_new();
	g_cred = cred_new(0, 0, 0);
	tcase_add_test(t, a_good_one);
	tcase_add_test(t, bad_ones);
	tcase_add_test(t, mutations_never_break_the_bounds);
	tcase_add_test(t, short_files);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
