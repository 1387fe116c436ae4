/*
 * pool.cpp - a thread pool without work: its main thread computes, and throws, without a rest; its workers wait for a
 * condition that never comes, for a while and for ever. SIGTERM ends it.
 */
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>

static volatile std::sig_atomic_t ended;
static std::mutex lock;
static std::condition_variable work;

extern "C" void end_all(int)
{
	ended = 1;
}

extern "C" __attribute__((noinline)) int compute(int n)
{
	if (n % 2)
		throw std::runtime_error("odd");
	return n / 2;
}

extern "C" __attribute__((noinline)) int attempt(int n)
{
	try {
		return compute(n);
	} catch (const std::runtime_error &) {
		return 0;
	}
}

static void wait_for_ever()
{
	std::unique_lock<std::mutex> held(lock);

	work.wait(held, [] { return bool(ended); });
}

static void wait_a_while()
{
	std::unique_lock<std::mutex> held(lock);

	while (!work.wait_for(held, std::chrono::hours(1), [] { return bool(ended); }))
		;
}

int main()
{
	std::signal(SIGTERM, end_all);
	std::thread patient(wait_for_ever), waiting(wait_a_while);
	unsigned long caught = 0, rounds = 0;

	std::puts("ready");
	std::fflush(stdout);
	for (; !ended; rounds++)
		caught += attempt(int(rounds % 1000) + 1) == 0;
	{
		std::lock_guard<std::mutex> held(lock);
	}
	work.notify_all();
	patient.join();
	waiting.join();
	return caught == (rounds + 1) / 2 ? 0 : 1;
}
