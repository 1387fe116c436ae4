/* ops.c - builds lists of operations. */
#include "ops.h"

#include <string.h>

void ops_add(struct value_ops *ops, enum dt_op_code code, uint8_t a, uint16_t b, uint32_t c)
{
	if (ops->count >= VALUE_OPS_MAX) {
		ops->failed = true;
		return;
	}
	ops->items[ops->count++] = (struct dt_op){ .code = (uint8_t)code, .a = a, .b = b, .c = c };
}

void ops_const(struct value_ops *ops, uint64_t value)
{
	struct dt_op word;

	ops_add(ops, DT_OP_CONST, 0, 0, 0);
	memcpy(&word, &value, sizeof(word));
	ops_add(ops, (enum dt_op_code)word.code, word.a, word.b, word.c);
}

void ops_append(struct value_ops *ops, const struct value_ops *more)
{
	ops->failed |= more->failed;
	for (size_t i = 0; i < more->count; i++)
		ops_add(ops, (enum dt_op_code)more->items[i].code, more->items[i].a,
			more->items[i].b, more->items[i].c);
}
