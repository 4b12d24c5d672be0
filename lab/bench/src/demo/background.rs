//! The end of the report: targets, method and machine, so that the figures can be judged.

use std::fmt::Write as _;

use super::pairs::{PAIRS, Program, Setting};
use super::results::{PairResult, Results};
use mapper_report::html_report::escaped;

/// What the project asks of itself, and what came of it.
pub(crate) fn targets(html: &mut String, results: &Results) {
    html.push_str(
        "<h2>Targets</h2>\n<p class=\"soft\">What the project asks of itself over the libgomp \
         pairs. Only a wrong result fails the demo.</p><div class=\"scroll\"><table><thead><tr>\
         <th>figure</th><th>wanted</th><th>found</th><th></th></tr></thead><tbody>",
    );
    for target in &results.targets {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&target.what),
            escaped(&target.wanted),
            escaped(&target.found),
            if target.met {
                "<span class=\"good\">met</span>"
            } else {
                "<span class=\"bad\">missed</span>"
            }
        );
    }
    html.push_str("</tbody></table></div>\n");
}

/// What was run, how, and what it does not show.
pub(crate) fn method(html: &mut String, results: &Results) {
    let method = &results.method;
    let fair = match method.fair_cpus {
        [1, 1] => "one CPU".to_owned(),
        [first, second] if first == second => format!("{first} CPUs"),
        [first, second] => format!("{first} and {second} CPUs"),
    };
    let _ = write!(
        html,
        "<h2>What was measured</h2>\n<div class=\"prose\">\
         <p>Two programs are started side by side, and each one’s time is taken from its start \
         (under mapper that of <code>mapper-launch</code>) to its end. Their work was chosen so \
         that each takes {:.1} s alone on a fair share of the machine ({fair}). Each repetition runs every pair under every setting, in an order that changes, so \
         that a disturbance meets all settings alike.</p><dl>",
        method.calibrated_s
    );
    let interval = method.interval_ms;
    for (setting, what) in [
        (
            Setting::Plain,
            "each program starts as many threads as there are CPUs".to_owned(),
        ),
        (
            Setting::Passive,
            "the same with <code>OMP_WAIT_POLICY=passive</code>: waiting threads sleep at once"
                .to_owned(),
        ),
        (
            Setting::Static,
            "each program on CPUs of its own with as many threads, from start to end; what the \
             promise is measured against"
                .to_owned(),
        ),
        (
            Setting::Fixed,
            format!(
                "mapper’s default, deciding every {interval} ms: a program keeps the number of \
                 threads that fits the CPUs it got at launch, so its results are those of any \
                 conforming run"
            ),
        ),
        (
            Setting::Follow,
            "<code>--teams follow</code>: each parallel region starts with as many threads as the \
             program has CPUs; for programs that tolerate <code>OMP_DYNAMIC=true</code>"
                .to_owned(),
        ),
        (
            Setting::Virtual,
            "<code>--teams virtual</code>: the program keeps all the threads it expects, carried \
             by as many threads of the system as it has CPUs"
                .to_owned(),
        ),
    ] {
        let measured = |pair: &PairResult| pair.settings.contains_key(&setting);
        if !results.pairs.iter().any(measured) {
            continue;
        }
        let _ = write!(html, "<dt>{}</dt><dd>{what}</dd>", setting.title());
    }
    html.push_str("</dl><p></p><p>A speedup over a setting is the time there divided by the time \
         here. The programs, all small enough to run in seconds, were written for this demo:</p><dl>");
    let mut programs: Vec<Program> = PAIRS
        .iter()
        .flat_map(|pair| pair.entrants)
        .map(|entrant| entrant.program)
        .collect();
    programs.sort_unstable();
    programs.dedup();
    for program in programs {
        let _ = write!(
            html,
            "<dt><code>{}</code></dt><dd>{}</dd>",
            program.name(),
            escaped(program.summary())
        );
    }
    let _ = writeln!(
        html,
        "</dl><p></p><p>What this does not show: other programs, other machines, and more than \
         two programs at a time. With so few repetitions, differences of a few per cent are \
         noise. Plain Linux loses most where threads spin at barriers while the thread they wait \
         for is not running; a user who sets passive waiting gets that part without mapper, which \
         is why both comparisons are shown. {}</p></div>",
        if method.repetitions_done < method.repetitions_wanted {
            format!(
                "Of {} repetitions asked for, {} fitted into the time.",
                method.repetitions_wanted, method.repetitions_done
            )
        } else {
            String::new()
        }
    );
}

/// Where the figures come from.
pub(crate) fn machine(html: &mut String, results: &Results) {
    let machine = &results.machine;
    let disturbance = &results.disturbance;
    html.push_str("<h2>Machine</h2>\n<dl>");
    let mut row = |name: &str, value: &str| {
        let _ = write!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escaped(name),
            escaped(value)
        );
    };
    row("processor", &machine.cpu);
    row(
        "CPUs",
        &format!(
            "{}{}",
            machine.cpus,
            if machine.virtual_machine {
                ", in a virtual machine"
            } else {
                ""
            }
        ),
    );
    if let Some(kib) = machine.l3_kib {
        row("last-level cache", &format!("{} MiB", kib / 1024));
    }
    row("memory", &format!("{} MiB", machine.memory_mib));
    row("kernel", &machine.kernel);
    row("compilers", &machine.compilers.join("; "));
    row("mapper", &machine.revision);
    row(
        "load average before",
        &format!("{:.2}", machine.load_average_before),
    );
    row(
        "meanwhile",
        &format!(
            "other processes used {:.2} CPUs on average, the hypervisor took {:.2}",
            disturbance.other_processes_cpus, disturbance.stolen_cpus
        ),
    );
    row(
        "time taken",
        &format!("{:.0} s of measuring", results.elapsed_s),
    );
    html.push_str("</dl>\n");
}
