/*
 * describe.h - what the events of a tracepoint hold. Private to session/.
 */
#ifndef DYNTRACE_DESCRIBE_H
#define DYNTRACE_DESCRIBE_H

#include "control/base/strbuf.h"
#include "control/values/shape/shape.h"
#include "control/values/shape/values.h"
#include "control/values/where/value_location.h"

struct session;
struct tracepoint;

/* A tracepoint that is being described. */
struct describe {
	struct session *session;
	struct tracepoint *tracepoint;
	struct module *module; /* where names are looked for: its own, or another */
	struct debug *debug; /* of that; NULL: it has no debug information */
	bool has_function;
	struct debug_function function; /* that contains the address */
	bool inlined; /* the tracepoint is at one inlined copy: */
	Dwarf_Die inlined_die;
	uint64_t address; /* the file's */
	struct shape shape;
	struct tramp_event *exit; /* its exit is being described; NULL: its entry */
};

/* variables.c: the place of a variable: by the ABI for a parameter at its function's first instruction,
 * else by the debug information. False: there is none of that name. */
bool variables_find(void *describe, const char *name, struct type *ret_type,
		struct value_place *ret_place);
/* Appends the names of the parameters: "path, mode". */
void variables_list(void *describe, struct strbuf *text);
bool variables_find_label(void *describe, const char *name, int64_t *ret_value);
bool variables_find_type(void *describe, const char *name, enum type_kind kind, struct type *ret_type);
/* variables.c: walks the parameters of the function at the tracepoint, each with its place. */
struct parameter_walk {
	struct member_walk members;
	struct abi_state abi;
	struct location_context context;
	bool by_abi; /* the ABI says where they are */
	bool may_drop; /* the compiler may have dropped some */
	bool is_promoted; /* floats are passed as doubles */
};
void variables_start(struct describe *d, struct parameter_walk *ret_walk);
bool variables_next(struct describe *d, struct parameter_walk *walk, struct parameter *ret_parameter,
		struct value_place *ret_place);

/* variables.c: the place of a function's result, at its exit. A type of void: there is none. */
void variables_result(struct describe *d, struct type *ret_type, struct value_place *ret_place);

/* contexts.c: adds what a TYPE of -t names. */
struct error *contexts_add(struct describe *d, const char *type);

/* describe.c: for describe_exit.c */
struct error *describe_set_filter(struct describe *d, const char *filter,
				struct value_ops **ret_native);
uint16_t describe_xmms(const struct dt_program *program);
/* describe_exit.c: what the exit's event holds. */
struct error *describe_exit(struct describe *d, uint32_t string_max);
/* describe_exit.c: a place as it was at entry. False: that isn't known any more, or too much would
 * have to be kept. */
bool describe_keep(struct describe *d, const struct value_place *place,
		 struct value_place *ret_place);

/* Finds arguments and their types, and lays out the tracepoint's event. */
struct error *describe_tracepoint(struct session *session, struct tracepoint *tracepoint);
/* Hands the fields over to the event's type, once the event has its id. */
void values_give(struct tracepoint *tracepoint, struct event_type *type);
void values_give_exit(struct tracepoint *tracepoint, struct event_type *type);
/* The event has its id. */
void values_set_ids(struct tracepoint *tracepoint);
/* The tracepoint that had it is gone: another one may. */
void describe_free_counter(struct session *session, uint32_t counter);

#endif
