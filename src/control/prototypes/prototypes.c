#include "prototypes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "shipped_prototypes.h"

struct prototypes {
	VEC(struct prototype) items; /* by name, after sort_items */
	struct error *error; /* of a function that isn't plain */
	bool is_shipped; /* leaves those out */
};

/* ---- text ------------------------------------------------------------------------------------ */

static bool write_one(void *context, const struct c_function *function)
{
	c_function_write(function, context);
	return true;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* As the debug information would have it. */
static void convert(const struct c_type *type, struct type *ret_type)
{
	unsigned pointers = type->pointers + (type->is_array || type->is_function);
	const struct type *base = type->base && !type->is_function ? type->base :
								     c_type_known("void");

	*ret_type = *base;
	ret_type->base = base;
	for (unsigned i = 0; i < pointers; i++) {
		struct type pointer;

		type_add_pointer(ret_type, &pointer);
		*ret_type = pointer;
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

static void free_prototype(struct prototype *one)
{
	for (size_t i = 0; i < one->count; i++)
		free(one->parameters[i].name);
	free(one->parameters);
	free(one->name);
}

/* Headers of libraries put underscores before names of parameters, against macros. */
static char *copy_name(const char *name)
{
	const char *start = name + strspn(name, "_");

	return strdup(*start ? start : name);
}

static struct error *refuse(const struct c_function *function)
{
	const struct c_type *unknown = c_function_unknown_type(function);

	if (!unknown)
		return error_new(ERROR_USAGE, "line %u: %s: more than %d parameters",
				 function->line, function->name, C_PARAMETERS_MAX);
	return error_new(ERROR_USAGE,
			 "line %u: %s: %s can't be an argument or a result itself: a struct, or a "
			 "type that isn't known (declare a pointer, or 'typedef long NAME;')",
			 function->line, function->name,
			 unknown->tag[0] ? unknown->tag : "a struct");
}

static bool add_function(void *context, const struct c_function *function)
{
	struct prototypes *to = context;
	struct prototype one = { .is_variadic = function->is_variadic };

	if (function->is_static && to->is_shipped)
		return true;
	if (!c_function_is_plain(function)) {
		if (!to->is_shipped)
			to->error = refuse(function);
		return to->is_shipped;
	}
	one.name = strdup(function->name);
	one.parameters = calloc(function->count + 1, sizeof(*one.parameters));
	convert(&function->result, &one.result);
	bool enough = one.name && one.parameters;
	for (size_t i = 0; i < function->count && enough; i++, one.count++) {
		const struct c_parameter *parameter = &function->parameters[i];

		if (parameter->name[0])
			one.parameters[i].name = copy_name(parameter->name);
		enough = one.parameters[i].name || !parameter->name[0];
		convert(&parameter->type, &one.parameters[i].type);
	}
	enough = enough && vec_push(&to->items, one);
	if (!enough)
		free_prototype(&one);
	return enough;
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct prototype *)a)->name, ((const struct prototype *)b)->name);
}

struct error *prototypes_parse(const char *text, struct prototypes **ret_prototypes)
{
	struct prototypes *prototypes = calloc(1, sizeof(*prototypes));
	struct error *error = NULL;
	unsigned line;

	if (!prototypes)
		return error_new(ERROR_FAILED, "out of memory");
	bool done = c_declarations_read(text, add_function, prototypes, &line);
	if (prototypes->error)
		error = take_ptr(&prototypes->error);
	else if (!done)
		error = error_new(ERROR_FAILED, "out of memory");
	else if (line)
		error = error_new(ERROR_USAGE,
				  "line %u: not a C declaration (such as: int open(const char *path, "
				  "int flags, ...);)",
				  line);
	else if (!prototypes->items.count)
		error = error_new(ERROR_USAGE, "no function is declared");
	if (error) {
		prototypes_free(prototypes);
		return error;
	}
	qsort(prototypes->items.items, prototypes->items.count, sizeof(struct prototype), compare);
	*ret_prototypes = prototypes;
	return NULL;
}

void prototypes_free(struct prototypes *prototypes)
{
	for (size_t i = 0; prototypes && i < prototypes->items.count; i++)
		free_prototype(&prototypes->items.items[i]);
	if (prototypes)
		vec_free(&prototypes->items);
	free(prototypes);
}

struct error *prototypes_shorten(const char *text, struct strbuf *ret_text)
{
	struct prototypes *checked = NULL;
	struct error *error = prototypes_parse(text, &checked);
	unsigned line;

	prototypes_free(checked);
	if (error)
		return error;
	c_declarations_read(text, write_one, ret_text, &line);
	return ret_text->failed ? error_new(ERROR_FAILED, "out of memory") : NULL;
}

/* ---- finding --------------------------------------------------------------------------------- */

const struct prototype *prototypes_find(const struct prototypes *prototypes, const char *name)
{
	struct prototype key = { .name = (char *)name };

	if (!prototypes || !prototypes->items.count)
		return NULL;
	return bsearch(&key, prototypes->items.items, prototypes->items.count,
		       sizeof(struct prototype), compare);
}

/* Libraries whose functions are in the headers of another. */
static const char *library_of(const char *module)
{
	static const char *const of_libc[] = { "libm.so",  "libpthread.so", "libdl.so",
					       "librt.so", "libresolv.so",  "libutil.so" };

	for (size_t i = 0; i < sizeof(of_libc) / sizeof(of_libc[0]); i++) {
		if (!strncmp(module, of_libc[i], strlen(of_libc[i])))
			return "libc.so";
	}
	return module;
}

static struct prototypes *read_shipped(const char *text)
{
	struct prototypes *shipped = calloc(1, sizeof(*shipped));
	unsigned line;

	if (!shipped)
		return NULL;
	shipped->is_shipped = true;
	c_declarations_read(text, add_function, shipped, &line);
	qsort(shipped->items.items, shipped->items.count, sizeof(struct prototype), compare);
	return shipped;
}

const struct prototype *prototypes_find_shipped(const char *module, const char *name)
{
	static struct prototypes *shipped[SHIPPED_LIBRARIES]; /* stay: up to some 100 KiB */
	const char *library = library_of(module);

	for (size_t i = 0; i < SHIPPED_LIBRARIES; i++) {
		const struct shipped_library *one = &shipped_libraries[i];

		if (strncmp(library, one->name, strlen(one->name)) != 0)
			continue;
		if (!shipped[i])
			shipped[i] = read_shipped(one->text);
		return prototypes_find(shipped[i], name);
	}
	return NULL;
}
