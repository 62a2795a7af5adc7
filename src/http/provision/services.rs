//! Gateways, upstreams and addresses.

use domain::auth::provisioning::{AddressPut, GatewayPut, SwitchPut, UpstreamPut};
use domain::auth::upstream::is_idp_name;
use domain::auth::webhook::secret_hash;
use domain::ids::{AddressId, GatewayId};
use domain::keys::{Aad, DataKey, HashLabel, KeySubject};
use domain::outbox::SendChannel;
use domain::problem::{Code, Problem};
use domain::settings::Environment;
use domain::sql::{Rows, Shard};
use store::channels::channel_token;
use store::keys::{KeyRow, live_key_of_user};
use store::outbox::operate::SwitchScope;
use store::provisioning::{Address, Gateway, Switch, Upstream};

use super::{Call, Handled, Judged, Request, invalid, path_id};

/// `PUT /internal/gateways/{gateway_id}`
pub async fn put_gateway(call: &Call) -> Handled {
    let gateway_id = path_id(call, "gateway_id", GatewayId::parse)?;
    let request = Request::new(call, Shard::Directory)?;
    if let Judged::Answer(answer) = request.judge(vec![]).await? {
        return answer;
    }
    let put = GatewayPut::parse(&call.body).map_err(invalid)?;
    let master = &call.app.master;
    let secret = put.webhook_secret.as_deref();
    let webhook_secret_hash = secret.map(|secret| secret_hash(master, &gateway_id, secret));
    let place = channel_token::place(&gateway_id);
    let token = put.bot_token.as_deref();
    let token = token.map(|token| master.seal_own(&place, token.as_bytes(), &call.app.entropy));
    let token = token.transpose().map_err(|_| Problem::new(Code::Internal))?;
    let gateway = Gateway {
        gateway_id: &gateway_id,
        put: &put,
        webhook_secret_hash,
        channel_token: token.as_ref(),
    };
    request.run(gateway.batch(&request.command())).await
}

/// `PUT /internal/upstreams/{idp}`
pub async fn put_upstream(call: &Call) -> Handled {
    let idp = path_id(
        call,
        "idp",
        |idp| if is_idp_name(idp) { Ok(idp.to_owned()) } else { Err(()) },
    )?;
    let request = Request::new(call, Shard::Directory)?;
    if let Judged::Answer(answer) = request.judge(vec![]).await? {
        return answer;
    }
    let loopback = call.app.settings.environment == Environment::Dev;
    let put = UpstreamPut::parse(&call.body, loopback).map_err(invalid)?;
    request
        .run(Upstream { idp: &idp, put: &put }.batch(&request.command()))
        .await
}

/// `PUT /internal/switches/{scope}/{target}`: lets sends go on or stops them. The global one's target is `all`.
pub async fn put_switch(call: &Call) -> Handled {
    let gateway = GatewayId::parse(call.param("target")?).ok();
    let scope = match (call.param("scope")?, call.param("target")?) {
        ("global", "all") => Some(SwitchScope::Global),
        ("channel", name) => SendChannel::parse(name).map(SwitchScope::Channel),
        ("gateway", _) => gateway.as_ref().map(SwitchScope::Gateway),
        _ => None,
    };
    let scope = scope.ok_or(Problem::new(Code::NotFound))?;
    let request = Request::new(call, Shard::Directory)?;
    if let Judged::Answer(answer) = request.judge(vec![]).await? {
        return answer;
    }
    let SwitchPut { enabled } = SwitchPut::parse(&call.body).map_err(invalid)?;
    let switch = Switch { scope, enabled };
    request.run(switch.batch(&request.command())).await
}

/// `PUT /internal/addresses/{address_id}`
pub async fn put_address(call: &Call) -> Handled {
    let address_id = path_id(call, "address_id", AddressId::parse)?;
    let request = Request::new(call, Shard::Directory)?;
    // Parsed before the key is judged, to know whose data key to read; told afterwards.
    let parsed = AddressPut::parse(&call.body);
    let user_key = parsed.as_ref().map(|put| live_key_of_user(&put.user_id)).ok();
    let rows = match request.judge(user_key.into_iter().collect()).await? {
        Judged::Answer(answer) => return answer,
        Judged::Run(rows) => rows,
    };
    let put = parsed.map_err(invalid)?;
    let Some(key) = data_key(call, &put, rows.first())? else {
        return request.fail(Code::Conflict).await;
    };
    let parts = [
        put.gateway_id.as_str().as_bytes(),
        put.channel.as_bytes(),
        put.external_id.as_bytes(),
    ];
    let external_hash = call.app.master.keyed_hash_of(HashLabel::ExternalAddress, &parts);
    let place = Aad {
        table: "channel_addresses",
        row: address_id.as_str(),
        column: "external_sealed",
    };
    let external_sealed = key
        .seal(&place, put.external_id.as_bytes(), &call.app.entropy)
        .map_err(|_| Problem::new(Code::Internal))?;
    let address = Address {
        address_id: &address_id,
        put: &put,
        external_hash: &external_hash,
        key: key.id(),
        external_sealed,
    };
    request.run(address.batch(&request.command())).await
}

/// The data key of the address's owner; `None` when there is no such user, or the key was destroyed.
fn data_key(call: &Call, put: &AddressPut, rows: Option<&Rows>) -> Result<Option<DataKey>, Problem> {
    let Some(row) = rows.and_then(Rows::first) else {
        return Ok(None);
    };
    let defect = || Problem::new(Code::Internal);
    let row = KeyRow::read(row).map_err(|_| defect())?;
    let subject = KeySubject::User(put.user_id.clone());
    row.unwrap_for(&subject, &call.app.master)
        .map(Some)
        .map_err(|_| defect())
}
