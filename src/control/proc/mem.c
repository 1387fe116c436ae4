/*
 * mem.c - read and write another process's memory through /proc/PID/mem.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "proc.h"
#include "proc_status.h"

void mem_set_stopped_thread(struct proc *proc, pid_t tid)
{
	proc->poke_tid = tid;
}

struct error *mem_open(struct proc *proc)
{
	if (proc->mem_fd >= 0)
		return NULL;
	proc->mem_fd = proc_status_open(proc->pid, "mem", O_RDWR);
	if (proc->mem_fd >= 0)
		return NULL;
	if (errno == ESRCH || !proc_is_alive(proc))
		return error_new(ERROR_GONE, "process %d has ended", proc->pid);
	return error_errno(errno, "cannot open the memory of process %d", proc->pid);
}

static struct error *mem_fail(const struct proc *proc, int number, const char *verb, taddr at)
{
	if (!proc_is_alive(proc))
		return error_new(ERROR_GONE, "process %d has ended", proc->pid);
	if (number == EIO)
		return error_new(ERROR_FAILED,
				 "cannot %s memory of process %d at 0x%" PRIx64 ": %s", verb,
				 proc->pid, at.v, "nothing is mapped there");
	return error_errno(number, "cannot %s memory of process %d at 0x%" PRIx64, verb, proc->pid,
			   at.v);
}

struct error *mem_read(struct proc *proc, taddr from, void *to, size_t n)
{
	struct error *err = mem_open(proc);

	for (size_t done = 0; !err && done < n;) {
		ssize_t got =
			pread(proc->mem_fd, (char *)to + done, n - done, (off_t)(from.v + done));

		if (got > 0) {
			done += (size_t)got;
		} else if (got == 0) {
			err = proc_gone(proc); /* with the address space that it stood for */
		} else if (errno != EINTR) {
			err = mem_fail(proc, errno, "read", taddr_add(from, (int64_t)done));
		}
	}
	return err;
}

/* Have we a filter that the process may have, too? Such a filter may kill for the call, and nobody
 * can read it (fence/trial.h). */
static bool is_behind_filter(const struct proc *proc)
{
	static int filtered = -1;
	struct thread_status status = { 0 };

	if (!proc->inherits)
		return false;
	if (filtered < 0) {
		_cleanup_error_ struct error *error =
			proc_status_read(getpid(), getpid(), &status);
		filtered = error || status.seccomp;
	}
	return filtered;
}

bool mem_read_many(const struct proc *proc, const struct mem_piece *pieces, size_t count)
{
	struct iovec here[MEM_PIECES_MAX], there[MEM_PIECES_MAX];
	size_t sum = 0;

	if (!proc->poke_tid || count > MEM_PIECES_MAX || is_behind_filter(proc))
		return false;
	for (size_t i = 0; i < count; i++) {
		here[i] = (struct iovec){ pieces[i].to, pieces[i].size };
		there[i] = (struct iovec){ (void *)pieces[i].from.v, pieces[i].size };
		sum += pieces[i].size;
	}
	return process_vm_readv(proc->poke_tid, here, count, there, count, 0) == (ssize_t)sum;
}

/* Writes word by word through ptrace, which works where the kernel forbids forced writes through
 * /proc/PID/mem. */
static bool mem_poke(struct proc *proc, taddr to, const void *from, size_t n)
{
	const char *source = from;

	while (n) {
		uint64_t at = to.v & ~7ULL, skip = to.v - at;
		size_t part = 8 - skip < n ? 8 - skip : n;

		errno = 0;
		long word = ptrace(PTRACE_PEEKTEXT, proc->poke_tid, at, 0);
		if (word == -1 && errno)
			return false;
		memcpy((char *)&word + skip, source, part);
		if (ptrace(PTRACE_POKETEXT, proc->poke_tid, at, word))
			return false;
		to = taddr_add(to, (int64_t)part);
		source += part;
		n -= part;
	}
	return true;
}

struct error *mem_write(struct proc *proc, taddr to, const void *from, size_t n)
{
	struct error *err = mem_open(proc);

	for (size_t done = 0; !err && done < n;) {
		const char *source = (const char *)from + done;
		taddr at = taddr_add(to, (int64_t)done);
		ssize_t put = pwrite(proc->mem_fd, source, n - done, (off_t)at.v);

		if (put > 0) {
			done += (size_t)put;
		} else if (put == 0) {
			err = proc_gone(proc);
		} else if (errno != EINTR) {
			int number = errno;

			if (proc->poke_tid && mem_poke(proc, at, source, n - done))
				return NULL;
			err = mem_fail(proc, number, "write", at);
		}
	}
	return err;
}
