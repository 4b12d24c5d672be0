//! What `mapperctl top` shows, drawn from a status.

use super::machine_map::{self, FREE, NOT_USABLE, SHARED};
use super::marks::{Mark, Palette, marks};
use crate::plain_text::harmless;
use crate::quantities::{counted, short_or_dash, span};
use crate::status_view::no_application;
use mapper_control::schema::{AppStatus, Status};
use mapper_model::AppId;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub(super) struct Screen<'s> {
    pub(super) status: Option<&'s Status>,
    pub(super) daemon: Daemon<'s>,
    pub(super) palette: Palette,
    pub(super) skipped: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Daemon<'s> {
    Answers,
    /// It does not, for this reason; what is shown is its last status.
    Away(&'s str),
}

const NARROW: u16 = 70;
const LEAST_TABLE: u16 = 2;

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>) {
    let area = frame.area();
    let Some(status) = screen.status else {
        let [body, foot] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        frame.render_widget(Paragraph::new("waiting for the daemon"), body);
        footer(frame, foot, screen);
        return;
    };
    let marks = marks(&status.apps);
    let map = machine_map::lines(status, &marks, screen.palette, area.width.into());
    // The table gets what it needs to be of use, the map what is left, up to all of it.
    let head_height = if area.width < NARROW { 4 } else { 2 };
    let fixed = head_height + 1 + 1;
    let room = area.height.saturating_sub(fixed + LEAST_TABLE);
    let map_height = u16::try_from(map.len()).unwrap_or(u16::MAX).min(room);
    let [head, picture, _gap, table, foot] = Layout::vertical([
        Constraint::Length(head_height),
        Constraint::Length(map_height),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    heading(frame, head, status);
    draw_map(frame, picture, map);
    draw_table(frame, table, screen, &status.apps, &marks);
    footer(frame, foot, screen);
}

fn heading(frame: &mut Frame<'_>, area: Rect, status: &Status) {
    let (daemon, machine) = (&status.daemon, &status.topology);
    let usable = machine.usable.len();
    let first = format!(
        "mapperd {}  up {}  {}  {} of {} CPUs in use",
        harmless(&daemon.version),
        span(daemon.uptime_ns),
        counted(status.apps.len() as u64, "application"),
        usable.saturating_sub(machine.free.len()),
        usable,
    );
    let interval = daemon
        .stretched
        .map_or(daemon.interval_ns, |s| s.interval_ns);
    let second = format!(
        "{} / {}  every {}  {} taken",
        harmless(&daemon.allocation),
        harmless(&daemon.mapping),
        span(interval),
        counted(daemon.decisions, "decision"),
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let text = Text::from(vec![Line::styled(first, bold), Line::raw(second)]);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

fn draw_map(frame: &mut Frame<'_>, area: Rect, mut lines: Vec<Line<'static>>) {
    let room = usize::from(area.height);
    if lines.len() > room && room > 0 {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(Line::raw(format!("… {hidden} more lines of CPUs")));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    screen: &Screen<'_>,
    apps: &[AppStatus],
    marks: &BTreeMap<AppId, Mark>,
) {
    if apps.is_empty() {
        let text = no_application();
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let titles = [
        "", "NAME", "CPUS", "ON", "FAIR", "QOS", "PERF", "FLOOR", "STATE",
    ];
    // What the machine's picture and `mapperctl status` show as well is left out where there is no room.
    let shown = titles
        .map(|title| area.width >= NARROW || !matches!(title, "ON" | "FAIR" | "QOS" | "FLOOR"));
    let number = |text: String| Cell::from(Text::from(text).right_aligned());
    let rows = apps.iter().skip(screen.skipped).map(|app| {
        let mark = marks.get(&app.id).copied();
        let letter = mark.map_or(Cell::from(""), |mark| {
            Cell::from(mark.letter.to_string()).style(mark.style(screen.palette))
        });
        let performance = match is_broken(app) {
            // Not by colour alone.
            true => number(format!("{}!", performance(app))).style(screen.palette.alarm()),
            false => number(performance(app)),
        };
        let cells = [
            letter,
            Cell::from(harmless(app.name.as_str())),
            number(app.cpu_count.to_string()),
            Cell::from(app.cpus.to_string()),
            number(app.fair_cpus.to_string()),
            number(app.qos.to_string()),
            performance,
            number(short_or_dash(app.floor)),
            Cell::from(harmless(&state(app))),
        ];
        Row::new(only(cells, shown))
    });
    let widths = [
        Constraint::Length(1),
        Constraint::Fill(3),
        Constraint::Length(4),
        Constraint::Fill(4),
        Constraint::Length(4),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Fill(3),
    ];
    let header = titles.map(|title| match title {
        "CPUS" | "FAIR" | "QOS" | "PERF" | "FLOOR" => number(title.to_owned()).style(bold),
        _ => Cell::from(title).style(bold),
    });
    let table = Table::new(rows, only(widths, shown))
        .header(Row::new(only(header, shown)))
        .column_spacing(1);
    frame.render_widget(table, area);
}

fn only<T, const N: usize>(all: [T; N], shown: [bool; N]) -> impl Iterator<Item = T> {
    let all = all.into_iter().zip(shown);
    all.filter_map(|(one, shown)| shown.then_some(one))
}

fn performance(app: &AppStatus) -> String {
    short_or_dash(app.performance.as_ref().map(|found| found.value))
}

fn is_broken(app: &AppStatus) -> bool {
    match (&app.performance, app.floor) {
        (Some(performance), Some(floor)) => performance.value < floor,
        _ => false,
    }
}

fn state(app: &AppStatus) -> String {
    match &app.adopted {
        Some(_) if app.state.is_empty() => "adopted".to_owned(),
        Some(_) => format!("{}, adopted", app.state),
        None => app.state.clone(),
    }
}

fn footer(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let line = match screen.daemon {
        Daemon::Answers => Line::raw(format!(
            // The keys first, as the end is cut on a narrow terminal.
            "q quit  ↑↓ scroll  {FREE} free  {NOT_USABLE} not managed  {SHARED} shared  \
             ! below the floor"
        )),
        Daemon::Away(why) => Line::styled(
            format!("not up to date, trying again: {}", harmless(why)),
            screen.palette.alarm().add_modifier(Modifier::REVERSED),
        ),
    };
    frame.render_widget(Paragraph::new(line), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use ratatui::style::Color;

    fn drawn(screen: &Screen<'_>, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, screen)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn text(buffer: &Buffer) -> String {
        let area = buffer.area;
        let mut text = String::new();
        for y in 0..area.height {
            let line: String = (0..area.width).map(|x| buffer[(x, y)].symbol()).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn screen(status: &Status) -> Screen<'_> {
        Screen {
            status: Some(status),
            daemon: Daemon::Answers,
            palette: Palette::LettersAlone,
            skipped: 0,
        }
    }

    #[test]
    fn eighty_columns_show_machine_and_applications() {
        let status = samples::status();
        insta::assert_snapshot!(text(&drawn(&screen(&status), 80, 24)));
    }

    #[test]
    fn forty_columns_show_names_performance_and_keys() {
        let status = samples::status();
        let output = text(&drawn(&screen(&status), 40, 24));
        for part in ["md", "PERF", "q quit  ↑↓ scroll"] {
            assert!(output.contains(part), "{part}: {output}");
        }
        insta::assert_snapshot!(output);
    }

    #[test]
    fn an_idle_machine_says_how_to_begin() {
        let status = samples::idle();
        insta::assert_snapshot!(text(&drawn(&screen(&status), 80, 12)));
    }

    #[test]
    fn when_the_daemon_is_away_the_last_picture_stays_and_is_marked() {
        let status = samples::status();
        let away = Screen {
            daemon: Daemon::Away("no daemon at /run/mapper/mapper.sock"),
            ..screen(&status)
        };
        let output = text(&drawn(&away, 80, 24));
        assert!(output.contains("socket 1 node 1"), "{output}");
        let last = output.lines().last().unwrap();
        let expected = "not up to date, trying again: no daemon at";
        assert!(last.starts_with(expected), "{last}");
        let nothing = Screen {
            status: None,
            ..away
        };
        let output = text(&drawn(&nothing, 80, 5));
        assert!(output.starts_with("waiting for the daemon") && output.contains("no daemon at"));
    }

    #[test]
    fn colours_distinguish_applications_and_only_where_they_are_wanted() {
        let status = samples::status();
        let background = |palette| {
            let screen = Screen {
                palette,
                ..screen(&status)
            };
            let buffer = drawn(&screen, 80, 24);
            let mut colours: Vec<Color> = buffer.content.iter().map(|cell| cell.bg).collect();
            colours.sort_by_key(ToString::to_string);
            colours.dedup();
            let foreground = buffer.content.iter().any(|cell| cell.fg != Color::Reset);
            (colours.len(), foreground)
        };
        assert_eq!(background(Palette::Colours), (4, true));
        assert_eq!(background(Palette::LettersAlone), (1, false));
    }

    #[test]
    fn a_machine_too_large_for_the_terminal_is_cut_and_the_table_is_not() {
        let mut status = samples::status();
        for socket in 2..64 {
            let mut part = status.topology.layout[0].clone();
            part.socket = socket;
            status.topology.layout.push(part);
        }
        let output = text(&drawn(&screen(&status), 60, 12));
        assert!(output.contains("more lines of CPUs"), "{output}");
        assert!(output.contains("NAME") && output.contains("md"), "{output}");
        // However small the terminal, something is drawn and nothing fails.
        for (width, height) in [(1, 1), (10, 3), (20, 5), (300, 100)] {
            drawn(&screen(&status), width, height);
        }
    }

    #[test]
    fn applications_scroll() {
        let status = samples::status();
        let scrolled = Screen {
            skipped: 1,
            ..screen(&status)
        };
        let output = text(&drawn(&scrolled, 80, 24));
        let names = |name: &str| {
            output
                .lines()
                .any(|line| line.contains(&format!(" {name} ")))
        };
        assert!(!names("md") && names("cg"), "{output}");
    }
}
