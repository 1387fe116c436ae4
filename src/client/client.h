/*
 * client.h - the client's end of the daemon's socket.
 *
 *	client_connect(NULL, &client)
 *	wire_begin(client_out(client), WIRE_ATTACH, 0); wire_text(...); wire_end(...)
 *	client_call(client, handler, context)		until the reply; items go to the handler
 *
 * Waits for answers, as a command does. Prints nothing. One thread at a time uses a client.
 */
#ifndef DYNTRACE_CLIENT_H
#define DYNTRACE_CLIENT_H

#include "control/wire/messages.h"

/* The socket's path: the given one, else $DYNTRACE_SOCKET, else root's or the user's own. Caller
 * frees. */
struct error *client_socket_path(const char *given, char **ret_path);

struct client;

/* given: NULL chooses as above; where a user has no own daemon, root's is asked. Without a daemon,
 * the error says how to start one. */
struct error *client_connect(const char *given, struct client **ret_client);
/* Uses a connected socket, which it takes over; `name` is for messages. */
struct error *client_adopt(int fd, const char *name, struct client **ret_client);
void client_close(struct client *client);
const char *client_path(const struct client *client);

/* Readable when messages have come. Earlier ones lie in the client: take until there is none. */
int client_fd(const struct client *client);

/* The request is written here. */
struct wire_out *client_out(struct client *client);

/* Called for every WIRE_ITEM, WIRE_NOTE and WIRE_EVENT, and for a WIRE_REPLY without an error. */
typedef struct error *(*client_answer_fn)(void *context, const struct wire_message *answer);

/* Sends the request and waits for the reply. The daemon's error is this call's. */
struct error *client_call(struct client *client, client_answer_fn answer, void *context);
/*
 * The next message that nobody asked for. timeout_ms as for poll: 0 looks, -1 waits. False in
 * *ret_some: none came in that time, or a signal did. A message is valid until the next call of the
 * client.
 */
struct error *client_next(struct client *client, int timeout_ms, struct wire_message *ret_message,
			  bool *ret_some);
/* Waits for events and passes them to `answer`, until the connection ends or `answer` fails. */
struct error *client_listen(struct client *client, client_answer_fn answer, void *context);

/* ---- parts of requests (requests.c) ---------------------------------------------------------- */

/* A file or directory by its absolute path: the daemon has another working directory. Caller
 * frees. */
struct error *client_absolute(const char *path, char **ret_path);
/* A LIBRARY, and LIBRARY:FUNCTION, by its absolute path. A name without a slash that is no file
 * here stays as it is: it names a library that is loaded. */
struct error *client_absolute_library(const char *name, char **ret_path);
struct error *client_absolute_function(const char *argument, char **ret_argument);
/* Writes a tracer's arguments into a WIRE_ADD; files are relative to the client's directory. */
struct error *client_write_arguments(struct wire_out *out, const char *tracer,
				     char *const *arguments, size_t count);
/* The state of a WIRE_TRACEPOINTS item: enabled, disabled, waiting or refused. */
const char *client_tracepoint_state(const struct wire_message *item);

#endif
