/*
 * built.h - the files of a build that have no sanitizers, whatever the build is: the agent and
 * tests/programs.
 *
 * Header only. The folder is the one that DYNTRACE_BUILD names, else that of the build which this
 * test program (below BUILD/tests) is from: a build with sanitizers needs none of its own. Where
 * DYNTRACE_BUILD names a build without sanitizers, dyntrace and dyntraced have none either.
 */
#ifndef DYNTRACE_TESTS_BUILT_H
#define DYNTRACE_TESTS_BUILT_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void built_path(const char *name, char path[PATH_MAX])
{
	const char *given = getenv("DYNTRACE_BUILD");
	char self[PATH_MAX / 2], *tests = NULL;
	ssize_t n = given ? 0 : readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	for (char *at = self; (at = strstr(at, "/tests/")); at++)
		tests = at; /* the last one: the tree may be below others */
	if (tests)
		*tests = '\0';
	snprintf(path, PATH_MAX, "%s/%s", given ? given : self, name);
}

/* Lets sessions of this test use the agent of that build. */
static inline void built_use_agent(void)
{
	char path[PATH_MAX];

	built_path("libdyntrace-agent.so", path);
	setenv("DYNTRACE_AGENT", path, 0);
}

#endif
