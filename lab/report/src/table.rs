//! Tables of text: for a terminal, for Markdown and for a page.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table as Grid, presets};
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
        format!(
            "{}\n{}\n",
            self.title,
            self.grid(presets::UTF8_HORIZONTAL_ONLY)
        )
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

    fn grid(&self, preset: &str) -> Grid {
        let mut grid = Grid::new();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            title: "Speeds".to_owned(),
            header: ["setting", "over plain"].map(String::from).to_vec(),
            rows: vec![Row {
                cells: ["a <b>", "1.5"].map(String::from).to_vec(),
                mark: Mark::Own,
            }],
        }
    }

    #[test]
    fn figures_stand_below_the_end_of_their_header() {
        let text = table().markdown();
        assert!(text.contains("| a <b>   |        1.5 |"), "{text}");
        assert!(table().terminal().starts_with("Speeds\n"));
    }

    #[test]
    fn markup_in_cells_stays_text() {
        let html = table().html().0;
        assert!(
            html.contains("<tr class=\"own\"><td>a &lt;b&gt;</td>"),
            "{html}"
        );
    }
}
