//! Aligned columns that fit a terminal.
//!
//! Every column is as wide as its widest cell. When that is too much for the terminal, columns that
//! may shrink do, the widest first, down to their least width; their cells are cut. Below a row may
//! stand a note, wrapped.

use crate::plain_text::{Width, columns, cut, harmless, wrapped};
use anstyle::Style;
use std::fmt::Write;

/// Space between columns.
const GAP: usize = 2;

/// How a column is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    align: Align,
    /// The least width, if it may shrink.
    least: Option<usize>,
}

impl Column {
    /// Numbers, which are never cut.
    pub(crate) const fn number(title: &'static str) -> Self {
        Self {
            title,
            align: Align::Right,
            least: None,
        }
    }

    /// Short words, which are never cut.
    pub(crate) const fn word(title: &'static str) -> Self {
        Self {
            title,
            align: Align::Left,
            least: None,
        }
    }

    /// Text that is cut to no less than this.
    pub(crate) const fn text(title: &'static str, least: usize) -> Self {
        Self {
            title,
            align: Align::Left,
            least: Some(least),
        }
    }
}

/// A cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style.
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self {
            text: harmless(text.as_ref()),
            style,
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// A row with what is noted below it.
#[derive(Clone, Debug)]
struct Row {
    cells: Vec<Cell>,
    notes: Vec<String>,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<Row>,
}

impl<const N: usize> Table<N> {
    /// A table without rows.
    pub(crate) const fn new(columns: [Column; N]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row, with notes to stand below it.
    pub(crate) fn row(&mut self, cells: [Cell; N], notes: Vec<String>) {
        self.rows.push(Row {
            cells: cells.into(),
            notes,
        });
    }

    /// The table as text.
    pub(crate) fn render(&self, width: Width) -> String {
        let widths = self.widths(width);
        let mut out = String::new();
        let title = Style::new().bold();
        let titles = self.columns.map(|column| Cell::styled(column.title, title));
        self.line(&mut out, &titles, &widths);
        for row in &self.rows {
            self.line(&mut out, &row.cells, &widths);
            for note in &row.notes {
                out.push_str(&wrapped("    ", note, width));
            }
        }
        out
    }

    fn widths(&self, width: Width) -> [usize; N] {
        let mut widths = [0; N];
        for (place, wide) in widths.iter_mut().enumerate() {
            let cells = self.rows.iter().map(|row| columns(&row.cells[place].text));
            *wide = cells
                .max()
                .unwrap_or(0)
                .max(columns(self.columns[place].title));
        }
        let gaps = GAP * N.saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > width.columns() {
            let may_shrink = |place: &usize| {
                self.columns[*place]
                    .least
                    .is_some_and(|least| widths[*place] > least)
            };
            let Some(widest) = (0..N).filter(may_shrink).max_by_key(|place| widths[*place]) else {
                break;
            };
            widths[widest] -= 1;
        }
        widths
    }

    fn line(&self, out: &mut String, cells: &[Cell], widths: &[usize; N]) {
        let mut line = String::new();
        for (place, cell) in cells.iter().enumerate() {
            let text = cut(&cell.text, widths[place]);
            let blank = widths[place] - columns(&text).min(widths[place]);
            let (before, after) = match self.columns[place].align {
                Align::Left => (0, blank),
                Align::Right => (blank, 0),
            };
            let gap = if place == 0 { 0 } else { GAP };
            line.extend(std::iter::repeat_n(' ', gap + before));
            if !text.is_empty() {
                // Writing to a String cannot fail.
                let _ = write!(line, "{style}{text}{style:#}", style = cell.style);
            }
            line.extend(std::iter::repeat_n(' ', after));
        }
        // Blanks at the end of a line help nobody.
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<3> {
        let mut table = Table::new([
            Column::text("NAME", 6),
            Column::number("N"),
            Column::text("WHAT", 8),
        ]);
        table.row(
            ["a".into(), "12".into(), "x".repeat(100).into()],
            vec!["note ".repeat(20)],
        );
        table.row(["long-name".into(), "3".into(), "short".into()], vec![]);
        table
    }

    #[test]
    fn columns_are_aligned_and_no_line_is_wider_than_the_terminal() {
        let text = table().render(Width::new(80));
        let plain = anstream::adapter::strip_str(&text).to_string();
        for line in plain.lines() {
            assert!(columns(line) <= 80, "{line}");
        }
        let lines: Vec<_> = plain.lines().collect();
        assert_eq!(lines[0], "NAME        N  WHAT");
        assert!(lines[1].starts_with("a          12  xxx") && lines[1].ends_with("x…"));
        assert_eq!(lines[4], "long-name   3  short");
    }
}
