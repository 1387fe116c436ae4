#include "agent_elf.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/layout.h"
#include "control/base/cleanup.h"

#define IMAGE_PAGE 4096ULL
#define IMAGE_FILE_MAX (16u << 20)
#define IMAGE_HEADERS_MAX 64

struct file {
	const char *path;
	uint8_t *bytes;
	size_t size;
	Elf64_Ehdr header;
	Elf64_Phdr headers[IMAGE_HEADERS_MAX];
};

#define TEXT_(symbol) #symbol
#define TEXT(symbol) TEXT_(symbol)

static struct error *bad(const struct file *file, const char *why)
{
	return error_new(ERROR_FAILED, "%s can't be used as the agent: %s", file->path, why);
}

static struct error *read_file(struct file *file)
{
	_cleanup_close_ int fd = open(file->path, O_RDONLY | O_CLOEXEC);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat))
		return error_errno(errno, "cannot open the agent %s", file->path);
	if (stat.st_size < (off_t)sizeof(Elf64_Ehdr) || stat.st_size > IMAGE_FILE_MAX)
		return bad(file, "its size is impossible");
	file->size = (size_t)stat.st_size;
	file->bytes = malloc(file->size);
	if (!file->bytes)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t done = 0; done < file->size;) {
		ssize_t n = read(fd, file->bytes + done, file->size - done);

		if (n <= 0)
			return error_errno(n ? errno : EIO, "cannot read the agent %s", file->path);
		done += (size_t)n;
	}
	return NULL;
}

static struct error *check_header(struct file *file)
{
	Elf64_Ehdr *h = &file->header;

	memcpy(h, file->bytes, sizeof(*h));
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_type != ET_DYN || h->e_machine != EM_X86_64)
		return bad(file, "it isn't an x86-64 shared object");
	if (h->e_phentsize != sizeof(Elf64_Phdr) || !h->e_phnum || h->e_phnum > IMAGE_HEADERS_MAX ||
	    h->e_phoff > file->size || file->size - h->e_phoff < h->e_phnum * sizeof(Elf64_Phdr))
		return bad(file, "its program headers lie outside the file");
	memcpy(file->headers, file->bytes + h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr));
	return NULL;
}

/* Does a header of that type cover the segment? */
static bool is_covered(const struct file *file, const Elf64_Phdr *load, uint32_t type)
{
	for (size_t i = 0; i < file->header.e_phnum; i++) {
		const Elf64_Phdr *h = &file->headers[i];

		if (h->p_type == type && h->p_vaddr <= load->p_vaddr &&
		    h->p_vaddr + h->p_memsz >= load->p_vaddr + load->p_memsz)
			return true;
	}
	return false;
}

static struct error *load_one(const struct file *file, const Elf64_Phdr *load, size_t size_max,
			      struct agent_elf *image)
{
	uint64_t start = load->p_vaddr / IMAGE_PAGE * IMAGE_PAGE, end;

	if (load->p_filesz > load->p_memsz || load->p_offset > file->size ||
	    file->size - load->p_offset < load->p_filesz || load->p_vaddr > size_max ||
	    load->p_memsz > size_max - load->p_vaddr)
		return bad(file, "a segment lies outside the file or is too big");
	if ((load->p_flags & PF_W) && !is_covered(file, load, PT_DYNAMIC) &&
	    !is_covered(file, load, PT_GNU_RELRO))
		return bad(file, "it has writable data");
	end = (load->p_vaddr + load->p_memsz + IMAGE_PAGE - 1) / IMAGE_PAGE * IMAGE_PAGE;
	if (end > size_max)
		return bad(file, "it is too big");
	memcpy(image->bytes + load->p_vaddr, file->bytes + load->p_offset, load->p_filesz);
	if (end > image->size)
		image->size = end;
	if (!(load->p_flags & PF_X))
		return NULL;
	if (load->p_flags & PF_W)
		return bad(file, "it has a segment that is writable and executable");
	if (image->text_end)
		return bad(file, "it has more than one executable segment");
	image->text_start = start;
	image->text_end = end;
	return NULL;
}

/* ---- the dynamic section --------------------------------------------------------------------- */

struct dynamic {
	uint64_t symtab, strtab, strsz, rela, relasz;
};

static struct error *read_dynamic(const struct file *file, const struct agent_elf *image,
				  struct dynamic *ret_dynamic)
{
	const Elf64_Phdr *header = NULL;

	for (size_t i = 0; i < file->header.e_phnum; i++) {
		if (file->headers[i].p_type == PT_DYNAMIC)
			header = &file->headers[i];
	}
	if (!header || header->p_vaddr > image->size ||
	    header->p_memsz > image->size - header->p_vaddr)
		return bad(file, "it has no dynamic section");
	for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= header->p_memsz; at += sizeof(Elf64_Dyn)) {
		Elf64_Dyn entry;

		memcpy(&entry, image->bytes + header->p_vaddr + at, sizeof(entry));
		switch (entry.d_tag) {
		case DT_NULL:
			return NULL;
		case DT_SYMTAB:
			ret_dynamic->symtab = entry.d_un.d_ptr;
			break;
		case DT_STRTAB:
			ret_dynamic->strtab = entry.d_un.d_ptr;
			break;
		case DT_STRSZ:
			ret_dynamic->strsz = entry.d_un.d_val;
			break;
		case DT_RELA:
			ret_dynamic->rela = entry.d_un.d_ptr;
			break;
		case DT_RELASZ:
			ret_dynamic->relasz = entry.d_un.d_val;
			break;
		case DT_NEEDED:
			return bad(file, "it needs other libraries");
		case DT_JMPREL:
		case DT_REL:
		case DT_RELR:
		case DT_TEXTREL:
			return bad(file, "it has relocations of a kind that it mustn't have");
		}
	}
	return NULL;
}

static struct error *read_relocations(const struct file *file, const struct dynamic *dynamic,
				      struct agent_elf *image)
{
	size_t count = dynamic->relasz / sizeof(Elf64_Rela);

	if (dynamic->rela > image->size || dynamic->relasz > image->size - dynamic->rela)
		return bad(file, "its relocations lie outside of it");
	image->relatives = calloc(count + 1, sizeof(*image->relatives));
	if (!image->relatives)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++) {
		Elf64_Rela rela;

		memcpy(&rela, image->bytes + dynamic->rela + i * sizeof(rela), sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) != R_X86_64_RELATIVE)
			return bad(file, "it has relocations of a kind that it mustn't have");
		if (rela.r_offset > image->size || image->size - rela.r_offset < 8)
			return bad(file, "a relocation leads outside of it");
		image->relatives[image->relative_count++] =
			(struct image_relative){ rela.r_offset, (uint64_t)rela.r_addend };
	}
	return NULL;
}

/* Notes the symbol's address if it is one of the agent's entry points. */
static void note_entry(const struct dynamic *dynamic, const Elf64_Sym *symbol,
		       struct agent_elf *image)
{
	const struct {
		const char *name;
		uint64_t *to;
	} entries[] = { { "dt_slow", &image->slow },
			{ "dt_gather", &image->gather },
			{ "dt_guard", &image->guard },
			{ "dt_trap", &image->trap },
			{ "dt_trap_return", &image->trap_return },
			{ "dt_call_op", &image->call_op },
			{ "dt_fault", &image->fault },
			{ "dt_line_hit", &image->line_hit },
			{ "dt_front", &image->front },
			{ "dt_find", &image->find },
			{ "dt_read_text", &image->reads[DT_READ_TEXT] },
			{ "dt_read_bytes", &image->reads[DT_READ_BYTES] },
			{ "dt_read_end", &image->reads[DT_READ_END] },
			{ "dt_read_key", &image->reads[DT_READ_KEY] },
			{ "dt_read_frames", &image->reads[DT_READ_FRAMES] },
			{ TEXT(DT_VERSION_SYMBOL), &image->version } };

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_value < image->text_start ||
	    symbol->st_value >= image->text_end)
		return;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		size_t size = strlen(entries[i].name) + 1;

		if (symbol->st_name <= dynamic->strsz && dynamic->strsz - symbol->st_name >= size &&
		    !memcmp(image->bytes + dynamic->strtab + symbol->st_name, entries[i].name,
			    size))
			*entries[i].to = symbol->st_value;
	}
}

/* The symbol table has no length field; with ld it ends where the string table begins. */
static struct error *find_entries(const struct file *file, const struct dynamic *dynamic,
				  struct agent_elf *image)
{
	if (dynamic->symtab > dynamic->strtab || dynamic->strtab > image->size ||
	    dynamic->strsz > image->size - dynamic->strtab)
		return bad(file, "its symbols lie outside of it");
	for (uint64_t at = dynamic->symtab; at + sizeof(Elf64_Sym) <= dynamic->strtab;
	     at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;

		memcpy(&symbol, image->bytes + at, sizeof(symbol));
		note_entry(dynamic, &symbol, image);
	}
	if (!image->version)
		return bad(file,
			   "it is of another version (install both together; restart dyntraced after an upgrade)");
	if (!image->slow || !image->gather)
		return bad(file, image->slow ? "it doesn't define dt_gather" :
					       "it doesn't define dt_slow");
	return NULL;
}

static struct error *load_all(struct file *file, size_t size_max, struct agent_elf *image)
{
	struct dynamic dynamic = { 0 };
	struct error *err = read_file(file);

	if (err || (err = check_header(file)))
		return err;
	image->bytes = calloc(1, size_max);
	if (!image->bytes)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; !err && i < file->header.e_phnum; i++) {
		if (file->headers[i].p_type == PT_LOAD)
			err = load_one(file, &file->headers[i], size_max, image);
	}
	if (err || (err = read_dynamic(file, image, &dynamic)) ||
	    (err = read_relocations(file, &dynamic, image)))
		return err;
	return find_entries(file, &dynamic, image);
}

struct error *agent_elf_load(const char *path, size_t size_max, struct agent_elf *ret_image)
{
	struct file file = { .path = path };
	struct agent_elf image = { 0 };
	struct error *err = load_all(&file, size_max, &image);

	free(file.bytes);
	if (err) {
		agent_elf_free(&image);
		return err;
	}
	*ret_image = image;
	return NULL;
}

void agent_elf_place(const struct agent_elf *image, uint64_t address, uint8_t *to)
{
	memcpy(to, image->bytes, image->size);
	for (size_t i = 0; i < image->relative_count; i++) {
		uint64_t value = address + image->relatives[i].addend;

		assert(image->relatives[i].offset <= image->size - sizeof(value));
		memcpy(to + image->relatives[i].offset, &value, sizeof(value));
	}
}

void agent_elf_free(struct agent_elf *image)
{
	free(image->bytes);
	free(image->relatives);
	*image = (struct agent_elf){ 0 };
}
