/*
 * Debug information: opens the input as a program, asks for functions, lines, inlined copies and
 * prototypes, and describes events with every parameter and local, by the ABI and by their
 * locations. Nothing may crash, and every resulting program must be one that the agent can run.
 */
#include <dwarf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/values/shape/shape.h"
#include "control/base/strbuf.h"
#include "control/values/where/value_location.h"
#include "shared/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
const char *__lsan_default_suppressions(void);

/* libelf forgets a copy of a section in some damaged files (elfutils 0.188). */
const char *__lsan_default_suppressions(void)
{
	return "leak:libelf.so\n";
}

#define ADDRESSES 64

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void check_program(const struct dt_program *program)
{
	require(program->op_count <= DT_PROGRAM_OPS_MAX && program->size_max <= DT_EVENT_SIZE_MAX);
	require(program->size_max % 8 == 0);
	for (uint32_t i = 0; i < program->op_count; i++) {
		require(program->ops[i].code < DT_OP_CODES);
		i += program->ops[i].code == DT_OP_CONST;
	}
}

static void check_event(const struct tramp_event *event)
{
	require(event->field_count <= TRAMP_FIELDS_MAX && event->size % 8 == 0);
	for (size_t i = 0; i < event->field_count; i++)
		require((uint32_t)event->fields[i].offset + event->fields[i].size <= event->size);
}

static void describe(struct debug *debug, struct debug_function *function, uint64_t pc, bool by_abi)
{
	struct location_context context = { .debug = debug, .function = function, .pc = pc };
	struct member_walk walk = { .started = false };
	struct tramp_event event = { 0 };
	struct dt_program *program = NULL;
	struct parameter parameter;
	struct abi_state state;
	struct shape shape;
	size_t program_size;

	shape_init(&shape, debug, VALUE_STRING_DEFAULT);
	abi_start(function, &state);
	for (int i = 0; i < 50 && debug_next_parameter(&function->die, &walk, &parameter); i++) {
		struct value_place place;
		struct abi_value abi;

		abi_next(&state, &parameter.type, &abi);
		if (by_abi)
			place_from_abi(&abi, &place);
		else
			location_place(&context, &parameter.die, &place);
		shape_add(&shape, parameter.name ? parameter.name : "x", &parameter.type, &place);
	}
	struct error *error = shape_finish(&shape, &event, &program, &program_size);
	if (!error && program)
		check_program(program);
	else if (!error)
		check_event(&event);
	error_free(error);
	free(program);
	shape_free(&shape);
}

static void ask(struct debug *debug, uint64_t address)
{
	struct debug_function function;
	struct strbuf text = { 0 };
	struct debug_addresses found;
	const char *file;
	Dwarf_Die die;
	int64_t value;
	int line;

	debug_line_at(debug, address, &file, &line);
	if (!debug_function_at(debug, address, &function))
		return;
	debug_print_prototype(&function, &text);
	strbuf_free(&text);
	describe(debug, &function, function.low, true);
	describe(debug, &function, function.low, false);
	describe(debug, &function, address, false);
	debug_find_variable(debug, &function, address, "counter", &die);
	debug_find_label(&function, "GREEN", &value);
	debug_find_inlined(debug, NULL, "twice", &found);
	vec_free(&found);
	debug_find_inlined(debug, &function, "twice", &found);
	vec_free(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	struct debug *debug = NULL;
	struct debug_addresses found;
	int line;

	require(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	error_free(debug_open(fd, "/nowhere/input", &debug));
	for (uint64_t i = 0; debug && i < ADDRESSES; i++)
		ask(debug, 0x1000 + i * 8);
	if (debug) {
		debug_find_line(debug, "input.c", 5, &found, &line);
		vec_free(&found);
	}
	debug_close(debug);
	close(fd);
	return 0;
}
