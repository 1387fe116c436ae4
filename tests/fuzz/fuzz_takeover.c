/*
 * A takeover: the control page and the site table of a dead controller, which lie in the target and
 * so say anything. The target is this process itself: its own text stands for the program, and a
 * page of its memory for the control page. Sites that are found lie in the text, one behind
 * another; counts stay within their tables.
 *
 * The input: a byte of flags; then changes to a sound control page: where (three bytes), how many
 * bytes (one), those bytes. Sites are numbered entries of the table whose address is an offset into
 * the text, and whose check is right unless the flag says otherwise.
 */
#include "fuzz.h"

#include "control/session/takeover/takeover_find.c"

#define TEXT_SIZE 4096u
#define SMALL 3u
#define BIG 2u
#define SITES_LOOKED_AT 64u

/* Bytes that stand for patches: short jumps to each other and to nowhere, and slots. In the text,
 * so that the file has them, too. */
extern const uint8_t program[TEXT_SIZE] __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
	".balign 4096\n"
	"program:\n"
	".set i, 0\n"
	".rept 1024\n"
	".byte 0xeb, (i * 37) & 0xff, 0xe9, (i * 11) & 0xff\n"
	".set i, i + 1\n"
	".endr\n"
	".popsection\n");

static struct proc *proc;
static struct maps maps; /* of this process, and the two that are made up */
static struct dt_control *page; /* "in the target" */
static struct dt_control *copy; /* the controller's */
static struct dt_pool *pool;
static uint64_t pool_size;

static void add_mapping(uint64_t at, uint64_t size, const char *path)
{
	struct mapping mapping = { .start = taddr_of(at),
				   .end = taddr_of(at + size),
				   .prot = PROT_READ | PROT_WRITE,
				   .shared = true,
				   .inode = 1,
				   .path = strdup(path) };
	size_t index = 0;

	/* in the place of the real one */
	while (index < maps.count && maps.items[index].end.v <= at)
		index++;
	REQUIRE(mapping.path && index < maps.count);
	free(maps.items[index].path);
	maps.items[index] = mapping;
}

static void *map(uint64_t size)
{
	/* with holes around, so that it is a mapping of its own */
	char *memory =
		mmap(NULL, size + 2 * DT_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(memory != MAP_FAILED && !mprotect(memory + DT_PAGE, size, PROT_READ | PROT_WRITE));
	return memory + DT_PAGE;
}

static void begin(void)
{
	uint64_t control_size = DT_ROUND_UP(sizeof(*page), DT_PAGE);

	pool_size = DT_ROUND_UP(dt_chunks_offset(SMALL + BIG) + SMALL * DT_CHUNK_SMALL +
					BIG * DT_CHUNK_BIG,
				DT_PAGE);
	page = map(control_size);
	copy = reserve(DT_CODE_SIZE);
	REQUIRE(copy);
	pool = map(pool_size);
	error_free(proc_open_plain(getpid(), &proc));
	REQUIRE(proc);
	error_free(maps_read(proc, &maps));
	REQUIRE(maps.count);
	add_mapping((uint64_t)page, control_size, HOLDERS_CODE);
	add_mapping((uint64_t)pool, pool_size, POOL_NAME);
}

static void make_page(void)
{
	memset(page->sites, 0, SITES_LOOKED_AT * sizeof(page->sites[0]));
	page->magic = DT_MAGIC;
	page->version = DT_LAYOUT_VERSION;
	page->agent = (uint64_t)page + DT_AGENT_OFFSET;
	page->pool = (uint64_t)pool;
	page->pool_size = pool_size;
	page->small_count = SMALL;
	page->big_count = BIG;
	page->chunks_offset = (uint32_t)dt_chunks_offset(SMALL + BIG);
}

/* Changes the page by the input, or takes these changes back: the page is large. */
static void change_page(struct fuzz_input input, bool back)
{
	uint8_t where[4];

	while (fuzz_take(&input, where, sizeof(where)) == sizeof(where)) {
		uint32_t at = where[0] | (uint32_t)where[1] << 8 | (uint32_t)where[2] << 16;

		/* fields before the sites, and the sites; bit 23 leads to what comes after them */
		if (at & 0x800000)
			at = (uint32_t)(offsetof(struct dt_control, sizes) + (at & 0x7fffff));
		at %= (uint32_t)(sizeof(*page) - 256);
		fuzz_take(&input, (char *)page + at, where[3]);
		if (back)
			memset((char *)page + at, 0, where[3]);
	}
}

/* Makes addresses lead into the program, and checks right. */
static void settle_sites(bool checks_are_right)
{
	for (uint32_t i = 0; i < page->site_count && i < SITES_LOOKED_AT; i++) {
		struct dt_site *site = &page->sites[i];
		uint64_t at = site->address % TEXT_SIZE;

		if (site->address < 1 << 20)
			site->address = (uint64_t)program + at;
		if (checks_are_right && site->length <= DT_SITE_BYTES &&
		    site->address == (uint64_t)program + at && at + site->length <= TEXT_SIZE)
			site->check = dt_site_check(program + at, site->length);
	}
}

static void check(const struct session *dead)
{
	const struct dt_control *control = dead->agent->control;

	REQUIRE(dead->found.count <= control->site_count && dead->found.own <= dead->found.count);
	for (size_t i = 0; i < dead->found.count; i++) {
		const struct patch_site *site = &dead->found.items[i];

		REQUIRE(site->length && site->length <= DT_SITE_BYTES && site->move_count <= 1);
		REQUIRE(!i || site[-1].address.v + site[-1].length <= site->address.v);
		REQUIRE(!site->after ||
			(site->after >= dead->found.items &&
			 site->after < dead->found.items + dead->found.count &&
			 site->waypoint.v - site->after->address.v < site->after->length));
	}
	REQUIRE(control->window_count <= DT_WINDOWS_MAX && control->event_count <= DT_EVENTS_MAX);
	REQUIRE(control->semaphore_count <= DT_SEMAPHORES_MAX &&
		control->stub_count <= DT_STUBS_MAX && control->caller_count <= DT_CALLERS_MAX &&
		control->share_count <= DT_SHARES_MAX && control->counted_count <= DT_COUNTED_MAX &&
		control->frames_used <= DT_FRAMES_SIZE);
	REQUIRE(dead->exits->unwinder_count <= DT_UNWINDERS_MAX);
	REQUIRE(memchr(control->output, 0, sizeof(control->output)));
	for (uint32_t i = 0; i < control->window_count; i++)
		REQUIRE(control->windows[i].pages <= DT_CODE_SIZE / DT_PAGE);
}

/* As takeover_find, without looking for other controllers among all processes. */
static struct error *find(struct session *dead)
{
	struct error *error = read_control(dead->agent, &maps);

	if (!error && dead->agent->control->magic) {
		error = find_sites(dead, &maps);
		if (!error)
			error = find_exits(dead, &maps);
		if (!error)
			check(dead);
		if (!error)
			error = old_counts_read(dead, dead->old_counts);
	}
	return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	uint8_t flags = fuzz_byte(&input);
	struct old_counts old_counts = { 0 };
	struct exits exits = { 0 };

	if (!proc)
		begin();
	struct agent agent = { .proc = proc,
			       .code_fd = -1,
			       .pool_fd = -1,
			       .control_at = taddr_of((uint64_t)page),
			       .control = copy };
	struct session dead = {
		.proc = proc, .exits = &exits, .old_counts = &old_counts, .agent = &agent
	};
	make_page();
	change_page(input, false);
	settle_sites(!(flags & 1));
	error_free(find(&dead));
	change_page(input, true);
	old_counts_free(&old_counts);
	free(exits.unwound);
	free(exits.inside);
	free(dead.found.items);
	if (agent.pool)
		munmap(agent.pool, agent.pool_size);
	return 0;
}
