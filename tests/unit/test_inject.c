/* Injecting the agent into real programs and removing it. */
#include "target.h"

#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "control/agent/agent.h"
#include "control/agent/huge_pool.h"
#include "control/agent/pool_layout.h"
#include "control/remote/remote.h"
#include "control/remote/remote_map.h"
#include "control/session/own_probes/fencing.h"
#include "place.h"

#define TIMEOUT_MS 20000 /* only what hangs takes as long */
#define POOL (2ULL << 20)

static const char *agent_path(void)
{
	static char path[PATH_MAX];

	built_path("libdyntrace-agent.so", path);
	return path;
}

static struct proc *open_target(const struct target *target)
{
	struct proc *proc = NULL;

	no_error(proc_open(target->pid, &proc));
	return proc;
}

static struct agent *put_in(struct proc *proc)
{
	struct agent_options options = { .pool_size = POOL, .flags = DT_FOLLOW_FORK,
					  .agent_path = agent_path() };
	struct stop *stop = NULL;
	struct agent *agent = NULL;

	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	no_error(agent_inject(stop, proc, &options, &agent));
	stop_release(stop, NULL);
	return agent;
}

static void take_out(struct proc *proc, struct agent *agent)
{
	struct stop *stop = NULL;

	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	no_error(agent_remove(stop, agent, NULL));
	stop_release(stop, NULL);
}

static struct target start_idle(void)
{
	struct target target = target_start("spin", "--threads", "2", NULL);

	target_ready(&target);
	return target;
}

struct state {
	char *maps, *descriptors;
};

static struct state look(pid_t pid)
{
	return (struct state){ target_slurp(pid, "maps"), target_descriptors(pid) };
}

static void expect_same(struct state *before, pid_t pid)
{
	struct state now = look(pid);

	assert_string_equal(now.maps, before->maps);
	assert_string_equal(now.descriptors, before->descriptors);
	free(now.maps);
	free(now.descriptors);
}

static void forget(struct state *state)
{
	free(state->maps);
	free(state->descriptors);
}

static const struct mapping *mapping_at(struct proc *proc, struct maps *maps, taddr at)
{
	maps_free(maps);
	no_error(maps_read(proc, maps));
	const struct mapping *mapping = maps_find(maps, at);
	assert_non_null(mapping);
	return mapping;
}

static void test_in_and_out(void **state)
{
	struct target target = start_idle();
	struct proc *proc = open_target(&target);
	struct state before = look(target.pid);

	for (int i = 0; i < 20; i++) {
		struct agent *agent = put_in(proc);

		take_out(proc, agent);
		agent_free(agent);
		expect_same(&before, target.pid);
	}
	target_go(&target);
	target_ready(&target);
	forget(&before);
	proc_close(proc);
	target_end(&target);
}

static void test_what_is_mapped(void **state)
{
	struct target target = start_idle();
	struct proc *proc = open_target(&target);
	char *descriptors = target_descriptors(target.pid), *now;
	struct agent *agent = put_in(proc);
	struct maps maps = { 0 };
	const struct mapping *m;
	static struct dt_control control; /* larger than a stack */
	uint32_t pid = 0;
	uint8_t text[16];

	now = target_descriptors(target.pid);
	assert_string_equal(now, descriptors);
	m = mapping_at(proc, &maps, agent->control_at);
	assert_int_equal(m->prot, PROT_READ);
	assert_true(m->shared);
	assert_int_equal(m->inode, agent->code_inode);
	assert_int_equal(m->device, agent->code_device);
	m = mapping_at(proc, &maps, agent->slow_at);
	assert_int_equal(m->prot, PROT_READ | PROT_EXEC);
	m = mapping_at(proc, &maps, agent->pool_at);
	assert_int_equal(m->prot, PROT_READ | PROT_WRITE);
	assert_int_equal(m->inode, agent->pool_inode);
	m = mapping_at(proc, &maps, agent->state_at);
	assert_int_equal(m->prot, PROT_READ | PROT_WRITE);
	assert_false(m->shared);
	/* what the target sees is what we wrote */
	no_error(mem_read(proc, agent->control_at, &control, offsetof(struct dt_control, windows)));
	assert_true(control.magic == DT_MAGIC);
	assert_int_equal(control.pid, target.pid);
	assert_int_equal(control.controller, getpid());
	assert_true(control.slow == agent->slow_at.v && control.agent == agent->agent_at.v);
	assert_true(control.pool == agent->pool_at.v && control.state == agent->state_at.v);
	assert_int_equal(control.chunks_offset,
			 dt_chunks_offset(control.small_count + control.big_count));
	assert_int_equal(agent->pool->small_free, control.small_count);
	no_error(mem_read(proc, taddr_add(agent->state_at, offsetof(struct dt_state, pid)), &pid,
			  4));
	assert_int_equal(pid, target.pid);
	no_error(mem_read(proc, agent->slow_at, text, sizeof(text)));
	assert_memory_equal(
		text, (uint8_t *)agent->control + (agent->slow_at.v - agent->control_at.v), 16);
	no_error(agent_fill_pool(agent));
	take_out(proc, agent);
	agent_free(agent);
	maps_free(&maps);
	free(descriptors);
	free(now);
	proc_close(proc);
	target_end(&target);
}

/* The target can make none of the code writable, not even by mapping or protecting it again. */
static void test_code_is_sealed(void **state)
{
	struct target target = start_idle();
	struct proc *proc = open_target(&target);
	struct agent *agent = put_in(proc);
	struct stop *stop = NULL;
	int64_t result = 0;

	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	no_error(remote_syscall(
		stop, SYS_mprotect,
		(const uint64_t[6]){ agent->control_at.v, 4096, PROT_READ | PROT_WRITE }, &result));
	assert_int_equal(result, -EACCES);
	stop_release(stop, NULL);
	assert_int_equal(ftruncate(agent->pool_fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(agent->code_fd, 2 * DT_CODE_SIZE), -1);
	take_out(proc, agent);
	agent_free(agent);
	proc_close(proc);
	target_end(&target);
}

static void test_windows(void **state)
{
	struct target target = start_idle();
	struct proc *proc = open_target(&target);
	struct state before = look(target.pid);
	struct agent *agent = put_in(proc);
	struct maps maps = { 0 };
	struct stop *stop = NULL;
	taddr base = { 0x200000000000 };

	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	for (uint32_t i = 0; i < 20; i++) {
		uint8_t pattern[64], there[64];
		uint32_t offset = 0, pages = 1 + i * 3;
		taddr at = taddr_add(base, (int64_t)i * 0x10000000);

		no_error(agent_map_window(stop, agent, at, pages, &offset));
		assert_int_equal(agent->control->window_count, i + 1);
		assert_int_equal(agent->control->windows[i].offset * DT_PAGE, offset);
		/* the last bytes of it, written here, read there */
		memset(pattern, (int)i + 1, sizeof(pattern));
		memcpy((uint8_t *)agent->control + offset + pages * DT_PAGE - 64, pattern, 64);
		no_error(mem_read(proc, taddr_add(at, (int64_t)(pages * DT_PAGE) - 64), there, 64));
		assert_memory_equal(there, pattern, 64);
		const struct mapping *m = mapping_at(proc, &maps, at);
		assert_int_equal(m->prot, PROT_READ | PROT_EXEC);
		assert_int_equal(m->end.v - m->start.v, pages * DT_PAGE);
		assert_int_equal(m->offset, offset);
	}
	/* what is in use is refused, and nothing changes */
	uint32_t offset = 0;
	struct error *err = agent_map_window(stop, agent, base, 1, &offset);
	assert_non_null(err);
	error_free(err);
	assert_int_equal(agent->control->window_count, 20);
	stop_release(stop, NULL);
	take_out(proc, agent);
	agent_free(agent);
	expect_same(&before, target.pid);
	forget(&before);
	maps_free(&maps);
	proc_close(proc);
	target_end(&target);
}

static void expect_failure(struct proc *proc, const struct agent_options *options,
			   const char *part)
{
	struct stop *stop = NULL;
	struct agent *agent = NULL;

	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	struct error *err = agent_inject(stop, proc, options, &agent);
	assert_non_null(err);
	if (!strstr(error_text(err), part))
		fail_msg("'%s' isn't about '%s'", error_text(err), part);
	error_free(err);
	assert_null(agent);
	stop_release(stop, NULL);
}

static void test_failure_leaves_nothing(void **state)
{
	struct target target = start_idle();
	struct proc *proc = open_target(&target);
	struct state before = look(target.pid);
	struct agent_options options = { .pool_size = POOL, .agent_path = "/bin/true" };
	struct rlimit limit = { 64 << 20, RLIM_INFINITY }, old;

	expect_failure(proc, &options, "/bin/true can't be used as the agent");
	expect_same(&before, target.pid);
	options.agent_path = "/nowhere/agent.so";
	expect_failure(proc, &options, "/nowhere/agent.so");
	options.agent_path = agent_path();
	options.pool_size = 4096;
	expect_failure(proc, &options, "from 1 MiB");
	options.pool_size = 1ULL << 30;
	assert_int_equal(prlimit(target.pid, RLIMIT_AS, &limit, &old), 0);
	expect_failure(proc, &options, "RLIMIT_AS");
	assert_int_equal(prlimit(target.pid, RLIMIT_AS, &old, NULL), 0);
	expect_same(&before, target.pid);
	forget(&before);
	proc_close(proc);
	target_end(&target);
}

/* No descriptor left: got around, and put back. */
static void test_no_descriptor_left(void **state)
{
	struct target target = start_idle();
	struct proc *proc = open_target(&target);
	struct state before = look(target.pid);
	struct rlimit files = { 5, 50 }, now;

	assert_int_equal(prlimit(target.pid, RLIMIT_NOFILE, &files, NULL), 0);
	struct agent *agent = put_in(proc);
	assert_int_equal(prlimit(target.pid, RLIMIT_NOFILE, NULL, &now), 0);
	assert_int_equal(now.rlim_cur, 5);
	assert_int_equal(now.rlim_max, 50);
	take_out(proc, agent);
	agent_free(agent);
	expect_same(&before, target.pid);
	forget(&before);
	proc_close(proc);
	target_end(&target);
}

/* Makes the program one that locks all its memory, and mayn't lock much. */
static void lock_memory(struct proc *proc)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0 } };
	struct {
		struct __user_cap_header_struct header;
		struct __user_cap_data_struct data[2];
	} capset;
	struct stop *stop = NULL;
	struct remote *remote = NULL;
	int64_t result = -1;
	taddr at;

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective &= ~(1u << CAP_IPC_LOCK); /* root may lock what it likes */
	data[0].permitted &= ~(1u << CAP_IPC_LOCK);
	capset.header = header;
	memcpy(capset.data, data, sizeof(data));
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	no_error(remote_begin(stop, &remote));
	no_error(remote_do(remote, &result, SYS_mlockall, MCL_FUTURE));
	assert_int_equal(result, 0);
	/* something locked, as any such program has */
	no_error(remote_do(remote, &result, SYS_mmap, 0, 65536, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0));
	assert_true(result > 0);
	no_error(remote_put(remote, &capset, sizeof(capset), &at));
	no_error(remote_do(remote, &result, SYS_capset, at.v, at.v + sizeof(capset.header)));
	assert_int_equal(result, 0);
	no_error(remote_end(remote));
	stop_release(stop, NULL);
}

/* A hard limit that is too small for the agent, and that we may not raise: refused, and nothing is
 * left. */
static void expect_no_room(struct proc *proc)
{
	struct agent_options options = { .pool_size = POOL, .agent_path = agent_path() };
	struct rlimit small = { 1 << 16, 1 << 16 }; /* all of it is used: no page is left */
	struct state before = look(proc->pid);
	struct stop *stop = NULL;
	struct agent *agent = NULL;

	assert_int_equal(prlimit(proc->pid, RLIMIT_MEMLOCK, &small, NULL), 0);
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	struct error *error = agent_inject(stop, proc, &options, &agent);
	stop_release(stop, NULL);
	assert_non_null(error);
	assert_non_null(strstr(error_text(error), "RLIMIT_MEMLOCK leaves no room"));
	error_free(error);
	expect_same(&before, proc->pid);
	forget(&before);
}

/* All memory locked and a small limit: got around, put back, and nothing of ours counts against
 * it. */
static void test_locked_memory(void **state)
{
	struct target target = target_start("spin", NULL);
	struct rlimit locked = { 1 << 20, 1 << 20 }, more = { 1 << 20, 2 << 20 }, now;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	lock_memory(proc);
	assert_int_equal(prlimit(target.pid, RLIMIT_MEMLOCK, &locked, NULL), 0);
	struct state before = look(target.pid);
	char *status = target_slurp(target.pid, "status");
	struct agent *agent = put_in(proc);
	assert_int_equal(prlimit(target.pid, RLIMIT_MEMLOCK, NULL, &now), 0);
	assert_int_equal(now.rlim_cur, 1 << 20);
	char *status_now = target_slurp(target.pid, "status");
	assert_int_equal(atol(strstr(status, "VmLck:") + 6), 64);
	assert_int_equal(atol(strstr(status_now, "VmLck:") + 6), 64);
	take_out(proc, agent);
	agent_free(agent);
	expect_same(&before, target.pid);
	if (prlimit(target.pid, RLIMIT_MEMLOCK, &more, NULL)) /* we may not raise limits */
		expect_no_room(proc);
	free(status);
	free(status_now);
	forget(&before);
	proc_close(proc);
	target_end(&target);
}

/* A process that forks when told to; both then wait for their end. */
struct family {
	pid_t parent, child;
	int go, report;
};

static void be_parent(int go, int report)
{
	char byte;
	int forever[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pipe(forever) || write(report, "r", 1) != 1 || read(go, &byte, 1) != 1)
		_exit(1);
	pid_t child = fork();
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	else if (write(report, &child, sizeof(child)) != sizeof(child))
		_exit(1);
	for (;;)
		(void)!read(forever[0], &byte, 1);
}

static struct family start_family(void)
{
	int go[2], report[2];
	char byte;

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	pid_t parent = fork();
	assert_true(parent >= 0);
	if (!parent)
		be_parent(go[0], report[1]);
	close(go[0]);
	close(report[1]);
	assert_int_equal(read(report[0], &byte, 1), 1);
	return (struct family){ parent, 0, go[1], report[0] };
}

static void add_child(struct family *family)
{
	assert_int_equal(write(family->go, "g", 1), 1);
	assert_int_equal(read(family->report, &family->child, sizeof(pid_t)), sizeof(pid_t));
}

/* A forked child has it all, but for the state, and is found and left like its parent (H12). */
static void test_forked_child(void **state)
{
	struct family family = start_family();
	struct proc *parent = NULL, *child = NULL;
	struct tids pids = { 0 };
	uint32_t pid = 1;

	no_error(proc_open(family.parent, &parent));
	char *before = target_slurp(family.parent, "maps");
	struct agent *agent = put_in(parent);
	no_error(holders_find(agent, &pids));
	assert_int_equal(pids.count, 0);
	add_child(&family);
	no_error(holders_find(agent, &pids));
	assert_int_equal(pids.count, 1);
	assert_int_equal(pids.items[0], family.child);
	vec_free(&pids);
	no_error(proc_open(family.child, &child));
	no_error(mem_read(child, taddr_add(agent->state_at, offsetof(struct dt_state, pid)), &pid,
			  4));
	assert_int_equal(pid, 0);
	no_error(mem_read(parent, taddr_add(agent->state_at, offsetof(struct dt_state, pid)), &pid,
			  4));
	assert_int_equal(pid, family.parent);
	take_out(child, agent);
	char *child_maps = target_slurp(family.child, "maps");
	assert_string_equal(child_maps, before);
	take_out(child, agent); /* nothing is there any more: nothing happens */
	no_error(holders_find(agent, &pids));
	assert_int_equal(pids.count, 0);
	take_out(parent, agent);
	char *after = target_slurp(family.parent, "maps");
	assert_string_equal(after, before);
	free(before);
	free(after);
	free(child_maps);
	agent_free(agent);
	proc_close(parent);
	proc_close(child);
	kill(family.child, SIGKILL);
	kill(family.parent, SIGKILL);
	waitpid(family.parent, NULL, 0);
	close(family.go);
	close(family.report);
}

static pid_t spawn(char *const argv[])
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int null = open("/dev/null", O_RDWR);
	dup2(null, 1);
	dup2(null, 2);
	execv(argv[0], argv);
	_exit(127);
}

/* In and out of a server under load: it answers every request, and is as it was. */
/* The file is there from bind on; a server that doesn't listen yet refuses. */
static bool answers(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	bool connected = !connect(fd, (struct sockaddr *)&address, sizeof(address));
	close(fd);
	return connected;
}

static void test_redis_under_load(void **state)
{
	char socket[64], line[256] = "", command[256];
	int status = -1, rounds = 0;
	struct proc *proc = NULL;

	if (access("/usr/bin/redis-server", X_OK) || access("/usr/bin/redis-benchmark", X_OK))
		skip();
	snprintf(socket, sizeof(socket), "%s/dyntrace-redis-%d.sock", place_disk(), getpid());
	pid_t server = spawn((char *[]){ "/usr/bin/redis-server", "--port", "0", "--unixsocket",
					 socket, "--save", "", "--appendonly", "no", NULL });
	while (!answers(socket))
		assert_int_equal(waitpid(server, &status, WNOHANG), 0);
	no_error(proc_open(server, &proc));
	pid_t load = spawn((char *[]){ "/usr/bin/redis-benchmark", "-s", socket, "-t", "set", "-n",
				       "60000", "-c", "10", NULL });
	for (; waitpid(load, &status, WNOHANG) == 0; rounds++) {
		struct agent *agent = put_in(proc);

		take_out(proc, agent);
		agent_free(agent);
	}
	assert_int_equal(status, 0);
	assert_true(rounds > 0);
	char *maps = target_slurp(server, "maps");
	assert_null(strstr(maps, "memfd:dyntrace"));
	free(maps);
	snprintf(command, sizeof(command),
		 "redis-cli -s %s info commandstats | grep cmdstat_set:", socket);
	FILE *answer = popen(command, "r");
	assert_non_null(fgets(line, sizeof(line), answer));
	pclose(answer);
	assert_int_equal(atol(line + strlen("cmdstat_set:calls=")), 60000);
	proc_close(proc);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	unlink(socket);
}

static void test_pool_layout(void **state)
{
	uint32_t small = 0, big = 0;

	pool_layout(DT_POOL_MIN, false, &small, &big);
	assert_int_equal(small, 128);
	assert_int_equal(big, 8);
	pool_layout(DT_POOL_DEFAULT, true, &small, &big);
	assert_int_equal(small, 4096);
	assert_int_equal(big, 768);
	assert_true(pool_layout_size(small, big) ==
		    dt_chunks_offset(4864) + 4096 * 4096ULL + 768 * 65536ULL);
	pool_layout(DT_POOL_DEFAULT, false, &small, &big);
	assert_true(small >= DT_SLOTS);
	pool_layout(DT_POOL_MAX, false, &small, &big);
	assert_true(pool_layout_size(small, big) <= DT_POOL_MAX);
	assert_true(pool_layout_size(small, big + 1) > DT_POOL_MAX);
}

/* The start of a mapping that is there. */
static uint64_t target_mapped(struct proc *proc)
{
	struct maps maps = { 0 };

	no_error(maps_read(proc, &maps));
	uint64_t start = maps.items[0].start.v;
	maps_free(&maps);
	return start;
}

/* The pool lies at multiples of a huge page, here and in the target, and has all of its memory,
 * zeroed, whether the kernel had huge pages or not. */
static void test_huge_pool(void **state)
{
	struct target target = start_idle();
	struct proc *proc = open_target(&target);
	struct agent_options options = { .agent_path = agent_path() };
	uint64_t size = agent_pool_size(0);
	struct maps maps = { 0 };
	struct stop *stop = NULL;
	struct agent *agent = NULL;
	struct stat stat;

	no_error(maps_read(proc, &maps));
	options.pool_at = huge_pool_find_place(&maps, size);
	maps_free(&maps);
	assert_int_not_equal(options.pool_at.v, 0);
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	no_error(agent_inject(stop, proc, &options, &agent));
	stop_release(stop, NULL);
	assert_int_equal(agent->pool_size, size);
	assert_int_equal(agent->pool_at.v, options.pool_at.v);
	assert_int_equal(agent->pool_at.v % HUGE_POOL_PAGE, 0);
	assert_int_equal((uint64_t)agent->pool % HUGE_POOL_PAGE, 0);
	no_error(agent_fill_pool(agent));
	no_error(agent_fill_tallies(agent, DT_EVENTS_MAX));
	assert_int_equal(fstat(agent->pool_fd, &stat), 0);
	assert_int_equal((uint64_t)stat.st_blocks * 512, size);
	const uint64_t *words = (const void *)agent->pool;
	for (uint64_t at = DT_ROUND_UP(sizeof(struct dt_pool), HUGE_POOL_PAGE); at < size; at += 8)
		assert_int_equal(words[at / 8], 0);
	take_out(proc, agent);
	agent_free(agent);

	/* its place is taken: another one does */
	agent = NULL;
	options.pool_at = taddr_of(target_mapped(proc));
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	no_error(agent_inject(stop, proc, &options, &agent));
	stop_release(stop, NULL);
	assert_int_not_equal(agent->pool_at.v, options.pool_at.v);
	take_out(proc, agent);
	agent_free(agent);
	proc_close(proc);
	target_end(&target);
}

/* (S15) The program has put its own memory at the pool's place after the list of mappings was
 * read. */
static void test_old_list_of_mappings(void **state)
{
	struct target target = start_idle();
	struct proc *proc = open_target(&target);
	struct agent *agent = put_in(proc);
	struct remote_map_request own = { .at = agent->pool_at,
					  .size = agent->pool_size,
					  .prot = PROT_READ | PROT_WRITE,
					  .flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
					  .fd = -1,
					  .what = "memory" };
	struct maps before = { 0 }, now = { 0 };
	struct stop *stop = NULL;
	taddr at;

	no_error(maps_read(proc, &before));
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	no_error(remote_map_once(stop, &own, &at));
	proc->maps_before = &before;
	no_error(agent_remove(stop, agent, NULL));
	proc->maps_before = NULL;
	assert_null(proc->desk);
	stop_release(stop, NULL);
	assert_int_equal(mapping_at(proc, &now, own.at)->inode, 0);
	assert_null(maps_find(&now, agent->control_at));
	agent_free(agent);
	maps_free(&before);
	maps_free(&now);
	proc_close(proc);
	target_end(&target);
}

/* ---- thread blocks --------------------------------------------------------------------------- */

#define NOWHERE 0x1000 /* nothing is mapped there */

static pid_t ended_child(bool reaped)
{
	pid_t pid = fork();
	siginfo_t info;

	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | (reaped ? 0 : WNOWAIT)), 0);
	return pid;
}

/* The offset that is found if another thread's block is unreadable. */
static uint32_t offset_with(struct session *session, const struct fencing_blocks *known, pid_t tid,
			    bool held)
{
	struct fencing_blocks blocks = { 0 };

	for (size_t i = 0; i < known->count; i++)
		assert_true(vec_push(&blocks, known->items[i]));
	assert_true(vec_push(&blocks, (struct fencing_block){ tid, NOWHERE }));
	uint32_t found = fencing_tid_offset(session, &blocks, held);
	vec_free(&blocks);
	return found;
}

/* (E5) */
static void test_tids_after_the_stop(void **state)
{
	struct target target =
		target_start("spin", "--threads", "4", "--calls", "2000000000", NULL);
	struct session *session = calloc(1, sizeof(*session));
	struct fencing_blocks blocks = { 0 };
	struct stop *stop = NULL;

	assert_non_null(session);
	target_ready(&target);
	target_go(&target);
	no_error(proc_open(target.pid, &session->proc));
	no_error(stop_all(session->proc, 20000, &stop));
	no_error(fencing_note_blocks(stop, &blocks));
	assert_int_equal(blocks.count, stop_thread_count(stop));
	uint32_t held = fencing_tid_offset(session, &blocks, true);
	stop_release(stop, NULL);
	assert_int_not_equal(held, 0);
	assert_int_equal(fencing_tid_offset(session, &blocks, false), held);
	pid_t gone = ended_child(true), zombie = ended_child(false);
	assert_int_equal(offset_with(session, &blocks, gone, false), held);
	assert_int_equal(offset_with(session, &blocks, zombie, false), held);
	assert_int_equal(waitpid(zombie, NULL, 0), zombie);
	assert_int_equal(offset_with(session, &blocks, gone, true), 0);
	assert_int_equal(offset_with(session, &blocks, getpid(), false), 0);
	vec_free(&blocks);
	proc_close(session->proc);
	free(session);
	target_end(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pool_layout),
		cmocka_unit_test(test_in_and_out),
		cmocka_unit_test(test_what_is_mapped),
		cmocka_unit_test(test_huge_pool),
		cmocka_unit_test(test_code_is_sealed),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_failure_leaves_nothing),
		cmocka_unit_test(test_forked_child),
		cmocka_unit_test(test_redis_under_load),
		cmocka_unit_test(test_no_descriptor_left),
		cmocka_unit_test(test_locked_memory),
		cmocka_unit_test(test_old_list_of_mappings),
		cmocka_unit_test(test_tids_after_the_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
