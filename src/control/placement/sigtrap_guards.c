#include "sigtrap_guards.h"

#include <string.h>
#include <sys/mman.h>

#include "control/base/cleanup.h"
#include "risky_calls.h"

#define OTHER_MAX (64u << 20) /* bytes of a module whose jumps are searched for this */

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static bool is_libc(const struct module *module)
{
	return begins(module->name, "libc.so") || begins(module->name, "libc-2") ||
	       begins(module->name, "ld-musl");
}

/* Before glibc 2.34, libpthread made system calls for the libc. */
static bool is_libpthread(const struct module *module)
{
	return begins(module->name, "libpthread");
}

static bool is_loader(const struct module *module)
{
	return begins(module->name, "ld-") || begins(module->name, "ld.so");
}

struct error *sigtrap_guards_module(const struct module *module)
{
	if (is_libc(module) || is_libpthread(module) || is_loader(module))
		return error_new(ERROR_REFUSED, "%s blocks all signals at times", module->name);
	return NULL;
}

/* Is a `syscall` instruction in its code? */
static struct error *has_calls(struct planner *planner, struct module *module, bool *ret_has)
{
	struct module_view view = { .module = module };
	struct risky_calls search = { .view = &view };
	struct error *error = module_symtab(planner->proc, module, &view.symtab);

	if (!error)
		error = risky_calls_find(&search);
	*ret_has = search.list.count;
	vec_free(&search.list);
	return error;
}

static struct error *list_module(struct planner *planner, struct module *module,
				 struct risky_calls search, struct guard_list *list)
{
	struct module_view *view;
	struct error *error = function_view(planner, module, &view);

	search.view = view;
	if (!error)
		error = risky_calls_find(&search);
	for (size_t i = 0; i < search.list.count && !error; i++) {
		if (!vec_push(list, ((struct guard){ module, search.list.items[i] })))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	vec_free(&search.list);
	return error;
}

/* Go's handlers block all signals (X6): guards would be in vain. */
static struct error *refuse_go(struct planner *planner, struct module *program)
{
	struct symtab *symtab;
	struct error *error = module_symtab(planner->proc, program, &symtab);

	if (error || !symtab_is_go(symtab))
		return error;
	return error_new(ERROR_REFUSED, "a Go program, whose handlers block all signals");
}

/* (X10) Lists the calls of a module that is no libc. */
static struct error *list_other(struct planner *planner, struct module *module,
				struct guard_list *list)
{
	struct risky_calls search = { .harmful = true, .other = true };
	struct symtab *symtab;
	bool found;
	struct error *error = has_calls(planner, module, &found);

	if (error || !found)
		return error;
	error = refuse_go(planner, module);
	if (!error)
		error = module_symtab(planner->proc, module, &symtab);
	if (!error && symtab_high(symtab) - symtab_low(symtab) > OTHER_MAX)
		error = error_new(ERROR_REFUSED, "makes its own system calls, among much code");
	return error ? error : list_module(planner, module, search, list);
}

/* (X10) Refuses a module that is no libc, and may make a call that isn't harmless. */
static struct error *check_other(struct planner *planner, struct module *module)
{
	struct guard_list list = { 0 };
	struct error *error = list_other(planner, module, &list);

	if (!error && list.count)
		error = error_new(ERROR_REFUSED,
				  "makes its own system calls, which might block SIGTRAP");
	vec_free(&list);
	return error;
}

/* Checks the bytes first: most modules have none. */
static struct error *check_if_any(struct planner *planner, struct module *module)
{
	bool found;
	struct error *error =
		risky_calls_in_bytes(planner->proc, module, &planner->maps, &found);

	return error || !found ? error : check_other(planner, module);
}

static bool is_guarded(const struct module *module)
{
	return is_libc(module) || is_libpthread(module);
}

/* The agent's own file, linked or preloaded: nothing of it runs but target/register.c, when it is
 * loaded. */
static bool is_linked_agent(const struct module *module)
{
	return begins(module->name, "libdyntrace-agent.so");
}

/* The loader runs none of the program's code while it blocks signals. */
static bool is_harmless(const struct module *module)
{
	return module->is_vdso || is_linked_agent(module) ||
	       (is_loader(module) && !is_guarded(module));
}

struct error *sigtrap_guards_check_later(struct planner *planner, struct module *module)
{
	if (is_harmless(module))
		return NULL;
	struct error *error =
		is_guarded(module) ?
			error_new(ERROR_REFUSED, "a second libc, which is not watched") :
			check_other(planner, module);
	return error ? error_wrap(error, "%s", module->name) : NULL;
}

struct error *sigtrap_guards_find(struct planner *planner, const struct modules *modules,
				  struct guard_list *ret_list)
{
	const struct risky_calls listed = { .harmful = true };
	struct guard_list list = { 0 };
	struct error *error = NULL;
	bool found = false;

	for (size_t i = 0; i < modules->count; i++)
		found |= is_libc(modules->items[i]);
	if (!found)
		return error_new(ERROR_REFUSED,
				 "no libc whose signal masks could be watched");
	for (int listing = 0; listing < 2; listing++) { /* the cheap check first: it refuses most */
		for (size_t i = 0; i < modules->count && !error; i++) {
			struct module *module = modules->items[i];

			if (is_harmless(module) || is_guarded(module) != (listing == 1))
				continue;
			error = listing ? list_module(planner, module, listed, &list) :
					  check_if_any(planner, module);
			if (error)
				error = error_wrap(error, "%s", module->name);
		}
	}
	if (error) {
		vec_free(&list);
		return error;
	}
	*ret_list = list;
	return NULL;
}

/* ---- programs that are alone ----------------------------------------------------------------- */

bool sigtrap_guards_is_alone(const struct modules *modules)
{
	size_t others = 0;

	for (size_t i = 0; i < modules->count; i++)
		others += !modules->items[i]->is_vdso;
	return others == 1 && modules->items[0]->is_executable;
}

/* Is it code of the program's file, of the kernel's, or ours? */
static bool is_known_code(const struct mapping *mapping, const struct module *program)
{
	return begins(mapping->path, "[vdso]") || begins(mapping->path, "[vsyscall]") ||
	       mapping_is_ours(mapping) ||
	       (mapping->inode && mapping->inode == program->inode &&
		mapping->device == program->device);
}

/* A packed program, or one that makes code, has system calls that its file doesn't show (X9). */
static struct error *check_mappings(const struct maps *maps, const struct module *program)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *mapping = &maps->items[i];

		if (mapping->prot & PROT_EXEC && !is_known_code(mapping, program))
			return error_new(ERROR_REFUSED, "has code outside of its file, at 0x%lx",
					 mapping->start.v);
	}
	return NULL;
}

struct error *sigtrap_guards_find_alone(struct planner *planner, const struct modules *modules,
					struct guard_list *ret_list)
{
	struct module *program = modules->items[0];
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct guard_list list = { 0 };
	struct error *error = refuse_go(planner, program);

	if (!error)
		error = maps_read(planner->proc, &maps);
	if (!error)
		error = check_mappings(&maps, program);
	if (!error)
		error = list_module(planner, program, (struct risky_calls){ .harmful = true },
				    &list);
	if (error) {
		vec_free(&list);
		return error_wrap(error, "%s", program->name);
	}
	*ret_list = list;
	return NULL;
}

/* A program with a libc of its own (static, Go), or that makes system calls itself. */
static struct error *list_program(struct planner *planner, struct module *module, uint64_t number,
				  struct guard_list *list)
{
	struct symtab *symtab;
	_cleanup_error_ struct error *unreadable = module_symtab(planner->proc, module, &symtab);

	if (unreadable || !risky_calls_anywhere(symtab, (uint32_t)number))
		return NULL;
	return list_module(planner, module, (struct risky_calls){ .only = number }, list);
}

struct error *sigtrap_guards_find_call(struct planner *planner, const struct modules *modules,
				       uint64_t number, struct guard_list *list,
				       bool *ret_complete)
{
	struct error *error = NULL;
	bool libc = false, loader = false;

	for (size_t i = 0; i < modules->count && !error; i++) {
		struct module *module = modules->items[i];

		libc |= is_libc(module);
		loader |= is_loader(module);
		if (is_guarded(module))
			error = list_module(planner, module, (struct risky_calls){ .only = number },
					    list);
		else if (module->is_executable)
			error = list_program(planner, module, number, list);
	}
	*ret_complete = libc || !loader;
	return error;
}
