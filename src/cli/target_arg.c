#include "target_arg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/modules/module.h"
#include "control/proc/find_process.h"
#include "options/commands.h"

static void symtab_closep(struct symtab **symtab)
{
	if (*symtab)
		symtab_close(*symtab);
}

/* Doesn't download a debug file just for its names. */
static bool is_wanted(const struct symtab *symtab, enum target_arg_debug debug)
{
	return debug == TARGET_ARG_TYPES ||
	       (debug == TARGET_ARG_NAMES && symtab_is_stripped(symtab) &&
		!getenv("DEBUGINFOD_URLS"));
}

static struct error *each_of_file(const char *path, enum target_arg_debug debug,
				  target_arg_fn *each, void *context)
{
	_cleanup_(symtab_closep) struct symtab *symtab = NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct target_arg_module module = { .name = strrchr(path, '/') ? strrchr(path, '/') + 1 :
									 path };
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat))
		return error_errno(errno, "cannot open '%s'", path);
	if (!S_ISREG(stat.st_mode))
		return error_new(ERROR_FAILED, "cannot list '%s': not a regular file", path);

	struct error *error = symtab_open(fd, path, &symtab);
	if (error)
		return error;
	if (is_wanted(symtab, debug))
		error_free(debug_open(fd, path, &module.debug));
	module.symtab = symtab;
	error = each(context, &module);
	debug_close(module.debug);
	return error;
}

static void proc_closep(struct proc **proc)
{
	if (*proc)
		proc_close(*proc);
}

/* Skips libraries that can't be read (deleted, or of another container). */
static struct error *each_of_modules(struct proc *proc, struct modules *modules,
				     enum target_arg_debug debug, target_arg_fn *each,
				     void *context)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = modules->items[i];
		struct target_arg_module one = { .name = module->name,
						 .soname = module_soname(proc, module),
						 .bias = module->bias.v };
		struct symtab *symtab;
		_cleanup_error_ struct error *unreadable = module_symtab(proc, module, &symtab);

		if (unreadable && modules->count == 1)
			return take_ptr(&unreadable);
		if (unreadable) {
			cli_note("%s: left out: %s", module->name, error_text(unreadable));
			continue;
		}
		one.symtab = symtab;
		if (is_wanted(symtab, debug)) /* owned by the module */
			error_free(module_debug(proc, module, &one.debug));
		struct error *error = each(context, &one);
		if (error)
			return error;
	}
	return NULL;
}

static struct error *each_of_process(pid_t pid, enum target_arg_debug debug, target_arg_fn *each,
				     void *context)
{
	_cleanup_(proc_closep) struct proc *proc = NULL;
	_cleanup_(modules_free) struct modules modules = { 0 };
	struct error *error = proc_open_plain(pid, &proc);

	if (!error)
		error = modules_of(proc, &modules);
	return error ? error : each_of_modules(proc, &modules, debug, each, context);
}

/* Finds a process of that name; of several that run the same file, the oldest. */
static struct error *find_any(const char *target, pid_t *ret_pid)
{
	struct error *error = proc_find(target, ret_pid);
	struct tids pids = { 0 };
	struct stat first, other;
	char path[64];
	bool same = error && error_kind(error) == ERROR_FAILED;

	error_free(same ? find_process_all(target, true, &pids) : NULL);
	same = same && pids.count > 1;
	for (size_t i = 0; i < pids.count && same; i++) {
		snprintf(path, sizeof(path), "/proc/%d/exe", pids.items[i]);
		same = !stat(path, i ? &other : &first) &&
		       (!i || (other.st_ino == first.st_ino && other.st_dev == first.st_dev));
	}
	if (same) {
		error = (error_free(error), NULL);
		*ret_pid = pids.items[0];
	}
	vec_free(&pids);
	return error;
}

struct error *target_arg_each(const char *target, enum target_arg_debug debug, target_arg_fn *each,
			      void *context)
{
	struct error *error;
	pid_t pid;

	if (strchr(target, '/'))
		return each_of_file(target, debug, each, context);
	error = find_any(target, &pid);
	if (!error)
		return each_of_process(pid, debug, each, context);
	if (error_kind(error) != ERROR_GONE)
		return error;
	error_free(error);
	if (faccessat(AT_FDCWD, target, F_OK, 0))
		return error_new(
			ERROR_FAILED,
			"no process and no file is called '%s' (give a pid, the name of a running program, or a path)",
			target);
	return each_of_file(target, debug, each, context);
}
