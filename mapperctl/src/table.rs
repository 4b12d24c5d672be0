//! Aligned columns that fit a terminal, each as wide as its widest cell. When that is too much, columns that may shrink
//! do, the widest first, down to their least width; then columns that can be done without are left out, the first named
//! first. Below a row may stand a note, wrapped.

use crate::plain_text::{Width, columns, cut, harmless, wrapped};
use anstyle::Style;
use std::fmt::Write;

const GAP: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// The title of a column, its alignment, and whether it may shrink.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    align: Align,
    least: Option<usize>,
}

impl Column {
    /// Aligned to the right.
    #[must_use]
    pub const fn number(title: &'static str) -> Self {
        Self {
            align: Align::Right,
            ..Self::word(title)
        }
    }

    /// Aligned to the left, never shortened.
    #[must_use]
    pub const fn word(title: &'static str) -> Self {
        Self {
            title,
            align: Align::Left,
            least: None,
        }
    }

    /// Aligned to the left; may shrink to `least` columns.
    #[must_use]
    pub const fn text(title: &'static str, least: usize) -> Self {
        Self {
            least: Some(least),
            ..Self::word(title)
        }
    }
}

/// Text that cannot steer a terminal, in a style.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// What could steer the terminal is shown as `?`.
    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
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

#[derive(Clone, Debug)]
struct Row {
    cells: Vec<Cell>,
    notes: Vec<String>,
}

/// Rows of `N` cells.
#[derive(Clone, Debug)]
pub struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<Row>,
    /// Titles of columns that can be done without, in the order in which they are left out.
    dispensable: &'static [&'static str],
}

impl<const N: usize> Table<N> {
    /// Without rows.
    #[must_use]
    pub const fn new(columns: [Column; N]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
            dispensable: &[],
        }
    }

    /// The table with columns that are left out, in this order, where there is no room for them.
    #[must_use]
    pub const fn without_at_need(mut self, titles: &'static [&'static str]) -> Self {
        self.dispensable = titles;
        self
    }

    /// Adds a row, with notes below it.
    pub fn row(&mut self, cells: [Cell; N], notes: Vec<String>) {
        self.rows.push(Row {
            cells: cells.into(),
            notes,
        });
    }

    /// The lines, no wider than `width` where that is possible.
    #[must_use]
    pub fn render(&self, width: Width) -> String {
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

    fn widths(&self, width: Width) -> [Option<usize>; N] {
        let mut widths = self.wanted();
        let mut dispensable = self.dispensable.iter();
        loop {
            let columns = self.columns.iter().zip(widths);
            let least = |(column, wide): (&Column, Option<usize>)| {
                wide.map(|wide| column.least.unwrap_or(wide).min(wide))
            };
            let least: Vec<usize> = columns.filter_map(least).collect();
            if total(&least) <= width.columns() {
                break;
            }
            let Some(title) = dispensable.next() else {
                break;
            };
            for (place, wide) in widths.iter_mut().enumerate() {
                if self.columns[place].title == *title {
                    *wide = None;
                }
            }
        }
        loop {
            let shown: Vec<usize> = widths.iter().flatten().copied().collect();
            if total(&shown) <= width.columns() {
                break;
            }
            let may_shrink = |place: &usize| {
                self.columns[*place]
                    .least
                    .is_some_and(|least| widths[*place].is_some_and(|wide| wide > least))
            };
            let Some(widest) = (0..N).filter(may_shrink).max_by_key(|place| widths[*place]) else {
                break;
            };
            widths[widest] = widths[widest].map(|wide| wide - 1);
        }
        widths
    }

    fn wanted(&self) -> [Option<usize>; N] {
        std::array::from_fn(|place| {
            let cells = self.rows.iter().map(|row| columns(&row.cells[place].text));
            let widest = cells.max().unwrap_or(0);
            Some(widest.max(columns(self.columns[place].title)))
        })
    }

    fn line(&self, out: &mut String, cells: &[Cell], widths: &[Option<usize>; N]) {
        let mut line = String::new();
        for (place, cell) in cells.iter().enumerate() {
            let Some(wide) = widths[place] else { continue };
            let text = cut(&cell.text, wide);
            let blank = wide - columns(&text).min(wide);
            let (before, after) = match self.columns[place].align {
                Align::Left => (0, blank),
                Align::Right => (blank, 0),
            };
            let gap = if line.is_empty() { 0 } else { GAP };
            line.extend(std::iter::repeat_n(' ', gap + before));
            if !text.is_empty() {
                // Writing to a String cannot fail.
                let _ = write!(line, "{style}{text}{style:#}", style = cell.style);
            }
            line.extend(std::iter::repeat_n(' ', after));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
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
