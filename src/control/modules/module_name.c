/* module_name.c - names of modules, as users see and type them. */
#include <string.h>

#include "module.h"

const char *module_called(const struct proc *proc, const struct module *module)
{
	bool is_link =
		module->is_executable && strncmp(module->name, proc->comm, strlen(proc->comm)) != 0;

	return is_link ? proc->comm : module->name;
}

static bool is_called(const struct proc *proc, const struct module *module, const char *name)
{
	return strcmp(module->name, name) == 0 || strcmp(module->path, name) == 0 ||
	       strcmp(module_called(proc, module), name) == 0 ||
	       (module->is_vdso &&
		(strcmp(name, "vdso") == 0 || strcmp(name, "linux-vdso.so.1") == 0));
}

/* The only module whose name starts like that. */
static struct module *by_start(const struct modules *modules, const char *name)
{
	struct module *found = NULL;
	size_t length = strlen(name);

	for (size_t i = 0; i < modules->count; i++) {
		struct module *m = modules->items[i];

		if (strncmp(m->name, name, length) != 0 || m->name[length] != '.')
			continue;
		if (found)
			return NULL;
		found = m;
	}
	return found;
}

struct module *modules_named(const struct proc *proc, const struct modules *modules,
			     const char *name)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (is_called(proc, modules->items[i], name))
			return modules->items[i];
	}
	return by_start(modules, name);
}
