#include "library.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/call.h"
#include "shared/program.h"
#include "control/base/cleanup.h"
#include "control/code/decode.h"

#define EVENT_PREFIX "dyntrace_event_"
#define VERSION_NAME "dyntrace_probe_version"
#define FUNCTION_MAX 4096u /* bytes; is_bare reads no longer ones */
#define FRAME_MAX 512 /* bytes of the stack that a bare function may use unchecked (C4) */
#define STRING_MOST 256u
#define MARK_ROOM 33u /* for the mark after a string that is cut or unreadable */
#define EVENT_HEAD 16u

/* ---- events ---------------------------------------------------------------------------------- */

/* Reads a name from the target. */
static struct error *read_name(struct proc *proc, uint64_t at, char *to, size_t room)
{
	for (size_t i = 0; i < room; i++) {
		struct error *error = mem_read(proc, taddr_of(at + i), &to[i], 1);

		if (error)
			return error;
		if (!to[i])
			return i ? NULL : error_new(ERROR_REFUSED, "one of its names is empty");
		if (!isalnum((unsigned char)to[i]) && to[i] != '_')
			return error_new(
				ERROR_REFUSED,
				"one of its names has characters other than letters, digits and "
				"'_'");
	}
	return error_new(ERROR_REFUSED, "one of its names is longer than %zu characters", room - 1);
}

static struct error *describe_field(struct proc *proc, uint64_t at, struct event_field *ret_field)
{
	static const enum field_type types[] = { [DYNTRACE_TYPE_INT] = FIELD_INT,
						 [DYNTRACE_TYPE_UINT] = FIELD_UINT,
						 [DYNTRACE_TYPE_HEX] = FIELD_HEX,
						 [DYNTRACE_TYPE_FLOAT] = FIELD_FLOAT,
						 [DYNTRACE_TYPE_STRING] = FIELD_STRING };
	struct dyntrace_event_field from;
	struct event_field field = { 0 };
	struct error *error = mem_read(proc, taddr_of(at), &from, sizeof(from));

	if (!error &&
	    (from.type > DYNTRACE_TYPE_STRING || from.size > 8 || (from.size & (from.size - 1)) ||
	     !from.size || (from.type == DYNTRACE_TYPE_FLOAT && from.size < 4)))
		error = error_new(ERROR_REFUSED, "one of its fields has an unknown type or size");
	if (!error)
		error = read_name(proc, (uint64_t)from.name, field.name, sizeof(field.name));
	if (error)
		return error;
	field.type = types[from.type];
	field.size = field.type == FIELD_STRING ? 1 : (uint8_t)from.size;
	*ret_field = field;
	return NULL;
}

static struct error *describe_event(struct proc *proc, const struct dyntrace_event_type *from,
				    struct event_type *type)
{
	char name[128];
	struct error *error = NULL;

	if (from->version != DYNTRACE_PROBE_VERSION)
		return error_new(ERROR_REFUSED,
				 "it was built with version %u of dyntrace/probe.h, and this is "
				 "version %u (build it again)",
				 from->version, DYNTRACE_PROBE_VERSION);
	if (!from->field_count || from->field_count > DYNTRACE_EVENT_FIELDS_MAX)
		return error_new(ERROR_REFUSED, "it has %u fields (1 to %u are possible)",
				 from->field_count, DYNTRACE_EVENT_FIELDS_MAX);
	error = read_name(proc, (uint64_t)from->name, name, sizeof(name));
	type->name = error ? NULL : strdup(name);
	type->fields = calloc(from->field_count, sizeof(*type->fields));
	if (!error && (!type->name || !type->fields))
		error = error_new(ERROR_FAILED, "out of memory");
	for (uint32_t i = 0; i < from->field_count && !error; i++) {
		error = describe_field(proc, (uint64_t)from->fields + i * sizeof(*from->fields),
				       &type->fields[i]);
		type->field_count += !error;
		for (uint32_t j = 0; j < i && !error; j++) {
			if (!strcmp(type->fields[i].name, type->fields[j].name))
				error = error_new(ERROR_REFUSED,
						  "two of its fields are called '%s'",
						  type->fields[i].name);
		}
	}
	type->is_variable = true;
	type->size = EVENT_HEAD;
	return error;
}

/* Writes the agent's program of an event. The agent passes the words of the values in place of xmm
 * registers (target/call.c). */
static struct dt_program *write_program(const struct event_type *type, uint8_t *to, size_t room)
{
	size_t most = sizeof(struct dt_program) + 3 * type->field_count * sizeof(struct dt_op);
	struct dt_program *program = most <= room ? (struct dt_program *)to : NULL;
	uint32_t strings = 0, string_most = STRING_MOST;

	for (size_t i = 0; i < type->field_count; i++)
		strings += type->fields[i].type == FIELD_STRING;
	while (strings * (string_most + MARK_ROOM) + 8 * type->field_count + 2 * EVENT_HEAD >
	       DT_EVENT_SIZE_MAX)
		string_most /= 2;
	if (!program)
		return NULL;
	*program = (struct dt_program){ .id = type->id, .rip = 1 };
	program->size_max =
		(uint32_t)DT_ROUND_UP(strings * (string_most + MARK_ROOM) +
					      8 * (uint32_t)type->field_count + 2 * EVENT_HEAD,
				      8);
	for (size_t i = 0; i < type->field_count; i++) {
		const struct event_field *field = &type->fields[i];
		struct dt_op *ops = program->ops + program->op_count;

		ops[0] = (struct dt_op){ .code = DT_OP_XMM, .a = (uint8_t)i, .b = 0 };
		ops[1] = (struct dt_op){ .code = DT_OP_STORE, .a = field->size, .c = (uint32_t)i };
		if (field->type == FIELD_STRING) {
			ops[1] = (struct dt_op){ .code = DT_OP_XMM, .a = (uint8_t)i, .b = 1 };
			ops[2] = (struct dt_op){ .code = DT_OP_STRING,
						 .a = 1,
						 .b = (uint16_t)string_most,
						 .c = DT_STRING_BOUNDED };
		}
		program->op_count += field->type == FIELD_STRING ? 3 : 2;
	}
	return program;
}

/* Writes the event's program and adds its type; only then the library's event leads to the
 * program. */
static struct error *connect_event(const struct library_place *place, struct library *library,
				   taddr at, struct event_type *type)
{
	uint8_t *programs = place->paper->here + LOAD_PROGRAMS_AT;
	uint32_t used = *place->programs_used;

	assert(used <= LOAD_PROGRAMS_SIZE);
	uint64_t program = taddr_add(place->paper->there, LOAD_PROGRAMS_AT + used).v;

	type->id = (uint32_t)place->types->count;
	struct dt_program *written =
		write_program(type, programs + used, LOAD_PROGRAMS_SIZE - used);
	if (!written || place->types->count >= DT_EVENTS_MAX)
		return error_new(ERROR_FAILED, "too many events of libraries (unload some)");
	if (!vec_reserve(&library->events, 1) || !vec_push(place->types, *type))
		return error_new(ERROR_FAILED, "out of memory");
	library->events.items[library->events.count++] = at;
	*type = (struct event_type){ 0 };
	*place->programs_used +=
		(uint32_t)(sizeof(*written) + written->op_count * sizeof(struct dt_op));
	return mem_write(place->agent->proc,
			 taddr_add(at, offsetof(struct dyntrace_event_type, program)), &program,
			 sizeof(program));
}

static struct error *add_event(const struct library_place *place, struct library *library, taddr at)
{
	struct dyntrace_event_type from;
	struct event_type type = { 0 };
	struct error *error = mem_read(place->agent->proc, at, &from, sizeof(from));

	if (!error)
		error = describe_event(place->agent->proc, &from, &type);
	if (!error)
		error = connect_event(place, library, at, &type);
	event_fields_free(type.fields, type.field_count);
	free(type.name);
	return error;
}

/* A library without a version uses no structure whose layout could differ. */
static struct error *check_version(struct proc *proc, const struct module *module,
				   const struct symtab *symtab)
{
	const struct symbol *symbol = symtab_find(symtab, VERSION_NAME);
	uint32_t version = DYNTRACE_PROBE_VERSION;
	struct error *error =
		symbol ? mem_read(proc, taddr_add(module->bias, (int64_t)symbol->address), &version,
				  sizeof(version)) :
			 NULL;

	if (!error && version != DYNTRACE_PROBE_VERSION)
		error = error_new(
			ERROR_REFUSED,
			"it was built with version %u of dyntrace/probe.h, and this is version %u "
			"(build it again)",
			version, DYNTRACE_PROBE_VERSION);
	return error;
}

static struct error *add_events(const struct library_place *place, struct library *library,
				struct module *module)
{
	struct symtab *symtab;
	struct error *error = module_symtab(place->agent->proc, module, &symtab);

	if (!error)
		error = check_version(place->agent->proc, module, symtab);
	for (size_t i = 0; !error && i < symtab_count(symtab); i++) {
		const struct symbol *symbol = symtab_get(symtab, i);

		if (symbol->kind != SYMBOL_OBJECT ||
		    strncmp(symbol->name, EVENT_PREFIX, strlen(EVENT_PREFIX)) != 0 ||
		    symbol->size != sizeof(struct dyntrace_event_type))
			continue;
		error = error_wrap(add_event(place, library,
					     taddr_add(module->bias, (int64_t)symbol->address)),
				   "its event '%s'", symbol->name + strlen(EVENT_PREFIX));
	}
	return error;
}

/* Stops the recording of the library's events. */
static void disconnect_events(const struct library_place *place, const struct library *library)
{
	static const uint64_t none;

	for (size_t i = 0; i < library->events.count; i++)
		error_free(mem_write(place->agent->proc,
				     taddr_add(library->events.items[i],
					       offsetof(struct dyntrace_event_type, program)),
				     &none, sizeof(none)));
}

/* ---- open and close -------------------------------------------------------------------------- */

void library_free(struct library *library)
{
	if (!library)
		return;
	vec_free(&library->events);
	free(library->path);
	free(library);
}

static void cleanup_library(struct library **library)
{
	library_free(*library);
}

/* Finds the library's module by its file, or by its name if the loader searched for it. */
static struct module *find_module(const struct library *library, const struct modules *modules)
{
	struct stat file = { .st_dev = library->device, .st_ino = library->inode };

	if (library->inode)
		return load_find_module(modules, &file);
	for (size_t i = 0; i < modules->count; i++) {
		if (!strcmp(modules->items[i]->name, library->path))
			return modules->items[i];
	}
	return NULL;
}

/* Reads the opened library: its file and its events. */
static struct error *look_inside(const struct library_place *place, struct library *library)
{
	struct modules modules = { 0 };
	struct error *error = modules_of(place->agent->proc, &modules);
	struct module *module = error ? NULL : find_module(library, &modules);

	if (!error && !module)
		error = error_new(
			ERROR_REFUSED,
			"process %d has loaded it, but not under that name (give its path)",
			place->agent->proc->pid);
	if (!error) {
		library->device = module->device;
		library->inode = module->inode;
		error = add_events(place, library, module);
	}
	modules_free(&modules);
	return error;
}

struct error *library_open(const struct library_place *place, const char *path,
			   struct library **ret_library)
{
	_cleanup_(cleanup_library) struct library *library = calloc(1, sizeof(*library));
	struct stat file;

	if (!library || !(library->path = strdup(path)))
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = path[0] == '/' ? load_look(place->agent->proc, path, &file) : NULL;
	if (!error && path[0] == '/' && !S_ISREG(file.st_mode))
		error = error_new(ERROR_USAGE, "it is no file");
	if (!error)
		error = load_open(place->agent->proc, place->held, place->paper, place->answer,
				  path, &library->handle);
	if (error)
		return error_wrap(error, "%s", path);
	if (path[0] == '/') {
		library->device = file.st_dev;
		library->inode = file.st_ino;
	}
	error = look_inside(place, library);
	if (error) {
		disconnect_events(place, library);
		error_free(load_close(place->agent->proc, place->held, place->paper, place->answer,
				      library->handle));
		return error_wrap(error, "%s", path);
	}
	*ret_library = take_ptr(&library);
	return NULL;
}

struct error *library_close(const struct library_place *place, struct library *library)
{
	assert(library->handle);
	disconnect_events(place, library);
	struct error *error = load_close(place->agent->proc, place->held, place->paper,
					 place->answer, library->handle);

	if (!error)
		library_free(library);
	return error;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Is the operand a general register, or no register? */
static bool is_plain_operand(const ZydisDecodedOperand *operand)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return true;
	switch (ZydisRegisterGetClass(operand->reg.value)) {
	case ZYDIS_REGCLASS_GPR8:
	case ZYDIS_REGCLASS_GPR16:
	case ZYDIS_REGCLASS_GPR32:
	case ZYDIS_REGCLASS_GPR64:
	case ZYDIS_REGCLASS_FLAGS:
	case ZYDIS_REGCLASS_IP:
		return true;
	default:
		return false;
	}
}

/* Does the instruction extend the stack by more than FRAME_MAX, or by an unknown amount? Pushes are
 * bounded by the function's size. */
static bool is_deep(const struct insn *insn)
{
	const ZydisDecodedOperand *to = &insn->operands[0], *by = &insn->operands[1];

	if (insn->zydis.operand_count < 2 || to->type != ZYDIS_OPERAND_TYPE_REGISTER ||
	    to->reg.value != ZYDIS_REGISTER_RSP ||
	    !(to->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) ||
	    to->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
		return false;
	if (by->type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return true;
	return by->imm.value.s < -FRAME_MAX || by->imm.value.s > FRAME_MAX;
}

/* Does the instruction stay in the function, and change only general registers and memory other
 * than errno? A store through FS could change errno. */
static bool is_plain(const struct insn *insn, taddr start, uint64_t size)
{
	if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT ||
	    insn->flow == FLOW_JUMP_INDIRECT)
		return false;
	if ((insn->has_target && insn->target.v - start.v >= size) || is_deep(insn))
		return false;
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (!is_plain_operand(operand) || (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
						   (operand->mem.segment == ZYDIS_REGISTER_FS ||
						    operand->mem.segment == ZYDIS_REGISTER_GS)))
			return false;
	}
	return insn->zydis.meta.category != ZYDIS_CATEGORY_X87_ALU &&
	       insn->zydis.meta.category != ZYDIS_CATEGORY_SYSCALL &&
	       insn->zydis.meta.category != ZYDIS_CATEGORY_INTERRUPT &&
	       insn->zydis.meta.category != ZYDIS_CATEGORY_XSAVE;
}

static bool is_bare(struct proc *proc, taddr start, uint64_t size)
{
	uint8_t code[FUNCTION_MAX];
	struct insn insn;

	if (!size || size > sizeof(code))
		return false;
	_cleanup_error_ struct error *error = mem_read(proc, start, code, size);
	for (uint64_t at = 0; !error && at < size; at += insn.length) {
		if (!decode(code + at, size - at, taddr_add(start, (int64_t)at), &insn) ||
		    !is_plain(&insn, start, size))
			return false;
	}
	return !error;
}

/* Is the function known by its C++ name only, such as onRead(dyntrace_hit const*)? */
static bool has_mangled(const struct symtab *symtab, const char *name)
{
	char part[160];

	snprintf(part, sizeof(part), "_Z%zu%s", strlen(name), name);
	for (size_t i = 0; i < symtab_count(symtab); i++) {
		if (!strncmp(symtab_get(symtab, i)->name, part, strlen(part)))
			return true;
	}
	return false;
}

static struct error *find_in_module(struct proc *proc, struct module *module, const char *name,
				    taddr *ret_function, bool *ret_is_bare)
{
	struct symtab *symtab;
	struct error *error = module_symtab(proc, module, &symtab);
	const struct symbol *symbol = error ? NULL : symtab_find(symtab, name);

	if (error)
		return error;
	if (!symbol && has_mangled(symtab, name))
		return error_new(
			ERROR_REFUSED,
			"%s has '%s' with a C++ name only: declare it with DYNTRACE_PROBE, or as "
			"extern \"C\"",
			module->path, name);
	if (!symbol)
		return error_new(ERROR_REFUSED, "%s has no function '%s'", module->path, name);
	if (symbol->kind != SYMBOL_FUNCTION)
		return error_new(ERROR_REFUSED, "'%s' in %s is no function", name, module->path);
	*ret_function = taddr_add(module->bias, (int64_t)symbol->address);
	*ret_is_bare = is_bare(proc, *ret_function, symbol->size);
	return NULL;
}

struct error *library_find(const struct library_place *place, const struct library *library,
			   const char *name, taddr *ret_function, bool *ret_is_bare)
{
	struct modules modules = { 0 };
	struct error *error = modules_of(place->agent->proc, &modules);
	struct module *module = error ? NULL : find_module(library, &modules);

	if (!error && !module)
		error = error_new(ERROR_REFUSED, "process %d no longer has %s",
				  place->agent->proc->pid, library->path);
	if (!error)
		error = find_in_module(place->agent->proc, module, name, ret_function, ret_is_bare);
	modules_free(&modules);
	return error;
}
