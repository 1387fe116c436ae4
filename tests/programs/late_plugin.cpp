/* late_plugin.cpp - catches its own exception, thrown through another module's function. */
extern "C" int inner(int n)
{
	throw n * 10;
}

extern "C" int outer(int (*between)(int), int n)
{
	try {
		return between(n);
	} catch (int value) {
		return value;
	}
}
