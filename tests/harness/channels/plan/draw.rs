//! Drawing a plan from a seed.

use super::{Act, Manner, Plan, STRANGERS, Say, Scope, Step, one};
use crate::channels::provider::{Outage, ProviderRates};
use crate::network::FaultRates;
use crate::queue::QueueRates;
use crate::rng::Rng;
use crate::world::plan::ModelRates;

const MINUTE: i64 = 60_000;

impl Plan {
    /// The world of `seed`.
    pub fn of(seed: u64) -> Self {
        let rng = Rng::new(seed ^ 0x0c4a_77e1_5eed_0003);
        let users = 1 + rng.below(3);
        let bots = 1 + rng.below(2);
        let outside = rng.chance(300);
        let mut plan = Self {
            seed,
            users,
            bots,
            outside,
            slowest: *rng.pick(&[0, 5, 20, 200]),
            faults: *rng.pick(&[
                FaultRates::default(),
                FaultRates {
                    unreachable: 10,
                    overloaded: 5,
                    request_lost: 10,
                    reply_lost: 20,
                    late: 5,
                },
                FaultRates {
                    unreachable: 60,
                    overloaded: 30,
                    request_lost: 40,
                    reply_lost: 80,
                    late: 30,
                },
            ]),
            queue: *rng.pick(&[
                QueueRates::default(),
                QueueRates {
                    refused: 100,
                    lost: 100,
                    doubled: 200,
                    late: 200,
                },
            ]),
            provider: provider(&rng),
            model: *rng.pick(&[
                ModelRates::default(),
                ModelRates {
                    slow: 100,
                    stall: 20,
                    fail: 100,
                    break_off: 50,
                },
            ]),
            deaths: *rng.pick(&[0, 50, 200]),
            skewed: *rng.pick(&[0, 0, 0, 200]),
            stalls: *rng.pick(&[0, 0, 30]),
            sweeps: *rng.pick(&[0, 0, 300]),
            acks_lost: *rng.pick(&[0, 50, 300]),
            life: rng.chance(60).then(|| *rng.pick(&[800, 3_000, 20_000])),
            steps: Vec::new(),
        };
        plan.steps = steps(&rng, &plan);
        plan
    }
}

fn provider(rng: &Rng) -> ProviderRates {
    *rng.pick(&[
        ProviderRates::default(),
        ProviderRates {
            flood: 30,
            fault: 30,
            garbage: 20,
            stall: 20,
            stall_taken: 30,
            reset: 20,
            answer_lost: 40,
            unformatted: 100,
        },
        ProviderRates {
            flood: 60,
            fault: 100,
            garbage: 50,
            stall: 50,
            stall_taken: 100,
            reset: 100,
            answer_lost: 100,
            unformatted: 300,
        },
        // So silent that messages are given up.
        ProviderRates {
            stall: 300,
            stall_taken: 300,
            garbage: 100,
            ..ProviderRates::default()
        },
    ])
}

fn steps(rng: &Rng, plan: &Plan) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = 0;
    let trouble = rng.below(3);
    for _ in 0..rng.between(4, 14) {
        at += match rng.below(10) {
            0..=4 => rng.between(0, 100),
            5..=7 => rng.between(0, 5_000),
            8 => rng.between(0, 30_000),
            _ => rng.between(0, 5 * MINUTE),
        };
        let act = everyday(rng, plan);
        steps.push(Step { at, act });
        if rng.below(3) < trouble {
            for (later, act) in troubles(rng, plan) {
                let at = at + rng.between(0, 3_000) + later;
                steps.push(Step { at, act });
            }
        }
    }
    steps.sort_by_key(|step| step.at);
    steps
}

/// A chat, mostly that of somebody who is known.
fn some_chat(rng: &Rng, plan: &Plan) -> usize {
    if rng.chance(800) {
        one(rng, plan.gateways()) * (plan.users + STRANGERS) + one(rng, plan.users)
    } else {
        one(rng, plan.chats())
    }
}

fn everyday(rng: &Rng, plan: &Plan) -> Act {
    let chat = some_chat(rng, plan);
    match rng.below(20) {
        0..=10 => Act::Say { chat, what: Say::Words },
        11..=13 => Act::Say {
            chat,
            what: Say::AtLength,
        },
        14 | 15 => Act::Say {
            chat,
            what: *rng.pick(&[
                Say::Sticker,
                Say::Edited,
                Say::Callback,
                Say::Group,
                Say::Bot,
                Say::TooLong,
                Say::Unknown,
                Say::Help,
                Say::Stop,
            ]),
        },
        16 => Act::Link {
            user: one(rng, plan.users),
            chat,
            also: rng.chance(400).then(|| one(rng, plan.chats())),
            spoilt: rng.chance(200),
        },
        17 => Act::Again {
            nth: rng.below(20),
            changed: rng.chance(300),
        },
        18 if plan.outside => Act::Fetch {
            manner: *rng.pick(&[
                Manner::Honest,
                Manner::Honest,
                Manner::Silent,
                Manner::Failing,
                Manner::Confused,
            ]),
        },
        18 | 19 if rng.chance(300) => Act::DeliverAll,
        _ => Act::Deliver {
            gateway: one(rng, plan.gateways()),
            copies: 1 + rng.below(3) as u32,
        },
    }
}

/// What goes wrong, each after so many milliseconds.
fn troubles(rng: &Rng, plan: &Plan) -> Vec<(i64, Act)> {
    match rng.below(8) {
        0 => with_objects(rng, plan),
        1 | 2 => with_people(rng, plan),
        3 | 4 => with_gateways(rng, plan),
        5 => at_the_provider(rng, plan),
        _ => with_rows(rng, plan),
    }
}

fn with_objects(rng: &Rng, plan: &Plan) -> Vec<(i64, Act)> {
    let user = one(rng, plan.users);
    let gateway = one(rng, plan.gateways());
    let skew = Act::Skew {
        user,
        millis: *rng.pick(&[-90_000, -1_000, 1_000, 90_000]),
    };
    match rng.below(7) {
        0 | 1 => now(Act::KillObject {
            user,
            after: rng.below(60) as u32,
        }),
        2 => now(Act::Split { user }),
        3 => vec![(0, Act::Split { user }), (0, skew)],
        4 => now(Act::OldMessages { user, gateway }),
        5 => now(Act::Outage {
            millis: rng.between(100, 60_000),
        }),
        _ => vec![(0, Act::Sweep), (0, Act::Sweep)],
    }
}

fn with_people(rng: &Rng, plan: &Plan) -> Vec<(i64, Act)> {
    let (user, chat) = (one(rng, plan.users), some_chat(rng, plan));
    let soon = rng.between(0, 90_000);
    let family = |active| Act::Family { user, active };
    match rng.below(8) {
        0 | 1 => now(Act::Revise { user }),
        2 => vec![(0, Act::Suspend { user }), (soon, Act::Reinstate { user })],
        3 => vec![(0, family(false)), (soon, family(true))],
        4 => now(Act::DestroyKey { user }),
        5 => now(Act::Unlink { chat }),
        6 => now(Act::BumpEpoch),
        _ => now(Act::Link {
            user,
            chat,
            also: None,
            spoilt: false,
        }),
    }
}

fn with_gateways(rng: &Rng, plan: &Plan) -> Vec<(i64, Act)> {
    let (user, gateway) = (one(rng, plan.users), one(rng, plan.gateways()));
    let soon = rng.between(0, 90_000);
    let scope = *rng.pick(&[Scope::Global, Scope::Channel, Scope::Gateway(gateway)]);
    let told = rng.chance(300);
    let open = |active| Act::Gateway { gateway, active };
    let policy = |allowed| Act::Policy { gateway, user, allowed };
    match rng.below(6) {
        0 | 1 => vec![
            (0, Act::Switch { scope, on: false }),
            (soon, Act::Switch { scope, on: true }),
        ],
        2 => vec![(0, open(false)), (soon, open(true))],
        3 => vec![(0, policy(false)), (soon, policy(true))],
        4 => vec![(0, Act::NewToken { gateway, told }), (soon, Act::MendToken { gateway })],
        _ => now(Act::Crowd {
            gateway,
            count: *rng.pick(&[8, 40]),
        }),
    }
}

fn at_the_provider(rng: &Rng, plan: &Plan) -> Vec<(i64, Act)> {
    let (chat, gateway) = (some_chat(rng, plan), one(rng, plan.gateways()));
    let soon = rng.between(0, 90_000);
    let block = |blocked| Act::Block { chat, blocked };
    match rng.below(6) {
        0 => vec![(0, block(true)), (soon, block(false))],
        1 => now(Act::ChatGone { chat }),
        2 => now(Act::Migrate { chat }),
        3 => now(Act::Flood {
            gateway,
            millis: rng.between(500, 40_000),
        }),
        _ => now(Act::ProviderOutage {
            millis: if rng.chance(50) {
                6 * 60 * MINUTE
            } else {
                rng.between(100, 120_000)
            },
            how: *rng.pick(&[Outage::Unreachable, Outage::Silent, Outage::Faulty]),
        }),
    }
}

fn with_rows(rng: &Rng, plan: &Plan) -> Vec<(i64, Act)> {
    let gateway = one(rng, plan.gateways());
    let (nth, soon) = (rng.below(6), rng.between(0, 90_000));
    let millis = if rng.chance(500) {
        rng.between(-100, 1_000)
    } else {
        rng.between(-1_000, 20_000)
    };
    match rng.below(4) {
        0 => vec![(0, Act::Quarantine { nth }), (soon, Act::Requeue)],
        1 => now(Act::Withdraw { nth }),
        _ => vec![
            (0, Act::Shorten { nth, millis }),
            (soon, Act::Deliver { gateway, copies: 2 }),
        ],
    }
}

fn now(act: Act) -> Vec<(i64, Act)> {
    vec![(0, act)]
}
