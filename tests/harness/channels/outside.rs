//! A sender outside the service, who fetches what is due for its own gateway and says what came of it.

use std::rc::Rc;

use domain::ids::{GatewayId, HOME_SHARD, LeaseToken};
use domain::outbox::SendChannel;
use domain::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use domain::outbox::policy::{OUTSIDE, WAVE_MAX};
use domain::outbox::settlement::settle;
use domain::ports::Clock;
use domain::sql::Shard;
use domain::telegram::send::{Message, request};
use queues::deliver::SendPorts;
use queues::telegram;
use store::db::Db;
use store::outbox::claim::{Claim, Claimant, claim};
use store::outbox::claimed::{ClaimedRow, claimed, read_claimed};
use store::outbox::settle::{Settled, Wave, settle_wave};

use super::callers::Caller;
use super::plan::{Manner, Whom};
use super::{World, service};

/// Fetches once, and sends what it got.
pub async fn fetch(world: Rc<World>, manner: Manner) {
    let Some(gateway) = world.places.gateways.iter().position(|gateway| !gateway.ours) else {
        return;
    };
    let process = world.executor.process();
    world.perhaps_kill(Whom::Sender, &process);
    let epoch = world.epoch();
    let caller = world.callers.add(Caller {
        epoch: Some(epoch),
        outside: true,
        ..Caller::default()
    });
    let ports = service::Ports::new(&world, &process, caller);
    let work = Rc::clone(&world);
    let token = world.telegram.token(gateway);
    process
        .call(async move {
            let id = work.places.gateways[gateway].id.clone();
            let lease = LeaseToken::mint(ports.clock.now(), &ports.entropy);
            for row in take(&ports, &id, &lease, epoch).await {
                let outcome = send(&work, &ports, &token, &row, manner).await;
                if manner != Manner::Silent {
                    say(&ports, &id, &lease, &row, &outcome).await;
                }
                if manner == Manner::Confused {
                    say(&ports, &id, &lease, &row, &outcome).await;
                    let other = LeaseToken::mint(ports.clock.now(), &ports.entropy);
                    say(&ports, &id, &other, &row, &outcome).await;
                }
            }
        })
        .await;
}

async fn take(ports: &service::Ports, gateway_id: &GatewayId, token: &LeaseToken, epoch: i64) -> Vec<ClaimedRow> {
    let db = Db::new(&ports.sql, &ports.clock, Rc::default());
    let now = ports.clock.now();
    let batch = claim(&Claim {
        gateway_id,
        channel: SendChannel::Telegram,
        claimant: Claimant::Outside,
        token,
        owner: "outside",
        epoch,
        limit: WAVE_MAX,
        policy: &OUTSIDE,
        now,
    });
    let read = |rows: &[domain::sql::Rows]| read_claimed(rows, now);
    let back = claimed(gateway_id, token, now);
    let taken = db
        .write(Shard::User(HOME_SHARD), batch, read, back, |rows| read(rows).map(Some))
        .await;
    taken.map(|taken| taken.rows).unwrap_or_default()
}

/// What the sender made of a row. What it says is what the service would have given it.
async fn send(world: &World, ports: &service::Ports, token: &str, row: &ClaimedRow, manner: Manner) -> Outcome {
    let failed = Outcome::Retry {
        class: ErrorClass::Provider,
        code: ErrorCode::Other,
        after: None,
        holds: Holds::Row,
    };
    let claim = world
        .claims
        .all()
        .into_iter()
        .rev()
        .find(|claim| claim.outbox_id == row.outbox_id.as_str());
    let Some((text, chat)) = claim.and_then(|claim| Some((claim.text?, claim.chat?))) else {
        return failed;
    };
    if manner == Manner::Failing {
        return failed;
    }
    let message = Message {
        token,
        chat_id: &chat,
        text: &text,
        plain: true,
    };
    let request = request(&service::api(), &message);
    telegram::send(ports.http(), &ports.clock, request).await.outcome
}

async fn say(ports: &service::Ports, gateway_id: &GatewayId, token: &LeaseToken, row: &ClaimedRow, outcome: &Outcome) {
    let now = ports.clock.now();
    let settlement = settle(&row.tried, outcome, &OUTSIDE, now, &ports.entropy);
    let attempt = Settled {
        outbox_id: &row.outbox_id,
        turn_id: row.turn_id.as_ref(),
        outcome,
        settlement: &settlement,
        http_status: None,
        moved: None,
    };
    let batch = settle_wave(&Wave {
        gateway_id,
        gateway_seen: now,
        token,
        attempts: &[attempt],
        now,
    });
    let db = Db::new(&ports.sql, &ports.clock, Rc::default());
    let _ = db
        .write(Shard::User(HOME_SHARD), batch, |_| Ok(()), vec![], |_| Ok(None))
        .await;
}
