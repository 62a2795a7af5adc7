//! Every statement of the outbox with sample values, for the checks of query plans.

use domain::auth::{AuthMethod, Principal, Subject};
use domain::ids::{AddressId, DataKeyId, GatewayId, LeaseToken, OutboxId, TokenId, TurnId};
use domain::keys::{MasterVersion, OwnSealed};
use domain::outbox::SendChannel;
use domain::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use domain::outbox::policy::{OUTSIDE, TELEGRAM};
use domain::outbox::settlement::{Change, Settlement};
use domain::outbox::template::Template;
use domain::sql::Statement;
use domain::time::Timestamp;
use domain::turn::event::Actor;

use crate::idempotency::KeyUse;
use crate::outbox::claim::{Claim, Claimant, claim};
use crate::outbox::enqueue::{self, Notice, NoticeTo, Part, Reply};
use crate::outbox::operate::{self, SwitchScope};
use crate::outbox::outside::{self, Beginning};
use crate::outbox::settle::{self, Moved, Settled, Wave};
use crate::outbox::sweep::{self, Over, Why};
use crate::outbox::{claimed, purge};
use crate::provisioning::Command;

/// All of them; `None` only if a sample id were not valid.
pub fn catalogue() -> Option<Vec<Statement>> {
    let now = Timestamp::from_millis(1_783_728_000_000);
    let row = OutboxId::parse("out_00sample").ok()?;
    let turn = TurnId::parse("turn_00sample").ok()?;
    let gateway = GatewayId::parse("gateway_00sample").ok()?;
    let token = LeaseToken::parse("lease_00sample").ok()?;
    let mut all = enqueuing(&row, &turn, &gateway, now)?;
    all.extend(claim(&Claim {
        gateway_id: &gateway,
        channel: SendChannel::Telegram,
        claimant: Claimant::Hermod,
        token: &token,
        owner: "sample",
        epoch: 1,
        limit: 6,
        policy: &TELEGRAM,
        now,
    }));
    all.extend(claimed::claimed(&gateway, &token, now));
    all.extend(settling(&row, &turn, &gateway, &token, now)?);
    all.extend(sweep::over(now, 1));
    let over = Over {
        outbox_id: row.clone(),
        turn_id: Some(turn),
        why: Why::Expired,
    };
    all.extend(sweep::end(&[over], Actor::Sweep, now));
    all.extend(sweep::due_gateways(now));
    all.extend(operate::quarantine(&row, now));
    all.extend(operate::requeue(&row, now, now));
    all.extend(operate::withdraw(&row, now));
    all.push(operate::set_switch(SwitchScope::Gateway(&gateway), true, now));
    all.extend(purge::purge(now, 1));
    all.extend(outside_senders(&row, &gateway, &token, now)?);
    Some(all)
}

fn sample_sealed() -> OwnSealed {
    OwnSealed {
        master_version: MasterVersion::new(1),
        sealed: vec![1],
    }
}

fn enqueuing(row: &OutboxId, turn: &TurnId, gateway: &GatewayId, now: Timestamp) -> Option<Vec<Statement>> {
    let address = AddressId::parse("address_00sample").ok()?;
    let sealed = sample_sealed();
    let parts = [Part {
        outbox_id: row.clone(),
        from: 0,
        to: 1,
        content_hash: "sample".to_owned(),
    }];
    let mut all = enqueue::reply_of_turn(&Reply {
        turn_id: turn,
        parts: &parts,
        now,
    });
    all.extend(enqueue::notice_of_turn(
        turn,
        Template::TurnFailed,
        Actor::UserTurns,
        now,
    ));
    let chat = NoticeTo::Sealed {
        sealed: &sealed,
        external_hash: "sample",
    };
    for to in [NoticeTo::Address(&address), chat] {
        all.extend(enqueue::notice(&Notice {
            outbox_id: row,
            gateway_id: gateway,
            channel: SendChannel::Telegram,
            template: Template::Help,
            idempotency_key: "sample",
            to,
            trace_id: "sample",
            now,
        }));
    }
    Some(all)
}

fn settling(
    row: &OutboxId,
    turn: &TurnId,
    gateway: &GatewayId,
    token: &LeaseToken,
    now: Timestamp,
) -> Option<Vec<Statement>> {
    let moved = Moved::Address {
        address_id: AddressId::parse("address_00sample").ok()?,
        key_id: DataKeyId::parse("key_00sample").ok()?,
        external_hash: "sample".to_owned(),
        sealed: vec![1],
    };
    let chat = Moved::Chat(sample_sealed());
    let again = |holds| Settlement::Again {
        at: now,
        class: ErrorClass::RateLimit,
        code: ErrorCode::TooManyRequests,
        ambiguous: false,
        retry_after: None,
        holds,
        change: Change::Nothing,
    };
    let gone = Settlement::Failed {
        class: ErrorClass::Destination,
        code: ErrorCode::Blocked,
        ambiguous: false,
        disable_address: true,
    };
    let outcome = Outcome::NotStarted;
    let (lane, bot) = (again(Holds::Lane), again(Holds::Gateway));
    let attempts = [
        (&lane, Some(&moved)),
        (&bot, Some(&chat)),
        (&Settlement::GatewayBroken, None),
        (&gone, None),
    ]
    .map(|(settlement, moved)| Settled {
        outbox_id: row,
        turn_id: Some(turn),
        outcome: &outcome,
        settlement,
        http_status: None,
        moved,
    });
    Some(settle::settle_wave(&Wave {
        gateway_id: gateway,
        gateway_seen: now,
        token,
        attempts: &attempts,
        now,
    }))
}

fn outside_senders(row: &OutboxId, gateway: &GatewayId, token: &LeaseToken, now: Timestamp) -> Option<Vec<Statement>> {
    let principal = Principal {
        subject: Subject::Gateway(gateway.clone()),
        family: None,
        roles: vec![],
        scopes: vec![],
        jti: TokenId::parse("jwt_00sample").ok()?,
        auth_method: AuthMethod::GatewayService,
        gateway: Some(gateway.clone()),
        revision: 1,
        issued_at: now,
        expires_at: now,
        idp: None,
        idp_sub: None,
    };
    let key = KeyUse {
        caller: "gateway:sample",
        route: "POST /sample",
        key_hash: "k",
        request_hash: "r",
        now,
    };
    let command = Command {
        principal: &principal,
        key,
    };
    let wave = Claim {
        gateway_id: gateway,
        channel: SendChannel::Imessage,
        claimant: Claimant::Outside,
        token,
        owner: "sample",
        epoch: 1,
        limit: 6,
        policy: &OUTSIDE,
        now,
    };
    let beginning = Beginning {
        row,
        gateway_id: gateway,
        token,
        epoch: 1,
        until: now,
        until_text: "sample",
        now,
    };
    let none = Wave {
        gateway_id: gateway,
        gateway_seen: now,
        token,
        attempts: &[],
        now,
    };
    let mut all = vec![
        outside::standing(gateway, SendChannel::Imessage),
        outside::held(row, gateway, token),
    ];
    all.extend(outside::claim_rows(&command, &wave));
    all.extend(outside::begin(&command, &beginning, "{}"));
    all.extend(outside::finish(&command, &none, row, "{}"));
    Some(all)
}
