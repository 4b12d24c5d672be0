//! `mapperctl status --hosts`: all machines in a sentence, a line for each, then a line for each program.

use crate::hosts::{Answer, Host};
use crate::plain_text::{Width, harmless, wrapped};
use crate::promise::Standing;
use crate::quantities::counted;
use crate::status_view::{cells, columns, in_use, sentence};
use crate::table::{Column, Table};
use mapper_control::schema::{AppStatus, Status};

pub(crate) fn view(hosts: &[Host], width: Width) -> String {
    let answers = || hosts.iter().filter_map(|host| Some((host, status(host)?)));
    let apps: Vec<&AppStatus> = answers().flat_map(|(_, status)| &status.apps).collect();
    let (mut usable, mut free) = (0, 0);
    for (_, status) in answers() {
        usable += status.topology.usable.len();
        free += status.topology.free.len();
    }
    let mut out = match answers().count() {
        0 => String::new(),
        answered => {
            let machines = counted(hosts.len() as u64, "machine");
            let machines = match answered == hosts.len() {
                true => machines,
                false => format!("{answered} of {machines}"),
            };
            let in_use = in_use(&apps, usable, free);
            wrapped("", &format!("{machines}: {in_use}{}", below(&apps)), width)
        }
    };
    if !out.is_empty() {
        out.push('\n');
    }
    let longest = hosts.iter().map(|host| host.name.len()).max().unwrap_or(0);
    for host in hosts {
        let text = match &host.answer {
            Answer::Status(status) => sentence(status),
            Answer::Error(why) => format!("no answer: {}", harmless(why)),
        };
        out.push_str(&wrapped(&format!("{:longest$}  ", host.name), &text, width));
    }
    if apps.is_empty() {
        return out;
    }
    let [name, cpus, speed, state] = columns();
    let columns = [Column::text("HOST", 8), name, cpus, speed, state];
    let mut table = Table::new(columns).without_at_need(&["STATE"]);
    for (host, status) in answers() {
        for (place, app) in status.apps.iter().enumerate() {
            let host = if place == 0 { host.name.as_str() } else { "" };
            let [name, cpus, speed, state] = cells(app);
            table.row([host.into(), name, cpus, speed, state], vec![]);
        }
    }
    out + "\n" + &table.render(width)
}

fn status(host: &Host) -> Option<&Status> {
    match &host.answer {
        Answer::Status(status) => Some(status),
        Answer::Error(_) => None,
    }
}

/// How many are below their promise; the lines of the machines name them.
fn below(apps: &[&AppStatus]) -> String {
    let is_below = |app: &&&AppStatus| matches!(Standing::of(app), Standing::Below(_));
    match apps.iter().filter(is_below).count() {
        _ if apps.is_empty() => String::new(),
        0 => "; none is below its promise".to_owned(),
        1 => "; 1 is below its promise".to_owned(),
        several => format!("; {several} are below their promise"),
    }
}
