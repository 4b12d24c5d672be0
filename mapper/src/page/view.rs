//! A picture as the content of a page.

use super::charts;
use super::marks::{Mark, Marks};
use super::picture::{Decision, Ended, Picture, Program, Source};
use super::timeline::{Holder, Point, median};
use mapper_control::schema::{SocketLayout, TopologyStatus};
use mapper_model::{CpuId, CpuSet};
use mapperctl::{counted, span};
use maud::{Markup, html};

/// Ended programs that are shown.
const MOST_ENDED: usize = 20;

/// The whole content. Parts with an id are replaced by themselves when the page is brought up to date.
pub(super) fn content(picture: &Picture, marks: &Marks) -> Markup {
    html! {
        header #part-head { (head(picture)) }
        @if let Some(machine) = &picture.machine {
            section #part-machine aria-label="Machine" { (map(picture, machine, marks)) }
        }
        section #part-programs aria-label="Programs" { (programs(picture, marks)) }
        @if let Some(machine) = &picture.machine {
            section #part-time aria-label="CPUs over time" { (over_time(picture, machine, marks)) }
        }
        section #part-ended aria-label="Ended programs" { (ended(picture, marks)) }
    }
}

/// The picture in one sentence.
pub(super) fn sentence(picture: &Picture) -> String {
    if matches!(picture.source, Source::NoDaemon(_)) {
        return "No daemon answers".to_owned();
    }
    let running = picture.programs.len() + picture.more_programs;
    let Some(machine) = picture.machine.as_ref().filter(|_| running > 0) else {
        return "No program runs".to_owned();
    };
    let programs = counted(running as u64, "program");
    let cpus = counted(machine.usable.len(), "CPU");
    let is_recording = matches!(picture.source, Source::Recording(_));
    let free = match (is_recording, machine.free.len()) {
        (true, _) => String::new(),
        (false, 0) => ", all in use".to_owned(),
        (false, free) => format!(", {free} free"),
    };
    format!("{programs} on {cpus}{free}; {}", promises(picture))
}

/// Whether promises are kept, or were in the whole recording.
fn promises(picture: &Picture) -> String {
    let is_recording = matches!(picture.source, Source::Recording(_));
    let judged = picture.programs.iter().map(|program| {
        let speed = speed(picture, program);
        (program, speed.map(is_below))
    });
    let judged: Vec<_> = judged.collect();
    let below = judged.iter().filter(|(_, below)| *below == Some(true));
    let below: Vec<_> = below.map(|(program, _)| program.name.as_str()).collect();
    let known = judged.iter().filter(|(_, below)| below.is_some()).count();
    match (below.as_slice(), known) {
        ([], 0) if is_recording => "no speed was measured".to_owned(),
        ([], 0) => "no speed is known yet".to_owned(),
        ([], _) if is_recording => "no promise was broken in the median".to_owned(),
        ([], _) => "no promise is broken".to_owned(),
        ([one], _) if is_recording => format!("{one} was below its promise in the median"),
        ([one], _) => format!("{one} is below its promise"),
        (several, _) => format!("{} are below their promises", several.join(" and ")),
    }
}

/// Over what is promised: now, or the median of a recording.
fn speed(picture: &Picture, program: &Program) -> Option<f64> {
    match picture.source {
        Source::Recording(_) => {
            let points = picture.timeline.points(program.id).into_iter();
            median(&points.filter_map(|point| point.speed).collect::<Vec<_>>())
        }
        _ => picture.timeline.speed(program.id),
    }
}

/// Not for what is shown as 100 %.
fn is_below(speed: f64) -> bool {
    speed < 0.995
}

fn percent(speed: f64) -> String {
    format!("{:.0} %", speed * 100.0)
}

fn head(picture: &Picture) -> Markup {
    let (kind, about) = match &picture.source {
        Source::Daemon(about) => ("live", about.clone()),
        Source::NoDaemon(_) => ("waiting for a daemon", String::new()),
        Source::Recording(name) => {
            let length = span(picture.timeline.span_ns());
            ("recording", format!("{name}, {length}"))
        }
    };
    html! {
        p.eyebrow { "mapper · " (kind) }
        h1 role="status" { (sentence(picture)) }
        @if !about.is_empty() { p.soft { (about) } }
        @if let Source::NoDaemon(why) = &picture.source {
            @if !why.is_empty() { p.soft { (why) } }
            (how_to_start())
        }
    }
}

fn how_to_start() -> Markup {
    html! {
        p { "Start a program, and a daemon where none runs; this page shows it within a second:" }
        pre { code { "mapper run -- ./program" } }
    }
}

fn map(picture: &Picture, machine: &TopologyStatus, marks: &Marks) -> Markup {
    html! {
        h2 { "Machine" @if matches!(picture.source, Source::Recording(_)) { " at the last decision with programs" } }
        div.sockets { @for part in &machine.layout { (socket(picture, machine, part, marks)) } }
        ul.legend {
            @for id in picture.timeline.programs() {
                @if let Some(program) = picture.programs.iter().find(|program| program.id == id) {
                    li { (badge(marks.of(id))) " " (program.name) }
                }
            }
            li { (badge(marks.of_holder(Holder::None))) " free" }
            @if machine.usable.len() < machine.cpus { li { (badge(RESERVED)) " not for programs" } }
        }
    }
}

const RESERVED: Mark = Mark {
    letter: '×',
    class: "reserved",
};

fn badge(mark: Mark) -> Markup {
    html! { span.badge.(mark.class) aria-hidden="true" { (mark.letter) } }
}

fn socket(
    picture: &Picture,
    machine: &TopologyStatus,
    part: &SocketLayout,
    marks: &Marks,
) -> Markup {
    html! {
        div.socket {
            p.soft { "socket " (part.socket) ", node " (part.node) }
            div.cores {
                @for core in &part.cores {
                    span.core { @for cpu in core { (thread(picture, machine, cpu, marks)) } }
                }
            }
        }
    }
}

fn thread(picture: &Picture, machine: &TopologyStatus, cpu: CpuId, marks: &Marks) -> Markup {
    let programs = || picture.programs.iter();
    let holder = Holder::of(cpu, programs().map(Program::held));
    let (mark, who) = match holder {
        Holder::None if !machine.usable.contains(cpu) => (RESERVED, "not for programs".to_owned()),
        Holder::None => (marks.of_holder(holder), "free".to_owned()),
        _ => {
            let names = programs().filter(|program| program.cpus.contains(cpu));
            let names: Vec<_> = names.map(|program| program.name.as_str()).collect();
            (marks.of_holder(holder), names.join(" and "))
        }
    };
    html! {
        span.cpu.(mark.class) title={ "CPU " (cpu) ": " (who) } { (mark.letter) small { (cpu) } }
    }
}

fn programs(picture: &Picture, marks: &Marks) -> Markup {
    if picture.programs.is_empty() {
        return match picture.source {
            Source::Daemon(_) => html! { h2 { "Programs" } (how_to_start()) },
            _ => html! {},
        };
    }
    html! {
        h2 { "Programs" }
        p.soft { "Dashed lines are the fair share of CPUs, and the promised speed." }
        div.programs {
            @for program in &picture.programs { (card(picture, program, marks.of(program.id))) }
        }
        @if picture.more_programs > 0 {
            p.soft { "and " (counted(picture.more_programs as u64, "program")) " more" }
        }
    }
}

fn card(picture: &Picture, program: &Program, mark: Mark) -> Markup {
    let points = picture.timeline.points(program.id);
    let speed = speed(picture, program);
    let heading = format!("name-{}", program.id);
    html! {
        article.program.(mark.class) id={ "program-" (program.id) } tabindex="0" aria-labelledby=(heading) {
            h3 id=(heading) { (badge(mark)) " " (program.name) }
            p.state { @if !program.cpus.is_empty() { (on_cpus(&program.cpus)) ", " } (program.state) }
            div.row {
                span { "CPUs" br; b { (count(picture, program, &points)) } }
                (charts::cpus(&points, program.fair_cpus, mark))
            }
            div.row {
                span { "speed" br; (speed_in_words(speed)) }
                (charts::speed(&points, mark))
            }
            p { (program.sentence) }
            (decisions(program))
            p.soft.facts {
                "Promised: " (percent(program.qos.get())) " of its speed on its fair share, "
                (counted(program.fair_cpus, "CPU")) "."
                @if let Some(by) = &program.measured_by { " Measured by " (by) "." }
                @if !program.command.is_empty() { " " code { (program.command) } }
            }
        }
    }
}

/// How many CPUs it has, or how many it had in a recording: `1 to 2`.
fn count(picture: &Picture, program: &Program, points: &[Point]) -> String {
    let counts = points.iter().filter_map(|point| point.cpus);
    match (&picture.source, counts.clone().min(), counts.max()) {
        (Source::Recording(_), Some(fewest), Some(most)) if fewest < most => {
            format!("{fewest} to {most}")
        }
        (Source::Recording(_), _, Some(most)) => most.to_string(),
        _ => program.cpus.len().to_string(),
    }
}

fn on_cpus(cpus: &CpuSet) -> String {
    match cpus.len() {
        1 => format!("CPU {cpus}"),
        _ => format!("CPUs {cpus}"),
    }
}

fn speed_in_words(speed: Option<f64>) -> Markup {
    match speed {
        None => html! { "not known yet" },
        Some(speed) if is_below(speed) => {
            html! { b.bad { (percent(speed)) } " of promised: below" }
        }
        Some(speed) => html! { b.good { (percent(speed)) } " of promised" },
    }
}

fn decisions(program: &Program) -> Markup {
    if program.decisions.is_empty() {
        return html! {};
    }
    html! {
        details id={ "decisions-" (program.id) } {
            summary { "Decisions" }
            dl {
                @for Decision { when, cpus, sentence } in &program.decisions {
                    dt { (when) }
                    dd { (sentence) " " span.soft { (on_cpus(cpus)) } }
                }
            }
        }
    }
}

fn over_time(picture: &Picture, machine: &TopologyStatus, marks: &Marks) -> Markup {
    let span_ns = picture.timeline.span_ns();
    if span_ns == 0 || picture.timeline.programs().is_empty() {
        return html! {};
    }
    let length = span(span_ns);
    let (from, to) = match picture.source {
        Source::Recording(_) => ("0 s".to_owned(), length),
        _ => (format!("{length} ago"), "now".to_owned()),
    };
    html! {
        h2 { "CPUs over time" }
        p.soft { "One row for each hardware thread, in the order of the map. The charts above show the same time." }
        (charts::holders(machine, &picture.timeline, marks))
        p.axis.soft { span { (from) } span { (to) } }
    }
}

fn ended(picture: &Picture, marks: &Marks) -> Markup {
    if picture.ended.is_empty() {
        return html! {};
    }
    // A recording knows neither.
    let has_more = !matches!(picture.source, Source::Recording(_));
    html! {
        h2 { "Ended programs" }
        div.scroll tabindex="0" role="region" aria-label="Ended programs" {
            table {
                thead {
                    tr {
                        th { "program" } th { "ended" } th { "ran" } th { "speed" }
                        @if has_more { th { "exit" } th { "command" } }
                    }
                }
                tbody {
                    @for app in picture.ended.iter().take(MOST_ENDED) {
                        tr {
                            (ended_cells(app, marks))
                            @if has_more {
                                td { @if let Some(status) = app.exit_status { (status) } @else { "–" } }
                                td { code { (app.command) } }
                            }
                        }
                    }
                }
            }
        }
        @if let Some(more @ 1..) = picture.ended.len().checked_sub(MOST_ENDED) {
            p.soft { "and " (counted(more as u64, "program")) " more" }
        }
    }
}

fn ended_cells(app: &Ended, marks: &Marks) -> Markup {
    html! {
        td { @if let Some(mark) = marks.known(app.id) { (badge(mark)) " " } (app.name) }
        td { (app.when) }
        td { (app.ran) }
        td { @if app.speed.is_some() { (speed_in_words(app.speed)) } @else { "not judged" } }
    }
}
