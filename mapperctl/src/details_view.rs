//! `mapperctl status --verbose`: how the daemon works, then all that is known of each application.

use crate::plain_text::{Width, harmless, wrapped};
use crate::quantities::{counted, short, short_or_dash, span};
use crate::table::{Cell, Column, Table};
use anstyle::{AnsiColor, Style};
use mapper_control::schema::{
    AppStatus, DaemonStatus, MemoryPolicy, RuntimeState, RuntimeStatus, Selection, Status,
    StretchedInterval,
};
use mapper_manual::wording;
use mapper_model::{MemoryRate, TeamMode};

pub(crate) fn view(status: &Status, width: Width) -> String {
    let mut out = heading(status, width);
    out.push('\n');
    match status.apps.as_slice() {
        [] => out.push_str(&format!("{}\n", no_application())),
        apps => out.push_str(&applications(apps, width)),
    }
    out
}

/// How to begin.
pub(crate) fn no_application() -> String {
    let (launch, ask) = (wording::launch(), wording::ask());
    format!(
        "Start a program with `{launch} -- PROGRAM`; `{ask} history` lists those that have ended."
    )
}

fn heading(status: &Status, width: Width) -> String {
    let (daemon, machine) = (&status.daemon, &status.topology);
    let mut out = String::new();
    let mut line = |label: &str, text: String| {
        out.push_str(&wrapped(&format!("{label:<10}"), &text, width));
    };
    line(
        "daemon",
        format!(
            "mapperd {}, process {}, up {}, {} taken, one {}",
            daemon.version,
            daemon.pid,
            span(daemon.uptime_ns),
            counted(daemon.decisions, "decision"),
            how_often(daemon),
        ),
    );
    line(
        "machine",
        format!(
            "{}, {}, {}, {} (by {}); to give out: {}; free: {}",
            counted(machine.cpus, "CPU"),
            counted(machine.cores, "core"),
            counted(machine.sockets, "socket"),
            counted(machine.nodes, "node"),
            machine.source,
            or_none(&machine.usable.to_string()),
            or_none(&machine.free.to_string()),
        ),
    );
    let (allocation, mapping) = (&daemon.allocation, &daemon.mapping);
    line(
        "policies",
        format!("{allocation} (how many CPUs), {mapping} (which)"),
    );
    line("enforcer", selection(&daemon.enforcer));
    line("counters", selection(&daemon.counters));
    if let Some(what) = held_up(daemon) {
        line("held up", what);
    }
    out
}

/// What the kernel holds up, if it does.
pub(crate) fn held_up(daemon: &DaemonStatus) -> Option<String> {
    let held = daemon.held_up.as_ref()?;
    let (change, lasting) = (harmless(&held.change), span(held.lasting_ns));
    Some(format!(
        "by the kernel, for {lasting}: {change}; it moves memory, and launches may wait"
    ))
}

fn how_often(daemon: &DaemonStatus) -> String {
    match &daemon.stretched {
        None => format!("every {}", span(daemon.interval_ns)),
        Some(stretched) => pace(stretched),
    }
}

pub(crate) fn pace(stretched: &StretchedInterval) -> String {
    format!(
        "every {} instead of {}: a pass takes {}",
        span(stretched.interval_ns),
        span(stretched.asked_ns),
        span(stretched.pass_ns)
    )
}

fn or_none(list: &str) -> &str {
    if list.is_empty() { "none" } else { list }
}

fn selection(selection: &Selection) -> String {
    if selection.not_better.is_empty() {
        return selection.name.clone();
    }
    format!(
        "{}; nothing better, as {}",
        selection.name,
        selection.not_better.join("; ")
    )
}

fn applications(apps: &[AppStatus], width: Width) -> String {
    let mut table = Table::new([
        Column::text("NAME", 10),
        Column::number("CPUS"),
        Column::text("ON", 8),
        Column::number("FAIR"),
        Column::number("QOS"),
        Column::number("PERF"),
        Column::number("FLOOR"),
        Column::word("BOTTLENECK"),
        Column::text("STATE", 8),
    ])
    .without_at_need(&["BOTTLENECK", "FAIR", "FLOOR", "ON", "QOS"]);
    for app in apps {
        let mut notes = vec![measured(app), app.sentence.clone()];
        notes.retain(|note| !note.is_empty());
        table.row(
            [
                Cell::styled(app.name.as_str(), Style::new().bold()),
                app.cpu_count.to_string().into(),
                app.cpus.to_string().into(),
                app.fair_cpus.to_string().into(),
                app.qos.to_string().into(),
                performance(app),
                short_or_dash(app.floor).into(),
                bottleneck(app).into(),
                app.state.as_str().into(),
            ],
            notes,
        );
    }
    table.render(width)
}

fn bottleneck(app: &AppStatus) -> String {
    match app.state == AppStatus::OUTLINED {
        true => "-".to_owned(),
        false => app.bottleneck.to_string(),
    }
}

/// The performance: red below the floor, green above.
fn performance(app: &AppStatus) -> Cell {
    let Some(performance) = &app.performance else {
        return "-".into();
    };
    let colour = match app.floor {
        Some(floor) if performance.value < floor => Some(AnsiColor::Red),
        Some(_) => Some(AnsiColor::Green),
        None => None,
    };
    let style = Style::new().fg_color(colour.map(Into::into));
    Cell::styled(short(performance.value), style)
}

fn measured(app: &AppStatus) -> String {
    if app.state == AppStatus::OUTLINED {
        return String::new();
    }
    let source = match &app.performance {
        Some(performance) => format!("in {} by {}", performance.unit, performance.source),
        None => "not measured yet".to_owned(),
    };
    let memory = match app.memory {
        MemoryPolicy::Keep => String::new(),
        policy => format!("; memory {policy}"),
    };
    if let Some(adopted) = &app.adopted {
        return harmless(&format!("{source}{memory}; adopted: {adopted}"));
    }
    let partition = app.partition.as_ref();
    let partition = partition.map_or_else(String::new, |partition| format!("; {partition}"));
    harmless(&format!(
        "{source}{}{memory}{partition}; teams {}",
        traffic(app.memory_traffic),
        teams_and_runtime(app.teams, &app.teams_by, &app.runtime)
    ))
}

fn traffic(rate: Option<MemoryRate>) -> String {
    let gb = |bytes: f64| format!("{:.1} GB/s", bytes / 1e9);
    let rate = rate.unwrap_or_default();
    match (rate.total_bytes_per_s, rate.local_bytes_per_s) {
        (Some(total), Some(local)) => {
            format!("; memory traffic {}, {} of it local", gb(total), gb(local))
        }
        (Some(total), None) => format!("; memory traffic {}", gb(total)),
        (None, Some(local)) => format!("; local memory traffic {}", gb(local)),
        (None, None) => String::new(),
    }
}

/// The mode of teams with its origin, and the runtime interface with its notes.
pub(crate) fn teams_and_runtime(teams: TeamMode, by: &str, runtime: &RuntimeStatus) -> String {
    let mut text = teams.to_string();
    if !by.is_empty() {
        text.push_str(&format!(" ({by})"));
    }
    text.push_str("; runtime interface: ");
    match runtime.state {
        RuntimeState::Off => text.push_str("off"),
        RuntimeState::Waiting => text.push_str("not used by the program"),
        RuntimeState::Unreachable => text.push_str("none"),
        RuntimeState::Unknown => text.push_str("in a state that only a newer mapperctl knows"),
        RuntimeState::Attached if runtime.runtimes.is_empty() => text.push_str("attached"),
        RuntimeState::Attached => text.push_str(&runtime.runtimes.join(" and ")),
    }
    for (place, note) in runtime.notes.iter().enumerate() {
        let is_cause = place == 0 && runtime.state == RuntimeState::Unreachable;
        text.push_str(if is_cause { ": " } else { "; " });
        text.push_str(note);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn of_another_users_application_nothing_is_said_that_is_not_known() {
        let mut app = samples::status().apps.remove(0);
        assert!(measured(&app).contains("teams"));
        app.state = AppStatus::OUTLINED.to_owned();
        assert_eq!(measured(&app), "");
    }

    #[test]
    fn memory_is_reported_as_far_as_it_is_counted() {
        let both = "; memory traffic 3.5 GB/s, 3.0 GB/s of it local";
        for (total_bytes_per_s, local_bytes_per_s, text) in [
            (Some(3.51e9), Some(3e9), both),
            (Some(3e9), None, "; memory traffic 3.0 GB/s"),
            (None, Some(3e9), "; local memory traffic 3.0 GB/s"),
        ] {
            let rate = MemoryRate {
                total_bytes_per_s,
                local_bytes_per_s,
            };
            assert_eq!(traffic(Some(rate)), text);
        }
        assert_eq!(traffic(None), "");
    }
}
