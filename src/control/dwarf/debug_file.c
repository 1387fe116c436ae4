#include "debug_file.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "control/base/cleanup.h"
#include "control/base/interrupt.h"

#define SIZE_LIMIT (32ULL << 30)
#define CRC_LIMIT (2ULL << 30) /* a second or two */
#define CRC_PIECE (256u << 10)
#define SECTIONS_MAX 65536u
#define NAMES_MAX (64ULL << 20)
#define UNPACKED_MAX (2ULL << 30)
/* Files up to this size may be anything. Larger ones must have contents, and their sections may not
 * unfold to more than this many times their size: debug information packs to a fourth. */
#define SMALL (64ULL << 20)
#define RATIO_MAX 64
#define SPARSE_MAX 16

static bool read_at(int fd, uint64_t offset, void *to, size_t size)
{
	return pread(fd, to, size, (off_t)offset) == (ssize_t)size;
}

static bool is_mostly_holes(const struct stat *stat)
{
	uint64_t size = (uint64_t)stat->st_size;

	return size > SMALL && (uint64_t)stat->st_blocks * 512 < size / SPARSE_MAX;
}

/* ---- sections -------------------------------------------------------------------------------- */

/* The size that the section has when it is unpacked, as it says itself. */
static uint64_t unpacked_size(int fd, const Elf64_Shdr *section)
{
	uint8_t old[12]; /* .zdebug_*: "ZLIB", then the size, its highest byte first */
	uint64_t size = 0;
	Elf64_Chdr packed;

	if (section->sh_flags & SHF_COMPRESSED)
		return read_at(fd, section->sh_offset, &packed, sizeof(packed)) ? packed.ch_size :
										  0;
	if (section->sh_size < sizeof(old) || !read_at(fd, section->sh_offset, old, sizeof(old)) ||
	    memcmp(old, "ZLIB", 4) != 0)
		return section->sh_size;
	for (size_t i = 4; i < sizeof(old); i++)
		size = size << 8 | old[i];
	return size;
}

static bool is_section_sound(int fd, const Elf64_Shdr *section)
{
	if (section->sh_type != SHT_PROGBITS || (section->sh_flags & SHF_ALLOC))
		return true;
	uint64_t size = unpacked_size(fd, section);
	return size <= section->sh_size ||
	       (size <= UNPACKED_MAX && size / RATIO_MAX <= section->sh_size + SMALL / RATIO_MAX);
}

/* Their number, and which of them has the names, may be in the first one's header. */
static bool are_sections_sound(int fd, const Elf64_Ehdr *header)
{
	Elf64_Shdr first;

	if (!header->e_shoff)
		return true;
	if (header->e_shentsize != sizeof(first) ||
	    !read_at(fd, header->e_shoff, &first, sizeof(first)))
		return false;
	uint64_t count = header->e_shnum ? header->e_shnum : first.sh_size;
	uint64_t names = header->e_shstrndx == SHN_XINDEX ? first.sh_link : header->e_shstrndx;
	if (count > SECTIONS_MAX || (names && names >= count))
		return false;
	_cleanup_free_ Elf64_Shdr *sections = calloc(count + 1, sizeof(*sections));
	if (!sections || !read_at(fd, header->e_shoff, sections, count * sizeof(*sections)))
		return false;
	bool sound = sections[names].sh_size <= NAMES_MAX;
	for (uint64_t i = 0; i < count && sound; i++)
		sound = is_section_sound(fd, &sections[i]);
	return sound;
}

/* ---- files ----------------------------------------------------------------------------------- */

bool debug_file_is_sound(int fd)
{
	struct stat stat;
	Elf64_Ehdr header;

	return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
	       (uint64_t)stat.st_size <= SIZE_LIMIT && !is_mostly_holes(&stat) &&
	       read_at(fd, 0, &header, sizeof(header)) &&
	       memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
	       header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
	       are_sections_sound(fd, &header);
}

int debug_file_judge(int fd)
{
	if (fd < 0 || debug_file_is_sound(fd))
		return fd;
	close(fd);
	return -1;
}

int debug_file_open(const char *path)
{
	_cleanup_close_ int place = open(path, O_PATH | O_CLOEXEC);
	struct stat stat;
	char name[64];

	if (place < 0 || fstat(place, &stat) || !S_ISREG(stat.st_mode))
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
	return debug_file_judge(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

bool debug_file_has_crc(int fd, uint32_t crc)
{
	_cleanup_free_ uint8_t *bytes = malloc(CRC_PIECE);
	uint32_t found = 0;
	uint64_t at = 0;
	ssize_t n = 0;

	while (bytes && at <= CRC_LIMIT && !interrupt_requested() &&
	       (n = pread(fd, bytes, CRC_PIECE, (off_t)at)) > 0) {
		found = (uint32_t)crc32(found, bytes, (uInt)n);
		at += (uint64_t)n;
	}
	return bytes && n == 0 && at && found == crc;
}
