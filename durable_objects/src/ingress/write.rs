//! The one batch in which everything that comes of an update appears together.

use std::cell::Cell;
use std::rc::Rc;

use domain::auth::{AuthMethod, Principal, Subject};
use domain::http::context::{Channel, RequestContext};
use domain::ids::{AddressId, OutboxId, TokenId, TurnId};
use domain::job::{Job, JobMessage};
use domain::keys::{Aad, DataKey, HashLabel, KeySubject};
use domain::outbox::SendChannel;
use domain::ports::{Checkpoint, Clock, Entropy, Sql};
use domain::sql::{Rows, Statement};
use domain::time::Timestamp;
use domain::turn::protocol::Costs;
use store::channels::dedup::{self, Disposition, Record};
use store::channels::link::{self, Bond, CodeFacts};
use store::channels::sender::{self, SenderFacts, SenderSeen, WebhookGateway};
use store::db::DbError;
use store::keys::KeyRow;
use store::ledger::accept::{self, Acceptance, Arrival, Entry, Place};
use store::ledger::epoch_current;
use store::outbox::enqueue::{self, Notice, NoticeTo};

use super::decide::{Decision, LINKED, Note, Often};
use super::incoming::{ChatId, Incoming};
use super::{Delivery, TELEGRAM, TURN_DEADLINE, Taken, Webhook};
use crate::user_turns::message_row;

/// An update that is about to be put on record, and everything known of it.
pub struct Writing<'a, S, C, E, K> {
    pub webhook: &'a Webhook<'a, S, C, E, K>,
    pub delivery: &'a Delivery<'a>,
    pub incoming: &'a Incoming,
    pub gateway: &'a WebhookGateway,
    pub sender: Option<&'a SenderFacts>,
    /// The turn that the update becomes, if it becomes one.
    pub turn_id: &'a TurnId,
    pub now: Timestamp,
    pub costs: Rc<Cell<Costs>>,
}

impl<S: Sql, C: Clock, E: Entropy, K: Checkpoint> Writing<'_, S, C, E, K> {
    /// Puts the update and what was decided on record.
    pub async fn write(&self, decision: &Decision<'_>) -> Result<Taken, DbError> {
        match decision {
            Decision::Ignore => self.remember(Disposition::Ignored, vec![], None).await,
            Decision::Turn { words, key } => self.accept(words, key).await,
            Decision::Tell(note) => {
                let known = self.known()?;
                let seen = self.seen(known)?;
                let notice = self.notice_to(note, &known.sender.address_id)?;
                self.remember(note.disposition, vec![sender::sender_current(&seen)], Some(notice))
                    .await
            }
            Decision::TellChat(note) => {
                let notice = self.notice_to_chat(note)?;
                self.remember(note.disposition, vec![], Some(notice)).await
            }
            Decision::Link { code, key } => self.link(code, key).await,
            Decision::Stop(note) => {
                let chat = self.incoming.chat(self.delivery.gateway_id).ok_or(DbError::Defect)?;
                let notice = self.notice_to_chat(note)?;
                self.remember(note.disposition, vec![link::stop(chat, self.now)], Some(notice))
                    .await
            }
        }
    }

    /// Remembers the update as the known sender's, with `changes` before and a notice behind it.
    async fn remember(
        &self,
        disposition: Disposition,
        changes: Vec<Statement>,
        notice: Option<Vec<Statement>>,
    ) -> Result<Taken, DbError> {
        self.remember_as(self.record(disposition), changes, notice).await
    }

    async fn remember_as(
        &self,
        record: Record<'_>,
        changes: Vec<Statement>,
        notice: Option<Vec<Statement>>,
    ) -> Result<Taken, DbError> {
        let gateway_id = self.delivery.gateway_id;
        let tells = notice.is_some();
        let mut batch = vec![
            dedup::ingress_unused(gateway_id, &self.incoming.ingress_hash),
            epoch_current(self.gateway.epoch),
        ];
        batch.extend(changes);
        batch.push(dedup::record(&record));
        batch.extend(notice.into_iter().flatten());
        // The last statement looks whether the notice was made: there may have been one like it a moment ago.
        let made = |rows: &[Rows]| Ok(tells && rows.last().is_some_and(|rows| rows.first().is_some()));
        let ours = |rows: &[Rows]| {
            let seen = rows.first().map_or(Ok(None), dedup::read_seen)?;
            Ok(seen.filter(|hash| *hash == self.incoming.payload_hash).map(|_| tells))
        };
        let read_back = vec![dedup::seen(gateway_id, &self.incoming.ingress_hash)];
        // await 2
        let told = self
            .webhook
            .db(&self.costs)
            .write(gateway_id.shard(), batch, made, read_back, ours)
            .await?;
        let gateway_id = gateway_id.clone();
        Ok(self.taken(record.disposition, told.then_some(Job::Deliver { gateway_id })))
    }

    /// Makes the message a turn.
    async fn accept(&self, words: &str, key: &KeyRow) -> Result<Taken, DbError> {
        let known = self.known()?;
        let context = self.context(known);
        let key = self.open_key(key, &KeySubject::User(context.user_id.clone()))?;
        let row = message_row(self.turn_id, true);
        let place = Aad {
            table: "messages",
            row: &row,
            column: "content_sealed",
        };
        let sealed = key.seal(&place, words.as_bytes(), self.webhook.entropy);
        let record = Record {
            turn_id: Some(self.turn_id),
            ..self.record(Disposition::Turn)
        };
        let seen = self.seen(known)?;
        let batch = accept::accept(&Acceptance {
            entry: Entry::Channel(&Arrival {
                sender: &seen,
                record: &record,
            }),
            context: &context,
            request_hash: &self.incoming.payload_hash,
            place: &Place::of(known.conversation.clone(), self.now, self.webhook.entropy),
            epoch: self.gateway.epoch,
            content_key: key.id(),
            content_sealed: sealed.map_err(|_| DbError::Defect)?,
            now: self.now,
        });
        // await 2
        self.webhook
            .db(&self.costs)
            .write(
                context.user_id.shard(),
                batch,
                |rows| accept::arrival_no(rows).map(|_| ()),
                vec![accept::accepted_turn(&context)],
                |rows| Ok(rows.first().and_then(Rows::first).map(|_| ())),
            )
            .await?;
        let user_id = context.user_id;
        Ok(self.taken(Disposition::Turn, Some(Job::Generate { user_id })))
    }

    /// Binds the chat to the person whose code it named.
    async fn link(&self, code: &CodeFacts, key: &KeyRow) -> Result<Taken, DbError> {
        let chat = self.incoming.chat(self.delivery.gateway_id).ok_or(DbError::Defect)?;
        let code_hash = self.incoming.code_hash.as_deref().ok_or(DbError::Defect)?;
        let key = self.open_key(key, &KeySubject::User(code.user_id.clone()))?;
        let held = self.sender.filter(|known| known.sender.user_id == code.user_id);
        let address_id = match held {
            Some(known) => known.sender.address_id.clone(),
            None => AddressId::mint(self.now, self.webhook.entropy),
        };
        let place = Aad {
            table: "channel_addresses",
            row: address_id.as_str(),
            column: "external_sealed",
        };
        let external_id = self.chat_id()?.external_id.as_bytes();
        let sealed = key.seal(&place, external_id, self.webhook.entropy);
        let changes = link::bind(&Bond {
            chat,
            code_hash,
            user_id: &code.user_id,
            address_id: &address_id,
            key: key.id(),
            external_sealed: sealed.map_err(|_| DbError::Defect)?,
            now: self.now,
        });
        let notice = self.notice_to(&LINKED, &address_id)?;
        let record = Record {
            user_id: Some(&code.user_id),
            ..self.record(Disposition::Linked)
        };
        self.remember_as(record, changes, Some(notice)).await
    }

    fn record(&self, disposition: Disposition) -> Record<'_> {
        Record {
            gateway_id: self.delivery.gateway_id,
            ingress_hash: &self.incoming.ingress_hash,
            payload_hash: &self.incoming.payload_hash,
            kind: self.incoming.update.kind.as_str(),
            disposition,
            user_id: self.sender.map(|known| &known.sender.user_id),
            turn_id: None,
            now: self.now,
        }
    }

    fn known(&self) -> Result<&SenderFacts, DbError> {
        self.sender.ok_or(DbError::Defect)
    }

    fn chat_id(&self) -> Result<&ChatId, DbError> {
        self.incoming.chat.as_ref().ok_or(DbError::Defect)
    }

    fn seen<'a>(&'a self, known: &'a SenderFacts) -> Result<SenderSeen<'a>, DbError> {
        let chat = self.incoming.chat(self.delivery.gateway_id).ok_or(DbError::Defect)?;
        Ok(SenderSeen {
            chat,
            sender: &known.sender,
        })
    }

    fn open_key(&self, row: &KeyRow, subject: &KeySubject) -> Result<DataKey, DbError> {
        row.unwrap_for(subject, self.webhook.secrets)
            .map_err(|_| DbError::Defect)
    }

    fn notice_to(&self, note: &Note, address: &AddressId) -> Result<Vec<Statement>, DbError> {
        let outbox_id = OutboxId::mint(self.now, self.webhook.entropy);
        self.notice(note, &outbox_id, NoticeTo::Address(address))
    }

    fn notice_to_chat(&self, note: &Note) -> Result<Vec<Statement>, DbError> {
        let outbox_id = OutboxId::mint(self.now, self.webhook.entropy);
        let chat = self.chat_id()?;
        let place = Aad {
            table: "outbound_messages",
            row: outbox_id.as_str(),
            column: "destination_sealed",
        };
        let sealed = self
            .webhook
            .secrets
            .seal_own(&place, chat.external_id.as_bytes(), self.webhook.entropy)
            .map_err(|_| DbError::Defect)?;
        let to = NoticeTo::Sealed {
            sealed: &sealed,
            external_hash: &chat.external_hash,
        };
        self.notice(note, &outbox_id, to)
    }

    fn notice(&self, note: &Note, outbox_id: &OutboxId, to: NoticeTo<'_>) -> Result<Vec<Statement>, DbError> {
        let key = self.notice_key(note)?;
        let mut statements = enqueue::notice(&Notice {
            outbox_id,
            gateway_id: self.delivery.gateway_id,
            channel: SendChannel::Telegram,
            template: note.template,
            idempotency_key: &key,
            to,
            trace_id: self.delivery.trace_id,
            now: self.now,
        });
        statements.push(dedup::notice_made(outbox_id));
        Ok(statements)
    }

    /// Two notices under one key are one.
    fn notice_key(&self, note: &Note) -> Result<String, DbError> {
        let gateway = self.delivery.gateway_id;
        let (name, minutes) = match note.often {
            Often::EachTime => return Ok(format!("ingress:{gateway}:{}", self.incoming.ingress_hash)),
            Often::Minute => (note.template.as_str(), 1),
            Often::TenMinutes => (note.template.as_str(), 10),
            Often::Day => (note.disposition.as_str(), 24 * 60),
        };
        let span = self.now.as_millis().div_euclid(i64::saturating_mul(minutes, 60_000));
        Ok(format!("{name}:{gateway}:{}:{span}", self.chat_id()?.external_hash))
    }

    fn taken(&self, disposition: Disposition, job: Option<Job>) -> Taken {
        Taken {
            disposition: Some(disposition),
            order: job.map(|job| JobMessage::new(self.gateway.epoch, job)),
        }
    }

    fn context(&self, known: &SenderFacts) -> RequestContext {
        let delivery = self.delivery;
        let language = self
            .incoming
            .update
            .message
            .as_ref()
            .and_then(|message| message.language.clone());
        RequestContext {
            request_id: delivery.request_id.clone(),
            client_request_id: delivery.client_request_id.map(ToOwned::to_owned),
            turn_id: self.turn_id.clone(),
            idempotency_key_hash: self.key_of_turn(),
            principal: self.principal(),
            user_id: known.sender.user_id.clone(),
            family_id: known.sender.family_id.clone(),
            channel: Channel::Telegram,
            gateway_id: Some(delivery.gateway_id.clone()),
            locale: language,
            timezone: None,
            received_at: delivery.received_at,
            deadline_at: delivery.received_at.plus(TURN_DEADLINE),
            source_address_hash: delivery.source_address_hash.map(ToOwned::to_owned),
            trace_id: delivery.trace_id.to_owned(),
            parent_turn_id: None,
            feature_flags: Vec::new(),
        }
    }

    /// Of this turn alone: that an update is handled once is what is remembered of updates, for a week. After a quiet
    /// week, or with another bot, Telegram may count from anywhere, and give an id that was there before.
    fn key_of_turn(&self) -> String {
        let parts = [TELEGRAM.as_bytes(), self.turn_id.as_str().as_bytes()];
        self.webhook.secrets.keyed_hash_of(HashLabel::IdempotencyKey, &parts)
    }

    /// The gateway, as its webhook's secret has shown it.
    fn principal(&self) -> Principal {
        let gateway = self.delivery.gateway_id;
        Principal {
            subject: Subject::Gateway(gateway.clone()),
            family: None,
            roles: Vec::new(),
            scopes: Vec::new(),
            jti: TokenId::mint(self.now, self.webhook.entropy),
            auth_method: AuthMethod::Webhook,
            gateway: Some(gateway.clone()),
            revision: self.gateway.revision,
            issued_at: self.delivery.received_at,
            expires_at: self.delivery.received_at.plus(TURN_DEADLINE),
            idp: None,
            idp_sub: None,
        }
    }
}
