(* ends.ml - how calls of OCaml functions end: by a return, an exception, a tail call; in several threads, while the
   collector walks their stacks. Prints how often each did. ROUNDS, then "wait": reads a line first, and
   rests after each round. *)
exception Odd of int

let returned = Atomic.make 0 and raised = Atomic.make 0 and jumped = Atomic.make 0

let[@inline never] last n = n + 1

(* returns 3 * n, raises, or calls `last` in its place *)
let[@inline never] fate n =
  if n mod 7 = 0 then (Atomic.incr raised; raise (Odd n))
  else if n mod 5 = 0 then (Atomic.incr jumped; last n)
  else (Atomic.incr returned; 3 * n)

(* a stack of frames for the collector; an exception unwinds all of them *)
let[@inline never] rec nest depth n =
  if depth = 0 then fate n
  else
    let kept = ref (depth, n) in
    let below = nest (depth - 1) n in
    below + fst !kept - depth

let round k =
  for n = 1 to 700 do
    try ignore (nest (n mod 40) (n + k - k)) with Odd _ -> ()
  done

let () =
  let rounds = int_of_string Sys.argv.(1) in
  let waits = Array.length Sys.argv > 2 in
  if waits then (print_endline "ready"; ignore (read_line ()));
  let work () =
    for k = 1 to rounds do
      round k;
      if k mod 3 = 0 then Gc.full_major ();
      if waits then Thread.delay 0.02
    done
  in
  let threads = List.init 3 (fun _ -> Thread.create work ()) in
  List.iter Thread.join threads;
  Printf.printf "returned %d raised %d jumped %d\n%!" (Atomic.get returned) (Atomic.get raised) (Atomic.get jumped)
