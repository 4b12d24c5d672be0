//! `mapperctl explain`: why one application has the CPUs it has.

use crate::details_view::{pace, teams_and_runtime};
use crate::plain_text::{Width, harmless, wrapped};
use crate::quantities::{counted, short, span};

use crate::table::{Cell, Column, Table};
use anstyle::Style;
use mapper_control::schema::ExplainReply;

const BAR: f64 = 30.0;

pub(crate) fn view(reply: &ExplainReply, width: Width) -> String {
    let mut out = heading(reply, width);
    if !reply.curve.is_empty() {
        out.push('\n');
        out.push_str(&curve(reply, width));
    }
    out.push('\n');
    out.push_str(&decisions(reply, width));
    out
}

fn heading(reply: &ExplainReply, width: Width) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: String| {
        out.push_str(&wrapped(&format!("{label:<13}"), &text, width));
    };
    line("application", format!("{} (id {})", reply.name, reply.id));
    let (count, cpus, fair) = (reply.cpu_count, &reply.cpus, &reply.fair_cpus);
    line("CPUs", format!("{count} ({cpus}), fair share {fair}"));
    let performance = match &reply.performance {
        Some(found) => format!("{} {} by {}", short(found.value), found.unit, found.source),
        None => "not measured in the last interval".to_owned(),
    };
    line("performance", performance);
    let spare = counted(reply.spare_cpus, "CPU");
    let promise = match (reply.floor.map(short), reply.slack) {
        (None, _) => "no floor known: the policy promises none, or still measures".to_owned(),
        (Some(floor), None) => format!("floor {floor}"),
        (Some(floor), Some(slack)) if slack < 0.0 => {
            format!("floor {floor}, broken by {}", short(-slack))
        }
        (Some(floor), Some(slack)) => {
            format!(
                "floor {floor}, kept by {}; could spare {spare}",
                short(slack)
            )
        }
    };
    line("promise", promise);
    if let Some(phase) = reply.phase {
        let (number, count, region) = (phase.number, phase.count, phase.region);
        line("phase", format!("{number} of {count}: region {region:#x}"));
    }
    if let Some(spun) = reply.spun.filter(|spun| *spun > 0.0) {
        let percent = spun * 100.0;
        line(
            "waiting",
            format!("{percent:.0} % of its CPU time spun at barriers"),
        );
    }
    let teams = teams_and_runtime(reply.teams, &reply.teams_by, &reply.runtime);
    line("teams", harmless(&teams));
    if let Some(stretched) = &reply.stretched {
        line("decided", pace(stretched));
    }
    if let Some(partition) = &reply.partition {
        line("partition", harmless(&partition.to_string()));
    }
    if let Some(efficiency) = reply.norm_eff {
        line("efficiency", format!("{} (normalized)", short(efficiency)));
    }
    out
}

fn curve(reply: &ExplainReply, width: Width) -> String {
    let mut table = Table::new([
        Column::number("CPUS"),
        Column::number("PERFORMANCE"),
        Column::number("DEVIATION"),
        Column::number("SAMPLES"),
        Column::text("", 4),
    ]);
    let performances = reply.curve.iter().map(|entry| entry.performance);
    let best = performances.fold(0.0, f64::max);
    for entry in &reply.curve {
        // A number divided by 0 is none, which becomes 0 below.
        let share = entry.performance / best;
        let length = (share * BAR).round().clamp(0.0, BAR) as usize;
        let mark = match entry.cpus == reply.cpu_count {
            true => " now",
            false => "",
        };
        table.row(
            [
                entry.cpus.to_string().into(),
                short(entry.performance).into(),
                short(entry.deviation).into(),
                format!("{:.1}", entry.samples).into(),
                format!("{}{mark}", "▪".repeat(length)).into(),
            ],
            vec![],
        );
    }
    table.render(width)
}

fn decisions(reply: &ExplainReply, width: Width) -> String {
    if reply.decisions.is_empty() {
        return "No decision has been taken about it yet.\n".to_owned();
    }
    let mut table = Table::new([
        Column::number("DECISION"),
        Column::number("AGO"),
        Column::number("CPUS"),
        Column::text("ON", 8),
    ]);
    for decision in &reply.decisions {
        let (before, after) = (decision.before, decision.after);
        let (counts, style) = match before == after {
            true => (after.to_string(), Style::new()),
            false => (format!("{before} → {after}"), Style::new().bold()),
        };
        table.row(
            [
                decision.tick.to_string().into(),
                span(decision.age_ns).into(),
                Cell::styled(counts, style),
                decision.cpus.to_string().into(),
            ],
            vec![decision.sentence.clone()],
        );
    }
    table.render(width)
}
