//! NuCore's Table 1: the cores of each node that a method gives a program, as printed and in the model.
//!
//! The model's programs are first guesses and its machines are assumed where nothing is printed, so that
//! agreement in every core is more than can be asked; the paper itself calls an allocation that differs
//! from the best by one core of each node at most a near miss. Both are counted.

mod published;

use super::tables::SuiteTable;
use mapper_report::html_report::escaped;
use published::Published;
use serde::Serialize;
use std::fmt::Write as _;

/// A column: the policy of the model and how the paper calls it.
struct Method {
    policy: &'static str,
    title: &'static str,
}

/// The columns in the order in which they are printed.
const METHODS: [Method; 4] = [
    Method {
        policy: "nucore-static",
        title: "NuCore",
    },
    Method {
        policy: "nucore-adjacent",
        title: "Exp. optimal",
    },
    Method {
        policy: "varuna",
        title: "Varuna",
    },
    Method {
        policy: "crust",
        title: "CRUST",
    },
];

/// Table 1 (a) or (b), beside the model's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Table1 {
    suite: String,
    lines: Vec<Line>,
    agreements: Vec<Agreement>,
}

/// A program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Line {
    benchmark: &'static str,
    limit: &'static str,
    cells: Vec<Cell>,
}

/// What a method gives a program, by node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Cell {
    method: &'static str,
    paper: &'static [u32],
    model: Vec<u32>,
    nearness: Nearness,
}

/// How near the model's allocation is to the printed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Nearness {
    /// The same cores of every node.
    Same,
    /// One core more or fewer on some nodes, not more on any.
    WithinOneCore,
    /// Further off.
    Other,
}

/// How many allocations of a method agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
struct Agreement {
    method: &'static str,
    policy: &'static str,
    same: usize,
    /// Those that are the same among them.
    within_one_core: usize,
    of: usize,
}

impl Nearness {
    fn of(paper: &[u32], model: &[u32]) -> Self {
        if paper.len() != model.len() {
            return Self::Other;
        }
        let furthest = paper.iter().zip(model).map(|(p, m)| p.abs_diff(*m)).max();
        match furthest.unwrap_or(0) {
            0 => Self::Same,
            1 => Self::WithinOneCore,
            _ => Self::Other,
        }
    }
}

impl Agreement {
    fn told(&self) -> String {
        format!(
            "{}: {} of {} allocations as printed, {} within one core of each node",
            self.method, self.same, self.of, self.within_one_core
        )
    }
}

impl Table1 {
    /// The table of a suite, if it is one of NuCore's two and has its programs.
    pub(super) fn of(table: &SuiteTable) -> Option<Self> {
        let printed: &[Published] = match table.suite.name.as_str() {
            "nucore-amd" => &published::AMD,
            "nucore-intel" => &published::INTEL,
            _ => return None,
        };
        let lines: Vec<Line> = printed
            .iter()
            .filter_map(|printed| line(table, printed))
            .collect();
        let agreements = METHODS.iter().filter_map(|method| {
            let cells = lines.iter().flat_map(|line| &line.cells);
            let near: Vec<Nearness> = cells
                .filter(|cell| cell.method == method.title)
                .map(|cell| cell.nearness)
                .collect();
            let count = |counts: fn(&Nearness) -> bool| near.iter().filter(|n| counts(n)).count();
            (!near.is_empty()).then(|| Agreement {
                method: method.title,
                policy: method.policy,
                same: count(|near| *near == Nearness::Same),
                within_one_core: count(|near| *near != Nearness::Other),
                of: near.len(),
            })
        });
        let agreements: Vec<Agreement> = agreements.collect();
        (!agreements.is_empty()).then(|| Self {
            suite: table.suite.name.clone(),
            lines,
            agreements,
        })
    }

    /// For the terminal: two lines for each program, as printed and in the model.
    pub(super) fn text(&self) -> String {
        let mut out = String::from(
            "\nCores by node [NuCore Table 1]; = as printed, ~ within one core of each node\n",
        );
        let widest = self.lines.iter().map(|line| line.benchmark.len());
        let first = widest.max().unwrap_or(0);
        let cells = self.lines.iter().flat_map(|line| &line.cells);
        let width = cells
            .map(|cell| vector(cell.paper).len().max(vector(&cell.model).len()))
            .max()
            .unwrap_or(0);
        let _ = write!(out, "{:first$}       ", "");
        for agreement in &self.agreements {
            let _ = write!(out, "   {:width$}", agreement.method);
        }
        out.push('\n');
        for line in &self.lines {
            let _ = write!(out, "{:first$}  paper", line.benchmark);
            for cell in &line.cells {
                let _ = write!(out, "   {:width$}", vector(cell.paper));
            }
            let _ = write!(out, "   {}\n{:first$}  model", line.limit, "");
            for cell in &line.cells {
                let mark = match cell.nearness {
                    Nearness::Same => '=',
                    Nearness::WithinOneCore => '~',
                    Nearness::Other => ' ',
                };
                let _ = write!(out, " {mark} {:width$}", vector(&cell.model));
            }
            while out.ends_with(' ') {
                out.pop();
            }
            out.push('\n');
        }
        for agreement in &self.agreements {
            let _ = writeln!(out, "{}", agreement.told());
        }
        out
    }

    /// For the page.
    pub(super) fn html(&self) -> String {
        let mut html = String::from(
            "<h3>Cores by node [NuCore Table 1]</h3><p class=\"soft\">Above as printed, below in the model; \
             = the same, ~ within one core of each node.</p><div class=\"scroll\"><table><thead><tr>\
             <th>benchmark</th>",
        );
        for agreement in &self.agreements {
            let _ = write!(html, "<th>{}</th>", escaped(agreement.method));
        }
        html.push_str("<th>limited by</th></tr></thead><tbody>");
        for line in &self.lines {
            let _ = write!(html, "<tr><td>{}</td>", escaped(line.benchmark));
            for cell in &line.cells {
                let (class, mark) = match cell.nearness {
                    Nearness::Same => ("good", "="),
                    Nearness::WithinOneCore => ("", "~"),
                    Nearness::Other => ("bad", ""),
                };
                let _ = write!(
                    html,
                    "<td>{}<br/><span class=\"{class}\">{mark} {}</span></td>",
                    vector(cell.paper),
                    vector(&cell.model)
                );
            }
            let _ = write!(html, "<td>{}</td></tr>", escaped(line.limit));
        }
        html.push_str("</tbody></table></div><p class=\"prose\">");
        let told: Vec<String> = self.agreements.iter().map(Agreement::told).collect();
        let _ = write!(html, "{}.</p>", escaped(&told.join(". ")));
        html
    }
}

fn line(table: &SuiteTable, printed: &Published) -> Option<Line> {
    let row = table.mixes.iter().find(|row| row.mix == printed.mix)?;
    let cells = METHODS
        .iter()
        .zip(printed.cores)
        .filter_map(|(method, paper)| {
            let cell = row.policies.get(method.policy)?;
            let model = cell.apps.first()?.cores_by_node.clone();
            Some(Cell {
                method: method.title,
                paper,
                nearness: Nearness::of(paper, &model),
                model,
            })
        });
    Some(Line {
        benchmark: printed.benchmark,
        limit: printed.limit,
        cells: cells.collect(),
    })
}

/// As the paper writes it, with the share of a machine's cores left out.
fn vector(cores: &[u32]) -> String {
    let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
    format!("{{{}}}", cores.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::examples;
    use super::*;

    fn made_up(name: &str, mixes: &[&str], policies: &[&str]) -> Option<Table1> {
        let suite = examples::suite(name, mixes, policies);
        let given = |mix: &str, policy: &str| {
            let mut run = examples::at_speed(mix, 1.0);
            run.apps[0].cores_by_node = match (mix, policy) {
                ("streamcluster-roi", "nucore-static") => vec![8, 8, 3, 0],
                ("streamcluster-roi", _) => vec![8, 8, 3, 0],
                ("canneal-roi", "nucore-static") => vec![8, 8, 8, 6],
                _ => vec![8; 4],
            };
            run
        };
        Table1::of(&examples::table(&suite, &given))
    }

    #[test]
    fn allocations_are_the_same_within_one_core_or_further_off_node_by_node() {
        let near = |model: &[u32]| Nearness::of(&[8, 8, 3, 0], model);
        assert_eq!(near(&[8, 8, 3, 0]), Nearness::Same);
        assert_eq!(near(&[7, 8, 4, 1]), Nearness::WithinOneCore);
        assert_eq!(near(&[8, 6, 3, 0]), Nearness::Other);
        assert_eq!(
            near(&[8, 8, 0, 3]),
            Nearness::Other,
            "the sum is not enough"
        );
        assert_eq!(near(&[8, 8, 3]), Nearness::Other);
    }

    #[test]
    fn agreements_are_counted_by_method_over_the_programs_that_ran() {
        let table = made_up(
            "nucore-intel",
            &["streamcluster-roi", "canneal-roi", "mg-psinv"],
            &["nucore-static", "nucore-adjacent"],
        )
        .unwrap();
        let counted = |a: &Agreement| (a.method, a.same, a.within_one_core, a.of);
        let counted: Vec<_> = table.agreements.iter().map(counted).collect();
        assert_eq!(counted, [("NuCore", 2, 2, 3), ("Exp. optimal", 1, 2, 3)]);
    }

    #[test]
    fn terminal_page_and_json_show_both_vectors_of_each_program() {
        let table = made_up(
            "nucore-intel",
            &["streamcluster-roi", "canneal-roi"],
            &["nucore-static", "linux"],
        )
        .unwrap();
        let text = table.text();
        assert!(
            text.contains("canneal        paper   {8,8,8,4}   all shared"),
            "{text}"
        );
        assert!(text.contains("model = {8,8,3,0}\n"), "{text}");
        assert!(text.contains("model   {8,8,8,6}\n"), "{text}");
        assert!(
            text.contains("NuCore: 1 of 2 allocations as printed"),
            "{text}"
        );
        let html = table.html();
        assert!(
            html.contains("{8,8,8,4}<br/><span class=\"bad\"> {8,8,8,6}"),
            "{html}"
        );
        roxmltree::Document::parse(&format!("<p>{html}</p>")).unwrap();
        let json = serde_json::to_value(&table).unwrap();
        let cell = &json["lines"][1]["cells"][0];
        assert_eq!(cell["paper"], serde_json::json!([8, 8, 8, 4]));
        assert_eq!(cell["model"], serde_json::json!([8, 8, 8, 6]));
        assert_eq!(cell["nearness"], "other");
        assert_eq!(json["agreements"][0]["same"], 1);
    }

    #[test]
    fn suites_without_these_programs_or_methods_have_no_such_table() {
        assert_eq!(made_up("sam-fig5", &["mg-psinv"], &["nucore-static"]), None);
        assert_eq!(made_up("nucore-amd", &["SP"], &["nucore-static"]), None);
        assert_eq!(made_up("nucore-amd", &["mg-psinv"], &["linux"]), None);
    }
}
