//! Tokens this isolate has verified before, so that their signatures are not computed again.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest as _, Sha256};

use super::principal::Principal;
use crate::time::Timestamp;

/// SHA-256 of a token: the token itself is never kept.
type Fingerprint = [u8; 32];

/// A bounded map from verified tokens to their principals. An entry is never served at or past its `exp`.
///
/// When full, the entry that was stored first makes room: what is evicted depends only on the calls made.
#[derive(Debug)]
pub struct VerifiedTokens {
    capacity: usize,
    next_order: u64,
    entries: HashMap<Fingerprint, (u64, Principal)>,
    by_order: BTreeMap<u64, Fingerprint>,
}

impl VerifiedTokens {
    /// A cache of at most `capacity` tokens.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            next_order: 0,
            entries: HashMap::new(),
            by_order: BTreeMap::new(),
        }
    }

    /// The principal of a token verified before, unless it has expired by `now`.
    pub fn get(&mut self, token: &str, now: Timestamp) -> Option<Principal> {
        let fingerprint = fingerprint(token);
        let (order, principal) = self.entries.get(&fingerprint)?;
        if now < principal.expires_at {
            return Some(principal.clone());
        }
        let order = *order;
        self.entries.remove(&fingerprint);
        self.by_order.remove(&order);
        None
    }

    /// Remembers that `token` was verified to be of `principal`.
    pub fn insert(&mut self, token: &str, principal: Principal) {
        if self.capacity == 0 {
            return;
        }
        let fingerprint = fingerprint(token);
        if let Some((order, _)) = self.entries.remove(&fingerprint) {
            self.by_order.remove(&order);
        }
        while self.entries.len() >= self.capacity {
            let Some((_, oldest)) = self.by_order.pop_first() else {
                break;
            };
            self.entries.remove(&oldest);
        }
        let order = self.next_order;
        self.next_order = order.saturating_add(1);
        self.by_order.insert(order, fingerprint);
        self.entries.insert(fingerprint, (order, principal));
    }

    /// How many tokens are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn fingerprint(token: &str) -> Fingerprint {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::principal::{AuthMethod, Subject};
    use crate::ids::TokenId;
    use crate::time::Millis;

    fn principal(expires_at: Timestamp) -> Principal {
        Principal {
            subject: Subject::Operator("on-call".to_owned()),
            family: None,
            roles: vec![],
            scopes: vec![],
            jti: TokenId::parse("jwt_00demo").unwrap(),
            auth_method: AuthMethod::Operator,
            gateway: None,
            revision: 0,
            issued_at: Timestamp::from_millis(0),
            expires_at,
            idp: None,
            idp_sub: None,
        }
    }

    #[test]
    fn an_entry_ends_with_its_token() {
        let end = Timestamp::from_millis(1_000);
        let mut cache = VerifiedTokens::new(4);
        cache.insert("one", principal(end));
        assert_eq!(cache.get("one", end.minus(Millis::new(1))), Some(principal(end)));
        assert_eq!(cache.get("One", end.minus(Millis::new(1))), None);
        assert_eq!(cache.get("one", end), None);
        assert!(cache.is_empty());
        assert_eq!(
            cache.get("one", Timestamp::from_millis(0)),
            None,
            "gone even if the clock goes back"
        );
    }

    #[test]
    fn the_first_stored_makes_room() {
        let end = Timestamp::from_millis(1_000);
        let start = Timestamp::from_millis(0);
        let mut cache = VerifiedTokens::new(2);
        for token in ["one", "two", "one", "three"] {
            cache.insert(token, principal(end));
            assert!(cache.len() <= 2);
        }
        let there = ["one", "two", "three"].map(|token| cache.get(token, start).is_some());
        assert_eq!(there, [true, false, true]);
        let mut none = VerifiedTokens::new(0);
        none.insert("one", principal(end));
        assert_eq!(none.get("one", start), None);
    }
}
