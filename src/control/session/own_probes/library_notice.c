/*
 * library_notice.c
 *
 * A dynamic loader calls an empty function, for debuggers, before and after it changes its list
 * (struct r_debug: r_brk): _dl_debug_state, in glibc and in musl. It gets a probe of ours. glibc
 * calls it when a new library is mapped and not yet relocated, musl when it is relocated; both
 * before any code of the library has run. The calling thread waits there, for a bounded time, until
 * the tracepoints in the new library are placed, and our own probes, if it has an unwinder (N1).
 */
#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "library_notice.h"
#include "own_probes.h"

#define ANSWER_MS 2000u

struct library_notice {
	taddr r_debug; /* the loader's; 0: unknown */
	uint32_t seen; /* the value of dt_pool.modules_asked that was taken last */
	uint32_t late; /* threads that stopped waiting before the answer (N1) */
};

bool library_notice_create(struct session *session)
{
	session->notice = calloc(1, sizeof(*session->notice));
	return session->notice != NULL;
}

void library_notice_free(struct session *session)
{
	free(session->notice);
}

/* The address of the loader's struct r_debug: a symbol in glibc, in musl a pointer. */
static taddr find_r_debug(struct session *session, const struct module *module,
			  const struct symtab *symtab)
{
	const struct symbol *symbol = symtab_find(symtab, "_r_debug");
	uint64_t address = 0;

	if (symbol && symbol->kind == SYMBOL_OBJECT)
		return taddr_add(module->bias, (int64_t)symbol->address);
	symbol = symtab_find(symtab, "_dl_debug_addr");
	if (symbol && symbol->kind == SYMBOL_OBJECT)
		error_free(mem_read(session->proc,
				    taddr_add(module->bias, (int64_t)symbol->address), &address,
				    sizeof(address)));
	return taddr_of(address);
}

struct error *library_notice_add_probe(struct session *session)
{
	for (size_t i = 0; i < session->modules.count; i++) {
		struct module *module = session->modules.items[i];
		struct symtab *symtab;

		if (strncmp(module->name, "ld-", 3) != 0 &&
		    strncmp(module->name, "ld.so", 5) != 0 &&
		    strncmp(module->name, "libc.", 5) != 0)
			continue;
		_cleanup_error_ struct error *unreadable =
			module_symtab(session->proc, module, &symtab);
		const struct symbol *symbol =
			unreadable ? NULL : symtab_find(symtab, "_dl_debug_state");
		struct probe *probe;

		if (!symbol || symbol->kind != SYMBOL_FUNCTION)
			continue;
		if (own_probes_has(session, module, symbol))
			return NULL;
		struct error *error = own_probes_add_at(session, module, symbol, &probe);
		if (!error) {
			probe->event.asks = DT_ASK_MODULES;
			session->notice->r_debug = find_r_debug(session, module, symtab);
		}
		return error;
	}
	return NULL;
}

taddr library_notice_r_debug(const struct session *session)
{
	return session->notice->r_debug;
}

void library_notice_update(struct session *session)
{
	assert(session->agent && session->notice);
	struct dt_control *control = session->agent->control;

	if (!control->modules_ms) /* look also for libraries loaded before our probe was placed */
		session->notice->seen--;
	control->r_debug = session->notice->r_debug.v;
	control->modules_ms = ANSWER_MS;
	/* Also where no tracepoint depends on libraries: with its first hit after dlopen, an
	 * unwinder may meet code of ours on the stack, and knows it by a probe in it only. */
	__atomic_or_fetch(&control->flags, DT_WAIT_MODULES, __ATOMIC_RELAXED);
}

void library_notice_answer(struct session *session, uint32_t number)
{
	struct dt_pool *pool = session->agent->pool;

	assert(!session->found.items); /* never a dead controller's pool */
	if (__atomic_exchange_n(&pool->modules_expired, 0, __ATOMIC_RELAXED))
		session->notice->late++;
	/* pairs with notice_tell in the agent, which reads the word, then sleeps on it */
	__atomic_store_n(&pool->modules_answered, number, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &pool->modules_answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool library_notice_is_pending(const struct session *session)
{
	return session->agent && __atomic_load_n(&session->agent->pool->modules_asked,
						 __ATOMIC_SEQ_CST) != session->notice->seen;
}

uint32_t library_notice_take(struct session *session)
{
	session->notice->seen =
		__atomic_load_n(&session->agent->pool->modules_asked, __ATOMIC_ACQUIRE);
	return session->notice->seen;
}

uint32_t library_notice_seen(const struct session *session)
{
	return session->notice->seen;
}

uint32_t library_notice_late(const struct session *session)
{
	return session->notice->late;
}

bool library_notice_hold(struct session *session)
{
	return __atomic_fetch_and(&session->agent->control->flags, ~DT_WAIT_MODULES,
				  __ATOMIC_RELAXED) &
	       DT_WAIT_MODULES;
}

void library_notice_go_on(struct session *session, bool waited)
{
	if (waited)
		__atomic_or_fetch(&session->agent->control->flags, DT_WAIT_MODULES,
				  __ATOMIC_RELAXED);
}

void library_notice_end(struct session *session)
{
	/* a dead controller's pool is only a copy here */
	if (!session->agent || session->found.items)
		return;
	__atomic_and_fetch(&session->agent->control->flags, ~DT_WAIT_MODULES, __ATOMIC_RELAXED);
	library_notice_answer(session, __atomic_load_n(&session->agent->pool->modules_asked,
						       __ATOMIC_ACQUIRE));
}
