/*
 * Prototypes: C declarations as people and headers write them; and the shipped table, compared with
 * the debug information of libc, where it is installed (libc6-dbg).
 */
#include <dlfcn.h>
#include <dwarf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/prototypes/prototypes.h"
#include "prototype_types.h"

static char *shorten(const char *text)
{
	struct strbuf line = { 0 };
	_cleanup_error_ struct error *error = prototypes_shorten(text, &line);

	if (!error)
		return line.text;
	strbuf_free(&line);
	return strdup(error_text(error));
}

static void test_declarations(void **state)
{
	static const char *const cases[][2] = {
		{ "int open(const char *path, int flags, ...);", "int open(char *path, int flags, ...);" },
		{ "void f(void);", "void f(void);" },
		{ "void f();", "void f(void);" },
		{ "extern unsigned long long int f(unsigned a, signed char b, long c[4]);",
		  "unsigned long f(unsigned int a, signed char b, long *c);" },
		{ "size_t f(uint8_t, bool *, float x, double y, long double z);",
		  "unsigned long f(unsigned char, bool *, float x, double y, long double z);" },
		{ "typedef int (*compare)(const void *, const void *);\n"
		  "void sort(void *base, size_t n, compare how);",
		  "void sort(void *base, unsigned long n, void *how);" },
		{ "void (*signal(int number, void (*handler)(int)))(int);",
		  "void *signal(int number, void *handler);" },
		{ "struct foo { int a; struct { char b; } c; };\n"
		  "struct foo *make(struct foo **from, union u *u, enum e { A, B } e);",
		  "struct foo *make(struct foo **from, union u *u, unsigned int e);" },
		{ "typedef struct s *handle; handle f(handle *to), *g(char const * const *argv);",
		  "struct s *f(struct s **to);struct s **g(char **argv);" },
		{ "typedef struct tag buffer[1]; int f(buffer b);", "int f(struct tag *b);" },
		{ "int (f)(int (*matrix)[3], int g(int));", "int f(void *matrix, void *g);" },
		{ "# 1 \"x.h\"\n/* c */ extern \"C\" { __extension__ static __inline int\n"
		  "f (int __x) __attribute__ ((nothrow, leaf)) { return \"}\"[__x]; } // e\n"
		  "#define LONG a \\\n b\nint g(FILE *restrict stream) __asm__(\"h\"); }",
		  "int f(int __x);int g(FILE *stream);" },
		{ "int x = 3, y; const char *name[] = { \"a;\" }; int f(int);", "int f(int);" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *line = shorten(cases[i][0]);

		assert_string_equal(line, cases[i][1]);
		_cleanup_free_ char *again = shorten(line);
		assert_string_equal(again, line);
	}
}

static void test_refusals(void **state)
{
	static const char *const cases[][2] = {
		{ "", "no function is declared" },
		{ "int x;", "no function is declared" },
		{ "int f(int a);\nint 3;", "line 2: not a C declaration" },
		{ "int f(int a", "line 1: not a C declaration" },
		{ "int g(int);\nint f(struct s by_value);", "line 2: f: struct s can't be an argument" },
		{ "thing f(void);", "line 1: f: thing can't be an argument or a result" },
		{ "int f(struct { int a; } s);", "line 1: f: a struct can't be an argument" },
		{ "double _Complex f(void);", "line 1: not a C declaration" },
	};
	char deep[2000] = "int f(";

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *said = shorten(cases[i][0]);

		assert_ptr_equal(strstr(said, cases[i][1]), said);
	}
	for (size_t i = 0; i < 300; i++)
		strcat(deep, "int (");
	_cleanup_free_ char *said = shorten(deep);
	assert_non_null(strstr(said, "not a C declaration"));
}

static void test_places_of_names(void **state)
{
	struct prototypes *own = NULL;

	(void)state;
	assert_null(prototypes_parse("int b(char *__text, int); void a(void);", &own));
	const struct prototype *b = prototypes_find(own, "b");
	assert_non_null(b);
	assert_int_equal(b->count, 2);
	assert_string_equal(b->parameters[0].name, "text");
	assert_null(b->parameters[1].name);
	struct type letter;
	type_target(&b->parameters[0].type, &letter);
	assert_int_equal(letter.kind, TYPE_CHAR);
	assert_null(prototypes_find(own, "c"));
	prototypes_free(own);
	assert_non_null(prototypes_find_shipped("libc.so.6", "open"));
	assert_non_null(prototypes_find_shipped("libm.so.6", "pow"));
	assert_non_null(prototypes_find_shipped("libz.so.1.2.13", "crc32"));
	assert_non_null(prototypes_find_shipped("libstdc++.so.6", "_Znwm"));
	assert_null(prototypes_find_shipped("libz.so.1", "open"));
	assert_null(prototypes_find_shipped("myprogram", "open"));
}

/* ---- compared with debug information --------------------------------------------------------- */

static enum type_kind plain_kind(const struct type *type)
{
	switch (type->kind) {
	case TYPE_ENUM: case TYPE_BOOL: case TYPE_CHAR: return TYPE_INT;
	case TYPE_REFERENCE: case TYPE_FUNCTION: case TYPE_ARRAY: return TYPE_POINTER;
	default: return type->kind;
	}
}

static bool is_text(const struct type *type)
{
	struct type target;

	if (type->kind != TYPE_POINTER)
		return false;
	type_target(type, &target);
	return target.kind == TYPE_CHAR;
}

static bool is_same(const struct type *ours, const struct type *theirs)
{
	return plain_kind(ours) == plain_kind(theirs) && is_text(ours) == is_text(theirs) &&
	       (ours->kind == TYPE_VOID || ours->kind == TYPE_POINTER ||
		ours->size == theirs->size) &&
	       (ours->kind != TYPE_INT || theirs->kind != TYPE_INT ||
		ours->is_signed == theirs->is_signed);
}

/* True: as the debug information has it. */
static bool agrees(const struct prototype *prototype, struct debug_function *function)
{
	struct member_walk walk = { .started = false };
	struct parameter parameter;
	struct type result;
	size_t count = 0;

	type_of(&function->die, &result);
	bool same = is_same(&prototype->result, &result);
	for (; debug_next_parameter(&function->die, &walk, &parameter); count++)
		same = same && count < prototype->count &&
		       is_same(&prototype->parameters[count].type, &parameter.type);
	return same && count == prototype->count;
}

/* Compares the functions of a library; counts those that were. The names are the table's. */
static void compare(const char *library, const char *const *names, size_t count, size_t *compared)
{
	void *handle = dlopen(library, RTLD_NOW);
	struct debug *debug = NULL;
	Dl_info info;

	assert_non_null(handle);
	for (size_t i = 0; i < count; i++) {
		void *at = dlsym(handle, names[i]);
		struct debug_function function;

		if (!at || !dladdr(at, &info))
			continue;
		if (!debug) {
			int fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);

			assert_null(debug_open(fd, info.dli_fname, &debug));
			close(fd);
			if (!debug)
				break;
		}
		uint64_t address = (uint64_t)at - (uint64_t)info.dli_fbase;
		const struct prototype *prototype = prototypes_find_shipped(library, names[i]);
		if (!prototype || !debug_function_at(debug, address, &function) ||
		    function.low != address || debug_function_is_assembly(&function))
			continue;
		if (!agrees(prototype, &function))
			print_error("%s: %s\n", library, names[i]);
		assert_true(agrees(prototype, &function));
		++*compared;
	}
	debug_close(debug);
	dlclose(handle);
}

static void test_as_debug_information_has_it(void **state)
{
	static const char *const libc[] = {
#include "prototype_names.h"
	};
	size_t compared = 0;

	(void)state;
	compare("libc.so.6", libc, sizeof(libc) / sizeof(libc[0]), &compared);
	if (!compared)
		skip(); /* no libc6-dbg */
	assert_true(compared >= 200);
}

/* The type of the function that the variable points to. */
static bool find_function(struct debug *debug, const char *name,
			  struct debug_function *ret_function)
{
	char variable[128];
	Dwarf_Die die;
	struct type pointer;
	Dwarf_Attribute attribute;

	snprintf(variable, sizeof(variable), "type_of_%s", name);
	if (!debug_find_variable(debug, NULL, 0, variable, &die))
		return false;
	type_of(&die, &pointer);
	*ret_function = (struct debug_function){ 0 };
	return dwarf_attr_integrate(&pointer.die, DW_AT_type, &attribute) &&
	       dwarf_formref_die(&attribute, &ret_function->die);
}

static void test_as_the_compiler_has_it(void **state)
{
#define NAME(name) #name,
	static const char *const names[3][128] = {
		{ OF_LIBZ(NAME) }, { OF_LIBSQLITE3(NAME) }, { OF_LIBCRYPTO(NAME) }
	};
	static const char *const libraries[] = { "libz.so.1", "libsqlite3.so.0", "libcrypto.so.3" };
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct debug *debug = NULL;
	size_t compared = 0;

	(void)state;
	assert_null(debug_open(fd, "/proc/self/exe", &debug));
	close(fd);
	assert_non_null(debug);
	for (size_t i = 0; i < 3; i++) {
		for (size_t j = 0; names[i][j]; j++) {
			const struct prototype *prototype =
				prototypes_find_shipped(libraries[i], names[i][j]);
			struct debug_function function;

			if (!find_function(debug, names[i][j], &function))
				continue; /* its header isn't installed */
			if (!prototype || !agrees(prototype, &function))
				print_error("%s: %s\n", libraries[i], names[i][j]);
			assert_true(prototype && agrees(prototype, &function));
			compared++;
		}
	}
	debug_close(debug);
	assert_true(compared >= 30); /* zlib.h is always there */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_declarations),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_places_of_names),
		cmocka_unit_test(test_as_debug_information_has_it),
		cmocka_unit_test(test_as_the_compiler_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
