//! The plots of a report.

use mapper_report::plot::{Bar, BarGroup, Sample, bars, shares_over_time};
use maud::Markup;

use super::tables::{digits, value};
use crate::data::program::Unit;
use crate::result::report::{MixResult, Results};

/// Mean speed over the first baseline: a bar for every setting of every mix, with its interval.
pub(crate) fn speeds(results: &Results) -> anyhow::Result<Option<Markup>> {
    let Some(baseline) = results.method.as_ref().and_then(|of| of.baselines.first()) else {
        return Ok(None);
    };
    let of_mix = |mix: &MixResult| BarGroup {
        name: mix.name.clone(),
        bars: mix
            .settings
            .iter()
            .filter(|of| of.setting != *baseline)
            .filter_map(|of| {
                let speed = *of.over.get(baseline)?;
                Some(Bar {
                    colour: results.setting(&of.setting)?.colour,
                    value: speed.estimate.value,
                    label: value(Some(speed)),
                    interval: Some([speed.estimate.low, speed.estimate.high]),
                    samples: Vec::new(),
                })
            })
            .collect(),
    };
    let groups: Vec<BarGroup> = results
        .mixes
        .iter()
        .map(of_mix)
        .filter(|of| !of.bars.is_empty())
        .collect();
    if groups.is_empty() {
        return Ok(None);
    }
    let unit = format!("speed over {}", results.title_of(baseline));
    bars(&groups, &unit, Some(1.0)).map(Some)
}

/// The times of each program of a mix under every setting: medians as bars, runs as circles. Colours are those of
/// the programs by their places.
pub(crate) fn times(mix: &MixResult, results: &Results) -> anyhow::Result<Markup> {
    let groups: Vec<BarGroup> =
        mix.settings
            .iter()
            .map(|of| {
                let programs = mix.programs.iter().zip(&of.programs).enumerate();
                let bars = programs.filter(|(_, (member, _))| member.unit == Unit::Seconds);
                BarGroup {
                    name: results.title_of(&of.setting).to_owned(),
                    bars: bars
                        .filter_map(|(at, (_, program))| {
                            let cost = program.cost?;
                            let costs = of.runs.iter().filter_map(|run| {
                                run.programs.get(at)?.cost.in_unit(Unit::Seconds)
                            });
                            Some(Bar {
                                colour: at,
                                value: cost.value,
                                label: digits(cost.value),
                                interval: None,
                                samples: costs.collect(),
                            })
                        })
                        .collect(),
                }
            })
            .collect();
    bars(&groups, "seconds, lower is better", None)
}

/// The CPUs of each program over time, under each setting where they were recorded.
pub(crate) fn timelines(mix: &MixResult, results: &Results) -> anyhow::Result<Vec<NamedPlot>> {
    let recorded: Vec<_> = mix
        .settings
        .iter()
        .filter_map(|of| Some((of, of.runs.iter().find_map(|run| run.timeline.as_ref())?)))
        .collect();
    let ends = recorded
        .iter()
        .filter_map(|(_, timeline)| timeline.samples.last());
    let until_s = ends.map(|sample| sample.at_s).fold(0.0, f64::max);
    let colours: Vec<usize> = (0..mix.programs.len()).collect();
    let cpus = u32::try_from(results.machine.cpus)?;
    recorded
        .into_iter()
        .map(|(of, timeline)| {
            let sample = |held: &Option<u32>| held.unwrap_or(0);
            let samples: Vec<Sample> = timeline
                .samples
                .iter()
                .map(|of| Sample {
                    at_s: of.at_s,
                    held: of.cpus.iter().map(sample).collect(),
                })
                .collect();
            Ok(NamedPlot {
                name: results.title_of(&of.setting).to_owned(),
                plot: shares_over_time(&samples, &colours, cpus, until_s)?,
            })
        })
        .collect()
}

/// A plot with what stands above it.
pub(crate) struct NamedPlot {
    pub(crate) name: String,
    pub(crate) plot: Markup,
}
