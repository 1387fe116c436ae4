/*
 * alive.c - is a thread that wrote a chunk still there?
 *
 * Thread records hold ids as the target's own pid namespace counts them. Where that is ours too, /proc has
 * the answer. Elsewhere a thread counts as alive until its process ends: its last chunk is written
 * then, and by every flush before.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../base/cleanup.h"
#include "internal.h"

/* The state letter of /proc/PID/task/TID/stat; 0: no such thread. */
static char thread_state(uint32_t pid, uint32_t tid)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", pid, tid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	const char *paren = strrchr(line, ')');
	return paren && paren[1] == ' ' ? paren[2] : 0;
}

bool alive_thread(void *context, uint32_t pid, uint32_t tid)
{
	const struct session *session = context;

	if (session->proc->inner_pid != session->proc->pid)
		return proc_is_alive(session->proc);
	char state = thread_state(pid, tid);
	return state && state != 'Z' && state != 'X';
}
