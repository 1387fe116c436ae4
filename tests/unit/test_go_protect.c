/* Which Go programs may protect pages of Go's heap (X15), by tables and code made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/elf/go_protect.h"
#include "control/elf/symtab.h"
#include "scratch.h"

#define RUNTIME ".asciz \"runtime.mallocgc\"\n.asciz \"runtime.mprotect\"\n"
#define STATIC "-static -no-pie"
#define DYNAMIC "-no-pie -lc"

/* Functions of 128 bytes: runtime.sysFault, main.main, syscall.Syscall. */
static bool may(const char *names, const char *runtime, const char *code, const char *options)
{
	struct symtab *symtab = NULL;
	char text[4096], command[128];

	snprintf(text, sizeof(text),
		 ".globl _start\n.text\n.balign 128\n_start:\n%s\n.balign 128, 0x90\n%s\n"
		 ".balign 128, 0x90\nsyscall: ret\n.balign 128, 0x90\n"
		 ".section .gopclntab,\"a\"\n.balign 32\n"
		 "table: .long 0xfffffff1\n.byte 0, 0, 1, 8\n.quad 3, 0, _start\n"
		 ".quad names - table, end - table, 0, 0, list - table\n"
		 "names: .byte 0\nname0: .asciz \"runtime.sysFault\"\n"
		 "name1: .asciz \"main.main\"\nname2: .asciz \"syscall.Syscall\"\n%s\n"
		 "end: .asciz \"syscall.Mprotect\"\n" /* a name of a file, say */
		 ".balign 8\nlist:\n.long 0, record0 - list, 128, record1 - list\n"
		 ".long 256, record2 - list, 384\n.irp i, 0, 1, 2\n"
		 "record\\i: .long 128 * \\i, name\\i - names, 0, 0, 0, 0, 0, 0, 0, 0, 0\n.endr\n"
		 ".section .note.GNU-stack,\"\",@progbits\n",
		 runtime, code, names);
	scratch_text("table.s", text);
	snprintf(command, sizeof(command), "gcc -nostdlib table.s -o table %s", options);
	scratch_run(command);
	int fd = open(scratch_path("table"), O_RDONLY | O_CLOEXEC);
	assert_null(symtab_open(fd, "table", &symtab));
	close(fd);
	bool found = go_protect_may(symtab);
	symtab_close(symtab);
	return found;
}

static bool may_by_name(const char *name)
{
	char names[256];

	snprintf(names, sizeof(names), RUNTIME ".asciz \"%s\"", name);
	return may(names, "ret", "ret", STATIC);
}

static bool may_by_code(const char *code)
{
	return may(RUNTIME, "ret", code, STATIC);
}

static void test_names(void **unused)
{
	assert_false(may_by_name("main.protect"));
	assert_true(may_by_name("syscall.Mprotect"));
	assert_true(may_by_name("syscall.mprotect"));
	assert_true(may_by_name("golang.org/x/sys/unix.PkeyMprotect"));
	assert_true(may_by_name("main._Cfunc_mprotect"));
	assert_true(may_by_name("main/runtime.mprotect"));
	assert_false(may_by_name("plugin.Open"));
	assert_true(may_by_name("plugin.lastmoduleinit"));
}

/* A table that doesn't have the runtime's names tells nothing. */
static void test_other_tables(void **unused)
{
	assert_true(may("", "ret", "ret", STATIC));
	assert_true(may(".asciz \"main.mallocgc\"", "ret", "ret", STATIC));
}

static void test_numbers(void **unused)
{
	static const char call[] = "mov $10, %eax; call syscall";

	assert_true(may_by_code(call));
	assert_true(may_by_code("mov $329, %eax; .skip 59, 0x90; call syscall"));
	assert_false(may_by_code("mov $10, %eax; .skip 64, 0x90; call syscall"));
	assert_false(may_by_code("mov $11, %eax; call syscall"));
	assert_false(may_by_code("mov $10, %eax; call _start"));
	assert_false(may_by_code("mov $10, %eax; call syscall + 1"));
	assert_true(may_by_code("mov $10, %eax; call _start; mov $10, %eax; call syscall"));
	assert_false(may(RUNTIME, call, "ret", STATIC));
}

/* C code beside it. */
static void test_imports(void **unused)
{
	assert_false(may(RUNTIME, "ret", "call getpid@plt", DYNAMIC));
	assert_true(may(RUNTIME, "ret", "call mprotect@plt", DYNAMIC));
	assert_true(may(RUNTIME, "ret", "call pkey_mprotect@plt", DYNAMIC));
	assert_false(may(RUNTIME, "ret", ".cfi_startproc; call getpid@plt; .cfi_endproc", DYNAMIC));
	assert_true(may(RUNTIME, "ret", ".cfi_startproc; ret; .cfi_endproc", STATIC));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_other_tables),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_imports),
	};

	return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
