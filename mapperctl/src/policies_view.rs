//! `mapperctl policies`: what the daemon can use.

use crate::plain_text::Width;
use crate::table::{Cell, Column, Table};
use anstyle::Style;
use mapper_control::schema::{PoliciesReply, PolicyKind};

pub(crate) fn view(reply: &PoliciesReply, width: Width) -> String {
    let mut table = Table::new([
        Column::word("POLICY"),
        Column::word("DECIDES"),
        Column::word("IN USE"),
        Column::text("SOURCE", 10),
    ]);
    for policy in &reply.policies {
        let decides = match policy.kind {
            PolicyKind::Allocation => "how many",
            PolicyKind::Mapping => "which",
        };
        let (used, style) = if policy.in_use {
            ("yes", Style::new().bold())
        } else {
            ("", Style::new())
        };
        table.row(
            [
                Cell::styled(&policy.name, style),
                decides.into(),
                used.into(),
                policy.source.as_str().into(),
            ],
            vec![policy.summary.clone()],
        );
    }
    table.render(width)
}
