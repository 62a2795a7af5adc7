//! The conditions under which an outbox row may be claimed, by name.
//!
//! A guard aborts a whole batch; a fence only leaves a row where it is. Each stands on a line of its own in the SQL of
//! the claim, as `AND <condition> -- fence: <label>`, so that a test can take out exactly one. Each has a soak test in
//! which that is done and a failing seed must be found.

macro_rules! fences {
    ($($(#[$doc:meta])* $variant:ident => $label:literal,)+) => {
        /// A named condition of the claim.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Fence { $($(#[$doc])* $variant,)+ }

        impl Fence {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The label as it stands behind its condition in SQL.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }

            /// The fence of this label, if it is one of ours.
            pub fn from_label(label: &str) -> Option<Self> {
                match label { $($label => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

fences! {
    /// Neither the whole service, the channel nor the gateway is switched off.
    SendsEnabled => "sends_enabled",
    /// The service's epoch is the one the order to send came from.
    SendEpoch => "send_epoch",
    /// The gateway is active, and sending for it is the claimant's business.
    GatewayOpen => "gateway_open",
    /// The gateway's pace, or the time its provider asked for, allows it.
    GatewayPaced => "gateway_paced",
    /// Its time has come.
    Due => "due",
    /// It has not expired.
    NotExpired => "not_expired",
    /// No one holds it, or their lease has run out.
    LeaseFree => "lease_free",
    /// No earlier row of its lane is unsettled.
    LaneClear => "lane_clear",
    /// The lane's pace allows it.
    LanePaced => "lane_paced",
    /// The person, their address and the gateway's leave to speak to them are as they were when it was made.
    StillAuthorized => "still_authorized",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_leads_back_to_its_fence() {
        for fence in Fence::ALL {
            assert_eq!(Fence::from_label(fence.label()), Some(*fence));
        }
        assert_eq!(Fence::from_label("nonsense"), None);
    }
}
