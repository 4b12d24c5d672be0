//! A program that computes with rayon and keeps its pool as large as its allocation.
//!
//! Without mapper the pool has as many threads as the machine has CPUs. Under `mapper-launch` it is
//! made anew, between two batches, whenever the number of CPUs has changed; batches done are
//! reported, so that mapper judges the program by what it is there for.
//!
//!     cargo run -p mapper-client --example rayon_pool -- 200

use std::error::Error;

use mapper_client::Mapper;
use rayon::prelude::{IntoParallelIterator as _, ParallelIterator as _};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The number of threads to have now.
fn wanted(mapper: &Mapper) -> usize {
    match mapper.allocation() {
        Some(allocation) => allocation.cpu_count.get() as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

fn pool(threads: usize) -> Result<ThreadPool, Box<dyn Error>> {
    println!("{threads} threads");
    Ok(ThreadPoolBuilder::new().num_threads(threads).build()?)
}

/// Counts the primes below 20000 that end in 7.
fn batch() -> usize {
    let is_prime = |n: &u32| {
        (2..*n)
            .take_while(|d| d * d <= *n)
            .all(|d| !n.is_multiple_of(d))
    };
    let sevens = (0..2000_u32).into_par_iter().map(|n| n * 10 + 7);
    sevens.filter(is_prime).count()
}

fn main() -> Result<(), Box<dyn Error>> {
    let batches: u32 = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 200,
    };
    let mapper = Mapper::get();
    let mut workers = pool(wanted(mapper))?;
    for _ in 0..batches {
        if wanted(mapper) != workers.current_num_threads() {
            workers = pool(wanted(mapper))?;
        }
        let primes = workers.install(batch);
        if primes != 569 {
            return Err(format!("counted {primes} primes instead of 569").into());
        }
        mapper.work_done(1.0);
    }
    println!("done");
    Ok(())
}
