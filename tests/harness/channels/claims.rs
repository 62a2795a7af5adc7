//! The rules of sending that are checked the moment they could be broken: when a batch that claims rows commits, and
//! when a sender begins to send.
//!
//! **A claim is the permit.** None is committed while anything forbids it: a switch, another epoch, a gateway that is
//! not open to the claimant, its pace or the lane's, a time that has not come or is over, somebody else's lease, an
//! earlier row of the lane, or a person, an address or a leave to speak that is not what it was when the row was made.
//! A send starts only under a claim of its own, once, before the row expires and early enough to end within the lease.
//! So what is forbidden later can only meet sends that were claimed before, and those end within that lease.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use domain::outbox::policy::{LEASE_MARGIN, TELEGRAM};
use domain::outbox::template::Template;
use domain::sql::{Row, Statement, Value};

use super::callers::Callers;
use super::places::{CHANNEL, Places};
use super::provider::{Sent, Telegram, Verdict};
use crate::executor::WORLD_START;
use crate::sqlite::Database;
use crate::world::model::Calls;
use crate::world::people::People;
use crate::world::watch::Watch;

/// An open row as it was when somebody last wrote to the outbox.
#[derive(Clone)]
struct Seen {
    lease_token: Option<String>,
    lease_until: Option<i64>,
    due: i64,
    status: String,
}

/// One attempt, as its claim committed it.
#[derive(Debug, Clone)]
pub struct Claim {
    pub outbox_id: String,
    pub attempt_no: i64,
    pub gateway: usize,
    pub caller: u64,
    pub lease_until: i64,
    pub expires_at: i64,
    /// Where it is to go, and whose chat that was.
    pub chat: Option<String>,
    pub owner: Option<usize>,
    pub text: Option<String>,
    /// The request to the provider.
    pub sent: Option<usize>,
    /// Another one of the same wave took the same words to the same chat, so that nobody can tell their requests apart:
    /// that chat had moved, and stood in two lanes.
    pub twin: bool,
}

/// Clones are the same.
#[derive(Clone)]
pub struct Claims(Rc<Inner>);

struct Inner {
    people: Rc<People>,
    places: Rc<Places>,
    telegram: Telegram,
    calls: Calls,
    watch: Watch,
    callers: Callers,
    rows: RefCell<BTreeMap<String, Seen>>,
    /// When each lane and each gateway may be claimed next.
    paces: RefCell<BTreeMap<String, i64>>,
    claims: RefCell<Vec<Claim>>,
}

const ROWS: &str = "SELECT outbox_id, status, lease_token, lease_expires_at, max(next_attempt_at, not_before) AS due
                    FROM outbound_messages WHERE terminal_at IS NULL";

const PACES: &str =
    "SELECT lane AS place, next_at FROM send_lanes UNION ALL SELECT gateway_id, next_at FROM send_pacing";

const CLAIMED: &str = "
SELECT o.*, a.attempt_no, a.started_at, (SELECT epoch FROM meta) AS epoch,
  (SELECT count(*) FROM send_switches s WHERE s.enabled = 0 AND (s.scope = 'global'
     OR (s.scope = 'channel' AND s.target = o.channel) OR (s.scope = 'gateway' AND s.target = o.gateway_id))) AS off,
  (SELECT count(*) FROM outbound_messages e WHERE e.lane = o.lane AND e.lane_no < o.lane_no AND e.terminal_at IS NULL
     AND e.status <> 'quarantined') AS earlier,
  g.status = 'active' AS gateway_active, g.channel_token_sealed IS NOT NULL AS gateway_ours,
  d.external_hash AS address_hash,
  o.user_id IS NULL OR (u.status = 'active' AND f.status = 'active'
    AND u.authorization_revision = o.authorization_revision
    AND (o.address_id IS NULL OR (d.status = 'active' AND d.user_id = o.user_id))
    AND EXISTS (SELECT 1 FROM gateway_families p WHERE p.gateway_id = o.gateway_id AND p.family_id = u.family_id))
    AS authorized
FROM outbound_messages o
JOIN gateways g ON g.gateway_id = o.gateway_id
LEFT JOIN outbound_attempts a ON a.outbox_id = o.outbox_id AND a.lease_token = o.lease_token
LEFT JOIN users u ON u.user_id = o.user_id
LEFT JOIN families f ON f.family_id = u.family_id
LEFT JOIN channel_addresses d ON d.address_id = o.address_id
WHERE o.outbox_id = ?1";

impl Claims {
    pub fn new(
        people: Rc<People>,
        places: Rc<Places>,
        telegram: Telegram,
        calls: Calls,
        callers: Callers,
        watch: Watch,
    ) -> Self {
        Self(Rc::new(Inner {
            people,
            places,
            telegram,
            calls,
            watch,
            callers,
            rows: RefCell::default(),
            paces: RefCell::default(),
            claims: RefCell::default(),
        }))
    }

    pub fn all(&self) -> Vec<Claim> {
        self.0.claims.borrow().clone()
    }

    /// Looks at a batch that just committed.
    pub fn look(&self, database: &Database, batch: &[Statement], caller: u64) {
        let writes = |statement: &Statement| {
            let sql = statement.sql.trim_start();
            !sql.starts_with("SELECT") && (sql.contains("outbound_messages") || sql.contains("send_"))
        };
        if batch.iter().any(writes) {
            self.refresh(database, caller);
        }
    }

    /// Takes note of what stands in the outbox, and checks what was claimed meanwhile.
    pub fn refresh(&self, database: &Database, caller: u64) {
        let mut now = BTreeMap::new();
        let mut claimed = Vec::new();
        let mut before = self.0.rows.borrow_mut();
        for row in database.query(ROWS, &[]) {
            let id = row.text("outbox_id").expect("an id").to_owned();
            let seen = Seen {
                lease_token: row
                    .optional_text("lease_token")
                    .expect("a token or NULL")
                    .map(str::to_owned),
                lease_until: row.optional_integer("lease_expires_at").expect("a time or NULL"),
                due: row.integer("due").expect("a time"),
                status: row.text("status").expect("a status").to_owned(),
            };
            let prior = before.remove(&id);
            if seen.lease_token.is_some()
                && prior.as_ref().and_then(|one| one.lease_token.as_ref()) != seen.lease_token.as_ref()
            {
                claimed.push((id.clone(), prior.clone()));
            }
            // A sender's lease may be renewed.
            let held = prior.as_ref().is_some_and(|one| one.lease_token == seen.lease_token);
            if let (true, Some(until)) = (held, seen.lease_until) {
                let mut claims = self.0.claims.borrow_mut();
                let claim = claims.iter_mut().rev().find(|claim| claim.outbox_id == id);
                claim.into_iter().for_each(|claim| claim.lease_until = until);
            }
            now.insert(id, seen);
        }
        *before = now;
        drop(before);
        for (id, prior) in &claimed {
            let rows = database.query(CLAIMED, &[id.as_str().into()]);
            self.check_claim(database, &rows[0], prior.as_ref(), caller);
        }
        let mut paces = self.0.paces.borrow_mut();
        paces.clear();
        for row in database.query(PACES, &[]) {
            paces.insert(
                row.text("place").expect("a place").to_owned(),
                row.integer("next_at").expect("a time"),
            );
        }
    }

    fn check_claim(&self, database: &Database, row: &Row, prior: Option<&Seen>, number: u64) {
        let text = |column: &str| row.text(column).expect("text");
        let integer = |column: &str| row.integer(column).unwrap_or_default();
        let flag = |column: &str| row.optional_integer(column) == Ok(Some(1));
        let id = text("outbox_id");
        let watch = &self.0.watch;
        let caller = self.0.callers.get(number);
        let Ok(now) = row.integer("started_at") else {
            return watch.wrong("attempt_first", format!("{id} was claimed without an attempt"));
        };
        let pace = |place: &str| self.0.paces.borrow().get(place).copied().unwrap_or(0);
        let rules: [(&'static str, bool); 10] = [
            ("switched_off", integer("off") == 0),
            ("old_epoch", caller.epoch.is_none_or(|epoch| epoch == integer("epoch"))),
            (
                "gateway_shut",
                flag("gateway_active") && flag("gateway_ours") != caller.outside,
            ),
            ("gateway_pace", caller.outside || pace(text("gateway_id")) <= now),
            (
                "not_due",
                prior.is_some_and(|one| one.status == "leased" || one.due <= now),
            ),
            ("expired", integer("expires_at") > now),
            (
                "leased",
                prior
                    .is_some_and(|one| one.status != "quarantined" && one.lease_until.is_none_or(|until| until <= now)),
            ),
            ("lane_order", integer("earlier") == 0),
            ("lane_pace", pace(text("lane")) <= now),
            ("unauthorized", flag("authorized")),
        ];
        for (rule, held) in rules {
            watch.that(held, rule, || {
                format!("{id} was claimed, attempt {}", integer("attempt_no"))
            });
        }
        let gateway = self
            .0
            .places
            .gateway(text("gateway_id"))
            .expect("a gateway of this world");
        self.check_flood(database, gateway, now, id);
        let chat = self.destination(row, gateway);
        let claim = Claim {
            outbox_id: id.to_owned(),
            attempt_no: integer("attempt_no"),
            gateway,
            caller: number,
            lease_until: integer("lease_expires_at"),
            expires_at: integer("expires_at"),
            owner: chat.as_ref().and_then(|chat| self.owner(database, gateway, chat)),
            chat,
            text: self.words(database, row),
            sent: None,
            twin: false,
        };
        self.0.claims.borrow_mut().push(claim);
    }

    /// What the provider asked for holds for the whole gateway, from when its answer was put on record.
    fn check_flood(&self, database: &Database, gateway: usize, now: i64, id: &str) {
        let sent = self.0.telegram.sent();
        for claim in self.0.claims.borrow().iter().filter(|claim| claim.gateway == gateway) {
            let Some(Some((arrived, Verdict::Flood { seconds, .. }))) = claim.sent.map(|number| sent[number].arrived)
            else {
                continue;
            };
            let until = WORLD_START + arrived + seconds * 1_000 + self.0.callers.get(claim.caller).behind;
            if now >= until {
                continue;
            }
            let sql =
                "SELECT 1 AS v FROM outbound_attempts WHERE outbox_id = ?1 AND attempt_no = ?2 AND outcome = 'retry'";
            let key = [
                claim.outbox_id.as_str().into(),
                Value::integer(claim.attempt_no).expect("a number"),
            ];
            let settled = !database.query(sql, &key).is_empty();
            self.0.watch.that(!settled, "flood_respected", || {
                format!(
                    "{id} was claimed {} ms before the provider's wait was over",
                    until - now
                )
            });
        }
    }

    /// Where the row goes by what is stored now.
    fn destination(&self, row: &Row, gateway: usize) -> Option<String> {
        let places = &self.0.places;
        if row.optional_text("address_id") != Ok(None) {
            let hash = row.optional_text("address_hash").ok()??;
            let id = &places.gateways[gateway].id;
            return Some(places.of_lane(&format!("{CHANNEL}/{id}/{hash}"))?.1);
        }
        let (_, chat) = places.of_lane(row.text("lane").ok()?)?;
        match row.flag("moved") {
            Ok(true) => self.0.telegram.moved(gateway, &chat),
            Ok(false) | Err(_) => Some(chat),
        }
    }

    fn owner(&self, database: &Database, gateway: usize, chat: &str) -> Option<usize> {
        let sql = "SELECT user_id FROM channel_addresses
                   WHERE gateway_id = ?1 AND external_hash = ?2 AND status = 'active'";
        let hash = self.0.places.hash(&self.0.people, gateway, chat);
        let rows = database.query(sql, &[(&self.0.places.gateways[gateway].id).into(), hash.into()]);
        let user = rows.first()?.text("user_id").ok()?.to_owned();
        self.0.people.all.iter().position(|person| person.user.as_str() == user)
    }

    /// The words of the row, as the world can read them.
    fn words(&self, database: &Database, row: &Row) -> Option<String> {
        let content = row.text("content_ref").expect("a reference");
        if row.text("content_kind") == Ok("template") {
            return Template::parse(content).map(|template| template.text().to_owned());
        }
        let user = row.text("user_id").ok()?;
        let user = self
            .0
            .people
            .all
            .iter()
            .position(|person| person.user.as_str() == user)?;
        let sql = "SELECT content_sealed FROM messages WHERE turn_id = ?1 AND role = 'assistant'";
        let rows = database.query(sql, &[content.into()]);
        let answer = self
            .0
            .people
            .read(user, content, "assistant", rows.first()?.blob("content_sealed").ok()?)?;
        let at = |column: &str| usize::try_from(row.integer(column).ok()?).ok();
        answer.get(at("content_from")?..at("content_to")?).map(str::to_owned)
    }

    /// A sender begins to send.
    pub fn sending(&self, database: &Database, number: usize) {
        let sent = self.0.telegram.sent()[number].clone();
        let watch = &self.0.watch;
        let mut claims = self.0.claims.borrow_mut();
        let fits = |claim: &&mut Claim| {
            claim.caller == sent.caller
                && claim.sent.is_none()
                && Some(claim.gateway) == sent.bot
                && claim.chat.as_ref() == Some(&sent.chat)
                && claim.text.as_ref().is_none_or(|text| *text == sent.text)
        };
        let mut fitting = claims.iter_mut().rev().filter(fits);
        let Some(claim) = fitting.next() else {
            return watch.wrong("sent_under_claim", format!("request {number} belongs to no claim"));
        };
        claim.sent = Some(number);
        if let Some(other) = fitting.next() {
            (claim.twin, other.twin) = (true, true);
        }
        let claim = claim.clone();
        drop(claims);
        self.check_send(database, &claim, &sent);
    }

    fn check_send(&self, database: &Database, claim: &Claim, sent: &Sent) {
        let watch = &self.0.watch;
        let id = &claim.outbox_id;
        let caller = self.0.callers.get(sent.caller);
        let now = WORLD_START + sent.began + caller.skew;
        watch.that(now < claim.expires_at, "sent_expired", || {
            format!("{id} was sent {} ms after it expired", now - claim.expires_at)
        });
        let least = TELEGRAM.deadline.saturating_add(LEASE_MARGIN).get();
        watch.that(now + least <= claim.lease_until, "sent_in_lease", || {
            format!("{id} was sent with {} ms left of its lease", claim.lease_until - now)
        });
        if !self.0.callers.is_skewed() {
            let sql = "SELECT 1 AS v FROM outbound_attempts
                       WHERE outbox_id = ?1 AND attempt_no = ?2 AND finished_at IS NULL";
            let key = [id.as_str().into(), Value::integer(claim.attempt_no).expect("a number")];
            watch.that(!database.query(sql, &key).is_empty(), "sent_under_claim", || {
                format!("{id}: attempt {} was over when it was sent", claim.attempt_no)
            });
        }
        for call in calls_in(&sent.text) {
            let user = self.0.calls.user(call);
            watch.that(user.is_some() && user == claim.owner, "isolation", || {
                format!("{id}: words for {user:?} went to a chat of {:?}", claim.owner)
            });
        }
    }
}

/// Which calls of the model a text came from: every line of an answer says it.
fn calls_in(text: &str) -> impl Iterator<Item = usize> {
    let numbers = text
        .split("call ")
        .skip(1)
        .map(|rest| rest.split(|char: char| !char.is_ascii_digit()).next());
    numbers.filter_map(|number| number?.parse().ok())
}
