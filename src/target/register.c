/*
 * register.c - the agent as a library of the program: linked with -ldyntrace-agent, or preloaded.
 *
 * ld.so calls register_program before the program's main, when libraries are loaded. It looks for
 * the daemon's socket, registers the process, and waits a short time for the answer, so that
 * tracepoints that wait for this program are in place before its first instruction. Nothing else:
 * tracing uses a copy of the agent that the controller maps.
 *
 * A program must not notice. So register_program does nothing under AT_SECURE, and nothing in a
 * process that filters its system calls: a filter may kill for calls that the loader itself hasn't
 * made; the calls before that check are calls that the loader makes, too. It doesn't wait without a
 * daemon, and doesn't talk to a daemon that is neither root's nor this user's. It needs a few
 * hundred bytes of stack, keeps no descriptor, and fails silently.
 */
#include "shared/wire.h"
#include "agent_parts.h"

#define REGISTER_WAIT_NS 2000000000ULL
#define AT_NULL 0
#define AT_SECURE 23
#define ARGUMENTS_MAX (1u << 20)
#define STACK_MAX (64u << 20)
#define AF_UNIX 1
#define SOCKET_TYPE (1 | 02000000 | 04000) /* a stream, close-on-exec, non-blocking */
#define SOL_SOCKET 1
#define SO_PEERCRED 17
#define MSG_NOSIGNAL 0x4000
#define POLLIN 1
#define EINTR 4
#define PR_SET_PTRACER 0x59616d61
#define PATH_SIZE 108
#define AGENTS_SUFFIX WIRE_SOCKET_AGENTS

struct register_address {
	uint16_t family;
	char path[PATH_SIZE];
};

/* Facts from the kernel and the environment. */
struct register_environment {
	bool trusted; /* not AT_SECURE */
	bool preloaded;
	char socket[PATH_SIZE]; /* "": not set */
	char runtime[PATH_SIZE];
};

/* ---- files, through a small window ----------------------------------------------------------- */

struct register_reader {
	int64_t fd;
	uint32_t at, end;
	char bytes[512];
};

static bool register_open(struct register_reader *reader, const char *path)
{
	reader->at = reader->end = 0;
	reader->fd = sys_call6(SYS_OPENAT, SYS_AT_FDCWD, (uint64_t)path, SYS_O_CLOEXEC, 0, 0, 0);
	return reader->fd >= 0;
}

static void register_close(const struct register_reader *reader)
{
	sys_call3(SYS_CLOSE, (uint64_t)reader->fd, 0, 0);
}

/* The next byte; -1: end of file. */
static int register_byte(struct register_reader *reader)
{
	if (reader->at == reader->end) {
		int64_t got = sys_call3(SYS_READ, (uint64_t)reader->fd, (uint64_t)reader->bytes,
					sizeof(reader->bytes));

		if (got <= 0)
			return -1;
		reader->at = 0;
		reader->end = (uint32_t)got;
	}
	return (unsigned char)reader->bytes[reader->at++];
}

/* The next `count` bytes; false: the file has fewer. */
static bool register_bytes(struct register_reader *reader, char *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		int c = register_byte(reader);

		if (c < 0)
			return false;
		bytes[i] = (char)c;
	}
	return true;
}

/* The next text up to `end`, as far as it fits; false: end of file. */
static bool register_text(struct register_reader *reader, char end, char *text, uint32_t room)
{
	uint32_t length = 0;
	int c = register_byte(reader);

	if (c < 0)
		return false;
	for (; c >= 0 && c != end; c = register_byte(reader)) {
		if (length + 1 < room)
			text[length++] = (char)c;
	}
	text[length] = '\0';
	return true;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* The rest after the prefix; NULL: it has another prefix. */
static const char *register_behind(const char *text, const char *beginning)
{
	for (; *beginning; text++, beginning++) {
		if (*text != *beginning)
			return 0;
	}
	return text;
}

static bool register_contains(const char *text, const char *word)
{
	for (; *text; text++) {
		if (register_behind(text, word))
			return true;
	}
	return false;
}

/* Appends; false: no room. */
static bool register_append(char *to, uint32_t room, const char *text)
{
	uint32_t length = 0;

	while (to[length])
		length++;
	for (; *text; text++) {
		if (length + 1 >= room)
			return false;
		to[length++] = *text;
		to[length] = '\0';
	}
	return true;
}

/* ---- the auxiliary vector -------------------------------------------------------------------- */

static void register_note(struct register_environment *environment, const char *text)
{
	const char *value = register_behind(text, WIRE_SOCKET_ENV "=");

	if (value)
		register_append(environment->socket, PATH_SIZE, value);
	value = register_behind(text, "XDG_RUNTIME_DIR=");
	if (value)
		register_append(environment->runtime, PATH_SIZE, value);
	value = register_behind(text, "LD_PRELOAD=");
	if (value)
		environment->preloaded = register_contains(value, "dyntrace-agent");
}

static void register_note_pair(struct register_environment *environment, const uint64_t *pair)
{
	if (pair[0] == AT_SECURE)
		environment->trusted = pair[1] == 0;
}

/* glibc passes the arguments of main. If they are as the kernel laid them out, the auxiliary vector
 * follows. */
static void register_read_stack(struct register_environment *environment, uint64_t argc,
				const uint64_t *argv, const uint64_t *envp)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0);

	if (argc > ARGUMENTS_MAX || (uint64_t)argv % 8 || (uint64_t)argv < here ||
	    (uint64_t)argv - here > STACK_MAX || envp != argv + argc + 1)
		return;
	for (; *envp; envp++)
		register_note(environment, (const char *)*envp);
	for (envp++; envp[0] != AT_NULL; envp += 2)
		register_note_pair(environment, envp);
}

/* Otherwise, and with musl, /proc has it. */
static void register_read_files(struct register_environment *environment)
{
	struct register_reader reader;
	char text[PATH_SIZE + 32];
	uint64_t pair[2];

	if (!register_open(&reader, "/proc/self/auxv"))
		return;
	while (register_bytes(&reader, (char *)pair, sizeof(pair)))
		register_note_pair(environment, pair);
	register_close(&reader);
	if (!environment->trusted || !register_open(&reader, "/proc/self/environ"))
		return;
	while (register_text(&reader, '\0', text, sizeof(text)))
		register_note(environment, text);
	register_close(&reader);
}

/* ---- permission ------------------------------------------------------------------------------ */

static bool register_is_filtered(void)
{
	struct register_reader reader;
	char line[32];
	bool filtered = true;

	if (!register_open(&reader, "/proc/self/status"))
		return true;
	while (register_text(&reader, '\n', line, sizeof(line))) {
		const char *mode = register_behind(line, "Seccomp:\t");

		if (mode)
			filtered = *mode != '0';
	}
	register_close(&reader);
	return filtered;
}

/* ---- the daemon's socket --------------------------------------------------------------------- */

static bool register_exists(const char *path)
{
	return sys_call3(SYS_ACCESS, (uint64_t)path, 0, 0) == 0;
}

/* Connects to one daemon: to its socket for agents, which every user may connect to, else to its
 * main socket. */
static bool register_try(const char *folder, const char *name, char *path)
{
	for (int plain = 0; plain < 2; plain++) {
		path[0] = '\0';
		if (register_append(path, PATH_SIZE, folder) &&
		    register_append(path, PATH_SIZE, name) &&
		    (plain || register_append(path, PATH_SIZE, AGENTS_SUFFIX)) &&
		    register_exists(path))
			return true;
	}
	return false;
}

static bool register_find(const struct register_environment *environment, char *path)
{
	if (environment->socket[0])
		return register_try(environment->socket, "", path);
	if (environment->runtime[0] &&
	    register_try(environment->runtime, "/" WIRE_SOCKET_USER, path))
		return true;
	return register_try(WIRE_SOCKET_ROOT, "", path);
}

/* ---- registration ---------------------------------------------------------------------------- */

/* Is the daemon root's or this user's? Then allow it to trace this process, also where only parents
 * may. Not pid 1, which stands for every program that it started. */
static bool register_trusts(int64_t fd)
{
	uint32_t peer[3] = { 0, ~0u, ~0u }; /* pid, uid, gid */
	uint32_t size = sizeof(peer);

	if (sys_call6(SYS_GETSOCKOPT, (uint64_t)fd, SOL_SOCKET, SO_PEERCRED, (uint64_t)peer,
		      (uint64_t)&size, 0) != 0)
		return false;
	if (peer[1] != 0 && peer[1] != (uint32_t)sys_call3(SYS_GETEUID, 0, 0, 0))
		return false;
	if (peer[0] > 1)
		sys_call6(SYS_PRCTL, PR_SET_PTRACER, peer[0], 0, 0, 0, 0);
	return true;
}

/* Receives exactly that many bytes before the deadline, into `to` unless NULL. */
static bool register_receive(int64_t fd, uint64_t end, char *to, uint64_t count)
{
	struct {
		int32_t fd;
		int16_t events, revents;
	} wait = { (int32_t)fd, POLLIN, 0 };
	char unwanted[64];

	while (count) {
		uint64_t now = sys_now_ns(),
			 want = to || count < sizeof(unwanted) ? count : sizeof(unwanted);

		if (now >= end)
			return false;
		int64_t ready = sys_call3(SYS_POLL, (uint64_t)&wait, 1, (end - now) / 1000000 + 1);
		if (ready == -EINTR)
			continue;
		int64_t got = ready > 0 ? sys_call6(SYS_RECVFROM, (uint64_t)fd,
						    (uint64_t)(to ? to : unwanted), want, 0, 0, 0) :
					  0;
		if (got <= 0)
			return false;
		count -= (uint64_t)got;
		to = to ? to + got : to;
	}
	return true;
}

static void register_await(int64_t fd)
{
	uint64_t end = sys_now_ns() + REGISTER_WAIT_NS;
	struct wire_header header;

	do {
		if (!register_receive(fd, end, (char *)&header, sizeof(header)) ||
		    header.magic != WIRE_MAGIC || header.length > WIRE_MESSAGE_MAX)
			return;
	} while (register_receive(fd, end, 0, header.length) && header.kind != WIRE_REPLY);
}

static bool register_say(int64_t fd, bool preloaded)
{
	struct {
		struct wire_header header;
		struct wire_attribute attribute;
		char text[12];
	} message = { .header = { .magic = WIRE_MAGIC,
				  .version = WIRE_VERSION,
				  .kind = WIRE_REGISTER,
				  .sequence = 1 },
		      .attribute = { .tag = WIRE_LOADED } };
	const char *text = preloaded ? "preloaded" : "linked";
	uint32_t length = 0;

	do
		message.text[length] = text[length];
	while (text[length++]);
	message.attribute.length = length;
	message.header.length = (uint32_t)sizeof(message.attribute) + length;
	uint64_t size = sizeof(message.header) + message.header.length;
	return sys_call6(SYS_SENDTO, (uint64_t)fd, (uint64_t)&message, size, MSG_NOSIGNAL, 0, 0) ==
	       (int64_t)size;
}

static void register_at(const char *path, bool preloaded)
{
	struct register_address address = { .family = AF_UNIX };
	int64_t fd = sys_call3(SYS_SOCKET, AF_UNIX, SOCKET_TYPE, 0);

	if (fd < 0)
		return;
	register_append(address.path, PATH_SIZE, path);
	if (sys_call3(SYS_CONNECT, (uint64_t)fd, (uint64_t)&address, sizeof(address)) == 0 &&
	    register_trusts(fd) && register_say(fd, preloaded))
		register_await(fd);
	sys_call3(SYS_CLOSE, (uint64_t)fd, 0, 0);
}

/* DT_INIT, called by ld.so. musl passes no arguments. */
void register_program(uint64_t argc, const uint64_t *argv, const uint64_t *envp)
{
	struct register_environment environment = { .trusted = false };
	char path[PATH_SIZE];

	register_read_stack(&environment, argc & 0xffffffff, argv, envp);
	if (!environment.trusted) {
		environment.socket[0] = environment.runtime[0] = '\0';
		register_read_files(&environment);
	}
	if (environment.trusted && register_find(&environment, path) && !register_is_filtered())
		register_at(path, environment.preloaded);
}
