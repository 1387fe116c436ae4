/* module_name.c - names of modules, as users see and type them. */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "module.h"

const char *module_called(const struct proc *proc, const struct module *module)
{
	bool is_link =
		module->is_executable && strncmp(module->name, proc->comm, strlen(proc->comm)) != 0;

	return is_link ? proc->comm : module->name;
}

static bool is_called(const struct proc *proc, const struct module *module, const char *name)
{
	if (strpbrk(name, "*?") && fnmatch(name, module_called(proc, module), 0) == 0)
		return true;
	return strcmp(module->name, name) == 0 || strcmp(module->path, name) == 0 ||
	       strcmp(module_called(proc, module), name) == 0 ||
	       (module->is_vdso &&
		(strcmp(name, "vdso") == 0 || strcmp(name, "linux-vdso.so.1") == 0));
}

/* Does the name start like that, up to a dot? */
static bool starts_so(const struct module *module, const char *name)
{
	size_t length = strlen(name);

	return strncmp(module->name, name, length) == 0 && module->name[length] == '.';
}

bool module_name_fits(const char *name, const char *wanted)
{
	struct module module = { .name = name };

	return strcmp(name, wanted) == 0 || starts_so(&module, wanted) ||
	       (strpbrk(wanted, "*?") && fnmatch(wanted, name, 0) == 0);
}

/* The first module of the only file whose name starts like that. */
static const struct module *by_start(const struct modules *modules, const char *name)
{
	const struct module *found = NULL;

	for (size_t i = 0; i < modules->count; i++) {
		const struct module *m = modules->items[i];

		if (!starts_so(m, name))
			continue;
		if (found && !module_is_copy(found, m))
			return NULL;
		found = found ? found : m;
	}
	return found;
}

static const struct module *by_address(const struct modules *modules, const char *name)
{
	char *end;
	unsigned long long address = isdigit((unsigned char)*name) ? strtoull(name, &end, 0) : 0;

	return address && !*end ? modules_at(modules, taddr_of(address)) : NULL;
}

bool module_is_copy(const struct module *module, const struct module *other)
{
	return module != other && module->inode && module->inode == other->inode &&
	       module->device == other->device;
}

bool modules_have_copy(const struct modules *modules, const struct module *module)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (module_is_copy(modules->items[i], module))
			return true;
	}
	return false;
}

struct error *modules_all_named(const struct proc *proc, const struct modules *modules,
				const char *name, struct modules *ret_modules)
{
	struct modules found = { 0 };
	const struct module *one = NULL, *start = NULL;
	bool fits = false;

	for (size_t i = 0; i < modules->count && !fits; i++)
		fits = is_called(proc, modules->items[i], name);
	if (!fits && !(one = by_address(modules, name)))
		start = by_start(modules, name);
	for (size_t i = 0; i < modules->count; i++) {
		struct module *m = modules->items[i];

		if (!(fits && is_called(proc, m, name)) && m != one &&
		    !(start && (m == start || module_is_copy(m, start))))
			continue;
		if (!vec_push(&found, m)) {
			vec_free(&found);
			return error_errno(ENOMEM, "module '%s'", name);
		}
	}
	*ret_modules = found;
	return NULL;
}

struct module *modules_named(const struct proc *proc, const struct modules *modules,
			     const char *name)
{
	struct modules found = { 0 };
	_cleanup_error_ struct error *error = modules_all_named(proc, modules, name, &found);
	struct module *first = found.count ? found.items[0] : NULL;

	vec_free(&found);
	return error ? NULL : first;
}
