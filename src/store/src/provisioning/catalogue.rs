//! Every statement of the directory with sample values, for the checks of query plans.

use domain::auth::provisioning::{AddressPut, FamilyPut, GatewayPut, Revocation, UpstreamPut, UserPut};
use domain::auth::{AuthMethod, Principal, Subject};
use domain::ids::{AddressId, DataKeyId, FamilyId, GatewayId, TokenId, UserId};
use domain::keys::{DataKey, KeySubject, MasterVersion, WrappedKey};
use domain::ports::Entropy;
use domain::sql::Statement;
use domain::time::Timestamp;

use super::{Address, Command, Family, Gateway, Identity, NewKey, Revoke, Switch, Upstream, User};
use crate::directory;
use crate::idempotency::{self, KeyUse};
use crate::outbox::operate::SwitchScope;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// All of them; `None` only if a sample were not valid.
pub fn catalogue() -> Option<Vec<Statement>> {
    let now = Timestamp::from_millis(1_783_728_000_000);
    let user_id = UserId::parse("user_00sample").ok()?;
    let family_id = FamilyId::parse("family_00sample").ok()?;
    let gateway_id = GatewayId::parse("gateway_00sample").ok()?;
    let key_id = DataKeyId::parse("key_00sample").ok()?;
    let operator = principal(Subject::Operator("sample".to_owned()), None, now)?;
    let key = KeyUse {
        caller: "operator:sample",
        route: "PUT /sample",
        key_hash: "k",
        request_hash: "r",
        now,
    };
    let command = Command {
        principal: &operator,
        key,
    };
    let data_key = DataKey::generate(key_id.clone(), KeySubject::User(user_id.clone()), &Zeros);
    let wrapped = WrappedKey {
        master_version: MasterVersion::new(1),
        wrapped: vec![1],
    };
    let new_key = || NewKey {
        key: &data_key,
        wrapped: &wrapped,
    };

    let family = FamilyPut {
        status: Default::default(),
    };
    let user = UserPut {
        family_id: family_id.clone(),
        role: domain::auth::Role::Guardian,
        status: Default::default(),
    };
    let mut all = Family {
        family_id: &family_id,
        put: &family,
        new_key: new_key(),
    }
    .batch(&command);
    all.extend(
        User {
            user_id: &user_id,
            put: &user,
            new_key: new_key(),
        }
        .batch(&command),
    );
    all.extend(
        Identity {
            user_id: &user_id,
            idp: "sample",
            subject_hash: "h",
        }
        .batch(&command),
    );
    all.extend(services(&command, &gateway_id, &user_id, &key_id)?);
    all.extend(command.fail(409, "{}"));

    all.extend([command.key.look_up(), idempotency::purge(now, 1)]);
    all.extend([
        directory::upstream_by_issuer("i"),
        directory::user_of_identity("sample", "h"),
    ]);
    all.push(directory::user_of_sender(&gateway_id, "sample", "h"));
    all.extend(directory::use_assertion(&gateway_id, "h", now, now));
    Some(all)
}

fn services(
    command: &Command<'_>,
    gateway_id: &GatewayId,
    user_id: &UserId,
    key: &DataKeyId,
) -> Option<Vec<Statement>> {
    let gateway = GatewayPut {
        scopes: vec![],
        channels: vec![],
        families: vec![],
        production: false,
        assertion_jwk: serde_json::Value::Null,
        webhook_secret: None,
        bot_token: None,
        status: Default::default(),
        profile: None,
    };
    let upstream = UpstreamPut {
        issuer: String::new(),
        audience: String::new(),
        algorithms: vec![],
        jwks_url: Some(String::new()),
        jwks: None,
        status: Default::default(),
    };
    let address = AddressPut {
        gateway_id: gateway_id.clone(),
        channel: "sample".to_owned(),
        user_id: user_id.clone(),
        external_id: String::new(),
        status: Default::default(),
    };
    let address_id = AddressId::parse("address_00sample").ok()?;
    let mut all = Gateway {
        gateway_id,
        put: &gateway,
        webhook_secret_hash: None,
        channel_token: None,
    }
    .batch(command);
    all.extend(
        Upstream {
            idp: "sample",
            put: &upstream,
        }
        .batch(command),
    );
    let address = Address {
        address_id: &address_id,
        put: &address,
        external_hash: "h",
        key,
        external_sealed: vec![1],
    };
    all.extend(address.batch(command));
    for scope in [SwitchScope::Global, SwitchScope::Gateway(gateway_id)] {
        all.extend(Switch { scope, enabled: true }.batch(command));
    }
    all.extend(revocations(command, gateway_id, user_id));
    Some(all)
}

fn revocations(command: &Command<'_>, gateway_id: &GatewayId, user_id: &UserId) -> Vec<Statement> {
    let all = [
        Revocation::User {
            user_id: user_id.clone(),
        },
        Revocation::Gateway {
            gateway_id: gateway_id.clone(),
        },
        Revocation::All {},
    ];
    let now = command.key.now;
    let batch = |revocation: &Revocation| Revoke { revocation, now }.batch(command);
    all.iter().flat_map(batch).collect()
}

fn principal(subject: Subject, family: Option<FamilyId>, now: Timestamp) -> Option<Principal> {
    Some(Principal {
        subject,
        family,
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
    })
}
