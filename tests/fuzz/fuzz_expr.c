/*
 * Expressions: any text, as a condition and as a variable, with a few names that exist. Every error
 * has the text and a caret in it; every program is one that the agent can run, and the native code
 * of a filter fits its room.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/vec.h"
#include "control/values/expr/expr.h"
#include "control/codegen/filter_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

/* i: a signed int in rdi; u: 64 bits, unsigned, on the stack; m: a long somewhere in memory. */
static bool find(void *context, const char *name, struct type *ret_type,
		 struct value_place *ret_place)
{
	(void)context;
	*ret_type = (struct type){ .kind = TYPE_INT,
				   .size = name[0] == 'i' ? 4 : 8,
				   .is_signed = name[0] != 'u' };
	*ret_place = (struct value_place){ .kind = PLACE_PIECES, .count = 1 };
	if (strcmp(name, "i") == 0)
		ret_place->pieces[0] = (struct abi_piece){ .where = ABI_INT, .reg = 7, .size = 8 };
	else if (strcmp(name, "u") == 0)
		ret_place->pieces[0] =
			(struct abi_piece){ .where = ABI_STACK, .disp = 8, .size = 8 };
	else if (strcmp(name, "m") == 0)
		*ret_place = (struct value_place){ .kind = PLACE_MEMORY };
	else
		return false;
	if (ret_place->kind == PLACE_MEMORY)
		ops_const(&ret_place->ops, 0x1000);
	return true;
}

static bool find_label(void *context, const char *name, int64_t *ret_value)
{
	(void)context;
	*ret_value = 5;
	return strcmp(name, "GREEN") == 0;
}

static uint32_t counter(void *context)
{
	(void)context;
	return 0;
}

static void check_native(const struct value_ops *ops)
{
	struct tramp_event event = { .filter = ops };
	size_t room = filter_room(&event);
	uint8_t *code = malloc(room);
	struct label no = { 0 };
	struct emitter e;

	require(code != NULL);
	emit_init(&e, code, room, taddr_of(0x400000));
	filter_emit(&e, ops, 40, false, &no);
	emit_bind(&e, &no);
	require(!emit_failed(&e));
	free(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct expr_names names = { .find = find, .find_label = find_label, .counter = counter };
	struct value_texts texts = { 0 };
	struct value_place place;
	struct value_ops ops;
	struct type type;
	char *text = malloc(size + 1);

	require(text != NULL);
	memcpy(text, bytes, size);
	text[size] = '\0';
	struct error *error = expr_condition(text, &names, &ops, &texts);
	if (!error) {
		require(ops.count > 0 && ops.count <= VALUE_OPS_MAX && !ops.failed);
		if (filter_is_native(&ops, false))
			check_native(&ops);
	} else {
		require(strchr(error_text(error), '^') || strstr(error_text(error), "too long"));
	}
	error_free(error);
	error_free(expr_variable(text, &names, &type, &place));
	vec_free(&texts);
	free(text);
	return 0;
}
