/* Symbols of ELF files: main, names, versions, sizes, unwind entries, and damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>

#include "control/elf/symtab.h"
#include "control/placement/branch_targets.h"
#include "control/names/spell.h"
#include "scratch.h"

static struct symtab *open_symtab(const char *name)
{
	struct symtab *symtab = NULL;
	int fd = open(scratch_path(name), O_RDONLY | O_CLOEXEC);
	struct error *error;

	assert_true(fd >= 0);
	error = symtab_open(fd, name, &symtab);
	close(fd);
	if (error)
		print_error("%s\n", error_text(error));
	assert_null(error);
	return symtab;
}

static void assert_open_fails(const char *name, const char *expected)
{
	struct symtab *symtab = NULL;
	int fd = open(scratch_path(name), O_RDONLY | O_CLOEXEC);
	struct error *error = symtab_open(fd, name, &symtab);

	close(fd);
	assert_non_null(error);
	assert_string_equal(error_text(error), expected);
	assert_null(symtab);
	error_free(error);
}

static bool is_installed(const char *path)
{
	return access(path, R_OK) == 0;
}

/* ---- main of stripped programs --------------------------------------------------------------- */

static const char main_source[] =
	"#include <stdio.h>\n"
	"static int before(int x) { return printf(\"%d\\n\", x); }\n"
	"int main(int argc, char **argv) { return before(argc) + (argv == 0); }\n"
	"void after(void) { puts(\"after\"); }\n";

/* Start code in two pieces, as musl's may be, the second far from the first. */
static const char start_source[] =
	".globl _start\n_start: xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\n"
	"call start_in_c\nhlt\n.skip 300, 0xcc\n"
	"start_in_c: mov (%rdi), %rsi\nlea 8(%rdi), %rdx\nxor %ecx, %ecx\nxor %r8d, %r8d\n"
	"lea main(%rip), %rdi\ncall *__libc_start_main@GOTPCREL(%rip)\nhlt\n"
	".section .note.GNU-stack,\"\",@progbits\n";

static const char *const builds[] = {
	"gcc",
	"gcc -O2 -pie -fPIE",
	"gcc -O2 -no-pie -fno-pie",
	"gcc -static",
	"gcc -static -no-pie -fno-pie",
	"gcc -static-pie -fPIE",
	"gcc -Wl,-z,norelro -Wl,-z,noseparate-code",
	"gcc -Wl,--no-relax",
	"gcc -static-pie -fPIE -Wl,--no-relax",
	"gcc -static -Wl,--no-relax",
	"gcc -no-pie -Wl,--no-relax",
	"gcc -pg",
	"gcc -fcf-protection=full",
	"gcc -fno-asynchronous-unwind-tables",
	"gcc -nostartfiles start.s",
	"gcc -fuse-ld=gold",
	"gcc -fuse-ld=lld",
	"gcc -fuse-ld=lld -static",
	"gcc -fuse-ld=lld -static-pie -fPIE",
	"gcc -fuse-ld=lld -Wl,--pack-dyn-relocs=relr",
	"clang",
	"clang -O2",
	"clang -O2 -no-pie -fno-pie",
	"clang -static",
	"clang -fuse-ld=lld",
	"musl-gcc",
	"musl-gcc -O2 -no-pie",
	"musl-gcc -static",
	"musl-gcc -static-pie -fPIE",
};

static void test_main_of_stripped(void **state)
{
	size_t built = 0;

	scratch_text("main.c", main_source);
	scratch_text("start.s", start_source);
	for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++) {
		unsigned long address = 0, size = 0;
		const struct symbol *found;
		struct symtab *symtab;

		if (scratch_try("%s main.c -o full 2>/dev/null && strip full -o bare", builds[i]) !=
		    0) {
			print_message("not built: %s\n", builds[i]);
			continue;
		}
		built++;
		assert_int_equal(sscanf(scratch_output("nm -S full | grep -w main"), "%lx %lx",
					&address, &size),
				 2);
		symtab = open_symtab("bare");
		found = symtab_find(symtab, "main");
		if (!found || found->address != address)
			print_error("%s: 0x%lx instead of 0x%lx\n", builds[i],
				    found ? (unsigned long)found->address : 0, address);
		assert_non_null(found);
		assert_int_equal(found->address, address);
		assert_int_equal(found->kind, SYMBOL_FUNCTION);
		assert_int_equal(found->source, SOURCE_ENTRY);
		if (!strstr(builds[i], "no-asynchronous"))
			assert_int_equal(found->size, size);
		symtab_close(symtab);
		symtab = open_symtab("full");
		assert_int_equal(symtab_find(symtab, "main")->address, address);
		assert_int_equal(symtab_find(symtab, "main")->source, SOURCE_SYMTAB);
		symtab_close(symtab);
	}
	assert_true(built >= 15);
}

/* What objdump says is loaded into rdi at the entry point. */
static void assert_main_as_objdump(const char *path)
{
	struct symtab *symtab = open_symtab(path);
	unsigned long address =
		strtoul(scratch_output("objdump -d --no-show-raw-insn --start-address=0x%lx %s | "
				       "grep -m1 ',%%rdi' | sed 's/.*# //; s/.*\\$0x//'",
				       (unsigned long)symtab_entry(symtab), path),
			NULL, 16);

	assert_int_not_equal(address, 0);
	assert_int_equal(symtab_find(symtab, "main")->address, address);
	symtab_close(symtab);
}

static void test_main_of_debian(void **state)
{
	static const char *const paths[] = { "/usr/bin/ls", "/usr/bin/true", "/usr/bin/python3",
					     "/usr/bin/gdb", "/usr/bin/redis-server" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		if (is_installed(paths[i]))
			assert_main_as_objdump(paths[i]);
	}
}

static void test_no_main_in_libraries(void **state)
{
	struct symtab *symtab = open_symtab("/lib/x86_64-linux-gnu/libc.so.6");

	assert_null(symtab_find(symtab, "main"));
	symtab_close(symtab);
	symtab = open_symtab("/lib64/ld-linux-x86-64.so.2");
	assert_null(symtab_find(symtab, "main"));
	symtab_close(symtab);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static size_t count_jumps(const struct symtab *symtab, const char *name)
{
	const struct symbol *symbol = symtab_find(symtab, name);
	size_t count = 0;

	assert_non_null(symbol);
	symtab_jumps_to(symtab, symbol->address, &count);
	return count;
}

/* Text in two segments, each with a call into the other and one into itself. */
static void test_calls_between_segments(void **state)
{
	static const char source[] = ".globl _start, near, far, apart\n"
				     ".type near, @function\n.type far, @function\n"
				     "_start: call near\ncall far\nhlt\nnear: ret\n"
				     ".section .other, \"awx\", @progbits\n"
				     "apart: call near\ncall far\nret\nfar: ret\n";

	scratch_text("segments.s", source);
	assert_int_equal(scratch_try("as segments.s -o segments.o && ld segments.o -o segments "
				     "2>/dev/null"),
			 0);
	for (int first = 0; first < 2; first++) { /* whichever is asked for first */
		struct symtab *symtab = open_symtab("segments");

		assert_int_equal(count_jumps(symtab, first ? "far" : "near"), 2);
		assert_int_equal(count_jumps(symtab, first ? "near" : "far"), 2);
		symtab_close(symtab);
	}
}

/* ---- against readelf ------------------------------------------------------------------------- */

static size_t count_kind(const struct symtab *symtab, enum symbol_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < symtab_count(symtab); i++) {
		const struct symbol *symbol = symtab_get(symtab, i);

		count += symbol->kind == kind && symbol->source != SOURCE_ENTRY;
	}
	return count;
}

static size_t readelf_count(const char *path, const char *type)
{
	return strtoul(
		scratch_output(
			"readelf -W --syms %s | "
			"awk '$4==\"%s\" && $7!=\"UND\" {sub(/@.*/, \"\", $8); print $2, $8}' | "
			"sort -u | wc -l",
			path, type),
		NULL, 10);
}

static void assert_sorted(const struct symtab *symtab)
{
	for (size_t i = 1; i < symtab_count(symtab); i++) {
		const struct symbol *a = symtab_get(symtab, i - 1), *b = symtab_get(symtab, i);

		assert_true(a->address < b->address ||
			    (a->address == b->address && strcmp(a->name, b->name) < 0));
	}
}

static void test_counts(void **state)
{
	static const char *const paths[] = {
		"/usr/bin/redis-server",
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/usr/sbin/nginx",
		"/usr/bin/python3",
		"/usr/bin/bash",
		"/usr/bin/ls",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/lib64/ld-linux-x86-64.so.2",
		"/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/proc/self/exe",
	};
	size_t functions = 0;

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		char path[512] = "";
		struct symtab *symtab;

		/* readelf is another process: it needs the real name of this program */
		if (!realpath(paths[i], path))
			continue;
		symtab = open_symtab(path);
		assert_sorted(symtab);
		assert_int_equal(count_kind(symtab, SYMBOL_FUNCTION), readelf_count(path, "FUNC"));
		assert_int_equal(count_kind(symtab, SYMBOL_IFUNC), readelf_count(path, "IFUNC"));
		functions += count_kind(symtab, SYMBOL_FUNCTION);
		symtab_close(symtab);
	}
	assert_true(functions > 3000);
}

/* (I3, I5) Every name is found at its address, and every address gives a function that covers
 * it. */
static void test_find_and_at(void **state)
{
	struct symtab *symtab = open_symtab("/lib/x86_64-linux-gnu/libc.so.6");

	for (size_t i = 0; i < symtab_count(symtab); i++) {
		const struct symbol *symbol = symtab_get(symtab, i);
		const struct symbol *found = symtab_find(symtab, symbol->name);

		assert_non_null(found);
		assert_string_equal(found->name, symbol->name);
		if (symbol->kind == SYMBOL_OBJECT || symbol->size == 0)
			continue;
		found = symtab_at(symtab, symbol->address);
		assert_non_null(found);
		assert_int_equal(found->address, symbol->address);
		assert_false(symbol_is_better(symbol, found) && symbol != found);
		found = symtab_at(symtab, symbol->address + symbol->size - 1);
		assert_non_null(found);
		assert_true(found->address >= symbol->address);
	}
	assert_null(symtab_at(symtab, 0));
	assert_null(symtab_at(symtab, UINT64_MAX));
	assert_null(symtab_find(symtab, ""));
	symtab_close(symtab);
}

/* memcpy@GLIBC_2.2.5 is a plain function, memcpy@@GLIBC_2.14, the one programs use, an IFUNC. */
static void test_versions(void **state)
{
	struct symtab *symtab = open_symtab("/lib/x86_64-linux-gnu/libc.so.6");
	const struct symbol *symbol = symtab_find(symtab, "memcpy");
	size_t count = 0, old = 0;

	assert_non_null(symbol);
	assert_int_equal(symbol->kind, SYMBOL_IFUNC);
	assert_false(symbol->old_version);
	for (symbol = symtab_first_named(symtab, "memcpy"); symbol;
	     symbol = symtab_next_named(symtab, symbol)) {
		count++;
		old += symbol->old_version;
	}
	assert_int_equal(count, 2);
	assert_int_equal(old, 1);
	symtab_close(symtab);
}

/* Versions in the names of .symtab, which ld writes as they are. */
static void test_versions_in_symtab(void **state)
{
	const struct symbol *symbol;
	struct symtab *symtab;

	scratch_text("version.c",
		     "void old_one(void) { } void new_one(void) { __asm__(\"nop\"); }\n"
		     "__asm__(\".symver old_one, thing@V1\\n.symver new_one, thing@@V2\");\n");
	scratch_text("version.map", "V1 { global: thing; local: *; }; V2 { global: thing; } V1;\n");
	scratch_run(
		"gcc -shared -fPIC version.c -Wl,--version-script=version.map -o libversion.so");
	symtab = open_symtab("libversion.so");
	symbol = symtab_find(symtab, "thing");
	assert_non_null(symbol);
	assert_false(symbol->old_version);
	assert_int_equal(symbol->address, symtab_find(symtab, "new_one")->address);
	symbol = symtab_first_named(symtab, "thing");
	assert_int_equal(symbol->address, symtab_find(symtab, "old_one")->address);
	assert_true(symbol->old_version);
	symbol = symtab_next_named(symtab, symbol);
	assert_int_equal(symbol->address, symtab_find(symtab, "new_one")->address);
	assert_null(symtab_next_named(symtab, symbol));
	symtab_close(symtab);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static const char assembly[] =
	".text\n"
	".globl with_cfi, untyped, untyped_bare, to_next, next, last\n"
	".type with_cfi, @function\n.type to_next, @function\n"
	".type next, @function\n.type last, @function\n"
	"with_cfi: .cfi_startproc\n.skip 7, 0x90\nret\n.cfi_endproc\n.skip 8, 0xcc\n"
	"untyped: .cfi_startproc\n.skip 4, 0x90\nret\n.cfi_endproc\n"
	"untyped_bare: ret\n"
	"to_next: .skip 10, 0x90\nret\n"
	"next: .skip 2, 0x90\nret\n.size next, .-next\n"
	"last: .skip 5, 0x90\nret\n"
	".section .note.GNU-stack,\"\",@progbits\n";

/* (I4) */
static void test_sizes(void **state)
{
	uint64_t start = 0, end = 0;
	const struct symbol *symbol;
	struct symtab *symtab;

	scratch_text("sizes.s", assembly);
	scratch_run("gcc -shared -nostdlib sizes.s -o libsizes.so");
	symtab = open_symtab("libsizes.so");
	assert_int_equal(symtab_find(symtab, "with_cfi")->size, 8);
	assert_int_equal(symtab_find(symtab, "untyped")->size, 5);
	assert_int_equal(symtab_find(symtab, "untyped")->kind, SYMBOL_FUNCTION);
	assert_null(symtab_find(symtab, "untyped_bare"));
	assert_int_equal(symtab_find(symtab, "to_next")->size, 11);
	assert_int_equal(symtab_find(symtab, "next")->size, 3);
	assert_int_equal(symtab_find(symtab, "last")->size, 6);
	symbol = symtab_find(symtab, "with_cfi");
	assert_true(symtab_fde(symtab, symbol->address + 7, &start, &end));
	assert_int_equal(start, symbol->address);
	assert_int_equal(end, symbol->address + 8);
	assert_false(symtab_fde(symtab, symbol->address + 8, &start, &end));
	assert_null(symtab_at(symtab, symbol->address + 8));
	assert_ptr_equal(symtab_at(symtab, symbol->address + 7), symbol);
	symtab_close(symtab);
}

static void check_landing_pad(void *context, uint64_t address)
{
	struct {
		const struct branch_targets *targets;
		size_t count, missing;
	} *pads = context;

	pads->count++;
	pads->missing += !branch_targets_at(pads->targets, address);
}

/* (H9) Only the unwinder leads to a landing pad: it is a target all the same. */
static void test_landing_pads(void **state)
{
	struct branch_targets *targets;
	struct symtab *symtab;
	struct {
		const struct branch_targets *targets;
		size_t count, missing;
	} pads = { 0 };

	scratch_text("pads.cpp", "void f(int); struct s { ~s(); }; extern \"C\" int g(int n)\n"
				 "{ s a; try { f(n); f(n + 1); } catch (int i) { return i; }\n"
				 "catch (...) { f(3); return 2; } return n; }\n");
	scratch_run("g++ -O2 -shared -fPIC pads.cpp -o libpads.so");
	symtab = open_symtab("libpads.so");
	assert_null(branch_targets_scan(symtab, &targets));
	pads.targets = targets;
	symtab_each_landing_pad(symtab, check_landing_pad, &pads);
	assert_in_range(pads.count, 2, 20);
	assert_int_equal(pads.missing, 0);
	branch_targets_free(targets);
	symtab_close(symtab);
}

/* (I5) Behind a function inside another one, the outer one is found again. */
static void test_function_inside_another(void **state)
{
	const struct symbol *outer;
	struct symtab *symtab;

	scratch_text("inside.s",
		     ".globl outer, inner\n.type outer, @function\n.type inner, @function\n"
		     "outer: .skip 10, 0x90\ninner: .skip 5, 0x90\n.size inner, .-inner\n"
		     ".skip 20, 0x90\nret\n.size outer, .-outer\n"
		     ".section .note.GNU-stack,\"\",@progbits\n");
	scratch_run("gcc -shared -nostdlib inside.s -o libinside.so");
	symtab = open_symtab("libinside.so");
	outer = symtab_find(symtab, "outer");
	assert_ptr_equal(symtab_at(symtab, outer->address + 12), symtab_find(symtab, "inner"));
	assert_ptr_equal(symtab_at(symtab, outer->address + 30), outer);
	symtab_close(symtab);
}

/* (I4) A function that claims to be longer than its segment ends with it. */
static void test_size_beyond_segment(void **state)
{
	struct symtab *symtab;

	scratch_text("huge.s", ".globl huge\n.type huge, @function\nhuge: ret\n.size huge, 9999999\n"
			       ".section .note.GNU-stack,\"\",@progbits\n");
	scratch_run("gcc -shared -nostdlib huge.s -o libhuge.so");
	symtab = open_symtab("libhuge.so");
	assert_in_range(symtab_find(symtab, "huge")->size, 1, 4096);
	symtab_close(symtab);
}

/* (I1) Of a segment that has more bytes in the file than in memory, the memory counts. */
static void test_segment_larger_in_file(void **state)
{
	const struct symbol *symbol;
	struct symtab *symtab;

	scratch_text("sizes.s", assembly);
	scratch_run("gcc -shared -nostdlib sizes.s -o libsizes.so");
	scratch_run("python3 -c \"import struct; d = bytearray(open('libsizes.so', 'rb').read())\n"
		    "at, n = struct.unpack_from('<Q', d, 32)[0], struct.unpack_from('<H', d, 56)[0]\n"
		    "for p in range(at, at + 56 * n, 56):\n"
		    "  kind, flags = struct.unpack_from('<II', d, p)\n"
		    "  size = struct.unpack_from('<Q', d, p + 32)[0]\n"
		    "  if kind == 1 and flags & 1: struct.pack_into('<Q', d, p + 40, size - 1)\n"
		    "open('libshort.so', 'wb').write(d)\"");
	symtab = open_symtab("libshort.so");
	symbol = symtab_find(symtab, "last");
	assert_non_null(symbol);
	assert_int_equal(symbol->size, 5); /* one byte is missing */
	symtab_close(symtab);
}

/* Each FDE that readelf prints. */
static void test_fdes(void **state)
{
	static const char *const paths[] = { "/usr/bin/ls", "/usr/bin/redis-server",
					     "/lib/x86_64-linux-gnu/libc.so.6" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct symtab *symtab;
		unsigned long start, end;
		uint64_t found_start, found_end;
		size_t count = 0, early = 0;
		char command[256];
		FILE *list;

		if (!is_installed(paths[i]))
			continue;
		symtab = open_symtab(paths[i]);
		snprintf(command, sizeof(command),
			 "readelf --debug-dump=frames %s 2>/dev/null | "
			 "sed -n 's/.* FDE .*pc=\\([0-9a-f]*\\)\\.\\.\\([0-9a-f]*\\)/\\1 \\2/p'",
			 paths[i]);
		list = popen(command, "r");
		while (fscanf(list, "%lx %lx", &start, &end) == 2) {
			if (!symtab_fde(symtab, start, &found_start, &found_end)) {
				early++; /* begins a byte before its code: the end of handlers */
				start++;
			}
			assert_true(symtab_fde(symtab, start, &found_start, &found_end));
			assert_int_equal(found_start, start);
			assert_int_equal(found_end, end);
			assert_true(symtab_fde(symtab, end - 1, &found_start, &found_end));
			assert_int_equal(found_start, start);
			count++;
		}
		pclose(list);
		assert_true(count > 100);
		assert_int_equal(early, strstr(paths[i], "libc.so.6") != NULL); /* __restore_rt */
		symtab_close(symtab);
	}
}

/* ---- data ------------------------------------------------------------------------------------ */

static const char data_source[] =
	"static int f(int x) { return x + 1; }\n"
	"static int g(int x) { return x - 1; }\n"
	"int (*const table[])(int) = { f, g, f };\n"
	"int (*changing)(int) = g;\n"
	"int number = 7;\n"
	"int main(int argc, char **argv) { return table[argc % 3](argc) + changing(number); }\n";

struct pointers {
	uint64_t wanted[2];
	size_t found[2];
};

static void count_pointer(void *context, uint64_t address)
{
	struct pointers *pointers = context;

	for (size_t i = 0; i < 2; i++)
		pointers->found[i] += pointers->wanted[i] == address;
}

static void assert_data(const char *name)
{
	struct symtab *symtab = open_symtab(name);
	uint64_t f = symtab_find(symtab, "f")->address, g = symtab_find(symtab, "g")->address;
	uint64_t table = symtab_find(symtab, "table")->address, words[3] = { 0 };
	struct pointers pointers = { .wanted = { f, g } };
	uint32_t half = 0;

	assert_int_equal(symtab_find(symtab, "table")->kind, SYMBOL_OBJECT);
	assert_int_equal(symtab_data(symtab, table, words, sizeof(words)), sizeof(words));
	assert_int_equal(words[0], f);
	assert_int_equal(words[1], g);
	assert_int_equal(words[2], f);
	assert_int_equal(symtab_data(symtab, table + 12, &half, sizeof(half)), sizeof(half));
	assert_int_equal(half, g >> 32);
	assert_int_equal(symtab_data(symtab, table + 8, &half, sizeof(half)), sizeof(half));
	assert_int_equal(half, (uint32_t)g);
	assert_int_equal(symtab_data(symtab, symtab_find(symtab, "number")->address, &half, 4), 0);
	assert_int_equal(symtab_data(symtab, 1ULL << 46, words, 8), 0);
	symtab_each_pointer(symtab, count_pointer, &pointers);
	assert_true(pointers.found[0] >= 2);
	assert_true(pointers.found[1] >= 2);
	symtab_close(symtab);
}

static void test_data(void **state)
{
	scratch_text("data.c", data_source);
	scratch_run("gcc -O1 data.c -o data_pie && gcc -O1 -no-pie -fno-pie data.c -o data_nopie");
	assert_data("data_pie");
	assert_data("data_nopie");
	/* ld leaves the addends in the words as well, lld doesn't */
	if (scratch_try("gcc -O1 -fuse-ld=lld data.c -o data_lld 2>/dev/null") == 0)
		assert_data("data_lld");
	if (scratch_try("clang -O1 -fPIE -fuse-ld=lld -pie -Wl,--pack-dyn-relocs=relr data.c -o "
			"data_relr "
			"2>/dev/null && readelf -S data_relr | grep -q relr") == 0)
		assert_data("data_relr");
}

static void test_text(void **state)
{
	struct symtab *symtab = open_symtab("/usr/bin/ls");
	const struct text_range *text = symtab_text(symtab, symtab_entry(symtab));
	uint8_t bytes[16];
	int fd = open("/usr/bin/ls", O_RDONLY | O_CLOEXEC);
	Elf64_Phdr phdr;
	Elf64_Ehdr ehdr;

	assert_non_null(text);
	assert_int_equal(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	for (size_t i = 0; i < ehdr.e_phnum; i++) {
		assert_int_equal(
			pread(fd, &phdr, sizeof(phdr), (off_t)(ehdr.e_phoff + i * sizeof(phdr))),
			sizeof(phdr));
		if (phdr.p_type == PT_LOAD && (phdr.p_flags & PF_X))
			break;
	}
	assert_int_equal(text->address, phdr.p_vaddr);
	assert_int_equal(text->size, phdr.p_filesz);
	assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)phdr.p_offset), sizeof(bytes));
	assert_memory_equal(text->bytes, bytes, sizeof(bytes));
	assert_null(symtab_text(symtab, symtab_low(symtab)));
	assert_null(symtab_text(symtab, symtab_high(symtab)));
	close(fd);
	symtab_close(symtab);
}

static void test_text_relocations(void **state)
{
	struct symtab *symtab;

	scratch_text("textrel.s", ".text\n.globl f\nf: movabs $f, %rax\nret\n"
				  ".section .note.GNU-stack,\"\",@progbits\n");
	scratch_run("gcc -shared -nostdlib -Wl,-z,notext textrel.s -o libtextrel.so 2>/dev/null");
	symtab = open_symtab("libtextrel.so");
	assert_true(symtab_has_text_relocations(symtab));
	symtab_close(symtab);
	symtab = open_symtab("/usr/bin/ls");
	assert_false(symtab_has_text_relocations(symtab));
	symtab_close(symtab);
}

/* ---- near names ------------------------------------------------------------------------------ */

static void test_near(void **state)
{
	static const struct {
		const char *wanted;
		const char *near[3];
	} cases[] = {
		{ "conect_to_server", { "connect_to_server" } },
		{ "CONNECT_TO_SERVER", { "connect_to_server" } },
		{ "parse_heder", { "parse_header", "parse_headers" } },
		{ "parse_hedaer", { "parse_header", "parse_headers" } },
		{ "headers", { "parse_headers" } },
		{ "xyzzy", { NULL } },
		{ "", { NULL } },
	};
	struct symtab *symtab;

	scratch_text("near.c",
		     "void connect_to_server(void) {}\nvoid parse_header(void) {}\n"
		     "void parse_headers(void) {}\nint parse_hedder = 3;\nint main(void) {}\n");
	scratch_run("gcc near.c -o near");
	symtab = open_symtab("near");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct spell_near near = { .count = 0 };
		size_t expected = 0;

		spell_offer_symbols(&near, cases[i].wanted, symtab);
		for (; expected < 3 && cases[i].near[expected]; expected++) {
			assert_true(expected < near.count);
			assert_string_equal(near.names[expected], cases[i].near[expected]);
		}
		assert_int_equal(near.count, expected);
	}
	symtab_close(symtab);
}

/* ---- damaged files --------------------------------------------------------------------------- */

/* A copy of a file with some bytes changed, or cut to a length. */
static void write_variant(const char *name, const char *from, size_t cut, size_t at,
			  const void *bytes, size_t size)
{
	static char content[8 << 20];
	FILE *file = fopen(scratch_path(from), "r");
	size_t length = file ? fread(content, 1, sizeof(content), file) : 0;

	assert_non_null(file);
	fclose(file);
	memcpy(content + at, bytes, size);
	scratch_write(name, content, cut ? cut : length);
}

static void test_refusals(void **state)
{
	static const uint8_t class32 = ELFCLASS32;
	static const uint16_t arm = EM_AARCH64, none = 0;

	scratch_text("main.c", main_source);
	scratch_run("gcc -c main.c -o main.o && gcc main.o -o program");
	scratch_text("empty", "");
	scratch_text("script", "#!/bin/sh\n");
	write_variant("short", "program", 40, 0, "", 0);
	write_variant("headless", "program", 200, 0, "", 0);
	write_variant("class32", "program", 0, EI_CLASS, &class32, 1);
	write_variant("arm", "program", 0, offsetof(Elf64_Ehdr, e_machine), &arm, 2);
	write_variant("nothing", "program", 0, offsetof(Elf64_Ehdr, e_phnum), &none, 2);
	assert_open_fails("empty", "empty: not an ELF file");
	assert_open_fails("script", "script: not an ELF file");
	assert_open_fails("short", "short: truncated file");
	assert_open_fails("headless", "headless: truncated file");
	assert_open_fails("class32", "class32: 32-bit file (only x86-64 is supported)");
	assert_open_fails("arm", "arm: built for another machine (only x86-64 is supported)");
	assert_open_fails("main.o", "main.o: neither a program nor a shared library");
	assert_open_fails("nothing", "nothing: no program headers");
	assert_open_fails("/tmp", "/tmp: not a regular file");
	assert_open_fails("/dev/null", "/dev/null: not a regular file");
}

/* A table that claims millions of symbols, in a file that is big enough for them (and sparse). */
static void test_too_many(void **state)
{
	uint64_t offset, claimed = 4000001 * sizeof(Elf64_Sym);
	Elf64_Shdr shdr = { 0 };
	Elf64_Ehdr ehdr;
	int fd;

	scratch_text("main.c", main_source);
	scratch_run("gcc main.c -o many");
	fd = open(scratch_path("many"), O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	for (offset = ehdr.e_shoff; shdr.sh_type != SHT_SYMTAB; offset += sizeof(shdr))
		assert_int_equal(pread(fd, &shdr, sizeof(shdr), (off_t)offset), sizeof(shdr));
	offset -= sizeof(shdr);
	assert_int_equal(pwrite(fd, &claimed, 8, (off_t)(offset + offsetof(Elf64_Shdr, sh_size))),
			 8);
	assert_int_equal(ftruncate(fd, 200 << 20), 0);
	close(fd);
	assert_open_fails("many", "many: too many symbols");
}

/* A count of sections that doesn't fit into the ELF header, in a file that is big enough for
 * them. */
static void test_too_many_sections(void **state)
{
	uint64_t claimed = 10000000;
	uint16_t none = 0;
	Elf64_Ehdr ehdr;
	int fd;

	scratch_text("main.c", main_source);
	scratch_run("gcc main.c -o sections");
	fd = open(scratch_path("sections"), O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	assert_int_equal(pwrite(fd, &none, 2, offsetof(Elf64_Ehdr, e_shnum)), 2);
	assert_int_equal(pwrite(fd, &claimed, 8,
				(off_t)(ehdr.e_shoff + offsetof(Elf64_Shdr, sh_size))),
			 8);
	assert_int_equal(ftruncate(fd, 1 << 30), 0);
	close(fd);
	assert_open_fails("sections", "sections: too many sections");
}

/* (I2) What is read after a file has been cut is missing: no signal, no zeroes. */
static void test_shrinks(void **state)
{
	struct symtab *symtab;
	uint64_t entry, start, end;
	uint8_t bytes[8];

	scratch_text("main.c", main_source);
	scratch_run("gcc main.c -o shrinks");
	symtab = open_symtab("shrinks");
	entry = symtab_entry(symtab);
	assert_int_equal(truncate(scratch_path("shrinks"), 0), 0);
	assert_null(symtab_text(symtab, entry));
	assert_int_equal(symtab_data(symtab, symtab_low(symtab), bytes, sizeof(bytes)), 0);
	assert_false(symtab_fde(symtab, symtab_high(symtab), &start, &end));
	assert_string_equal(symtab_at(symtab, entry)->name, "_start");
	symtab_close(symtab);
}

/* The dynamic table gives the same symbols when the section headers are gone. */
static void test_without_sections(void **state)
{
	static const char *const hashes[] = { "gnu", "sysv", "both" };
	static const uint8_t zero[8];

	scratch_text("near.c", "void connect_to_server(void) {}\nvoid parse_header(void) {}\n");
	for (size_t i = 0; i < sizeof(hashes) / sizeof(*hashes); i++) {
		struct symtab *full, *bare;

		scratch_run(
			"gcc -shared -fPIC near.c -Wl,--hash-style=%s -o full.so && strip full.so",
			hashes[i]);
		write_variant("bare.so", "full.so", 0, offsetof(Elf64_Ehdr, e_shoff), zero, 8);
		full = open_symtab("full.so");
		bare = open_symtab("bare.so");
		assert_int_equal(count_kind(full, SYMBOL_FUNCTION), 2);
		assert_int_equal(symtab_count(bare), symtab_count(full));
		for (size_t k = 0; k < symtab_count(full); k++) {
			assert_string_equal(symtab_get(bare, k)->name, symtab_get(full, k)->name);
			assert_int_equal(symtab_get(bare, k)->address,
					 symtab_get(full, k)->address);
			assert_int_equal(symtab_get(bare, k)->size, symtab_get(full, k)->size);
		}
		symtab_close(full);
		symtab_close(bare);
	}
}

/* A program cut anywhere is either refused or read as far as it goes. */
static void test_every_length(void **state)
{
	scratch_text("main.c", main_source);
	scratch_run("gcc main.c -o program");
	for (size_t cut = 1; cut < 16000; cut += 97) {
		struct symtab *symtab = NULL;
		struct error *error;
		int fd;

		write_variant("cut", "program", cut, 0, "", 0);
		fd = open(scratch_path("cut"), O_RDONLY | O_CLOEXEC);
		error = symtab_open(fd, "cut", &symtab);
		close(fd);
		if (!error)
			assert_sorted(symtab);
		error_free(error);
		symtab_close(symtab);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_main_of_stripped),
		cmocka_unit_test(test_main_of_debian),
		cmocka_unit_test(test_no_main_in_libraries),
		cmocka_unit_test(test_calls_between_segments),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_find_and_at),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_versions_in_symtab),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_size_beyond_segment),
		cmocka_unit_test(test_function_inside_another),
		cmocka_unit_test(test_landing_pads),
		cmocka_unit_test(test_segment_larger_in_file),
		cmocka_unit_test(test_fdes),
		cmocka_unit_test(test_data),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_text_relocations),
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_too_many_sections),
		cmocka_unit_test(test_shrinks),
		cmocka_unit_test(test_without_sections),
		cmocka_unit_test(test_every_length),
	};

	return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
