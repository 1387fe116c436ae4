#include "process.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/find_process.h"
#include "control/proc/proc_status.h"

#define READ_TRIES 20
#define NAMESPACES_MAX 40 /* the kernel nests 32 */

/* The numbers behind "KEY:" in /proc/PID/status. */
static size_t read_numbers(const char *status, const char *key, int base, uint64_t *ret_numbers,
			   size_t room)
{
	const char *line = strstr(status, key);
	size_t count = 0;

	if (!line)
		return 0;
	for (line += strlen(key); count < room; count++) {
		char *end;

		line += strspn(line, " \t");
		if (!isxdigit((unsigned char)*line))
			break;
		ret_numbers[count] = strtoull(line, &end, base);
		line = end;
	}
	return count;
}

static bool all_equal(const uint64_t *numbers)
{
	return numbers[0] == numbers[1] && numbers[1] == numbers[2];
}

static void read_user(const char *status, struct process *process)
{
	uint64_t uids[4] = { 0 }, gids[4] = { 0 }, groups[IDENTITY_GROUPS_MAX], capabilities = 0;

	read_numbers(status, "\nUid:", 10, uids, 4);
	read_numbers(status, "\nGid:", 10, gids, 4);
	read_numbers(status, "\nCapPrm:", 16, &capabilities, 1);
	process->user.uid = (uid_t)uids[1];
	process->user.gid = (gid_t)gids[1];
	process->user.group_count =
		read_numbers(status, "\nGroups:", 10, groups, IDENTITY_GROUPS_MAX);
	for (size_t i = 0; i < process->user.group_count; i++)
		process->user.groups[i] = (gid_t)groups[i];
	process->mixed = !all_equal(uids) || !all_equal(gids);
	process->capable = capabilities != 0 && process->user.uid != 0;
}

/* A user's rights reach into a user namespace if the user has made it, or the one around it that is
 * directly in ours. systemd makes it as root (PrivateUsers=), and so does whoever runs containers
 * as root. What we may not look at counts as ours: the worker will be told. */
static bool is_out_of_reach(pid_t pid, uid_t uid)
{
	struct stat ours, theirs, around;
	uid_t owner = uid;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || stat("/proc/self/ns/user", &ours) || fstat(fd, &theirs) ||
	    theirs.st_ino == ours.st_ino)
		return false;
	for (unsigned i = 0; i < NAMESPACES_MAX; i++) {
		int parent = ioctl(fd, NS_GET_PARENT);
		bool outermost = parent < 0 || fstat(parent, &around) ||
				 around.st_ino == ours.st_ino;

		if (outermost) {
			if (parent >= 0)
				close(parent);
			break;
		}
		close(fd);
		fd = parent;
	}
	return !ioctl(fd, NS_GET_OWNER_UID, &owner) && owner != uid;
}

/* The program's name as people know it: what the process calls itself, in full where the kernel has
 * cut it. */
static void read_name(pid_t pid, struct process *process)
{
	find_process_executable(pid, process->executable, sizeof(process->executable));
	bool cut = !strncmp(process->executable, process->comm, strlen(process->comm));
	memcpy(process->name, cut ? process->executable : process->comm, sizeof(process->name));
}

static struct error *read_once(pid_t pid, struct process *ret_process)
{
	struct process process = { .user.pid = pid };
	struct thread_stat stat_of;
	struct stat folder;
	char path[64];
	struct error *error = proc_status_read_stat(pid, pid, &stat_of);

	if (error)
		return error_kind(error) != ERROR_GONE ?
			       error :
			       (error_free(error), error_new(ERROR_GONE, "no process %d", pid));
	_cleanup_close_ int fd = proc_status_open(pid, "status", O_RDONLY);
	_cleanup_free_ char *status = fd < 0 ? NULL : proc_status_slurp(fd, NULL);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!status || stat(path, &folder))
		return error_new(ERROR_GONE, "no process %d", pid);
	process.start_time = stat_of.start_time;
	process.alive = proc_status_live_thread(pid) != 0;
	snprintf(process.comm, sizeof(process.comm), "%.60s", stat_of.comm);
	read_user(status, &process);
	/* The kernel gives the files of a process that isn't dumpable to root. */
	process.dumpable = folder.st_uid == process.user.uid;
	process.out_of_reach = is_out_of_reach(pid, process.user.uid);
	read_name(pid, &process);
	*ret_process = process;
	return NULL;
}

static struct error *read_version(pid_t pid, struct process *process)
{
	process->generation = proc_guise_generation(pid, proc_status_live_thread(pid));
	return proc_guise_read(pid, process->guise);
}

/* All of it is of one moment: an execve between two of these files would join the rights of one
 * program to the guise of another (H33). */
struct error *process_read(pid_t pid, struct process *ret_process)
{
	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		struct process before, process;
		struct error *error = read_version(pid, &before);

		if (!error)
			error = read_once(pid, &process);
		if (!error)
			error = read_version(pid, &process);
		if (error)
			return error;
		if (before.generation == process.generation &&
		    !strcmp(before.guise, process.guise)) {
			*ret_process = process;
			return NULL;
		}
	}
	return error_new(ERROR_FAILED, "process %d begins one program after the other: try again",
			 pid);
}

bool process_is_plain(const struct process *process)
{
	if (process->user.uid == 0)
		return !process->mixed; /* mixed: a setuid program that another user has started */
	return !process->mixed && !process->capable && process->dumpable && !process->out_of_reach;
}

bool process_is_own(const struct process *process, const struct identity *who)
{
	if (who->uid == 0)
		return true;
	return process->user.uid == who->uid && process_is_plain(process);
}

bool process_runs_same(const struct process *then, const struct process *now)
{
	return then->start_time == now->start_time &&
	       (!then->generation || !now->generation || then->generation == now->generation);
}

bool process_is_same(const struct process *then, const struct process *now)
{
	return process_runs_same(then, now) && !strcmp(then->guise, now->guise);
}

bool process_is_called(const struct process *process, const char *name)
{
	return *name && (!strcmp(process->comm, name) || !strcmp(process->executable, name));
}
