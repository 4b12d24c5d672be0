//! Progress from the page shared with the application: what the OpenMP shim counts, and what the application reports.
//!
//! *CPUs to spare.* The shim says how many CPUs the present regions do not need; the application may declare a serial
//! phase, which needs one. The larger number counts. Both only give CPUs away: no claim takes any from others.

use super::source::{CounterSource, Subject};
use mapper_abi::{OwnProgress, ReportFlags};
use mapper_model::{AppId, Reading, ReportedProgress, RuntimeProgress, SerialPhase};

#[derive(Clone, Copy, Debug)]
pub(crate) struct RuntimePages;

impl CounterSource for RuntimePages {
    fn describe(&self) -> String {
        "progress of OpenMP runtimes and of applications".to_owned()
    }

    fn read(&mut self, subject: &Subject<'_>, reading: &mut Reading) {
        let Some(page) = subject.page else {
            return;
        };
        let own = page.own_report(subject.read_ns);
        reading.reported = own.progress.map(|progress| match progress {
            OwnProgress::Work { done, at_ns } => ReportedProgress::Work { done, at_ns },
            OwnProgress::Latency { latency_ns, at_ns } => {
                ReportedProgress::Latency { latency_ns, at_ns }
            }
        });
        let report = page.report();
        // A program that needs all its CPUs declares nothing; what it could spare all the same is the policy's to judge.
        let (serial_phase, spare_cpus) = match own.serial {
            true => (SerialPhase::Open, u32::MAX),
            false => (SerialPhase::None, report.spare_cpus),
        };
        reading.serial_phase = serial_phase;
        reading.spare_cpus = Some(spare_cpus).filter(|cpus| *cpus > 0);
        let progress = page.progress(subject.read_ns);
        let nothing = progress.regions == 0 && progress.iterations == 0;
        if nothing && progress.wait_ns == 0 {
            // No shim, or a program without OpenMP so far: nothing is known, which is not zero.
            return;
        }
        reading.runtime = Some(RuntimeProgress {
            regions: progress.regions,
            iterations: progress.iterations,
            wait_ns: report
                .flags
                .contains(ReportFlags::WAIT_MEASURED)
                .then_some(progress.wait_ns),
            parallel_ns: Some(progress.parallel_ns).filter(|ns| *ns > 0),
            last_ns: progress.last_progress_ns,
            threads: progress.threads,
            region: progress.region,
        });
    }

    fn forget(&mut self, _app: AppId) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforce::Tasks;
    use core::sync::atomic::Ordering;
    use mapper_abi::{ClientPage, PageWriter, SlotOwner};
    use std::os::fd::{AsFd as _, AsRawFd as _};

    fn read(page: &PageWriter, read_ns: u64) -> Reading {
        let mut reading = Reading::default();
        let (reader, tasks) = (page.reader().unwrap(), Tasks::default());
        let subject = Subject {
            page: Some(&reader),
            read_ns,
            ..Subject::of(AppId(1), &tasks)
        };
        RuntimePages.read(&subject, &mut reading);
        reading
    }

    fn page() -> (PageWriter, ClientPage) {
        let page = PageWriter::create().unwrap();
        let path = format!("/proc/self/fd/{}", page.as_fd().as_raw_fd());
        let client = ClientPage::open(path.as_ref(), page.token()).unwrap();
        (page, client)
    }

    fn run_region(client: &ClientPage) {
        let owner = SlotOwner {
            process: 1,
            thread: 1,
        };
        let claim = client.claim_slot(owner, |_| false);
        claim.slot.regions.store(1, Ordering::Relaxed);
    }

    #[test]
    fn what_an_application_reports_is_read() {
        let (page, client) = page();
        client.own().add_work(12.5, 3);
        let reading = read(&page, 4);
        let work = ReportedProgress::Work {
            done: 12.5,
            at_ns: 3,
        };
        assert_eq!(reading.reported, Some(work));
        assert_eq!(reading.spare_cpus, None);
        client.report().spare_cpus.store(2, Ordering::Relaxed);
        assert_eq!(read(&page, 4).spare_cpus, Some(2));
        assert_eq!(read(&page, 4).serial_phase, SerialPhase::None);
        client.own().begin_serial();
        assert_eq!(read(&page, 4).serial_phase, SerialPhase::Open);
        assert_eq!(read(&page, 4).spare_cpus, Some(u32::MAX));
    }

    #[test]
    fn waits_that_are_not_measured_are_not_known() {
        let (page, client) = page();
        run_region(&client);
        let waited = |page| read(page, 4).runtime.unwrap().wait_ns;
        assert_eq!(waited(&page), None);
        let measured = ReportFlags::WAIT_MEASURED.bits();
        client.report().flags.store(measured, Ordering::Relaxed);
        assert_eq!(waited(&page), Some(0));
    }

    #[test]
    fn a_serial_part_spares_all_but_one_whatever_the_regions_do_not_need() {
        let (page, client) = page();
        run_region(&client);
        client.report().spare_cpus.store(2, Ordering::Relaxed);
        client.own().begin_serial();
        assert_eq!(read(&page, 4).spare_cpus, Some(u32::MAX));
    }

    #[test]
    fn a_program_that_reports_nothing_has_no_progress_instead_of_none_made() {
        let page = PageWriter::create().unwrap();
        assert_eq!(read(&page, 1), Reading::default());
    }
}
