/* The ABI of x86-64: a call leaves the return address at [rsp], and CFA = rsp + 8. */
#include "control/elf/frame_rule.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <libelf.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/elf/symtab_state.h"

#define REG_RSP 7
#define REG_RA 16

struct frame_rules {
	int fd;
	Elf *elf;
	Dwarf_CFI *cfi;
};

struct frame_rules *frame_rules_open(const struct symtab *symtab)
{
	struct frame_rules *rules = calloc(1, sizeof(*rules));

	if (!rules)
		return NULL;
	elf_version(EV_CURRENT);
	rules->fd = fcntl(symtab->image.fd, F_DUPFD_CLOEXEC, 0);
	rules->elf = rules->fd < 0 ? NULL : elf_begin(rules->fd, ELF_C_READ, NULL);
	rules->cfi = rules->elf ? dwarf_getcfi_elf(rules->elf) : NULL;
	if (!rules->cfi) {
		frame_rules_close(rules);
		return NULL;
	}
	return rules;
}

void frame_rules_close(struct frame_rules *rules)
{
	if (!rules)
		return;
	if (rules->cfi)
		dwarf_cfi_end(rules->cfi);
	if (rules->elf)
		elf_end(rules->elf);
	if (rules->fd >= 0)
		close(rules->fd);
	free(rules);
}

static bool is_cfa_rsp_8(Dwarf_Frame *frame)
{
	Dwarf_Op *ops;
	size_t count;

	return !dwarf_frame_cfa(frame, &ops, &count) && count == 1 && ops[0].atom == DW_OP_bregx &&
	       ops[0].number == REG_RSP && ops[0].number2 == 8;
}

/* CFA - 8: libdw gives the address as an expression over the CFA. */
static bool is_ra_at_cfa_8(Dwarf_Frame *frame)
{
	Dwarf_Op space[3], *ops;
	size_t count;

	if (dwarf_frame_register(frame, REG_RA, space, &ops, &count) || !count)
		return false;
	if (ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	return count == 2 && ops[1].atom == DW_OP_plus_uconst && (int64_t)ops[1].number == -8;
}

enum frame_rule frame_rule_at(struct frame_rules *rules, uint64_t address)
{
	_cleanup_free_ Dwarf_Frame *frame = NULL;
	bool is_signal = false;

	if (!rules || dwarf_cfi_addrframe(rules->cfi, address, &frame))
		return FRAME_UNKNOWN;
	int ra = dwarf_frame_info(frame, NULL, NULL, &is_signal);
	if (is_signal)
		return FRAME_SIGNAL;
	return ra == REG_RA && is_cfa_rsp_8(frame) && is_ra_at_cfa_8(frame) ? FRAME_PLAIN
									    : FRAME_OTHER;
}
