//! NuCore's Table 1: the cores of each node that a method gives a program, as printed and in the model.
//!
//! The model's programs are first guesses and its machines are assumed where nothing is printed, so that
//! agreement in every core is more than can be expected; the paper itself calls an allocation that differs
//! from the best by one core of each node at most a near miss. Both are counted.

use super::data::{self, Kept};
use super::tables::SuiteTable;
use anyhow::ensure;
use mapper_report::table::{Mark, Row, Table, texts};
use serde::{Deserialize, Serialize};

static PRINTED: Kept<Published> = Kept::new(|| {
    let text = include_str!("../data/published/table1.toml");
    let printed: Published = data::read("published/table1.toml", text)?;
    printed.parts.iter().try_for_each(Part::check)?;
    Ok(printed)
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    methods: Vec<Method>,
    #[serde(rename = "part")]
    parts: Vec<Part>,
}

/// A column: the policy of the model and how the paper calls it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Method {
    policy: String,
    title: String,
}

/// Table 1 (a) or (b), on a machine of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    suite: String,
    nodes: usize,
    cores_per_node: u32,
    lines: Vec<PublishedLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedLine {
    /// As the paper calls it.
    benchmark: String,
    /// As the presets do.
    mix: String,
    limit: String,
    /// By method and node.
    cores: [Vec<u32>; 4],
    /// By method: their share of all cores, as printed.
    percent: [f64; 4],
}

impl Part {
    /// Whether the cores have the shares that are printed beside them.
    fn check(&self) -> anyhow::Result<()> {
        let all = self.nodes as f64 * f64::from(self.cores_per_node);
        for line in &self.lines {
            for (cores, percent) in line.cores.iter().zip(line.percent) {
                let share = 100.0 * f64::from(cores.iter().sum::<u32>()) / all;
                let fits = cores.iter().all(|cores| *cores <= self.cores_per_node);
                ensure!(
                    cores.len() == self.nodes && fits && (share - percent).abs() < 0.051,
                    "lab/eval/data/published/table1.toml: {} of {}: cores {cores:?} are not {percent} % of {all}",
                    line.benchmark,
                    self.suite
                );
            }
        }
        Ok(())
    }
}

/// Table 1 (a) or (b), beside the model's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Table1 {
    pub(super) suite: String,
    lines: Vec<Line>,
    agreements: Vec<Agreement>,
}

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
    Other,
}

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

    const fn mark(self) -> &'static str {
        match self {
            Self::Same => "= ",
            Self::WithinOneCore => "~ ",
            Self::Other => "",
        }
    }
}

impl Table1 {
    pub(super) fn all(tables: &[SuiteTable]) -> anyhow::Result<Vec<Self>> {
        let printed = data::kept(&PRINTED)?;
        let found = tables.iter().filter_map(|table| Self::of(table, printed));
        Ok(found.collect())
    }

    /// The table of a suite, if it is one of NuCore's two and has its programs.
    fn of(table: &SuiteTable, printed: &'static Published) -> Option<Self> {
        let mut parts = printed.parts.iter();
        let part = parts.find(|part| part.suite == table.suite.name)?;
        let line = |line: &'static PublishedLine| {
            let row = table.mixes.iter().find(|row| row.mix == line.mix)?;
            let columns = printed.methods.iter().zip(&line.cores);
            let cells = columns.filter_map(|(method, paper)| {
                let model = row.policies.get(&method.policy)?.apps.first()?;
                Some(Cell {
                    method: &method.title,
                    paper,
                    nearness: Nearness::of(paper, &model.cores_by_node),
                    model: model.cores_by_node.clone(),
                })
            });
            Some(Line {
                benchmark: &line.benchmark,
                limit: &line.limit,
                cells: cells.collect(),
            })
        };
        let lines: Vec<Line> = part.lines.iter().filter_map(line).collect();
        let agreements = printed.methods.iter().filter_map(|method| {
            let cells = lines.iter().flat_map(|line| &line.cells);
            let of_method = cells.filter(|cell| cell.method == method.title);
            let near: Vec<Nearness> = of_method.map(|cell| cell.nearness).collect();
            let count = |counts: fn(&Nearness) -> bool| near.iter().filter(|n| counts(n)).count();
            (!near.is_empty()).then(|| Agreement {
                method: &method.title,
                policy: &method.policy,
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

    /// A row for each program: above as printed, below in the model.
    pub(super) fn table(&self) -> Table {
        let methods = self.agreements.iter().map(|agreement| agreement.method);
        let first = std::iter::once("benchmark");
        let header = first.chain(methods).chain(["limited by"]);
        let rows = self.lines.iter().map(|line| {
            let cells = line.cells.iter().map(|cell| {
                let model = vector(&cell.model);
                format!("{}\n{}{model}", vector(cell.paper), cell.nearness.mark())
            });
            let (first, last) = (line.benchmark.to_owned(), line.limit.to_owned());
            let cells = std::iter::once(first).chain(cells).chain([last]).collect();
            let mark = Mark::None;
            Row { cells, mark }
        });
        let title = "Cores by node [NuCore Table 1]: above as printed, below in the model; = the same, ~ within one \
                     core of each node";
        Table {
            title: title.into(),
            header: texts(header),
            rows: rows.collect(),
        }
    }

    /// How many allocations agree, a sentence for each method.
    pub(super) fn agreements(&self) -> Vec<String> {
        let output = |of: &Agreement| {
            format!(
                "{}: {} of {} allocations as printed, {} within one core of each node",
                of.method, of.same, of.of, of.within_one_core
            )
        };
        self.agreements.iter().map(output).collect()
    }
}

/// As the paper writes it, with the share of a machine's cores left out.
fn vector(cores: &[u32]) -> String {
    format!("{{{}}}", texts(cores).join(","))
}

#[cfg(test)]
mod tests {
    use super::super::examples::changed_tables_of;
    use super::*;

    fn made_up(rows: &[&str]) -> Option<Table1> {
        let tables = changed_tables_of(rows, &|mix, policy, run| {
            run.apps[0].cores_by_node = match (mix, policy) {
                ("streamcluster-roi", _) => vec![8, 8, 3, 0],
                ("canneal-roi", "nucore-static") => vec![8, 8, 8, 6],
                _ => vec![8; 4],
            };
        });
        Table1::all(&tables).unwrap().pop()
    }

    #[test]
    fn the_vectors_have_the_shares_of_the_cores_that_are_printed_beside_them() {
        use mapper_sim::presets;
        let presets = presets::read_apps(presets::NUCORE_APPS).unwrap();
        for part in &data::kept(&PRINTED).unwrap().parts {
            assert_eq!(part.lines.len(), 11);
            for line in &part.lines {
                presets.get(&line.mix).expect(&line.mix);
            }
        }
        let text = include_str!("../data/published/table1.toml");
        let wrong = text.replacen("[6, 6, 6, 3, 0, 0, 0, 0]", "[6, 6, 6, 4, 0, 0, 0, 0]", 1);
        let wrong: Published = data::read("published/table1.toml", &wrong).unwrap();
        let error = wrong.parts[0].check().unwrap_err().to_string();
        for part in [
            "table1.toml",
            "canneal of nucore-amd",
            "[6, 6, 6, 4, 0, 0, 0, 0]",
            "43.8 %",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn allocations_are_the_same_within_one_core_or_further_off_node_by_node() {
        let near = |model: &[u32]| Nearness::of(&[8, 8, 3, 0], model);
        assert_eq!(near(&[8, 8, 3, 0]), Nearness::Same);
        assert_eq!(near(&[7, 8, 4, 1]), Nearness::WithinOneCore);
        assert_eq!(near(&[8, 6, 3, 0]), Nearness::Other);
        // The sum is not enough.
        assert_eq!(near(&[8, 8, 0, 3]), Nearness::Other);
        assert_eq!(near(&[8, 8, 3]), Nearness::Other);
    }

    #[test]
    fn agreements_are_counted_by_method_over_the_programs_that_ran() {
        let table = made_up(&[
            "nucore-intel | streamcluster-roi | nucore-static 1 | nucore-adjacent 1",
            "nucore-intel | canneal-roi | nucore-static 1 | nucore-adjacent 1",
            "nucore-intel | mg-psinv | nucore-static 1 | nucore-adjacent 1",
        ])
        .unwrap();
        let counted = |a: &Agreement| (a.method, a.same, a.within_one_core, a.of);
        let counted: Vec<_> = table.agreements.iter().map(counted).collect();
        assert_eq!(counted, [("NuCore", 2, 2, 3), ("Exp. optimal", 1, 2, 3)]);
    }

    #[test]
    fn table_and_json_show_both_vectors_of_each_program() {
        let table = made_up(&[
            "nucore-intel | streamcluster-roi | nucore-static 1 | linux 1",
            "nucore-intel | canneal-roi | nucore-static 1 | linux 1",
        ])
        .unwrap();
        let shown = table.table();
        assert_eq!(shown.header, ["benchmark", "NuCore", "limited by"]);
        assert_eq!(shown.rows[0].cells[1], "{8,8,3,0}\n= {8,8,3,0}");
        let canneal = ["canneal", "{8,8,8,4}\n{8,8,8,6}", "all shared"];
        assert_eq!(shown.rows[1].cells, canneal);
        let agreements = table.agreements();
        assert!(agreements[0].starts_with("NuCore: 1 of 2 allocations as printed"));
        let json = serde_json::to_value(&table).unwrap();
        let cell = &json["lines"][1]["cells"][0];
        assert_eq!(cell["paper"], serde_json::json!([8, 8, 8, 4]));
        assert_eq!(cell["model"], serde_json::json!([8, 8, 8, 6]));
        assert_eq!(cell["nearness"], "other");
        assert_eq!(json["agreements"][0]["same"], 1);
    }

    #[test]
    fn suites_without_these_programs_or_methods_have_no_such_table() {
        for row in [
            "sam-fig5 | mg-psinv | nucore-static 1",
            "nucore-amd | SP | nucore-static 1",
            "nucore-amd | mg-psinv | linux 1",
        ] {
            assert_eq!(made_up(&[row]), None);
        }
    }
}
