/* module_name.c - names of modules, as users see and type them. */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "module.h"

const char *module_called(const struct proc *proc, const struct module *module)
{
	bool by_link =
		module->is_executable && strncmp(module->name, proc->comm, strlen(proc->comm)) != 0;

	return by_link ? proc->comm : module->name;
}

static bool is_called(struct proc *proc, struct module *module, const char *name)
{
	if (strpbrk(name, "*?") && fnmatch(name, module_called(proc, module), 0) == 0)
		return true;
	return strcmp(module->name, name) == 0 || strcmp(module->path, name) == 0 ||
	       strcmp(module_called(proc, module), name) == 0 ||
	       (module->is_vdso &&
		(strcmp(name, "vdso") == 0 || strcmp(name, "linux-vdso.so.1") == 0));
}

/* Does the name start like that, up to a dot? */
static bool starts_so(const char *name, const char *start)
{
	size_t length = strlen(start);

	return strncmp(name, start, length) == 0 && name[length] == '.';
}

bool module_name_fits(const char *name, const char *wanted)
{
	return strcmp(name, wanted) == 0 || starts_so(name, wanted) ||
	       (strpbrk(wanted, "*?") && fnmatch(wanted, name, 0) == 0);
}

static bool has_soname(struct proc *proc, struct module *module, const char *name)
{
	const char *soname = module_soname(proc, module);

	return soname && (strcmp(soname, name) == 0 ||
			  (strpbrk(name, "*?") && fnmatch(name, soname, 0) == 0));
}

/* The first module of the only file whose name, or soname, starts like that. */
static struct module *by_start(struct proc *proc, const struct modules *modules, const char *name)
{
	struct module *found = NULL;

	for (size_t i = 0; i < modules->count; i++) {
		struct module *m = modules->items[i];
		const char *soname = module_soname(proc, m);

		if (!starts_so(m->name, name) && !(soname && starts_so(soname, name)))
			continue;
		if (found && !module_is_copy(found, m))
			return NULL;
		found = found ? found : m;
	}
	return found;
}

/* Is the name that of a link to the file: a path, or a name in the file's own folder? */
static bool is_link(struct proc *proc, struct module *module, const char *name)
{
	char path[PATH_MAX];
	int folder = (int)(module->name - module->path);

	if (strchr(name, '/')) /* one that isn't absolute is seen from here, as in a shell */
		return module_file_is(proc, module,
				      *name == '/' || !realpath(name, path) ? name : path);
	if (strpbrk(name, "*?") ||
	    snprintf(path, sizeof(path), "%.*s%s", folder, module->path, name) >= (int)sizeof(path))
		return false;
	return module_file_is(proc, module, path);
}

static struct module *by_address(const struct modules *modules, const char *name)
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

/* The ways to mean modules by a name: the first one that finds any counts. The ways that need no
 * system call come first. */
typedef bool fits_fn(struct proc *proc, struct module *module, const char *name);

static struct error *all_that(struct proc *proc, const struct modules *modules, const char *name,
			      fits_fn *fits, struct modules *found)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (fits(proc, modules->items[i], name) && !vec_push(found, modules->items[i]))
			return error_errno(ENOMEM, "module '%s'", name);
	}
	return NULL;
}

/* The module and all its copies. */
static struct error *all_copies(const struct modules *modules, const struct module *one,
				struct modules *found)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *m = modules->items[i];

		if ((m == one || module_is_copy(m, one)) && !vec_push(found, m))
			return error_errno(ENOMEM, "module '%s'", one->name);
	}
	return NULL;
}

struct error *modules_all_named(struct proc *proc, const struct modules *modules, const char *name,
				struct modules *ret_modules)
{
	struct modules found = { 0 };
	struct module *one;
	struct error *error = all_that(proc, modules, name, is_called, &found);

	if (!error && !found.count)
		error = all_that(proc, modules, name, has_soname, &found);
	if (!error && !found.count && (one = by_address(modules, name)) && !vec_push(&found, one))
		error = error_errno(ENOMEM, "module '%s'", name);
	if (!error && !found.count && (one = by_start(proc, modules, name)))
		error = all_copies(modules, one, &found);
	if (!error && !found.count)
		error = all_that(proc, modules, name, is_link, &found);
	if (error)
		vec_free(&found);
	else
		*ret_modules = found;
	return error;
}

struct module *modules_named(struct proc *proc, const struct modules *modules, const char *name)
{
	struct modules found = { 0 };
	_cleanup_error_ struct error *error = modules_all_named(proc, modules, name, &found);
	struct module *first = found.count ? found.items[0] : NULL;

	vec_free(&found);
	return error ? NULL : first;
}
