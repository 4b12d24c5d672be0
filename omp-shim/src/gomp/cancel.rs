//! Barriers of constructs that can be cancelled, as gcc emits them: it has them say whether that has happened.

use mapper_shim_core::pass_on::pass_on;
use mapper_shim_core::waits;

pass_on! {
    GOMP_barrier_cancel() -> bool: |thread, real| waits::at_barrier(thread, real);
    GOMP_loop_end_cancel() -> bool: |thread, real| waits::at_barrier(thread, real);
    GOMP_sections_end_cancel() -> bool: |thread, real| waits::at_barrier(thread, real);
}
