//! `mapperctl status`: how the machine and the promises stand in a sentence, then a line for each application.

use crate::details_view::{held_up, no_application};
use crate::plain_text::{Width, harmless, wrapped};
use crate::promise::Standing;
use crate::quantities::counted;
use crate::table::{Cell, Column, Table};
use crate::users;
use anstyle::{AnsiColor, Style};
use mapper_control::schema::{AppStatus, Partition, RuntimeState, Status};
use mapper_manual::wording;

/// Names in the sentence; where more are below their promise, it has their number.
const NAMED: usize = 3;

pub(crate) fn view(status: &Status, width: Width) -> String {
    let mut out = wrapped("", &sentence(status), width);
    if let Some(what) = held_up(&status.daemon) {
        out.push_str(&wrapped("held up  ", &what, width));
    }
    out.push('\n');
    match status.apps.as_slice() {
        [] => out.push_str(&wrapped("", &no_application(), width)),
        apps => out.push_str(&applications(apps, width)),
    }
    out
}

/// `2 programs on 2 CPUs, all in use; both keep their promise`, and where there is more to know.
pub(crate) fn sentence(status: &Status) -> String {
    let machine = &status.topology;
    let apps: Vec<&AppStatus> = status.apps.iter().collect();
    let mut text = in_use(&apps, machine.usable.len(), machine.free.len());
    if !apps.is_empty() {
        text = format!("{text}; {}", promises(&apps));
    }
    let daemon = &status.daemon;
    let hints = daemon.enforcer.not_better.len() + daemon.counters.not_better.len();
    if hints > 0 {
        let (ask, hints) = (wording::ask(), counted(hints as u64, "hint"));
        text.push_str(&format!(" ({ask} doctor: {hints})"));
    }
    text
}

/// Programs on CPUs of which so many may be used and so many are free.
pub(crate) fn in_use(apps: &[&AppStatus], usable: u32, free: u32) -> String {
    let cpus = counted(usable, "CPU");
    if apps.is_empty() {
        return format!("No program runs under mapper on {cpus}");
    }
    let programs = counted(apps.len() as u64, "program");
    let in_use = match usable.saturating_sub(free) {
        0 => "none in use".to_owned(),
        used if used == usable => "all in use".to_owned(),
        used => format!("{used} in use"),
    };
    format!("{programs} on {cpus}, {in_use}")
}

fn promises(apps: &[&AppStatus]) -> String {
    let standings = apps.iter().map(|app| (*app, Standing::of(app)));
    let (mut kept, mut below, mut unknown) = (0u64, Vec::new(), 0u64);
    for (app, standing) in standings {
        match standing {
            Standing::Kept(_) => kept += 1,
            Standing::Below(_) => below.push(harmless(app.name.as_str())),
            Standing::Unknown => unknown += 1,
        }
    }
    let broken = match below.as_slice() {
        [] => None,
        [one] => Some(format!("{one} is below its promise")),
        [first @ .., last] if below.len() <= NAMED => Some(format!(
            "{} and {last} are below their promise",
            first.join(", ")
        )),
        several => Some(format!("{} are below their promise", several.len())),
    };
    let kept = match (kept, apps.len()) {
        (0, _) => None,
        (1, 1) => Some("it keeps its promise".to_owned()),
        (2, 2) => Some("both keep their promise".to_owned()),
        (kept, all) if kept == all as u64 => Some("all keep their promise".to_owned()),
        (1, _) => Some("1 keeps its promise".to_owned()),
        (kept, _) => Some(format!("{kept} keep their promise")),
    };
    let unknown = match unknown {
        0 => None,
        unknown => Some(format!("{unknown} not measured yet")),
    };
    let parts: Vec<String> = [broken, kept, unknown].into_iter().flatten().collect();
    parts.join(", ")
}

/// What a user runs stands together, under the user's name where there are several.
fn applications(apps: &[AppStatus], width: Width) -> String {
    let mut apps: Vec<&AppStatus> = apps.iter().collect();
    apps.sort_by_key(|app| app.user());
    let columns = columns();
    if !users::are_several(apps.iter().copied()) {
        let mut table = Table::new(columns).without_at_need(&["STATE"]);
        for app in apps {
            table.row(cells(app), vec![]);
        }
        return table.render(width);
    }
    let [name, cpus, speed, state] = columns;
    let columns = [Column::text("USER", 8), name, cpus, speed, state];
    let mut table = Table::new(columns).without_at_need(&["STATE"]);
    let mut above = None;
    for app in apps {
        let user = match above.replace(app.user()) == Some(app.user()) {
            true => String::new(),
            false => users::name(app.user()),
        };
        let [name, cpus, speed, state] = cells(app);
        table.row([user.into(), name, cpus, speed, state], vec![]);
    }
    table.render(width)
}

pub(crate) const fn columns() -> [Column; 4] {
    [
        Column::text("NAME", 10),
        Column::text("CPUS", 8),
        Column::word("SPEED"),
        Column::text("STATE", 12),
    ]
}

pub(crate) fn cells(app: &AppStatus) -> [Cell; 4] {
    let name = Cell::styled(app.name.as_str(), Style::new().bold());
    [name, cpus(app).into(), speed(app), state(app).into()]
}

/// Which, and how many where there are several.
fn cpus(app: &AppStatus) -> String {
    match app.cpu_count {
        0 | 1 => app.cpus.to_string(),
        count => format!("{count}: {}", app.cpus),
    }
}

/// Red below the promise, else green.
fn speed(app: &AppStatus) -> Cell {
    let standing = Standing::of(app);
    let colour = match standing {
        Standing::Kept(_) => AnsiColor::Green,
        Standing::Below(_) => AnsiColor::Red,
        Standing::Unknown => return "not measured yet".into(),
    };
    let speed = standing.in_percent().unwrap_or_default();
    Cell::styled(
        format!("{speed} of promised"),
        Style::new().fg_color(Some(colour.into())),
    )
}

/// What the daemon does with an application, in plain words.
pub(crate) fn state(app: &AppStatus) -> String {
    let mut parts = vec![
        match app.state.as_str() {
            "" => "starting",
            "set by others" => "the operator set its CPUs",
            "limited" => "limited from outside",
            "exploring" => "trying other CPU counts",
            "profiling" => "measuring",
            "planned" => "steady",
            "serial" => "in a serial part",
            "fair share" => "at its fair share",
            "sharing" => "shares its CPUs",
            "lends" => "idle, lends its CPUs",
            state => state,
        }
        .to_owned(),
    ];
    parts.extend(app.borrowed.as_ref().map(|cpus| match cpus.len() {
        1 => format!("borrows CPU {cpus}"),
        _ => format!("borrows CPUs {cpus}"),
    }));
    parts.extend(app.idle_time.as_ref().map(|cpus| match cpus.len() {
        1 => format!("uses CPU {cpus} while it is idle"),
        _ => format!("uses CPUs {cpus} while they are idle"),
    }));
    parts.extend(app.adopted.is_some().then(|| "adopted".to_owned()));
    let partition = app.partition.as_ref();
    let is_refused = partition.is_some_and(|p| p.in_force != Partition::Isolated);
    parts.extend(is_refused.then(|| "not isolated".to_owned()));
    let mut notes = app.runtime.notes.iter();
    match notes.find(|note| note.starts_with("teams ")) {
        Some(why) => parts.push(why.clone()),
        None if app.runtime.state == RuntimeState::Unreachable => {
            parts.push("its OpenMP teams stay as they are".to_owned());
        }
        None => {}
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn programs_of_several_users_stand_under_their_users() {
        let mut status = samples::status();
        let plain = |status: &Status| {
            let text = applications(&status.apps, Width::new(80));
            anstream::adapter::strip_str(&text).to_string()
        };
        assert!(!plain(&status).contains("USER"));
        let last = status.apps.len() - 1;
        status.apps[0].uid = 4_000_000_002;
        status.apps[1].uid = 4_000_000_001;
        // As a subordinate uid of that user.
        status.apps[last].uid = 4_000_000_003;
        status.apps[last].account = Some(4_000_000_001);
        let lines = plain(&status);
        let starts: Vec<&str> = lines
            .lines()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert_eq!(starts[0], "USER");
        let users: Vec<&&str> = starts
            .iter()
            .filter(|start| start.starts_with('4'))
            .collect();
        assert_eq!(users, [&"4000000001", &"4000000002"], "{lines}");
    }

    #[test]
    fn the_sentence_says_how_many_keep_their_promise_and_who_does_not() {
        let sample = samples::status().apps.remove(0);
        let app = |name: &str, speed: Option<f64>| {
            let mut app = sample.clone();
            app.name = name.parse().unwrap();
            app.floor = speed.map(|speed| app.performance.as_ref().unwrap().value / speed);
            app
        };
        let (good, bad, new) = (Some(1.2), Some(0.5), None);
        for (apps, says) in [
            (vec![app("a", good)], "it keeps its promise"),
            (
                vec![app("a", good), app("b", good)],
                "both keep their promise",
            ),
            (
                vec![app("a", good), app("b", good), app("c", good)],
                "all keep their promise",
            ),
            (vec![app("a", bad)], "a is below its promise"),
            (
                vec![app("a", bad), app("b", good), app("c", new)],
                "a is below its promise, 1 keeps its promise, 1 not measured yet",
            ),
            (
                vec![app("a", bad), app("b", bad), app("c", bad)],
                "a, b and c are below their promise",
            ),
            (
                ["a", "b", "c", "d"].map(|name| app(name, bad)).into(),
                "4 are below their promise",
            ),
        ] {
            let apps: Vec<&AppStatus> = apps.iter().collect();
            assert_eq!(promises(&apps), says);
        }
    }
}
