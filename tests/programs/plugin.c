/*
 * plugin - a library that comes and goes: its constructor calls plugin_step three times, its
 * destructor once.
 */
int plugin_step(int n);
int plugin_steps(int n, int count);

__attribute__((noinline)) int plugin_step(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

int plugin_steps(int n, int count)
{
	for (int i = 0; i < count; i++)
		n = plugin_step(n);
	return n;
}

__attribute__((constructor)) static void begin(void)
{
	plugin_steps(100, 3);
}

__attribute__((destructor)) static void end(void)
{
	plugin_step(900);
}
