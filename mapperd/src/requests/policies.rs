//! Which policies there are, and which are in use.

use crate::decider::Decider;
use mapper_control::schema::{PoliciesReply, PolicyEntry, PolicyKind};
use mapper_control::{PROTOCOL, Reply};
use mapper_pipeline as pipeline;

pub(crate) fn policies(decider: &Decider) -> Reply {
    let config = decider.controller.config();
    let policies = pipeline::policies().into_iter().map(|policy| {
        let (kind, used) = match policy.kind {
            pipeline::PolicyKind::Allocation => (PolicyKind::Allocation, &config.allocation),
            pipeline::PolicyKind::Mapping => (PolicyKind::Mapping, &config.mapping),
        };
        PolicyEntry {
            name: policy.name.to_owned(),
            kind,
            summary: policy.summary.to_owned(),
            source: policy.source.to_owned(),
            in_use: policy.name == *used,
        }
    });
    Reply::Policies(PoliciesReply {
        protocol: PROTOCOL,
        policies: policies.collect(),
    })
}
