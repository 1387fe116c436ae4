{ Records, strings, exceptions, and faults that become exceptions: one line per round. }
program busy;
{$mode objfpc}{$H+}
uses sysutils, classes;

type
  PNode = ^TNode;
  TNode = record
    left, right: PNode;
    value: longint;
  end;

function build(depth: longint): PNode;
begin
  if depth = 0 then exit(nil);
  new(result);
  result^.left := build(depth - 1);
  result^.right := build(depth - 1);
  result^.value := depth;
end;

function sum(node: PNode): longint;
begin
  if node = nil then exit(0);
  result := node^.value + sum(node^.left) + sum(node^.right);
end;

procedure release(node: PNode);
begin
  if node = nil then exit;
  release(node^.left);
  release(node^.right);
  dispose(node);
end;

function thrower(n, depth: longint): longint;
var
  none: PNode;
begin
  if depth > 0 then exit(thrower(n, depth - 1) + 1);
  none := nil;
  case n mod 3 of
    0: result := none^.value;
    1: result := n div (depth);
    else raise Exception.create('no ' + inttostr(n));
  end;
end;

function caught(n: longint): longint;
begin
  try
    result := thrower(n, 10);
  except
    on e: Exception do result := length(e.classname);
  end;
end;

procedure round_of_work;
var
  node: PNode;
  i, errors: longint;
  list: tstringlist;
begin
  node := build(12);
  errors := 0;
  for i := 1 to 60 do errors := errors + caught(i);
  list := tstringlist.create;
  for i := 1 to 2000 do list.add(format('%.5d', [(i * 7919) mod 10007]));
  list.sort;
  writeln(sum(node), ' ', errors, ' ', list[0], ' ', list[1999], ' ', length(list.text));
  flush(output);
  list.free;
  release(node);
end;

var
  n: longint;
begin
  for n := 1 to strtoint(paramstr(1)) do begin
    if fileexists('stop') then break;
    round_of_work;
  end;
end.
