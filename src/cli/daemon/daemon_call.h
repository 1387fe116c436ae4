/*
 * daemon_call.h - requests to the daemon, for the commands that make them.
 */
#ifndef DYNTRACE_DAEMON_CALL_H
#define DYNTRACE_DAEMON_CALL_H

#include "client/client.h"
#include "control/base/cleanup.h"
#include "options/commands.h"
#include "options/table_text.h"

/* Rows for the commands' tables of options; --socket sets daemon_call_socket. */
extern const char *daemon_call_socket;
#define DAEMON_SOCKET_OPTION                                                                       \
	{                                                                                          \
		0, "socket", "PATH",                                                               \
			"the daemon's socket (default: $DYNTRACE_SOCKET, or dyntraced's default)", \
			.string = &daemon_call_socket                                              \
	}
#define DAEMON_ALL_OPTION(where) { 0, "all", NULL, "all processes of this name", .flag = (where) }
#define DAEMON_JSON_OPTION(where, text) { 0, "json", NULL, text, .flag = (where) }

static inline void daemon_call_closep(struct client **client)
{
	client_close(*client);
}
#define _cleanup_client_ _cleanup_(daemon_call_closep)

struct error *daemon_call_connect(struct client **ret_client);
/* Begins a request, to which the caller may add attributes; daemon_call_finish ends it. */
struct wire_out *daemon_call_begin(struct client *client, enum wire_kind kind, const char *target,
				   bool all);
/* Sends the request and waits for the reply. Notes go to stderr, items to `item` (may be NULL). */
typedef struct error *(*daemon_item_fn)(void *context, const struct wire_message *item);
struct error *daemon_call_finish(struct client *client, daemon_item_fn item, void *context);

/* A request that consists of a target and up to two texts. */
struct daemon_text {
	enum wire_tag tag;
	const char *text; /* NULL: absent */
};
struct daemon_request {
	enum wire_kind kind;
	const char *target; /* NULL: all */
	bool all; /* all processes of the target's name */
	struct daemon_text texts[2];
};
/* Connects, sends the request and waits for the reply. */
struct error *daemon_call_request(const struct daemon_request *request, daemon_item_fn item,
				  void *context);

/* Checks the words of a command and makes its request. */
enum daemon_words {
	DAEMON_NO_TARGET,
	DAEMON_ONE_TARGET,
	DAEMON_ANY_TARGET, /* one, or none for all */
};
struct error *daemon_call_check_words(const struct words *words, enum daemon_words wanted);
struct error *daemon_call_target(const struct words *words, enum daemon_words wanted,
				 enum wire_kind kind, bool all, daemon_item_fn item, void *context);

/* A list that the daemon sends, as text or as JSON: `add` appends an item to the text. */
struct daemon_call_list {
	struct strbuf text;
	size_t count; /* items so far */
	bool json;
	void (*add)(struct daemon_call_list *list, const struct wire_message *item);
};
struct error *daemon_call_list(const struct words *words, enum daemon_words wanted,
			       enum wire_kind kind, bool all, struct daemon_call_list *list);

/* The attribute, or "" and 0 where the message has none. */
const char *daemon_call_text_of(const struct wire_message *item, enum wire_tag tag);
unsigned long long daemon_call_number_of(const struct wire_message *item, enum wire_tag tag);

/* Splits "redis-server:foo" into "redis-server" (caller frees) and "foo". `what` names the second
 * part in messages: "LOC" or "NAME". */
struct error *daemon_call_split(const char *word, const char *what, char **ret_target,
				const char **ret_rest);

/* Append ,"key":"value", without the comma at an object's start. NULL values are left out. */
void daemon_call_json_text(struct strbuf *text, const char *key, const char *value);
void daemon_call_json_number(struct strbuf *text, const char *key, uint64_t value);
void daemon_call_json_flag(struct strbuf *text, const char *key, bool value);
/* Appends ,"key":["a","b"], all attributes of that tag. */
void daemon_call_json_texts(struct strbuf *text, const char *key, const struct wire_message *item,
			    enum wire_tag tag);
/* Gives the user's name, or the number of an id without a name: "redis", "1000". */
void daemon_call_user_name(uint64_t uid, char *ret_name, size_t size);

#endif
