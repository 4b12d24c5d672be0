//! `mapperctl advise`: what is known of programs, and which go well together.

use crate::plain_text::{Width, wrapped};
use crate::quantities::{counted, percent};
use crate::table::{Cell, Column, Table};
use anstyle::Style;
use mapper_control::schema::{AdviseReply, PairAdvice, ProgramAdvice};

pub(crate) fn view(reply: &AdviseReply, width: Width) -> String {
    if reply.programs.is_empty() {
        let why = format!(
            "Nothing is known of any program that you may see. The policy mapper-next knows how a program scales once it \
             has run on two different numbers of CPUs of its own; the policy here is {}.",
            reply.policy
        );
        return wrapped("", &why, width);
    }
    let cpus = counted(reply.cpus, "CPU");
    let heading = format!("Expected speeds, against those on the whole machine ({cpus}).");
    let mut out = wrapped("", &heading, width) + "\n" + &programs(reply, width);
    if !reply.pairs.is_empty() {
        let heading = format!(
            "Pairs that do more together than one after the other, with the best division of the {cpus}. WORK: 1.50 is half \
             as much again in the same time."
        );
        out += &("\n".to_owned() + &wrapped("", &heading, width) + "\n");
        out += &pairs(reply, width);
    }
    out
}

fn programs(reply: &AdviseReply, width: Width) -> String {
    let mut table = Table::new([
        Column::text("NAME", 10),
        Column::number("CPUS"),
        Column::number("SPEED"),
        Column::number("ONE MORE"),
        Column::number("ON ONE"),
        Column::number("ON HALF"),
    ])
    .without_at_need(&["ON ONE", "ON HALF"]);
    for program in &reply.programs {
        let none = || "-".to_owned();
        let on = |cpus: u32| speed(program, cpus).map_or_else(none, percent);
        let now = program.cpu_count;
        table.row(
            [
                Cell::styled(program.name.as_str(), Style::new().bold()),
                now.map_or_else(none, |cpus| cpus.to_string()).into(),
                now.map_or_else(none, on).into(),
                program
                    .one_more
                    .map_or_else(none, |gain| {
                        format!("{:+} %", (gain * 100.0).round() as i64)
                    })
                    .into(),
                on(1).into(),
                on(reply.cpus / 2).into(),
            ],
            vec![],
        );
    }
    table.render(width)
}

fn speed(program: &ProgramAdvice, cpus: u32) -> Option<f64> {
    let place = usize::try_from(cpus).ok()?.checked_sub(1)?;
    program.speeds.get(place).copied()
}

fn pairs(reply: &AdviseReply, width: Width) -> String {
    let mut table = Table::new([
        Column::text("PROGRAMS", 12),
        Column::number("CPUS"),
        Column::number("SPEEDS"),
        Column::number("WORK"),
    ])
    .without_at_need(&["SPEEDS"]);
    for PairAdvice {
        names: [one, other],
        cpus,
        speeds,
        work,
    } in &reply.pairs
    {
        table.row(
            [
                format!("{one} + {other}").into(),
                format!("{} + {}", cpus[0], cpus[1]).into(),
                format!("{} + {}", percent(speeds[0]), percent(speeds[1])).into(),
                format!("{work:.2}").into(),
            ],
            vec![],
        );
    }
    table.render(width)
}
