/*
 * debug_find.c - the separate file with a program's debug information:
 *
 *   /usr/lib/debug/.build-id/ab/cdef.debug	by build id
 *   DIR/NAME, DIR/.debug/NAME, /usr/lib/debug/DIR/NAME	by the debug link, its CRC compared
 *   a debuginfod server	where $DEBUGINFOD_URLS is set and libdebuginfod is installed
 */
#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "debug_state.h"

#define DEBUG_ROOT "/usr/lib/debug"
#define BUILD_ID_MAX 64
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

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
		Elf_Data *data = gelf_getshdr(section, &header) && header.sh_type == SHT_NOTE ?
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

		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_NOTE)
			continue;
		data = elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz,
					    header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (data)
			size = note_build_id(data, bytes, room);
	}
	return size;
}

static bool is_regular(int fd)
{
	struct stat stat;

	return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
}

/* Opens a regular file; takes `path`: frees it, or returns it in *ret_path. */
static int open_path(char *path, char **ret_path)
{
	int fd = path ? open(path, OPEN_FLAGS) : -1;

	if (fd >= 0 && !is_regular(fd)) {
		close(fd);
		fd = -1;
	}
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

static uint32_t crc_of_file(int fd)
{
	uint8_t bytes[16384];
	uint32_t crc = ~0u;
	ssize_t n;

	for (off_t at = 0; (n = pread(fd, bytes, sizeof(bytes), at)) > 0; at += n) {
		for (ssize_t i = 0; i < n; i++) {
			crc ^= bytes[i];
			for (int bit = 0; bit < 8; bit++)
				crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
		}
	}
	return ~crc;
}

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
		data = elf_rawdata(section, NULL);
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

static int open_by_link(Elf *elf, const char *path, char **ret_path)
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
		if (fd >= 0 && crc_of_file(fd) == crc)
			return fd;
		if (fd >= 0) {
			close(fd);
			free(take_ptr(ret_path));
		}
	}
	return -1;
}

/* ---- the file shared by several files (dwz) -------------------------------------------------- */

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

/* Loads libdebuginfod on demand only: it brings a web client with it. */
static int open_by_server(const uint8_t *id, size_t size, char **ret_path)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *(*begin)(void);
	int (*find)(void *client, const unsigned char *id, int size, char **path);
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
	*(void **)&end = dlsym(library, "debuginfod_end");
	client = begin && find && end ? begin() : NULL;
	if (client) {
		fd = find(client, id, (int)size, ret_path);
		end(client);
	}
	return fd;
}

int debug_find_separate(Elf *elf, const char *path, char **ret_path)
{
	uint8_t id[BUILD_ID_MAX];
	size_t size = build_id(elf, id, sizeof(id));
	int found = open_by_build_id(id, size, ret_path);

	if (found < 0)
		found = open_by_link(elf, path, ret_path);
	return found < 0 ? open_by_server(id, size, ret_path) : found;
}
