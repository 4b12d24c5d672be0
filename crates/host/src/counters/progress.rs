//! Progress as the OpenMP shim counts it into the page shared with the application.

use super::{CounterSource, Subject};
use mapper_model::{AppId, Reading, RuntimeProgress};

/// Reads the pages. What stands there is bounded by [`mapper_abi::PageReader`].
#[derive(Clone, Copy, Debug)]
pub struct RuntimePages;

impl CounterSource for RuntimePages {
    fn describe(&self) -> String {
        "progress of OpenMP runtimes".to_owned()
    }

    fn read(&mut self, subject: &Subject<'_>, reading: &mut Reading) {
        let Some(page) = subject.page else {
            return;
        };
        let progress = page.progress(subject.now_ns);
        if progress.regions == 0 && progress.iterations == 0 {
            // No shim, or a program without OpenMP so far: nothing is known, which is not zero.
            return;
        }
        // A program that needs all its CPUs declares nothing; what it could spare all the same is for
        // the policy to judge.
        let spare_cpus = page.report().spare_cpus;
        if spare_cpus > 0 {
            reading.spare_cpus = Some(spare_cpus);
        }
        reading.runtime = Some(RuntimeProgress {
            regions: progress.regions,
            iterations: progress.iterations,
            wait_ns: progress.wait_ns,
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
    use mapper_abi::PageWriter;

    #[test]
    fn a_program_that_reports_nothing_has_no_progress_instead_of_none_made() {
        let reader = PageWriter::create().unwrap().reader().unwrap();
        let tasks = Tasks::default();
        let mut reading = Reading::default();
        let subject = Subject {
            app: AppId(1),
            tasks: &tasks,
            page: Some(&reader),
            group_cpu_time_ns: None,
            now_ns: 1,
        };
        RuntimePages.read(&subject, &mut reading);
        assert_eq!(reading, Reading::default());
    }
}
