/* mapped_file.c - by /proc/PID/map_files, which is for root, else by the target's own root. */
#include "mapped_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "control/base/cleanup.h"

int mapped_file_open(const struct proc *proc, const struct mapping *mapping)
{
	char path[4200];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", proc->pid,
		 (unsigned long long)mapping->start.v, (unsigned long long)mapping->end.v);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		snprintf(path, sizeof(path), "/proc/%d/root%s", proc->pid, mapping->path);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_ino != mapping->inode)
		return -1;
	return take_fd(&fd);
}
