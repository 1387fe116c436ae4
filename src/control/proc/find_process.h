/*
 * find_process.h - processes by name.
 *
 * A process is called by its comm or by its executable's file name. Reading those doesn't touch the
 * process's memory, and so can't be held up by it. Kernel threads and this process aren't found.
 */
#ifndef DYNTRACE_FIND_PROCESS_H
#define DYNTRACE_FIND_PROCESS_H

#include "proc.h"

/* The executable's file name, also if the file was deleted or replaced since; cut where it doesn't
 * fit; "" if the kernel doesn't say. */
void find_process_executable(pid_t pid, char *ret_name, size_t size);

/* Adds every process that is called `name`. `by_argument`: argv[0]'s file name counts, too, which
 * is read from the process's memory. */
struct error *find_process_all(const char *name, bool by_argument, struct tids *ret_pids);

/* Writes the text to show of a process beside its pid; "" leaves its name. */
typedef void (*find_process_describe_fn)(pid_t pid, char *ret_text, size_t size);

/* Arguments of the process, for find_process_several. */
void find_process_by_arguments(pid_t pid, char *ret_text, size_t size);

/* Adds the children of these processes, their children and so on, as far as they are alive. */
struct error *find_process_children(struct tids *pids);

/* The error for a name that several processes have: lists some of them. */
struct error *find_process_several(const char *name, const struct tids *pids, const char *advice,
				   find_process_describe_fn describe);

#endif
