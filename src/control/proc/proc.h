/*
 * proc.h - another process: identity, memory, mappings, threads.
 *
 * Nothing here stops or changes the process, except mem_write. The caller of proc_open owns the
 * struct proc. Every call fails with ERROR_GONE once the process has ended.
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
#include "control/fence/answers.h"
#include "control/fence/verdict.h"

struct asker; /* judged.h */

struct proc {
	pid_t pid; /* as seen from here */
	pid_t inner_pid; /* in its own pid namespace (last of NSpid) */
	bool nested; /* that namespace isn't ours: its threads have other numbers there */
	int pidfd;
	int mem_fd; /* /proc/PID/mem, read+write; -1 until first used */
	uint64_t start_time; /* clock ticks after boot: tells a reused pid apart */
	uint64_t generation; /* of its program (proc_guise.h); 0: unknown */
	uid_t acting_uid; /* when it was opened */
	char comm[64];
	char *exe; /* target of the link /proc/PID/exe; "" if unreadable */

	pid_t poke_tid; /* held thread for mem_write's fallback; 0: none */
	/* begun by a command of ours, or in our container: seccomp filters that we have, too, are
	 * ours */
	bool inherits;
	bool may_suspend; /* its filters may be suspended while we make a call in it (remote.h) */
	uint64_t suspended; /* number of such calls so far */
	bool filtered; /* a thread had a seccomp filter when it was opened (H26) */
	struct answers answers; /* of its filters, to us who read them */
	const struct asker *asker; /* reads its filters for us; NULL: nobody does */
	struct fence_verdict verdict; /* what the asker said (judged.h) */
	bool names_no_files; /* files that its memory names aren't opened: we have more rights */
	bool own_child; /* a child of this process: another part of it waits for the child's end */
	bool reaped; /* waitpid reported its end while it was held, with reaped_status */
	int reaped_status;
	pid_t held_tid; /* thread that launch keeps in a ptrace stop; 0: none */
	/* mappings as they were just before a stop, borrowed: what is found in them is checked
	 * again (S15); NULL: unknown */
	const struct maps *maps_before;
	bool maps_current; /* they were read in the stop, and nobody maps anything meanwhile */
	/* the page for calls made ahead (remote/ahead.h), in our mapping and in the target; NULL:
	 * none */
	uint8_t *desk;
	taddr desk_there;
	/* cache of syscall_gadget_find; 0: not searched yet */
	uint64_t gadget_call; /* `syscall; ret` */
	uint64_t gadget_restorer; /* `mov $15, %eax; syscall` */
};

/*
 * Opens a process to trace it. Refuses, each time with one line that says what to do: no such
 * process, not permitted, kernel thread, zombie (a zombie leader with live threads is fine),
 * 32-bit, run by Valgrind, another tracer attached (its pid and name), seccomp strict mode, or a
 * filter that we may not read (H26). What a filter says to our calls shows in a stop (fence.h).
 */
struct error *proc_open(pid_t pid, struct proc **ret_proc);
/* Opens a process to trace it, in a worker that may not read filters. The asker outlives the
 * struct proc. */
struct error *proc_open_asking(pid_t pid, const struct asker *asker, struct proc **ret_proc);
/* Opens a process that `parent` has forked, to trace it. Asks for its own filters (judged.h). */
struct error *proc_open_forked(pid_t pid, const struct proc *parent, struct proc **ret_proc);
/* Opens without these refusals, for read-only use (list-symbols) and for our own children. */
struct error *proc_open_plain(pid_t pid, struct proc **ret_proc);
void proc_close(struct proc *proc);
static inline void cleanup_proc(struct proc **proc)
{
	proc_close(*proc);
}
/* What holds for filters of the parent holds for those of its child, or of a program it begins. */
static inline void proc_take_after(struct proc *child, const struct proc *parent)
{
	child->inherits = parent->inherits;
	child->may_suspend = parent->may_suspend;
	child->asker = parent->asker;
	child->verdict = parent->verdict; /* E3 */
}

/* kernel.yama.ptrace_scope, '0' to '3'; '0' on a kernel without Yama. From '1' on the rights of a
 * process's user aren't enough to trace it. */
char proc_ptrace_scope(void);

/* Inside a container: does a thread of the process with that many seccomp filters have the same as
 * we? */
bool proc_has_our_filters(pid_t pid, int filters);

/* False once the process is gone, or a zombie without live threads. */
bool proc_is_alive(const struct proc *proc);

/* (H33) Does it run the program that it ran when it was opened? `tid`: one of its live threads. A
 * struct proc is for one program: stop_* refuse another, and its memory is never opened again.
 * False, and errno tells why, also if nobody can look. */
bool proc_runs_same(const struct proc *proc, pid_t tid);
/* True: it certainly runs another program by now. */
bool proc_has_left(const struct proc *proc);
/* The error for a program that isn't there any more: its process has ended, or has begun
 * another. */
struct error *proc_gone(const struct proc *proc);

/* TARGET of the command line: digits are a pid, anything else is compared with comm and the
 * executable's file name. Fails if no process matches; if several do, the error lists them (pid and
 * command line). */
struct error *proc_find(const char *target, pid_t *ret_pid);

/* The command line, arguments separated by spaces, unprintable bytes as '?'. Caller frees. */
struct error *proc_cmdline(const struct proc *proc, char **ret_line);

/* ---- memory (mem.c) ------------------------------------------------------------------------- */

/* Transfers all n bytes or fails. The process needn't be stopped; mem_write ignores page
 * protections (text). Where the kernel forbids forced writes, mem_write falls back to
 * PTRACE_POKETEXT on the thread of mem_set_stopped_thread. */
struct error *mem_read(struct proc *proc, taddr from, void *to, size_t n);
struct error *mem_write(struct proc *proc, taddr to, const void *from, size_t n);
/* Opens /proc/PID/mem, which mem_read and mem_write do when they first need it. */
struct error *mem_open(struct proc *proc);
/* Names the thread that PTRACE_POKETEXT may use; stop_* and stop_release set it. 0: none. */
void mem_set_stopped_thread(struct proc *proc, pid_t tid);

#define MEM_PIECES_MAX 128
struct mem_piece {
	taddr from;
	void *to;
	size_t size;
};
/* While a thread of the process is held: reads up to MEM_PIECES_MAX pieces by one system call,
 * which is quicker than as many calls of mem_read. False: not all could be read (use mem_read,
 * which says why). */
bool mem_read_many(const struct proc *proc, const struct mem_piece *pieces, size_t count);

/* ---- mappings (maps.c) ----------------------------------------------------------------------- */

struct mapping {
	taddr start;
	taddr end;
	int prot; /* PROT_* */
	bool shared;
	uint64_t offset;
	uint64_t device; /* makedev of the line's MAJOR:MINOR */
	uint64_t inode;
	char *path; /* "" when anonymous */
};

struct maps {
	struct mapping *items; /* sorted by address */
	size_t count;
	size_t room;
};

struct error *maps_read(const struct proc *proc, struct maps *ret_maps);
/* Reads the text of such a file, which it cuts into lines. */
struct error *maps_parse(char *text, struct maps *ret_maps);
const struct mapping *maps_find(const struct maps *maps, taddr address); /* NULL: not mapped */
/* Is it dyntrace's, by its name: code, or memory for events? It goes away with the probes. */
bool mapping_is_ours(const struct mapping *mapping);
bool mapped_path_is_ours(const char *path); /* the same of a path alone, or of a descriptor's */
/* Private memory without a file, to be read and written? The kernel may have made it executable,
 * too (READ_IMPLIES_EXEC). */
bool mapping_is_private_data(const struct mapping *mapping);
/* Is there such memory that has these very bounds? */
bool maps_has_exactly(const struct maps *maps, taddr at, uint64_t size);
/* Marks a free range as mapped, for later searches. False: out of memory. */
bool maps_claim(struct maps *maps, taddr at, uint64_t size);
/* The one mapping that has the address now, without its path, by an open /proc/PID/maps; empty:
 * none has. False: the kernel can't say (before Linux 6.11). */
bool maps_ask(int fd, taddr at, struct mapping *ret_mapping);
/* (S15) Nothing is unmapped or dropped by a line that was read before the stop and that the kernel
 * doesn't confirm in it.
 *
 * Is the mapping still as it was read? Asks for it alone, which takes a hundredth of the time of
 * maps_read. False also if the kernel can't say (before Linux 6.11). */
bool maps_confirm(const struct proc *proc, const struct mapping *mapping);
void maps_free(struct maps *maps);

/* ---- threads (threads.c) --------------------------------------------------------------------- */

struct tids {
	pid_t *items;
	size_t count;
	size_t room;
};

/* Lists the current threads, in the kernel's order (the leader first unless it has exited). */
struct error *threads_list(const struct proc *proc, struct tids *ret_tids);

#endif
