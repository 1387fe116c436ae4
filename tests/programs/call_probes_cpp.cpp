// Probe functions in C++: what it needs is there (libstdc++), statics are constructed, exceptions stay inside.
#include <map>
#include <stdexcept>
#include <string>

#include <dyntrace/probe.h>

DYNTRACE_EVENT(cpp_seen, DYNTRACE_STRING(text), DYNTRACE_INT(number), DYNTRACE_DOUBLE(real), DYNTRACE_HEX(pointer));

static std::map<std::string, int> counted{{"before", 1}};

DYNTRACE_PROBE(on_cpp)
{
	int number = static_cast<int>(dyntrace_argument(hit, 0));

	try {
		throw std::runtime_error("number " + std::to_string(number));
	} catch (const std::exception &error) {
		DYNTRACE_EMIT(hit, cpp_seen, error.what(), ++counted["work"] + counted["before"], dyntrace_argument_double(hit, 0), &counted);
	}
}

DYNTRACE_PROBE(on_throw)
{
	throw 1;
}

void not_by_its_name(const struct dyntrace_hit *hit);
void not_by_its_name(const struct dyntrace_hit *)
{
}
