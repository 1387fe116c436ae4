%% Processes, messages, ETS, binaries, caught errors: one line per round.
-module(busy).
-export([main/0]).

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

caught(N) ->
    A = try 1 div (N - N) catch error:badarith -> 1 end,
    B = try hd([X || X <- [N], X < 0]) catch error:badarg -> 2 end,
    C = try throw({no, N}) catch throw:{no, M} -> M end,
    D = case catch erlang:error(deep) of {'EXIT', {deep, Trace}} when is_list(Trace) -> 3 end,
    A + B + C + D.

worker(Parent, N) ->
    Bin = list_to_binary([integer_to_list(I) || I <- lists:seq(N, N + 500)]),
    Parent ! {self(), erlang:crc32(Bin), fib(10 + N rem 5)}.

round() ->
    Self = self(),
    Pids = [spawn_link(fun() -> worker(Self, N) end) || N <- lists:seq(1, 20)],
    Sums = [receive {Pid, Crc, Fib} -> Crc + Fib end || Pid <- Pids],
    Table = ets:new(table, [ordered_set]),
    [ets:insert(Table, {I * 7919 rem 1009, I}) || I <- lists:seq(1, 2000)],
    Ets = ets:foldl(fun({K, V}, S) -> K * V + S end, 0, Table),
    ets:delete(Table),
    Errors = lists:sum([caught(N) || N <- lists:seq(1, 50)]),
    Text = re:replace(io_lib:format("~p", [lists:seq(1, 100)]), "[13579]+", "x", [global, {return, binary}]),
    erlang:garbage_collect(),
    io:format("~w ~w ~w ~w~n", [lists:sum(Sums), Ets, Errors, erlang:md5(Text)]).

loop(0) -> ok;
loop(N) ->
    case filelib:is_file("stop") of
        true -> ok;
        false -> round(), loop(N - 1)
    end.

main() ->
    [Count] = init:get_plain_arguments(),
    loop(list_to_integer(Count)),
    halt(0).
