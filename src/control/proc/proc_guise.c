#include "proc_guise.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "proc_status.h"

/* Lines of /proc/PID/status that tell rights. */
static const char *const keys[] = { "\nUid:",	 "\nGid:",    "\nGroups:", "\nCapInh:", "\nCapPrm:",
				    "\nCapEff:", "\nCapBnd:", "\nCapAmb:", "\nNoNewPrivs:" };

/* Copies the rest of the line behind the key, with single spaces. False: no room. */
static bool add_line(const char *status, const char *key, char *text, size_t *length)
{
	const char *line = strstr(status, key);

	for (line = line ? line + strlen(key) : ""; *line && *line != '\n'; line++) {
		char c = *line == '\t' ? ' ' : *line;

		if (*length + 2 >= PROC_GUISE_SIZE)
			return false;
		text[(*length)++] = c;
	}
	text[(*length)++] = ';';
	text[*length] = '\0';
	return true;
}

struct error *proc_guise_read(pid_t pid, char guise[PROC_GUISE_SIZE])
{
	char path[64], text[PROC_GUISE_SIZE];
	struct stat folder, program;
	size_t length = 0;
	bool fits = true;
	_cleanup_close_ int fd = proc_status_open(pid, "status", O_RDONLY);
	_cleanup_free_ char *status = fd < 0 ? NULL : proc_status_slurp(fd, NULL);

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!status || stat(path, &folder))
		return error_new(ERROR_GONE, "no process %d", pid);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &program))
		program = (struct stat){ 0 }; /* a kernel thread, or one that ends */
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		fits = fits && add_line(status, keys[i], text, &length);
	/* the kernel gives the files of a process that isn't dumpable to root */
	int more = snprintf(text + length, sizeof(text) - length, "%u;%llx:%llu", folder.st_uid,
			    (unsigned long long)program.st_dev, (unsigned long long)program.st_ino);
	if (!fits || more >= (int)(sizeof(text) - length))
		return error_new(ERROR_REFUSED, "process %d is in too many groups", pid);
	memcpy(guise, text, sizeof(text));
	return NULL;
}

uint64_t proc_guise_generation(pid_t pid, pid_t tid)
{
	char path[64], stat[1024];
	unsigned long long code = 0, stack = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	stat[length > 0 ? length : 0] = '\0';
	const char *rest = strrchr(stat, ')');

	/* fields 26 and 28, of which field 3 follows the name */
	for (unsigned field = 2; rest && field < 25; field++)
		rest = strchr(rest + 1, ' ');
	if (!rest || sscanf(rest, "%*s %llu %*s %llu", &code, &stack) != 2)
		return 0;
	return code && stack ? code ^ (stack << 16 | stack >> 48) : 0;
}
