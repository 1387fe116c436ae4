/*
 * luahost.c - errors of LuaJIT through C frames: Lua calls C, which calls Lua, which raises an
 * error that Lua, C or nobody in between catches. Built by the tests, with LuaJIT as a library.
 */
#include <luajit-2.1/lauxlib.h>
#include <luajit-2.1/lua.h>
#include <luajit-2.1/lualib.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

static long raised, passed;

NOINLINE int raise_one(lua_State *L)
{
	raised++;
	return luaL_error(L, "raised %d", (int)lua_tointeger(L, 1));
}

/* Calls its argument without protection: an error passes through. */
NOINLINE int pass(lua_State *L)
{
	passed++;
	lua_call(L, 0, 1);
	return 1;
}

/* Catches the error of its argument. */
NOINLINE int guard(lua_State *L)
{
	int status = lua_pcall(L, 0, 0, 0);

	lua_settop(L, 0);
	lua_pushinteger(L, status);
	return 1;
}

static const char script[] =
	"local total = 0\n"
	"for i = 1, ROUNDS do\n"
	"  local ok, e = pcall(raise_one, i)\n"
	"  if not ok then total = total + #e end\n"
	"  total = total + guard(function() pass(function() return raise_one(i) end) end)\n"
	"  ok = pcall(pass, function() return pcall(pass, function() error({}) end) end)\n"
	"  if ok then total = total + 1 end\n"
	"  local co = coroutine.wrap(function() coroutine.yield(i); pass(function() error('x', 0) end) end)\n"
	"  co()\n"
	"  ok, e = pcall(co)\n"
	"  total = total + #e\n"
	"end\n"
	"collectgarbage()\n"
	"return total\n";

int main(int argc, char **argv)
{
	lua_State *L = luaL_newstate();

	luaL_openlibs(L);
	lua_register(L, "raise_one", raise_one);
	lua_register(L, "pass", pass);
	lua_register(L, "guard", guard);
	lua_pushinteger(L, argc > 1 ? atoi(argv[1]) : 1);
	lua_setglobal(L, "ROUNDS");
	if (luaL_loadstring(L, script) || lua_pcall(L, 0, 1, 0))
		return 1;
	printf("total %ld raised %ld passed %ld\n", (long)lua_tointeger(L, -1), raised, passed);
	lua_close(L);
	return 0;
}
