#include "symtab.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "control/base/cleanup.h"
#include "eh_frame.h"
#include "shared/layout.h"
#include "shared/sorted.h"
#include "symtab_state.h"

/* Symbols that symtab_at looks at: bounds the time for a hostile table. */
#define LOOK_BACK_MAX 4096

struct error *symtab_open(int fd, const char *path, struct symtab **ret_symtab)
{
	struct symtab *symtab = calloc(1, sizeof(*symtab));
	struct error *error;

	if (!symtab)
		return error_errno(ENOMEM, "%s", path);
	error = elf_image_open(fd, path, &symtab->image);
	if (error) {
		free(symtab);
		return error;
	}
	error = symbols_read(symtab);
	if (!error)
		error = symbols_measure(symtab);
	if (error) {
		symtab_close(symtab);
		return error;
	}
	*ret_symtab = symtab;
	return NULL;
}

void symtab_close(struct symtab *symtab)
{
	if (!symtab)
		return;
	for (size_t i = 0; i < symtab->cut_names.count; i++)
		free(symtab->cut_names.items[i]);
	vec_free(&symtab->cut_names);
	free(symtab->symbols.items);
	free(symtab->reach);
	free(symtab->buckets);
	free(symtab->chain);
	free(symtab->fdes.items);
	free(symtab->relocations.items);
	vec_free(&symtab->jumps);
	vec_free(&symtab->bound);
	free(symtab->texts);
	elf_image_close(&symtab->image);
	free(symtab);
}

size_t symtab_count(const struct symtab *symtab)
{
	return symtab->symbols.count;
}

const struct symbol *symtab_get(const struct symtab *symtab, size_t index)
{
	assert(index < symtab->symbols.count);
	return &symtab->symbols.items[index];
}

/* ---- by name --------------------------------------------------------------------------------- */

static bool build_hash(struct symtab *symtab)
{
	size_t buckets = 64;

	if (symtab->buckets)
		return true;
	while (buckets < symtab->symbols.count)
		buckets *= 2;
	symtab->chain = calloc(symtab->symbols.count + 1, sizeof(*symtab->chain));
	symtab->buckets = calloc(buckets, sizeof(*symtab->buckets));
	if (!symtab->chain || !symtab->buckets) {
		free(symtab->chain);
		free(symtab->buckets);
		symtab->chain = symtab->buckets = NULL;
		return false;
	}
	symtab->bucket_mask = buckets - 1;
	for (size_t i = symtab->symbols.count; i-- > 0;) { /* chains ascend by address */
		size_t bucket = dt_name_hash(symtab->symbols.items[i].name) & symtab->bucket_mask;

		symtab->chain[i] = symtab->buckets[bucket];
		symtab->buckets[bucket] = (uint32_t)i + 1;
	}
	return true;
}

static const struct symbol *same_name(const struct symtab *symtab, uint32_t link, const char *name)
{
	for (; link; link = symtab->chain[link - 1]) {
		if (strcmp(symtab->symbols.items[link - 1].name, name) == 0)
			return &symtab->symbols.items[link - 1];
	}
	return NULL;
}

const struct symbol *symtab_first_named(const struct symtab *symtab, const char *name)
{
	if (!build_hash(symtab_lazy(symtab)))
		return NULL;
	return same_name(symtab, symtab->buckets[dt_name_hash(name) & symtab->bucket_mask], name);
}

const struct symbol *symtab_next_named(const struct symtab *symtab, const struct symbol *symbol)
{
	return same_name(symtab, symtab->chain[symbol - symtab->symbols.items], symbol->name);
}

/* Lower is better. */
static unsigned rank(const struct symbol *symbol)
{
	return (symbol->kind == SYMBOL_OBJECT) * 8u + symbol->old_version * 4u +
	       (symbol->kind == SYMBOL_IFUNC) * 2u + !symbol->global;
}

const struct symbol *symtab_find(const struct symtab *symtab, const char *name)
{
	const struct symbol *best = symtab_first_named(symtab, name);

	for (const struct symbol *s = best; s; s = symtab_next_named(symtab, s)) {
		if (rank(s) < rank(best))
			best = s;
	}
	return best;
}

/* ---- by address ------------------------------------------------------------------------------ */

/* How many symbols start at or below the address. */
static size_t count_up_to(const struct symtab *symtab, uint64_t address)
{
	return sorted_count(symtab->symbols.count, i, symtab->symbols.items[i].address <= address);
}

bool symbol_is_better(const struct symbol *symbol, const struct symbol *than)
{
	size_t length, than_length;

	if (rank(symbol) != rank(than))
		return rank(symbol) < rank(than);
	length = strlen(symbol->name);
	than_length = strlen(than->name);
	return length != than_length ? length < than_length : strcmp(symbol->name, than->name) < 0;
}

const struct symbol *symtab_at(const struct symtab *symtab, uint64_t address)
{
	const struct symbol *best = NULL;
	size_t stop, i = count_up_to(symtab, address);

	stop = i > LOOK_BACK_MAX ? i - LOOK_BACK_MAX : 0;
	while (i-- > stop && symtab->reach[i] > address) {
		const struct symbol *s = &symtab->symbols.items[i];

		assert(s->address <= address); /* I3 */
		assert(i == 0 || symtab->reach[i - 1] <= symtab->reach[i]); /* I5 */
		if (best && s->address != best->address)
			break;
		if (s->kind == SYMBOL_OBJECT || address - s->address >= s->size)
			continue;
		if (!best || symbol_is_better(s, best))
			best = s;
	}
	return best;
}

const struct ranges *symtab_fdes(const struct symtab *symtab)
{
	struct symtab *lazy = symtab_lazy(symtab);

	if (!lazy->fdes_read) {
		_cleanup_error_ struct error *error = eh_frame_read(&lazy->image, &lazy->fdes);

		lazy->fdes_read = true;
	}
	return &symtab->fdes;
}

bool symtab_fde(const struct symtab *symtab, uint64_t address, uint64_t *ret_start,
		uint64_t *ret_end)
{
	const struct range *fde = ranges_find(symtab_fdes(symtab), address);

	if (!fde)
		return false;
	*ret_start = fde->start;
	*ret_end = fde->end;
	return true;
}

const struct text_range *symtab_text(const struct symtab *symtab, uint64_t address)
{
	struct symtab *lazy = symtab_lazy(symtab);
	struct segment *segment = elf_image_segment(&symtab->image, address);
	struct text_range *text;

	if (!segment || !(segment->flags & PF_X))
		return NULL;
	if (!lazy->texts)
		lazy->texts = calloc(symtab->image.segment_count, sizeof(*lazy->texts));
	if (!lazy->texts || !elf_image_segment_bytes(&symtab->image, segment))
		return NULL;
	text = &lazy->texts[segment - symtab->image.segments];
	*text = (struct text_range){ segment->address, segment->file_size, segment->bytes };
	return text;
}

size_t symtab_peek(const struct symtab *symtab, uint64_t address, void *to, size_t n)
{
	if (!elf_image_is_executable(&symtab->image, address))
		return 0;
	return elf_image_read(&symtab->image, address, to, n);
}

bool symtab_section(const struct symtab *symtab, const char *name, uint64_t *ret_start,
		    uint64_t *ret_end)
{
	const Elf64_Shdr *section = elf_image_section(&symtab->image, name);

	if (!section || section->sh_addr + section->sh_size < section->sh_addr)
		return false;
	*ret_start = section->sh_addr;
	*ret_end = section->sh_addr + section->sh_size;
	return true;
}

uint64_t symtab_low(const struct symtab *symtab)
{
	return symtab->image.segments[0].address;
}

uint64_t symtab_high(const struct symtab *symtab)
{
	uint64_t high = 0;

	for (size_t i = 0; i < symtab->image.segment_count; i++) {
		const struct segment *s = &symtab->image.segments[i];

		if (s->address + s->size > high)
			high = s->address + s->size;
	}
	return high;
}

uint64_t symtab_entry(const struct symtab *symtab)
{
	return symtab->image.header.e_entry;
}

bool symtab_has_text_relocations(const struct symtab *symtab)
{
	return symtab->image.dynamic.textrel || (symtab->image.dynamic.flags & DF_TEXTREL);
}

bool symtab_is_stripped(const struct symtab *symtab)
{
	for (size_t i = 0; i < symtab->symbols.count; i++) {
		if (symtab->symbols.items[i].source == SOURCE_SYMTAB)
			return false;
	}
	return true;
}

bool symtab_file(const struct symtab *symtab, struct stat *ret_stat)
{
	return !fstat(symtab->image.fd, ret_stat);
}
