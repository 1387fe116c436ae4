/*
 * debug_find.c - the separate file with a program's debug information:
 *
 *   /usr/lib/debug/.build-id/ab/cdef.debug	by build id
 *   DIR/NAME, DIR/.debug/NAME, /usr/lib/debug/DIR/NAME	by the debug link; compares the build id, or
 *							the CRC where the program has none
 *   a debuginfod server	where $DEBUGINFOD_URLS is set and libdebuginfod is installed
 */
#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "debug_file.h"
#include "debug_state.h"

#define DEBUG_ROOT "/usr/lib/debug"
#define BUILD_ID_MAX 64
#define NOTES_MAX (1u << 20)
#define LINK_MAX 4096u

/* The build id of the program. */
struct wanted {
	uint8_t id[BUILD_ID_MAX];
	size_t size; /* 0: none */
};

static size_t note_build_id(Elf_Data *data, uint8_t *bytes, size_t room)
{
	GElf_Nhdr note;
	size_t name_at, desc_at;

	for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name_at, &desc_at)) > 0;) {
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
		    memcmp((char *)data->d_buf + name_at, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) ==
			    0 &&
		    note.n_descsz > 0 && note.n_descsz <= room) {
			memcpy(bytes, (char *)data->d_buf + desc_at, note.n_descsz);
			return note.n_descsz;
		}
	}
	return 0;
}

/* Files that are never loaded (dwz) have sections but no segments. */
static size_t section_build_id(Elf *elf, uint8_t *bytes, size_t room)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t size = 0;

	while (!size && (section = elf_nextscn(elf, section))) {
		Elf_Data *data = gelf_getshdr(section, &header) && header.sh_type == SHT_NOTE &&
						 header.sh_size <= NOTES_MAX ?
					 elf_getdata(section, NULL) :
					 NULL;

		if (data)
			size = note_build_id(data, bytes, room);
	}
	return size;
}

/* At most `room` bytes; 0: none. */
static size_t build_id(Elf *elf, uint8_t *bytes, size_t room)
{
	size_t count, size = 0;
	GElf_Phdr header;

	if (elf_getphdrnum(elf, &count) < 0)
		return 0;
	if (count == 0)
		return section_build_id(elf, bytes, room);
	for (size_t i = 0; i < count && !size; i++) {
		Elf_Data *data;

		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_NOTE ||
		    header.p_filesz > NOTES_MAX)
			continue;
		data = elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz,
					    header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (data)
			size = note_build_id(data, bytes, room);
	}
	return size;
}

/* Opens a sound file; takes `path`: frees it, or returns it in *ret_path. */
static int open_path(char *path, char **ret_path)
{
	int fd = path ? debug_file_open(path) : -1;

	if (fd < 0)
		free(path);
	else
		*ret_path = path;
	return fd;
}

static void print_hex(const uint8_t *bytes, size_t size, char *text)
{
	for (size_t i = 0; i < size; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

void debug_file_build_id(int fd, char *text, size_t room)
{
	uint8_t id[BUILD_ID_MAX];
	size_t size = 0;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf) {
		size = build_id(elf, id, sizeof(id));
		elf_end(elf);
	}
	snprintf(text, room, "-");
	if (size && 2 * size < room)
		print_hex(id, size, text);
}

static int open_by_build_id(const uint8_t *id, size_t size, char **ret_path)
{
	char hex[2 * BUILD_ID_MAX + 1];
	char *path;

	if (size < 2)
		return -1;
	print_hex(id, size, hex);
	if (asprintf(&path, DEBUG_ROOT "/.build-id/%.2s/%s.debug", hex, hex + 2) < 0)
		return -1;
	return open_path(path, ret_path);
}

/* ---- debug link ------------------------------------------------------------------------------ */

static bool read_link(Elf *elf, char *name, size_t room, uint32_t *ret_crc)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		const char *found = gelf_getshdr(section, &header)
					    ? elf_strptr(elf, names, header.sh_name)
					    : NULL;
		Elf_Data *data;
		size_t length;

		if (!found || strcmp(found, ".gnu_debuglink") != 0)
			continue;
		data = header.sh_size <= LINK_MAX ? elf_rawdata(section, NULL) : NULL;
		if (!data || !data->d_buf)
			return false;
		length = strnlen(data->d_buf, data->d_size);
		if (length == 0 || length >= room || memchr(data->d_buf, '/', length) ||
		    (length + 4) / 4 * 4 + 4 > data->d_size)
			return false;
		memcpy(name, data->d_buf, length + 1);
		memcpy(ret_crc, (char *)data->d_buf + (length + 4) / 4 * 4, sizeof(*ret_crc));
		return true;
	}
	return false;
}

static bool has_build_id(int fd, const uint8_t *id, size_t size)
{
	uint8_t found[BUILD_ID_MAX];
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	bool same = elf && build_id(elf, found, sizeof(found)) == size &&
		    memcmp(found, id, size) == 0;

	if (elf)
		elf_end(elf);
	return same;
}

/* The build id says more than the CRC, and needn't read the file. */
static bool fits(int fd, const struct wanted *wanted, uint32_t crc)
{
	return wanted->size ? has_build_id(fd, wanted->id, wanted->size) :
			      debug_file_has_crc(fd, crc);
}

static int open_by_link(Elf *elf, const char *path, const struct wanted *wanted, char **ret_path)
{
	static const char *const formats[] = { "%.*s/%s", "%.*s/.debug/%s", DEBUG_ROOT "%.*s/%s" };
	const char *slash = strrchr(path, '/');
	char name[256], *tried;
	uint32_t crc;

	if (!slash || !read_link(elf, name, sizeof(name), &crc))
		return -1;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		int fd;

		if (asprintf(&tried, formats[i], (int)(slash - path), path, name) < 0)
			return -1;
		if (strcmp(tried, path) == 0) {
			free(tried);
			continue;
		}
		fd = open_path(tried, ret_path);
		if (fd >= 0 && fits(fd, wanted, crc))
			return fd;
		if (fd >= 0) {
			close(fd);
			free(take_ptr(ret_path));
		}
	}
	return -1;
}

/* ---- the file shared by several files (dwz) -------------------------------------------------- */

int debug_find_alternative(Dwarf *dwarf, const char *path)
{
	const char *name, *slash = strrchr(path, '/');
	_cleanup_free_ char *found = NULL;
	const void *id;
	ssize_t size = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id);
	char *tried = NULL;
	int fd;

	if (size <= 0 || size > BUILD_ID_MAX)
		return -1;
	fd = open_by_build_id(id, (size_t)size, &found);
	if (fd < 0 && name[0] == '/')
		fd = open_path(strdup(name), &found);
	else if (fd < 0 && slash &&
		 asprintf(&tried, "%.*s/%s", (int)(slash - path), path, name) >= 0)
		fd = open_path(tried, &found);
	if (fd >= 0 && has_build_id(fd, id, (size_t)size))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- debuginfod ------------------------------------------------------------------------------ */

/* debuginfod_progressfn_t: not 0 ends the download. */
static int go_on(void *client, long done, long all)
{
	(void)client;
	(void)done;
	(void)all;
	return interrupt_requested();
}

/* Loads libdebuginfod on demand only: it brings a web client with it. */
static int open_by_server(const uint8_t *id, size_t size, char **ret_path)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *(*begin)(void);
	int (*find)(void *client, const unsigned char *id, int size, char **path);
	void (*progress)(void *client, int (*function)(void *client, long done, long all));
	void (*end)(void *client);
	void *library, *client;
	int fd = -1;

	if (!size || !urls || !*urls)
		return -1;
	library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return -1;
	*(void **)&begin = dlsym(library, "debuginfod_begin");
	*(void **)&find = dlsym(library, "debuginfod_find_debuginfo");
	*(void **)&progress = dlsym(library, "debuginfod_set_progressfn");
	*(void **)&end = dlsym(library, "debuginfod_end");
	client = begin && find && progress && end ? begin() : NULL;
	if (client) {
		progress(client, go_on);
		fd = debug_file_judge(find(client, id, (int)size, ret_path));
		end(client);
	}
	return fd;
}

int debug_find_separate(Elf *elf, const char *path, char **ret_path)
{
	struct wanted wanted;

	wanted.size = build_id(elf, wanted.id, sizeof(wanted.id));
	int found = open_by_build_id(wanted.id, wanted.size, ret_path);

	if (found < 0)
		found = open_by_link(elf, path, &wanted, ret_path);
	return found < 0 ? open_by_server(wanted.id, wanted.size, ret_path) : found;
}
