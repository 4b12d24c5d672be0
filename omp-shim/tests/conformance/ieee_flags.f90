! The flags and modes of IEEE arithmetic are each thread's own.
program exceptions
  use, intrinsic :: ieee_arithmetic
  use, intrinsic :: ieee_exceptions
  use omp_lib
  implicit none
  integer :: me, failures, rounds
  logical :: flag
  double precision :: began
  failures = 0
  rounds = 0
  began = omp_get_wtime()
  do while (rounds < 5 .or. omp_get_wtime() - began < 0.05d0)
    rounds = rounds + 1
    !$omp parallel num_threads(4) private(me, flag) reduction(+ : failures)
      me = omp_get_thread_num()
      call ieee_set_flag(ieee_all, .false.)
      !$omp barrier
      if (mod(me, 2) == 1) call ieee_set_flag(ieee_divide_by_zero, .true.)
      !$omp barrier
      call ieee_get_flag(ieee_divide_by_zero, flag)
      if (flag .neqv. mod(me, 2) == 1) failures = failures + 1
      call ieee_set_flag(ieee_all, .false.)
      !$omp barrier
    !$omp end parallel
  end do
  if (failures /= 0) then
    print *, failures, 'failures'
    stop 1
  end if
end program
