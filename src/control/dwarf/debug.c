#include "debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "debug_file.h"
#include "debug_state.h"

static void cleanup_elf(Elf **elf)
{
	if (*elf)
		elf_end(*elf);
}

static bool has_section(Elf *elf, const char *name)
{
	size_t names;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		const char *found = gelf_getshdr(section, &header)
					    ? elf_strptr(elf, names, header.sh_name)
					    : NULL;

		if (found && header.sh_type != SHT_NOBITS && strcmp(found, name) == 0)
			return true;
	}
	return false;
}

static bool has_debug(Elf *elf)
{
	return has_section(elf, ".debug_info") || has_section(elf, ".zdebug_info");
}

/* ELF_C_READ: sections are read, not mapped (a truncated mapping is a SIGBUS). */
static Elf *open_elf(int fd)
{
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && (elf_kind(elf) != ELF_K_ELF || gelf_getclass(elf) != ELFCLASS64)) {
		elf_end(elf);
		return NULL;
	}
	return elf;
}

static void cleanup_sections(struct sections **sections)
{
	sections_close(*sections);
}

/* Opens the file that several files share (dwz). libdw would map it, and look for it beside a file
 * that is in memory only. */
static void open_alternative(struct debug *debug)
{
	_cleanup_close_ int fd = debug_find_alternative(debug->dwarf, debug->path);
	_cleanup_(cleanup_elf) Elf *elf = fd >= 0 ? open_elf(fd) : NULL;
	Dwarf *dwarf = elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;

	if (!dwarf)
		return;
	debug->alternative = (struct debug_alternative){ take_fd(&fd), take_ptr(&elf), dwarf };
	dwarf_setalt(debug->dwarf, dwarf);
}

/* Takes over fd, path and elf on success. */
static struct error *make_debug(int *fd, char **path, Elf **elf, struct debug **ret_debug)
{
	_cleanup_(cleanup_sections) struct sections *sections = sections_open(*elf, *fd);
	Dwarf *dwarf =
		dwarf_begin_elf(sections ? sections_elf(sections) : *elf, DWARF_C_READ, NULL);
	struct debug *debug;

	if (!dwarf)
		return error_new(ERROR_FAILED, "%s: cannot read the debug information: %s",
				 *path, dwarf_errmsg(-1));
	debug = calloc(1, sizeof(*debug));
	if (!debug) {
		dwarf_end(dwarf);
		return error_errno(ENOMEM, "%s", *path);
	}
	debug->fd = take_fd(fd);
	debug->path = take_ptr(path);
	debug->elf = take_ptr(elf);
	debug->sections = take_ptr(&sections);
	debug->dwarf = dwarf;
	open_alternative(debug);
	*ret_debug = debug;
	return NULL;
}

struct error *debug_open(int fd, const char *path, struct debug **ret_debug)
{
	_cleanup_close_ int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	_cleanup_free_ char *name = strdup(path);
	_cleanup_(cleanup_elf) Elf *elf =
		own >= 0 && debug_file_is_sound(own) ? open_elf(own) : NULL;

	if (!elf || !name) {
		*ret_debug = NULL;
		return NULL;
	}
	if (!has_debug(elf)) {
		char *other_name = NULL;
		int other = debug_find_separate(elf, path, &other_name);

		if (other < 0) {
			*ret_debug = NULL;
			return NULL;
		}
		elf_end(elf);
		elf = NULL;
		close(own);
		own = other;
		free(name);
		name = other_name;
		elf = open_elf(own);
		if (!elf || !has_debug(elf)) {
			*ret_debug = NULL;
			return NULL;
		}
	}
	return make_debug(&own, &name, &elf, ret_debug);
}

void debug_close(struct debug *debug)
{
	if (!debug)
		return;
	for (size_t i = 0; i < debug->units.count; i++)
		vec_free(&debug->units.items[i].functions);
	vec_free(&debug->units);
	vec_free(&debug->ranges);
	dwarf_end(debug->dwarf);
	if (debug->alternative.dwarf) {
		dwarf_end(debug->alternative.dwarf);
		elf_end(debug->alternative.elf);
		close(debug->alternative.fd);
	}
	sections_close(debug->sections);
	elf_end(debug->elf);
	close(debug->fd);
	free(debug->path);
	free(debug);
}
