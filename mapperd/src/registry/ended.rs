//! Reports of applications, kept for a while after they end.

use crate::registry::app::App;
use mapper_control::PROTOCOL;
use mapper_control::schema::ReportReply;
use mapper_model::AppId;
use std::collections::VecDeque;

const KEPT: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct EndedReports(VecDeque<OwnedReport>);

#[derive(Clone, Debug)]
pub(crate) struct OwnedReport {
    pub(crate) uid: u32,
    pub(crate) report: ReportReply,
}

impl OwnedReport {
    /// The report as if the application ended now.
    pub(crate) fn of(app: &App) -> Self {
        let record = &app.record;
        Self {
            uid: record.uid,
            report: ReportReply {
                protocol: PROTOCOL,
                app: record.id,
                name: record.spec.name.clone(),
                qos: record.spec.qos,
                account: record.accounting.clone().finished(record.spec.qos),
            },
        }
    }
}

impl EndedReports {
    pub(crate) fn add(&mut self, app: &App) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(OwnedReport::of(app));
    }

    pub(crate) fn find(&self, app: AppId) -> Option<&OwnedReport> {
        self.0.iter().find(|ended| ended.report.app == app)
    }
}
