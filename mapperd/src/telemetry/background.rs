//! Work that may block for any time, on its own thread: submitting it never blocks.

use anyhow::Context;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// A thread and what waits for it, at most a fixed number.
#[derive(Debug)]
pub(crate) struct Background<T> {
    jobs: SyncSender<Job<T>>,
    dropped: AtomicU64,
}

#[derive(Debug)]
enum Job<T> {
    Work(T),
    /// Everything before it is done.
    Reached(SyncSender<()>),
}

impl<T: Send + 'static> Background<T> {
    /// `work` is called for each item, `idle` whenever none waits any more.
    pub(crate) fn start(
        name: &'static str,
        waiting: usize,
        mut work: impl FnMut(T) + Send + 'static,
        mut idle: impl FnMut() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (jobs, arriving) = sync_channel(waiting);
        let run = move || {
            loop {
                let job = match arriving.try_recv() {
                    Err(TryRecvError::Empty) => {
                        idle();
                        arriving.recv().ok()
                    }
                    job => job.ok(),
                };
                match job {
                    Some(Job::Work(item)) => work(item),
                    Some(Job::Reached(here)) => drop(here),
                    None => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread
            .spawn(run)
            .with_context(|| format!("start the thread {name}"))?;
        let dropped = AtomicU64::new(0);
        Ok(Self { jobs, dropped })
    }

    /// Drops the item if too many wait already.
    pub(crate) fn submit(&self, item: T) {
        if self.jobs.try_send(Job::Work(item)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits up to `patience` until everything that was submitted is done.
    pub(crate) fn flush(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let (here, reached) = sync_channel(0);
        while self.jobs.try_send(Job::Reached(here.clone())).is_err() {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(here);
        let _ = reached.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Reports how many `what` were lost since the last report, whenever none waits; seldom, as the report may be lost too.
pub(crate) fn reporting(
    what: &'static str,
    lost: impl Fn() -> u64 + Send + 'static,
) -> impl FnMut() + Send + 'static {
    let (mut reported, mut last) = (0, None);
    move || {
        let (lost, now) = (lost(), Instant::now());
        if lost > reported && last.is_none_or(|last| now - last > Duration::from_secs(1)) {
            tracing::warn!("{} {what}", lost - reported);
            (reported, last) = (lost, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_finds_the_queue_full_is_dropped_and_counted_and_nobody_waits() {
        let ((open, gate), (done, finished)) = (mpsc::channel::<()>(), mpsc::channel());
        let (idle, rests) = mpsc::channel();
        let work = move |item: u64| {
            let _ = gate.recv();
            let _ = done.send(item);
        };
        let rest = move || {
            let _ = idle.send(());
        };
        let queue = Background::start("test", 4, work, rest).unwrap();
        let started = Instant::now();
        for item in 0..100 {
            queue.submit(item);
        }
        queue.flush(Duration::from_millis(50));
        assert!(started.elapsed() < Duration::from_secs(20));
        // One is being worked on, if the thread was fast.
        assert!((95..=96).contains(&queue.dropped()), "{}", queue.dropped());
        drop(open);
        queue.flush(Duration::from_secs(20));
        let done: Vec<u64> = finished.try_iter().collect();
        assert_eq!(done.len() as u64 + queue.dropped(), 100);
        assert!(done.is_sorted() && rests.recv().is_ok());
    }
}
