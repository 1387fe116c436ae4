module circuit;
reg [31:0] x;
reg clock;
integer i;
initial begin
	clock = 0;
	x = 1;
	for (i = 0; i < 3000; i = i + 1)
		#5 clock = ~clock;
	$display("%h %t", x, $time);
	$finish;
end
always @(posedge clock)
	x <= {x[30:0], x[31] ^ x[21] ^ x[1] ^ x[0]} + i;
endmodule
