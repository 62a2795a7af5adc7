//! Worlds of channels.
//!
//! **What is simulated.** One to three people, strangers and crowds of strangers write to one or two bots and, in some
//! worlds, to a third whose sending is done by others; the provider hands each update in until it is taken, several at
//! once, again, in any order, and now and then with another payload. The real webhook code takes them in, the real
//! objects answer, and the real consumer and sweep send, each in a process of its own that may die at any await, with
//! clocks that are off by up to a minute and a half. The provider takes messages, wants fewer (when it is told to, and
//! whenever one message a second for a chat or thirty for a bot are exceeded), refuses, loses chats, moves them, does
//! not understand formatting, knows only a new token, has faults, answers nonsense, never answers (having taken the
//! message or not), and breaks off before, after and in the middle. Orders to send are lost, doubled, late, of another
//! epoch and of earlier versions; sweeps overlap and stay away. Meanwhile switches are thrown, gateways suspended,
//! tokens replaced, chats unbound and bound to other people, people and families suspended, revisions moved, keys
//! destroyed, epochs bumped, rows set aside, let go, ended and shortened.
//!
//! **What counts as failure.** [`harness::channels`] checks when a claim commits that nothing forbade it, and when a
//! send begins that it has a claim of its own, in time. At rest, every update is on record once with exactly its
//! repetitions, every turn and every row has ended or was set aside, the words of a person went only to chats that were
//! theirs when the send was claimed, an answer stands in the outbox whole and in order and was taken in that order, a
//! turn succeeded exactly when the provider took all of it, whoever wrote and got no answer was told so, and the ledger
//! of attempts says of each what the provider says: what it took is on record as accepted, or as in doubt; a message was
//! taken twice only where an attempt was in doubt. Where nothing goes wrong, the provider never finds the pace too fast.

use domain::guard::Guard;
use harness::channels::many::live;
use harness::channels::plan::{Act, Plan, Say, Step, Whom};
use harness::channels::provider::ProviderRates;
use harness::channels::run;
use harness::network::FaultRates;
use harness::queue::QueueRates;
use harness::world::plan::ModelRates;
use harness::world::record::Report;

/// `scripts/sim` goes through more of them.
const SEEDS: u64 = 1_000;

#[test]
fn a_thousand_worlds_of_channels_keep_every_rule() {
    let mut total = Report::default();
    let mut failed = 0;
    for report in live(0..SEEDS, None) {
        total.add(&report);
        failed += usize::from(!report.violations.is_empty());
        for violation in &report.violations {
            println!("seed {}: {violation}", report.seed);
        }
    }
    println!("{SEEDS} seeds: {} turns, {} batches", total.turns, total.batches);
    println!("turns ended: {:?}", total.turn_endings);
    println!("rows, attempts and updates ended: {:?}", total.request_endings);
    println!("guards that refused: {:?}", total.refusals);
    assert_eq!(failed, 0, "worlds that broke a rule");
    check_variety(&total);
}

/// The worlds must not be so rough that nothing works in them, nor so smooth that nothing is tried.
fn check_variety(total: &Report) {
    let count = |of: &str| {
        let all = total.turn_endings.iter().chain(&total.request_endings);
        all.filter(|(ending, _)| ending.starts_with(of))
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    for ending in [
        "terminal_success",
        "terminal_failure delivery_cancelled",
        "terminal_failure delivery_expired",
        "terminal_failure delivery_failed",
        "terminal_failure generation_failed",
        "terminal_failure subject_deleted",
        "attempt accepted",
        "attempt ambiguous broke_off",
        "attempt ambiguous lease_lost",
        "attempt ambiguous not_understood",
        "attempt ambiguous stalled",
        "attempt gone blocked",
        "attempt gone chat_not_found",
        "attempt not_started",
        "attempt rejected content_unreadable",
        "attempt retry bad_formatting",
        "attempt retry moved",
        "attempt retry server_error",
        "attempt retry too_many_requests",
        "attempt retry unauthorized",
        "row cancelled earlier_part_failed",
        "row cancelled withdrawn",
        "row expired",
        "row provider_accepted",
        "update answered",
        "update helped",
        "update ignored",
        "update link_refused",
        "update linked",
        "update stopped",
        "update turn",
        "update unlinked",
    ] {
        assert!(count(ending) > 3, "{ending}: only {}", count(ending));
    }
    for guard in [Guard::IngressUnused, Guard::SenderCurrent, Guard::LinkCodeLive] {
        let refused = total.refusals.get(&guard).copied().unwrap_or(0);
        assert!(refused > 3, "{} refused only {refused} times", guard.label());
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 1_415] {
        let (first, second) = (run(&Plan::of(seed), None), run(&Plan::of(seed), None));
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }
}

/// A calm world of one person, one bot and these acts.
fn calm(steps: Vec<Step>) -> Plan {
    Plan {
        seed: 0,
        users: 1,
        bots: 1,
        outside: false,
        slowest: 0,
        faults: FaultRates::default(),
        queue: QueueRates::default(),
        provider: ProviderRates::default(),
        model: ModelRates::default(),
        deaths: 0,
        skewed: 0,
        stalls: 0,
        sweeps: 0,
        acks_lost: 0,
        life: None,
        steps,
    }
}

fn says(at: i64, what: Say) -> Step {
    Step {
        at,
        act: Act::Say { chat: 0, what },
    }
}

/// Somebody dies at each step of two messages, one of which is answered in parts, and nothing is lost.
fn dies_at_every_step(steps: u32, death: impl Fn(u32) -> Act) -> Report {
    let mut total = Report::default();
    for after in 0..steps {
        let act = death(after);
        let plan = calm(vec![Step { at: 0, act }, says(1, Say::AtLength), says(2, Say::Words)]);
        for seed in 0..3 {
            let report = run(&Plan { seed, ..plan.clone() }, None);
            let first = report.violations.first();
            assert!(
                first.is_none(),
                "step {after}, seed {seed}: {}",
                first.expect("a violation")
            );
            assert_eq!(report.turn_endings["terminal_success"], 2, "step {after}, seed {seed}");
            total.add(&report);
        }
    }
    total
}

fn lost_leases(report: &Report) -> u64 {
    report
        .request_endings
        .get("attempt ambiguous lease_lost")
        .copied()
        .unwrap_or(0)
}

#[test]
fn the_sender_dies_at_every_step() {
    let whom = Whom::Sender;
    let total = dies_at_every_step(80, |after| Act::Kill { whom, after });
    assert!(
        lost_leases(&total) > 20,
        "only {} sends were cut off",
        lost_leases(&total)
    );
}

#[test]
fn the_edge_the_object_and_the_sweep_die_at_every_step() {
    for whom in [Whom::Edge, Whom::Sweep] {
        dies_at_every_step(60, |after| Act::Kill { whom, after });
    }
    let total = dies_at_every_step(80, |after| Act::KillObject { user: 0, after });
    assert!(total.killed > 50, "only {} objects died", total.killed);
}

/// A claim that its sender had given up for lost and sent again arrived after its copy: it closed the attempts that were
/// going on under its own token and opened others beside them.
#[test]
fn a_claim_that_arrives_after_its_copy() {
    let mut plan = calm((0..4).map(|at| says(2_000 * at, Say::Words)).collect());
    plan.slowest = 20;
    plan.faults.late = 200;
    plan.faults.request_lost = 200;
    for seed in 0..150 {
        let report = run(&Plan { seed, ..plan.clone() }, None);
        let first = report.violations.first();
        assert!(first.is_none(), "seed {seed}: {}", first.expect("a violation"));
    }
}
