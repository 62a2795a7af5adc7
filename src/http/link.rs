//! `POST /channels/{channel}/link` and `/unlink`: a person's own chats.

use domain::auth::link_code::{LINK_CODE_LIFE, LinkCode};
use domain::http::bodies::expect_empty;
use domain::ids::UserId;
use domain::problem::{Code, Problem};
use domain::rfc3339;
use domain::time::Timestamp;
use objects::ingress::TELEGRAM;
use serde::{Deserialize, Serialize};
use store::channels::link::Linking;
use store::idempotency::{Settled, StoredResult};

use super::provision::{Judged, Looked, Request};
use super::{Call, Handled, Reply};

/// What is kept of an answer: the code is made anew each time, and is stored nowhere.
#[derive(Serialize, Deserialize)]
struct Kept {
    expires_at: Timestamp,
}

/// A code, as its person gets it.
#[derive(Serialize)]
struct Given<'a> {
    code: &'a str,
    expires_at: String,
    /// What to send to the bot.
    command: String,
}

/// Gives the caller a one-time code.
pub async fn link(call: &Call) -> Handled {
    let (user, channel) = whose(call)?;
    let request = Request::new(call, user.shard())?;
    let code = LinkCode::of(&call.app.master, &user, channel, request.key_hash());
    match request.look_up(vec![]).await? {
        Looked::Replay(result) => return tell(&code, &result, true),
        Looked::Reused => return Err(Problem::new(Code::IdempotencyKeyReused)),
        Looked::Unused(_) => {}
    }
    expect_empty(&call.body)?;
    let linking = Linking {
        user_id: &user,
        channel,
    };
    let expires_at = call.received_at.plus(LINK_CODE_LIFE);
    let kept = serde_json::to_string(&Kept { expires_at }).map_err(|_| Problem::new(Code::Internal))?;
    let code_hash = code.hash(&call.app.master);
    let batch = linking.issue(&request.command(), &code_hash, expires_at, &kept);
    let settled = request.settle(batch).await;
    let replayed = matches!(settled, Settled::Replayed(_));
    if let Settled::Done(result) | Settled::Replayed(result) = &settled {
        return tell(&code, result, replayed);
    }
    request.tell(settled)
}

/// Ends every bond of the caller's chats on the channel.
pub async fn unlink(call: &Call) -> Handled {
    let (user, channel) = whose(call)?;
    let request = Request::new(call, user.shard())?;
    if let Judged::Answer(answer) = request.judge(vec![]).await? {
        return answer;
    }
    expect_empty(&call.body)?;
    let linking = Linking {
        user_id: &user,
        channel,
    };
    request.run(linking.unlink(&request.command())).await
}

fn whose(call: &Call) -> Result<(UserId, &'static str), Problem> {
    let user = call.principal()?.user().cloned().ok_or(Problem::new(Code::Forbidden))?;
    match call.param("channel")? {
        TELEGRAM => Ok((user, TELEGRAM)),
        _ => Err(Problem::new(Code::NotFound)),
    }
}

fn tell(code: &LinkCode, result: &StoredResult, replayed: bool) -> Handled {
    let kept: Kept = serde_json::from_str(&result.response).map_err(|_| Problem::new(Code::Internal))?;
    let reply = Reply::json(
        200,
        &Given {
            code: code.reveal(),
            expires_at: rfc3339::format(kept.expires_at),
            command: format!("/start {}", code.reveal()),
        },
    );
    Ok(if replayed { reply.replayed() } else { reply })
}
