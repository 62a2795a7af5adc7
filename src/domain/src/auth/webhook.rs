//! Secrets that providers show when they call a gateway's webhook.

use std::collections::HashSet;

use crate::ids::GatewayId;
use crate::keys::{HashLabel, MasterSecrets};

/// What a gateway's webhook secret is stored and compared as.
pub fn secret_hash(master: &MasterSecrets, gateway: &GatewayId, secret: &str) -> String {
    let parts = [gateway.as_str().as_bytes(), secret.as_bytes()];
    master.keyed_hash_of(HashLabel::WebhookSecret, &parts)
}

/// The secrets that turned out right a while ago, as hashes: who shows one of them is most likely the provider, whose
/// few addresses carry everyone's messages. It decides only which limit counts, never who is let in.
#[derive(Debug)]
pub struct ShownRight {
    hashes: HashSet<String>,
    max: usize,
}

impl ShownRight {
    /// Remembers at most `max` secrets; when that is full it begins anew.
    pub fn new(max: usize) -> Self {
        Self {
            hashes: HashSet::new(),
            max,
        }
    }

    pub fn contains(&self, hash: &str) -> bool {
        self.hashes.contains(hash)
    }

    /// The database said that it is right.
    pub fn remember(&mut self, hash: &str) {
        if self.hashes.contains(hash) {
            return;
        }
        if self.hashes.len() >= self.max {
            self.hashes.clear();
        }
        self.hashes.insert(hash.to_owned());
    }

    /// The database said that it is not right, perhaps no longer.
    pub fn forget(&mut self, hash: &str) {
        self.hashes.remove(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_compared_as_its_own_gateways_only() {
        let text = r#"{"current":1,"versions":{"1":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="},"hash_version":1}"#;
        let master = MasterSecrets::from_json(text).unwrap();
        let hash = |gateway, secret| secret_hash(&master, &GatewayId::parse(gateway).unwrap(), secret);
        assert_eq!(hash("gateway_00a", "s"), hash("gateway_00a", "s"));
        assert_ne!(hash("gateway_00a", "s"), hash("gateway_00b", "s"));
        assert_ne!(hash("gateway_00a", "s"), hash("gateway_00a", "s2"));
    }

    #[test]
    fn what_was_right_is_remembered_within_bounds() {
        let mut right = ShownRight::new(2);
        for hash in ["a", "b", "a"] {
            right.remember(hash);
        }
        assert!(right.contains("a") && right.contains("b") && !right.contains("c"));
        right.forget("a");
        assert!(!right.contains("a"));
        for hash in ["c", "d"] {
            right.remember(hash);
        }
        assert!(right.contains("d") && !right.contains("b"));
    }
}
