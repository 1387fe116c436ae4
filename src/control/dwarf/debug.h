/*
 * debug.h - the debug information (DWARF) of a file: functions, parameters, types, lines.
 *
 * debug_open looks in the file itself, then for a separate file: by build id or by debug link,
 * below /usr/lib/debug, or from a debuginfod server that the environment names. Files are read,
 * never mapped. Files are hostile: damaged parts are missing, and loops end at a depth limit.
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
 * Opens the debug information of the program or library in fd. NULL in *ret_debug without an error:
 * none found. `path` is the file's, for debug links and messages.
 */
struct error *debug_open(int fd, const char *path, struct debug **ret_debug);
void debug_close(struct debug *debug);


/* The build id of a file as text; "-": none. */
void debug_file_build_id(int fd, char *text, size_t room);

/* ---- functions (debug_function.c) ------------------------------------------------------------ */

/* A function whose code begins at an address. */
struct debug_function {
	Dwarf_Die die; /* of the concrete code */
	Dwarf_Die unit;
	uint64_t low;
	uint64_t high; /* of its first range */
};

/* The function that begins at the address, or contains it; false: none. */
bool debug_function_at(struct debug *debug, uint64_t address, struct debug_function *ret_function);
/* Is the function written in Rust, which has an ABI of its own? */
bool debug_function_is_rust(const struct debug_function *function);
/* Does the language pass arguments as C does, or in a way that abi.h knows? Fortran (by address),
 * Go and D (in registers of their own) don't. */
bool debug_function_has_abi(const struct debug_function *function);
bool debug_function_is_assembly(const struct debug_function *function);
/* Did LLVM compile the function? */
bool debug_function_is_llvm(const struct debug_function *function);
/* Did the compiler change the parameters or the result (DW_CC_nocall)? */
bool debug_function_is_changed(const struct debug_function *function);
/* Has the function no prototype (K&R C)? A float is passed to it as a double. */
bool debug_function_is_unprototyped(const struct debug_function *function);
const char *debug_name(Dwarf_Die *die); /* NULL: none */
/* The number in DW_AT_const_value. Compilers write negative numbers in a signed form: a form of
 * fixed size is positive. */
bool debug_constant(Dwarf_Attribute *attribute, int64_t *ret_value);
/* debug_scope.c: did the user type this DIE's name? Compares as many of the classes and namespaces
 * around it as were typed (total, S::total, ns::S::total), with or without template arguments. */
bool debug_is_called(Dwarf_Die *die, const char *typed);

/* Call before asking libdw for a location (values/where/value_location.c). */
void debug_need_locations(struct debug *debug);

/* ---- variables (debug_variable.c) ------------------------------------------------------------ */

/* Finds a parameter or local in scope at pc, else a variable of the same source file, else of any.
 * `function` may be NULL. */
bool debug_find_variable(struct debug *debug, const struct debug_function *function, uint64_t pc,
			 const char *name, Dwarf_Die *ret_die);
/* The value of an enumerator in the function's source file. */
bool debug_find_label(const struct debug_function *function, const char *name, int64_t *ret_value);

/* ---- lines and inlined copies (debug_line.c) ------------------------------------------------- */

struct debug_address {
	uint64_t address;
	uint64_t function; /* start of the function around it */
	uint64_t inlined; /* identifies an inlined copy; else 0 */
};

struct debug_addresses {
	struct debug_address *items;
	size_t count;
	size_t room;
};

/* Where a line's code begins, once per function; if the line has no code, of the next line that
 * has. False: no such file. The caller frees with vec_free. */
bool debug_find_line(struct debug *debug, const char *file, int line,
		     struct debug_addresses *ret_addresses, int *ret_line);
/* The line at an address. */
bool debug_line_at(struct debug *debug, uint64_t address, const char **ret_file, int *ret_line);
/* Where the inlined copies of a function begin: of the function given, else of all functions of
 * that name (C++ names as written in source). The caller frees with vec_free. */
void debug_find_inlined(struct debug *debug, const struct debug_function *function,
			const char *name, struct debug_addresses *ret_addresses);
bool debug_inlined_die(struct debug *debug, uint64_t offset, Dwarf_Die *ret_die);

/* ---- types (debug_type.c) -------------------------------------------------------------------- */

enum type_kind {
	TYPE_VOID, /* also an unknown type */
	TYPE_INT,
	TYPE_BOOL,
	TYPE_CHAR, /* plain char, of which strings are made */
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
	TYPE_TEXT, /* a string itself: in traces only, no program has it */
};

/* A type without its names and qualifiers (typedef, const...). */
struct type {
	enum type_kind kind;
	bool is_signed;
	uint64_t size; /* bytes; 0: unknown */
	const char *name; /* the outermost; NULL: none */
	Dwarf_Die die;
	/* levels of pointer that a cast added; the last points to `die`, or else to `base` */
	uint8_t pointers;
	const struct type *base; /* a type of C's own, without a DIE; static */
};

/* The type of a parameter, variable or member, of a pointer's target, or of a function's result. */
void type_of(Dwarf_Die *die, struct type *ret_type);
/* The target of a pointer or reference, or the element of an array. */
void type_target(const struct type *type, struct type *ret_type);
/* Number of elements of an array, or 0. Several dimensions count as one: *ret_element is the
 * scalar. */
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
/* The member of that name; also looks in anonymous members and base classes. */
bool type_find_member(const struct type *type, const char *name, struct member *ret_member);

/* The tag of an enumeration with values in it (Rust). False: not such a type. */
bool type_find_tag(const struct type *type, struct member *ret_tag);
/* debug_template.c: an argument of a template or of a generic type, counted from 0; only types
 * count. */
bool type_argument(const struct type *type, unsigned number, struct type *ret_type);
struct variant {
	struct member member; /* name and content */
	bool has_value; /* of the tag; false: any value that no other variant has */
	int64_t value;
};
/* Walks the variants of such an enumeration. */
bool type_next_variant(const struct type *type, struct member_walk *walk,
		       struct variant *ret_variant);

/* debug_typename.c: finds a type by name, as the user writes it. `kind` is TYPE_STRUCT (also a
 * class), TYPE_UNION, TYPE_ENUM, or TYPE_VOID: any. Types in the function's scope come first. */
bool debug_find_type(struct debug *debug, const struct debug_function *function, const char *name,
		     enum type_kind kind, struct type *ret_type);
/* debug_typename.c: a pointer to a type. A type with neither `die` nor `base` must outlive the
 * result. */
void type_add_pointer(const struct type *base, struct type *ret_type);

/* Walks the enumerators of an enumeration: start with { 0 }; false: no more. */
bool type_next_label(const struct type *type, struct member_walk *walk, const char **ret_name,
		     int64_t *ret_value);

/* Replaces a type that its unit only declares by a complete one, if any unit has it. */
void type_complete(struct debug *debug, struct type *type);

struct strbuf;
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
