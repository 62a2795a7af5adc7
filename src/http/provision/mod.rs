//! The provisioning routes: operators write the directory, each command once per `Idempotency-Key`. Other commands with
//! such a key are run in the same way.

mod people;
mod revocation;
mod services;

use domain::auth::Principal;
use domain::auth::provisioning::InvalidBody;
use domain::guard::Guard;
use domain::http::json;
use domain::http::routes::{BodyRule, Endpoint};
use domain::idempotency;
use domain::ids::DataKeyId;
use domain::keys::{DataKey, KeySubject, WrappedKey};
use domain::problem::{Code, Problem};
use domain::sql::{Rows, Shard, Statement};
use domain::time::Millis;
use store::idempotency::{KeyUse, Known, Settled, StoredResult, settle};
use store::provisioning::Command;
use store::token;

use super::batches::read;
use super::{Body, Call, Handled, Reply};

/// Runs the command that the path names.
pub async fn run(call: &Call) -> Handled {
    match call.route.endpoint {
        Endpoint::PutFamily => people::put_family(call).await,
        Endpoint::PutUser => people::put_user(call).await,
        Endpoint::PutIdentity => people::put_identity(call).await,
        Endpoint::PutGateway => services::put_gateway(call).await,
        Endpoint::PutUpstream => services::put_upstream(call).await,
        Endpoint::PutAddress => services::put_address(call).await,
        Endpoint::PutSwitch => services::put_switch(call).await,
        Endpoint::Revoke => revocation::revoke(call).await,
        Endpoint::RemovedToken
        | Endpoint::ExchangeToken
        | Endpoint::Jwks
        | Endpoint::Chat
        | Endpoint::ReadTurn
        | Endpoint::AckTurn
        | Endpoint::Live
        | Endpoint::Ready
        | Endpoint::Version
        | Endpoint::OpenApi
        | Endpoint::ClaimOutbox
        | Endpoint::BeginAttempt
        | Endpoint::ConfirmAttempt
        | Endpoint::FailAttempt
        | Endpoint::Telegram
        | Endpoint::LinkChannel
        | Endpoint::UnlinkChannel => Err(Problem::new(Code::NotFound)),
    }
}

/// What a command is known by, in owned form.
pub struct Request<'a> {
    call: &'a Call,
    principal: &'a Principal,
    caller: String,
    route: String,
    key_hash: String,
    request_hash: String,
    shard: Shard,
}

/// Either the answer is known already, or the command has to run.
pub enum Judged {
    Answer(Handled),
    /// The rows of the extra statements.
    Run(Vec<Rows>),
}

/// What is known of a command's key.
pub enum Looked {
    /// With the rows of the extra statements.
    Unused(Vec<Rows>),
    Replay(StoredResult),
    Reused,
}

impl<'a> Request<'a> {
    pub fn new(call: &'a Call, shard: Shard) -> Result<Self, Problem> {
        let may_be_empty = matches!(call.route.body, BodyRule::OptionalJson { .. });
        let body = if may_be_empty && call.body.is_empty() {
            "{}"
        } else {
            &call.body
        };
        json::parse(body).map_err(|json::MalformedJson| Problem::new(Code::MalformedJson))?;
        let principal = call.principal()?;
        let request_hash = idempotency::request_hash(&call.app.master, &call.path, body)
            .map_err(|_| Problem::new(Code::MalformedJson))?;
        Ok(Self {
            call,
            principal,
            caller: idempotency::caller(principal),
            route: call.route.label(),
            key_hash: call.idempotency_key()?.hash(&call.app.master),
            request_hash,
            shard,
        })
    }

    /// Keyed hash of the caller's `Idempotency-Key`.
    pub fn key_hash(&self) -> &str {
        &self.key_hash
    }

    pub fn command(&self) -> Command<'_> {
        let key = KeyUse {
            caller: &self.caller,
            route: &self.route,
            key_hash: &self.key_hash,
            request_hash: &self.request_hash,
            now: self.call.received_at,
        };
        Command {
            principal: self.principal,
            key,
        }
    }

    /// [`Self::look_up`], with what the key knows as an answer.
    pub async fn judge(&self, extra: Vec<Statement>) -> Result<Judged, Problem> {
        match self.look_up(extra).await? {
            Looked::Unused(rows) => Ok(Judged::Run(rows)),
            Looked::Replay(result) => Ok(Judged::Answer(self.answer(result, true))),
            Looked::Reused => Err(Problem::new(Code::IdempotencyKeyReused)),
        }
    }

    /// The first batch: whether the token still counts and whether the key was used, before the body is judged.
    pub async fn look_up(&self, extra: Vec<Statement>) -> Result<Looked, Problem> {
        let key = self.command().key;
        let mut batch = vec![token::freshness(self.principal), key.look_up()];
        batch.extend(extra);
        let mut rows = read(self.call, self.shard, batch).await?.into_iter();
        let (Some(fresh), Some(known)) = (rows.next(), rows.next()) else {
            return Err(Problem::new(Code::Internal));
        };
        if !token::is_fresh(&fresh).map_err(|_| Problem::new(Code::Internal))? {
            return Err(Problem::new(Code::TokenStale));
        }
        match key.read(&known).map_err(|_| Problem::new(Code::Internal))? {
            Known::Unused => Ok(Looked::Unused(rows.collect())),
            Known::Replay(result) => Ok(Looked::Replay(result)),
            Known::Reused => Ok(Looked::Reused),
        }
    }

    /// Runs the command. Whatever stands in its way in the database becomes its stored result.
    pub async fn run(&self, batch: Vec<Statement>) -> Handled {
        self.run_or(batch, Code::Conflict).await
    }

    /// [`Self::run`], where what stands in the way is told as `code`.
    async fn run_or(&self, batch: Vec<Statement>, code: Code) -> Handled {
        let settled = self.settle(batch).await;
        if matches!(settled, Settled::Conflict | Settled::Refused(Guard::KeyLive)) {
            return self.fail(code).await;
        }
        self.tell(settled)
    }

    /// Stores a failure as the command's result and answers it.
    async fn fail(&self, code: Code) -> Handled {
        let problem = Problem {
            new_key_required: true,
            ..Problem::new(code)
        };
        let stored = serde_json::to_string(&problem).map_err(|_| Problem::new(Code::Internal))?;
        let batch = self.command().fail(code.status(), &stored);
        self.tell(self.settle(batch).await)
    }

    pub async fn settle(&self, batch: Vec<Statement>) -> Settled {
        settle(
            &self.call.sql,
            &self.call.app.clock,
            self.shard,
            &self.command().key,
            batch,
        )
        .await
    }

    pub fn tell(&self, settled: Settled) -> Handled {
        match settled {
            Settled::Done(result) => self.answer(result, false),
            Settled::Replayed(result) => self.answer(result, true),
            Settled::Reused => Err(Problem::new(Code::IdempotencyKeyReused)),
            Settled::Refused(Guard::TokenCurrent) => Err(Problem::new(Code::TokenStale)),
            Settled::Overloaded => Err(Problem::new(Code::Overloaded).with_retry_after(Millis::from_secs(5))),
            Settled::Unavailable => Err(Problem::new(Code::Unavailable).with_retry_after(Millis::from_secs(1))),
            Settled::Conflict | Settled::Refused(_) | Settled::Defect => Err(Problem::new(Code::Internal)),
        }
    }

    /// A stored result as an answer. Failures are stored as problems and get this request's id.
    fn answer(&self, result: StoredResult, replayed: bool) -> Handled {
        let reply = if result.status < 400 {
            Reply::json_text(result.status, result.response)
        } else {
            let problem: Problem = serde_json::from_str(&result.response).map_err(|_| Problem::new(Code::Internal))?;
            let body = Body::Bytes(problem.body(&self.call.request_id).into_bytes());
            Reply::of(problem.code.status(), Problem::MEDIA_TYPE, body)
        };
        Ok(if replayed { reply.replayed() } else { reply })
    }

    /// A data key for a subject that may not have one yet.
    fn new_key(&self, subject: KeySubject) -> Result<(DataKey, WrappedKey), Problem> {
        let app = &self.call.app;
        let id = DataKeyId::mint(self.call.received_at, &app.entropy);
        let key = DataKey::generate(id, subject, &app.entropy);
        let wrapped = app
            .master
            .wrap(&key, &app.entropy)
            .map_err(|_| Problem::new(Code::Internal))?;
        Ok((key, wrapped))
    }
}

fn invalid(InvalidBody(rule): InvalidBody) -> Problem {
    Problem::new(Code::InvalidBody).with_detail(rule)
}

/// An id in the path that is not one names nothing.
fn path_id<T, E>(call: &Call, name: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, Problem> {
    parse(call.param(name)?).map_err(|_| Problem::new(Code::NotFound))
}
