/*
 * A tool of Valgrind's is a static program, linked for an address of its own where neither
 * programs nor libraries are. In its text are replacements of signal trampoline and vsyscalls, side
 * by side, which no other program has like this.
 */
#include "valgrind.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <sys/auxv.h>
#include <sys/mman.h>

#include "control/base/cleanup.h"
#include "proc_status.h"

#define TEXT_MAX (64u << 20) /* that of a tool has 2 MiB */

/* where amd64's tools are linked, now and formerly (the second choice, too) */
static const uint64_t tool_bases[] = { 0x58000000, 0x38000000 };

static const uint8_t replacements[] = {
	0x48, 0xc7, 0xc0, 15,	0, 0, 0, 0x0f, 0x05, /* mov $__NR_rt_sigreturn, %rax; syscall */
	0x0f, 0x0b, /* ud2 */
	0x48, 0xc7, 0xc0, 96,	0, 0, 0, 0x0f, 0x05, 0xc3, /* mov $__NR_gettimeofday...; ret */
	0x48, 0xc7, 0xc0, 0xc9, 0, 0, 0, 0x0f, 0x05, 0xc3, /* mov $__NR_time...; ret */
};

struct start {
	uint64_t headers, entry, interpreter; /* 0: unknown, or none */
};

static struct start read_start(const struct proc *proc)
{
	_cleanup_close_ int fd = proc_status_open(proc->pid, "auxv", O_RDONLY);
	struct start start = { 0 };
	uint64_t pair[2];

	while (fd >= 0 && read(fd, pair, sizeof(pair)) == sizeof(pair) && pair[0] != AT_NULL) {
		if (pair[0] == AT_PHDR)
			start.headers = pair[1];
		else if (pair[0] == AT_ENTRY)
			start.entry = pair[1];
		else if (pair[0] == AT_BASE)
			start.interpreter = pair[1];
	}
	return start;
}

static bool may_be_tool(const struct start *start)
{
	for (size_t i = 0; i < sizeof(tool_bases) / sizeof(tool_bases[0]); i++) {
		if (!start->interpreter && start->headers - tool_bases[i] < 4096)
			return true;
	}
	return false;
}

static bool has_replacements(struct proc *proc, const struct mapping *text)
{
	size_t size = text->end.v - text->start.v;
	_cleanup_free_ uint8_t *bytes = size <= TEXT_MAX ? malloc(size) : NULL;

	if (!bytes)
		return false;
	_cleanup_error_ struct error *unreadable = mem_read(proc, text->start, bytes, size);
	return !unreadable && memmem(bytes, size, replacements, sizeof(replacements));
}

struct error *valgrind_refuse(struct proc *proc)
{
	struct start start = read_start(proc);
	struct maps maps = { 0 };
	bool found = false;

	if (!may_be_tool(&start))
		return NULL;
	_cleanup_error_ struct error *unreadable = maps_read(proc, &maps);
	const struct mapping *text = maps_find(&maps, taddr_of(start.entry));
	if (text && (text->prot & PROT_EXEC))
		found = has_replacements(proc, text);
	maps_free(&maps);
	if (!found)
		return NULL;
	return error_new(ERROR_FAILED,
			 "process %d (%s) is run by Valgrind, which executes a translation of its "
			 "code: trace the program without Valgrind",
			 proc->pid, proc->comm);
}
