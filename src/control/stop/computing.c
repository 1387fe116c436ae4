#include "computing.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"

/* By the beginning of the file alone: "TID (COMM) S ...", where COMM may hold parentheses, but
 * what follows doesn't. */
static bool runs(const struct stop *stop, pid_t tid)
{
	char name[32], text[256];

	snprintf(name, sizeof(name), "%d/stat", tid);
	_cleanup_close_ int fd = openat(stop->task_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	const char *end = strrchr(text, ')');
	return end && !strncmp(end, ") R", 3);
}

void computing_look(struct stop *stop)
{
	struct tids all = { 0 };
	_cleanup_error_ struct error *gone = threads_list(stop->proc, &all);

	stop->computing.count = 0;
	for (size_t i = 0; !gone && i < all.count; i++) {
		/* out of memory: such a thread is held for longer */
		if (runs(stop, all.items[i]))
			(void)!vec_push(&stop->computing, all.items[i]);
	}
	stop->spares = stop->computing.count && 2 * stop->computing.count <= all.count;
	vec_free(&all);
}

bool computing_has(const struct stop *stop, pid_t tid, size_t *hint)
{
	const struct tids *list = &stop->computing;

	for (size_t i = 0; i < list->count; i++) {
		size_t at = (*hint + i) % list->count;

		if (list->items[at] == tid) {
			*hint = at + 1;
			return true;
		}
	}
	return false;
}
