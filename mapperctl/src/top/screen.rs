//! What `mapperctl top` shows.

use super::choice::{Choice, Page};
use super::machine_map::{self, FREE, NOT_USABLE, SHARED};
use super::marks::{Marks, Palette};
use super::source::{Explained, Source};
use super::speeds::{KEPT, Speeds, bar};
use crate::details_view::no_application;
use crate::plain_text::{Width, harmless};
use crate::promise::Standing;
use crate::quantities::{counted, short_or_dash, span};
use crate::status_view::state;
use crate::{explain_view, history_view, users};
use mapper_control::schema::{AppStatus, Status};
use mapper_model::CpuSet;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

#[derive(Clone, Copy)]
pub(super) struct Screen<'s> {
    pub(super) source: &'s Source,
    pub(super) choice: &'s Choice,
    pub(super) marks: &'s Marks,
    pub(super) speeds: &'s Speeds,
    pub(super) palette: Palette,
}

const NARROW: u16 = 70;
/// From here on reasons have a column of their own. That of the selected application is below the table.
const WIDE: u16 = 150;
const LEAST_TABLE: u16 = 2;

const HELP: &str = "\
Keys
  ↑ ↓      select a program; in a text, scroll
  Enter    explain the selected program
  s        sort: by arrival, name, CPUs, speed
  h        programs that have ended
  ?        this help
  q        back, or quit; Ctrl-Z suspends

Machine  a letter for each hardware thread, cores a space apart
  A B C    the program that has it
  @FREE@        free
  @NOT_USABLE@        not managed by mapper
  @SHARED@        several programs have it

Programs
  SPEED    against what is promised: 100 % and more keep it, ! is below
  TREND    the last speeds: ▄ is the promise, lower is below it, · not measured
  PERF     the speed as measured; FLOOR, what of it is promised

`man 7 mapper` explains the words.
";

/// Draws the page. Returns how far its text is scrolled, which is never beyond its end.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>) -> usize {
    let [body, foot] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    footer(frame, foot, screen);
    let width = Width::new(body.width.into());
    let text = match (screen.choice.page, screen.source) {
        (Page::Machine, Source { status, .. }) => match status {
            Some(status) => {
                machine(frame, body, screen, status);
                return 0;
            }
            None => "waiting for the daemon".to_owned(),
        },
        (Page::Help, _) => HELP
            .replace("@FREE@", &FREE.to_string())
            .replace("@NOT_USABLE@", &NOT_USABLE.to_string())
            .replace("@SHARED@", &SHARED.to_string()),
        (Page::History, Source { history, .. }) => match history {
            Some(history) => history_view::view(history, width),
            None => "waiting for the daemon".to_owned(),
        },
        (Page::Explanation(app), Source { explained, .. }) => match explained {
            Some(Explained::Running(reply)) if reply.id == app => explain_view::view(reply, width),
            Some(Explained::Ended(ended)) if ended.app == app => {
                history_view::explained(ended, width)
            }
            _ => "nothing to be seen: it is another user's, or nothing is known of it".to_owned(),
        },
    };
    scrolling(frame, body, &text, screen.choice.scrolled)
}

fn scrolling(frame: &mut Frame<'_>, area: Rect, text: &str, wanted: usize) -> usize {
    let plain = anstream::adapter::strip_str(text).to_string();
    let lines: Vec<Line<'_>> = plain.lines().map(Line::raw).collect();
    let most = lines.len().saturating_sub(area.height.into());
    let scrolled = wanted.min(most);
    let shown: Vec<Line<'_>> = lines.into_iter().skip(scrolled).collect();
    frame.render_widget(Paragraph::new(shown), area);
    scrolled
}

fn machine(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>, status: &Status) {
    let map = machine_map::lines(status, screen.marks, screen.palette, area.width.into());
    // The table gets what it needs to be of use, the map what is left, up to all of it.
    let head_height = if area.width < NARROW { 4 } else { 2 };
    let fixed = head_height + 1;
    let room = area.height.saturating_sub(fixed + LEAST_TABLE);
    let map_height = u16::try_from(map.len()).unwrap_or(u16::MAX).min(room);
    let apps = screen.choice.order.sorted(&status.apps);
    let place = screen.choice.place(&apps);
    let reason = place.map(|place| reason(apps[place])).unwrap_or_default();
    let left = room.saturating_sub(map_height);
    let users = match users::are_several(apps.iter().copied()) {
        true => by_user(&apps).count(),
        false => 0,
    };
    let rows = u16::try_from(apps.len() + users).unwrap_or(u16::MAX);
    let reason_height = match reason.is_empty() {
        true => 0,
        false => left.saturating_sub(rows).min(3),
    };
    let [head, picture, _gap, table, below] = Layout::vertical([
        Constraint::Length(head_height),
        Constraint::Length(map_height),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(reason_height),
    ])
    .areas(area);
    heading(frame, head, status);
    draw_map(frame, picture, map);
    if apps.is_empty() {
        let text = Paragraph::new(no_application()).wrap(Wrap { trim: true });
        frame.render_widget(text, table);
        return;
    }
    draw_table(frame, table, screen, &apps, place);
    frame.render_widget(Paragraph::new(reason).wrap(Wrap { trim: true }), below);
}

fn by_user<'a>(sorted: &'a [&'a AppStatus]) -> impl Iterator<Item = &'a [&'a AppStatus]> {
    sorted.chunk_by(|a, b| a.user() == b.user())
}

fn reason(app: &AppStatus) -> String {
    match app.sentence.is_empty() {
        true => String::new(),
        false => harmless(&format!("{}: {}", app.name, app.sentence)),
    }
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
    apps: &[&AppStatus],
    place: Option<usize>,
) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let trend = match area.width {
        110.. => KEPT,
        _ => KEPT / 2,
    };
    let titles = [
        "", "NAME", "CPUS", "ON", "SPEED", "TREND", "PERF", "FLOOR", "STATE", "REASON",
    ];
    // What the machine's picture and `mapperctl status` show as well is left out where there is no room.
    let shown = titles.map(|title| match title {
        "REASON" => area.width >= WIDE,
        "PERF" | "FLOOR" => area.width >= 110,
        "ON" | "TREND" => area.width >= NARROW,
        _ => true,
    });
    let number = |text: String| Cell::from(Text::from(text).right_aligned());
    let row = |app: &AppStatus| {
        let letter = screen.marks.get(app.id).map_or(Cell::from(""), |mark| {
            Cell::from(mark.letter.to_string()).style(mark.style(screen.palette))
        });
        let standing = Standing::of(app);
        let speed = standing.in_percent().unwrap_or_else(|| "-".to_owned());
        let speed = match standing {
            // Not by colour alone.
            Standing::Below(_) => number(format!("{speed}!")).style(screen.palette.alarm()),
            _ => number(speed),
        };
        let bars = screen.speeds.last(app.id, trend).map(|standing| {
            let style = match standing {
                Standing::Below(_) => screen.palette.alarm(),
                _ => Style::new(),
            };
            Span::styled(bar(standing).to_string(), style)
        });
        let performance = app.performance.as_ref().map(|found| found.value);
        let cells = [
            letter,
            Cell::from(harmless(app.name.as_str())),
            number(app.cpu_count.to_string()),
            Cell::from(app.cpus.to_string()),
            speed,
            Cell::from(Line::from_iter(bars)),
            number(short_or_dash(performance)),
            number(short_or_dash(app.floor)),
            Cell::from(harmless(&state(app))),
            Cell::from(harmless(&app.sentence)),
        ];
        Row::new(only(cells, shown))
    };
    let heading = |apps: &[&AppStatus]| {
        // Programs may share CPUs.
        let all = |cpus: CpuSet, app: &&AppStatus| cpus.union(&app.cpus);
        let cpus = apps.iter().fold(CpuSet::new(), all).len();
        let user = apps.first().map(|app| harmless(&users::name(app.user())));
        let cells = titles.map(|title| match title {
            "NAME" => Cell::from(user.clone().unwrap_or_default()),
            "CPUS" => number(cpus.to_string()),
            "STATE" => Cell::from(counted(apps.len() as u64, "application")),
            _ => Cell::from(""),
        });
        Row::new(only(cells, shown)).style(Modifier::UNDERLINED)
    };
    let several = users::are_several(apps.iter().copied());
    let (mut rows, mut selected) = (Vec::new(), place);
    for of_user in by_user(apps) {
        if several {
            selected = selected.map(|at| at + usize::from(at >= rows.len()));
            rows.push(heading(of_user));
        }
        rows.extend(of_user.iter().map(|app| row(app)));
    }
    let widths = [
        Constraint::Length(1),
        Constraint::Fill(3),
        Constraint::Length(4),
        Constraint::Fill(3),
        Constraint::Length(7),
        Constraint::Length(u16::try_from(trend).unwrap_or(u16::MAX)),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Fill(3),
        Constraint::Fill(12),
    ];
    let header = titles.map(|title| match title {
        "CPUS" | "SPEED" | "PERF" | "FLOOR" => number(title.to_owned()).style(bold),
        _ => Cell::from(title).style(bold),
    });
    let table = Table::new(rows, only(widths, shown))
        .header(Row::new(only(header, shown)))
        .column_spacing(1)
        .highlight_symbol("▸")
        .row_highlight_style(bold);
    let mut state = TableState::new().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut state);
}

fn only<T, const N: usize>(all: [T; N], shown: [bool; N]) -> impl Iterator<Item = T> {
    let all = all.into_iter().zip(shown);
    all.filter_map(|(one, shown)| shown.then_some(one))
}

fn footer(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let keys = match screen.choice.page {
        // The most needed first, as the end is cut on a narrow terminal.
        Page::Machine => format!(
            "? help  Enter explain  h ended  q quit  s sort (by {})",
            screen.choice.order.words()
        ),
        _ => "q back  ↑↓ scroll".to_owned(),
    };
    let line = match &screen.source.trouble {
        None => Line::raw(keys),
        Some(why) => Line::styled(
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
    use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
    use ratatui::style::Color;

    struct Stage {
        source: Source,
        choice: Choice,
        palette: Palette,
    }

    impl Stage {
        fn of(status: Option<Status>) -> Self {
            Self {
                source: Source {
                    status,
                    ..Source::default()
                },
                choice: Choice::default(),
                palette: Palette::LettersAlone,
            }
        }

        fn busy() -> Self {
            Self::of(Some(samples::status()))
        }

        fn press(mut self, code: KeyCode) -> Self {
            let key = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
            let wish = self.choice.press(&key, self.source.apps());
            assert_eq!(wish, None);
            self
        }

        fn drawn(&self, width: u16, height: u16) -> Buffer {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            let (mut marks, mut speeds) = (Marks::default(), Speeds::default());
            marks.update(self.source.apps());
            let mut before = self.source.apps().to_vec();
            for app in &mut before {
                app.floor = app.floor.map(|floor| floor * 1.1);
            }
            speeds.update(&before);
            speeds.update(self.source.apps());
            let screen = Screen {
                source: &self.source,
                choice: &self.choice,
                marks: &marks,
                speeds: &speeds,
                palette: self.palette,
            };
            terminal
                .draw(|frame| {
                    draw(frame, &screen);
                })
                .unwrap();
            terminal.backend().buffer().clone()
        }

        fn text(&self, width: u16, height: u16) -> String {
            let buffer = self.drawn(width, height);
            let mut text = String::new();
            for y in 0..height {
                let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
                text.push_str(line.trim_end());
                text.push('\n');
            }
            text
        }
    }

    #[test]
    fn eighty_columns_show_machine_and_applications() {
        insta::assert_snapshot!(Stage::busy().text(80, 24));
    }

    #[test]
    fn two_hundred_columns_show_reasons_too() {
        insta::assert_snapshot!(Stage::busy().text(200, 12));
    }

    #[test]
    fn forty_columns_show_names_speed_and_keys() {
        let output = Stage::busy().text(40, 24);
        for part in ["md", "SPEED", "? help  Enter explain"] {
            assert!(output.contains(part), "{part}: {output}");
        }
        insta::assert_snapshot!(output);
    }

    #[test]
    fn each_of_several_users_has_a_line_above_what_it_runs() {
        let mut status = samples::status();
        status.apps[0].uid = 4_000_000_001;
        status.apps[1].uid = 4_000_000_000;
        status.apps[2].uid = 4_000_000_001;
        let mut stage = Stage::of(Some(status));
        insta::assert_snapshot!(stage.text(80, 16));
        for selected in ["▸B cg", "▸A md", "▸C a-pro"] {
            let output = stage.text(80, 24);
            assert!(output.contains(selected), "{selected}: {output}");
            stage = stage.press(KeyCode::Down);
        }
    }

    #[test]
    fn an_idle_machine_says_how_to_begin() {
        insta::assert_snapshot!(Stage::of(Some(samples::idle())).text(80, 12));
    }

    #[test]
    fn a_page_of_help_fits_a_small_terminal() {
        let output = Stage::busy().press(KeyCode::Char('?')).text(80, 24);
        assert!(output.contains("`man 7 mapper`"), "{output}");
        insta::assert_snapshot!(output);
    }

    #[test]
    fn enter_shows_why_a_program_has_its_cpus_and_h_what_has_ended() {
        let mut stage = Stage::busy().press(KeyCode::Enter);
        stage.source.explained = Some(Explained::Running(Box::new(samples::explain())));
        let output = stage.text(80, 40);
        let expected = explain_view::view(&samples::explain(), Width::new(80));
        let expected = anstream::adapter::strip_str(&expected).to_string();
        assert!(output.starts_with(&expected), "{output}");
        // Arrows scroll to the end and not further.
        let mut stage = stage.press(KeyCode::Down);
        assert!(!stage.text(80, 20).contains("application  md"));
        stage.choice.scrolled = 1000;
        let output = stage.text(80, 20);
        assert!(output.contains("20 CPUs: steady\nq back"), "{output}");
        // It ends while it is looked at.
        let mut ended = samples::history().ended.remove(0);
        ended.app = samples::explain().id;
        stage.source.explained = Some(Explained::Ended(Box::new(ended)));
        assert!(stage.text(80, 20).contains("ended        12 s ago"));

        let mut stage = Stage::busy().press(KeyCode::Char('h'));
        stage.source.history = Some(samples::history());
        assert!(stage.text(80, 20).contains("fit_b"));
    }

    #[test]
    fn when_the_daemon_is_away_the_last_picture_stays_and_is_marked() {
        let mut stage = Stage::busy();
        stage.source.trouble = Some("no daemon at /run/mapper/mapper.sock".to_owned());
        let output = stage.text(80, 24);
        assert!(output.contains("socket 1 node 1"), "{output}");
        let last = output.lines().last().unwrap();
        let expected = "not up to date, trying again: no daemon at";
        assert!(last.starts_with(expected), "{last}");
        stage.source.status = None;
        let output = stage.text(80, 5);
        assert!(output.starts_with("waiting for the daemon") && output.contains("no daemon at"));
    }

    #[test]
    fn colours_distinguish_applications_and_only_where_they_are_wanted() {
        let background = |palette| {
            let stage = Stage {
                palette,
                ..Stage::busy()
            };
            let buffer = stage.drawn(80, 24);
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
        let stage = Stage::of(Some(status));
        let output = stage.text(60, 12);
        assert!(output.contains("more lines of CPUs"), "{output}");
        assert!(output.contains("NAME") && output.contains("md"), "{output}");
        // However small the terminal, something is drawn and nothing fails.
        for (width, height) in [(1, 1), (10, 3), (20, 5), (300, 100)] {
            stage.drawn(width, height);
        }
    }

    #[test]
    fn the_selected_program_is_always_on_the_screen() {
        let stage = Stage::busy();
        assert!(stage.text(80, 24).contains("▸A md"));
        let stage = stage.press(KeyCode::Down).press(KeyCode::Down);
        let output = stage.text(80, 7);
        assert!(output.contains("▸C a-pro"), "{output}");
    }
}
