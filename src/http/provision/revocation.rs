//! Tokens that count no longer.

use domain::auth::provisioning::Revocation;
use domain::problem::Code;
use domain::sql::Shard;
use store::provisioning::Revoke;

use super::{Call, Handled, Judged, Request, invalid};

/// `POST /internal/revocations`
///
/// A lost answer to `all` cannot be had again with the token that asked for it: that token is stale as well.
pub async fn revoke(call: &Call) -> Handled {
    // Parsed before the key is judged, to know where the key's result is kept; told afterwards.
    let parsed = Revocation::parse(&call.body);
    let request = Request::new(call, shard(parsed.as_ref().ok()))?;
    if let Judged::Answer(answer) = request.judge(vec![]).await? {
        return answer;
    }
    let revocation = parsed.map_err(invalid)?;
    let revoke = Revoke {
        revocation: &revocation,
        // Not when the request arrived: a token that was issued while its body came in is an older one too.
        now: call.now(),
    };
    // The only thing that can stand in its way is that there is nobody to revoke for.
    request.run_or(revoke.batch(&request.command()), Code::NotFound).await
}

/// Where the time is kept. The global one stands on every shard, of which there is one.
fn shard(revocation: Option<&Revocation>) -> Shard {
    match revocation {
        Some(Revocation::User { user_id }) => user_id.shard(),
        Some(Revocation::Gateway { .. } | Revocation::All {}) | None => Shard::Directory,
    }
}
