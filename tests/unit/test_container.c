/* Names of containers and services, by control groups as their managers make them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/proc/container.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_names(void **state)
{
	static const struct {
		const char *cgroup, *name; /* NULL: none */
	} cases[] = {
		{ "/machine.slice/libpod-" ID ".scope/container", "0123456789ab" },
		{ "/system.slice/docker-" ID ".scope", "0123456789ab" },
		{ "/docker/" ID, "0123456789ab" },
		{ "/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope",
		  "0123456789ab" },
		{ "/system.slice/redis-server.service", "redis-server.service" },
		{ "/user.slice/user-1000.slice/user@1000.service/app.slice/pipewire.service",
		  "pipewire.service" },
		{ "/system.slice/a.service/payload", "a.service" },
		{ "/system.slice/a.services", NULL },
		{ "/user.slice/session-3.scope", NULL },
		{ "/docker/" ID "0", NULL }, /* too long for an id */
		{ "/", NULL },
		{ "", NULL },
	};
	char name[CONTAINER_NAME_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(container_name(cases[i].cgroup, name), cases[i].name != NULL);
		if (cases[i].name)
			assert_string_equal(name, cases[i].name);
	}
}

static void test_own_group(void **state)
{
	char *cgroup = container_cgroup(getpid());

	(void)state;
	assert_true(!cgroup || (cgroup[0] == '/' && !strchr(cgroup, '\n')));
	free(cgroup);
	assert_null(container_cgroup(0x7ffffffe));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names),
					    cmocka_unit_test(test_own_group) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
