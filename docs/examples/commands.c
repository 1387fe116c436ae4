/*
 * commands.c - count the commands of a redis server by name, in the server itself.
 *
 *	cc -O2 -shared -fPIC -o libcommands.so commands.c
 *	dyntrace add redis-server:slowlogPushEntryIfNeeded call ./libcommands.so:on_command
 *
 * Redis calls slowlogPushEntryIfNeeded(client, argv, argc, microseconds) after every command.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <dyntrace/probe.h>

#define NAMES 256

/* One event per command: its name, its runs so far, and the duration of this one. */
DYNTRACE_EVENT(command, DYNTRACE_STRING(name), DYNTRACE_UINT(count), DYNTRACE_UINT(us));

static struct {
	char name[32];
	atomic_ulong count;
} commands[NAMES];

/* The index of the name; commands of redis run on one thread. */
static unsigned find(const char *name)
{
	unsigned i = 0;

	while (i < NAMES - 1 && commands[i].name[0] && strcmp(commands[i].name, name) != 0)
		i++;
	if (!commands[i].name[0])
		strcpy(commands[i].name, name);
	return i;
}

DYNTRACE_PROBE(on_command)
{
	struct {
		unsigned head[2];
		char *text;
	} object;
	char name[32] = "";
	char *const *argv = (char *const *)dyntrace_argument(hit, 1);

	/* argv[0] may not be what we think it is: read it, don't follow it. */
	if (dyntrace_read(hit, argv[0], &object, sizeof(object)) < (long)sizeof(object))
		return;
	dyntrace_read(hit, object.text, name, sizeof(name) - 1);
	for (char *c = name; *c; c++)
		*c |= 'A' <= *c && *c <= 'Z' ? 32 : 0;
	DYNTRACE_EMIT(hit, command, (const char *)name,
		      atomic_fetch_add(&commands[find(name)].count, 1) + 1,
		      dyntrace_argument(hit, 3));
}
