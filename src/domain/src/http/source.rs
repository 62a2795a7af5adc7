//! Where a request came from, as far as the platform says so.

use std::net::IpAddr;

/// The client's network address, from the header that the platform sets. It serves limits and forensics only and
/// never decides who a caller is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SourceAddress(IpAddr);

// An address is personal data.
impl std::fmt::Debug for SourceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SourceAddress(..)")
    }
}

impl SourceAddress {
    pub fn parse(header: &str) -> Option<Self> {
        header
            .trim()
            .parse::<IpAddr>()
            .ok()
            .map(|address| Self(address.to_canonical()))
    }

    /// One spelling for each address, to be hashed.
    pub fn canonical(self) -> String {
        self.0.to_string()
    }

    /// What counts as one sender: the address, or the /64 that a household's IPv6 addresses are drawn from.
    pub fn sender(self) -> String {
        match self.0 {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_household_is_one_sender() {
        let sender = |text| SourceAddress::parse(text).map(SourceAddress::sender);
        assert_eq!(sender("192.0.2.7"), Some("192.0.2.7".to_owned()));
        assert_eq!(sender("::ffff:192.0.2.7"), Some("192.0.2.7".to_owned()));
        assert_eq!(sender("2001:db8:1:2:aaaa::1"), Some("2001:db8:1:2::/64".to_owned()));
        assert_eq!(sender("2001:DB8:1:2:bbbb::2"), sender("2001:db8:1:2:aaaa::1"));
        assert_eq!(sender("example.org"), None);
        assert_eq!(sender("192.0.2.7, 192.0.2.8"), None);
    }
}
