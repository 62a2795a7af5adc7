//! `sim --seeds N --from S [--drop-guard LABEL] [--shrink] [--quiet]`: lives worlds through and says what it found.
//! `sim --soak [--seeds N] [--from S]`: finds, for each guard, a world that breaks a rule without it.

use std::process::ExitCode;

use domain::guard::Guard;
use harness::world::many::{failing_seed, live};
use harness::world::plan::Plan;
use harness::world::record::Report;
use harness::world::shrink;

/// Reports are printed after each so many worlds.
const PORTION: u64 = 100;

struct Options {
    seeds: Option<u64>,
    from: u64,
    dropped: Option<Guard>,
    shrink: bool,
    quiet: bool,
    soak: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
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
            "--seeds" => options.seeds = Some(number(value()?)?),
            "--from" => options.from = number(value()?)?,
            "--drop-guard" => {
                let label = value()?;
                options.dropped = Some(Guard::from_label(&label).ok_or_else(|| format!("no guard {label}"))?);
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

/// Prints for each guard a world that breaks a rule without it; false when one is not missed.
fn soak(options: &Options) -> bool {
    let mut all_needed = true;
    let seeds = options.seeds.unwrap_or(4_000);
    for guard in Guard::ALL {
        match failing_seed(options.from..options.from + seeds, *guard) {
            Some((seed, rule)) => println!("guard {}: failing seed {seed} ({rule})", guard.label()),
            None => {
                println!("guard {}: none of {seeds} worlds misses it", guard.label());
                all_needed = false;
            }
        }
    }
    all_needed
}

fn walk(options: &Options) -> bool {
    let mut total = Report::default();
    let mut failed = Vec::new();
    let seeds = options.seeds.unwrap_or(100);
    let end = options.from + seeds;
    let mut turns = Vec::new();
    for from in (options.from..end).step_by(PORTION as usize) {
        for report in live(from..end.min(from + PORTION), options.dropped) {
            print(&report, options.quiet);
            total.add(&report);
            turns.push(report.turns);
            let Some(first) = report.violations.first() else {
                continue;
            };
            failed.push(report.seed);
            if options.shrink {
                let small = shrink(&Plan::of(report.seed), first.rule, options.dropped);
                println!("smallest plan that still breaks {}:\n{small:#?}", first.rule);
            }
        }
    }
    println!(
        "{seeds} seeds from {}: {} turns, {} model calls, {} objects killed, {} batches, {} steps",
        options.from, total.turns, total.model_calls, total.killed, total.batches, total.steps
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
    println!("requests ended: {:?}", total.request_endings);
    println!("guards that refused: {:?}", total.refusals);
    println!("failing seeds: {failed:?}");
    failed.is_empty()
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\nusage: sim [--soak] --seeds N --from S [--drop-guard LABEL] [--shrink] [--quiet]");
            return ExitCode::from(2);
        }
    };
    let good = if options.soak { soak(&options) } else { walk(&options) };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
