//! Gateways, upstreams, and the addresses of people on a gateway's channels.

use domain::auth::provisioning::{AddressPut, GatewayPut, UpstreamPut};
use domain::ids::{AddressId, DataKeyId, GatewayId};
use domain::keys::OwnSealed;
use domain::sql::Statement;

use super::{Command, json_list};
use crate::idempotency::store_result;
use crate::keys;
use crate::outbox::operate::{self, SwitchScope};

/// A gateway to be written.
pub struct Gateway<'a> {
    pub gateway_id: &'a GatewayId,
    pub put: &'a GatewayPut,
    /// Keyed hash; `None` closes the webhook route.
    pub webhook_secret_hash: Option<String>,
    /// The channel's own credential; `None` leaves the sending to others.
    pub channel_token: Option<&'a OwnSealed>,
}

impl Gateway<'_> {
    /// The whole command. Refused by `token_current` or `key_unused`, and as `Constraint` when a family is not there.
    pub fn batch(&self, command: &Command<'_>) -> Vec<Statement> {
        let families = json_list(&self.put.families);
        let changes = vec![
            self.put_gateway(command, &families),
            Statement {
                name: "drop_gateway_families",
                sql: "DELETE FROM gateway_families WHERE gateway_id = ?1
  AND family_id NOT IN (SELECT value FROM json_each(?2))",
                binds: vec![self.gateway_id.into(), families.as_str().into()],
            },
            Statement {
                name: "add_gateway_families",
                sql:
                    "INSERT INTO gateway_families (gateway_id, family_id) SELECT ?1, value FROM json_each(?2) WHERE true
ON CONFLICT (gateway_id, family_id) DO NOTHING",
                binds: vec![self.gateway_id.into(), families.into()],
            },
        ];
        let result = store_result!(
            "200, json_object('gateway_id', gateway_id, 'scopes', json(scopes), 'channels', json(channels),
  'profile', profile, 'production', json(iif(production, 'true', 'false')), 'status', status,
  'authorization_revision', authorization_revision)",
            "FROM gateways WHERE gateway_id = ?7"
        );
        command.batch(changes, command.result(result, self.gateway_id.as_str()))
    }

    fn put_gateway(&self, command: &Command<'_>, families: &str) -> Statement {
        Statement {
            name: "put_gateway",
            sql: "INSERT INTO gateways (gateway_id, scopes, channels, profile, production, assertion_jwk,
  webhook_secret_hash, status, authorization_revision, created_at, updated_at, channel_token_master_version,
  channel_token_sealed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?9, ?11, ?12)
ON CONFLICT (gateway_id) DO UPDATE SET scopes = excluded.scopes, channels = excluded.channels,
  profile = excluded.profile, production = excluded.production, assertion_jwk = excluded.assertion_jwk,
  webhook_secret_hash = excluded.webhook_secret_hash, status = excluded.status, updated_at = excluded.updated_at,
  channel_token_master_version = excluded.channel_token_master_version,
  channel_token_sealed = excluded.channel_token_sealed,
  authorization_revision = gateways.authorization_revision + (
    gateways.scopes <> excluded.scopes OR gateways.channels <> excluded.channels
    OR gateways.profile IS NOT excluded.profile OR gateways.production <> excluded.production
    OR gateways.assertion_jwk <> excluded.assertion_jwk OR gateways.status <> excluded.status
    OR (SELECT json_group_array(family_id) FROM
         (SELECT family_id FROM gateway_families WHERE gateway_id = ?1 ORDER BY family_id)) <> ?10)",
            binds: vec![
                self.gateway_id.into(),
                json_list(&self.put.scopes).into(),
                json_list(&self.put.channels).into(),
                self.put.profile.clone().into(),
                self.put.production.into(),
                self.put.assertion_jwk.to_string().into(),
                self.webhook_secret_hash.clone().into(),
                self.put.status.as_str().into(),
                command.key.now.into(),
                families.into(),
                self.channel_token.map(|token| token.master_version).into(),
                self.channel_token.map(|token| token.sealed.clone()).into(),
            ],
        }
    }
}

/// An upstream to be written.
pub struct Upstream<'a> {
    pub idp: &'a str,
    pub put: &'a UpstreamPut,
}

impl Upstream<'_> {
    /// The whole command. Refused by `token_current` or `key_unused`, and as `Constraint` when the issuer belongs to
    /// another upstream.
    pub fn batch(&self, command: &Command<'_>) -> Vec<Statement> {
        let put = Statement {
            name: "put_upstream",
            sql: "INSERT INTO upstreams (idp, issuer, audience, algorithms, jwks_url, jwks_json, status, created_at,
  updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
ON CONFLICT (idp) DO UPDATE SET issuer = excluded.issuer, audience = excluded.audience,
  algorithms = excluded.algorithms, jwks_url = excluded.jwks_url, jwks_json = excluded.jwks_json,
  status = excluded.status, updated_at = excluded.updated_at",
            binds: vec![
                self.idp.into(),
                self.put.issuer.as_str().into(),
                self.put.audience.as_str().into(),
                json_list(&self.put.algorithms).into(),
                self.put.jwks_url.clone().into(),
                self.put.jwks.as_ref().map(ToString::to_string).into(),
                self.put.status.as_str().into(),
                command.key.now.into(),
            ],
        };
        let result = store_result!(
            "200, json_object('idp', idp, 'issuer', issuer, 'audience', audience, 'algorithms', json(algorithms),
  'jwks_url', jwks_url, 'status', status)",
            "FROM upstreams WHERE idp = ?7"
        );
        command.batch(vec![put], command.result(result, self.idp))
    }
}

/// A switch of sends to be set.
pub struct Switch<'a> {
    pub scope: SwitchScope<'a>,
    pub enabled: bool,
}

impl Switch<'_> {
    /// The whole command. Refused by `token_current` or `key_unused`.
    pub fn batch(&self, command: &Command<'_>) -> Vec<Statement> {
        let (scope, target) = match self.scope {
            SwitchScope::Global => ("global", "all"),
            SwitchScope::Channel(channel) => ("channel", channel.as_str()),
            SwitchScope::Gateway(gateway) => ("gateway", gateway.as_str()),
        };
        let set = operate::set_switch(self.scope, self.enabled, command.key.now);
        let result = serde_json::json!({ "scope": scope, "target": target, "enabled": self.enabled });
        command.batch(vec![set], command.key.store(200, &result.to_string()))
    }
}

/// A person's address to be written.
pub struct Address<'a> {
    pub address_id: &'a AddressId,
    pub put: &'a AddressPut,
    /// Keyed hash of (gateway, channel, external id).
    pub external_hash: &'a str,
    /// The user's data key, which seals the external id.
    pub key: &'a DataKeyId,
    pub external_sealed: Vec<u8>,
}

impl Address<'_> {
    /// The whole command. Refused by `token_current`, `key_unused` or `key_live`, and as `Constraint` when the
    /// gateway may not speak for the user's family on that channel or another active address has the external id.
    pub fn batch(&self, command: &Command<'_>) -> Vec<Statement> {
        let put = Statement {
            name: "put_address",
            // Where the gateway's policy does not cover the user, the user is NULL, which the table refuses.
            sql: "INSERT INTO channel_addresses (address_id, gateway_id, channel, user_id, external_hash,
  external_key_id, external_sealed, status, created_at, updated_at)
VALUES (?1, ?2, ?3, (SELECT u.user_id FROM users u
    JOIN gateway_families p ON p.family_id = u.family_id AND p.gateway_id = ?2
    JOIN gateways g ON g.gateway_id = p.gateway_id
    WHERE u.user_id = ?4 AND EXISTS (SELECT 1 FROM json_each(g.channels) c WHERE c.value = ?3)),
  ?5, ?6, ?7, ?8, ?9, ?9)
ON CONFLICT (address_id) DO UPDATE SET gateway_id = excluded.gateway_id, channel = excluded.channel,
  user_id = excluded.user_id, external_hash = excluded.external_hash, external_key_id = excluded.external_key_id,
  external_sealed = excluded.external_sealed, status = excluded.status, updated_at = excluded.updated_at",
            binds: vec![
                self.address_id.into(),
                (&self.put.gateway_id).into(),
                self.put.channel.as_str().into(),
                (&self.put.user_id).into(),
                self.external_hash.into(),
                self.key.into(),
                self.external_sealed.clone().into(),
                self.put.status.as_str().into(),
                command.key.now.into(),
            ],
        };
        let result = store_result!(
            "200, json_object('address_id', address_id, 'gateway_id', gateway_id, 'channel', channel,
  'user_id', user_id, 'status', status)",
            "FROM channel_addresses WHERE address_id = ?7"
        );
        command.batch(
            vec![keys::key_live(self.key), put],
            command.result(result, self.address_id.as_str()),
        )
    }
}
