#include "load.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/code/near.h"
#include "control/proc/proc_status.h"
#include "control/remote/safepoint.h"

#define LOAD_TIMEOUT_MS 2000

struct error *load_map_paper(struct load_paper *paper, struct stop *stop, struct agent *agent)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	uint32_t offset;
	taddr at;
	struct error *error = paper->here ? NULL : maps_read(agent->proc, &maps);

	if (paper->here || error)
		return error;
	error = near_find_gap(&maps, agent->control_at, taddr_add(agent->control_at, DT_PAGE),
			      LOAD_PAPER_SIZE, &at);
	if (!error)
		error = agent_map_window(stop, agent, at, LOAD_PAPER_SIZE / DT_PAGE, &offset);
	if (error)
		return error;
	paper->here = (uint8_t *)agent->control + offset;
	paper->there = at;
	return NULL;
}

struct error *load_find(const char *name, char **ret_path)
{
	static const char *const places[] = { "", "../lib/dyntrace/" };
	char folder[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	folder[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(folder, '/');
	if (slash)
		slash[1] = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s%s", folder, places[i], name) < 0)
			return error_new(ERROR_FAILED, "out of memory");
		*ret_path = realpath(path, NULL);
		if (*ret_path)
			return NULL;
	}
	return error_new(
		ERROR_FAILED,
		"%s is neither beside the program nor in ../lib/dyntrace (install liblttng-ust-dev "
		"and build dyntrace again)",
		name);
}

/* ---- dlopen ---------------------------------------------------------------------------------- */

static struct error *find_in(struct proc *proc, struct module *module, const char *name,
			     taddr *ret_address)
{
	struct symtab *symtab;
	struct error *error = module_symtab(proc, module, &symtab);
	const struct symbol *symbol = error ? NULL : symtab_find(symtab, name);

	*ret_address = symbol ? taddr_add(module->bias, (int64_t)symbol->address) : taddr_of(0);
	return error;
}

/* glibc has these functions in libc itself since 2.34. *ret_address 0: not found. */
static struct error *find_in_libc(struct proc *proc, const struct modules *modules,
				  const char *name, taddr *ret_address)
{
	static const char *const names[] = { "libc.so.6", "libdl.so.2" };

	*ret_address = taddr_of(0);
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = modules->items[i];

		for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++) {
			if (strcmp(module->name, names[j]) != 0 || ret_address->v)
				continue;
			struct error *error = find_in(proc, module, name, ret_address);
			if (error)
				return error;
		}
	}
	return NULL;
}

static struct error *find_dl(struct proc *proc, const struct modules *modules, const char *name,
			     taddr *ret_address)
{
	struct error *error = find_in_libc(proc, modules, name, ret_address);

	if (!error && !ret_address->v)
		error = error_new(
			ERROR_REFUSED,
			"process %d can't load libraries: it has no glibc as a shared library (a "
			"static program, or another libc)",
			proc->pid);
	return error;
}

/* (H26) A library's constructors make any calls: nobody knows them before. A command of ours has
 * our own filters, which let us load libraries, too. */
static struct error *check_filter(const struct proc *proc)
{
	struct thread_status status = { 0 };
	_cleanup_error_ struct error *gone = proc_status_read(proc->pid, proc->pid, &status);

	if (proc->inherits || (!proc->filtered && (gone || !status.seccomp)))
		return NULL;
	return error_new(ERROR_REFUSED,
			 "process %d (%s) has a filter of system calls (seccomp), which might forbid "
			 "what a library does: no library is loaded into it (run it without the filter)",
			 proc->pid, proc->comm);
}

struct error *load_check(struct proc *proc, const struct modules *modules)
{
	taddr ignored;
	struct error *error = check_filter(proc);

	return error ? error : find_dl(proc, modules, "dlopen", &ignored);
}

/* ---- libraries ------------------------------------------------------------------------------- */

struct module *load_find_module(const struct modules *modules, const struct stat *file)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (modules->items[i]->inode == file->st_ino &&
		    modules->items[i]->device == file->st_dev)
			return modules->items[i];
	}
	return NULL;
}

struct error *load_look(const struct proc *proc, const char *path, struct stat *ret_file)
{
	_cleanup_free_ char *there = NULL;

	if (asprintf(&there, "/proc/%d/root%s", proc->pid, path) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	if (stat(there, ret_file))
		return error_errno(errno, "process %d can't find %s", proc->pid, path);
	return NULL;
}

static struct error *find_symbols(struct proc *proc, struct module *module,
				  const char *const *names, taddr *ret_addresses, size_t count)
{
	struct error *error = NULL;

	for (size_t i = 0; i < count && !error; i++) {
		error = find_in(proc, module, names[i], &ret_addresses[i]);
		if (!error && !ret_addresses[i].v)
			error = error_new(ERROR_REFUSED, "%s has no function '%s'", module->path,
					  names[i]);
	}
	return error;
}

static struct error *call_dlopen(struct proc *proc, struct stop *held,
				 const struct modules *modules, struct load_paper *paper,
				 const char *path)
{
	taddr function;

	assert(paper->here);
	struct error *error = find_dl(proc, modules, "dlopen", &function);

	if (!error && strlen(path) >= LOAD_NAME_MAX)
		error = error_new(ERROR_USAGE, "the name '%s' is too long", path);
	if (error)
		return error;
	strcpy((char *)paper->here, path);
	const uint64_t args[3] = { paper->there.v, RTLD_NOW };
	return safepoint_call(proc, held, function, args, LOAD_TIMEOUT_MS);
}

struct error *load_library(struct proc *proc, struct stop *held, struct load_paper *paper,
			   const char *path, const char *const *names, taddr *ret_addresses,
			   size_t count)
{
	struct modules modules = { 0 };
	struct stat file;
	struct error *error = check_filter(proc);

	if (!error)
		error = load_look(proc, path, &file);
	if (!error)
		error = modules_of(proc, &modules);
	if (!error && !load_find_module(&modules, &file)) {
		error = call_dlopen(proc, held, &modules, paper, path);
		modules_free(&modules);
		if (!error)
			error = modules_of(proc, &modules);
	}
	struct module *module = error ? NULL : load_find_module(&modules, &file);
	if (!error && !module)
		error = error_new(
			ERROR_REFUSED,
			"process %d could not load %s (its user must be able to read the file and "
			"the libraries that it needs)",
			proc->pid, path);
	if (!error)
		error = find_symbols(proc, module, names, ret_addresses, count);
	modules_free(&modules);
	return error;
}

/* ---- libraries of the user ------------------------------------------------------------------- */

extern const uint8_t load_stub[], load_stub_end[];

/* Input of load_stub.S. */
struct load_request {
	uint64_t open, close, error;
	uint64_t path, flags, handle;
};

#define REQUEST_AT (LOAD_PART_AT(LOAD_STUB) + LOAD_GATE_ROOM / 2)
_Static_assert(sizeof(((struct dt_load *)NULL)->why) == 240, "load_stub.S");

static struct error *run_stub(struct proc *proc, struct stop *held, struct load_paper *paper,
			      taddr answer, struct load_request request, struct dt_load *ret_load)
{
	struct modules modules = { 0 };
	taddr opens, closes, tells;
	struct error *error = modules_of(proc, &modules);

	if (!error)
		error = find_dl(proc, &modules, "dlopen", &opens);
	if (!error)
		error = find_dl(proc, &modules, "dlclose", &closes);
	if (!error)
		error = find_dl(proc, &modules, "dlerror", &tells);
	modules_free(&modules);
	if (error)
		return error;
	request.open = opens.v;
	request.close = closes.v;
	request.error = tells.v;
	assert((size_t)(load_stub_end - load_stub) <= LOAD_GATE_ROOM / 2);
	memcpy(paper->here + LOAD_PART_AT(LOAD_STUB), load_stub,
	       (size_t)(load_stub_end - load_stub));
	memcpy(paper->here + REQUEST_AT, &request, sizeof(request));
	const uint64_t args[3] = { taddr_add(paper->there, REQUEST_AT).v, answer.v };
	error = safepoint_call(proc, held, taddr_add(paper->there, LOAD_PART_AT(LOAD_STUB)), args,
			       LOAD_TIMEOUT_MS);
	if (!error)
		error = mem_read(proc, answer, ret_load, sizeof(*ret_load));
	ret_load->why[sizeof(ret_load->why) - 1] = '\0';
	return error;
}

struct error *load_open(struct proc *proc, struct stop *held, struct load_paper *paper,
			taddr answer, const char *path, uint64_t *ret_handle)
{
	struct dt_load load = { 0 };

	assert(paper->here && answer.v);
	if (strlen(path) >= LOAD_NAME_MAX)
		return error_new(ERROR_USAGE, "the name '%s' is too long", path);
	struct error *error = check_filter(proc);
	if (error)
		return error;
	strcpy((char *)paper->here, path);
	error = run_stub(proc, held, paper, answer,
			 (struct load_request){ .path = paper->there.v, .flags = RTLD_NOW }, &load);
	if (!error && !load.handle)
		error = error_new(ERROR_REFUSED, "process %d could not load it: %s", proc->pid,
				  load.why[0] ? load.why : "its loader gives no reason");
	if (!error)
		*ret_handle = load.handle;
	return error;
}

struct error *load_close(struct proc *proc, struct stop *held, struct load_paper *paper,
			 taddr answer, uint64_t handle)
{
	struct dt_load load = { 0 };

	assert(paper->here && answer.v && handle); /* the stub opens if the handle is 0 */
	struct error *error = run_stub(proc, held, paper, answer,
				       (struct load_request){ .handle = handle }, &load);

	if (!error && !load.handle)
		error = error_new(ERROR_REFUSED, "process %d could not unload it: %s", proc->pid,
				  load.why);
	return error;
}

/* Reads __errno_location: mov offset(%rip), %rax; add %fs:0, %rax; ret */
struct error *load_find_errno(struct proc *proc, const struct modules *modules, int64_t *ret_offset)
{
	static const uint8_t mark[] = { 0xf3, 0x0f, 0x1e, 0xfa }, load[] = { 0x48, 0x8b, 0x05 },
			     add[] = { 0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0, 0xc3 };
	uint8_t code[32];
	int32_t distance;
	taddr at;
	struct error *error = find_in_libc(proc, modules, "__errno_location", &at);

	if (!error && at.v)
		error = mem_read(proc, at, code, sizeof(code));
	if (error)
		return error;
	size_t start = at.v && !memcmp(code, mark, sizeof(mark)) ? sizeof(mark) : 0;
	if (!at.v || memcmp(code + start, load, sizeof(load)) ||
	    memcmp(code + start + 7, add, sizeof(add)))
		return error_new(ERROR_REFUSED,
				 "process %d: cannot find errno in its libc (__errno_location has "
				 "unknown code)",
				 proc->pid);
	memcpy(&distance, code + start + sizeof(load), sizeof(distance));
	return mem_read(proc, taddr_add(at, (int64_t)start + 7 + distance), ret_offset,
			sizeof(*ret_offset));
}
