#include "loader.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"

#define LOADER_HEADERS_MAX 64
#define LOADER_SYMBOLS_MAX 20000u

struct tables {
	uint64_t base, symtab, strtab, strsz, hash, gnu_hash;
};

static bool read_at(struct proc *proc, uint64_t at, void *to, size_t n)
{
	struct error *err = mem_read(proc, taddr_of(at), to, n);

	error_free(err);
	return !err;
}

/* AT_BASE of the auxiliary vector; 0: no loader. */
static uint64_t loader_base(const struct proc *proc)
{
	_cleanup_close_ int fd = proc_status_open(proc->pid, "auxv", O_RDONLY);
	Elf64_auxv_t entry;

	while (fd >= 0 && read(fd, &entry, sizeof(entry)) == sizeof(entry) &&
	       entry.a_type != AT_NULL) {
		if (entry.a_type == AT_BASE)
			return entry.a_un.a_val;
	}
	return 0;
}

static bool find_dynamic(struct proc *proc, uint64_t base, uint64_t *ret_at)
{
	Elf64_Ehdr header;
	Elf64_Phdr headers[LOADER_HEADERS_MAX];

	if (!base || !read_at(proc, base, &header, sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_phnum > LOADER_HEADERS_MAX ||
	    header.e_phentsize != sizeof(*headers) ||
	    !read_at(proc, base + header.e_phoff, headers, header.e_phnum * sizeof(*headers)))
		return false;
	for (size_t i = 0; i < header.e_phnum; i++) {
		if (headers[i].p_type == PT_DYNAMIC) {
			*ret_at = base + headers[i].p_vaddr;
			return true;
		}
	}
	return false;
}

/* At the first instruction addresses are as in the file; some loaders relocate them later. */
static uint64_t absolute(uint64_t base, uint64_t value)
{
	return value && value < base ? base + value : value;
}

static bool read_tables(struct proc *proc, struct tables *tables)
{
	uint64_t at;

	tables->base = loader_base(proc);
	if (!find_dynamic(proc, tables->base, &at))
		return false;
	for (unsigned i = 0; i < 256; i++, at += sizeof(Elf64_Dyn)) {
		Elf64_Dyn entry;

		if (!read_at(proc, at, &entry, sizeof(entry)) || entry.d_tag == DT_NULL)
			break;
		uint64_t address = absolute(tables->base, entry.d_un.d_ptr);
		if (entry.d_tag == DT_SYMTAB)
			tables->symtab = address;
		else if (entry.d_tag == DT_STRTAB)
			tables->strtab = address;
		else if (entry.d_tag == DT_STRSZ)
			tables->strsz = entry.d_un.d_val;
		else if (entry.d_tag == DT_HASH)
			tables->hash = address;
		else if (entry.d_tag == DT_GNU_HASH)
			tables->gnu_hash = address;
	}
	return tables->symtab && tables->strtab;
}

/* Number of symbols by DT_GNU_HASH: the end of the chain of the highest bucket. */
static uint32_t count_gnu(struct proc *proc, uint64_t at)
{
	uint32_t head[4], last = 0, word = 0;

	if (!read_at(proc, at, head, sizeof(head)) || head[0] > LOADER_SYMBOLS_MAX)
		return 0;
	uint64_t buckets = at + sizeof(head) + (uint64_t)head[2] * 8;
	uint64_t chains = buckets + (uint64_t)head[0] * 4;
	for (uint32_t i = 0; i < head[0]; i++) {
		if (!read_at(proc, buckets + i * 4ULL, &word, sizeof(word)))
			return 0;
		if (word > last)
			last = word;
	}
	if (last < head[1])
		return head[1];
	do {
		if (!read_at(proc, chains + (last - head[1]) * 4ULL, &word, sizeof(word)))
			return 0;
		last++;
	} while (!(word & 1) && last < LOADER_SYMBOLS_MAX);
	return last;
}

static uint32_t count_symbols(struct proc *proc, const struct tables *tables)
{
	uint32_t head[2] = { 0 };

	if (tables->hash && read_at(proc, tables->hash, head, sizeof(head)))
		return head[1] < LOADER_SYMBOLS_MAX ? head[1] : 0;
	return tables->gnu_hash ? count_gnu(proc, tables->gnu_hash) : 0;
}

static void note_symbol(const struct tables *tables, const char *name, const Elf64_Sym *symbol,
			struct loader *loader)
{
	taddr at = taddr_of(tables->base + symbol->st_value);

	if (!strcmp(name, "_dl_debug_state"))
		loader->notify = at;
	else if (!strcmp(name, "_r_debug"))
		loader->debug = at;
	else if (!strcmp(name, "_dl_debug_addr"))
		loader->debug_pointer = at;
}

struct error *loader_find(struct proc *proc, struct loader *ret_loader, bool *ret_found)
{
	struct tables tables = { 0 };
	struct loader loader = { 0 };

	*ret_found = false;
	if (!read_tables(proc, &tables))
		return NULL;
	uint32_t count = count_symbols(proc, &tables);
	for (uint32_t i = 0; i < count; i++) {
		Elf64_Sym symbol;
		char name[24] = "";

		if (!read_at(proc, tables.symtab + i * sizeof(symbol), &symbol, sizeof(symbol)))
			break;
		if (symbol.st_shndx == SHN_UNDEF ||
		    symbol.st_name + sizeof(name) > tables.strsz + 64)
			continue;
		size_t room = tables.strsz - symbol.st_name;
		if (room > sizeof(name) - 1)
			room = sizeof(name) - 1;
		if (read_at(proc, tables.strtab + symbol.st_name, name, room))
			note_symbol(&tables, name, &symbol, &loader);
	}
	*ret_found = loader.notify.v && (loader.debug.v || loader.debug_pointer.v);
	*ret_loader = loader;
	return NULL;
}

struct error *loader_look(struct proc *proc, const struct loader *loader, bool *ret_done)
{
	struct error *err = NULL;
	struct r_debug debug = { 0 };
	uint64_t at = loader->debug.v;

	if (!at)
		err = mem_read(proc, loader->debug_pointer, &at, sizeof(at));
	if (!err && at)
		err = mem_read(proc, taddr_of(at), &debug, sizeof(debug));
	if (!err)
		*ret_done = at && debug.r_map && debug.r_state == RT_CONSISTENT;
	return err;
}
