#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../shared/layout.h"
#include "../base/cleanup.h"

static void cleanup_elf(Elf **elf)
{
	elf_end(*elf);
}

static void cleanup_image(struct image *image)
{
	image_free(image);
}

static struct error *bad(const char *path, const char *why)
{
	return error_new(ERROR_FAILED, "%s is not dyntrace's agent: %s", path, why);
}

static struct error *load_segment(int fd, const char *path, const GElf_Phdr *segment, struct image *image)
{
	uint64_t end = segment->p_vaddr + segment->p_memsz;

	if (segment->p_memsz > DT_AGENT_SIZE || end > DT_AGENT_SIZE || segment->p_filesz > segment->p_memsz)
		return bad(path, "a segment is too big");
	if (pread(fd, image->bytes + segment->p_vaddr, segment->p_filesz, (off_t)segment->p_offset) !=
	    (ssize_t)segment->p_filesz)
		return bad(path, "it is cut short");
	end = DT_ROUND_UP(end, DT_PAGE);
	if (end > image->size)
		image->size = end;
	if (segment->p_flags & PF_X) {
		image->text[image->text_count].start = segment->p_vaddr / DT_PAGE * DT_PAGE;
		image->text[image->text_count++].end = end;
	}
	return NULL;
}

static struct error *load_segments(int fd, Elf *elf, const char *path, struct image *image)
{
	struct error *error = NULL;
	size_t count = 0;
	GElf_Phdr segment;

	if (elf_getphdrnum(elf, &count) || count > IMAGE_SEGMENTS_MAX)
		return bad(path, "wrong number of segments");
	for (size_t i = 0; i < count && !error; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment))
			return bad(path, "its segments can't be read");
		if (segment.p_type == PT_LOAD)
			error = load_segment(fd, path, &segment, image);
	}
	return error;
}

static void find_slow(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, struct image *image)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Sym symbol;

	for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
		const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);

		if (name && !strcmp(name, "dt_slow"))
			image->slow = symbol.st_value;
	}
}

static struct error *check_sections(Elf *elf, const char *path, struct image *image)
{
	GElf_Shdr header;

	for (Elf_Scn *section = elf_nextscn(elf, NULL); section; section = elf_nextscn(elf, section)) {
		if (!gelf_getshdr(section, &header))
			return bad(path, "its sections can't be read");
		if (header.sh_type == SHT_DYNSYM)
			find_slow(elf, section, &header, image);
		if (header.sh_type == SHT_RELA && header.sh_size)
			return bad(path, "it has relocations");
		if ((header.sh_flags & SHF_ALLOC) && (header.sh_flags & SHF_WRITE) &&
		    header.sh_type != SHT_DYNAMIC && header.sh_size)
			return bad(path, "it has writable data");
	}
	return image->slow && image->slow < image->size ? NULL : bad(path, "it has no dt_slow");
}

struct error *image_load(const char *path, struct image *ret_image)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(cleanup_elf) Elf *elf = NULL;
	_cleanup_(cleanup_image) struct image image = { 0 };

	if (fd < 0)
		return error_errno(errno, "cannot open the agent %s", path);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return bad(path, "it is no ELF file");
	image.bytes = calloc(1, DT_AGENT_SIZE);
	if (!image.bytes)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = load_segments(fd, elf, path, &image);
	if (!error)
		error = check_sections(elf, path, &image);
	if (error)
		return error;
	*ret_image = image;
	image.bytes = NULL;
	return NULL;
}

void image_free(struct image *image)
{
	free(image->bytes);
	image->bytes = NULL;
}
