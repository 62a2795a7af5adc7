//! Every statement of the ledger with sample values, for the checks of query plans.

use domain::auth::{AuthMethod, Principal, Subject};
use domain::http::context::{Channel, RequestContext};
use domain::ids::{
    AddressId, ConversationId, DataKeyId, FamilyId, GatewayId, LeaseToken, OutboxId, RequestId, SessionId, TokenId,
    TurnId, UserId,
};
use domain::model::Usage;
use domain::outbox::template::Template;
use domain::sql::Statement;
use domain::time::Timestamp;
use domain::turn::event::AckType;
use domain::turn::{FailureCode, Status};

use crate::channels::dedup::{Disposition, Record};
use crate::channels::sender::{Chat, SenderSeen};
use crate::directory::Sender;
use crate::ledger::accept::{Acceptance, Arrival, ConversationSeen, Entry, Place, accept, accepted_turn, read_facts};
use crate::ledger::run::{self, Answer, Run};
use crate::ledger::sweep::{Duty, Round};
use crate::ledger::{deliveries, failure, funnel, handover, read, repair, sweep};
use crate::outbox::enqueue::Part;

/// All of them; `None` only if a sample id were not valid.
pub fn catalogue() -> Option<Vec<Statement>> {
    let now = Timestamp::from_millis(1_783_728_000_000);
    let context = sample_context(now)?;
    let (user, turn) = (&context.user_id, &context.turn_id);
    let mut all = accepting(&context, now)?;
    all.extend(running(&context, now)?);
    all.extend(read::object_state(user));
    all.push(read::turn_by_id(user, turn));
    all.push(read::events_of_turn(user, turn));
    all.push(deliveries::deliveries_of_turn(user, turn));
    all.extend(handover::commit_response(turn, user, now, now));
    all.extend(handover::acknowledge(turn, user, AckType::Rendered, now, now));
    all.extend(sweep::claim(
        Duty::Sweep,
        &LeaseToken::parse("lease_00sample").ok()?,
        now,
        now,
    ));
    all.extend(sweep::end_untaken(now));
    all.extend(sweep::stuck_users(now));
    all.push(sweep::keep_place(Round::Waking, None));
    all.extend(repair::stranded());
    all.extend(repair::repair(std::slice::from_ref(turn), now));
    all.extend(funnel::counts(now));
    Some(all)
}

fn accepting(context: &RequestContext, now: Timestamp) -> Option<Vec<Statement>> {
    let conversation_id = ConversationId::parse("conv_00sample").ok()?;
    let session_id = SessionId::parse("session_00sample").ok()?;
    let key = DataKeyId::parse("key_00sample").ok()?;
    let seen = ConversationSeen {
        conversation_id: conversation_id.clone(),
        session_id: session_id.clone(),
        last_message_at: now,
        is_default: true,
    };
    let places = [
        Place::Opens {
            conversation_id: conversation_id.clone(),
            session_id: session_id.clone(),
        },
        Place::Continues(seen.clone()),
        Place::Resumes { seen, session_id },
    ];
    let mut all = Vec::new();
    for place in &places {
        all.extend(accept(&Acceptance {
            entry: Entry::Direct,
            context,
            request_hash: "",
            place,
            epoch: 1,
            content_key: &key,
            content_sealed: vec![1],
            now,
        }));
    }
    all.extend(arriving(context, &places, &key, now)?);
    all.extend(read_facts(context, None));
    all.extend(read_facts(context, Some(&conversation_id)));
    all.push(accepted_turn(context));
    Some(all)
}

fn arriving(context: &RequestContext, places: &[Place], key: &DataKeyId, now: Timestamp) -> Option<Vec<Statement>> {
    let gateway_id = GatewayId::parse("gateway_00sample").ok()?;
    let sender = Sender {
        user_id: context.user_id.clone(),
        family_id: context.family_id.clone(),
        address_id: AddressId::parse("address_00sample").ok()?,
        revision: 1,
    };
    let seen = SenderSeen {
        chat: Chat {
            gateway_id: &gateway_id,
            channel: "telegram",
            external_hash: "h",
        },
        sender: &sender,
    };
    let record = Record {
        gateway_id: &gateway_id,
        ingress_hash: "i",
        payload_hash: "p",
        kind: "message",
        disposition: Disposition::Turn,
        user_id: Some(&context.user_id),
        turn_id: Some(&context.turn_id),
        now,
    };
    let arrival = Arrival {
        sender: &seen,
        record: &record,
    };
    let accept = |place| {
        accept(&Acceptance {
            entry: Entry::Channel(&arrival),
            context,
            request_hash: "",
            place,
            epoch: 1,
            content_key: key,
            content_sealed: vec![1],
            now,
        })
    };
    Some(places.iter().flat_map(accept).collect())
}

fn running(context: &RequestContext, now: Timestamp) -> Option<Vec<Statement>> {
    let (user, turn) = (&context.user_id, &context.turn_id);
    let key = DataKeyId::parse("key_00sample").ok()?;
    let run = Run {
        user_id: user.clone(),
        turn_id: turn.clone(),
        token: LeaseToken::parse("lease_00sample").ok()?,
        attempt: 1,
        until: now,
    };
    let parts = [Part {
        outbox_id: OutboxId::parse("out_00sample").ok()?,
        from: 0,
        to: 1,
        content_hash: String::new(),
    }];
    let answer = Answer {
        content_key: &key,
        content_sealed: vec![1],
        prompt_hash: String::new(),
        response_hash: String::new(),
        provider: "scripted",
        model: "scripted",
        usage: &Usage::default(),
        generated_at: now,
        parts: Some(&parts),
    };
    let lost = FailureCode::GenerationLost;
    let mut all = run::start(&run, 1, &key, now);
    all.extend(run::started_run(&run));
    all.extend(run::mark_shown(&run, 1, now));
    all.extend(run::persist(&run, 1, &answer, now));
    all.push(run::stored_by_run(&run));
    all.extend(failure::fail_run(
        &run,
        1,
        FailureCode::GenerationFailed,
        None,
        None,
        now,
    ));
    all.extend(failure::fail_idle(
        user,
        turn,
        Status::Processing,
        1,
        lost,
        Some(Template::TurnFailed),
        now,
    ));
    Some(all)
}

fn sample_context(now: Timestamp) -> Option<RequestContext> {
    let user_id = UserId::parse("user_00sample").ok()?;
    let family_id = FamilyId::parse("family_00sample").ok()?;
    Some(RequestContext {
        request_id: RequestId::parse("req_00sample").ok()?,
        client_request_id: None,
        turn_id: TurnId::parse("turn_00sample").ok()?,
        idempotency_key_hash: "sample".to_owned(),
        principal: Principal {
            subject: Subject::User(user_id.clone()),
            family: Some(family_id.clone()),
            roles: vec![],
            scopes: vec![],
            jti: TokenId::parse("jwt_00sample").ok()?,
            auth_method: AuthMethod::UserJwt,
            gateway: None,
            revision: 1,
            issued_at: now,
            expires_at: now,
            idp: None,
            idp_sub: None,
        },
        user_id,
        family_id,
        channel: Channel::Direct,
        gateway_id: None,
        locale: None,
        timezone: None,
        received_at: now,
        deadline_at: now,
        source_address_hash: None,
        trace_id: "0".repeat(32),
        parent_turn_id: None,
        feature_flags: vec![],
    })
}
