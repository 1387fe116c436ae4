/*
 * Which argument registers functions read: shapes of code one by one, and all functions of programs
 * whose debug information tells what they do with their arguments.
 */
#include <dwarf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/arguments/argument_use.h"
#include "control/base/cleanup.h"
#include "control/dwarf/debug.h"
#include "control/values/where/abi.h"

#include "built.h"

enum { ARG0 = 1, ARG1 = 2, ARG2 = 4, ARG3 = 8, ARG4 = 16, ARG5 = 32 };

struct program {
	int fd;
	struct symtab *symtab;
	struct argument_uses *uses;
};

static struct program open_program(const char *path)
{
	struct program program = { .fd = open(path, O_RDONLY | O_CLOEXEC) };

	assert_true(program.fd >= 0);
	assert_null(symtab_open(program.fd, path, &program.symtab));
	program.uses = argument_uses_new(program.symtab);
	assert_non_null(program.uses);
	return program;
}

static void close_program(struct program *program)
{
	argument_uses_free(program->uses);
	symtab_close(program->symtab);
	close(program->fd);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

#define SHAPE(name, body)                                                                   \
	".globl shape_" name "\n.type shape_" name ", @function\nshape_" name ": "          \
	".cfi_startproc\n" body "\n.cfi_endproc\n.size shape_" name ", . - shape_" name "\n"

/* A jump by the index in rdi: cases that read rsi and r8, and a third one. */
#define SWITCH_IN(section, table, third)                                                     \
	table "\n movslq (%rax, %rdi, 4), %rdx\n add %rax, %rdx\n jmp *%rdx\n"              \
	      "1: mov %rsi, %rax\n ret\n 2: xor %eax, %eax\n ret\n 3: mov %r8, %rax\n ret\n" \
	      ".pushsection " section "\n .p2align 2\n"                                       \
	      "4: .long 1b - 4b, 3b - 4b, " third " - 4b\n .popsection"
#define SWITCH(table, third) SWITCH_IN(".rodata", table, third)
#define LABEL "lea 4f(%rip), %rax"

#define CALLS_RAND "sub $8, %rsp\n call rand@plt\n mov %rax, %rdi\n add $8, %rsp\n"

#define CALLS_RAND_TWICE(name)                                                           \
	"push %rdi\n call rand@plt\n mov %rax, %rdi\n call " name "\n call rand@plt\n" \
	"mov %rax, %rdi\n call " name "\n pop %rdi\n"
/* A function that is called twice, with all registers as they are behind other code. */
#define PASSED_BESIDE(name, code)                                                 \
	SHAPE("passed_beside_" name, "jmp *8(%rdi)")                              \
	SHAPE("passes_beside_" name,                                              \
	      "push %rbx\n" code "\n call shape_passed_beside_" name "\n pop %rbx\n ret") \
	SHAPE("passes_also_beside_" name,                                         \
	      "push %rbx\n" code "\n call shape_passed_beside_" name "\n pop %rbx\n ret")

__asm__(".text\n"
	SHAPE("nothing", "xor %eax, %eax\n ret")
	SHAPE("reads", "mov %rsi, %rax\n ret")
	SHAPE("cleared", "xor %edi, %edi\n mov %rdi, %rax\n ret")
	SHAPE("part", "mov $1, %dil\n mov %rdi, %rax\n ret")
	SHAPE("half", "mov $1, %edi\n mov %rdi, %rax\n ret")
	SHAPE("perhaps", "cmove %eax, %edi\n mov %edi, %eax\n ret")
	SHAPE("forward_bits", "mov $0, %esi\n bsf %edi, %edx\n mov %edx, %eax\n ret")
	SHAPE("branch", "test %edi, %edi\n je 1f\n mov $1, %esi\n 1: mov %esi, %eax\n ret")
	SHAPE("loop", "mov %edi, %ecx\n 1: add %rdx, %rax\n mov %rsi, %rdx\n dec %ecx\n jne 1b\n ret")
	SHAPE("address", "mov (%rdi, %r9, 8), %eax\n ret")
	SHAPE("hint", "nopw (%rdi, %rsi)\n ret")
	SHAPE("string", "rep movsb\n ret")
	SHAPE("kernel", "mov $39, %eax\n syscall\n ret") /* getpid */
	SHAPE("kernel_write", "mov $1, %eax\n syscall\n ret")
	SHAPE("kernel_unknown", "mov %edi, %eax\n syscall\n ret")
	SHAPE("kernel_called", "mov $39, %eax\n call shape_leaf\n syscall\n ret")
	SHAPE("kernel_either", "mov $39, %eax\n test %edi, %edi\n je 1f\n mov $1, %eax\n"
			       "1: syscall\n ret")
	SHAPE("kernel_late", "mov $440, %eax\n syscall\n ret") /* process_madvise */
	SHAPE("kernel_future", "mov $400, %eax\n syscall\n ret")
	SHAPE("kernel_clobbers", "mov $39, %eax\n syscall\n mov %rcx, %rax\n ret")
	SHAPE("switch", "cmp $2, %edi\n ja 2f\n mov %edi, %edi\n" SWITCH(LABEL, "2b"))
	SHAPE("switch_byte", "cmp $2, %dil\n ja 2f\n movzbl %dil, %edi\n" SWITCH(LABEL, "2b"))
	SHAPE("switch_masked", "and $3, %edi\n cmp $2, %dil\n ja 2f\n" SWITCH(LABEL, "2b"))
	SHAPE("switch_loop", LABEL "\n 5: cmp $2, %edi\n ja 2f\n mov %edi, %edi\n"
			     SWITCH("", "5b"))
	/* more ways than the search follows */
	SHAPE("switch_large", "cmp $1023, %edi\n ja 2f\n mov %edi, %edi\n" LABEL "\n"
			      "movslq (%rax, %rdi, 4), %rdx\n add %rax, %rdx\n jmp *%rdx\n"
			      "1: .rept 1024\n nop\n nop\n nop\n ret\n .endr\n 2: ret\n"
			      ".pushsection .rodata\n .p2align 2\n"
			      "4: .rept 1024\n .long 1b - 4b + (. - 4b)\n .endr\n .popsection")
	/* nothing bounds these */
	SHAPE("switch_wild", SWITCH(LABEL, "2b"))
	SHAPE("switch_low", "cmp $2, %dil\n ja 2f\n" SWITCH(LABEL, "2b"))
	SHAPE("switch_other", "cmp $2, %esi\n ja 2f\n" SWITCH(LABEL, "2b"))
	SHAPE("switch_late", "test %esi, %esi\n je 6f\n cmp $2, %edi\n ja 2f\n mov %edi, %edi\n"
			     "6:" SWITCH(LABEL, "2b"))
	SHAPE("switch_moved", "cmp $2, %edi\n ja 2f\n mov %edi, %edi\n inc %edi\n"
			      SWITCH(LABEL, "2b"))
	SHAPE("switch_flags", "cmp $2, %edi\n test %esi, %esi\n ja 2f\n mov %edi, %edi\n"
			      SWITCH(LABEL, "2b"))
	SHAPE("switch_far", "cmp $2, %edi\n ja 2f\n mov %edi, %edi\n"
			    SWITCH(LABEL, "4b + 0x70000000"))
	SHAPE("switch_written", "cmp $2, %edi\n ja 2f\n mov %edi, %edi\n"
				SWITCH_IN(".data", LABEL, "2b"))
	SHAPE("calls", "push %rbx\n mov $1, %edi\n call shape_reads\n pop %rbx\n ret")
	SHAPE("calls_unknown", "push %rbx\n mov %rdi, %rax\n mov $1, %edi\n mov $2, %esi\n"
			       "call *8(%rax)\n pop %rbx\n ret")
	SHAPE("keeps", "call shape_leaf\n mov %rdx, %rax\n ret")
	SHAPE("leaf", "mov $1, %edi\n ret")
	SHAPE("loses", "call shape_clobbers\n mov %rdx, %rax\n ret")
	SHAPE("clobbers", "mov $1, %edx\n ret")
	SHAPE("tail", "mov $1, %edi\n jmp shape_reads")
	SHAPE("tail_unknown", "mov $1, %edi\n jmp *%rax")
	SHAPE("thunk", "call 1f\n 2: pause\n jmp 2b\n 1: mov %rax, (%rsp)\n ret")
	SHAPE("through_thunk", "mov $1, %edi\n jmp shape_thunk")
	SHAPE("pushes_way", "push %rax\n ret")
	SHAPE("switches", "mov %rdi, %rsp\n ret")
	SHAPE("frame", "push %rbp\n mov %rsp, %rbp\n sub %rax, %rsp\n mov %rdi, (%rsp)\n leave\n ret")
	SHAPE("recursive", "test %edi, %edi\n je 1f\n dec %edi\n call shape_recursive\n 1: ret")
	/* sanitizers have a strlen of their own, without a version: nobody knows what that reads */
	SHAPE("imports", "sub $8, %rsp\n mov $0, %edi\n call rmdir@plt\n add $8, %rsp\n ret")
	SHAPE("imports_two", "jmp rename@plt")
	SHAPE("imports_checked", "jmp __gethostname_chk@plt")
	SHAPE("imports_address", "jmp bind@plt")
	SHAPE("variadic", "sub $0xd8, %rsp\n mov %rsi, 0x28(%rsp)\n mov %rdx, 0x30(%rsp)\n"
			  "mov %rcx, 0x38(%rsp)\n mov %r8, 0x40(%rsp)\n mov %r9, 0x48(%rsp)\n"
			  "test %al, %al\n mov %rdi, %rax\n add $0xd8, %rsp\n ret")
	/* garbage in rsi and above at two places: shape_passed can't have more than one argument */
	SHAPE("passed", "mov $2, %eax\n jmp *8(%rdi)")
	SHAPE("passes_once", "sub $8, %rsp\n call rand@plt\n mov %eax, %edi\n call shape_passed\n"
			     "add $8, %rsp\n ret")
	SHAPE("passes_twice", "sub $8, %rsp\n call rand@plt\n mov %eax, %edi\n"
			      "call shape_passed\n call rand@plt\n mov %eax, %edi\n"
			      "call shape_passed_once\n add $8, %rsp\n ret")
	SHAPE("passed_once", "jmp *8(%rdi)")
	/* two of 62 are wrong: the others pass six */
	SHAPE("passed_many", "jmp *8(%rdi)")
	SHAPE("passes_many", "sub $8, %rsp\n .rept 60\n mov $1, %esi\n mov $1, %edx\n"
			     "mov $1, %ecx\n mov $1, %r8d\n mov $1, %r9d\n"
			     "call shape_passed_many\n .endr\n call rand@plt\n"
			     "call shape_passed_many\n call rand@plt\n call shape_passed_many\n"
			     "add $8, %rsp\n ret")
	/* jumps pass arguments as calls do, but not those back to the first instruction */
	SHAPE("jumped", "jmp *8(%rdi)")
	SHAPE("jumps", CALLS_RAND "jmp shape_jumped")
	SHAPE("jumps_again", CALLS_RAND "jmp shape_jumped")
	SHAPE("loops", "test %rdi, %rdi\n je 1f\n js 2f\n jmp *8(%rdi)\n"
		       "1:" CALLS_RAND "jmp shape_loops\n 2:" CALLS_RAND "jmp shape_loops")
	SHAPE("loops_apart", "test %rdi, %rdi\n je shape_loops_back\n jmp *8(%rdi)")
	SHAPE("loops_back", "js 1f\n" CALLS_RAND "jmp shape_loops_apart\n"
			    "1:" CALLS_RAND "jmp shape_loops_apart")
	/* a result of two words: the second one is an argument where it is */
	SHAPE("pair", "mov %rdi, %rax\n mov %rdi, %rdx\n ret")
	SHAPE("passed_pair", "jmp *8(%rdi)")
	SHAPE("passes_pairs", "push %rbx\n mov %rdi, %rbx\n call shape_pair\n mov %rax, %rsi\n"
			      "mov %rbx, %rdi\n call shape_passed_pair\n call shape_pair\n"
			      "mov %rax, %rsi\n mov %rbx, %rdi\n call shape_passed_pair\n pop %rbx\n"
			      "ret")
	/* arguments stay where they are beside calls that leave them alone: of a switch, */
	SHAPE("switches_leaf", "mov shape_table(%rip), %rax\n jmp *%rax\n 1: ret\n"
			       ".pushsection .data\n shape_table: .quad 1b\n .popsection")
	PASSED_BESIDE("switch", "call shape_switches_leaf")
	/* of one whose table may be shorter, as nobody compares the index with its length, */
	SHAPE("loose_leaf", "and $3, %eax\n lea 4f(%rip), %r10\n movslq (%r10, %rax, 4), %rax\n"
			    "add %r10, %rax\n jmp *%rax\n 1: ret\n 2: xor %esi, %esi\n ret\n"
			    ".pushsection .rodata\n .p2align 2\n"
			    "4: .long 1b - 4b, 1b - 4b, 1b - 4b, 2b - 4b\n .popsection")
	PASSED_BESIDE("loose", "call shape_loose_leaf")
	/* of what saves them */
	SHAPE("saving_leaf", "sub $24, %rsp\n push %rdi\n mov %rsi, 16(%rsp)\n xor %edi, %edi\n"
			     "xor %esi, %esi\n mov 16(%rsp), %rsi\n pop %rdi\n add $24, %rsp\n ret")
	PASSED_BESIDE("saving", "call shape_saving_leaf")
	/* and what is behind a call that doesn't come back is no part of the function */
	SHAPE("trap", "ud2")
	SHAPE("ending_leaf", "test %eax, %eax\n je 1f\n ret\n 1: call shape_trap")
	SHAPE("behind_ending", "xor %esi, %esi\n ret")
	SHAPE("keeps_beside_end", "call shape_ending_leaf\n mov %rsi, %rax\n ret")
	/* the other way here begins behind a call that doesn't come back */
	PASSED_BESIDE("pointer", "test %edi, %edi\n je 1f\n call *shape_table(%rip)\n 1:")
	SHAPE("stops", "call abort@plt")
	SHAPE("behind_stops", "ret")
	PASSED_BESIDE("stops", "test %edi, %edi\n je 1f\n call shape_stops\n 1:")
	"shape_cold: .cfi_startproc\n call abort@plt\n"
	"shape_cold_two: call shape_passed_by_cold\n call abort@plt\n"
	"shape_cold_three: call shape_passed_by_cold\n ret\n .cfi_endproc\n"
	SHAPE("passed_by_cold", "jmp *8(%rdi)")
	SHAPE("has_cold", "test %edi, %edi\n je shape_cold\n js shape_cold_two\n"
			   "jmp shape_cold_three")
	/* two callers leave the second argument alone, a third one has one: and one before it */
	SHAPE("passed_seldom", "jmp *8(%rdi)")
	SHAPE("passes_seldom", CALLS_RAND_TWICE("shape_passed_seldom") "mov %rax, %rdx\n"
			       "call shape_passed_seldom\n ret")
	SHAPE("passed_sum", "jmp *8(%rdi)")
	SHAPE("passes_sum", CALLS_RAND_TWICE("shape_passed_sum") "mov %rax, %rsi\n"
			    "add %rax, %rsi\n call shape_passed_sum\n ret")
	SHAPE("passed_apart", "jmp *8(%rdi)")
	SHAPE("passes_apart", CALLS_RAND_TWICE("shape_passed_apart") "test %eax, %eax\n je 1f\n ret\n"
			      "1: mov %rax, %rsi\n call shape_passed_apart\n ret")
	/* an exception leads here, not the last call */
	PASSED_BESIDE("exception", "call rand@plt\n pop %rbx\n ret")
	/* what is read before the call isn't passed */
	SHAPE("passed_read", "jmp *8(%rdi)")
	SHAPE("passes_read", CALLS_RAND_TWICE("shape_passed_read") "mov %rax, %rdx\n"
			     "mov (%rdx), %rdi\n call shape_passed_read\n ret")
	/* an argument with a tag in the one before it, which says that nothing is there */
	SHAPE("passed_none", "jmp *8(%rdi)")
	SHAPE("passes_none", "sub $8, %rsp\n call rand@plt\n xor %edi, %edi\n"
			     "call shape_passed_none\n call rand@plt\n mov $2, %edi\n"
			     "call shape_passed_none\n add $8, %rsp\n ret")
	/* without a prototype, or variadic */
	SHAPE("passed_some", "jmp *8(%rdi)")
	SHAPE("passes_some", "sub $8, %rsp\n call rand@plt\n mov %eax, %edi\n xor %eax, %eax\n"
			     "call shape_passed_some\n call rand@plt\n mov %eax, %edi\n"
			     "mov $1, %eax\n call shape_passed_some\n add $8, %rsp\n ret")
	/* no gaps: what reads the third argument has a second */
	SHAPE("passed_third", "mov %rdx, %rax\n jmp *8(%rdi)")
	SHAPE("passes_third", CALLS_RAND_TWICE("shape_passed_third") "ret"));

static const struct {
	const char *name;
	uint8_t reads;
} shapes[] = {
	{ "nothing", 0 },
	{ "reads", ARG1 },
	{ "cleared", 0 },
	{ "part", ARG0 },
	{ "half", 0 },
	{ "perhaps", ARG0 },
	{ "forward_bits", ARG0 | ARG2 },
	{ "branch", ARG0 | ARG1 },
	{ "loop", ARG0 | ARG1 | ARG2 },
	{ "address", ARG0 | ARG5 },
	{ "hint", 0 },
	{ "string", ARG0 | ARG1 | ARG3 },
	{ "kernel", 0 },
	{ "kernel_write", ARG0 | ARG1 | ARG2 },
	{ "kernel_unknown", ARGUMENTS_ALL & ~ARG3 },
	{ "kernel_called", ARGUMENTS_ALL & ~(ARG0 | ARG3) },
	{ "kernel_either", ARGUMENTS_ALL & ~ARG3 },
	{ "kernel_late", ARG0 | ARG1 | ARG2 | ARG4 },
	{ "kernel_future", ARGUMENTS_ALL & ~ARG3 },
	{ "kernel_clobbers", 0 },
	{ "switch", ARG0 | ARG1 | ARG4 },
	{ "switch_byte", ARG0 | ARG1 | ARG4 },
	{ "switch_masked", ARG0 | ARG1 | ARG4 },
	{ "switch_loop", ARG0 | ARG1 | ARG4 },
	{ "switch_large", ARGUMENTS_ALL },
	{ "switch_wild", ARGUMENTS_ALL & ~ARG2 },
	{ "switch_low", ARGUMENTS_ALL & ~ARG2 },
	{ "switch_other", ARGUMENTS_ALL & ~ARG2 },
	{ "switch_late", ARGUMENTS_ALL & ~ARG2 },
	{ "switch_moved", ARGUMENTS_ALL & ~ARG2 },
	{ "switch_flags", ARGUMENTS_ALL & ~ARG2 },
	{ "switch_far", ARGUMENTS_ALL & ~ARG2 },
	{ "switch_written", ARGUMENTS_ALL & ~ARG2 },
	{ "calls", ARG1 },
	{ "calls_unknown", ARGUMENTS_ALL & ~ARG1 },
	{ "keeps", ARG2 },
	{ "loses", 0 },
	{ "tail", ARG1 },
	{ "tail_unknown", ARGUMENTS_ALL & ~ARG0 },
	{ "thunk", ARGUMENTS_ALL },
	{ "through_thunk", ARGUMENTS_ALL & ~ARG0 },
	{ "pushes_way", ARGUMENTS_ALL },
	{ "switches", ARGUMENTS_ALL },
	{ "frame", ARG0 },
	{ "recursive", ARG0 },
	{ "imports", 0 },
	{ "imports_two", ARG0 | ARG1 },
	{ "imports_checked", ARG0 | ARG1 | ARG2 },
	{ "imports_address", ARG0 | ARG1 | ARG2 },
	{ "variadic", ARGUMENTS_ALL },
	{ "passed", ARG0 },
	{ "passed_once", ARGUMENTS_ALL },
	{ "passed_pair", ARGUMENTS_ALL },
	{ "passed_many", ARGUMENTS_ALL },
	{ "jumped", ARG0 },
	{ "loops", ARGUMENTS_ALL },
	{ "loops_apart", ARGUMENTS_ALL },
	{ "passed_beside_switch", ARGUMENTS_ALL },
	{ "passed_beside_loose", ARGUMENTS_ALL },
	{ "passed_beside_saving", ARGUMENTS_ALL },
	{ "keeps_beside_end", ARG1 },
	{ "passed_beside_pointer", ARGUMENTS_ALL },
	{ "passed_beside_stops", ARGUMENTS_ALL },
	{ "passed_beside_exception", ARGUMENTS_ALL },
	{ "passed_by_cold", ARGUMENTS_ALL },
	{ "passed_seldom", ARG0 | ARG1 | ARG2 },
	{ "passed_sum", ARG0 | ARG1 },
	{ "passed_apart", ARG0 | ARG1 },
	{ "passed_read", ARG0 },
	{ "passed_none", ARG0 | ARG1 },
	{ "passed_some", ARGUMENTS_ALL },
	{ "passed_third", ARG0 | ARG1 | ARG2 },
};

/* I21, I22, I23, I24, I25 */
static void test_shapes(void **state)
{
	struct program program = open_program("/proc/self/exe");

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		char name[64];
		const struct symbol *symbol;
		uint8_t reads;

		snprintf(name, sizeof(name), "shape_%s", shapes[i].name);
		symbol = symtab_find(program.symtab, name);
		assert_non_null(symbol);
		reads = argument_uses_of(program.uses, symbol->address);
		if (reads != shapes[i].reads)
			fail_msg("%s: %02x, not %02x", name, reads, shapes[i].reads);
	}
	close_program(&program);
}

/* An answer doesn't depend on what was asked before. */
static void test_order(void **state)
{
	struct program up = open_program("/proc/self/exe"), down = open_program("/proc/self/exe");
	size_t count = symtab_count(up.symtab);

	(void)state;
	for (size_t i = 0; i < count; i++)
		argument_uses_of(up.uses, symtab_get(up.symtab, i)->address);
	for (size_t i = count; i-- > 0;) {
		const struct symbol *symbol = symtab_get(down.symtab, i);

		if (symbol->kind == SYMBOL_FUNCTION)
			assert_int_equal(argument_uses_of(down.uses, symbol->address),
					 argument_uses_of(up.uses, symbol->address));
	}
	close_program(&up);
	close_program(&down);
}

/* ---- what debug information says ------------------------------------------------------------- */

struct tally {
	const struct program *program;
	const char *name;
	uint8_t reads;
	size_t functions, moved, passed, missing, registers;
};

/* The argument register of a number in DWARF; 0: none. */
static uint8_t bit_of_dwarf(uint64_t number)
{
	static const uint8_t numbers[ARGUMENT_REGISTERS] = { 5, 4, 1, 2, 8, 9 };

	for (unsigned i = 0; i < ARGUMENT_REGISTERS; i++) {
		if (numbers[i] == number)
			return (uint8_t)(1u << i);
	}
	return 0;
}

static void expect(struct tally *tally, uint8_t bit, const char *why)
{
	if (tally->reads & bit)
		return;
	tally->missing++;
	print_error("%s: bit %02x is missing in %02x: %s\n", tally->name, bit, tally->reads, why);
}

/* The register whose value at the entry the expression is; 0: something else. */
static uint8_t entry_value(Dwarf_Attribute *attribute)
{
	Dwarf_Attribute inner;
	Dwarf_Op *ops;
	size_t count;

	if (dwarf_getlocation(attribute, &ops, &count) || count != 1 ||
	    (ops->atom != DW_OP_entry_value && ops->atom != DW_OP_GNU_entry_value) ||
	    dwarf_getlocation_attr(attribute, ops, &inner) ||
	    dwarf_getlocation(&inner, &ops, &count) || count != 1)
		return 0;
	if (ops->atom >= DW_OP_reg0 && ops->atom <= DW_OP_reg31)
		return bit_of_dwarf((uint64_t)ops->atom - DW_OP_reg0);
	return 0;
}

/* Does the callee's code read the argument? True also if that isn't known. */
static bool callee_reads(const struct tally *tally, Dwarf_Die *call, Dwarf_Die *parameter)
{
	Dwarf_Attribute attribute;
	const struct symbol *symbol;
	Dwarf_Die origin;
	Dwarf_Op *ops;
	size_t count;

	if ((!dwarf_attr(call, DW_AT_call_origin, &attribute) &&
	     !dwarf_attr(call, DW_AT_abstract_origin, &attribute)) ||
	    !dwarf_formref_die(&attribute, &origin) || !dwarf_diename(&origin))
		return true;
	symbol = symtab_first_named(tally->program->symtab, dwarf_diename(&origin));
	if (!symbol || symtab_next_named(tally->program->symtab, symbol) ||
	    symbol->kind != SYMBOL_FUNCTION)
		return true;
	if (!dwarf_attr(parameter, DW_AT_location, &attribute) ||
	    dwarf_getlocation(&attribute, &ops, &count) || count != 1 ||
	    ops->atom < DW_OP_reg0 || ops->atom > DW_OP_reg31)
		return true;
	return argument_uses_of(tally->program->uses, symbol->address) &
	       bit_of_dwarf((uint64_t)ops->atom - DW_OP_reg0);
}

/* Arguments of calls that are the function's own, untouched. */
static void check_call(struct tally *tally, Dwarf_Die *call)
{
	Dwarf_Attribute attribute;
	Dwarf_Die parameter;

	if (dwarf_child(call, &parameter))
		return;
	do {
		uint8_t bit = 0;

		if (dwarf_attr(&parameter, DW_AT_call_value, &attribute) ||
		    dwarf_attr(&parameter, DW_AT_GNU_call_site_value, &attribute))
			bit = entry_value(&attribute);
		if (bit && callee_reads(tally, call, &parameter)) {
			tally->passed++;
			expect(tally, bit, "passed on");
		}
	} while (!dwarf_siblingof(&parameter, &parameter));
}

static void check_calls(struct tally *tally, Dwarf_Die *die)
{
	Dwarf_Die child;

	if (dwarf_child(die, &child))
		return;
	do {
		int tag = dwarf_tag(&child);

		if (tag == DW_TAG_call_site || tag == DW_TAG_GNU_call_site)
			check_call(tally, &child);
		else if (tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine)
			check_calls(tally, &child);
	} while (!dwarf_siblingof(&child, &child));
}

/* Is the parameter in another place later? Then the function has read it. */
static bool is_moved(Dwarf_Die *parameter, uint8_t bit)
{
	Dwarf_Addr base, start, end;
	Dwarf_Attribute attribute;
	ptrdiff_t next = 0;
	Dwarf_Op *ops;
	size_t count;

	if (!dwarf_attr_integrate(parameter, DW_AT_location, &attribute))
		return false;
	while ((next = dwarf_getlocations(&attribute, next, &base, &start, &end, &ops, &count)) >
	       0) {
		if (count != 1)
			continue;
		if (ops->atom == DW_OP_fbreg)
			return true;
		if (ops->atom >= DW_OP_reg0 && ops->atom <= DW_OP_reg31 &&
		    bit_of_dwarf((uint64_t)ops->atom - DW_OP_reg0) != bit)
			return true;
	}
	return false;
}

static uint8_t bit_of_hardware(uint8_t reg)
{
	static const uint8_t numbers[ARGUMENT_REGISTERS] = { 7, 6, 2, 1, 8, 9 };

	for (unsigned i = 0; i < ARGUMENT_REGISTERS; i++) {
		if (numbers[i] == reg)
			return (uint8_t)(1u << i);
	}
	return 0;
}

static void check_parameters(struct tally *tally, struct debug_function *function)
{
	struct member_walk walk = { .started = false };
	Dwarf_Die die = function->die;
	struct parameter parameter;
	struct abi_state state;

	abi_start(function, &state);
	while (debug_next_parameter(&die, &walk, &parameter)) {
		struct abi_value abi;
		uint8_t bit;

		abi_next(&state, &parameter.type, &abi);
		if (!abi.is_known || abi.count != 1 || abi.pieces[0].where != ABI_INT)
			continue;
		bit = bit_of_hardware(abi.pieces[0].reg);
		if (is_moved(&parameter.die, bit)) {
			tally->moved++;
			expect(tally, bit, parameter.name ? parameter.name : "?");
		}
	}
}

static void check_function(struct tally *tally, struct debug *debug, const struct symbol *symbol)
{
	struct debug_function function;

	if (!debug_function_at(debug, symbol->address, &function) ||
	    function.low != symbol->address || debug_function_is_assembly(&function))
		return;
	tally->name = symbol->name;
	tally->reads = argument_uses_of(tally->program->uses, symbol->address);
	tally->functions++;
	tally->registers += (size_t)__builtin_popcount(tally->reads);
	check_calls(tally, &function.die);
	/* of clones, and of local functions of LLVM's, the ABI doesn't tell the places */
	if (!strchr(symbol->name, '.') &&
	    (symbol->global || !debug_function_is_llvm(&function)) &&
	    debug_function_has_abi(&function))
		check_parameters(tally, &function);
}

static struct tally check_program(const char *path)
{
	struct program program = open_program(path);
	struct tally tally = { .program = &program };
	struct debug *debug = NULL;
	uint64_t last = 0;

	assert_null(debug_open(program.fd, path, &debug));
	if (debug)
		debug_need_locations(debug);
	for (size_t i = 0; debug && i < symtab_count(program.symtab); i++) {
		const struct symbol *symbol = symtab_get(program.symtab, i);

		if (symbol->kind == SYMBOL_FUNCTION && symbol->address != last)
			check_function(&tally, debug, symbol);
		last = symbol->address;
	}
	debug_close(debug);
	close_program(&program);
	return tally;
}

static struct tally check_and_tell(const char *path)
{
	struct tally tally = check_program(path);

	print_message("%s: %zu functions, %.2f registers, %zu moved, %zu passed on, %zu missing\n",
		      path, tally.functions,
		      (double)tally.registers / (double)(tally.functions + !tally.functions),
		      tally.moved, tally.passed, tally.missing);
	assert_int_equal(tally.missing, 0);
	return tally;
}

/*
 * The program is dyntrace, not this one: the debug information of a build with sanitizers has no
 * parameters. Other files instead: DYNTRACE_ARGUMENT_FILES="FILE FILE".
 */
static void test_debug_information(void **state)
{
	const char *asked = getenv("DYNTRACE_ARGUMENT_FILES");
	_cleanup_free_ char *files = strdup(asked ? asked : "");
	char dyntrace[PATH_MAX], *rest = files;
	struct tally tally;

	(void)state;
	for (char *path; asked && (path = strsep(&rest, " "));)
		check_and_tell(path);
	if (asked)
		return;
	built_path("dyntrace", dyntrace);
	tally = check_and_tell(dyntrace);
	assert_true(tally.moved > 3000 && tally.passed > 800);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_debug_information),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
