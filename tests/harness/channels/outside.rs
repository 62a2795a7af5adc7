//! A sender outside the service, who fetches what is due for its own gateway and says what came of it.

use std::rc::Rc;

use domain::auth::{AuthMethod, Principal, Scope, Subject};
use domain::ids::{GatewayId, LeaseToken, OutboxId, TokenId};
use domain::outbox::SendChannel;
use domain::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use domain::outbox::outside::{AttemptBody, ClaimBody, OutcomeBody};
use domain::outbox::policy::WAVE_MAX;
use domain::ports::Clock;
use domain::problem::{Code, Problem};
use domain::sql::Value;
use domain::telegram::send::{Message, request};
use domain::time::Millis;
use queues::deliver::SendPorts;
use queues::outside::{Answer, Request};
use queues::telegram;
use store::idempotency::KeyUse;

use super::callers::Caller;
use super::plan::{Manner, Whom};
use super::{World, service};
use crate::network::SimSql;
use crate::rng::Rng;

/// The sender, as one visit of it.
struct Sender {
    world: Rc<World>,
    ports: service::Ports,
    gateway: GatewayId,
    /// The bot's token, which the service does not have.
    token: String,
    manner: Manner,
}

/// Fetches once, and sends what it got.
pub async fn fetch(world: Rc<World>, manner: Manner) {
    let Some(gateway) = world.places.gateways.iter().position(|gateway| !gateway.ours) else {
        return;
    };
    let process = world.executor.process();
    world.perhaps_kill(Whom::Sender, &process);
    let caller = world.callers.add(Caller {
        outside: true,
        ..Caller::default()
    });
    let sender = Sender {
        ports: service::Ports::new(&world, &process, caller),
        gateway: world.places.gateways[gateway].id.clone(),
        token: world.telegram.token(gateway),
        manner,
        world,
    };
    process.call(async move { sender.visit().await }).await;
}

impl Sender {
    async fn visit(&self) {
        let lease = LeaseToken::mint(self.ports.clock.now(), &self.ports.entropy);
        let body = ClaimBody {
            channel: SendChannel::Telegram,
            limit: WAVE_MAX,
        };
        let claimed = self
            .ask("claim", async |request| request.claim(&body, &lease).await)
            .await;
        let claimed = claimed.map_or_else(serde_json::Value::default, |answer| {
            serde_json::from_str(&answer.body).expect("JSON")
        });
        for message in claimed["messages"].as_array().into_iter().flatten() {
            let text = |member: &str| message[member].as_str().unwrap_or_default();
            let row = OutboxId::parse(text("outbox_id")).expect("an id");
            let attempt = AttemptBody {
                lease_token: lease.clone(),
            };
            let may = self
                .ask("attempt", async |request| request.attempt(&row, &attempt).await)
                .await;
            if may.is_none_or(|answer| answer.status != 200) {
                continue;
            }
            let outcome = self.send(text("destination"), text("text")).await;
            if self.manner != Manner::Silent {
                self.say(&row, &lease, &outcome).await;
            }
            if self.manner == Manner::Confused {
                self.say(&row, &lease, &outcome).await;
                let other = LeaseToken::mint(self.ports.clock.now(), &self.ports.entropy);
                self.say(&row, &other, &outcome).await;
            }
        }
    }

    async fn send(&self, chat: &str, text: &str) -> Outcome {
        let failed = Outcome::Retry {
            class: ErrorClass::Provider,
            code: ErrorCode::Other,
            after: None,
            holds: Holds::Row,
        };
        if self.manner == Manner::Failing {
            return failed;
        }
        let message = Message {
            token: &self.token,
            chat_id: chat,
            text,
            plain: true,
        };
        let request = request(&service::api(), &message);
        let answered = telegram::send(self.ports.http(), &self.ports.clock, request).await;
        match answered.outcome {
            // Where a chat went on is nothing that an outside sender can say.
            Outcome::Moved { .. } => Outcome::Gone {
                code: ErrorCode::ChatNotFound,
            },
            Outcome::Unformatted | Outcome::Unauthorized | Outcome::NotStarted => failed,
            said @ (Outcome::Accepted { .. }
            | Outcome::Retry { .. }
            | Outcome::Gone { .. }
            | Outcome::Rejected { .. }
            | Outcome::Ambiguous { .. }) => said,
        }
    }

    async fn say(&self, row: &OutboxId, lease: &LeaseToken, outcome: &Outcome) {
        let body = OutcomeBody {
            lease_token: lease.clone(),
            outcome: outcome.clone(),
        };
        self.ask("finish", async |request| request.finish(row, &body).await)
            .await;
    }

    /// One request under a key of its own, tried again a few times; `None` when it was not answered.
    async fn ask(
        &self,
        route: &str,
        ask: impl AsyncFn(&Request<'_, SimSql, crate::executor::SimClock, Rng>) -> Result<Answer, Problem>,
    ) -> Option<Answer> {
        let key = LeaseToken::mint(self.ports.clock.now(), &self.ports.entropy);
        for _ in 0..3 {
            let principal = self.principal();
            let request = Request {
                sql: &self.ports.sql,
                clock: &self.ports.clock,
                entropy: &self.ports.entropy,
                secrets: self.ports.secrets(),
                principal: &principal,
                gateway_id: &self.gateway,
                key: KeyUse {
                    caller: self.gateway.as_str(),
                    route,
                    key_hash: key.as_str(),
                    request_hash: route,
                    now: self.ports.clock.now(),
                },
            };
            match ask(&request).await {
                Ok(answer) => return Some(answer),
                Err(problem) => {
                    let defect = problem.code == Code::Internal;
                    self.world
                        .watch
                        .that(!defect, "no_defect", || format!("an outside sender's {route}"));
                }
            }
            self.ports.clock.sleep(Millis::from_secs(1)).await;
        }
        None
    }

    /// The token that the gateway would be issued now.
    fn principal(&self) -> Principal {
        let now = self.ports.clock.now();
        let sql = "SELECT authorization_revision AS v FROM gateways WHERE gateway_id = ?1";
        let rows = self.world.sql.database().query(sql, &[Value::from(&self.gateway)]);
        Principal {
            subject: Subject::Gateway(self.gateway.clone()),
            family: None,
            roles: vec![],
            scopes: vec![Scope::OutboxSend],
            jti: TokenId::parse("jwt_00simulated").expect("an id"),
            auth_method: AuthMethod::GatewayService,
            gateway: Some(self.gateway.clone()),
            revision: rows[0].integer("v").expect("a revision"),
            issued_at: now,
            expires_at: now.plus(Millis::from_mins(15)),
            idp: None,
            idp_sub: None,
        }
    }
}
