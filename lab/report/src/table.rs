//! Tables of text: for a terminal, for Markdown and for a page.

use comfy_table::{Cell, CellAlignment, ContentArrangement, TableComponent, presets};
use maud::{Markup, html};

/// A table: the first column holds names, the others figures.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Table {
    /// What stands above it.
    pub title: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// Each with a cell for every column.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    /// The text of each column.
    pub cells: Vec<String>,
    /// How it stands out on a page.
    pub mark: Mark,
}

/// About as wide as a figure with its interval.
const FIGURE_WIDTH: usize = 17;

/// How a row stands out on a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mark {
    /// Not at all.
    None,
    /// The project's own.
    Own,
    /// An expectation that is met.
    Met,
    /// An expectation that is not met.
    Missed,
}

/// As text, one by one.
pub fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

impl Mark {
    const fn class(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Own => "own",
            Self::Met => "met",
            Self::Missed => "missed",
        }
    }
}

impl Table {
    /// For a terminal, with its title.
    #[must_use]
    pub fn terminal(&self) -> String {
        let mut grid = self.grid(presets::NOTHING);
        grid.set_style(TableComponent::HeaderLines, '─');
        let mut header = self.header.clone();
        for name in header.iter_mut().skip(1) {
            *name = in_lines(name);
        }
        grid.set_header(header);
        format!("{}\n{grid}\n", self.title)
    }

    /// For a document, without its title.
    #[must_use]
    pub fn markdown(&self) -> String {
        format!("{}\n", self.grid(presets::ASCII_MARKDOWN))
    }

    /// For a page, without its title.
    #[must_use]
    pub fn html(&self) -> Markup {
        html! {
            div class="scroll" {
                table {
                    thead { tr { @for cell in &self.header { th { (cell) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr class=(row.mark.class()) { @for cell in &row.cells { td { (cell) } } }
                        }
                    }
                }
            }
        }
    }

    fn grid(&self, preset: &str) -> comfy_table::Table {
        let mut grid = comfy_table::Table::new();
        grid.load_preset(preset)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(&self.header);
        for row in &self.rows {
            grid.add_row(row.cells.iter().map(Cell::new));
        }
        for column in grid.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        grid
    }
}

/// Words in lines as wide as figures, so that long names of columns do not make a table wide.
fn in_lines(words: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in words.split(' ') {
        let length = word.chars().count();
        if width > 0 {
            let fits = width + 1 + length <= FIGURE_WIDTH;
            lines.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        lines.push_str(word);
        width += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_below_the_end_of_their_header_and_markup_in_cells_stays_text() {
        let texts = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let (cells, mark) = (texts(["a <b>", "1.5"]), Mark::Own);
        let table = Table {
            title: "Speeds".to_owned(),
            header: texts(["setting", "over plain"]),
            rows: vec![Row { cells, mark }],
        };
        let text = table.markdown();
        assert!(text.contains("| a <b>   |        1.5 |"), "{text}");
        assert!(table.terminal().starts_with("Speeds\n"));
        let html = table.html().0;
        let row = "<tr class=\"own\"><td>a &lt;b&gt;</td>";
        assert!(html.contains(row), "{html}");
    }

    #[test]
    fn long_names_of_columns_take_several_lines() {
        let lines = in_lines("over Linux, passive waiting");
        assert_eq!(lines, "over Linux,\npassive waiting");
        assert_eq!(in_lines("setting"), "setting");
    }
}
