-- Tables, strings, coroutines, errors, a stack that is too deep, collections: one line per round.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local function endless(n) return endless(n + 1) + 1 end
local function caught(n)
  local ok, e = pcall(function()
    if n % 3 == 0 then error("no " .. n) elseif n % 3 == 1 then local x; return x.y else error({ code = n }) end
  end)
  return type(e) == "table" and e.code or #tostring(e)
end
local function round()
  local t, sum = {}, 0
  for i = 1, 3000 do t["k" .. i * 31 % 401] = { i, tostring(i) } end
  for k, v in pairs(t) do sum = sum + #k * v[1] end
  for i = 1, 60 do sum = sum + caught(i) end
  local co = coroutine.wrap(function() for i = 1, 100 do coroutine.yield(i * i) end return 0 end)
  for _ = 1, 101 do sum = sum + co() end
  sum = sum + (pcall(endless, 0) and 1 or 2)
  local list = {}
  for i = 1, 500 do list[i] = (i * 7919) % 1009 end
  table.sort(list, function(a, b) return a > b end)
  collectgarbage()
  print(sum, (table.concat(list, ","):gsub("[13579]+", "x")):len(), fib(18))
  io.stdout:flush()
end
for _ = 1, tonumber(arg[1]) do
  local file = io.open("stop")
  if file then break end
  round()
end
