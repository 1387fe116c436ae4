#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "agent_path.h"

#define AGENT "libdyntrace-agent.so"

/* Relative to the running program's folder, in a build tree or installed. */
static const char *const places[] = { "/" AGENT, "/../lib/dyntrace/" AGENT };

struct error *agent_find(char **ret_path)
{
	const char *given = getenv("DYNTRACE_AGENT");
	char folder[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	if (given && *given) {
		*ret_path = strdup(given);
		return *ret_path ? NULL : error_new(ERROR_FAILED, "out of memory");
	}
	folder[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s", folder, places[i]) < 0)
			return error_new(ERROR_FAILED, "out of memory");
		if (!access(path, R_OK)) {
			*ret_path = take_ptr(&path);
			return NULL;
		}
	}
	return error_new(
		ERROR_FAILED, AGENT
		" is neither beside the program nor in ../lib/dyntrace (set DYNTRACE_AGENT=FILE)");
}
