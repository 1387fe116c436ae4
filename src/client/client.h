/*
 * client.h - the client's end of the daemon's socket.
 *
 *	client_connect(NULL, &client)
 *	wire_begin(client_out(client), WIRE_ATTACH, 0); wire_text(...); wire_end(...)
 *	client_call(client, handler, context)		until the reply; items go to the handler
 *
 * Waits for answers, as a command does. Prints nothing. One thread at a time uses a client.
 */
#ifndef DYNTRACE_CLIENT_CLIENT_H
#define DYNTRACE_CLIENT_CLIENT_H

#include "../control/wire/wire.h"

/* Which socket is meant: what was given, else $DYNTRACE_SOCKET, else root's or the user's own. Caller frees. */
struct error *client_socket_path(const char *given, char **ret_path);

struct client;

/* NULL: as above; where a user has no daemon of his own, root's is asked. Without a daemon, the error says how to start one. */
struct error *client_connect(const char *given, struct client **ret_client);
void client_close(struct client *client);
const char *client_path(const struct client *client);

/* Where the request is made. */
struct wire_out *client_out(struct client *client);

/* Told of every WIRE_ITEM, WIRE_NOTE and WIRE_EVENT, and of the WIRE_REPLY if there was no error. */
typedef struct error *(*client_answer_fn)(void *context, const struct wire_message *answer);

/* Sends the request and waits for the reply. The daemon's error is this call's. */
struct error *client_call(struct client *client, client_answer_fn answer, void *context);
/* Waits for events, and tells them until the connection ends or `answer` fails. */
struct error *client_listen(struct client *client, client_answer_fn answer, void *context);

#endif
