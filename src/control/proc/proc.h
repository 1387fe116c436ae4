/*
 * proc.h - a process that isn't ours: identity, memory, mappings, threads.
 *
 * Nothing here stops or changes the process, except mem_write. A struct proc is owned by who opened
 * it. Every call fails with ERROR_GONE once the process has ended.
 */
#ifndef DYNTRACE_PROC_H
#define DYNTRACE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/taddr.h"
#include "control/base/error.h"
#include "control/base/vec.h"

struct proc {
	pid_t pid; /* as seen from here */
	pid_t inner_pid; /* in its own pid namespace (last of NSpid) */
	int pidfd;
	int mem_fd; /* /proc/PID/mem, read+write; -1 until first used */
	uint64_t start_time; /* clock ticks after boot: tells a reused pid apart */
	char comm[64];
	char *exe; /* what /proc/PID/exe points to; "" if it can't be read */

	pid_t poke_tid; /* held thread for mem_write's fallback; 0: none */
	bool own_child; /* of this process, and somebody here waits for its end */
	bool reaped; /* its end was seen by wait (while it was held): reaped_status is waitpid's */
	int reaped_status;
	pid_t held_tid; /* launch keeps this thread in a ptrace stop of ours; 0: none */
	/* where remote calls found `syscall; ret` last, 0: not looked for yet */
	uint64_t gadget_call;
	uint64_t gadget_restorer; /* and `mov $15, %eax; syscall` */
};

/*
 * Opens a process to trace it. Refuses, with one line each that says what to do: no such process,
 * not permitted, kernel thread, zombie (a zombie leader with live threads is fine), 32-bit, another
 * tracer attached (its pid and name), seccomp strict mode or a filter (H26).
 */
struct error *proc_open(pid_t pid, struct proc **ret_proc);
/* The same without the refusals, for looking only (list-symbols) and for our own children. */
struct error *proc_open_plain(pid_t pid, struct proc **ret_proc);
void proc_close(struct proc *proc);

/* kernel.yama.ptrace_scope, '0' to '3'; '0' where there is none. From '1' on its user's rights
 * aren't enough to trace a process. */
char proc_ptrace_scope(void);

/* True while it runs; false when it is a zombie without threads or gone. */
bool proc_is_alive(const struct proc *proc);

/* TARGET of the command line: all digits is a pid; else comm or the executable's file name.
 * None: an error that says so. Several: an error that lists them (pid and command line). */
struct error *proc_find(const char *target, pid_t *ret_pid);

/* The command line, arguments separated by spaces, unprintable bytes as '?'. Caller frees. */
struct error *proc_cmdline(const struct proc *proc, char **ret_line);

/* ---- memory (mem.c) ------------------------------------------------------------------------- */

/* All n bytes or an error. Reading and writing don't need the process stopped; mem_write goes
 * through page protections (text). Falls back to PTRACE_POKETEXT on `tid` of a stopped thread where
 * the kernel forbids forced writes, when mem_set_stopped_thread was called. */
struct error *mem_read(struct proc *proc, taddr from, void *to, size_t n);
struct error *mem_write(struct proc *proc, taddr to, const void *from, size_t n);
/* Which thread PTRACE_POKETEXT may use; stop_* and release set it. 0: none. */
void mem_set_stopped_thread(struct proc *proc, pid_t tid);

/* ---- mappings (maps.c) ----------------------------------------------------------------------- */

struct mapping {
	taddr start;
	taddr end;
	int prot; /* PROT_* */
	bool shared;
	uint64_t offset;
	uint64_t device; /* makedev of what maps says */
	uint64_t inode;
	char *path; /* "" when anonymous */
};

struct maps {
	struct mapping *items; /* sorted by address */
	size_t count;
	size_t room;
};

struct error *maps_read(const struct proc *proc, struct maps *ret_maps);
const struct mapping *maps_find(const struct maps *maps, taddr address); /* NULL: nothing there */
/* As if something were mapped there, where nothing is. false: out of memory. */
bool maps_claim(struct maps *maps, taddr at, uint64_t size);
void maps_free(struct maps *maps);

/* ---- threads (threads.c) --------------------------------------------------------------------- */

struct tids {
	pid_t *items;
	size_t count;
	size_t room;
};

/* The threads of now, in the kernel's order (the leader first unless it has exited). */
struct error *threads_list(const struct proc *proc, struct tids *ret_tids);

#endif
