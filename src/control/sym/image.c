#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/cleanup.h"

#define ADDRESS_MAX (1ULL << 47)
#define COPY_MAX (1ULL << 30) /* more than this of one segment or table isn't read */
#define PHDRS_MAX 4096u
#define SEGMENTS_MAX 128u
#define SECTIONS_MAX 65536u
#define DYNAMIC_MAX 4096u

/* All of them, or fewer at the end of the file or on an error. */
static size_t read_at(const struct image *image, uint64_t offset, void *to, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = pread(image->fd, (char *)to + done, n - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static bool lies_in_file(const struct image *image, uint64_t offset, uint64_t size)
{
	return offset <= image->file_size && size <= image->file_size - offset;
}

static struct error *read_header(struct image *image)
{
	Elf64_Ehdr *h = &image->header;
	const char *path = image->path;
	size_t got = read_at(image, 0, h, sizeof(*h));

	if (got < SELFMAG || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return error_new(ERROR_FAILED, "%s isn't an ELF file", path);
	if (got < sizeof(*h))
		return error_new(ERROR_FAILED, "%s is cut short", path);
	if (h->e_ident[EI_CLASS] == ELFCLASS32)
		return error_new(ERROR_FAILED, "%s is a 32-bit file; only x86-64 is supported",
				 path);
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
	    h->e_machine != EM_X86_64)
		return error_new(ERROR_FAILED,
				 "%s is for another machine; only x86-64 is supported", path);
	if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
		return error_new(ERROR_FAILED, "%s is neither a program nor a shared library",
				 path);
	return NULL;
}

/* Clips a PT_LOAD to what the file really has (I1, I2); false: nothing is left of it. */
static bool segment_of(const struct image *image, const Elf64_Phdr *p, struct segment *ret)
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

struct headers {
	Elf64_Phdr *items;
	size_t count;
};

static struct error *read_program_headers(struct image *image, struct headers *ret)
{
	const Elf64_Ehdr *h = &image->header;
	size_t size = (size_t)h->e_phnum * sizeof(Elf64_Phdr);
	_cleanup_free_ Elf64_Phdr *items = NULL;

	if (h->e_phnum == 0)
		return error_new(ERROR_FAILED, "%s has no program headers", image->path);
	if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum > PHDRS_MAX)
		return error_new(ERROR_FAILED, "%s has damaged program headers", image->path);
	if (!lies_in_file(image, h->e_phoff, size))
		return error_new(ERROR_FAILED, "%s is cut short", image->path);
	items = malloc(size);
	if (!items)
		return error_errno(ENOMEM, "%s", image->path);
	if (read_at(image, h->e_phoff, items, size) != size)
		return error_new(ERROR_FAILED, "%s is cut short", image->path);
	*ret = (struct headers){ take_ptr(&items), h->e_phnum };
	return NULL;
}

static struct error *read_segments(struct image *image, const struct headers *headers)
{
	image->segments = calloc(SEGMENTS_MAX, sizeof(*image->segments));
	if (!image->segments)
		return error_errno(ENOMEM, "%s", image->path);
	for (size_t i = 0; i < headers->count; i++) {
		const Elf64_Phdr *p = &headers->items[i];
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
			return error_new(ERROR_FAILED, "%s has too many segments", image->path);
		image->segments[image->segment_count++] = segment;
	}
	if (image->segment_count == 0)
		return error_new(ERROR_FAILED, "%s has nothing to load", image->path);
	qsort(image->segments, image->segment_count, sizeof(*image->segments), compare_segments);
	return NULL;
}

/* Where each tag of the dynamic table goes. */
static const struct {
	int64_t tag;
	size_t offset;
} dynamic_fields[] = {
	{ DT_SYMTAB, offsetof(struct dynamic, symtab) },
	{ DT_STRTAB, offsetof(struct dynamic, strtab) },
	{ DT_STRSZ, offsetof(struct dynamic, strsz) },
	{ DT_VERSYM, offsetof(struct dynamic, versym) },
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

static void read_dynamic(struct image *image, const struct headers *headers)
{
	for (size_t i = 0; i < headers->count; i++) {
		const Elf64_Phdr *p = &headers->items[i];
		Elf64_Dyn entry;

		if (p->p_type != PT_DYNAMIC)
			continue;
		for (size_t k = 0; k < DYNAMIC_MAX; k++) {
			if ((k + 1) * sizeof(entry) > p->p_memsz ||
			    image_read(image, p->p_vaddr + k * sizeof(entry), &entry,
				       sizeof(entry)) != sizeof(entry) ||
			    entry.d_tag == DT_NULL)
				break;
			read_dynamic_entry(&image->dynamic, &entry);
		}
		return;
	}
}

/* Section headers are a help, not a need: damaged ones count as none. */
static void read_sections(struct image *image)
{
	const Elf64_Ehdr *h = &image->header;
	uint64_t count = h->e_shnum, names = h->e_shstrndx;
	Elf64_Shdr first;

	if (h->e_shoff == 0 || h->e_shentsize != sizeof(first) ||
	    !lies_in_file(image, h->e_shoff, sizeof(first)) ||
	    read_at(image, h->e_shoff, &first, sizeof(first)) != sizeof(first))
		return;
	if (count == 0)
		count = first.sh_size;
	if (names == SHN_XINDEX)
		names = first.sh_link;
	if (count > SECTIONS_MAX || !lies_in_file(image, h->e_shoff, count * sizeof(first)))
		return;
	image->sections = (Elf64_Shdr *)image_copy_file(image, h->e_shoff, count * sizeof(first),
							&image->section_count);
	image->section_count /= sizeof(first);
	for (size_t i = 0; i < image->section_count; i++) {
		Elf64_Shdr *s = &image->sections[i];

		if (s->sh_type != SHT_NOBITS && !lies_in_file(image, s->sh_offset, s->sh_size))
			s->sh_type = SHT_NULL;
	}
	if (names < image->section_count && image->sections[names].sh_type == SHT_STRTAB)
		image->section_names = (char *)image_copy_file(
			image, image->sections[names].sh_offset, image->sections[names].sh_size,
			&image->section_names_size);
}

static struct error *image_fill(struct image *image, int fd, const char *path)
{
	struct headers headers = { 0 };
	struct error *error;
	struct stat stat;

	image->path = strdup(path);
	if (!image->path)
		return error_errno(ENOMEM, "%s", path);
	image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (image->fd < 0 || fstat(image->fd, &stat) < 0)
		return error_errno(errno, "cannot read %s", path);
	if (!S_ISREG(stat.st_mode))
		return error_new(ERROR_FAILED, "%s isn't a regular file", path);
	image->file_size = (uint64_t)stat.st_size;
	error = read_header(image);
	if (!error)
		error = read_program_headers(image, &headers);
	if (!error)
		error = read_segments(image, &headers);
	if (!error) {
		read_dynamic(image, &headers);
		read_sections(image);
	}
	free(headers.items);
	return error;
}

struct error *image_open(int fd, const char *path, struct image *ret_image)
{
	struct image image = { .fd = -1 };
	struct error *error = image_fill(&image, fd, path);

	if (error) {
		image_close(&image);
		return error;
	}
	*ret_image = image;
	return NULL;
}

void image_close(struct image *image)
{
	for (size_t i = 0; i < image->segment_count; i++)
		free(image->segments[i].bytes);
	free(image->segments);
	free(image->sections);
	free(image->section_names);
	free(image->path);
	if (image->fd >= 0)
		close(image->fd);
	*image = (struct image){ .fd = -1 };
}

struct segment *image_memory(const struct image *image, uint64_t address)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		struct segment *s = &image->segments[i];

		if (address >= s->address && address - s->address < s->size)
			return s;
	}
	return NULL;
}

struct segment *image_segment(const struct image *image, uint64_t address)
{
	struct segment *s = image_memory(image, address);

	return s && address - s->address < s->file_size ? s : NULL;
}

const uint8_t *image_segment_bytes(const struct image *image, struct segment *segment)
{
	size_t size;

	if (!segment->bytes && !segment->unreadable) {
		segment->bytes = image_copy_file(image, segment->offset, segment->file_size, &size);
		if (segment->bytes && size < segment->file_size) {
			free(segment->bytes);
			segment->bytes = NULL;
		}
		segment->unreadable = !segment->bytes;
	}
	return segment->bytes;
}

size_t image_read(const struct image *image, uint64_t address, void *to, size_t n)
{
	const struct segment *s = image_segment(image, address);
	uint64_t skip;

	if (!s)
		return 0;
	skip = address - s->address;
	if (n > s->file_size - skip)
		n = s->file_size - skip;
	if (!s->bytes)
		return read_at(image, s->offset + skip, to, n);
	memcpy(to, s->bytes + skip, n);
	return n;
}

uint8_t *image_copy(const struct image *image, uint64_t address, uint64_t n, size_t *ret_size)
{
	const struct segment *s = image_segment(image, address);
	uint64_t skip;

	if (!s)
		return NULL;
	skip = address - s->address;
	if (n > s->file_size - skip)
		n = s->file_size - skip;
	return image_copy_file(image, s->offset + skip, n, ret_size);
}

uint8_t *image_copy_file(const struct image *image, uint64_t offset, uint64_t n, size_t *ret_size)
{
	uint8_t *bytes;

	if (!lies_in_file(image, offset, n) || n > COPY_MAX)
		return NULL;
	bytes = malloc(n + 8);
	if (!bytes)
		return NULL;
	*ret_size = read_at(image, offset, bytes, n);
	memset(bytes + *ret_size, 0, n + 8 - *ret_size);
	return bytes;
}

const Elf64_Shdr *image_section(const struct image *image, const char *name)
{
	size_t length = strlen(name) + 1;

	for (size_t i = 0; i < image->section_count; i++) {
		const Elf64_Shdr *s = &image->sections[i];

		if (s->sh_type != SHT_NULL && s->sh_type != SHT_NOBITS &&
		    s->sh_name < image->section_names_size &&
		    image->section_names_size - s->sh_name >= length &&
		    memcmp(image->section_names + s->sh_name, name, length) == 0)
			return s;
	}
	return NULL;
}

bool image_is_executable(const struct image *image, uint64_t address)
{
	const struct segment *s = image_segment(image, address);

	return s && (s->flags & PF_X);
}

bool image_is_program(const struct image *image)
{
	if (image->header.e_type == ET_EXEC || (image->dynamic.flags_1 & DF_1_PIE))
		return true;
	return image->has_interpreter && !image->dynamic.has_soname;
}
