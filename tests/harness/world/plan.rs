//! What happens in one world. A plan is data: it can be drawn from a seed, written down, and made smaller.

use crate::network::FaultRates;
use crate::queue::QueueRates;
use crate::rng::Rng;
use crate::shrink::Smaller;

/// One whole world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Decides everything that the plan leaves open: delays, faults, the order of ready tasks.
    pub seed: u64,
    pub users: usize,
    /// The longest way to the database, one way, in milliseconds.
    pub slowest: i64,
    pub faults: FaultRates,
    pub queue: QueueRates,
    pub model: ModelRates,
    /// Out of 1,000 alarms, how many come late.
    pub late_alarms: u32,
    pub line_max: usize,
    /// Out of 1,000 calls of the model and as many passed checkpoints, how many panic.
    pub panics: u32,
    /// In any order; each at its time.
    pub steps: Vec<Step>,
}

/// How often the model does each thing, out of 1,000 calls. The rest of the time it answers quickly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelRates {
    /// Answers, but only after up to 50 seconds.
    pub slow: u32,
    /// Never answers.
    pub stall: u32,
    /// Refuses at once.
    pub fail: u32,
    /// Streams a part and then breaks off.
    pub break_off: u32,
}

/// Something that is done to the world, `at` milliseconds after it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: i64,
    pub act: Act,
}

impl Step {
    /// The same, done to or by the first user.
    pub fn of_first_user(&self) -> Self {
        let mut step = self.clone();
        match &mut step.act {
            Act::Send(send) => send.user = 0,
            Act::Acknowledge { user, .. }
            | Act::View { user, .. }
            | Act::Kill { user, .. }
            | Act::Split { user }
            | Act::Skew { user, .. }
            | Act::Revise { user }
            | Act::Suspend { user }
            | Act::Reinstate { user }
            | Act::Family { user, .. }
            | Act::RevokeTokens { user }
            | Act::DestroyKey { user }
            | Act::Wake { user } => *user = 0,
            Act::RevokeAllTokens | Act::ReviseGateway | Act::BumpEpoch | Act::Outage { .. } | Act::Sweep => {}
        }
        step
    }
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A client sends a message and stays with it until it knows how it ended, or leaves.
    Send(Send),
    /// A client says that it rendered the answer under this key.
    Acknowledge { user: usize, key: u32 },
    /// A client asks how the turn under this key stands.
    View { user: usize, key: u32 },
    /// All copies of the user's object die after this many further steps of the world.
    Kill { user: usize, after: u32 },
    /// A second copy of the user's object comes to life beside the first.
    Split { user: usize },
    /// The clock of the user's newest copy is off by this much from now on.
    Skew { user: usize, millis: i64 },
    /// The user's authorization revision moves: every token of theirs is stale.
    Revise { user: usize },
    /// The user is suspended.
    Suspend { user: usize },
    /// The user is active again.
    Reinstate { user: usize },
    /// The user's family is suspended, or active again.
    Family { user: usize, active: bool },
    /// Tokens that the user has by now no longer count.
    RevokeTokens { user: usize },
    /// Tokens that anyone has by now no longer count.
    RevokeAllTokens,
    /// The gateway's authorization revision moves.
    ReviseGateway,
    /// The user's data key is destroyed.
    DestroyKey { user: usize },
    /// The epoch moves, as after a restore.
    BumpEpoch,
    /// Every living copy of the user's object looks for unfinished work.
    Wake { user: usize },
    /// For this long the database cannot be reached.
    Outage { millis: i64 },
    /// One more sweep than the one of every minute.
    Sweep,
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    pub user: usize,
    /// The idempotency key.
    pub key: u32,
    /// Which body: the same key with another variant is another request.
    pub variant: u32,
    pub stream: bool,
    pub leave: Leave,
    /// How often the client tries again, with the same key and body, when it was not told how it ended.
    pub retries: u32,
    /// Waits first until this long after the user's last message, to meet the boundary of a session.
    pub after_last: Option<i64>,
    /// Uses the token that the sender had at the beginning.
    pub old_token: bool,
    /// A gateway hands the message in, on another channel, instead of the user's own client.
    pub gateway: bool,
    pub conversation: Conversation,
}

/// Which conversation a message names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversation {
    Unnamed,
    /// The user's own on this channel, once there is one.
    Own,
    /// One of another user, or of the same user on another channel.
    Foreign,
}

/// When a client hangs up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    Never,
    /// After this many milliseconds.
    After(i64),
    /// Once it has this many frames.
    AfterFrames(u32),
}

const MINUTE: i64 = 60_000;

impl Plan {
    /// The world of `seed`.
    pub fn of(seed: u64) -> Self {
        let rng = Rng::new(seed ^ 0x5eed_0f4e_120d_0017);
        let users = 1 + rng.below(4);
        let mut steps = steps(&rng, users);
        let disputed = rng.chance(150);
        if disputed {
            steps.extend(disputed_end(&rng));
            steps.sort_by_key(|step| step.at);
        }
        Self {
            seed,
            users,
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
            model: *rng.pick(&[
                ModelRates {
                    slow: 500 * u32::from(disputed),
                    ..ModelRates::default()
                },
                ModelRates {
                    slow: 150,
                    stall: 30,
                    fail: 50,
                    break_off: 50,
                },
                ModelRates {
                    slow: 400,
                    stall: 100,
                    fail: 100,
                    break_off: 150,
                },
            ]),
            late_alarms: *rng.pick(&[0, 0, 300]),
            line_max: *rng.pick(&[32, 32, 2]),
            panics: *rng.pick(&[0, 0, 15]),
            steps,
        }
    }
}

impl Smaller for Plan {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn seeded(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    fn length(&self) -> usize {
        self.steps.len()
    }

    fn without(&self, at: usize, count: usize) -> Self {
        let mut plan = self.clone();
        plan.steps.drain(at..at + count);
        plan
    }

    fn calmer(&self) -> Vec<Self> {
        let less = |change: fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            plan
        };
        vec![
            less(|plan| plan.faults = FaultRates::default()),
            less(|plan| plan.queue = QueueRates::default()),
            less(|plan| plan.model = ModelRates::default()),
            less(|plan| plan.late_alarms = 0),
            less(|plan| plan.slowest = 0),
            less(|plan| {
                plan.users = 1;
                plan.steps = plan.steps.iter().map(Step::of_first_user).collect();
            }),
        ]
    }
}

fn steps(rng: &Rng, users: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = 0;
    let mut keys = 0_u32;
    let trouble = rng.below(3);
    for _ in 0..rng.between(6, 24) {
        at += match rng.below(10) {
            0..=4 => rng.between(0, 40),
            5..=7 => rng.between(0, 20_000),
            8 => rng.between(0, 3 * MINUTE),
            _ => rng.between(20 * MINUTE, 40 * MINUTE),
        };
        let user = rng.below(users);
        steps.push(Step {
            at,
            act: Act::Send(send(rng, user, &mut keys)),
        });
        if rng.below(4) < trouble {
            let at = at + rng.between(0, 5_000);
            for act in troubles(rng, user, keys) {
                steps.push(Step { at, act });
            }
        }
    }
    steps.sort_by_key(|step| step.at);
    steps
}

fn send(rng: &Rng, user: usize, keys: &mut u32) -> Send {
    // Mostly a fresh key; else one that was used before, by this user or another.
    let fresh = *keys == 0 || rng.chance(700);
    if fresh {
        *keys += 1;
    }
    Send {
        user,
        key: if fresh {
            *keys
        } else {
            1 + rng.below(*keys as usize) as u32
        },
        variant: u32::from(!fresh && rng.chance(200)),
        stream: rng.chance(500),
        leave: match rng.below(8) {
            0 => Leave::After(rng.between(0, 3_000)),
            1 => Leave::AfterFrames(rng.below(4) as u32),
            _ => Leave::Never,
        },
        retries: rng.below(4) as u32,
        after_last: rng.chance(80).then(|| 30 * MINUTE + rng.between(-3, 2)),
        old_token: rng.chance(60),
        gateway: rng.chance(150),
        conversation: match rng.below(20) {
            0 | 1 => Conversation::Own,
            2 => Conversation::Foreign,
            _ => Conversation::Unnamed,
        },
    }
}

fn troubles(rng: &Rng, user: usize, keys: u32) -> Vec<Act> {
    let key = 1 + rng.below(keys.max(1) as usize) as u32;
    match rng.below(21) {
        0..=3 => vec![Act::Kill {
            user,
            after: rng.below(60) as u32,
        }],
        4..=6 => vec![Act::Split { user }],
        7 => vec![
            Act::Split { user },
            Act::Skew {
                user,
                millis: rng.between(-15 * MINUTE, 15 * MINUTE),
            },
        ],
        8 => vec![Act::Skew {
            user,
            millis: *rng.pick(&[-90_000, -1_000, 1_000, 90_000]),
        }],
        9 => vec![Act::Revise { user }],
        10 => vec![Act::Suspend { user }],
        11 => vec![Act::Reinstate { user }],
        12 => vec![Act::DestroyKey { user }],
        13 => vec![Act::BumpEpoch],
        14 => vec![Act::Sweep, Act::Sweep],
        16 => vec![Act::Family { user, active: false }],
        17 => vec![Act::Family { user, active: true }, Act::Reinstate { user }],
        18 => vec![Act::RevokeTokens { user }, Act::ReviseGateway],
        19 => vec![Act::RevokeAllTokens],
        15 => vec![Act::Outage {
            millis: rng.between(100, 120_000),
        }],
        _ => vec![Act::Acknowledge { user, key }, Act::View { user, key }],
    }
}

/// A turn is interrupted, nothing can be done about it for ten minutes, and then two copies of the object whose clocks
/// differ a little look at it at the same moment: one finds that it may be repeated, the other that it is too late.
fn disputed_end(rng: &Rng) -> Vec<Step> {
    let begin = rng.between(0, 60_000);
    let skew = rng.between(1_000, 50_000);
    let look = begin + 10 * MINUTE - skew / 2;
    let message = Send {
        user: 0,
        key: 1_000,
        variant: 0,
        stream: false,
        leave: Leave::Never,
        retries: 0,
        after_last: None,
        old_token: false,
        gateway: false,
        conversation: Conversation::Unnamed,
    };
    let dies = begin + rng.between(500, 4_000);
    let acts = [
        (begin, Act::Send(message)),
        (dies, Act::Kill { user: 0, after: 0 }),
        (
            dies,
            Act::Outage {
                millis: look - dies - 1,
            },
        ),
        (look - 5_000, Act::Kill { user: 0, after: 0 }),
        (look - 4_000, Act::Split { user: 0 }),
        (look - 3_000, Act::Split { user: 0 }),
        (look - 3_000, Act::Skew { user: 0, millis: skew }),
        (look, Act::Wake { user: 0 }),
    ];
    acts.into_iter().map(|(at, act)| Step { at, act }).collect()
}
