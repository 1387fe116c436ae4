/*
 * describe.h - what the events of a tracepoint hold: fields, and the code or program that fills
 * them in. Called before a site is planned; changes nothing in the target.
 */
#ifndef DYNTRACE_DESCRIBE_H
#define DYNTRACE_DESCRIBE_H

#include "control/base/strbuf.h"
#include "control/prototypes/prototypes.h"
#include "control/values/shape/shape.h"
#include "control/values/shape/values.h"
#include "control/values/where/value_location.h"

struct session;
struct tracepoint;

/* State of one description. */
struct describe {
	struct session *session;
	struct tracepoint *tracepoint;
	struct module *module; /* that names are looked up in: the tracepoint's, or another */
	struct debug *debug; /* of the module; NULL: it has no debug information */
	bool has_function;
	struct debug_function function; /* that contains the address */
	/* without debug information: of the function that begins at the address; NULL: none */
	const struct prototype *prototype;
	bool inlined; /* the tracepoint is at one inlined copy: */
	Dwarf_Die inlined_die;
	uint64_t address; /* in the file */
	struct shape shape;
	unsigned flatter; /* halvings of the levels of structs, so that the event fits */
	struct tramp_event *exit; /* the exit that is being described; NULL: the entry is */
};

/* describe.c: the places of arg0, arg1...: the integer argument registers of the System V ABI, or
 * of Go's own. */
size_t describe_register_count(const struct describe *d);
struct value_place describe_register(const struct describe *d, size_t number);

/* describe.c: are the types of the function's arguments and result known? */
bool describe_knows_types(const struct describe *d);
/* describe.c: with --floats, adds the first vector registers as numbers. */
void describe_add_floats(struct describe *d, size_t count);

/* variables.c: the place of a variable: by the ABI for a parameter at its function's first
 * instruction, else by the debug information. False: no variable has that name. */
bool variables_find(void *describe, const char *name, struct type *ret_type,
		    struct value_place *ret_place);
/* Appends the names of the parameters: "path, mode". */
void variables_list(void *describe, struct strbuf *text);
/* Is it the name of a parameter? */
bool variables_is_argument(void *describe, const char *name);
bool variables_find_label(void *describe, const char *name, int64_t *ret_value);
bool variables_find_type(void *describe, const char *name, enum type_kind kind,
			 struct type *ret_type);
/* variables.c: walks the parameters of the function at the tracepoint, each with its place. */
struct parameter_walk {
	struct member_walk members;
	struct abi_state abi;
	struct location_context context;
	bool by_abi; /* the ABI gives their places */
	bool may_drop; /* the compiler may have dropped some */
	bool is_promoted; /* the caller passes floats as doubles */
};
void variables_start(struct describe *d, struct parameter_walk *ret_walk);
bool variables_next(struct describe *d, struct parameter_walk *walk,
		    struct parameter *ret_parameter, struct value_place *ret_place);

/* prototype_arguments.c: finds d->prototype, if no debug information has the function. */
void prototype_arguments_find(struct describe *d);
/* The parameter's name (argN if it has none), type and place. False: no such parameter. */
struct prototype_argument {
	char name[C_NAME_MAX];
	struct type type;
	struct value_place place;
};
bool prototype_arguments_get(const struct describe *d, size_t number,
			     struct prototype_argument *ret_argument);
void prototype_arguments_result(const struct describe *d, struct type *ret_type,
				struct value_place *ret_place);

/* variables.c: the place of a function's result, at its exit. A void type: it has no result. */
void variables_result(struct describe *d, struct type *ret_type, struct value_place *ret_place);

/* contexts.c: does the exit record the TYPE, too? Variables belong to the entry. */
bool contexts_is_at_exit(const char *type);
/* contexts.c: adds the fields of a TYPE of -t. */
struct error *contexts_add(struct describe *d, const char *type);
/* contexts.c: the same for a KEY of --by, which is a variable or an expression mostly. */
struct error *contexts_add_key(struct describe *d, const char *text);

/* describe.c, for describe_exit.c: the filter becomes native code, or part of the program. */
struct error *describe_set_filter(struct describe *d, const char *filter,
				  struct value_ops **ret_native);
/* Does the filter ask for the exit: by $ret and the like, or by `ret` and `duration` where these
 * aren't arguments? */
bool describe_filters_exit(struct describe *d, const char *filter);
/* Does the exit decide whether the call is recorded at all, and record both (R10)? */
bool describe_is_pair(struct describe *d);
/* --every, --first, --rate: for the trampoline (*limits), or for the shape's program. */
struct error *describe_set_limits(struct describe *d, struct tramp_limits *limits);
/* Sets the shape's limits, of a shape that has nothing yet. */
void describe_prepare(struct describe *d);
/* The xmm registers that the program reads, as bits. */
uint16_t describe_xmms(const struct dt_program *program);
/* describe_exit.c: lays out the exit's event. */
struct error *describe_exit(struct describe *d, uint32_t string_max);
/* describe_exit.c: lets the entry keep the value at a place for the exit. False: the entry can't
 * know the value, or has no room for more words. */
bool describe_keep(struct describe *d, const struct value_place *place,
		   struct value_place *ret_place);

/* describe_keys.c: adds the keys and the value of a count by key that the entry, or the exit that
 * is being described, has. */
struct error *describe_keys(struct describe *d);
struct error *describe_native_key(struct describe *d);
bool describe_is_keyed(const struct tracepoint *tracepoint);
bool describe_asks_exit(const struct tracepoint *tracepoint);

/* Finds arguments and their types, and lays out the tracepoint's event. */
struct error *describe_tracepoint(struct session *session, struct tracepoint *tracepoint);
/* Hands the fields over to the event's type. */
void describe_give(struct tracepoint *tracepoint, struct event_type *type);
void describe_give_exit(struct tracepoint *tracepoint, struct event_type *type);
/* Writes the event's id, once it is assigned, into the programs. */
void describe_set_ids(struct tracepoint *tracepoint);
/* Gives back the counter of a tracepoint that is gone. */
void describe_free_counter(struct session *session, uint32_t counter);

#endif
