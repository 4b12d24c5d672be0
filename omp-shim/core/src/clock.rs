//! The time, without a system call.

/// `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// The same to some milliseconds, in a fraction of the time.
pub fn coarse_now_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC_COARSE)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a local variable. The clocks exist since Linux 2.6.32; after a failure the time would stay
    // zero, which means "unknown".
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_is_the_monotonic_one() {
        let before = coarse_now_ns();
        assert!(before > 0);
        assert!(coarse_now_ns() >= before);
    }
}
