//! The plots of a report.

use mapper_report::plot::{Bar, BarGroup, Sample, bars, shares_over_time};
use maud::Markup;

use super::tables::{digits, value};
use crate::data::Unit;
use crate::result::{MixResult, Results, SettingResult, TimelineSample};

/// Mean speed over the first baseline: a bar for every setting of every mix, with its interval.
pub(super) fn speeds(results: &Results) -> anyhow::Result<Option<Markup>> {
    let Some(baseline) = results.baselines().first() else {
        return Ok(None);
    };
    let bar = |of: &SettingResult| {
        let speed = *of.over.get(baseline)?;
        Some(Bar {
            colour: results.setting(&of.setting)?.colour,
            value: speed.estimate.value,
            label: value(Some(speed)),
            interval: Some([speed.estimate.low, speed.estimate.high]),
            samples: Vec::new(),
        })
    };
    let group = |mix: &MixResult| {
        let others = mix.settings.iter().filter(|of| of.setting != *baseline);
        BarGroup {
            name: mix.name.clone(),
            bars: others.filter_map(bar).collect(),
        }
    };
    let mut groups: Vec<BarGroup> = results.mixes.iter().map(group).collect();
    groups.retain(|of| !of.bars.is_empty());
    if groups.is_empty() {
        return Ok(None);
    }
    let unit = format!("speed over {}", results.title_of(baseline));
    bars(&groups, &unit, Some(1.0)).map(Some)
}

/// The times of each program of a mix under every setting: medians as bars, runs as circles. Colours are those of
/// the programs by their places.
pub(super) fn times(mix: &MixResult, results: &Results) -> anyhow::Result<Markup> {
    let bar = |of: &SettingResult, at: usize| {
        let cost = of.programs.get(at)?.cost?.value;
        let runs = of.runs.iter();
        let costs = runs.filter_map(|run| run.programs.get(at)?.cost.value());
        Some(Bar {
            colour: at,
            value: cost,
            label: digits(cost),
            interval: None,
            samples: costs.collect(),
        })
    };
    let group = |of: &SettingResult| {
        let timed = mix.places(Unit::Seconds).into_iter();
        BarGroup {
            name: results.title_of(&of.setting).to_owned(),
            bars: timed.filter_map(|at| bar(of, at)).collect(),
        }
    };
    let groups: Vec<BarGroup> = mix.settings.iter().map(group).collect();
    bars(&groups, "seconds, lower is better", None)
}

/// The CPUs of each program over time, under each setting where they were recorded, with its name.
pub(super) fn timelines<'a>(
    mix: &'a MixResult,
    results: &'a Results,
) -> anyhow::Result<Vec<(&'a str, Markup)>> {
    let recorded = mix.settings.iter().filter_map(|of| {
        let mut timelines = of.runs.iter().map(|run| &run.timeline);
        Some((of, timelines.find(|timeline| !timeline.is_empty())?))
    });
    let recorded: Vec<_> = recorded.collect();
    let ends = recorded.iter().filter_map(|(_, timeline)| timeline.last());
    let until_s = ends.map(|sample| sample.at_s).fold(0.0, f64::max);
    let colours: Vec<usize> = (0..mix.programs.len()).collect();
    let cpus = u32::try_from(results.machine.cpus)?;
    let sample = |of: &TimelineSample| Sample {
        at_s: of.at_s,
        held: of.cpus.iter().map(|held| held.unwrap_or(0)).collect(),
    };
    let plot = |(of, timeline): &(&'a SettingResult, &Vec<TimelineSample>)| {
        let samples: Vec<Sample> = timeline.iter().map(sample).collect();
        let plot = shares_over_time(&samples, &colours, cpus, until_s)?;
        Ok((results.title_of(&of.setting), plot))
    };
    recorded.iter().map(plot).collect()
}
