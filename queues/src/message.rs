//! What stands on the jobs queue. Version N reads N − 1.

use domain::ids::UserId;
use serde::{Deserialize, Serialize};

/// A message as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "v")]
pub enum JobMessage {
    #[serde(rename = "1")]
    V1(JobV1),
}

/// Version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobV1 {
    /// The epoch it was sent in; after a restore it is dropped.
    pub epoch: i64,
    #[serde(flatten)]
    pub job: Job,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Job {
    /// Run the oldest unfinished turn of this user, and those behind it.
    Generate { user_id: UserId },
}

/// The body is not a message this version can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

impl JobMessage {
    /// A message in the current version.
    pub fn new(epoch: i64, job: Job) -> Self {
        Self::V1(JobV1 { epoch, job })
    }

    pub fn encode(&self) -> String {
        // Plain enums and ids always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn decode(body: &str) -> Result<Self, Undecodable> {
        serde_json::from_str(body).map_err(|_| Undecodable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_stable_form() {
        let user_id = UserId::parse("user_00ann").unwrap();
        let message = JobMessage::new(3, Job::Generate { user_id });
        let body = r#"{"v":"1","epoch":3,"kind":"generate","user_id":"user_00ann"}"#;
        assert_eq!(message.encode(), body);
        assert_eq!(JobMessage::decode(body), Ok(message));
    }

    #[test]
    fn what_cannot_be_read_is_said_to_be_so() {
        for body in [
            "",
            "{}",
            r#"{"v":"9","epoch":1,"kind":"generate","user_id":"user_00a"}"#,
            r#"{"v":"1","epoch":1,"kind":"generate","user_id":"x"}"#,
        ] {
            assert_eq!(JobMessage::decode(body), Err(Undecodable), "{body}");
        }
    }
}
