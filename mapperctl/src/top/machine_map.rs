//! The machine as a picture: a line or more for each socket, a cell for each hardware thread.
//!
//! The hardware threads of a core stand together, cores are a space apart:
//!
//! ```text
//! socket 0 node 0  AA AA AB BB ·· xx
//! ```

use super::marks::{Marks, Palette};
use mapper_control::schema::Status;
use mapper_model::{AppId, CpuId};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use std::collections::BTreeMap;

pub(super) const FREE: char = '·';
pub(super) const NOT_USABLE: char = 'x';
/// One that several applications hold: their CPUs were set by others.
pub(super) const SHARED: char = '+';

pub(super) fn lines(
    status: &Status,
    marks: &Marks,
    palette: Palette,
    width: usize,
) -> Vec<Line<'static>> {
    let holders = holders(status);
    let mut lines = Vec::new();
    for part in &status.topology.layout {
        let label = format!("socket {} node {}  ", part.socket, part.node);
        let indent = label.chars().count();
        let mut spans = vec![Span::styled(label, dim(palette))];
        let mut used = indent;
        for core in &part.cores {
            let cells = core.len() as usize;
            if used > indent && used + cells > width {
                lines.push(Line::from(std::mem::take(&mut spans)));
                spans.push(Span::raw(" ".repeat(indent)));
                used = indent;
            }
            for cpu in core {
                spans.push(cell(status, &holders, marks, palette, cpu));
            }
            spans.push(Span::raw(" "));
            used += cells + 1;
        }
        lines.push(Line::from(spans));
    }
    lines
}

fn dim(palette: Palette) -> Style {
    match palette {
        Palette::Colours => Style::new().add_modifier(Modifier::DIM),
        Palette::LettersAlone => Style::new(),
    }
}

enum Holder {
    One(AppId),
    Several,
}

fn holders(status: &Status) -> BTreeMap<CpuId, Holder> {
    let mut holders = BTreeMap::new();
    for app in &status.apps {
        for cpu in &app.cpus {
            let holder = match holders.remove(&cpu) {
                None => Holder::One(app.id),
                Some(_) => Holder::Several,
            };
            holders.insert(cpu, holder);
        }
    }
    for app in &status.apps {
        // Of a CPU that is lent, the map shows who uses it.
        for cpu in app.borrowed.as_ref().into_iter().flatten() {
            holders.insert(cpu, Holder::One(app.id));
        }
    }
    holders
}

fn cell(
    status: &Status,
    holders: &BTreeMap<CpuId, Holder>,
    marks: &Marks,
    palette: Palette,
    cpu: CpuId,
) -> Span<'static> {
    let plain = |mark: char| Span::styled(mark.to_string(), dim(palette));
    match holders.get(&cpu) {
        Some(Holder::One(app)) => match marks.get(*app) {
            Some(mark) => Span::styled(mark.letter.to_string(), mark.style(palette)),
            None => plain(SHARED),
        },
        Some(Holder::Several) => Span::styled(SHARED.to_string(), palette.alarm()),
        None if status.topology.usable.contains(cpu) => plain(FREE),
        None => plain(NOT_USABLE),
    }
}
