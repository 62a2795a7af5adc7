//! Whole worlds, each from one seed. Those of channels have a page of their own ([`channels`]).
//!
//! **What is simulated.** The real rules, the real SQL text and the real `UserTurns` objects, sweep and queue consumer
//! run natively over an in-memory SQLite that behaves as D1 does. Everything around them is played by the harness and
//! decided by the seed: one to four users, two to a family, whose clients send messages with fresh and used idempotency
//! keys, the same body and another one, alone and in crowds, as JSON and streaming, to conversations of their own and
//! of others; hang up at any moment; ask again; acknowledge; look at turns, their own and others'. A gateway hands in
//! messages of the same people on another channel. The way to the database is slow, loses requests and replies, refuses
//! for overload, delivers a batch long after its sender gave up, and is cut off for minutes at a time. The model is
//! quick, slow, silent, broken, or breaks off half-way. Objects die at any await, with all that they had in memory, or
//! panic and live on; two or more copies of one object live at once, over one alarm and one ledger; their clocks jump
//! and disagree. The sweep comes every minute and overlaps with itself, purges, and wraps the data keys anew after a
//! change of the master secret; sweeps and the edge's last step die as well; queue messages are lost, doubled and late;
//! alarms are late. Users, families and the gateway are revised, suspended and reinstated, tokens revoked, data keys
//! destroyed and the epoch moved, each in the middle of anything.
//!
//! **What counts as failure.** Some rules are checked at the moment a batch commits: no turn is accepted with a token
//! that is stale then, nothing is written under a destroyed key or an old epoch, no generation starts while another
//! holds a lease that lasts or while an older turn waits, no one but the holder of such a lease ends its turn, and no
//! batch ever meets a constraint or cannot be understood. The rest is checked once the world has come to rest: every
//! client has gone, all trouble has ended, and within three quarters of an hour (an answer waits ten minutes to be
//! taken, a clock was at most fifteen ahead) every turn must have ended and every line be free. Each history of events
//! must be one that the transition table allows and must lead to the stored status, numbered without gaps. At most two
//! calls of the model for a turn, the second only when nothing was shown of the first; each call given exactly the
//! earlier messages of its session. Arrival numbers without gaps; each answer writes the revision right after the one
//! it read; sessions split at 30:00.000 and not a millisecond before. Every client that was told an answer was told the
//! stored one, by every road; what was shown is the beginning of it, or the turn is on record as failed; a client that
//! was told to use a new key never finds an answer under the old one. No user's words reach another in any answer or
//! prompt. No one waits for ever.
//!
//! **What does not.** That a turn fails, when the failure is on record. That a client is told to come back. That work
//! is done twice where only the second time counts. Restores that take back what was committed, another shard, and
//! requests as bytes are not simulated here; tokens are taken as verified.
//!
//! A seed decides everything, so a failure is replayed by `scripts/sim --seeds 1 --from SEED` and made small with
//! `--shrink`; small ones become tests in [`reproduction`].

mod channels;
mod every_await;
mod reproduction;
mod soak;

use domain::guard::Guard;
use harness::world::many::live;
use harness::world::plan::Plan;
use harness::world::record::Report;
use harness::world::run;

/// `scripts/sim` goes through more of them.
const SEEDS: u64 = 1_000;

#[test]
fn a_thousand_worlds_keep_every_rule() {
    let mut total = Report::default();
    let mut failed = 0;
    for report in live(0..SEEDS, None) {
        total.add(&report);
        failed += usize::from(!report.violations.is_empty());
        for violation in &report.violations {
            println!("seed {}: {violation}", report.seed);
        }
    }
    println!(
        "{SEEDS} seeds: {} turns, {} model calls, {} batches",
        total.turns, total.model_calls, total.batches
    );
    println!("turns ended: {:?}", total.turn_endings);
    println!("requests ended: {:?}", total.request_endings);
    assert_eq!(failed, 0, "worlds that broke a rule");
    // The worlds must not be so rough that nothing works in them, nor so smooth that nothing is tried.
    assert!(total.turns as u64 > 8 * SEEDS, "only {} turns", total.turns);
    for ending in [
        "terminal_success",
        "terminal_failure deadline_exceeded",
        "terminal_failure generation_failed",
        "terminal_failure generation_lost",
        "terminal_failure generation_timeout",
        "terminal_failure response_not_committed",
        "terminal_failure subject_deleted",
    ] {
        let count = total.turn_endings.get(ending).copied().unwrap_or(0);
        assert!(count > 10, "{ending}: only {count}");
    }
    let answered = total.request_endings.get("answered").copied().unwrap_or(0);
    assert!(answered > 4 * SEEDS, "only {answered} requests were answered");
    let of_channels = [Guard::IngressUnused, Guard::SenderCurrent, Guard::LinkCodeLive];
    for guard in Guard::ALL.iter().filter(|guard| !of_channels.contains(guard)) {
        let count = total.refusals.get(guard).copied().unwrap_or(0);
        assert!(count > 10, "{} refused only {count} times", guard.label());
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 1_415] {
        let (first, second) = (run(&Plan::of(seed), None), run(&Plan::of(seed), None));
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }
}
