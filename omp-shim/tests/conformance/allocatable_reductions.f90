! Reductions over allocatable arrays, private allocatables, workshare, collapse, common blocks, internal files.
program reductions
  use omp_lib
  implicit none
  integer :: i, j, rounds, failures, n
  integer, allocatable :: total(:), own(:)
  real(8), allocatable :: grid(:,:)
  real(8) :: top, sums
  integer :: counter
  common /kept/ counter
  !$omp threadprivate(/kept/)
  character(len=20) :: text
  double precision :: began
  failures = 0
  began = omp_get_wtime()
  rounds = 0
  do while (rounds < 5 .or. omp_get_wtime() - began < 0.05d0)
    rounds = rounds + 1
    allocate(total(10), grid(30, 20))
    total = 0
    top = -1
    !$omp parallel do schedule(dynamic, 3) reduction(+ : total) reduction(max : top)
    do i = 1, 100
      total(1 + mod(i, 10)) = total(1 + mod(i, 10)) + i
      top = max(top, dble(i))
    end do
    if (sum(total) /= 5050 .or. top /= 100) failures = failures + 1
    counter = 5
    !$omp parallel private(own, text, n) copyin(/kept/) reduction(+ : failures)
      n = omp_get_thread_num()
      allocate(own(n + 1))
      own = n
      if (counter /= 5) failures = failures + 1
      counter = n
      write (text, '(i0, a, i0)') n, ' of ', omp_get_num_threads()
      !$omp barrier
      if (counter /= n .or. any(own /= n) .or. size(own) /= n + 1) failures = failures + 1
      if (index(text, ' of ') == 0) failures = failures + 1
      !$omp do collapse(2) schedule(guided)
      do i = 1, 30
        do j = 1, 20
          grid(i, j) = i * j
        end do
      end do
      !$omp workshare
      grid = grid + 1
      sums = sum(grid)
      !$omp end workshare
      if (sums /= 465 * 210 + 600) failures = failures + 1
      !$omp critical (named)
      counter = counter + 1
      !$omp end critical (named)
      if (counter /= n + 1) failures = failures + 1
      deallocate(own)
      !$omp single
      n = 77
      !$omp end single copyprivate(n)
      if (n /= 77) failures = failures + 1
    !$omp end parallel
    deallocate(total, grid)
  end do
  if (failures /= 0) then
    print *, failures, 'failures'
    stop 1
  end if
end program
