module types
contains
subroutine take(n, x, name, k)
  integer, intent(in) :: n
  real(8), intent(in) :: x
  character(len=*), intent(in) :: name
  integer(8), value :: k
  print *, n, x, name, k
end subroutine
integer function twice(k)
  integer, value :: k
  twice = 2 * k
end function
end module
program main
  use types
  call take(42, 2.5d0, "text", -7_8)
  print *, twice(21)
end program
