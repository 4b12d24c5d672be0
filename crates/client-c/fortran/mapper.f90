! libmapper for Fortran: the functions of mapper.h, where they are documented.
!
!     gfortran mapper.f90 program.f90 $(pkg-config --libs mapper)
module mapper
  use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_int64_t, c_double, c_size_t, c_ptr
  implicit none
  private
  public :: mapper_allocation, mapper_is_managed, mapper_cpu_count, mapper_generation, &
            mapper_get_allocation, mapper_get_cpus, mapper_wait, mapper_work_done, mapper_latency, &
            mapper_declare_cpus, mapper_promise, mapper_serial_begin, mapper_serial_end

  type, bind(c) :: mapper_allocation
    integer(c_int32_t) :: generation
    integer(c_int32_t) :: cpu_count
    integer(c_int64_t) :: node_mask
  end type mapper_allocation

  interface
    integer(c_int) function mapper_is_managed() bind(c)
      import :: c_int
    end function mapper_is_managed

    integer(c_int32_t) function mapper_cpu_count() bind(c)
      import :: c_int32_t
    end function mapper_cpu_count

    integer(c_int32_t) function mapper_generation() bind(c)
      import :: c_int32_t
    end function mapper_generation

    integer(c_int) function mapper_get_allocation(allocation) bind(c)
      import :: c_int, mapper_allocation
      type(mapper_allocation), intent(inout) :: allocation
    end function mapper_get_allocation

    integer(c_int) function mapper_get_cpus(bytes, cpu_set) bind(c)
      import :: c_int, c_size_t, c_ptr
      integer(c_size_t), value :: bytes
      type(c_ptr), value :: cpu_set
    end function mapper_get_cpus

    integer(c_int) function mapper_wait(generation, timeout_s, allocation) bind(c)
      import :: c_int, c_int32_t, c_double, mapper_allocation
      integer(c_int32_t), value :: generation
      real(c_double), value :: timeout_s
      type(mapper_allocation), intent(inout) :: allocation
    end function mapper_wait

    subroutine mapper_work_done(amount) bind(c)
      import :: c_double
      real(c_double), value :: amount
    end subroutine mapper_work_done

    subroutine mapper_latency(seconds) bind(c)
      import :: c_double
      real(c_double), value :: seconds
    end subroutine mapper_latency

    subroutine mapper_declare_cpus(least, most) bind(c)
      import :: c_int32_t
      integer(c_int32_t), value :: least
      integer(c_int32_t), value :: most
    end subroutine mapper_declare_cpus

    integer(c_int) function mapper_promise(share) bind(c)
      import :: c_double, c_int
      real(c_double), value :: share
    end function mapper_promise

    subroutine mapper_serial_begin() bind(c)
    end subroutine mapper_serial_begin

    subroutine mapper_serial_end() bind(c)
    end subroutine mapper_serial_end
  end interface
end module mapper
