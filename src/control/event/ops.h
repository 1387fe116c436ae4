/*
 * ops.h - lists of operations of the agent's programs (src/shared/program.h), from which values and
 * filters are built.
 *
 * Pure.
 */
#ifndef DYNTRACE_OPS_H
#define DYNTRACE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/program.h"

#define VALUE_OPS_MAX 224

/* Operations that leave a number on the program's stack. */
struct value_ops {
	struct dt_op items[VALUE_OPS_MAX];
	size_t count;
	bool failed; /* too many */
};

void ops_add(struct value_ops *ops, enum dt_op_code code, uint8_t a, uint16_t b, uint32_t c);
void ops_const(struct value_ops *ops, uint64_t value);
void ops_append(struct value_ops *ops, const struct value_ops *more);

#endif
