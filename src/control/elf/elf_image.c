#include "elf_image.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"

#define ADDRESS_MAX (1ULL << 47)
#define BYTES_MAX (1ULL << 30) /* read at most of one segment or section */
#define PHDRS_MAX 4096u
#define SEGMENTS_MAX 128u
#define SECTIONS_MAX 65536u

static struct error *check_header(struct elf_image *image)
{
	Elf64_Ehdr *h = &image->header;
	const char *path = image->path;
	ssize_t got = pread(image->fd, h, sizeof(*h), 0);

	if (got < SELFMAG || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return error_new(ERROR_FAILED, "%s: not an ELF file", path);
	if (got < (ssize_t)sizeof(*h))
		return error_new(ERROR_FAILED, "%s: truncated file", path);
	if (h->e_ident[EI_CLASS] == ELFCLASS32)
		return error_new(ERROR_FAILED, "%s: 32-bit file (only x86-64 is supported)",
				 path);
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
	    h->e_machine != EM_X86_64)
		return error_new(ERROR_FAILED,
				 "%s: built for another machine (only x86-64 is supported)", path);
	if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
		return error_new(ERROR_FAILED, "%s: neither a program nor a shared library",
				 path);
	return NULL;
}

/* libelf takes 264 bytes for each section that is claimed, in a file that may be sparse: 2.6 GB and
 * two seconds for ten million. A count above 65279 is in the first section's header. */
static bool has_too_many_sections(const struct elf_image *image)
{
	const Elf64_Ehdr *h = &image->header;
	Elf64_Shdr first;

	return h->e_shnum == 0 && h->e_shoff != 0 &&
	       pread(image->fd, &first, sizeof(first), (off_t)h->e_shoff) == sizeof(first) &&
	       first.sh_size > SECTIONS_MAX;
}

static struct error *read_program_headers(struct elf_image *image, const Elf64_Phdr **ret_headers)
{
	const Elf64_Ehdr *h = &image->header;
	const Elf64_Phdr *headers;
	size_t count;

	if (h->e_phnum == 0)
		return error_new(ERROR_FAILED, "%s: no program headers", image->path);
	if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum > PHDRS_MAX)
		return error_new(ERROR_FAILED, "%s: damaged program headers", image->path);
	headers = elf64_getphdr(image->elf);
	if (!headers || elf_getphdrnum(image->elf, &count) < 0 || count < h->e_phnum)
		return error_new(ERROR_FAILED, "%s: truncated file", image->path);
	*ret_headers = headers;
	return NULL;
}

/* Clips a PT_LOAD to the bytes that the file has (I1, I2); false: nothing is left of it. */
static bool segment_of(const struct elf_image *image, const Elf64_Phdr *p, struct segment *ret)
{
	uint64_t file_size = p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz;

	if (p->p_memsz == 0 || p->p_vaddr >= ADDRESS_MAX || p->p_memsz > ADDRESS_MAX - p->p_vaddr)
		return false;
	if (p->p_offset >= image->file_size)
		file_size = 0;
	else if (file_size > image->file_size - p->p_offset)
		file_size = image->file_size - p->p_offset;
	*ret = (struct segment){ .address = p->p_vaddr,
				 .size = p->p_memsz,
				 .offset = p->p_offset,
				 .file_size = file_size,
				 .flags = p->p_flags };
	return true;
}

static int compare_segments(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static struct error *read_segments(struct elf_image *image, const Elf64_Phdr *headers)
{
	image->segments = calloc(SEGMENTS_MAX, sizeof(*image->segments));
	if (!image->segments)
		return error_errno(ENOMEM, "%s", image->path);
	for (size_t i = 0; i < image->header.e_phnum; i++) {
		const Elf64_Phdr *p = &headers[i];
		struct segment segment;

		if (p->p_type == PT_INTERP)
			image->has_interpreter = true;
		if (p->p_type == PT_GNU_EH_FRAME)
			image->eh_frame_hdr = p->p_vaddr;
		if (p->p_type == PT_GNU_RELRO && p->p_vaddr < ADDRESS_MAX &&
		    p->p_memsz < ADDRESS_MAX) {
			image->relro_start = p->p_vaddr;
			image->relro_end = p->p_vaddr + p->p_memsz;
		}
		if (p->p_type != PT_LOAD || !segment_of(image, p, &segment))
			continue;
		if (image->segment_count == SEGMENTS_MAX)
			return error_new(ERROR_FAILED, "%s: too many segments", image->path);
		image->segments[image->segment_count++] = segment;
	}
	if (image->segment_count == 0)
		return error_new(ERROR_FAILED, "%s: nothing to load", image->path);
	qsort(image->segments, image->segment_count, sizeof(*image->segments), compare_segments);
	return NULL;
}

/* The member of struct dynamic for each tag. */
static const struct {
	int64_t tag;
	size_t offset;
} dynamic_fields[] = {
	{ DT_SYMTAB, offsetof(struct dynamic, symtab) },
	{ DT_STRTAB, offsetof(struct dynamic, strtab) },
	{ DT_STRSZ, offsetof(struct dynamic, strsz) },
	{ DT_VERSYM, offsetof(struct dynamic, versym) },
	{ DT_VERNEED, offsetof(struct dynamic, verneed) },
	{ DT_HASH, offsetof(struct dynamic, hash) },
	{ DT_GNU_HASH, offsetof(struct dynamic, gnu_hash) },
	{ DT_RELA, offsetof(struct dynamic, rela) },
	{ DT_RELASZ, offsetof(struct dynamic, relasz) },
	{ DT_JMPREL, offsetof(struct dynamic, jmprel) },
	{ DT_PLTRELSZ, offsetof(struct dynamic, pltrelsz) },
	{ DT_FLAGS, offsetof(struct dynamic, flags) },
	{ DT_FLAGS_1, offsetof(struct dynamic, flags_1) },
};

static void read_dynamic_entry(struct dynamic *dynamic, const Elf64_Dyn *entry)
{
	if (entry->d_tag == DT_TEXTREL)
		dynamic->textrel = true;
	if (entry->d_tag == DT_SONAME)
		dynamic->has_soname = true;
	for (size_t i = 0; i < sizeof(dynamic_fields) / sizeof(*dynamic_fields); i++) {
		if (dynamic_fields[i].tag == entry->d_tag)
			memcpy((char *)dynamic + dynamic_fields[i].offset, &entry->d_un.d_val,
			       sizeof(uint64_t));
	}
}

static void read_dynamic(struct elf_image *image, const Elf64_Phdr *headers)
{
	for (size_t i = 0; i < image->header.e_phnum; i++) {
		struct bytes table;
		Elf64_Dyn entry;

		if (headers[i].p_type != PT_DYNAMIC)
			continue;
		table = elf_image_bytes(image, headers[i].p_vaddr, headers[i].p_memsz);
		for (size_t at = 0; at + sizeof(entry) <= table.size; at += sizeof(entry)) {
			memcpy(&entry, table.at + at, sizeof(entry));
			if (entry.d_tag == DT_NULL)
				break;
			read_dynamic_entry(&image->dynamic, &entry);
		}
		return;
	}
}

static struct error *open_elf(struct elf_image *image, int fd)
{
	struct error *error;
	struct stat stat;

	image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (image->fd < 0 || fstat(image->fd, &stat) < 0)
		return error_errno(errno, "cannot read %s", image->path);
	if (!S_ISREG(stat.st_mode))
		return error_new(ERROR_FAILED, "%s: not a regular file", image->path);
	image->file_size = (uint64_t)stat.st_size;
	error = check_header(image);
	if (error)
		return error;
	if (has_too_many_sections(image))
		return error_new(ERROR_FAILED, "%s: too many sections", image->path);
	elf_version(EV_CURRENT);
	image->elf = elf_begin(image->fd, ELF_C_READ, NULL);
	if (!image->elf || elf_kind(image->elf) != ELF_K_ELF)
		return error_new(ERROR_FAILED, "%s: damaged ELF file", image->path);
	return NULL;
}

static struct error *elf_image_fill(struct elf_image *image, int fd, const char *path)
{
	const Elf64_Phdr *headers = NULL;
	struct error *error;

	image->path = strdup(path);
	if (!image->path)
		return error_errno(ENOMEM, "%s", path);
	error = open_elf(image, fd);
	if (!error)
		error = read_program_headers(image, &headers);
	if (!error)
		error = read_segments(image, headers);
	if (!error)
		read_dynamic(image, headers);
	return error;
}

struct error *elf_image_open(int fd, const char *path, struct elf_image *ret_image)
{
	struct elf_image image = { .fd = -1 };
	struct error *error = elf_image_fill(&image, fd, path);

	if (error) {
		elf_image_close(&image);
		return error;
	}
	*ret_image = image;
	return NULL;
}

void elf_image_close(struct elf_image *image)
{
	elf_end(image->elf);
	free(image->segments);
	free(image->path);
	if (image->fd >= 0)
		close(image->fd);
	*image = (struct elf_image){ .fd = -1 };
}

struct segment *elf_image_memory(const struct elf_image *image, uint64_t address)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		struct segment *s = &image->segments[i];

		if (address >= s->address && address - s->address < s->size)
			return s;
	}
	return NULL;
}

struct segment *elf_image_segment(const struct elf_image *image, uint64_t address)
{
	struct segment *s = elf_image_memory(image, address);

	return s && address - s->address < s->file_size ? s : NULL;
}

static struct bytes bytes_of(const Elf_Data *data)
{
	return data && data->d_buf ? (struct bytes){ data->d_buf, data->d_size }
				   : (struct bytes){ 0 };
}

/* libelf keeps the bytes until elf_end. */
static struct bytes read_chunk(const struct elf_image *image, uint64_t offset, uint64_t n)
{
	const Elf_Data *data = NULL;

	if (n > 0 && n <= BYTES_MAX)
		data = elf_getdata_rawchunk(image->elf, (int64_t)offset, n, ELF_T_BYTE);
	return bytes_of(data);
}

const uint8_t *elf_image_segment_bytes(const struct elf_image *image, struct segment *segment)
{
	if (!segment->bytes && !segment->unreadable) {
		segment->bytes = read_chunk(image, segment->offset, segment->file_size).at;
		segment->unreadable = !segment->bytes;
	}
	return segment->bytes;
}

/* The segment that holds the address; *n becomes how many of n bytes it has in the file. */
static const struct segment *find_bytes(const struct elf_image *image, uint64_t address,
					uint64_t *n)
{
	const struct segment *s = elf_image_segment(image, address);
	uint64_t room = s ? s->file_size - (address - s->address) : 0;

	assert(!s || s->file_size <= s->size); /* I1 */
	assert(!s || s->offset + s->file_size <= image->file_size); /* I2 */
	if (*n > room)
		*n = room;
	return s;
}

struct bytes elf_image_bytes(const struct elf_image *image, uint64_t address, uint64_t n)
{
	const struct segment *s = find_bytes(image, address, &n);

	if (!s)
		return (struct bytes){ 0 };
	if (s->bytes)
		return (struct bytes){ s->bytes + (address - s->address), n };
	return read_chunk(image, s->offset + (address - s->address), n);
}

size_t elf_image_read(const struct elf_image *image, uint64_t address, void *to, size_t n)
{
	uint64_t room = n;
	const struct segment *s = find_bytes(image, address, &room);
	ssize_t got;

	if (!s)
		return 0;
	if (s->bytes) {
		memcpy(to, s->bytes + (address - s->address), room);
		return room;
	}
	got = pread(image->fd, to, room, (off_t)(s->offset + (address - s->address)));
	return got < 0 ? 0 : (size_t)got;
}

struct bytes elf_image_section_bytes(Elf_Scn *section, uint32_t type)
{
	const Elf64_Shdr *h = section ? elf64_getshdr(section) : NULL;
	const Elf_Data *data = NULL;

	if (h && h->sh_type == type && !(h->sh_flags & SHF_COMPRESSED) && h->sh_size <= BYTES_MAX)
		data = elf_rawdata(section, NULL);
	return bytes_of(data);
}

const Elf64_Shdr *elf_image_section(const struct elf_image *image, const char *name)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(image->elf, &names) < 0 ||
	    !elf_image_section_bytes(elf_getscn(image->elf, names), SHT_STRTAB).size)
		return NULL;
	while ((section = elf_nextscn(image->elf, section))) {
		const Elf64_Shdr *h = elf64_getshdr(section);
		const char *found = h ? elf_strptr(image->elf, names, h->sh_name) : NULL;

		if (found && h->sh_type != SHT_NULL && h->sh_type != SHT_NOBITS &&
		    h->sh_offset <= image->file_size &&
		    h->sh_size <= image->file_size - h->sh_offset && strcmp(found, name) == 0)
			return h; /* I2 */
	}
	return NULL;
}

bool elf_image_is_executable(const struct elf_image *image, uint64_t address)
{
	const struct segment *s = elf_image_segment(image, address);

	return s && (s->flags & PF_X);
}

bool elf_image_is_program(const struct elf_image *image)
{
	if (image->header.e_type == ET_EXEC || (image->dynamic.flags_1 & DF_1_PIE))
		return true;
	return image->has_interpreter && !image->dynamic.has_soname;
}
