/*
 * api.h - shared by the files of libdyntrace.so. The contract with users is dyntrace/dyntrace.h.
 */
#ifndef DYNTRACE_API_H
#define DYNTRACE_API_H

#include <dyntrace/dyntrace.h>

#include "client/client.h"
#include "control/base/cleanup.h"
#include "control/base/vec.h"

/* A copy of all attributes of a message, which its texts point into. */
struct record {
	char *bytes;
	struct wire_message message;
};

struct dyntrace {
	struct client *client;
	struct strbuf notes;
	struct record said; /* what `status` points into */
	struct dyntrace_status status;
};

/* A struct error under its public name. */
static inline struct dyntrace_error *api_error(struct error *error)
{
	return (struct dyntrace_error *)error;
}

/* An error if the argument is NULL or empty. */
struct error *api_need(const char *argument, const char *what);
/* Begins a request; drops an earlier one that was never finished. */
struct wire_out *api_begin(struct dyntrace *dyntrace, enum wire_kind kind, const char *target,
			   unsigned int flags);
/* Sends the request and waits. Items go to the list (NULL: nowhere). */
struct error *api_finish(struct dyntrace *dyntrace, struct dyntrace_list *list);
/* One message of an answer: items go to the list, notes to the handle; both may be NULL. */
struct error *api_take(struct dyntrace *dyntrace, struct dyntrace_list *list,
		       const struct wire_message *message);
/* api_finish with a new list, which is handed over on success. ret_list may be NULL. */
struct error *api_finish_list(struct dyntrace *dyntrace, enum wire_kind kind,
			      struct dyntrace_list **ret_list);

/* ---- list.c ---------------------------------------------------------------------------------- */

/* For the items that answer a request of that kind. NULL: out of memory. */
struct dyntrace_list *list_create(enum wire_kind kind);
struct error *list_add(struct dyntrace_list *list, const struct wire_message *item);

bool record_copy(const struct wire_message *message, struct record *ret_record);

/* ---- command.c ------------------------------------------------------------------------------- */

/*
 * Runs `dyntrace --answer WORDS` (the words end with NULL) and adds its items to the list. The
 * command's error is this call's.
 */
struct error *command_ask(struct dyntrace *dyntrace, const char *const *words,
			  struct dyntrace_list *list);

#endif
