/*
 * process_names.c
 *
 * A process that nobody has seen alive has the name of the program that its first event is of: a
 * fork that ended soon.
 *
 * A process may change its name at any time. Its name is read anew for a packet, but at most once
 * per millisecond: small packets come so fast that the files of /proc took most of the reader's
 * time.
 */
#include "process_names.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/base/vec.h"
#include "follow_state.h"
#include "shared/sorted.h"

#define NAME_NS 1000000u /* a name that was read is believed for so long */
#define KNOWN_MANY 4096 /* from here on, processes that have ended are forgotten */

struct known_process {
	pid_t pid;
	uint64_t since; /* clock */
	uint64_t read_ns; /* when the name was last asked for; 0: never */
	char name[WRITER_PROCESS_SIZE];
};

/* The file of a program. */
struct program_file {
	dev_t device;
	ino_t inode;
};

struct process_names {
	VEC(struct known_process) known; /* by pid, then by clock */
	VEC(struct program_file) programs; /* the target's, and those that were followed */
	size_t many; /* entries at which ended processes are looked for */
};

/* ---- programs -------------------------------------------------------------------------------- */

static bool find_file(pid_t pid, struct program_file *ret_file)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st))
		return false;
	*ret_file = (struct program_file){ st.st_dev, st.st_ino };
	return true;
}

static bool is_program(const struct process_names *names, const struct program_file *file)
{
	for (size_t i = 0; i < names->programs.count; i++) {
		if (names->programs.items[i].device == file->device &&
		    names->programs.items[i].inode == file->inode)
			return true;
	}
	return false;
}

static void note_program(struct process_names *names, pid_t pid)
{
	struct program_file file;

	if (find_file(pid, &file) && !is_program(names, &file))
		vec_push(&names->programs, file); /* without memory: its name isn't followed */
}

bool process_names_create(struct session *session)
{
	session->names = calloc(1, sizeof(*session->names));
	if (!session->names)
		return false;
	session->names->many = KNOWN_MANY;
	note_program(session->names, session->proc->pid);
	return true;
}

void process_names_free(struct session *session)
{
	if (session->names) {
		vec_free(&session->names->known);
		vec_free(&session->names->programs);
	}
	free(session->names);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void forget_ended(struct process_names *names)
{
	size_t kept = 0;

	if (names->known.count < names->many)
		return;
	for (size_t i = 0; i < names->known.count; i++) {
		if (!kill(names->known.items[i].pid, 0))
			names->known.items[kept++] = names->known.items[i];
	}
	names->known.count = kept;
	names->many = 2 * kept + KNOWN_MANY;
}

/* The number of entries up to that clock of the process. */
static size_t count_until(const struct process_names *names, pid_t pid, uint64_t clock)
{
	const struct known_process *known = names->known.items;

	return sorted_count(names->known.count, i,
			    known[i].pid < pid || (known[i].pid == pid && known[i].since <= clock));
}

static void insert(struct process_names *names, pid_t pid, uint64_t since, const char *name)
{
	forget_ended(names);
	size_t at = count_until(names, pid, since);
	if (!vec_reserve(&names->known, 1))
		return;
	struct known_process *entry = &names->known.items[at];
	memmove(entry + 1, entry, (names->known.count - at) * sizeof(*entry));
	names->known.count++;
	*entry = (struct known_process){ .pid = pid, .since = since };
	snprintf(entry->name, sizeof(entry->name), "%s", name);
}

/* The process's entry at that clock; NULL: unknown. */
static struct known_process *find(const struct process_names *names, pid_t pid, uint64_t clock)
{
	size_t count = count_until(names, pid, clock);

	return count && names->known.items[count - 1].pid == pid ? &names->known.items[count - 1] :
								    NULL;
}

void process_names_exec(struct session *session, pid_t pid, const char *before, const char *name)
{
	struct process_names *names = session->names;
	uint64_t now = __rdtsc();

	if (!find(names, pid, now))
		insert(names, pid, 0, before);
	insert(names, pid, now, name);
	note_program(names, pid);
}

/* False: it has ended, or runs a program that isn't traced. */
static bool read_name(const struct process_names *names, pid_t pid,
		      char ret_name[WRITER_PROCESS_SIZE])
{
	struct program_file file;
	char path[64], text[WRITER_PROCESS_SIZE + 1];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	/* after the name: a program that begins in between has another file */
	if (length <= 0 || !find_file(pid, &file) || !is_program(names, &file))
		return false;
	text[length] = '\0';
	text[strcspn(text, "\n")] = '\0';
	snprintf(ret_name, WRITER_PROCESS_SIZE, "%.*s", WRITER_PROCESS_SIZE - 1, text);
	return true;
}

/* The program that the event belongs to. */
static const char *find_program(const struct session *session, uint64_t id)
{
	const struct follow *follow = session->follow;

	for (size_t i = 0; i < follow->rows.count; i++) {
		const struct follow_row *row = &follow->rows.items[i];
		const char *at = strrchr(row->name, '@');

		if (at && (row->id == id || (row->has_exit && row->id + 1 == id)))
			return at + 1;
	}
	return session->proc->comm;
}

void process_names_find(void *context, struct packet *packet)
{
	const struct session *session = context;
	struct process_names *names = session->names;
	pid_t pid = (pid_t)packet->pid;
	struct known_process *entry = find(names, pid, packet->begin);
	bool is_last = !entry || entry == find(names, pid, UINT64_MAX);
	uint64_t id = DT_EVENT_ID_MASK; /* of no event */
	uint64_t now = now_ns();
	bool is_due = is_last && (!entry || now - entry->read_ns >= NAME_NS);
	char name[WRITER_PROCESS_SIZE];

	assert(packet->size == 0 || packet->events);
	if (entry && is_due)
		entry->read_ns = now;
	if (pid && is_due && read_name(names, pid, name)) {
		if (entry)
			memcpy(entry->name, name, sizeof(name));
		else if (!find(names, pid, UINT64_MAX))
			insert(names, pid, 0, name);
		entry = find(names, pid, packet->begin);
	}
	if (!entry && packet->size)
		memcpy(&id, packet->events, sizeof(id));
	const char *found = entry ? entry->name : find_program(session, id & DT_EVENT_ID_MASK);
	memset(packet->process, 0, sizeof(packet->process));
	memcpy(packet->process, found, strnlen(found, sizeof(packet->process) - 1));
}
