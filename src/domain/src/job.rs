//! What stands on the queues. Version N reads N − 1.

use serde::{Deserialize, Serialize};

use crate::ids::{GatewayId, UserId};

/// Something to be done. Losing one is harmless, doing it twice too: it only says where to look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Job {
    /// Run the oldest unfinished turn of this user, and those behind it.
    Generate { user_id: UserId },
    /// Send whatever of this gateway is due.
    Deliver { gateway_id: GatewayId },
}

/// A message of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobMessage {
    /// The epoch it was sent in; after a restore it is dropped.
    pub epoch: i64,
    pub job: Job,
}

/// A message as it is written.
#[derive(Serialize, Deserialize)]
#[serde(tag = "v")]
enum Wire {
    /// Knew nothing but generating. Still written for it, so that a consumer of the version before reads it.
    #[serde(rename = "1")]
    V1 {
        epoch: i64,
        #[serde(flatten)]
        job: JobV1,
    },
    #[serde(rename = "2")]
    V2 {
        epoch: i64,
        #[serde(flatten)]
        job: Job,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum JobV1 {
    Generate { user_id: UserId },
}

/// The body is not a message this version can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

impl JobMessage {
    pub fn new(epoch: i64, job: Job) -> Self {
        Self { epoch, job }
    }

    /// The body to be sent.
    pub fn encode(&self) -> String {
        let epoch = self.epoch;
        let wire = match self.job.clone() {
            Job::Generate { user_id } => Wire::V1 {
                epoch,
                job: JobV1::Generate { user_id },
            },
            job @ Job::Deliver { .. } => Wire::V2 { epoch, job },
        };
        // Plain enums and ids always serialise.
        serde_json::to_string(&wire).unwrap_or_default()
    }

    pub fn decode(body: &str) -> Result<Self, Undecodable> {
        let wire = serde_json::from_str(body).map_err(|_| Undecodable)?;
        Ok(match wire {
            Wire::V1 {
                epoch,
                job: JobV1::Generate { user_id },
            } => Self::new(epoch, Job::Generate { user_id }),
            Wire::V2 { epoch, job } => Self::new(epoch, job),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_stable_form() {
        let user_id = UserId::parse("user_00ann").unwrap();
        let gateway_id = GatewayId::parse("gateway_00bot").unwrap();
        let generate = r#"{"v":"1","epoch":3,"kind":"generate","user_id":"user_00ann"}"#;
        let deliver = r#"{"v":"2","epoch":3,"kind":"deliver","gateway_id":"gateway_00bot"}"#;
        for (job, body) in [
            (Job::Generate { user_id }, generate),
            (Job::Deliver { gateway_id }, deliver),
        ] {
            let message = JobMessage::new(3, job);
            assert_eq!(message.encode(), body);
            assert_eq!(JobMessage::decode(body), Ok(message));
        }
    }

    #[test]
    fn the_current_version_reads_generating_too() {
        let body = r#"{"v":"2","epoch":3,"kind":"generate","user_id":"user_00ann"}"#;
        let user_id = UserId::parse("user_00ann").unwrap();
        assert_eq!(
            JobMessage::decode(body),
            Ok(JobMessage::new(3, Job::Generate { user_id }))
        );
    }

    #[test]
    fn what_cannot_be_read_is_said_to_be_so() {
        for body in [
            "",
            "{}",
            r#"{"v":"9","epoch":1,"kind":"generate","user_id":"user_00a"}"#,
            r#"{"v":"1","epoch":1,"kind":"generate","user_id":"x"}"#,
            r#"{"v":"1","epoch":1,"kind":"deliver","gateway_id":"gateway_00bot"}"#,
            r#"{"v":"2","epoch":1,"kind":"forget"}"#,
        ] {
            assert_eq!(JobMessage::decode(body), Err(Undecodable), "{body}");
        }
    }
}
