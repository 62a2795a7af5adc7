//! The consumer of the sends queue: claim, send, settle, wave after wave, for each gateway of a batch in turn.
//!
//! It never fails as a whole, and losing any message of it is harmless: an order to send only says where to look.
//!
//! Every await, and why repeating it is safe:
//! 1. Sleeping until a gateway's pace allows the next wave writes nothing.
//! 2. Claiming takes rows that nobody holds, under a token minted for this claim. After a lost reply the rows are read
//!    back by the token; what a claim took that nobody heard of waits for its lease to end.
//! 3. Between claim and send a test may stop the program; the claimed rows wait for their leases to end.
//! 4. Sending is the one step that may show a person a message again. It is repeated only for a row that was claimed
//!    anew, which puts the earlier attempt on record as ambiguous, and only as often as the policy allows.
//! 5. and 6. As 3: what was sent and not settled is claimed again after its lease.
//! 7. Settling names the token of the claim; a second time, or after the lease went to someone else, it changes nothing.
//! 8. An order for later only makes somebody look; two make them look twice.

pub mod open;
mod wave;

use std::collections::BTreeMap;
use std::pin::pin;

use domain::ids::GatewayId;
use domain::keys::MasterSecrets;
use domain::ports::{Checkpoint, Clock, Entropy, Http, Queue, Sql};
use domain::telegram::send::Api;
use domain::time::{Millis, Timestamp};
use futures::future::select;
use serde::Serialize;

use crate::jobs::{Acked, Disposition};
use crate::message::{Job, JobMessage};

/// How long one batch is worked on; what is due then is ordered anew.
const WORK_MAX: Millis = Millis::from_secs(60);

/// How many claims are made for one batch: a claim and its settling are 16 to 30 statements, and the platform lets one
/// invocation run a thousand.
const CLAIMS_MAX: u32 = 32;

/// How long the consumer itself waits for a gateway's pace; a longer wait is left to the queue.
const PATIENCE: Millis = Millis::new(1_500);

/// Before a gateway is asked again that had nothing to claim though something was due: another sender is at it.
const RECHECK: Millis = Millis::new(500);

/// How far ahead an order is put on the queue; the sweep finds what is due later.
const AHEAD_MAX: Millis = Millis::from_secs(60);

/// How long the queue may take to take an order.
const ORDER_PATIENCE: Millis = Millis::from_secs(5);

/// What sending is built on.
pub trait SendPorts {
    type Sql: Sql;
    type Clock: Clock;
    type Entropy: Entropy;
    type Http: Http;
    type Queue: Queue;
    type Checkpoint: Checkpoint;

    fn sql(&self) -> &Self::Sql;
    fn clock(&self) -> &Self::Clock;
    fn entropy(&self) -> &Self::Entropy;
    fn http(&self) -> &Self::Http;
    /// Where orders for later go.
    fn sends(&self) -> &Self::Queue;
    fn checkpoint(&self) -> &Self::Checkpoint;
    fn secrets(&self) -> &MasterSecrets;
    fn telegram(&self) -> &Api;
    /// Someone has to look at this.
    fn alert(&self, alert: Alert);
}

/// What needs a person's attention. Free of content and of identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alert {
    /// A provider refused a gateway's credential, or it cannot be opened: its rows wait.
    GatewayBroken,
    /// A message was too long for its provider: it was cut wrongly.
    MessageTooLong,
    /// Words or an address could not be opened: a master secret is missing, or a row was changed.
    Unreadable,
    /// The database was away until the leases of a wave ended: its messages may be sent once more.
    Unsettled,
}

impl Alert {
    /// The name of the alert in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GatewayBroken => "gateway_broken",
            Self::MessageTooLong => "message_too_long",
            Self::Unreadable => "outbox_unreadable",
            Self::Unsettled => "sends_unsettled",
        }
    }

    /// What it means, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::GatewayBroken => "a provider refused a gateway's credential; its messages wait for a new one",
            Self::MessageTooLong => "a provider refused a part of an answer as too long",
            Self::Unreadable => "words, an address or a credential did not open",
            Self::Unsettled => "the database was away until the leases of a wave ended",
        }
    }
}

/// What one batch did. Free of content and of identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Sums {
    pub waves: u32,
    pub claimed: u32,
    pub accepted: u32,
    /// Certainly not taken, and to be tried again.
    pub again: u32,
    /// Nobody knows whether they were taken.
    pub ambiguous: u32,
    /// Ended without success.
    pub failed: u32,
    /// Not begun after all, or held back by a broken gateway.
    pub held: u32,
}

/// An order to send.
struct Order {
    gateway_id: GatewayId,
    epoch: i64,
    /// When there may be something to claim.
    at: Timestamp,
}

/// The database could not be reached.
struct Unreached;

/// Handles the bodies of one batch; one disposition for each.
pub async fn consume<P: SendPorts>(bodies: &[String], ports: &P) -> (Vec<Disposition>, Sums) {
    let read: Vec<_> = bodies.iter().map(|body| order(body)).collect();
    // Several orders for one gateway are one; should they be of different epochs, only the latest can still hold.
    let mut orders: BTreeMap<GatewayId, i64> = BTreeMap::new();
    for (gateway_id, epoch) in read.iter().flatten() {
        let latest = orders.entry(gateway_id.clone()).or_insert(*epoch);
        *latest = (*latest).max(*epoch);
    }
    let (unreached, sums) = deliver(orders, ports).await;
    let dispositions = read.iter().map(|order| match order {
        None => Disposition::Ack(Acked::Undecodable),
        Some((gateway_id, _)) if unreached.contains(gateway_id) => Disposition::Retry,
        Some(_) => Disposition::Ack(Acked::Done),
    });
    (dispositions.collect(), sums)
}

fn order(body: &str) -> Option<(GatewayId, i64)> {
    match JobMessage::decode(body) {
        Ok(JobMessage {
            epoch,
            job: Job::Deliver { gateway_id },
        }) => Some((gateway_id, epoch)),
        // What lies here by mistake the sweep orders anew, where it belongs.
        Ok(JobMessage {
            job: Job::Generate { .. },
            ..
        })
        | Err(_) => None,
    }
}

/// Sends what is due of each gateway (each with the epoch its order came from), one wave each in turn, for about a
/// minute or 32 waves. What is due soon after is ordered again. Gives the gateways for which the database could not be reached.
pub async fn deliver<P: SendPorts>(gateways: BTreeMap<GatewayId, i64>, ports: &P) -> (Vec<GatewayId>, Sums) {
    let began = ports.clock().now();
    let mut sums = Sums::default();
    let mut unreached = Vec::new();
    let mut open: Vec<Order> = gateways
        .into_iter()
        .map(|(gateway_id, epoch)| Order {
            gateway_id,
            epoch,
            at: began,
        })
        .collect();
    for _ in 0..CLAIMS_MAX {
        let Some(next) = earliest(&open) else { break };
        let Some(wait) = time_left(ports, began, next.at) else {
            break;
        };
        if wait > Millis::ZERO {
            // await 1
            ports.clock().sleep(wait).await;
        }
        let mut order = open.remove(next.index);
        let claimed_before = sums.claimed;
        match wave::run(&order.gateway_id, order.epoch, ports, &mut sums).await {
            Ok(None) => {}
            Ok(Some(due)) => {
                let idle = sums.claimed == claimed_before;
                let soonest = ports.clock().now().plus(RECHECK);
                order.at = if idle { due.max(soonest) } else { due };
                open.push(order);
            }
            Err(Unreached) => unreached.push(order.gateway_id),
        }
    }
    for order in open {
        order_again(order, ports).await;
    }
    (unreached, sums)
}

struct Next {
    index: usize,
    at: Timestamp,
}

/// The order whose time comes first; of several the one that has waited longest.
fn earliest(open: &[Order]) -> Option<Next> {
    let times = open.iter().enumerate().map(|(index, order)| (order.at, index));
    times.min().map(|(at, index)| Next { index, at })
}

/// How long to wait for `at`; `None` when that is too long, or the batch has been worked on for long enough.
fn time_left<P: SendPorts>(ports: &P, began: Timestamp, at: Timestamp) -> Option<Millis> {
    let now = ports.clock().now();
    let worked = now.since(began);
    let wait = at.remaining_from(now);
    // A clock that went back ends the work too: nobody knows how long it has lasted.
    (worked >= Millis::ZERO && worked.saturating_add(wait) < WORK_MAX && wait <= PATIENCE).then_some(wait)
}

async fn order_again<P: SendPorts>(order: Order, ports: &P) {
    let wait = order.at.remaining_from(ports.clock().now());
    if wait > AHEAD_MAX {
        return;
    }
    let job = Job::Deliver {
        gateway_id: order.gateway_id,
    };
    let body = JobMessage::new(order.epoch, job).encode();
    let sent = pin!(ports.sends().send(body, wait));
    let patience = pin!(ports.clock().sleep(ORDER_PATIENCE));
    // await 8; the sweep covers what is lost here
    let _ = select(sent, patience).await;
}
