/*
 * Rows of the unwind table against libdw, on whole libraries; filters as machine code against an
 * interpreter of their operations, on random expressions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/base/vec.h"
#include "control/values/expr/expr.h"
#include "control/codegen/filter_code.h"
#include "control/elf/cfi.h"

/* ---- unwind rows ----------------------------------------------------------------------------- */

/* What libdw says of the CFA: register and offset; false: an expression, or nothing. */
static bool libdw_cfa(Dwarf_CFI *cfi, uint64_t pc, unsigned *ret_reg, int64_t *ret_offset)
{
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops;
	size_t count;
	bool simple = false;

	if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0)
		return false;
	if (dwarf_frame_cfa(frame, &ops, &count) == 0 && count == 1 &&
	    (ops[0].atom == DW_OP_bregx ||
	     (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31))) {
		bool wide = ops[0].atom == DW_OP_bregx;

		*ret_reg = wide ? (unsigned)ops[0].number : (unsigned)ops[0].atom - DW_OP_breg0;
		*ret_offset = (int64_t)(wide ? ops[0].number2 : ops[0].number);
		simple = true;
	}
	free(frame);
	return simple;
}

static void compare_rows(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct cfi_rows rows = { 0 };
	struct symtab *symtab;
	size_t compared = 0, found = 0;

	if (fd < 0)
		return;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	assert_null(symtab_open(fd, path, &symtab));
	assert_null(cfi_compile(symtab, &rows));
	assert_true(rows.count > 1000);
	for (size_t i = 0; i < rows.count; i += 7) {
		const struct dt_unwind_row *row = cfi_find(&rows, rows.items[i].pc);
		unsigned reg = 0;
		int64_t offset = 0;

		if (!libdw_cfa(cfi, rows.items[i].pc, &reg, &offset))
			continue;
		compared++;
		if (reg != 6 && reg != 7)
			continue; /* a register of its own: a row can't say that */
		assert_non_null(row);
		if (row->cfa_rule == DT_CFA_HARD || row->cfa_rule == DT_CFA_END)
			continue;
		assert_int_equal(row->cfa_rule, reg == 7 ? DT_CFA_RSP : DT_CFA_RBP);
		assert_int_equal(row->cfa * 8, offset);
		found++;
	}
	assert_true(compared > 500 && found * 100 > compared * 99);
	vec_free(&rows);
	symtab_close(symtab);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
}

static void test_rows(void **state)
{
	static const char *const paths[] = { "/lib/x86_64-linux-gnu/libc.so.6",
					     "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
					     "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
					     "/usr/bin/redis-server" };

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		compare_rows(paths[i]);
}

/* ---- filters --------------------------------------------------------------------------------- */

/* The six argument registers, by hardware number. */
static const uint8_t argument_regs[6] = { 7, 6, 2, 1, 8, 9 };

static bool find(void *context, const char *name, struct type *ret_type,
		 struct value_place *ret_place)
{
	static const struct {
		const char *name;
		uint8_t argument, size;
		bool is_signed;
	} variables[] = { { "i", 0, 4, true },	{ "l", 1, 8, true },  { "u", 2, 8, false },
			  { "c", 3, 1, true },	{ "h", 4, 2, false }, { "w", 5, 4, false } };

	(void)context;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		if (strcmp(variables[i].name, name) != 0)
			continue;
		*ret_type = (struct type){ .kind = TYPE_INT, .size = variables[i].size,
					   .is_signed = variables[i].is_signed };
		*ret_place = (struct value_place){ .kind = PLACE_PIECES, .count = 1 };
		ret_place->pieces[0] = (struct abi_piece){
			.where = ABI_INT, .size = 8, .reg = argument_regs[variables[i].argument]
		};
		return true;
	}
	return false;
}

static uint64_t cut(uint64_t x, unsigned shift, unsigned bits, bool is_signed)
{
	unsigned spare = 64 - (bits ? bits : 64);

	x = x >> shift << spare;
	return is_signed ? (uint64_t)((int64_t)x >> spare) : x >> spare;
}

static uint64_t two(uint8_t code, uint64_t x, uint64_t y)
{
	int64_t a = (int64_t)x, b = (int64_t)y;

	switch (code) {
	case DT_OP_ADD: return x + y;
	case DT_OP_SUB: return x - y;
	case DT_OP_MUL: return x * y;
	case DT_OP_AND: return x & y;
	case DT_OP_OR: return x | y;
	case DT_OP_XOR: return x ^ y;
	case DT_OP_SHL: return x << y;
	case DT_OP_SHR: return x >> y;
	case DT_OP_SAR: return (uint64_t)(a >> y);
	case DT_OP_EQ: return x == y;
	case DT_OP_NE: return x != y;
	case DT_OP_LT: return a < b;
	case DT_OP_LE: return a <= b;
	case DT_OP_GT: return a > b;
	case DT_OP_GE: return a >= b;
	case DT_OP_LTU: return x < y;
	case DT_OP_LEU: return x <= y;
	case DT_OP_GTU: return x > y;
	case DT_OP_GEU: return x >= y;
	default: fail_msg("operation %u", code); return 0;
	}
}

static uint64_t interpret(const struct value_ops *ops, const uint64_t *arguments)
{
	uint64_t stack[32];
	size_t top = 0;

	for (size_t i = 0; i < ops->count; i++) {
		const struct dt_op *op = &ops->items[i];

		switch (op->code) {
		case DT_OP_REG:
			for (size_t j = 0; j < 6; j++)
				if (argument_regs[j] == op->a)
					stack[top] = arguments[j];
			top++;
			break;
		case DT_OP_CONST: memcpy(&stack[top++], &ops->items[++i], 8); break;
		case DT_OP_BITS: stack[top - 1] = cut(stack[top - 1], op->a, op->b, op->c); break;
		case DT_OP_NEG: stack[top - 1] = 0 - stack[top - 1]; break;
		case DT_OP_NOT: stack[top - 1] = ~stack[top - 1]; break;
		case DT_OP_LNOT: stack[top - 1] = !stack[top - 1]; break;
		case DT_OP_SKIP: i += op->c; break;
		case DT_OP_SKIP_ZERO: i += stack[--top] ? 0 : op->c; break;
		default:
			top--;
			stack[top - 1] = two(op->code, stack[top - 1], stack[top]);
		}
	}
	assert_int_equal(top, 1);
	return stack[0];
}

/* An expression with few enough numbers at once, most of the time. */
static void random_text(char *text, size_t room, int depth)
{
	static const char *const leaves[] = {
		"i", "l", "u", "c", "h", "w", "0", "1", "7", "255", "0x7fffffffffffffff"
	};
	static const char *const signs[] = { "+",  "-", "*",  "&", "|",	 "^",  "==",
					     "!=", "<", "<=", ">", ">=", "&&", "||" };
	static const char *const before[] = { "", "", "!", "~", "-" };
	char left[512], right[512];

	if (depth == 0 || rand() % 4 == 0) {
		snprintf(text, room, "%s%s", before[rand() % 5], leaves[rand() % 11]);
		return;
	}
	random_text(left, sizeof(left), depth - 1);
	random_text(right, sizeof(right), depth - 1);
	if (rand() % 6 == 0)
		snprintf(text, room, "(%s) %s %d", left, rand() % 2 ? "<<" : ">>", rand() % 64);
	else
		snprintf(text, room, "(%s) %s (%s)", left, signs[rand() % 14], right);
}

typedef uint64_t (*filter_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* What a trampoline has around a filter. */
static filter_fn assemble(const struct value_ops *ops, uint8_t *code, size_t room)
{
	static const enum reg pushed[] = { RAX, RCX, RDX, RBX, RAX };
	struct label no = { 0 }, done = { 0 };
	struct emitter e;

	emit_init(&e, code, room, taddr_of((uint64_t)code));
	emit_push(&e, RBX);
	for (size_t i = 0; i < 5; i++)
		emit_push(&e, pushed[i]);
	filter_emit(&e, ops, 40, false, &no);
	emit_mov_imm(&e, RAX, 1);
	emit_jmp(&e, &done);
	emit_bind(&e, &no);
	emit_mov_imm(&e, RAX, 0);
	emit_bind(&e, &done);
	emit_lea(&e, RSP, mem_at(RSP, 40));
	emit_pop(&e, RBX);
	emit_ret(&e);
	assert_false(emit_failed(&e));
	return (filter_fn)(void *)code;
}

static void test_filters(void **state)
{
	static const uint64_t values[] = { 0,
					   1,
					   7,
					   255,
					   256,
					   0x80,
					   0xffff,
					   0x7fffffff,
					   0x80000000,
					   0xffffffff,
					   0x7fffffffffffffff,
					   0x8000000000000000,
					   ~0ULL };
	size_t room = 1 << 16, native = 0;
	uint8_t *code = mmap(NULL, room, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct expr_names names = { .find = find };
	char text[2048];

	(void)state;
	srand(1);
	assert_true(code != MAP_FAILED);
	for (int n = 0; n < 5000; n++) {
		struct value_texts texts = { 0 };
		struct value_ops ops;

		random_text(text, sizeof(text), 3);
		struct error *error = expr_condition(text, &names, &ops, &texts);
		if (error || !filter_is_native(&ops, false)) {
			error_free(error);
			continue;
		}
		filter_fn filter = assemble(&ops, code, room);
		for (int k = 0; k < 20; k++) {
			uint64_t a[6];

			for (int j = 0; j < 6; j++)
				a[j] = values[rand() % 13];
			if (filter(a[0], a[1], a[2], a[3], a[4], a[5]) != !!interpret(&ops, a))
				fail_msg("%s", text);
		}
		native++;
	}
	assert_true(native > 2500);
	munmap(code, room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_filters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
