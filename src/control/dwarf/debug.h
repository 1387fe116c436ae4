/*
 * debug.h - the debug information (DWARF) of a file: functions, parameters, types, lines.
 *
 * Found in the file itself, else in a file of its own: by build id or by debug link, below
 * /usr/lib/debug, or from a debuginfod server where the environment names one. Read, never
 * mapped. Files are hostile: what is damaged is missing, loops in it end at a depth limit.
 *
 * Addresses are the file's own. Types and functions point into the struct debug and live as long as
 * it does. One thread at a time.
 */
#ifndef DYNTRACE_DEBUG_H
#define DYNTRACE_DEBUG_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"

struct debug;

/*
 * Debug information for the program or library in fd. NULL in *ret_debug and no error: there
 * is none. `path` is where the file is, for debug links and messages.
 */
struct error *debug_open(int fd, const char *path, struct debug **ret_debug);
void debug_close(struct debug *debug);

/* Where it was found: the file itself, or another. */
const char *debug_path(const struct debug *debug);

/* The build id of a file as text, "-" where it has none. */
void debug_file_build_id(int fd, char *text, size_t room);

/* ---- functions (debug_function.c) ------------------------------------------------------------ */

/* A function whose code begins at an address. */
struct debug_function {
	Dwarf_Die die; /* of its concrete code */
	Dwarf_Die unit;
	uint64_t low;
	uint64_t high; /* of its first range */
};

/* The function that begins right there, or contains the address; false: none. */
bool debug_function_at(struct debug *debug, uint64_t address, struct debug_function *ret_function);
/* Is its code made of a source language that has an ABI of its own? */
bool debug_function_is_rust(const struct debug_function *function);
/* Does it pass arguments as C does, or in a way that abi.h knows? Not in Fortran (by address), Go
 * and D (in registers of their own). */
bool debug_function_has_abi(const struct debug_function *function);
bool debug_function_is_assembly(const struct debug_function *function);
/* Was it compiled by LLVM? */
bool debug_function_is_llvm(const struct debug_function *function);
/* Does the compiler say that it has changed its parameters or result (DW_CC_nocall)? */
bool debug_function_is_changed(const struct debug_function *function);
/* Was it written before there were prototypes? A float is passed to it as a double. */
bool debug_function_is_unprototyped(const struct debug_function *function);
const char *debug_name(Dwarf_Die *die); /* NULL: none */
/* The number in DW_AT_const_value. Compilers write negative ones as such: what has a fixed size is
 * positive. */
bool debug_constant(Dwarf_Attribute *attribute, int64_t *ret_value);
/* debug_scope.c: does the user mean it by that? Its name, with as many of the classes and
 * namespaces around it as were typed (total, S::total, ns::S::total), with or without template
 * arguments. */
bool debug_is_called(Dwarf_Die *die, const char *typed);

/* Before libdw is asked for a location (values/where/value_location.c). */
void debug_need_locations(struct debug *debug);

/* ---- variables (debug_variable.c) ------------------------------------------------------------ */

/* A parameter or local around pc, else a variable of its file, else one of any file. `function` may
 * be NULL. */
bool debug_find_variable(struct debug *debug, const struct debug_function *function, uint64_t pc,
			 const char *name, Dwarf_Die *ret_die);
/* The value of an enumerator that the function's file knows. */
bool debug_find_label(const struct debug_function *function, const char *name, int64_t *ret_value);

/* ---- lines and inlined copies (debug_line.c) ------------------------------------------------- */

struct debug_address {
	uint64_t address;
	uint64_t function; /* where the function around it begins */
	uint64_t inlined; /* of an inlined copy: names it */
};

struct debug_addresses {
	struct debug_address *items;
	size_t count;
	size_t room;
};

/* Where a line's code begins, once in each function that has some; without any, the next line that
 * has. False: no such file. Caller frees with vec_free. */
bool debug_find_line(struct debug *debug, const char *file, int line,
		     struct debug_addresses *ret_addresses, int *ret_line);
/* The line at an address. */
bool debug_line_at(struct debug *debug, uint64_t address, const char **ret_file, int *ret_line);
/* Where the inlined copies of a function begin: of one that has code of its own, else of all that
 * are called so, C++ names as they are written. Caller frees with vec_free. */
void debug_find_inlined(struct debug *debug, const struct debug_function *function,
			const char *name, struct debug_addresses *ret_addresses);
bool debug_inlined_die(struct debug *debug, uint64_t offset, Dwarf_Die *ret_die);

/* ---- types (debug_type.c) -------------------------------------------------------------------- */

enum type_kind {
	TYPE_VOID, /* also what can't be made out */
	TYPE_INT,
	TYPE_BOOL,
	TYPE_CHAR, /* plain char: what strings are made of */
	TYPE_FLOAT,
	TYPE_COMPLEX,
	TYPE_ENUM,
	TYPE_POINTER,
	TYPE_REFERENCE, /* also rvalue references */
	TYPE_STRUCT, /* also classes */
	TYPE_UNION,
	TYPE_ARRAY,
	TYPE_VECTOR, /* of a SIMD register */
	TYPE_FUNCTION,
	TYPE_TEXT, /* a string itself: of no program, but of a trace */
};

/* A type with its names and qualifiers (typedef, const...) taken off. */
struct type {
	enum type_kind kind;
	bool is_signed;
	uint64_t size; /* bytes; 0: unknown */
	const char *name; /* the outermost; NULL: none */
	Dwarf_Die die;
	/* that a cast has put before it: `die`, or else `base`, is what the last of them leads to */
	uint8_t pointers;
	const struct type *base; /* one of C's own, that no debug information has; static */
};

/* The type that a parameter, variable, member, pointer or function (its result) has. */
void type_of(Dwarf_Die *die, struct type *ret_type);
/* What a pointer, reference or array leads to. */
void type_target(const struct type *type, struct type *ret_type);
/* Elements of an array, or 0; of several dimensions: all together, and *ret_element is the scalar. */
uint64_t type_count(const struct type *type, struct type *ret_element);

struct member {
	const char *name; /* NULL: anonymous */
	bool is_base; /* a base class */
	struct type type;
	uint64_t offset; /* bytes */
	uint32_t bit_offset; /* bit fields: from the lowest bit of the byte at `offset` */
	uint32_t bit_size; /* 0: not a bit field */
};

/* Walks the members of a struct or union: start with { 0 }; false: no more. */
struct member_walk {
	Dwarf_Die die;
	bool started;
};
bool type_next_member(const struct type *type, struct member_walk *walk, struct member *ret_member);
/* The member of that name, also one of an anonymous member or of a base class. */
bool type_find_member(const struct type *type, const char *name, struct member *ret_member);

/* Of an enumeration with values in it (Rust): what tells which variant it is. False: it isn't one. */
bool type_find_tag(const struct type *type, struct member *ret_tag);
struct variant {
	struct member member; /* its name and what is in it */
	bool has_value; /* of the tag; false: any that no other variant has */
	int64_t value;
};
/* Walks its variants. */
bool type_next_variant(const struct type *type, struct member_walk *walk,
		       struct variant *ret_variant);

/* debug_typename.c: a type by its name, as the user writes it. TYPE_STRUCT (also a class),
 * TYPE_UNION, TYPE_ENUM: one of these; TYPE_VOID: any. Those that the function knows come first. */
bool debug_find_type(struct debug *debug, const struct debug_function *function, const char *name,
		     enum type_kind kind, struct type *ret_type);
/* debug_typename.c: a pointer to a type. One that has neither `die` nor `base` must live on. */
void type_add_pointer(const struct type *base, struct type *ret_type);

/* Walks the names of an enumeration, likewise. */
bool type_next_label(const struct type *type, struct member_walk *walk, const char **ret_name,
		     int64_t *ret_value);

/* A complete type for one that is only declared in this unit; itself where there is none. */
void type_complete(struct debug *debug, struct type *type);

struct strbuf;
/* "const char *", "struct foo **": as a programmer writes it. */
void type_print(Dwarf_Die *die, struct strbuf *buf);
/* "long foo(int number, const char *text)" */
void debug_print_prototype(const struct debug_function *function, struct strbuf *buf);

/* ---- parameters ------------------------------------------------------------------------------ */

struct parameter {
	const char *name; /* NULL: none */
	struct type type;
	Dwarf_Die die;
};

/* Walks the formal parameters of a function (or of one inlined copy) in order. */
bool debug_next_parameter(Dwarf_Die *function, struct member_walk *walk,
			  struct parameter *ret_parameter);

#endif
