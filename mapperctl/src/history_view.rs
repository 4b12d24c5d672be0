//! `mapperctl history`, `report`, and `explain` of an application that has ended.

use crate::plain_text::{Width, harmless, wrapped};
use crate::quantities::{counted, percent, span};
use crate::table::{Cell, Column, Table};
use anstyle::{AnsiColor, Style};
use mapper_control::schema::{EndedApp, HistoryReply, ReportReply};

pub(crate) fn view(reply: &HistoryReply, width: Width) -> String {
    if reply.ended.is_empty() {
        return "No application has ended yet.\n".to_owned();
    }
    let mut table = Table::new([
        Column::text("NAME", 10),
        Column::number("ENDED"),
        Column::number("AFTER"),
        Column::number("CPUS"),
        Column::number("SPEED"),
        Column::number("PROMISED"),
        Column::number("EXIT"),
        Column::text("COMMAND", 12),
    ])
    .without_at_need(&["COMMAND", "EXIT", "PROMISED", "AFTER"]);
    for app in &reply.ended {
        table.row(
            [
                Cell::styled(app.name.as_str(), Style::new().bold()),
                format!("{} ago", span(app.ended_ago_ns)).into(),
                span(app.account.managed_ns).into(),
                cpus(app).into(),
                speed(app),
                percent(app.qos.get()).into(),
                app.exit_status
                    .map_or("-".to_owned(), |status| status.to_string())
                    .into(),
                app.command.as_str().into(),
            ],
            vec![],
        );
    }
    table.render(width)
}

fn cpus(app: &EndedApp) -> String {
    match (app.account.fewest_cpus, app.account.most_cpus) {
        (fewest, most) if fewest == most => most.to_string(),
        (fewest, most) => format!("{fewest}-{most}"),
    }
}

/// Red below the promise, else green; as far as it was judged.
fn speed(app: &EndedApp) -> Cell {
    let Some(achieved) = app.account.achieved else {
        return "-".into();
    };
    let colour = match achieved < app.qos.get() {
        true => AnsiColor::Red,
        false => AnsiColor::Green,
    };
    Cell::styled(
        percent(achieved),
        Style::new().fg_color(Some(colour.into())),
    )
}

/// What an application was that has ended.
pub(crate) fn explained(app: &EndedApp, width: Width) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: String| {
        out.push_str(&wrapped(&format!("{label:<13}"), &harmless(&text), width));
    };
    line("application", format!("{} (id {})", app.name, app.app));
    line("command", app.command.clone());
    let status = app
        .exit_status
        .map(|status| format!(", with exit status {status}"));
    line(
        "ended",
        format!(
            "{} ago{}",
            span(app.ended_ago_ns),
            status.unwrap_or_default()
        ),
    );
    let account = &app.account;
    line("ran", account.time_in_words());
    line("moved", counted(account.moves, "time"));
    line("speed", account.speed_in_words(app.qos));
    if account.judged_intervals > 0 {
        let (below, judged) = (account.violations, account.judged_intervals);
        line(
            "promise",
            format!("below it in {below} of {judged} intervals"),
        );
    }
    out
}

pub(crate) fn reported(reply: &ReportReply) -> String {
    let prefix = format!("{}: ", reply.name);
    reply.account.in_two_lines(&prefix, reply.qos, None) + "\n"
}
