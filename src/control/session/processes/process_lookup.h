/*
 * process_lookup.h - which process is it that a record of the pool names?
 *
 * Ids in the pool are those of the pid namespace in which their process is, which may be another
 * one than the target's: a container runtime forks into new ones. So each process of a pool also
 * has a number (dt_state.process), which is in its memory.
 *
 * (K3) A process is taken for ended only if no process had its number after the record was made.
 */
#ifndef DYNTRACE_PROCESS_LOOKUP_H
#define DYNTRACE_PROCESS_LOOKUP_H

#include "control/session/state/session_state.h"

enum lookup { LOOKUP_FOUND, LOOKUP_ENDED, LOOKUP_UNKNOWN };

struct traced_process {
	uint32_t number;
	pid_t pid; /* in our pid namespace; 0: it has ended */
	bool inside; /* in another pid namespace than ours, if known */
};

bool process_lookup_create(struct session *session);
void process_lookup_free(struct session *session);

/* `pid`: its own word for its pid. `since`: a clock at which it lived. */
enum lookup process_lookup(struct session *root, uint32_t number, uint32_t pid, uint64_t since,
			   struct traced_process *ret_process);

/* The id in our pid namespace of a process or thread, by its id in the pid namespace of `like`.
 * UNKNOWN: this kernel can't tell (before Linux 6.11). */
enum lookup process_lookup_id(pid_t like, uint32_t inner, uint32_t *ret_id);
/* The same for a process, where the kernel can't tell: looks at all. 0: none. */
uint32_t process_lookup_inner(pid_t like, uint32_t inner);
/* The last number of NSpid in a file `status`: the id in the innermost namespace. 0: unknown. */
uint32_t process_lookup_nspid(const char *path);
/* Is the process in our pid namespace, as far as can be told? */
bool process_lookup_is_ours(pid_t pid);

#endif
