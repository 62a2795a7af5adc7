//! Every statement of the channels with sample values, for the checks of query plans.

use domain::auth::{AuthMethod, Principal, Subject};
use domain::ids::{AddressId, DataKeyId, FamilyId, GatewayId, OutboxId, TokenId, UserId};
use domain::keys::{MasterVersion, OwnSealed};
use domain::sql::Statement;
use domain::time::Timestamp;

use crate::channels::channel_token;
use crate::channels::dedup::{self, Disposition, Record};
use crate::channels::link::{self, Bond, Linking};
use crate::channels::sender::{self, Chat, SenderSeen};
use crate::directory::Sender;
use crate::idempotency::KeyUse;
use crate::provisioning::Command;

/// All of them; `None` only if a sample id were not valid.
pub fn catalogue() -> Option<Vec<Statement>> {
    let now = Timestamp::from_millis(1_783_728_000_000);
    let gateway_id = GatewayId::parse("gateway_00sample").ok()?;
    let user_id = UserId::parse("user_00sample").ok()?;
    let address_id = AddressId::parse("address_00sample").ok()?;
    let chat = Chat {
        gateway_id: &gateway_id,
        channel: "telegram",
        external_hash: "h",
    };
    let sender = Sender {
        user_id: user_id.clone(),
        family_id: FamilyId::parse("family_00sample").ok()?,
        address_id: address_id.clone(),
        revision: 1,
    };
    let record = Record {
        gateway_id: &gateway_id,
        ingress_hash: "i",
        payload_hash: "p",
        kind: "message",
        disposition: Disposition::Ignored,
        user_id: Some(&user_id),
        turn_id: None,
        now,
    };
    let mut all = vec![
        sender::gateway(&gateway_id, "telegram"),
        sender::sender_current(&SenderSeen { chat, sender: &sender }),
        dedup::seen(&gateway_id, "i"),
        dedup::ingress_unused(&gateway_id, "i"),
        dedup::record(&record),
        dedup::count_again(&gateway_id, "i", "p", now),
        dedup::notice_made(&OutboxId::parse("out_00sample").ok()?),
        link::stop(chat, now),
    ];
    let token = OwnSealed {
        master_version: MasterVersion::new(1),
        sealed: vec![1],
    };
    all.push(channel_token::page(MasterVersion::new(2), Some(&gateway_id)));
    all.push(channel_token::replace(&gateway_id, &token, &token));
    all.extend(sender::sender_facts(chat, 32));
    all.extend(link::code(chat, "c", now));
    all.extend(link::bind(&Bond {
        chat,
        code_hash: "c",
        user_id: &user_id,
        address_id: &address_id,
        key: &DataKeyId::parse("key_00sample").ok()?,
        external_sealed: vec![1],
        now,
    }));
    all.extend(linking(&user_id, now)?);
    Some(all)
}

fn linking(user_id: &UserId, now: Timestamp) -> Option<Vec<Statement>> {
    let principal = Principal {
        subject: Subject::User(user_id.clone()),
        family: Some(FamilyId::parse("family_00sample").ok()?),
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
    };
    let key = KeyUse {
        caller: "user:user_00sample",
        route: "POST /sample",
        key_hash: "k",
        request_hash: "r",
        now,
    };
    let command = Command {
        principal: &principal,
        key,
    };
    let linking = Linking {
        user_id,
        channel: "telegram",
    };
    let mut all = linking.issue(&command, "c", now, "{}");
    all.extend(linking.unlink(&command));
    Some(all)
}
