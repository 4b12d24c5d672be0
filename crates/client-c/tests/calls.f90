program calls
  use mapper
  use, intrinsic :: iso_c_binding, only: c_double, c_int32_t, c_int64_t, c_loc, c_size_t
  implicit none
  type(mapper_allocation) :: allocation, next
  integer :: there, named, changed
  integer(c_int64_t), target :: cpus(16)
  allocation = mapper_allocation(0, 0, 0)
  there = mapper_get_allocation(allocation)
  named = mapper_get_cpus(int(8 * size(cpus), c_size_t), c_loc(cpus))
  call mapper_latency(0.25_c_double)
  call mapper_work_done(8.0_c_double)
  call mapper_declare_cpus(1_c_int32_t, 4_c_int32_t)
  call mapper_serial_begin()
  call mapper_serial_end()
  there = there + mapper_wait(mapper_generation(), 0.001_c_double, allocation)
  next = mapper_allocation(0, 0, 0)
  ! Of no allocation, so that the present one is another.
  changed = mapper_wait(mapper_generation() - 1, 20.0_c_double, next)
  print *, mapper_is_managed(), mapper_cpu_count(), allocation%cpu_count, allocation%node_mask, named, &
    changed, next%cpu_count
end program calls
