/* How to find the callers of Go code, from a table made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/base/vec.h"
#include "control/elf/cfi.h"
#include "control/elf/symtab.h"
#include "scratch.h"

#define SIZE 32 /* bytes of each function */
#define OUTERMOST 1
#define SETS_RSP 2

/* Steps are pairs: the change, zigzag, and the bytes of code. Rows: the pc in the function (hex),
 * enum dt_cfa_rule, the words from rsp to the CFA, enum dt_rbp_rule. */
static const struct {
	const char *name, *steps;
	unsigned id, flags;
	const char *rows;
} functions[] = {
	{ "main.frame", "2,4, 48,20, 47,8, 0", 0, 0, "0 2 1 0, 4 2 4 1, 18 2 1 0" },
	{ "main.many", "2,1, 0x80,8,1, 0xff,7,30, 0", 0, 0, "0 2 1 0, 1 2 65 1, 2 2 1 0" },
	{ "runtime.asm", "2,4, 16,28, 0", 0, 4, "0 2 1 0, 4 2 2 0" },
	{ "runtime.known", "2,4, 16,28, 0", 7, 0, "0 2 1 0, 4 2 2 0" },
	{ "main.short", "2,4, 0", 0, 0, "0 2 1 0, 4 0 0 0" },
	{ "main.odd", "2,4, 6,28, 0", 0, 0, "0 2 1 0, 4 6 0 0" },
	{ "main.below", "2,4, 15,28, 0", 0, 0, "0 2 1 0, 4 6 0 0" },
	{ "main.large", "2,4, 0x80,0x80,0x40,28, 0", 0, 0, "0 2 1 0, 4 6 0 0" },
	{ "main.beyond", "2,4, 16,29, 0", 0, 0, "0 2 1 0, 4 0 0 0" },
	{ "main.still", "2,4, 16,0, 0", 0, 0, "0 2 1 0, 4 0 0 0" },
	{ "main.none", "0,0", 0, 0, "0 0 0 0" },
	{ "runtime.goexit", "2,32, 0", 0, OUTERMOST, "0 1 0 0" },
	{ "runtime.systemstack", "2,4, 16,28, 0", 0, SETS_RSP, "0 2 1 0, 1 0 0 0" },
	{ "main.before", "2,32, 0", 0, 0, "0 2 1 0, 1f 7 0 0" },
	{ "runtime.sigreturn", "2,32, 0", 0, 0, "0 7 0 0" },
	{ "main.last", "2,32, 0", 0, 0, "0 2 1 0" },
};
#define COUNT (sizeof(functions) / sizeof(functions[0]))

__attribute__((format(printf, 2, 3))) static void add(char *text, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + strlen(text), 8192 - strlen(text), format, arguments);
	va_end(arguments);
}

static struct symtab *open_table(void)
{
	char text[8192] = ".globl _start\n.text\n.balign 64\n_start:\n";
	struct symtab *symtab = NULL;

	add(text, ".skip %zu, 0x90\n.section .gopclntab,\"a\"\n.balign 32\n", COUNT * SIZE);
	add(text, "table: .long 0xfffffff1\n.byte 0, 0, 1, 8\n.quad %zu, 0, _start\n", COUNT);
	add(text, ".quad names - table, 0, 0, lists - table, list - table\nnames: .byte 0\n");
	for (size_t i = 0; i < COUNT; i++)
		add(text, "name%zu: .asciz \"%s\"\n", i, functions[i].name);
	add(text, "lists: .byte 0\n");
	for (size_t i = 0; i < COUNT; i++)
		add(text, "steps%zu: .byte %s\n", i, functions[i].steps);
	add(text, ".balign 8\nlist:\n");
	for (size_t i = 0; i < COUNT; i++)
		add(text, ".long %zu, record%zu - list\n", i * SIZE, i);
	add(text, ".long %zu\n", COUNT * SIZE);
	for (size_t i = 0; i < COUNT; i++)
		add(text,
		    "record%zu: .long %zu, name%zu - names, 0, 0, steps%zu - lists\n"
		    ".long 0, 0, 0, 0, 0\n.byte %u, %u, 0, 0\n",
		    i, i * SIZE, i, i, functions[i].id, functions[i].flags);
	scratch_text("table.s", text);
	scratch_run("gcc -nostdlib -static -no-pie table.s -o table");
	int fd = open(scratch_path("table"), O_RDONLY | O_CLOEXEC);
	assert_null(symtab_open(fd, "table", &symtab));
	close(fd);
	return symtab;
}

/* The rows that begin in the function, and the one that holds at its start. */
static void list_rows(const struct cfi_rows *rows, uint64_t start, char *text)
{
	const struct dt_unwind_row *last = NULL;

	*text = '\0';
	for (size_t i = 0; i < rows->count; i++) {
		const struct dt_unwind_row *row = &rows->items[i];

		if (row->pc <= start)
			last = row;
		if (row->pc > start && last) {
			add(text, "0 %x %d %x", last->cfa_rule, last->cfa, last->rbp_rule);
			last = NULL;
		}
		if (row->pc > start && row->pc < start + SIZE)
			add(text, ", %lx %x %d %x", row->pc - start, row->cfa_rule, row->cfa,
			    row->rbp_rule);
	}
}

static void test_rows(void **unused)
{
	struct symtab *symtab = open_table();
	struct cfi_rows rows = { 0 };
	char text[8192];

	assert_null(cfi_compile(symtab, &rows));
	for (size_t i = 0; i < COUNT; i++) {
		list_rows(&rows, symtab_entry(symtab) + i * SIZE, text);
		if (strcmp(text, functions[i].rows) != 0)
			print_error("%s: %s\n", functions[i].name, text);
		assert_string_equal(text, functions[i].rows);
	}
	for (size_t i = 0; i < rows.count; i++)
		assert_int_equal(rows.items[i].rbp,
				 rows.items[i].rbp_rule == DT_RBP_SAVED ? -2 : 0);
	assert_int_equal(rows.items[rows.count - 1].cfa_rule, DT_CFA_NONE);
	vec_free(&rows);
	symtab_close(symtab);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

	return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
