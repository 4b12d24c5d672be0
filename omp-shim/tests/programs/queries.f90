! What a Fortran program asks and sets, each form of which has a name of its own in the runtime: by itself,
! within a team and within a region of its members. Prints the number of wrong answers.
program queries
  use omp_lib
  implicit none
  integer, parameter :: members = 4, rounds = 50
  integer :: bad, counted, tested, dealt, seen
  integer(omp_lock_kind) :: lock
  integer(omp_nest_lock_kind) :: nest_lock

  ! The runtime's logicals have four bytes, the program's own may have eight.
  interface check
    procedure check_4, check_8
  end interface

  bad = 0; counted = 0; tested = 0; dealt = 0; seen = 0
  call omp_init_lock(lock)
  call omp_init_nest_lock(nest_lock)
  call omp_set_dynamic(.false.)
  call omp_set_num_threads(members)
  call omp_set_nested(.true.)
  call check(omp_get_nested())
  call omp_set_nested(.false.)
  call check(.not. omp_get_nested())
  call omp_set_max_active_levels(2)
  call omp_set_schedule(omp_sched_dynamic, 3)
  call check(.not. omp_in_parallel())
  call check(omp_get_thread_num() == 0)
  call check(omp_get_num_threads() == 1)
  call check(omp_get_num_procs() >= 1)
  call check(omp_get_level() == 0)
  call check(omp_get_active_level() == 0)
  call check(omp_get_ancestor_thread_num(0) == 0)
  call check(omp_get_ancestor_thread_num(1) == -1)
  call check(omp_get_team_size(0) == 1)
  call check(omp_get_team_size(1) == -1)

  !$omp parallel
  call within(omp_get_thread_num())
  !$omp end parallel

  call check(counted == members * rounds)
  call check(tested == members * rounds)
  call check(dealt == 100)
  call check(seen == members * (members + 1) / 2)
  ! What members set was theirs.
  call check(has_chunk(3))
  call omp_destroy_lock(lock)
  call omp_destroy_nest_lock(nest_lock)
  print '(i0)', bad

contains

  subroutine check_4(right)
    logical(4), intent(in) :: right
    if (.not. right) then
      !$omp atomic
      bad = bad + 1
    end if
  end subroutine

  subroutine check_8(right)
    logical(8), intent(in) :: right
    call check_4(logical(right, 4))
  end subroutine

  logical function has_chunk(expected)
    integer, intent(in) :: expected
    integer(omp_sched_kind) :: kind
    integer(4) :: chunk
    call omp_get_schedule(kind, chunk)
    has_chunk = chunk == expected
  end function

  subroutine within(me)
    integer(4), intent(in) :: me
    integer :: i
    integer :: depth
    call check(omp_in_parallel())
    call check(omp_get_num_threads() == members)
    call check(omp_get_level() == 1)
    call check(omp_get_active_level() == 1)
    call check(omp_get_ancestor_thread_num(0) == 0)
    call check(omp_get_ancestor_thread_num(1) == me)
    call check(omp_get_ancestor_thread_num(2) == -1)
    call check(omp_get_team_size(0) == 1)
    call check(omp_get_team_size(1) == members)
    call check(omp_get_team_size(2) == -1)
    call check(has_chunk(3))

    do i = 1, rounds
      call omp_set_lock(lock)
      counted = counted + 1
      call omp_unset_lock(lock)
      do while (.not. omp_test_lock(lock))
      end do
      tested = tested + 1
      call omp_unset_lock(lock)
      call omp_set_nest_lock(nest_lock)
      depth = omp_test_nest_lock(nest_lock)
      call check(depth == 2)
      call omp_unset_nest_lock(nest_lock)
      call omp_unset_nest_lock(nest_lock)
    end do

    !$omp do schedule(runtime)
    do i = 1, 100
      !$omp atomic
      dealt = dealt + 1
    end do
    !$omp end do

    call omp_set_schedule(omp_sched_static, me + 7)
    !$omp barrier
    call check(has_chunk(me + 7))
    call check(omp_get_thread_num() == me)

    call omp_set_num_threads(2)
    !$omp parallel
    call check(omp_get_num_threads() == 2)
    call check(omp_get_level() == 2)
    call check(omp_get_active_level() == 2)
    call check(omp_get_ancestor_thread_num(1) == me)
    call check(omp_get_ancestor_thread_num(2) == omp_get_thread_num())
    call check(omp_get_team_size(1) == members)
    call check(omp_get_team_size(2) == 2)
    !$omp end parallel

    !$omp atomic
    seen = seen + me + 1
    call omp_set_max_active_levels(1)
    !$omp parallel
    call check(omp_get_num_threads() == 1)
    call check(omp_get_level() == 2)
    call check(omp_get_active_level() == 1)
    !$omp end parallel
  end subroutine
end program
