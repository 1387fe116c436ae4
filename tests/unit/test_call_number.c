/*
 * Which system calls code makes (X11): shapes of code one by one, and all calls of libgomp, which
 * keeps the number of futex in registers.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/placement/call_number.h"

#define FUTEX 202
#define UNKNOWN UINT64_MAX

struct file {
	int fd;
	struct symtab *symtab;
	struct branch_targets *targets;
	struct body body;
};

static struct file open_file(const char *path)
{
	struct file file = { .fd = open(path, O_RDONLY | O_CLOEXEC) };

	assert_true(file.fd >= 0);
	assert_null(symtab_open(file.fd, path, &file.symtab));
	assert_null(branch_targets_scan(file.symtab, &file.targets));
	return file;
}

static void close_file(struct file *file)
{
	body_free(&file->body);
	branch_targets_free(file->targets);
	symtab_close(file->symtab);
	close(file->fd);
}

static bool is_syscall(const struct body *body, size_t index)
{
	const struct body_insn *insn = &body->insns.items[index];

	return insn->length == 2 &&
	       !memcmp(body->text->bytes + (insn->at - body->text->address), "\x0f\x05", 2);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

#define SHAPE(name, body)                                                          \
	".globl shape_" name "\n.type shape_" name ", @function\nshape_" name ": " \
	".cfi_startproc\n" body "\n.cfi_endproc\n.size shape_" name ", . - shape_" name "\n"

/* Nobody calls them. The last system call of each counts. */
__asm__(".text\n"
	SHAPE("straight", "mov $7, %eax\n syscall\n ret")
	SHAPE("zero", "xor %eax, %eax\n syscall\n ret")
	SHAPE("wide", "mov $7, %rax\n syscall\n ret")
	SHAPE("not_set", "syscall\n ret")
	SHAPE("argument", "mov %edi, %eax\n syscall\n ret")
	SHAPE("part", "mov $7, %eax\n mov $9, %al\n syscall\n ret")
	SHAPE("sum", "mov $7, %eax\n add $1, %eax\n syscall\n ret")
	SHAPE("other_xor", "mov $7, %eax\n xor %edi, %eax\n syscall\n ret")
	SHAPE("loaded", "mov (%rdi), %eax\n syscall\n ret")
	SHAPE("perhaps", "mov $7, %eax\n mov $9, %ecx\n cmove %ecx, %eax\n syscall\n ret")
	SHAPE("exchanged", "mov $7, %eax\n xchg %eax, %ecx\n syscall\n ret")
	SHAPE("hidden", "mov $7, %eax\n cpuid\n syscall\n ret")
	SHAPE("copied", "mov $7, %r9d\n nop\n mov %r9d, %eax\n syscall\n ret")
	SHAPE("result", "mov $7, %eax\n syscall\n syscall\n ret")
	SHAPE("lost_by_kernel", "mov $7, %ecx\n syscall\n mov %ecx, %eax\n syscall\n ret")
	SHAPE("interrupt", "mov $7, %ebx\n int $0x80\n mov %ebx, %eax\n syscall\n ret")
	SHAPE("over_a_call", "mov $7, %ebx\n call shape_zero\n mov %ebx, %eax\n syscall\n ret")
	SHAPE("lost_by_a_call", "mov $7, %r8d\n call *%rdx\n mov %r8d, %eax\n syscall\n ret")
	SHAPE("both_ways", "test %edi, %edi\n je 1f\n mov $7, %eax\n jmp 2f\n 1: mov $7, %eax\n"
			   "2: syscall\n ret")
	SHAPE("two_numbers", "test %edi, %edi\n je 1f\n mov $7, %eax\n jmp 2f\n 1: mov $9, %eax\n"
			     "2: syscall\n ret")
	SHAPE("one_way", "test %edi, %edi\n je 1f\n mov $7, %eax\n 1: syscall\n ret")
	SHAPE("loop", "mov $7, %r8d\n 1: mov %r8d, %eax\n syscall\n test %eax, %eax\n jne 1b\n ret")
	SHAPE("changing_loop", "mov $7, %r8d\n 1: mov %r8d, %eax\n syscall\n mov %esi, %r8d\n"
			       "test %eax, %eax\n jne 1b\n ret")
	SHAPE("late_change", "mov $7, %ebx\n jmp 2f\n 1: mov %ebx, %eax\n syscall\n ret\n"
			     "3: mov $9, %ebx\n jmp 1b\n 2: test %edi, %edi\n je 1b\n jmp 3b")
	SHAPE("entered", "mov $7, %eax\n .globl inside_entered\n inside_entered: syscall\n ret")
	SHAPE("enters", "mov $14, %eax\n jmp inside_entered")
	SHAPE("taken", "mov $7, %eax\n nop\n inside_taken: syscall\n ret")
	SHAPE("takes", "lea inside_taken(%rip), %rax\n ret")
	SHAPE("table", "mov $7, %eax\n lea 9f(%rip), %rdx\n movslq (%rdx,%rdi,4), %rdi\n"
		       "add %rdx, %rdi\n jmp *%rdi\n 1: mov $9, %eax\n 2: syscall\n ret\n"
		       ".pushsection .rodata\n .balign 4\n 9: .long 1b - 9b, 2b - 9b\n .popsection")
	SHAPE("behind", "mov $7, %eax\n inside_behind: syscall\n ret")
	/* no function has these bytes */
	"mov $14, %eax\n jmp inside_behind\n"
	SHAPE("middle", "mov $7, %eax\n jmp 1f + 1\n 1: mov $0x00000eb8, %eax\n syscall\n ret")
	SHAPE("nothing_before", "mov $7, %eax\n ret\n syscall\n ret"));

static const struct {
	const char *name;
	uint64_t number;
} shapes[] = {
	{ "straight", 7 },	 { "zero", 0 },
	{ "wide", 7 },		 { "not_set", UNKNOWN },
	{ "argument", UNKNOWN }, { "part", UNKNOWN },
	{ "sum", UNKNOWN },	 { "other_xor", UNKNOWN },
	{ "loaded", UNKNOWN },	 { "perhaps", UNKNOWN },
	{ "exchanged", UNKNOWN }, { "hidden", UNKNOWN },
	{ "copied", 7 },	 { "result", UNKNOWN },
	{ "lost_by_kernel", UNKNOWN }, { "interrupt", UNKNOWN },
	{ "over_a_call", 7 },	 { "lost_by_a_call", UNKNOWN },
	{ "both_ways", 7 },	 { "two_numbers", UNKNOWN },
	{ "one_way", UNKNOWN },	 { "loop", 7 },
	{ "changing_loop", UNKNOWN }, { "late_change", UNKNOWN },
	{ "entered", UNKNOWN },	 { "taken", UNKNOWN },
	{ "table", UNKNOWN },	 { "behind", UNKNOWN },
	{ "middle", UNKNOWN },	 { "nothing_before", UNKNOWN },
};

/* The number of the function's last system call. */
static uint64_t number_of(struct file *file, const char *shape)
{
	char name[64];
	const struct symbol *symbol;
	uint64_t number;

	snprintf(name, sizeof(name), "shape_%s", shape);
	symbol = symtab_find(file->symtab, name);
	assert_non_null(symbol);
	assert_true(body_read(&file->body, file->symtab, file->targets, symbol->address,
			      symbol->address + symbol->size));
	for (size_t i = file->body.insns.count; i-- > 0;) {
		if (is_syscall(&file->body, i))
			return call_number_find(&file->body, i, &number) ? number : UNKNOWN;
	}
	fail_msg("%s: no system call", name);
	return UNKNOWN;
}

static void test_shapes(void **state)
{
	struct file file = open_file("/proc/self/exe");

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		uint64_t number = number_of(&file, shapes[i].name);

		if (number != shapes[i].number)
			fail_msg("%s: %ld, not %ld", shapes[i].name, (long)number,
				 (long)shapes[i].number);
	}
	close_file(&file);
}

/* ---- libgomp --------------------------------------------------------------------------------- */

/* Every system call of the functions with unwind tables is futex. */
static void test_libgomp(void **state)
{
	struct file file = open_file("/usr/lib/x86_64-linux-gnu/libgomp.so.1");
	uint64_t start, end, number;
	size_t calls = 0, known = 0, wrong = 0;

	(void)state;
	for (uint64_t at = symtab_low(file.symtab); at < symtab_high(file.symtab); at++) {
		if (!symtab_text(file.symtab, at) || !symtab_fde(file.symtab, at, &start, &end) ||
		    start != at)
			continue;
		assert_true(body_read(&file.body, file.symtab, file.targets, start, end));
		for (size_t i = 0; i < file.body.insns.count; i++) {
			if (!is_syscall(&file.body, i))
				continue;
			bool found = call_number_find(&file.body, i, &number);

			calls++;
			known += found;
			wrong += found && number != FUTEX;
		}
	}
	assert_in_range(calls, 10, 1000);
	assert_int_equal(known, calls);
	assert_int_equal(wrong, 0);
	close_file(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_libgomp),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
