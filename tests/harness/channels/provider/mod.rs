//! A Telegram of the world's own: what its Bot API takes, refuses and loses, and what it remembers of it.

mod accidents;
mod port;
mod replies;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use serde_json::{Value, json};

use crate::executor::Executor;
use crate::http::Reply;

pub use port::TelegramHttp;
use replies::{broken, error, flood};

/// A bot may send this many messages in any second.
const BOT_PER_SECOND: usize = 30;

/// Between two messages to one chat, and the time in which a bot's messages are counted.
const INTERVAL: i64 = 1_000;

const TEXT_MAX_UTF16: usize = 4_096;

/// How often the provider does each thing, out of 1,000 requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProviderRates {
    /// Wants to be left alone for some seconds.
    pub flood: u32,
    /// Answers with a fault of its own, as a web page.
    pub fault: u32,
    /// Answers 200 with what is no answer, having taken the message or not.
    pub garbage: u32,
    /// Takes nothing and never answers.
    pub stall: u32,
    /// Takes it and never answers.
    pub stall_taken: u32,
    /// Breaks the connection with nothing taken.
    pub reset: u32,
    /// Takes it, and the answer is lost on the way or half-way.
    pub answer_lost: u32,
    /// Does not understand the formatting.
    pub unformatted: u32,
}

/// How the provider is out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    Unreachable,
    Silent,
    Faulty,
}

/// What the provider did with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It took the message.
    Taken {
        message_id: i64,
    },
    /// It wants fewer messages: because it was told to want that, or because its own limits were broken.
    Flood {
        seconds: i64,
        earned: bool,
    },
    /// It will never take it.
    Refused,
    Moved,
    Unformatted,
    Unauthorized,
    /// It took nothing, and something may have been heard of that.
    Nothing,
}

/// One request to send a message.
#[derive(Debug, Clone)]
pub struct Sent {
    /// When the sender began.
    pub began: i64,
    /// Who sent it, as the database's callers are counted.
    pub caller: u64,
    /// The bot whose token it came with, of today or of the past.
    pub bot: Option<usize>,
    pub chat: String,
    pub text: String,
    /// When it arrived and what was done; nothing when it is still on its way.
    pub arrived: Option<(i64, Verdict)>,
}

impl Sent {
    /// Whether the provider took it.
    pub fn taken(&self) -> Option<i64> {
        match self.arrived {
            Some((_, Verdict::Taken { message_id })) => Some(message_id),
            _ => None,
        }
    }
}

struct Bot {
    /// The one that works stands last.
    tokens: Vec<String>,
    held_until: i64,
    /// When it sent last.
    recent: VecDeque<i64>,
}

#[derive(Default)]
struct Chat {
    blocked: bool,
    gone: bool,
    moved_to: Option<String>,
    last: Option<i64>,
}

/// The provider. Clones are the same.
#[derive(Clone)]
pub struct Telegram(Rc<Inner>);

struct Inner {
    executor: Executor,
    rates: Cell<ProviderRates>,
    slowest: Cell<i64>,
    outage: Cell<(i64, Outage)>,
    bots: RefCell<Vec<Bot>>,
    chats: RefCell<BTreeMap<(usize, String), Chat>>,
    sent: RefCell<Vec<Sent>>,
    messages: Cell<i64>,
    on_send: RefCell<Option<OnSend>>,
}

/// Called at the moment a sender begins to send, with the number of the request.
pub type OnSend = Box<dyn Fn(usize)>;

impl Telegram {
    pub fn new(executor: Executor, rates: ProviderRates, slowest: i64) -> Self {
        Self(Rc::new(Inner {
            executor,
            rates: Cell::new(rates),
            slowest: Cell::new(slowest),
            outage: Cell::new((0, Outage::Unreachable)),
            bots: RefCell::default(),
            chats: RefCell::default(),
            sent: RefCell::default(),
            messages: Cell::new(4_000),
            on_send: RefCell::default(),
        }))
    }

    /// One more bot.
    pub fn add_bot(&self, token: &str) {
        self.0.bots.borrow_mut().push(Bot {
            tokens: vec![token.to_owned()],
            held_until: 0,
            recent: VecDeque::new(),
        });
    }

    /// From now on only this token works for the bot.
    pub fn replace_token(&self, bot: usize, token: &str) {
        self.0.bots.borrow_mut()[bot].tokens.push(token.to_owned());
    }

    /// The token that works.
    pub fn token(&self, bot: usize) -> String {
        self.0.bots.borrow()[bot].tokens.last().expect("a token").clone()
    }

    /// For this long, everything the bot sends is too much.
    pub fn flood(&self, bot: usize, millis: i64) {
        self.0.bots.borrow_mut()[bot].held_until = self.0.executor.elapsed() + millis;
    }

    pub fn fail_for(&self, millis: i64, how: Outage) {
        self.0.outage.set((self.0.executor.elapsed() + millis, how));
    }

    pub fn block(&self, bot: usize, chat: &str, blocked: bool) {
        self.chat(bot, chat, |chat| chat.blocked = blocked);
    }

    pub fn lose_chat(&self, bot: usize, chat: &str) {
        self.chat(bot, chat, |chat| chat.gone = true);
    }

    pub fn move_chat(&self, bot: usize, chat: &str, to: &str) {
        self.chat(bot, chat, |chat| chat.moved_to = Some(to.to_owned()));
    }

    /// The id under which the chat goes on, if it has moved.
    pub fn moved(&self, bot: usize, chat: &str) -> Option<String> {
        let chats = self.0.chats.borrow();
        chats.get(&(bot, chat.to_owned()))?.moved_to.clone()
    }

    /// Everything works again; what was moved stays moved.
    pub fn heal(&self) {
        self.0.rates.set(ProviderRates::default());
        self.0.outage.set((0, Outage::Unreachable));
        for chat in self.0.chats.borrow_mut().values_mut() {
            chat.blocked = false;
        }
    }

    pub fn on_send(&self, hook: OnSend) {
        *self.0.on_send.borrow_mut() = Some(hook);
    }

    pub fn shut_down(&self) {
        *self.0.on_send.borrow_mut() = None;
    }

    /// Every request so far, in the order in which they were begun.
    pub fn sent(&self) -> std::cell::Ref<'_, Vec<Sent>> {
        self.0.sent.borrow()
    }

    fn chat(&self, bot: usize, chat: &str, change: impl FnOnce(&mut Chat)) {
        change(self.0.chats.borrow_mut().entry((bot, chat.to_owned())).or_default());
    }

    /// A request is on its way.
    fn begin(&self, url: &str, body: &[u8], caller: u64) -> usize {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let token = url
            .split("/bot")
            .nth(1)
            .and_then(|rest| rest.strip_suffix("/sendMessage"))
            .unwrap_or_default();
        let bots = self.0.bots.borrow();
        let sent = Sent {
            began: self.0.executor.elapsed(),
            caller,
            bot: bots
                .iter()
                .position(|bot| bot.tokens.iter().any(|known| known == token)),
            chat: match &body["chat_id"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
            text: body["text"].as_str().unwrap_or_default().to_owned(),
            arrived: None,
        };
        drop(bots);
        let number = self.0.sent.borrow().len();
        self.0.sent.borrow_mut().push(sent);
        if let Some(hook) = &*self.0.on_send.borrow() {
            hook(number);
        }
        number
    }

    /// The request of this number has arrived; what goes back.
    fn arrive(&self, number: usize, url: &str, formatted: bool) -> Reply {
        let now = self.0.executor.elapsed();
        let (bot, chat, text) = {
            let sent = self.0.sent.borrow();
            let sent = &sent[number];
            (sent.bot, sent.chat.clone(), sent.text.clone())
        };
        let (verdict, reply) = self.decide(now, bot, url, &chat, &text, formatted);
        self.0.sent.borrow_mut()[number].arrived = Some((now, verdict));
        let back = self.0.executor.rng().between(0, self.0.slowest.get());
        Reply {
            head_after: reply.head_after + back,
            ..reply
        }
    }

    fn decide(
        &self,
        now: i64,
        bot: Option<usize>,
        url: &str,
        chat: &str,
        text: &str,
        formatted: bool,
    ) -> (Verdict, Reply) {
        let (outage_until, outage) = self.0.outage.get();
        if now < outage_until {
            return (Verdict::Nothing, broken(outage));
        }
        let Some(bot) = bot.filter(|bot| url.contains(&self.token(*bot))) else {
            return (Verdict::Unauthorized, error(401, "Unauthorized", json!({})));
        };
        if let Some(refused) = self.flooded(now, bot).or_else(|| self.accident()) {
            return refused;
        }
        let mut chats = self.0.chats.borrow_mut();
        let state = chats.entry((bot, chat.to_owned())).or_default();
        if let Some(to) = &state.moved_to {
            let to: i64 = to.parse().expect("a number");
            let moved = error(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                json!({"migrate_to_chat_id": to}),
            );
            return (Verdict::Moved, moved);
        }
        let refusal = if state.blocked {
            Some(error(403, "Forbidden: bot was blocked by the user", json!({})))
        } else if state.gone {
            Some(error(400, "Bad Request: chat not found", json!({})))
        } else if text.is_empty() {
            Some(error(400, "Bad Request: message text is empty", json!({})))
        } else if text.encode_utf16().count() > TEXT_MAX_UTF16 {
            Some(error(400, "Bad Request: message is too long", json!({})))
        } else {
            None
        };
        if let Some(reply) = refusal {
            return (Verdict::Refused, reply);
        }
        let rates = self.0.rates.get();
        let rng = self.0.executor.rng();
        if formatted && rng.chance(rates.unformatted) {
            let reply = error(
                400,
                "Bad Request: can't parse entities: Can't find end of the entity",
                json!({}),
            );
            return (Verdict::Unformatted, reply);
        }
        let too_soon = state.last.is_some_and(|last| now - last < self.interval());
        if too_soon || self.bot_is_full(now, bot) {
            let verdict = Verdict::Flood {
                seconds: 1,
                earned: true,
            };
            return (verdict, flood(1));
        }
        state.last = Some(now);
        self.0.bots.borrow_mut()[bot].recent.push_back(now);
        let message_id = self.0.messages.get() + 1;
        self.0.messages.set(message_id);
        (Verdict::Taken { message_id }, self.answer(message_id, chat, text))
    }

    fn flooded(&self, now: i64, bot: usize) -> Option<(Verdict, Reply)> {
        let rng = self.0.executor.rng();
        let mut bots = self.0.bots.borrow_mut();
        let bot = &mut bots[bot];
        if now >= bot.held_until && rng.chance(self.0.rates.get().flood) {
            bot.held_until = now + rng.between(1, 40) * 1_000;
        }
        let seconds = (bot.held_until - now + 999) / 1_000;
        let verdict = Verdict::Flood { seconds, earned: false };
        (seconds > 0).then(|| (verdict, flood(seconds)))
    }

    /// Senders are paced when they claim, and what was claimed takes its time to arrive: the way of the claim there and
    /// back, and that of the message. The provider looks at its limits no closer than that.
    fn interval(&self) -> i64 {
        INTERVAL - 3 * self.0.slowest.get()
    }

    fn bot_is_full(&self, now: i64, bot: usize) -> bool {
        let mut bots = self.0.bots.borrow_mut();
        let recent = &mut bots[bot].recent;
        while recent.front().is_some_and(|at| now - at >= self.interval()) {
            recent.pop_front();
        }
        recent.len() >= BOT_PER_SECOND
    }
}
