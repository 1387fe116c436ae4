/*
 * The reader of ELF files: opens the input and asks for everything. The answers must be consistent,
 * whatever the file claims.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/base/vec.h"
#include "control/elf/cfi.h"
#include "control/elf/frame_rule.h"
#include "control/elf/go_build.h"
#include "control/elf/go_protect.h"
#include "control/elf/go_functions.h"
#include "control/elf/sdt.h"
#include "control/elf/symtab.h"
#include "control/elf/ust_events.h"
#include "control/names/spell.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
const char *__lsan_default_suppressions(void);

/* libelf forgets a copy of a section in some damaged files (elfutils 0.188). */
const char *__lsan_default_suppressions(void)
{
	return "leak:libelf.so\n";
}

#define SYMBOLS_LOOKED_AT 500

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void count_pointer(void *context, uint64_t address)
{
	size_t *count = context;

	require(address != 0);
	++*count;
}

static void count_any(void *context, uint64_t address)
{
	(void)address;
	++*(size_t *)context;
}

static void count_rseq(void *context, uint64_t start, uint64_t end, uint64_t abort)
{
	(void)start, (void)end, (void)abort;
	++*(size_t *)context;
}

/* Go's table of functions. */
static void check_go(const struct symtab *symtab)
{
	struct go_function function;
	unsigned release;

	if (go_build_release(symtab, &release))
		require(release < 10000 && go_build_mentions(symtab, "go1."));
	if (go_functions_exist(symtab))
		require(symtab_is_go(symtab));
	if (go_functions_at(symtab, symtab_entry(symtab), &function))
		require(function.start <= symtab_entry(symtab));
	if (go_functions_at(symtab, symtab_high(symtab), &function) && function.name)
		require(function.name[0]);
	if (!go_protect_may(symtab))
		require(go_functions_exist(symtab));
}

/* What the unwind table says, by every reader of it. */
static void check_frames(const struct symtab *symtab)
{
	struct frame_rules *rules = frame_rules_open(symtab);
	struct cfi_rows rows = { 0 };
	struct error *error;
	size_t count = 0;

	symtab_each_landing_pad(symtab, count_any, &count);
	error = cfi_compile(symtab, &rows);
	error_free(error);
	for (size_t i = 1; i < rows.count; i++)
		require(rows.items[i - 1].pc < rows.items[i].pc);
	cfi_find(&rows, symtab_entry(symtab));
	vec_free(&rows);
	if (rules) {
		frame_rule_at(rules, symtab_entry(symtab));
		frame_rule_at(rules, symtab_low(symtab));
	}
	frame_rules_close(rules);
	symtab_each_function_start(symtab, count_any, &count);
	symtab_each_rseq(symtab, count_rseq, &count);
	check_go(symtab);
}

/* A marker is in code, and can be printed. */
static void check_markers(const struct symtab *symtab)
{
	struct markers markers = { 0 };
	struct error *error = sdt_read(symtab, &markers);

	for (size_t i = 0; !error && i < markers.count; i++) {
		const struct marker *marker = &markers.items[i];

		require(symtab_text(symtab, marker->address) != NULL);
		require(marker->provider[0] && marker->name[0]);
		require(i == 0 || strcmp(markers.items[i - 1].provider, marker->provider) <= 0);
	}
	error_free(error);
	markers_free(&markers);
}

/* LTTng's static tracepoints likewise. */
static void check_ust_events(const struct symtab *symtab)
{
	struct ust_events events = { 0 };
	struct error *error = ust_events_read(symtab, &events);

	for (size_t i = 0; !error && i < events.count; i++) {
		const struct ust_event *event = &events.items[i];

		require(symtab_text(symtab, event->address) != NULL);
		require(event->provider[0] && event->arguments);
		require(i == 0 || strcmp(events.items[i - 1].provider, event->provider) <= 0);
	}
	error_free(error);
	ust_events_free(&events);
}

/* (I1, I2) The text found for an address covers it, and all of it can be read. */
static void check_address(const struct symtab *symtab, uint64_t address)
{
	const struct symbol *symbol = symtab_at(symtab, address);
	const struct text_range *text = symtab_text(symtab, address);
	uint64_t start, end;
	uint8_t data[64];

	require(!symbol ||
		(symbol->address <= address && address - symbol->address < symbol->size));
	require(!symbol || text);
	if (text) {
		volatile uint8_t first = text->bytes[0], last = text->bytes[text->size - 1];

		(void)first, (void)last;
		require(address - text->address < text->size);
	}
	if (symtab_fde(symtab, address, &start, &end))
		require(start <= address && address < end);
	require(symtab_data(symtab, address, data, sizeof(data)) <= sizeof(data));
}

static void check_symbol(const struct symtab *symtab, const struct symbol *symbol)
{
	const struct symbol *found = symtab_find(symtab, symbol->name);

	require(symbol->name[0] && found && strcmp(found->name, symbol->name) == 0);
	require(strchr(symbol->name, '@') == NULL);
	if (symbol->kind != SYMBOL_OBJECT) {
		const struct text_range *text = symtab_text(symtab, symbol->address);

		require(text && symbol->size <= text->size - (symbol->address - text->address));
	}
	check_address(symtab, symbol->address);
	check_address(symtab, symbol->address + symbol->size);
}

static void check_symtab(const struct symtab *symtab)
{
	size_t count = symtab_count(symtab), pointers = 0;
	struct spell_near near = { .count = 0 };

	require(symtab_low(symtab) < symtab_high(symtab));
	for (size_t i = 0; i < count && i < SYMBOLS_LOOKED_AT; i++)
		check_symbol(symtab, symtab_get(symtab, i));
	for (size_t i = 1; i < count; i++)
		require(symtab_get(symtab, i - 1)->address <= symtab_get(symtab, i)->address);
	check_address(symtab, symtab_entry(symtab));
	check_address(symtab, symtab_low(symtab));
	check_address(symtab, symtab_high(symtab));
	check_address(symtab, UINT64_MAX);
	symtab_each_pointer(symtab, count_pointer, &pointers);
	symtab_has_text_relocations(symtab);
	check_markers(symtab);
	check_ust_events(symtab);
	check_frames(symtab);
	spell_offer_symbols(&near, "mian", symtab);
	require(near.count <= SPELL_NEAR_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct symtab *symtab = NULL;
	struct error *error;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		return 0;
	error = symtab_open(fd, "fuzz", &symtab);
	close(fd);
	if (!error)
		check_symtab(symtab);
	require(!error == !!symtab);
	error_free(error);
	symtab_close(symtab);
	return 0;
}
