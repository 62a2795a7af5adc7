//! The labels of the guards that stand at the head of write batches.
//!
//! A guard is one row inserted into the `must` view: when its condition is not true, the whole batch aborts and the
//! label comes back. Each label here has a soak test in which it is dropped and a failing seed must be found.

macro_rules! guards {
    ($($(#[$doc:meta])* $variant:ident => $label:literal,)+) => {
        /// A named condition of a write batch.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Guard { $($(#[$doc])* $variant,)+ }

        impl Guard {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The label as it stands in SQL and comes back in the abort.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }

            /// The guard of this label, if it is one of ours.
            pub fn from_label(label: &str) -> Option<Self> {
                match label { $($label => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

guards! {
    /// The caller's token is not older than a revocation and names the current authorization revision.
    TokenCurrent => "token_current",
    /// The data key that encrypted this batch's content still exists and was not destroyed.
    KeyLive => "key_live",
    /// The service's epoch has not moved since the caller read it.
    EpochCurrent => "epoch_current",
    /// The conversation still is as it was when the session was decided.
    SessionCurrent => "session_current",
    /// No generation of this user is running, or its lease has run out.
    LineFree => "line_free",
    /// No older turn of this user is still open.
    OldestFirst => "oldest_first",
    /// The turn is in a state from which this step may be taken.
    TurnOpen => "turn_open",
    /// The caller holds the user's run token.
    RunHeld => "run_held",
    /// The idempotency key was not used by this caller before.
    KeyUnused => "key_unused",
    /// This update of a channel was not handled before.
    IngressUnused => "ingress_unused",
    /// The sender's address, the person behind it and the gateway's leave to speak for them are as they were read.
    SenderCurrent => "sender_current",
    /// The link code was given to this person, was not used and has not run out.
    LinkCodeLive => "link_code_live",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_leads_back_to_its_guard() {
        for guard in Guard::ALL {
            assert_eq!(Guard::from_label(guard.label()), Some(*guard));
        }
        assert_eq!(Guard::from_label("nonsense"), None);
    }
}
