/* Go's heap: which releases of Go have one that stays, and where it ends (X15). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/elf/go_build.h"
#include "control/modules/go_heap.h"
#include "scratch.h"

#define UNKNOWN 0

/* A file with the section of a Go program. */
static struct symtab *open_build(const char *magic, unsigned flags, const char *length,
				 const char *rest)
{
	struct symtab *symtab = NULL;
	char text[512];

	snprintf(text, sizeof(text),
		 ".section .go.buildinfo,\"aw\",@progbits\n.balign 16\n"
		 ".ascii \"%s\"\n.byte 8, %u\n.zero 16\n%s\n%s\n",
		 magic, flags, length, rest);
	scratch_text("build.s", text);
	scratch_run("gcc -shared -nostdlib build.s -o libbuild.so");
	int fd = open(scratch_path("libbuild.so"), O_RDONLY | O_CLOEXEC);
	assert_null(symtab_open(fd, "libbuild.so", &symtab));
	close(fd);
	return symtab;
}

static unsigned release_of(const char *magic, unsigned flags, const char *length, const char *rest)
{
	struct symtab *symtab = open_build(magic, flags, length, rest);
	unsigned release = UNKNOWN;
	bool known = go_build_release(symtab, &release);

	assert_true(known == (release != UNKNOWN));
	symtab_close(symtab);
	return release;
}

#define MAGIC "\\377 Go buildinf:"

static unsigned release_named(const char *name)
{
	char length[32], text[128];

	snprintf(length, sizeof(length), ".byte %zu", strlen(name));
	snprintf(text, sizeof(text), ".ascii \"%s\"", name);
	return release_of(MAGIC, 2, length, text);
}

static void test_releases(void **unused)
{
	static const char *const others[] = {
		"",
		"go1",
		"go1.",
		"go2.19",
		"gp1.19.8",
		"go1.19rc1",
		"go1.20 X:arenas",
		"go1.19.8 gccgo",
		"go1.19.",
		"go1.19.8.1",
		"go1..8",
		"go1.12345",
		"devel +aa",
		"go1.19-fork1",
		"go1.x",
		"go1.19.8 X:foo2",
	};

	assert_int_equal(release_named("go1.18"), 18);
	assert_int_equal(release_named("go1.19.8"), 19);
	assert_int_equal(release_named("go1.25.10"), 25);
	assert_int_equal(release_named("go1.100"), 100);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(release_named(others[i]), UNKNOWN);
}

static void test_other_forms(void **unused)
{
	static const char name[] = ".ascii \"go1.19.8\"";

	assert_int_equal(release_of(MAGIC, 2, ".byte 8", name), 19);
	assert_int_equal(release_of(MAGIC, 0, ".byte 8", name), UNKNOWN); /* before 1.18 */
	assert_int_equal(release_of("\\377 Ga buildinf:", 2, ".byte 8", name), UNKNOWN);
	assert_int_equal(release_of(MAGIC, 2, ".byte 200", name), UNKNOWN); /* beyond the end */
	assert_int_equal(release_of(MAGIC, 2, "", ""), UNKNOWN);
}

static void test_mentions(void **unused)
{
	struct symtab *symtab =
		open_build(MAGIC, 2, ".byte 8", ".ascii \"go1.19.8\\020-X=harddecommit\"");

	assert_true(go_build_mentions(symtab, "harddecommit"));
	assert_false(go_build_mentions(symtab, "efence"));
	symtab_close(symtab);
}

/* With -trimpath the description leaves out what the linker was told. */
static void test_mentions_in_text(void **unused)
{
	static const unsigned places[] = { 1, 16380, 16384, 40000, 100000 };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char rest[256];

		snprintf(rest, sizeof(rest),
			 ".ascii \"go1.19.8\"\n.section .rodata\n.balign 4096\n.zero %u\n"
			 ".ascii \"harddecommit=1\"",
			 places[i]);
		struct symtab *symtab = open_build(MAGIC, 2, ".byte 8", rest);
		assert_true(go_build_mentions(symtab, "harddecommit="));
		assert_false(go_build_mentions(symtab, "efence="));
		symtab_close(symtab);
	}
}

static uint64_t open_end;

static uint64_t end_by(const char *lines)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct dt_heap heap = { 0 };
	char text[1024];

	snprintf(text, sizeof(text), "%s", lines);
	assert_null(maps_parse(text, &maps));
	heap.open = 0xc000000000;
	go_heap_look(&maps, &heap);
	open_end = heap.open;
	return heap.end;
}

/* X15 */
static void test_end(void **unused)
{
	static const char above[] = "c008000000-c00c000000 rw-p 00000000 00:00 0 \n";
	char lines[1024];

	assert_int_equal(end_by(""), 0xc004000000);
	assert_int_equal(open_end, 0xc000000000);
	assert_int_equal(end_by(above), 0xc004000000);
	assert_int_equal(end_by("c000000000-c000400000 rw-p 00000000 00:00 0 \n"
				"c000400000-c004000000 ---p 00000000 00:00 0 \n"),
			 0xc004000000);
	assert_int_equal(open_end, 0xc000400000);
	snprintf(lines, sizeof(lines), "%s%s%s", "c000000000-c003c00000 rw-p 00000000 00:00 0 \n",
		 "c003c00000-c008000000 ---p 00000000 00:00 0 [anon: Go: heap reservation]\n",
		 above);
	assert_int_equal(end_by(lines), 0xc00c000000);
	assert_int_equal(open_end, 0xc003c00000);
	/* others' memory: of a file, shared, no whole arena, before an arena */
	assert_int_equal(end_by("c000000000-c008000000 rw-p 00000000 08:01 7 /f\n"), 0xc004000000);
	assert_int_equal(end_by("c000000000-c008000000 rw-s 00000000 00:00 0 \n"), 0xc004000000);
	assert_int_equal(end_by("c000000000-c009000000 rw-p 00000000 00:00 0 \n"), 0xc008000000);
	assert_int_equal(open_end, 0xc008000000);
	assert_int_equal(end_by("bff0000000-c008000000 rw-p 00000000 00:00 0 \n"), 0xc004000000);
	assert_int_equal(end_by("c000000000-20000000000 rw-p 00000000 00:00 0 \n"), 0x10000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_releases), cmocka_unit_test(test_other_forms),
		cmocka_unit_test(test_mentions), cmocka_unit_test(test_mentions_in_text),
		cmocka_unit_test(test_end),
	};

	return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
