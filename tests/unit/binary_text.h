/*
 * binary_text.h - the executable bytes of real programs, as input for tests.
 *
 * Header only. A file that isn't installed gives an empty text; a test says how many it needs.
 */
#ifndef DYNTRACE_TESTS_BINARY_TEXT_H
#define DYNTRACE_TESTS_BINARY_TEXT_H

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const binary_paths[] = {
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/lib/x86_64-linux-gnu/libcrypto.so.3",
	"/usr/bin/redis-server",
	"/usr/bin/python3",
};
#define BINARY_COUNT (sizeof(binary_paths) / sizeof(*binary_paths))

struct binary_text {
	uint8_t *file;
	size_t file_size;
	const uint8_t *bytes; /* its first executable segment */
	size_t size;
	uint64_t address; /* as linked */
};

static inline struct binary_text binary_text_map(const char *path)
{
	struct binary_text text = { 0 };
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return text;
	if (fstat(fd, &st) == 0)
		text.file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (!text.file || text.file == MAP_FAILED)
		return (struct binary_text){ 0 };
	text.file_size = (size_t)st.st_size;

	const Elf64_Ehdr *header = (const void *)text.file;
	const Elf64_Phdr *segment = (const void *)(text.file + header->e_phoff);

	for (size_t i = 0; i < header->e_phnum && !text.size; i++, segment++) {
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		text.bytes = text.file + segment->p_offset;
		text.size = segment->p_filesz;
		text.address = segment->p_vaddr;
	}
	return text;
}

static inline void binary_text_unmap(struct binary_text *text)
{
	if (text->file)
		munmap(text->file, text->file_size);
}

#endif
