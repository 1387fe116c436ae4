/*
 * daemon_call.h - what the commands that ask the daemon share.
 */
#ifndef DYNTRACE_DAEMON_CALL_H
#define DYNTRACE_DAEMON_CALL_H

#include "client/client.h"
#include "control/base/cleanup.h"
#include "options/commands.h"
#include "options/table_text.h"

/* A row for the table of options of each of them. */
extern const char *ask_socket;
#define ASK_SOCKET_OPTION                                                                             \
	{                                                                                             \
		0, "socket", "PATH",                                                                  \
			"the daemon's socket (default: $DYNTRACE_SOCKET, or where dyntraced has it)", \
			.string = &ask_socket                                                         \
	}
#define ASK_ALL_OPTION(where) { 0, "all", NULL, "every process of that name", .flag = (where) }
#define ASK_JSON_OPTION(where, text) { 0, "json", NULL, text, .flag = (where) }

static inline void daemon_call_closep(struct client **client)
{
	client_close(*client);
}
#define _cleanup_client_ _cleanup_(daemon_call_closep)

struct error *daemon_call_connect(struct client **ret_client);
/* Begins a request at the client; wire_end is daemon_call_finish's. */
struct wire_out *daemon_call_begin(struct client *client, enum wire_kind kind, const char *target,
			   bool all);
/* Sends it and waits. Notes go to stderr, items to `item` (NULL: nobody). */
typedef struct error *(*ask_item_fn)(void *context, const struct wire_message *item);
struct error *daemon_call_finish(struct client *client, ask_item_fn item, void *context);

/* The whole of a command whose only word is a TARGET. */
enum daemon_call_words {
	ASK_NO_TARGET, /* it takes none */
	ASK_ONE_TARGET,
	ASK_ANY_TARGET, /* one, or none: all */
};
struct error *daemon_call_target(const struct words *words, enum daemon_call_words wanted, enum wire_kind kind,
			 bool all, ask_item_fn item, void *context);

/* A list of the daemon's, as text or as JSON: `add` adds an item to the text. */
struct daemon_call_list {
	struct strbuf text;
	size_t count; /* of items so far */
	bool json;
	void (*add)(struct daemon_call_list *list, const struct wire_message *item);
};
struct error *daemon_call_list(const struct words *words, enum daemon_call_words wanted, enum wire_kind kind,
		       bool all, struct daemon_call_list *list);

/* Attributes that may be missing: "" and 0. */
const char *daemon_call_text_of(const struct wire_message *item, enum wire_tag tag);
unsigned long long daemon_call_number_of(const struct wire_message *item, enum wire_tag tag);

/* "redis-server:foo" to "redis-server" (the caller frees) and "foo". what: what is behind the
 * colon. */
struct error *daemon_call_split(const char *word, const char *what, char **ret_target,
			const char **ret_rest);

/* ,"key":"value" ; without the comma if it is the first in its object. NULL values are left out. */
void daemon_call_json_text(struct strbuf *text, const char *key, const char *value);
void daemon_call_json_number(struct strbuf *text, const char *key, uint64_t value);
/* ,"key":["a","b"] of all attributes of that tag. */
void daemon_call_json_texts(struct strbuf *text, const char *key, const struct wire_message *item,
		    enum wire_tag tag);
/* "redis", or "1000" where the id has no name. */
void daemon_call_user_name(uint64_t uid, char *ret_name, size_t size);

#endif
