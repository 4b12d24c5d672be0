//! The latency that an application is judged by: the 99th percentile of its requests.
//!
//! A percentile of a few requests is noise, so that it is taken of at least [`REQUESTS`], over several readings if need be, and
//! of fewer only where these take longer than [`AT_MOST_NS`]. All of them had the same number of CPUs.

use mapper_abi::Latencies;
use mapper_model::ReportedProgress;

/// Of so many requests one is slower than the percentile.
const REQUESTS: u64 = 100;

/// A program with fewer requests in this time is judged by those that it has.
const AT_MOST_NS: u64 = 10_000_000_000;

const PERCENTILE: f64 = 0.99;

/// What the page says at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub(crate) latencies: Latencies,
    /// When the last of them was reported.
    pub(crate) at_ns: u64,
    /// When this was read, and the CPUs that it had since it was read before.
    pub(crate) read_ns: u64,
    pub(crate) cpus: u32,
}

/// The requests of one application since the last percentile.
#[derive(Debug)]
pub(crate) struct LatencyWindow {
    start: Reported,
    previous: Reported,
    last: Option<ReportedProgress>,
}

impl LatencyWindow {
    /// Nothing is known of earlier requests.
    pub(crate) fn starting(reported: Reported) -> Self {
        Self {
            start: reported.clone(),
            previous: reported,
            last: None,
        }
    }

    /// The percentile found last, with the time of the last request that it is of.
    pub(crate) fn observe(&mut self, reported: Reported) -> Option<ReportedProgress> {
        if reported.cpus != self.previous.cpus {
            self.start = self.previous.clone();
        }
        let new = reported.latencies.since(&self.start.latencies);
        let waited = reported.read_ns.saturating_sub(self.start.read_ns) >= AT_MOST_NS;
        if (waited || new.count() >= REQUESTS)
            && let Some(latency_ns) = new.percentile_ns(PERCENTILE)
        {
            let at_ns = reported.at_ns;
            self.last = Some(ReportedProgress::Latency { latency_ns, at_ns });
            self.start = reported.clone();
        }
        self.previous = reported;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_abi::{ClientPage, PageReader, PageWriter};
    use std::os::fd::{AsFd as _, AsRawFd as _};

    const SECOND_NS: u64 = 1_000_000_000;

    struct Service {
        client: ClientPage,
        reader: PageReader,
        window: LatencyWindow,
        now_ns: u64,
        cpus: u32,
    }

    impl Service {
        fn new() -> Self {
            let writer = PageWriter::create().unwrap();
            let path = format!("/proc/self/fd/{}", writer.as_fd().as_raw_fd());
            let client = ClientPage::open(path.as_ref(), writer.token()).unwrap();
            let reader = writer.reader().unwrap();
            let now_ns = SECOND_NS;
            let window = LatencyWindow::starting(reported(&reader, now_ns, 4));
            Self {
                client,
                reader,
                window,
                now_ns,
                cpus: 4,
            }
        }

        /// A second with so many requests of 2 ms and so many of 48; what is known then, in milliseconds.
        fn second(&mut self, fast: u32, slow: u32) -> Option<f64> {
            self.now_ns += SECOND_NS;
            for (count, latency_ns) in [(fast, 2e6), (slow, 4.8e7)] {
                for _ in 0..count {
                    self.client.own().add_latency(latency_ns, self.now_ns);
                }
            }
            let reported = reported(&self.reader, self.now_ns, self.cpus);
            match self.window.observe(reported)? {
                ReportedProgress::Latency { latency_ns, .. } => Some((latency_ns / 1e6).round()),
                ReportedProgress::Work { .. } => None,
            }
        }
    }

    fn reported(reader: &PageReader, now_ns: u64, cpus: u32) -> Reported {
        Reported {
            latencies: reader.latencies(),
            at_ns: now_ns,
            read_ns: now_ns,
            cpus,
        }
    }

    #[test]
    fn one_slow_request_of_a_hundred_is_not_the_percentile_and_two_are() {
        let mut service = Service::new();
        assert_eq!(service.second(999, 1), Some(2.0));
        assert_eq!(service.second(98, 2), Some(48.0));
        assert_eq!(service.second(1000, 0), Some(2.0), "of the new ones");
    }

    #[test]
    fn a_percentile_is_of_a_hundred_requests_or_of_those_of_ten_seconds() {
        let mut service = Service::new();
        assert_eq!(service.second(60, 0), None);
        assert_eq!(service.second(40, 0), Some(2.0));
        for _ in 0..9 {
            assert_eq!(service.second(0, 1), Some(2.0));
        }
        assert_eq!(service.second(0, 1), Some(48.0));
        for _ in 0..20 {
            assert_eq!(service.second(0, 0), Some(48.0), "none is new");
        }
    }

    #[test]
    fn requests_with_different_numbers_of_cpus_are_of_no_one_percentile() {
        let mut service = Service::new();
        assert_eq!(service.second(0, 90), None);
        service.cpus = 3;
        assert_eq!(service.second(90, 0), None);
        assert_eq!(service.second(10, 0), Some(2.0));
        service.cpus = 2;
        assert_eq!(service.second(0, 100), Some(48.0), "those since the change");
    }
}
