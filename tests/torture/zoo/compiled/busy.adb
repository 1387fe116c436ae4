--  Records, tasks, exceptions, an access check: one line per round.
with Ada.Command_Line; use Ada.Command_Line;
with Ada.Directories;
with Ada.Exceptions;
with Ada.Text_IO;

procedure Busy is
   type Node;
   type Link is access Node;
   type Node is record
      Left, Right : Link;
      Value       : Integer;
   end record;

   function Build (Depth : Integer) return Link is
     (if Depth = 0 then null else new Node'(Build (Depth - 1), Build (Depth - 1), Depth));

   function Sum (N : Link) return Integer is
     (if N = null then 0 else N.Value + Sum (N.Left) + Sum (N.Right));

   function Thrower (N, Depth : Integer) return Integer is
      None : Link;
      List : array (1 .. 3) of Integer := (others => N);
   begin
      if Depth > 0 then
         return Thrower (N, Depth - 1) + 1;
      end if;
      case N mod 4 is
         when 0 => return None.Value;
         when 1 => return N / Depth;
         when 2 => return List (N + 4);
         when others => raise Program_Error with "no" & N'Image;
      end case;
   end Thrower;

   function Caught (N : Integer) return Integer is
   begin
      return Thrower (N, 10);
   exception
      when E : others => return Ada.Exceptions.Exception_Name (E)'Length;
   end Caught;

   function Tasks return Integer is
      Total : Integer := 0;
      task type Worker is
         entry Result (Value : out Integer);
      end Worker;
      task body Worker is
         Mine : constant Integer := Sum (Build (9));
      begin
         accept Result (Value : out Integer) do
            Value := Mine;
         end Result;
      end Worker;
      Workers : array (1 .. 4) of Worker;
      One     : Integer;
   begin
      for W of Workers loop
         W.Result (One);
         Total := Total + One;
      end loop;
      return Total;
   end Tasks;

   Errors : Integer;
begin
   for Round in 1 .. Integer'Value (Argument (1)) loop
      exit when Ada.Directories.Exists ("stop");
      Errors := 0;
      for N in 1 .. 60 loop
         Errors := Errors + Caught (N);
      end loop;
      Ada.Text_IO.Put_Line (Tasks'Image & Errors'Image);
      Ada.Text_IO.Flush;
   end loop;
end Busy;
