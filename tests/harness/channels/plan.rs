//! What happens in one world of channels. A plan is data: drawn from a seed, written down, made smaller.

use super::provider::{Outage, ProviderRates};
use crate::network::FaultRates;
use crate::queue::QueueRates;
use crate::rng::Rng;
use crate::shrink::Smaller;
use crate::world::plan::ModelRates;

mod draw;

/// One whole world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Decides everything that the plan leaves open.
    pub seed: u64,
    /// Two to a family; each has a chat with every gateway.
    pub users: usize,
    /// Gateways that the service sends for.
    pub bots: usize,
    /// One more gateway, whose sending is done by others.
    pub outside: bool,
    /// The longest way to the database or to the provider, one way, in milliseconds.
    pub slowest: i64,
    pub faults: FaultRates,
    pub queue: QueueRates,
    pub provider: ProviderRates,
    pub model: ModelRates,
    /// Out of 1,000 runs of an edge, a sender or a sweep, how many die somewhere on their way.
    pub deaths: u32,
    /// Out of 1,000 senders and edges, how many have a clock that is off.
    pub skewed: u32,
    /// Out of 1,000 named places that a sender passes, at how many it is held up for up to 80 seconds.
    pub stalls: u32,
    /// Out of 1,000 minutes, how many no sweep comes in, and as many times two come.
    pub sweeps: u32,
    /// Out of 1,000 answers to the provider's updates, how many are lost, so that the update comes again.
    pub acks_lost: u32,
    /// How long a message is worth sending, where that is shorter than what a reply has.
    pub life: Option<i64>,
    /// In any order; each at its time.
    pub steps: Vec<Step>,
}

/// Strangers who write to each gateway, each in a chat of their own.
pub const STRANGERS: usize = 2;

impl Plan {
    /// All gateways; an outside one stands last.
    pub fn gateways(&self) -> usize {
        self.bots + usize::from(self.outside)
    }

    /// All chats: for each gateway first those of the users, then those of strangers.
    pub fn chats(&self) -> usize {
        self.gateways() * (self.users + STRANGERS)
    }

    /// Whether nothing goes wrong on any way and no clock is off.
    pub fn is_calm(&self) -> bool {
        self.faults == FaultRates::default()
            && self.queue == QueueRates::default()
            && self.provider == ProviderRates::default()
            && self.deaths == 0
            && self.skewed == 0
            && self.stalls == 0
    }
}

/// Something that is done to the world, `at` milliseconds after it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: i64,
    pub act: Act,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Somebody writes in a chat.
    Say {
        chat: usize,
        what: Say,
    },
    /// So many strangers write to a bot at once.
    Crowd {
        gateway: usize,
        count: u32,
    },
    /// A person asks for a link code and sends it in a chat, whosever that was; perhaps in another at the same time.
    Link {
        user: usize,
        chat: usize,
        also: Option<usize>,
        spoilt: bool,
    },
    /// The provider delivers an update of the past again, the same or with another payload.
    Again {
        nth: usize,
        changed: bool,
    },
    /// A chat is unbound by an operator.
    Unlink {
        chat: usize,
    },
    /// A sending switch.
    Switch {
        scope: Scope,
        on: bool,
    },
    /// A gateway is suspended, or active again.
    Gateway {
        gateway: usize,
        active: bool,
    },
    /// A gateway may no longer, or again, speak for a user's family.
    Policy {
        gateway: usize,
        user: usize,
        allowed: bool,
    },
    /// The provider takes only a new token from now on; `told`: the operator has put it in before.
    NewToken {
        gateway: usize,
        told: bool,
    },
    /// The operator puts the working token in.
    MendToken {
        gateway: usize,
    },
    /// A person shuts the bot out, or lets it in again.
    Block {
        chat: usize,
        blocked: bool,
    },
    ChatGone {
        chat: usize,
    },
    /// The chat goes on under another id.
    Migrate {
        chat: usize,
    },
    /// The provider takes nothing from this bot for a while, and says so.
    Flood {
        gateway: usize,
        millis: i64,
    },
    ProviderOutage {
        millis: i64,
        how: Outage,
    },
    /// The next of these dies after so many further steps of the world from its beginning.
    Kill {
        whom: Whom,
        after: u32,
    },
    /// All copies of the user's object die after this many further steps.
    KillObject {
        user: usize,
        after: u32,
    },
    /// A second copy of the user's object.
    Split {
        user: usize,
    },
    /// The clock of the user's newest copy is off by this much.
    Skew {
        user: usize,
        millis: i64,
    },
    Revise {
        user: usize,
    },
    Suspend {
        user: usize,
    },
    Reinstate {
        user: usize,
    },
    Family {
        user: usize,
        active: bool,
    },
    DestroyKey {
        user: usize,
    },
    BumpEpoch,
    /// An operator sets aside one of the rows that are open.
    Quarantine {
        nth: usize,
    },
    /// An operator lets rows that were set aside go on.
    Requeue,
    /// An operator ends an open row.
    Withdraw {
        nth: usize,
    },
    /// An open row turns out to have less time than thought.
    Shorten {
        nth: usize,
        millis: i64,
    },
    /// So many orders to send for this gateway at once, beside those that the service gives itself.
    Deliver {
        gateway: usize,
        copies: u32,
    },
    /// One batch of orders to send for every gateway, twice each.
    DeliverAll,
    /// Messages of an earlier version, of an old epoch, and unreadable ones, on both queues.
    OldMessages {
        user: usize,
        gateway: usize,
    },
    /// An outside sender takes what is due for its gateway.
    Fetch {
        manner: Manner,
    },
    /// For this long the database cannot be reached.
    Outage {
        millis: i64,
    },
    /// One more sweep than the one of every minute.
    Sweep,
}

/// What somebody writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// A few words.
    Words,
    /// A question whose answer takes several messages.
    AtLength,
    /// What the service has no words for: a sticker, an edit, a press of a button, a group's message, a bot's, a
    /// message of no text, and one that is too long.
    Sticker,
    Edited,
    Callback,
    Group,
    Bot,
    TooLong,
    Unknown,
    Help,
    Stop,
}

/// Whose process it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// A consumer of the queue of sends.
    Sender,
    /// What takes a call of the webhook.
    Edge,
    Sweep,
}

/// What a switch is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Global,
    Channel,
    Gateway(usize),
}

/// How an outside sender behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Sends what it claimed and says so.
    Honest,
    /// Sends it and says nothing.
    Silent,
    /// Says that it failed this time.
    Failing,
    /// Says it again, and about what it does not hold.
    Confused,
}

impl Step {
    /// The same, done to the first user, chat and gateway.
    pub fn of_first(&self) -> Self {
        let mut step = self.clone();
        match &mut step.act {
            Act::Say { chat, .. }
            | Act::Unlink { chat }
            | Act::Block { chat, .. }
            | Act::ChatGone { chat }
            | Act::Migrate { chat } => *chat = 0,
            Act::Crowd { gateway, .. }
            | Act::Gateway { gateway, .. }
            | Act::NewToken { gateway, .. }
            | Act::MendToken { gateway }
            | Act::Flood { gateway, .. }
            | Act::Deliver { gateway, .. } => *gateway = 0,
            Act::Link { user, chat, also, .. } => (*user, *chat, *also) = (0, 0, None),
            Act::Policy { gateway, user, .. } | Act::OldMessages { user, gateway } => (*user, *gateway) = (0, 0),
            Act::KillObject { user, .. }
            | Act::Split { user }
            | Act::Skew { user, .. }
            | Act::Revise { user }
            | Act::Suspend { user }
            | Act::Reinstate { user }
            | Act::Family { user, .. }
            | Act::DestroyKey { user } => *user = 0,
            Act::Switch { scope, .. } => {
                if let Scope::Gateway(gateway) = scope {
                    *gateway = 0;
                }
            }
            Act::Again { .. }
            | Act::ProviderOutage { .. }
            | Act::BumpEpoch
            | Act::DeliverAll
            | Act::Quarantine { .. }
            | Act::Requeue
            | Act::Withdraw { .. }
            | Act::Shorten { .. }
            | Act::Fetch { .. }
            | Act::Kill { .. }
            | Act::Outage { .. }
            | Act::Sweep => {}
        }
        step
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
            less(|plan| plan.provider = ProviderRates::default()),
            less(|plan| plan.model = ModelRates::default()),
            less(|plan| (plan.deaths, plan.skewed, plan.stalls) = (0, 0, 0)),
            less(|plan| (plan.sweeps, plan.acks_lost) = (0, 0)),
            less(|plan| plan.slowest = 0),
            less(|plan| plan.life = None),
            less(|plan| {
                (plan.users, plan.bots, plan.outside) = (1, 1, false);
                plan.steps = plan.steps.iter().map(Step::of_first).collect();
            }),
        ]
    }
}

/// One of `count` things, by chance.
fn one(rng: &Rng, count: usize) -> usize {
    rng.below(count.max(1))
}
