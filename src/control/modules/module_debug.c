/*
 * module_debug.c - parts of a module that are read on first use: debug information, unwind table,
 * static markers, LTTng's static tracepoints, and which argument registers functions read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/arguments/argument_use.h"
#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/elf/cfi.h"
#include "control/dwarf/debug.h"
#include "unnamed_functions.h"
#include "module_head.h"
#include "control/elf/sdt.h"
#include "control/elf/ust_events.h"

struct error *module_debug(struct proc *proc, struct module *module, struct debug **ret_debug)
{
	if (!module->debug_read && !module->is_vdso) {
		_cleanup_close_ int fd = -1;
		struct error *error = module_open(proc, module, &fd);

		if (error)
			return error;
		/* Unreadable debug information counts as none: names and registers still work. */
		error_free(debug_open(fd, module->path, &module->debug));
		module->debug_read = true;
	}
	*ret_debug = module->debug;
	return NULL;
}

char *module_describe(struct proc *proc, struct module *module, uint64_t since, uint32_t program)
{
	_cleanup_close_ int fd = -1;
	_cleanup_error_ struct error *error = module_open(proc, module, &fd);
	char build_id[132] = "-", of[16] = "", *text;

	if (fd >= 0)
		debug_file_build_id(fd, build_id, sizeof(build_id));
	if (program)
		snprintf(of, sizeof(of), "%%%" PRIu32 " ", program);
	if (asprintf(&text, "%" PRIx64 " %" PRIx64 " %" PRIx64 " @%" PRIx64 " %s%s %s",
		     module->low.v, module->high.v, module->bias.v, since, of, build_id,
		     module->path) < 0)
		return NULL;
	return text;
}

struct error *module_cfi(struct proc *proc, struct module *module, const struct cfi_rows **ret_rows)
{
	struct symtab *symtab;
	struct error *error = module_symtab(proc, module, &symtab);

	if (error)
		return error;
	if (!module->cfi) {
		module->cfi = calloc(1, sizeof(*module->cfi));
		error = module->cfi ? cfi_compile(symtab, module->cfi) :
				      error_new(ERROR_FAILED, "out of memory");
	}
	if (error)
		return error;
	*ret_rows = module->cfi;
	return NULL;
}

struct error *module_markers(struct proc *proc, struct module *module,
			     const struct markers **ret_markers)
{
	struct symtab *symtab;
	struct error *error = module_symtab(proc, module, &symtab);

	if (error)
		return error;
	if (!module->markers) {
		module->markers = calloc(1, sizeof(*module->markers));
		error = module->markers ? sdt_read(symtab, module->markers) :
					  error_new(ERROR_FAILED, "out of memory");
	}
	if (error)
		return error;
	*ret_markers = module->markers;
	return NULL;
}

struct error *module_ust_events(struct proc *proc, struct module *module,
				const struct ust_events **ret_events)
{
	struct symtab *symtab;
	struct error *error = module_symtab(proc, module, &symtab);

	if (error)
		return error;
	if (!module->ust_events) {
		module->ust_events = calloc(1, sizeof(*module->ust_events));
		error = module->ust_events ? ust_events_read(symtab, module->ust_events) :
					     error_new(ERROR_FAILED, "out of memory");
	}
	if (error)
		return error;
	*ret_events = module->ust_events;
	return NULL;
}

uint8_t module_argument_uses(struct proc *proc, struct module *module, uint64_t address)
{
	struct symtab *symtab;
	_cleanup_error_ struct error *unreadable = module_symtab(proc, module, &symtab);

	if (unreadable)
		return ARGUMENTS_ALL;
	if (!module->uses)
		module->uses = argument_uses_new(symtab);
	return module->uses ? argument_uses_of(module->uses, address) : ARGUMENTS_ALL;
}

void module_debug_free(struct module *module)
{
	argument_uses_free(module->uses);
	if (module->ust_events)
		ust_events_free(module->ust_events);
	free(module->ust_events);
	debug_close(module->debug);
	if (module->unnamed)
		unnamed_functions_free(module->unnamed);
	free(module->unnamed);
	if (module->markers)
		markers_free(module->markers);
	free(module->markers);
	if (module->cfi)
		vec_free(module->cfi);
	free(module->cfi);
}
