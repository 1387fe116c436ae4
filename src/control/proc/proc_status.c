#include "proc_status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "shared/layout.h"
#include "proc.h"

#define THREAD_EXITING 4u /* PF_EXITING of the kernel: its memory may be gone */

char *proc_status_slurp(int fd, size_t *ret_length)
{
	size_t room = 4096, length = 0;
	char *text = malloc(room);

	while (text) {
		ssize_t n = read(fd, text + length, room - length - 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			free(text);
			return NULL;
		}
		if (n == 0)
			break;
		length += (size_t)n;
		if (room - length > 1)
			continue;
		char *more = realloc(text, room *= 2);
		if (!more)
			free(text);
		text = more;
	}
	if (!text) {
		errno = ENOMEM;
		return NULL;
	}
	text[length] = '\0';
	if (ret_length)
		*ret_length = length;
	return text;
}

static struct error *slurp_thread(pid_t pid, pid_t tid, const char *name, char **ret_text)
{
	char path[96];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = fd < 0 ? NULL : proc_status_slurp(fd, NULL);
	if (text) {
		*ret_text = text;
		return NULL;
	}
	if (errno == ENOENT || errno == ESRCH)
		return error_new(ERROR_GONE, "process %d has ended", pid);
	return error_errno(errno, "cannot read %s", path);
}

/* "TID (COMM) S ...": COMM may hold any character, so its end is the last parenthesis. */
bool proc_status_parse_stat(const char *text, struct thread_stat *ret_stat)
{
	const char *open_paren = strchr(text, '('), *close_paren = strrchr(text, ')');
	struct thread_stat stat = { 0 };
	unsigned long long start = 0;

	if (!open_paren || !close_paren || close_paren < open_paren)
		return false;
	snprintf(stat.comm, sizeof(stat.comm), "%.*s", (int)(close_paren - open_paren - 1),
		 open_paren + 1);
	if (sscanf(close_paren + 1,
		   " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%llu",
		   &stat.state, &stat.flags, &start) != 3)
		return false;
	stat.start_time = start;
	*ret_stat = stat;
	return true;
}

struct error *proc_status_read_stat(pid_t pid, pid_t tid, struct thread_stat *ret_stat)
{
	_cleanup_free_ char *text = NULL;
	struct error *err = slurp_thread(pid, tid, "stat", &text);

	if (!err && !proc_status_parse_stat(text, ret_stat))
		err = error_new(ERROR_FAILED, "cannot understand /proc/%d/task/%d/stat", pid, tid);
	return err;
}

bool proc_status_read_ran(pid_t pid, pid_t tid, uint64_t *ret_ns)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_error_ struct error *gone = slurp_thread(pid, tid, "schedstat", &text);
	char *end = text;

	if (gone)
		return false;
	*ret_ns = strtoull(text, &end, 10);
	return end != text;
}

/* The first number after "KEY:", or with `last` the last one of that line. */
static uint64_t field(const char *text, const char *key, int base, bool last)
{
	const char *at = strstr(text, key);
	uint64_t value = 0;

	if (!at)
		return 0;
	at += strlen(key);
	for (;;) {
		char *end;
		uint64_t number = strtoull(at, &end, base);

		if (end == at || memchr(at, '\n', (size_t)(end - at)))
			return value;
		value = number;
		if (!last)
			return value;
		at = end;
	}
}

/* How many numbers are in the line that begins with "KEY:"? */
static size_t count_numbers(const char *text, const char *key)
{
	const char *at = strstr(text, key), *line_end = at ? strchr(at + 1, '\n') : NULL;
	size_t count = 0;
	char *end;

	for (at = at ? at + strlen(key) : NULL; at; at = end) {
		(void)strtoull(at, &end, 10);
		if (end == at || (line_end && end > line_end))
			break;
		count++;
	}
	return count;
}

struct thread_status proc_status_parse(const char *text)
{
	return (struct thread_status){
		.tgid = (pid_t)field(text, "\nTgid:", 10, false),
		.parent = (pid_t)field(text, "\nPPid:", 10, false),
		.tracer = (pid_t)field(text, "\nTracerPid:", 10, false),
		.inner_pid = (pid_t)field(text, "\nNStgid:", 10, true),
		.inner_tid = (pid_t)field(text, "\nNSpid:", 10, true),
		.nested = count_numbers(text, "\nNSpid:") != 1,
		.uid = (uid_t)field(text, "\nUid:", 10, false),
		.acting_uid = (uid_t)field(text, "\nUid:", 10, true),
		.seccomp = (int)field(text, "\nSeccomp:", 10, false),
		.filters = (int)field(text, "\nSeccomp_filters:", 10, false),
		.locked = field(text, "\nVmLck:", 10, false) != 0,
		.pending =
			field(text, "\nSigPnd:", 16, false) | field(text, "\nShdPnd:", 16, false),
		.blocked = field(text, "\nSigBlk:", 16, false),
		.ignored = field(text, "\nSigIgn:", 16, false),
		.caught = field(text, "\nSigCgt:", 16, false),
	};
}

struct error *proc_status_read(pid_t pid, pid_t tid, struct thread_status *ret_status)
{
	_cleanup_free_ char *text = NULL;
	struct error *err = slurp_thread(pid, tid, "status", &text);

	if (!err)
		*ret_status = proc_status_parse(text);
	return err;
}

/* True also if nobody can tell. `exiting`: true for a thread that is about to end, too. */
static bool is_live(pid_t pid, pid_t tid, bool exiting)
{
	struct thread_stat stat;
	_cleanup_error_ struct error *err = proc_status_read_stat(pid, tid, &stat);

	if (err)
		return error_kind(err) != ERROR_GONE;
	return stat.state != 'Z' && stat.state != 'X' && stat.state != 'x' &&
	       (exiting || !(stat.flags & THREAD_EXITING));
}

static pid_t find_live(pid_t pid, bool exiting)
{
	char path[64];
	pid_t found = 0;

	if (is_live(pid, pid, exiting))
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return 0;
	for (struct dirent *entry; !found && (entry = readdir(dir));) {
		pid_t tid = atoi(entry->d_name);

		if (tid > 0 && is_live(pid, tid, exiting))
			found = tid;
	}
	closedir(dir);
	return found;
}

pid_t proc_status_live_thread(pid_t pid)
{
	pid_t found = find_live(pid, false);

	return found ? found : find_live(pid, true);
}

bool proc_status_ends(pid_t pid)
{
	return !find_live(pid, false);
}

int proc_status_open(pid_t pid, const char *name, int flags)
{
	char path[96];
	pid_t tid = proc_status_live_thread(pid);

	if (!tid) {
		errno = ESRCH;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	int fd = open(path, flags | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		errno = ESRCH;
	return fd;
}

bool proc_status_pages(int pagemap_fd, uint64_t from, uint64_t *ret_entries, size_t count)
{
	size_t size = count * sizeof(*ret_entries);

	return pread(pagemap_fd, ret_entries, size, (off_t)(from / DT_PAGE * 8)) == (ssize_t)size;
}

/* start_time counts while the machine sleeps, CLOCK_MONOTONIC doesn't. */
uint64_t proc_status_born(const struct proc *proc)
{
	uint64_t second = 1000000000ULL, now = now_ns();
	struct timespec boot;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	uint64_t since_boot = (uint64_t)boot.tv_sec * second + (uint64_t)boot.tv_nsec;
	uint64_t born = proc->start_time * (second / (uint64_t)sysconf(_SC_CLK_TCK));
	uint64_t age = since_boot > born ? since_boot - born : 0;
	return now > age ? now - age : 1;
}
