//! Whether the service lives, whether it is ready, and exactly what is running.

use domain::ports::{Clock, Sql};
use domain::problem::Code;
use domain::sql::{Outcome, Shard};
use domain::time::Millis;
use futures::future::{Either, select};
use serde::Serialize;
use worker::WorkerVersionMetadata;

use super::Handled;
use super::reply::Reply;
use super::request::Call;

/// How long the database may take to answer a readiness check.
const DATABASE_DEADLINE: Millis = Millis::from_secs(3);

/// The isolate runs code. Nothing else is looked at.
pub fn live() -> Reply {
    #[derive(Serialize)]
    struct Live {
        status: &'static str,
    }
    Reply::json(200, &Live { status: "live" })
}

#[derive(Serialize)]
struct Ready {
    status: &'static str,
    checks: Checks,
}

#[derive(Serialize)]
struct Checks {
    /// The database answers.
    database: bool,
    /// It has the schema this code was written for.
    schema: bool,
    /// The settings and keys were read. Without them this check itself answers 503 `unavailable`.
    keys: bool,
    /// The objects and the queue are bound.
    bindings: bool,
}

/// Whether requests can be served. Calls no model.
pub async fn ready(call: &Call) -> Handled {
    let found = schema_version(call).await;
    let checks = Checks {
        database: found.is_some(),
        schema: found == Some(store::meta::SCHEMA_VERSION),
        keys: true,
        bindings: call.env.durable_object("USER_TURNS").is_ok()
            && call.env.queue("JOBS").is_ok()
            && call.env.queue("SENDS").is_ok(),
    };
    let ready = checks.database && checks.schema && checks.keys && checks.bindings;
    let (status, word) = if ready {
        (200, "ready")
    } else {
        (Code::Unavailable.status(), "not_ready")
    };
    Ok(Reply::json(status, &Ready { status: word, checks }))
}

/// How long an answer of the database is taken for the state of things. Health checks need no credential, so they must
/// not be a way to load the database.
const SEEN_FOR: Millis = Millis::from_secs(1);

async fn schema_version(call: &Call) -> Option<i64> {
    let now = call.app.clock.now();
    if let Some((at, version)) = call.app.schema_seen.get()
        && now.since(at) >= Millis::ZERO
        && now.since(at) < SEEN_FOR
    {
        return version;
    }
    let version = ask_schema_version(call).await;
    call.app.schema_seen.set(Some((now, version)));
    version
}

async fn ask_schema_version(call: &Call) -> Option<i64> {
    let batch = Box::pin(call.sql.batch(Shard::Directory, vec![store::meta::read()]));
    let deadline = Box::pin(call.app.clock.sleep(DATABASE_DEADLINE));
    match select(batch, deadline).await {
        Either::Left((Outcome::Committed(results), _)) => Some(
            store::meta::Meta::from_row(results.first()?.first()?)
                .ok()?
                .schema_version,
        ),
        Either::Left((Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown, _)) | Either::Right(_) => None,
    }
}

#[derive(Serialize)]
struct Version {
    service: &'static str,
    environment: &'static str,
    git_commit: &'static str,
    dependency_lock_sha256: &'static str,
    /// Of the deployed bundle; what an image digest is elsewhere.
    bundle_sha256: Option<String>,
    config_revision: String,
    /// What the database says; `null` while it does not answer.
    schema_version: Option<i64>,
    /// What this code was written for.
    schema_version_expected: i64,
    build_time: &'static str,
    /// Cloudflare's id of the deployed version.
    version_id: Option<String>,
    instance_id: String,
    protocol_versions: Protocols,
}

#[derive(Serialize)]
struct Protocols {
    chat: u32,
    object: u32,
}

/// What is running here. The commit, the lock file's hash and the time are set when it is built.
pub async fn version(call: &Call) -> Handled {
    let settings = &call.app.settings;
    let metadata = call.env.get_binding::<WorkerVersionMetadata>("VER").ok();
    Ok(Reply::json(
        200,
        &Version {
            service: "hermod",
            environment: settings.environment.as_str(),
            git_commit: option_env!("HERMOD_GIT_COMMIT").unwrap_or("unknown"),
            dependency_lock_sha256: option_env!("HERMOD_LOCK_SHA256").unwrap_or("unknown"),
            bundle_sha256: settings.bundle_sha256.clone(),
            config_revision: settings.config_revision.clone(),
            schema_version: schema_version(call).await,
            schema_version_expected: store::meta::SCHEMA_VERSION,
            build_time: option_env!("HERMOD_BUILD_TIME").unwrap_or("unknown"),
            version_id: metadata.map(|metadata| metadata.id()),
            instance_id: call.app.instance_id.clone(),
            protocol_versions: Protocols { chat: 1, object: 1 },
        },
    ))
}
