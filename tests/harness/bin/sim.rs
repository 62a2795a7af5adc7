//! `sim [--world NAME] --seeds N --from S [--drop LABEL] [--shrink] [--quiet]`: lives worlds through and says what it
//! found. `sim --soak [--world NAME] [--seeds N] [--from S]`: finds, for each condition of the database, a world that
//! breaks a rule without it.

use std::process::ExitCode;

use harness::channels::Dropped;
use harness::kinds::{KINDS, Kind, conditions, dropped, failing_world, label};
use harness::world::record::Report;

/// Reports are printed after each so many worlds.
const PORTION: u64 = 100;

struct Options {
    kinds: Vec<Kind>,
    seeds: Option<u64>,
    from: u64,
    dropped: Option<Dropped>,
    shrink: bool,
    quiet: bool,
    soak: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        kinds: KINDS.to_vec(),
        seeds: None,
        from: 0,
        dropped: None,
        shrink: false,
        quiet: false,
        soak: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is not a number"));
        match argument.as_str() {
            "--world" => {
                let name = value()?;
                let kind = KINDS.iter().find(|kind| kind.name() == name);
                options.kinds = vec![*kind.ok_or_else(|| format!("no world is called {name}"))?];
            }
            "--seeds" => options.seeds = Some(number(value()?)?),
            "--from" => options.from = number(value()?)?,
            "--drop" => {
                let label = value()?;
                options.dropped = Some(dropped(&label).ok_or_else(|| format!("no guard or fence {label}"))?);
            }
            "--shrink" => options.shrink = true,
            "--soak" => options.soak = true,
            "--quiet" => options.quiet = true,
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

fn print(report: &Report, quiet: bool) {
    if !quiet || !report.violations.is_empty() {
        let verdict = if report.violations.is_empty() { "ok" } else { "FAILED" };
        println!(
            "seed {}: {} turns, {} model calls, {} batches {verdict}",
            report.seed, report.turns, report.model_calls, report.batches
        );
    }
    for violation in &report.violations {
        println!("  {violation}");
    }
}

/// Prints for each condition a world that breaks a rule without it; false when one is not missed.
fn soak(options: &Options) -> bool {
    let mut all_needed = true;
    let seeds = options.seeds.unwrap_or(4_000);
    for condition in conditions() {
        let seeds = options.from..options.from + seeds;
        match failing_world(&options.kinds, seeds.clone(), condition) {
            Some((kind, seed, rule)) => {
                println!(
                    "{}: failing seed {seed} of the world of {} ({rule})",
                    label(condition),
                    kind.name()
                );
            }
            None => {
                println!("{}: no world of the seeds {seeds:?} misses it", label(condition));
                all_needed = false;
            }
        }
    }
    all_needed
}

fn walk(options: &Options, kind: Kind) -> bool {
    let mut total = Report::default();
    let mut failed = Vec::new();
    let seeds = options.seeds.unwrap_or(100);
    let end = options.from + seeds;
    let mut turns = Vec::new();
    for from in (options.from..end).step_by(PORTION as usize) {
        for report in kind.live(from..end.min(from + PORTION), options.dropped) {
            print(&report, options.quiet);
            total.add(&report);
            turns.push(report.turns);
            let Some(first) = report.violations.first() else {
                continue;
            };
            failed.push(report.seed);
            if options.shrink {
                let small = kind.shrink(report.seed, first.rule, options.dropped);
                println!("smallest plan that still breaks {}:\n{small}", first.rule);
            }
        }
    }
    println!(
        "{}: {seeds} seeds from {}: {} turns, {} model calls, {} objects killed, {} batches, {} steps",
        kind.name(),
        options.from,
        total.turns,
        total.model_calls,
        total.killed,
        total.batches,
        total.steps
    );
    turns.sort_unstable();
    let at = |place: usize| turns.get(place).copied().unwrap_or(0);
    println!(
        "turns per seed: {} to {}, half of them at least {}",
        at(0),
        at(turns.len().saturating_sub(1)),
        at(turns.len() / 2)
    );
    println!("turns ended: {:?}", total.turn_endings);
    println!("{}: {:?}", kind.what_else_ended(), total.request_endings);
    println!("guards that refused: {:?}", total.refusals);
    println!("failing seeds: {failed:?}");
    failed.is_empty()
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!(
                "{error}\nusage: sim [--soak] [--world NAME] --seeds N --from S [--drop LABEL] [--shrink] [--quiet]"
            );
            return ExitCode::from(2);
        }
    };
    let mut good = true;
    if options.soak {
        good = soak(&options);
    } else {
        for kind in options.kinds.clone() {
            good &= walk(&options, kind);
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
