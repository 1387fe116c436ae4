/*
 * contexts.c - the TYPEs of -t: registers, memory by address, variables, the thread, the callers.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/values/expr/expr.h"
#include "control/session/state/session_state.h"
#include "describe.h"
#include "marker_fields.h"

/* ---- registers ------------------------------------------------------------------------------- */

static const char *const general_names[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp",
					     "rsi", "rdi", "r8",  "r9",	 "r10", "r11",
					     "r12", "r13", "r14", "r15", "rip", "rflags" };

static void add_register(struct describe *d, const char *name, uint8_t number)
{
	struct value_place place = { .kind = PLACE_PIECES,
				     .count = 1,
				     .pieces = { { .where = ABI_INT, .reg = number, .size = 8 } } };

	if (number >= 16) { /* not a general register: the agent reads it */
		place = (struct value_place){ .kind = PLACE_VALUE };
		ops_add(&place.ops, DT_OP_REG, number, 0, 0);
		d->shape.is_gathered = true;
	}
	shape_add_number(&d->shape, name, FIELD_HEX, 8, &place);
}

static struct error *add_all_registers(struct describe *d, const char *rest)
{
	for (uint8_t i = 0; i < sizeof(general_names) / sizeof(general_names[0]); i++)
		add_register(d, general_names[i], i);
	return NULL;
}

/* Adds xmm0 to xmm15 as a pair of numbers. False: the name is none of these. */
static bool add_vector(struct describe *d, const char *name)
{
	struct type pair = { .kind = TYPE_VECTOR, .size = 16 };
	struct value_place place = { .kind = PLACE_PIECES, .count = 1 };
	char *end;
	unsigned long number;

	if (strncmp(name, "xmm", 3) != 0 || name[3] < '0' || name[3] > '9')
		return false;
	number = strtoul(name + 3, &end, 10);
	if (*end || number > 15)
		return false;
	place.pieces[0] =
		(struct abi_piece){ .where = ABI_SSE, .reg = (uint8_t)number, .size = 16 };
	shape_add(&d->shape, name, &pair, &place);
	return true;
}

static struct error *add_one_register(struct describe *d, const char *name)
{
	static const struct {
		const char *name;
		uint8_t number;
	} bases[] = { { "fs_base", DT_REG_FS_BASE }, { "gs_base", DT_REG_GS_BASE } };
	uint8_t number;

	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		if (strcmp(bases[i].name, name) == 0) {
			add_register(d, name, bases[i].number);
			return NULL;
		}
	}
	if (expr_register(name, &number))
		add_register(d, name, number);
	else if (!add_vector(d, name))
		return error_new(
			ERROR_USAGE,
			"-t reg:%s: no such register (rax to r15, rip, rflags, fs_base, gs_base, "
			"xmm0 to xmm15)",
			name);
	return NULL;
}

/* ---- thread ---------------------------------------------------------------------------------- */

static void add_known(struct describe *d, const char *name, enum dt_op_code code)
{
	struct value_place place = { .kind = PLACE_VALUE };

	ops_add(&place.ops, code, 0, 0, 0);
	shape_add_number(&d->shape, name, FIELD_UINT, 4, &place);
	d->shape.is_gathered = true;
}

static struct error *add_tid(struct describe *d, const char *rest)
{
	add_known(d, "tid", DT_OP_TID);
	return NULL;
}

static struct error *add_pid(struct describe *d, const char *rest)
{
	add_known(d, "pid", DT_OP_PID);
	return NULL;
}

static struct error *add_cpu(struct describe *d, const char *rest)
{
	add_known(d, "cpu", DT_OP_CPU);
	return NULL;
}

static struct error *add_comm(struct describe *d, const char *rest)
{
	shape_add_special(&d->shape, "comm", DT_OP_COMM, 0);
	return NULL;
}

static struct error *add_backtrace(struct describe *d, const char *rest)
{
	unsigned long frames = VALUE_FRAMES_DEFAULT;
	char *end;

	if (*rest) {
		frames = strtoul(rest, &end, 10);
		if (*end || frames == 0 || frames > DT_FRAMES_MAX)
			return error_new(ERROR_USAGE,
					 "-t backtrace:%s: not a number of frames from 1 to %u",
					 rest, DT_FRAMES_MAX);
	}
	shape_add_special(&d->shape, "backtrace", DT_OP_BACKTRACE, (uint16_t)frames);
	d->session->wants_unwind = true;
	return NULL;
}

/* ---- variables ------------------------------------------------------------------------------- */

/* The module of that name: the probe's own if it fits, since a file may be loaded several times. */
static struct module *find_module(const struct describe *d, const char *name)
{
	const struct session *session = d->session;
	struct modules named = { 0 };
	_cleanup_error_ struct error *error =
		modules_all_named(session->proc, &session->modules, name, &named);
	struct module *found = named.count ? named.items[0] : NULL;

	for (size_t i = 0; i < named.count; i++) {
		if (named.items[i] == d->module)
			found = d->module;
	}
	vec_free(&named);
	return found;
}

/* Looks up the globals of another module, for var:NAME@MODULE. */
static struct error *in_module(struct describe *d, const char *text, const char *module_name,
			       struct describe *ret)
{
	struct module *module = find_module(d, module_name);

	if (!module)
		return error_new(ERROR_USAGE, "%s: no module '%s' in the process", text,
				 module_name);
	*ret = *d;
	ret->module = module;
	ret->has_function = false;
	ret->address = 0;
	return module_debug(d->session->proc, module, &ret->debug);
}

static struct expr_names names_of(struct describe *d)
{
	return (struct expr_names){ .context = d,
				    .find = variables_find,
				    .find_label = variables_find_label,
				    .find_type = variables_find_type,
				    .list = variables_list,
				    .debug = d->debug,
				    .at_exit = d->exit != NULL };
}

/* `option` is what the user wrote before the name. */
static struct error *find_variable(struct describe *d, const char *text, const char *option)
{
	_cleanup_free_ char *name = strdup(text);
	struct describe there = *d;
	struct expr_names names = names_of(&there);
	char *at = name ? strrchr(name, '@') : NULL;
	struct value_place place;
	struct error *error = NULL;
	struct type type;

	if (!name)
		return error_new(ERROR_FAILED, "out of memory");
	if (at) {
		*at = '\0';
		error = in_module(d, text, at + 1, &there);
		names.debug = there.debug;
	}
	if (!error)
		error = expr_variable(name, &names, &type, &place);
	if (error)
		return error_wrap(error, "%s", option);
	shape_add(&d->shape, name[0] == '$' ? name + 1 : name, &type, &place);
	return NULL;
}

static struct error *add_variable(struct describe *d, const char *text)
{
	return find_variable(d, text, "-t var");
}

/* Adds an argument with its value at the entry, also at the exit. */
static struct error *add_entry(struct describe *d, const char *text)
{
	struct expr_names names = names_of(d);
	struct value_place place;
	struct type type;

	names.at_exit = true;
	struct error *error = expr_variable(text, &names, &type, &place);
	if (error)
		return error_wrap(error, "-t entry");
	shape_add(&d->shape, text, &type, &place);
	return NULL;
}

/* ---- memory by address ----------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum field_type type;
	uint8_t size; /* 0: a string */
} memory_types[] = {
	{ "int", FIELD_INT, 4 },      { "uint", FIELD_UINT, 4 },     { "long", FIELD_INT, 8 },
	{ "ulong", FIELD_UINT, 8 },   { "short", FIELD_INT, 2 },     { "ushort", FIELD_UINT, 2 },
	{ "char", FIELD_INT, 1 },     { "uchar", FIELD_UINT, 1 },    { "float", FIELD_FLOAT, 4 },
	{ "double", FIELD_FLOAT, 8 }, { "pointer", FIELD_HEX, 8 },   { "bool", FIELD_UINT, 1 },
	{ "int8_t", FIELD_INT, 1 },   { "uint8_t", FIELD_UINT, 1 },  { "int16_t", FIELD_INT, 2 },
	{ "uint16_t", FIELD_UINT, 2 }, { "int32_t", FIELD_INT, 4 },  { "uint32_t", FIELD_UINT, 4 },
	{ "int64_t", FIELD_INT, 8 },  { "uint64_t", FIELD_UINT, 8 }, { "string", FIELD_STRING, 0 },
};

/* Reads a number, or SYMBOL[+OFFSET] of the first module that has the symbol. */
static struct error *find_address(struct describe *d, const char *text, uint64_t *ret_address)
{
	_cleanup_free_ char *name = strdup(text);
	char *plus = name ? strchr(name, '+') : NULL, *end;
	uint64_t offset = 0;

	if (!name)
		return error_new(ERROR_FAILED, "out of memory");
	errno = 0;
	*ret_address = strtoull(text, &end, 0);
	if (!errno && end != text && *end == '\0')
		return NULL;
	if (plus) {
		*plus = '\0';
		offset = strtoull(plus + 1, &end, 0);
		if (end == plus + 1 || *end)
			return error_new(ERROR_USAGE, "-t: '%s' isn't an offset", plus + 1);
	}
	for (size_t i = 0; i < d->session->modules.count; i++) {
		struct module *module = d->session->modules.items[i];
		struct symtab *symtab;
		_cleanup_error_ struct error *error =
			module_symtab(d->session->proc, module, &symtab);
		const struct symbol *symbol = error ? NULL : symtab_find(symtab, name);

		if (symbol) {
			*ret_address = symbol->address + module->bias.v + offset;
			return NULL;
		}
	}
	return error_new(ERROR_USAGE, "-t: no symbol '%s' in any module", name);
}

/* Is it arg0, arg1...? */
static bool is_numbered(const char *text)
{
	return strncmp(text, "arg", 3) == 0 && text[3] && !text[3 + strspn(text + 3, "0123456789")];
}

/* The value of an expression, an argument or register mostly, as an address. */
static struct error *find_computed(struct describe *d, const char *text,
				   struct value_place *ret_place)
{
	struct expr_names names = names_of(d);
	struct value_place place;
	struct type type;
	struct error *error = expr_variable(text, &names, &type, &place);

	if (error)
		return error_wrap(error, "-t");
	if (type.kind == TYPE_FLOAT)
		return error_new(ERROR_USAGE, "-t: '%s' is a floating-point number, no address",
				 text);
	*ret_place = (struct value_place){ .kind = PLACE_VALUE };
	if (type.size > 8 || !place_push(&place, (uint32_t)type.size, false, &ret_place->ops))
		ret_place->kind = PLACE_GONE;
	return NULL;
}

/* Finds the address of a VARTYPE: a number, an argument by its number, a symbol, or an expression.
 * `ret_place` is the place of the pointer. */
static struct error *find_pointer(struct describe *d, const char *text,
				  struct value_place *ret_place)
{
	struct error *error;
	uint64_t address = 0;

	if (is_numbered(text) || *text == '$')
		return find_computed(d, text, ret_place);
	error = find_address(d, text, &address);
	if (error) {
		_cleanup_error_ struct error *unknown = find_computed(d, text, ret_place);

		if (unknown)
			return error;
		error_free(error);
		return NULL;
	}
	*ret_place = (struct value_place){ .kind = PLACE_VALUE };
	ops_const(&ret_place->ops, address);
	return NULL;
}

/* VARTYPE:NAME:ADDR; *ret_known false: the first word isn't a VARTYPE. */
static struct error *add_memory(struct describe *d, const char *text, bool *ret_known)
{
	struct value_place pointer, place;
	const char *colon = strchr(text, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
	char name[64];

	*ret_known = false;
	for (size_t i = 0; colon && i < sizeof(memory_types) / sizeof(memory_types[0]); i++) {
		struct error *error;

		if (strlen(memory_types[i].name) != (size_t)(colon - text) ||
		    strncmp(memory_types[i].name, text, (size_t)(colon - text)) != 0)
			continue;
		*ret_known = true;
		if (!second || second == colon + 1 || !second[1])
			return error_new(ERROR_USAGE, "-t %s: not of the form VARTYPE:NAME:ADDR",
					 text);
		error = find_pointer(d, second + 1, &pointer);
		if (error)
			return error;
		snprintf(name, sizeof(name), "%.*s", (int)(second - colon - 1), colon + 1);
		if (memory_types[i].size) {
			place_behind(&pointer, &place);
			shape_add_number(&d->shape, name, memory_types[i].type,
					 memory_types[i].size, &place);
			d->shape.is_gathered = true;
		} else {
			shape_add_string(&d->shape, name, &pointer);
		}
		return NULL;
	}
	return NULL;
}

/* ---- table ----------------------------------------------------------------------------------- */

static const struct {
	const char *word;
	bool has_rest; /* after a colon */
	struct error *(*add)(struct describe *d, const char *rest);
} kinds[] = {
	{ "regs", false, add_all_registers }, { "reg", true, add_one_register },
	{ "tid", false, add_tid },	      { "pid", false, add_pid },
	{ "cpu", false, add_cpu },	      { "comm", false, add_comm },
	{ "backtrace", false, add_backtrace }, { "backtrace", true, add_backtrace },
	{ "var", true, add_variable },	      { "entry", true, add_entry },
};

/* The index of the TYPE in `kinds`; -1: another. */
static int kind_of(const char *type)
{
	const char *colon = strchr(type, ':');
	size_t length = colon ? (size_t)(colon - type) : strlen(type);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strlen(kinds[i].word) == length && strncmp(kinds[i].word, type, length) == 0 &&
		    kinds[i].has_rest == (colon != NULL))
			return (int)i;
	}
	return -1;
}

/* An expression without "var:"? */
static bool is_bare(const char *type)
{
	return kind_of(type) < 0 && !strchr(type, ':');
}

bool contexts_is_at_exit(const char *type)
{
	bool is_variable = strncmp(type, "var:", 4) == 0 || is_bare(type);

	/* vector registers hold arguments at the entry, and the result at the exit */
	return !is_variable || expr_is_at_exit(type) || (is_bare(type) && strstr(type, "$xmm"));
}

struct error *contexts_add(struct describe *d, const char *type)
{
	const char *colon = strchr(type, ':');
	int kind = kind_of(type);
	bool known;
	struct error *error;

	assert(d->session && d->tracepoint);
	if (kind >= 0)
		return kinds[kind].add(d, colon ? colon + 1 : "");
	error = add_memory(d, type, &known);
	if (error || known)
		return error;
	if (is_bare(type) && (is_numbered(type) || strpbrk(type, "$(*[.>")))
		return add_variable(d, type);
	_cleanup_error_ struct error *unknown =
		is_bare(type) ? add_variable(d, type) : error_new(ERROR_USAGE, " ");
	if (!unknown)
		return NULL;
	return error_new(
		ERROR_USAGE,
		"-t %s: no such context (regs, reg:NAME, tid, pid, cpu, comm, backtrace[:N], "
		"var:NAME, entry:NAME, or VARTYPE:NAME:ADDR)",
		type);
}

struct error *contexts_add_key(struct describe *d, const char *text)
{
	bool known = kind_of(text) >= 0;
	struct error *error = known ? contexts_add(d, text) : add_memory(d, text, &known);

	return error || known ? error : find_variable(d, text, "--by");
}
