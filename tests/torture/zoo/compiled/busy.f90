! Arrays, recursion, formatted texts: one line per round.
program busy
  implicit none
  integer :: n, count
  logical :: there
  character(len=20) :: word
  call get_command_argument(1, word)
  read (word, *) count
  do n = 1, count
    inquire (file='stop', exist=there)
    if (there) exit
    call one_round()
  end do
contains
  recursive function fib(n) result(r)
    integer, intent(in) :: n
    integer :: r
    if (n < 2) then
      r = n
    else
      r = fib(n - 1) + fib(n - 2)
    end if
  end function
  subroutine one_round()
    real(8) :: a(60, 60), b(60, 60)
    integer :: i, j
    character(len=200) :: text
    do i = 1, 60
      do j = 1, 60
        a(i, j) = mod(i * 7919 + j * 31, 1009) / 1009d0
      end do
    end do
    b = matmul(a, transpose(a))
    write (text, '(3(f14.6, 1x), i0)') sum(b), maxval(b), dot_product(a(:, 1), a(:, 2)), fib(20)
    print '(a)', trim(text)
    flush (6)
  end subroutine
end program
