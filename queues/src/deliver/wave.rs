//! One wave of one gateway: claim, send all at once, settle. The awaits are numbered in the module above.

use std::cell::Cell;
use std::collections::BTreeSet;

use domain::ids::{GatewayId, HOME_SHARD, LeaseToken, OutboxId};
use domain::keys::{Aad, DataKey, HashLabel, MasterSecrets};
use domain::outbox::SendChannel;
use domain::outbox::outcome::{ErrorCode, Outcome};
use domain::outbox::policy::{self, Policy, WAVE_MAX, may_start};
use domain::outbox::settlement::{Change, Settlement, settle};
use domain::ports::{Checkpoint, Clock, OutboundRequest};
use domain::sql::Shard;
use domain::telegram::send::{Message, request};
use domain::time::{Millis, Timestamp};
use futures::future::join_all;
use store::db::{Db, DbError};
use store::outbox::claim::{Claim, Claimant, claim};
use store::outbox::claimed::{Claimed, ClaimedRow, Destination, claimed, read_claimed};
use store::outbox::settle::{Moved, Outcomes, Settled, Wave, read_back, read_settled, settle_wave, settled_under};

use super::open::{self, Unopened};
use super::{Alert, SendPorts, Sums, Unreached};
use crate::telegram::{self, Answered};

/// Who claims, in the record of attempts.
const OWNER: &str = "hermod";

/// Between two tries to settle while the database is away.
const SETTLE_PAUSE: Millis = Millis::from_secs(1);

/// One row after its attempt.
struct Tried<'a> {
    row: &'a ClaimedRow,
    answered: Answered,
    settlement: Settlement,
    moved: Option<Moved>,
}

/// Sends one wave of what is due of this gateway. Gives the time at which more of it can be claimed, if that is known.
pub(super) async fn run<P: SendPorts>(
    gateway_id: &GatewayId,
    epoch: i64,
    ports: &P,
    sums: &mut Sums,
) -> Result<Option<Timestamp>, Unreached> {
    let policy = Policy {
        deadline: ports.telegram().deadline,
        ..policy::TELEGRAM
    };
    let token = LeaseToken::mint(ports.clock().now(), ports.entropy());
    let claimed = claim_wave(gateway_id, &token, epoch, &policy, ports).await?;
    if claimed.unreadable > 0 {
        ports.alert(Alert::Unreadable);
    }
    if claimed.rows.is_empty() {
        return Ok(claimed.next_due);
    }
    // await 3
    ports.checkpoint().reach("send_claimed").await;
    let began = ports.clock().now();
    let answered = send_all(gateway_id, &claimed, &policy, ports).await;
    let now = ports.clock().now();
    let tried: Vec<Tried<'_>> = claimed
        .rows
        .iter()
        .zip(answered)
        .map(|(row, answered)| judge(gateway_id, row, answered, &policy, now, ports))
        .collect();
    alert(&tried, ports);
    // await 6
    ports.checkpoint().reach("before_settle").await;
    let Some(outcomes) = settle_until_lease_ends(gateway_id, &token, &claimed, &tried, ports).await else {
        ports.alert(Alert::Unsettled);
        return Err(Unreached);
    };
    count(&tried, sums);
    // The ledger keeps the pace from the time of the claim; a slow claim must not bring two waves together.
    let paced = began.plus(pace_of(tried.len(), &policy));
    // After a full wave there may be more, also where those that wait behind others hide it.
    let full = tried.len() >= usize::try_from(WAVE_MAX).unwrap_or(usize::MAX);
    let due = outcomes.next_due.or(full.then_some(paced));
    Ok(due.map(|due| due.max(paced)))
}

/// How long so many messages take of a gateway's pace.
fn pace_of(messages: usize, policy: &Policy) -> Millis {
    let messages = i64::try_from(messages).unwrap_or(i64::MAX);
    Millis::new(policy.gateway_interval.get().saturating_mul(messages))
}

async fn claim_wave<P: SendPorts>(
    gateway_id: &GatewayId,
    token: &LeaseToken,
    epoch: i64,
    policy: &Policy,
    ports: &P,
) -> Result<Claimed, Unreached> {
    let db = Db::new(ports.sql(), ports.clock(), Default::default());
    let now = ports.clock().now();
    let batch = claim(&Claim {
        gateway_id,
        channel: SendChannel::Telegram,
        claimant: Claimant::Hermod,
        token,
        owner: OWNER,
        epoch,
        limit: WAVE_MAX,
        policy,
        now,
    });
    let back = claimed(gateway_id, token, now);
    let held = |claimed: Claimed| (!claimed.rows.is_empty()).then_some(claimed);
    // await 2
    db.write(
        Shard::User(HOME_SHARD),
        batch,
        |rows| read_claimed(rows, now),
        back,
        |rows| read_claimed(rows, now).map(held),
    )
    .await
    .map_err(|_| Unreached)
}

/// Sends every row of the wave at once; one answer for each, in their order.
async fn send_all<P: SendPorts>(
    gateway_id: &GatewayId,
    claimed: &Claimed,
    policy: &Policy,
    ports: &P,
) -> Vec<Answered> {
    let sealed = claimed
        .gateway
        .as_ref()
        .and_then(|gateway| gateway.channel_token.as_ref());
    let credential = sealed.and_then(|sealed| open::credential(gateway_id, sealed, ports.secrets()).ok());
    let seen_accepted = Cell::new(false);
    let sends = claimed.rows.iter().map(|row| async {
        let now = ports.clock().now();
        let prepared = prepare(row, credential.as_deref(), policy, now, ports);
        let request = match prepared {
            Ok(request) => request,
            Err(outcome) => {
                return Answered {
                    outcome,
                    http_status: None,
                };
            }
        };
        // await 4
        let answered = telegram::send(ports.http(), ports.clock(), request).await;
        if matches!(answered.outcome, Outcome::Accepted { .. }) && !seen_accepted.replace(true) {
            // await 5
            ports.checkpoint().reach("provider_accepted").await;
        }
        answered
    });
    join_all(sends).await
}

/// The request for a row, or why it is not sent.
fn prepare<P: SendPorts>(
    row: &ClaimedRow,
    credential: Option<&str>,
    policy: &Policy,
    now: Timestamp,
    ports: &P,
) -> Result<OutboundRequest, Outcome> {
    if !may_start(now, row.lease_until, row.tried.expires_at, policy.deadline) {
        return Err(Outcome::NotStarted);
    }
    let token = credential.ok_or(Outcome::Unauthorized)?;
    let unopened = |unopened: Unopened| {
        if unopened == Unopened::Broken {
            ports.alert(Alert::Unreadable);
        }
        unopened.outcome()
    };
    let (text, key) = open::words(row, ports.secrets()).map_err(unopened)?;
    let (chat_id, _) = open::destination(row, key.as_ref(), ports.secrets()).map_err(unopened)?;
    let message = Message {
        token,
        chat_id: &chat_id,
        text: &text,
        plain: row.tried.plain,
    };
    Ok(request(ports.telegram(), &message))
}

fn judge<'a, P: SendPorts>(
    gateway_id: &GatewayId,
    row: &'a ClaimedRow,
    answered: Answered,
    policy: &Policy,
    now: Timestamp,
    ports: &P,
) -> Tried<'a> {
    let settlement = settle(&row.tried, &answered.outcome, policy, now, ports.entropy());
    let moved = destination_of(&settlement).and_then(|to| moved(gateway_id, row, to, ports));
    Tried {
        row,
        answered,
        settlement,
        moved,
    }
}

/// Where a row goes from now on, if that has changed.
fn destination_of(settlement: &Settlement) -> Option<&str> {
    if let Settlement::Again {
        change: Change::Destination(to),
        ..
    } = settlement
    {
        Some(to)
    } else {
        None
    }
}

/// Tells what a person has to look at, each kind once.
fn alert<P: SendPorts>(tried: &[Tried<'_>], ports: &P) {
    let too_long = |code: &ErrorCode| *code == ErrorCode::MessageTooLong;
    let about = |tried: &Tried<'_>| match &tried.settlement {
        Settlement::GatewayBroken => Some(Alert::GatewayBroken),
        Settlement::Failed { code, .. } => too_long(code).then_some(Alert::MessageTooLong),
        Settlement::Accepted { .. } | Settlement::Again { .. } | Settlement::Released => None,
    };
    let alerts: BTreeSet<Alert> = tried.iter().filter_map(about).collect();
    alerts.into_iter().for_each(|alert| ports.alert(alert));
}

/// The new destination, sealed for where the old one stands.
fn moved<P: SendPorts>(gateway_id: &GatewayId, row: &ClaimedRow, to: &str, ports: &P) -> Option<Moved> {
    let secrets = ports.secrets();
    match (&row.to, open::destination(row, None, secrets)) {
        (Destination::Address { address_id, .. }, Ok((_, Some(key)))) => {
            let place = Aad {
                table: "channel_addresses",
                row: address_id.as_str(),
                column: "external_sealed",
            };
            Some(Moved::Address {
                address_id: address_id.clone(),
                key_id: key.id().clone(),
                external_hash: external_hash(gateway_id, to, secrets),
                sealed: seal(&key, &place, to, ports)?,
            })
        }
        (Destination::Chat(_), Ok(_)) => {
            let place = Aad {
                table: "outbound_messages",
                row: row.outbox_id.as_str(),
                column: "destination_sealed",
            };
            let sealed = secrets.seal_own(&place, to.as_bytes(), ports.entropy()).ok()?;
            Some(Moved::Chat(sealed))
        }
        _ => None,
    }
}

fn seal<P: SendPorts>(key: &DataKey, place: &Aad<'_>, to: &str, ports: &P) -> Option<Vec<u8>> {
    key.seal(place, to.as_bytes(), ports.entropy()).ok()
}

fn external_hash(gateway_id: &GatewayId, chat_id: &str, secrets: &MasterSecrets) -> String {
    let channel = SendChannel::Telegram.as_str();
    let parts = [gateway_id.as_str().as_bytes(), channel.as_bytes(), chat_id.as_bytes()];
    secrets.keyed_hash_of(HashLabel::ExternalAddress, &parts)
}

/// Puts the outcomes on record, trying again while the database is away, as long as the leases hold. `None`: they ran
/// out, and what was sent may be sent once more.
async fn settle_until_lease_ends<P: SendPorts>(
    gateway_id: &GatewayId,
    token: &LeaseToken,
    claimed: &Claimed,
    tried: &[Tried<'_>],
    ports: &P,
) -> Option<Outcomes> {
    let db = Db::new(ports.sql(), ports.clock(), Default::default());
    let until = claimed.rows.iter().map(|row| row.lease_until).min()?;
    let ids: Vec<&OutboxId> = tried.iter().map(|tried| &tried.row.outbox_id).collect();
    let attempts: Vec<Settled<'_>> = tried
        .iter()
        .map(|tried| Settled {
            outbox_id: &tried.row.outbox_id,
            turn_id: tried.row.turn_id.as_ref(),
            outcome: &tried.answered.outcome,
            settlement: &tried.settlement,
            http_status: tried.answered.http_status,
            moved: tried.moved.as_ref(),
        })
        .collect();
    loop {
        let now = ports.clock().now();
        let batch = settle_wave(&Wave {
            gateway_id,
            gateway_seen: claimed.gateway.as_ref().map_or(now, |gateway| gateway.updated_at),
            token,
            attempts: &attempts,
            now,
        });
        let back = settled_under(gateway_id, token, &ids, now);
        // await 7
        match db
            .write(Shard::User(HOME_SHARD), batch, read_settled, back, read_back)
            .await
        {
            Ok(outcomes) => return Some(outcomes),
            Err(DbError::Unavailable | DbError::Overloaded) if ports.clock().now() < until => {
                ports.clock().sleep(SETTLE_PAUSE).await;
            }
            Err(_) => return None,
        }
    }
}

fn count(tried: &[Tried<'_>], sums: &mut Sums) {
    sums.waves = sums.waves.saturating_add(1);
    for tried in tried {
        sums.claimed = sums.claimed.saturating_add(1);
        let slot = match &tried.settlement {
            Settlement::Accepted { .. } => &mut sums.accepted,
            Settlement::Again { ambiguous: true, .. } => &mut sums.ambiguous,
            Settlement::Again { ambiguous: false, .. } => &mut sums.again,
            Settlement::Released | Settlement::GatewayBroken => &mut sums.held,
            Settlement::Failed { .. } => &mut sums.failed,
        };
        *slot = slot.saturating_add(1);
    }
}
