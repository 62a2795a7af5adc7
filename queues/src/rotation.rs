//! After a new master secret was deployed: wraps the data keys and seals the gateways' credentials anew, a few pages a
//! minute, until none is left.
//!
//! With nothing to do it costs one read through an index and one through the few gateways there are. Every page may be repeated, so it needs no lease.

use domain::keys::MasterSecrets;
use domain::ports::{Entropy, Sql};
use domain::sql::Shard;
use store::channels::channel_token::reseal_page;
use store::keys::rewrap::{Place, rewrap_page};

/// The most pages in one go: 1,000 keys.
const PAGES_MAX: u32 = 20;

/// What one go did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotated {
    /// Keys and credentials that now stand under the current version.
    pub rewrapped: u32,
    /// Those that no configured version opens: the older secret was removed too early, or the row was changed.
    pub unreadable: u32,
    /// The database did not take a page; the next go repeats it.
    pub failed: bool,
}

/// Wraps up to 1,000 keys of `shard` that stand under an older version, and seals up to 1,000 credentials of gateways
/// anew.
pub async fn rotate(sql: &impl Sql, shard: Shard, secrets: &MasterSecrets, entropy: &impl Entropy) -> Rotated {
    let mut rotated = Rotated::default();
    let mut place = Place::default();
    for _ in 0..PAGES_MAX {
        let Ok(page) = rewrap_page(sql, shard, secrets, &place, entropy).await else {
            rotated.failed = true;
            break;
        };
        rotated.rewrapped = rotated.rewrapped.saturating_add(page.rewrapped);
        rotated.unreadable = rotated.unreadable.saturating_add(page.unreadable);
        let Some(next) = page.next else { break };
        place = next;
    }
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let Ok(page) = reseal_page(sql, secrets, after.as_ref(), entropy).await else {
            rotated.failed = true;
            break;
        };
        rotated.rewrapped = rotated.rewrapped.saturating_add(page.resealed);
        rotated.unreadable = rotated.unreadable.saturating_add(page.unreadable);
        if page.next.is_none() {
            break;
        }
        after = page.next;
    }
    rotated
}
