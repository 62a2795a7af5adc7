//! Which consumer a batch is for, by the name of the queue it came from.

/// What a queue is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inbox {
    /// Work after the answer: waking objects.
    Jobs,
    /// Orders to send.
    Sends,
    /// What the consumers of the others gave back too often. The sweep finds the work again.
    Dead,
}

impl Inbox {
    /// Every environment puts its own name behind these.
    pub fn of(queue: &str) -> Option<Self> {
        let kinds = [
            ("hermod-jobs-dlq", Self::Dead),
            ("hermod-sends-dlq", Self::Dead),
            ("hermod-jobs", Self::Jobs),
            ("hermod-sends", Self::Sends),
        ];
        let known = kinds.into_iter().find(|(name, _)| {
            let rest = queue.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        known.map(|(_, inbox)| inbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_told_apart_in_every_environment() {
        for (name, inbox) in [
            ("hermod-jobs", Some(Inbox::Jobs)),
            ("hermod-jobs-staging", Some(Inbox::Jobs)),
            ("hermod-jobs-dlq-production", Some(Inbox::Dead)),
            ("hermod-sends", Some(Inbox::Sends)),
            ("hermod-sends-production", Some(Inbox::Sends)),
            ("hermod-sends-dlq", Some(Inbox::Dead)),
            ("hermod-sendsx", None),
            ("other", None),
        ] {
            assert_eq!(Inbox::of(name), inbox, "{name}");
        }
    }
}
