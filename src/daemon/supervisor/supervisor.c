#include "supervisor.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/base/metrics_writer.h"
#include "daemon/base/notify.h"
#include "daemon/base/start.h"
#include "exec_events.h"
#include "listen.h"
#include "peer.h"
#include "daemon/supervisor/targets/stuck.h"
#include "daemon/supervisor/targets/target.h"
#include "daemon/supervisor/targets/target_recovery.h"
#include "daemon/supervisor/requests/waiting.h"
#include "daemon/supervisor/targets/worker_calls.h"

#define SWEEP_NS 1000000000ULL
#define ENDING_SECONDS 15

static struct supervisor *of_sweep(struct loop_timer *timer)
{
	return (struct supervisor *)((char *)timer - offsetof(struct supervisor, sweep));
}

bool supervisor_is_master(const struct supervisor *supervisor, uid_t uid)
{
	return uid == 0 || uid == supervisor->self.uid;
}

void supervisor_sweep_soon(struct supervisor *supervisor)
{
	if (!supervisor->sweep.at)
		supervisor->sweep.at = now_ns() + SWEEP_NS;
}

/* Checks time limits. The timer runs only while one is set, so that an idle daemon sleeps. */
static void sweep(struct loop_timer *timer)
{
	struct supervisor *supervisor = of_sweep(timer);
	uint64_t now = now_ns();
	bool again = false;

	peer_sweep(supervisor, now, &again);
	stuck_sweep(supervisor, now, &again);
	if (supervisor->ending && now > supervisor->end_at)
		supervisor->loop.over = true;
	if (again || supervisor->ending)
		supervisor_sweep_soon(supervisor);
}

void supervisor_end_if_idle(struct supervisor *supervisor)
{
	if (supervisor->ending && !supervisor->targets.count)
		supervisor->loop.over = true;
}

/* SIGTERM: detaches from every target, so that traces are complete. A second one ends at once. */
static void signalled(struct loop_source *source, uint32_t events)
{
	struct supervisor *supervisor =
		(struct supervisor *)((char *)source - offsetof(struct supervisor, signals));
	struct signalfd_siginfo info;

	(void)events;
	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (supervisor->ending) {
		supervisor->loop.over = true;
		return;
	}
	log_line("signal %u: detaching from %zu process%s", info.ssi_signo,
		 supervisor->targets.count, supervisor->targets.count == 1 ? "" : "es");
	notify_manager("STOPPING=1");
	supervisor->ending = true;
	supervisor->end_at = now_ns() + ENDING_SECONDS * 1000000000ULL;
	for (size_t i = supervisor->targets.count; i-- > 0;)
		worker_calls_detach(supervisor->targets.items[i]);
	supervisor_sweep_soon(supervisor);
	supervisor_end_if_idle(supervisor);
}

static struct error *catch_signals(struct supervisor *supervisor)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* no wait for helpers: their sockets close when they end */
	supervisor->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	supervisor->signals.ready = signalled;
	if (supervisor->signals.fd < 0)
		return error_errno(errno, "signalfd");
	return loop_add(&supervisor->loop, &supervisor->signals, EPOLLIN);
}

static struct error *open_all(struct supervisor *supervisor)
{
	struct error *error = loop_open(&supervisor->loop);

	if (!error)
		error = listen_open(supervisor);
	if (!error)
		error = catch_signals(supervisor);
	supervisor->listener.ready = peer_accept;
	supervisor->agents.ready = peer_accept_agent;
	if (!error)
		error = loop_add(&supervisor->loop, &supervisor->listener, EPOLLIN);
	if (!error && supervisor->agents.fd >= 0)
		error = loop_add(&supervisor->loop, &supervisor->agents, EPOLLIN);
	return error;
}

static void close_all(struct supervisor *supervisor)
{
	while (supervisor->peers.count)
		peer_drop(supervisor->peers.items[0], NULL);
	while (supervisor->targets.count)
		target_free(supervisor->targets.items[0]);
	vec_free(&supervisor->peers);
	vec_free(&supervisor->users);
	vec_free(&supervisor->targets);
	waiting_free(supervisor);
	profiles_free(&supervisor->profiles);
	listen_close(supervisor);
	if (supervisor->signals.fd >= 0)
		close(supervisor->signals.fd);
	if (supervisor->asker >= 0)
		close(supervisor->asker);
	assert(!supervisor->peers.count && !supervisor->targets.count);
	loop_close(&supervisor->loop);
	exec_events_free(supervisor);
	free(supervisor->run_dir);
}

/* The daemon is of use without the file, too. */
static void start_metrics(struct supervisor *supervisor)
{
	const struct supervisor_options *options = &supervisor->options;
	_cleanup_error_ struct error *error =
		options->metrics ? metrics_writer_start(options->socket, options->metrics,
							&supervisor->metrics_pid) :
				   NULL;

	if (error)
		log_line("%s", error_text(error));
}

static void use_profiles(struct supervisor *supervisor)
{
	struct profiles *profiles = &supervisor->profiles;
	const char *folder = supervisor->options.profiles;

	if (!folder)
		return;
	profiles_read(folder, profiles);
	for (size_t i = 0; i < profiles->errors.count; i++)
		log_line("profile %s", profiles->errors.items[i]);
	if (profiles->files)
		log_line("profiles of %s: %zu file%s, %zu tracepoint%s", folder, profiles->files,
			 profiles->files == 1 ? "" : "s", profiles->requests.count,
			 profiles->requests.count == 1 ? "" : "s");
	waiting_add_profiles(supervisor, &profiles->requests);
}

struct error *supervisor_run(const struct supervisor_options *options)
{
	struct supervisor supervisor = { .options = *options,
					 .recording = !options->stopped,
					 .listener.fd = -1,
					 .agents.fd = -1,
					 .signals.fd = -1,
					 .lock_fd = -1,
					 .asker = -1,
					 .sweep.expired = sweep };

	supervisor.self.uid = geteuid();
	supervisor.self.gid = getegid();
	assert(options->socket && options->output);
	users_set_limits(&supervisor);
	struct error *error = open_all(&supervisor);
	if (error)
		return error;
	loop_add_timer(&supervisor.loop, &supervisor.sweep);
	log_line("dyntraced " DYNTRACE_VERSION " at %s, traces in %s", options->socket,
		 options->output);
	waiting_read(&supervisor);
	target_recovery_run(&supervisor);
	use_profiles(&supervisor);
	start_done();
	notify_manager("READY=1");
	start_metrics(&supervisor);
	error = loop_run(&supervisor.loop);
	close_all(&supervisor);
	metrics_writer_end(supervisor.metrics_pid, options->metrics);
	log_line("ended");
	return error;
}
