//! One way to write and to read: bounded retries, and every lost reply resolved by reading back.

use std::cell::Cell;
use std::rc::Rc;

use domain::guard::Guard;
use domain::ports::{Clock, Sql};
use domain::sql::{NotStarted, Outcome, Refusal, RowError, Rows, Shard, Statement};
use domain::time::Millis;
use domain::turn::protocol::Costs;

/// How often a batch that did not start, or whose reply was lost, is tried.
const TRIES: u32 = 4;

/// The wait before the second try; doubled for each further one.
const FIRST_PAUSE: Millis = Millis::new(50);

/// Why a batch gave no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DbError {
    /// A guard was false.
    Refused(Guard),
    /// The database could not be reached.
    Unavailable,
    /// The database wants fewer requests.
    Overloaded,
    /// A constraint of the schema: another row stands in the way, or one that is needed is not there.
    Conflict,
    /// The schema, a statement or a row mapping is wrong. Nothing a caller does can mend it.
    Defect,
}

impl From<Refusal> for DbError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Guard(guard) => Self::Refused(guard),
            Refusal::Constraint => Self::Conflict,
            Refusal::Malformed => Self::Defect,
        }
    }
}

impl From<RowError> for DbError {
    fn from(_: RowError) -> Self {
        Self::Defect
    }
}

/// The database as one request sees it: counts what the request costs.
pub struct Db<'a, S, C> {
    sql: &'a S,
    clock: &'a C,
    costs: Rc<Cell<Costs>>,
}

impl<'a, S: Sql, C: Clock> Db<'a, S, C> {
    pub fn new(sql: &'a S, clock: &'a C, costs: Rc<Cell<Costs>>) -> Self {
        Self { sql, clock, costs }
    }

    async fn once(&self, shard: Shard, batch: Vec<Statement>) -> Outcome {
        let outcome = self.sql.batch(shard, batch).await;
        let mut costs = self.costs.get();
        costs.trips = costs.trips.saturating_add(1);
        if let Outcome::Committed(rows) = &outcome {
            let written = rows.iter().map(|rows| rows.written).fold(0_u64, u64::saturating_add);
            costs.rows_written = costs.rows_written.saturating_add(written);
        }
        self.costs.set(costs);
        outcome
    }

    /// Reads; safe to repeat, so a lost reply is simply asked for again.
    pub async fn read(&self, shard: Shard, batch: Vec<Statement>) -> Result<Vec<Rows>, DbError> {
        let mut pause = FIRST_PAUSE;
        let mut last = DbError::Unavailable;
        for attempt in 0..TRIES {
            if attempt > 0 {
                self.clock.sleep(pause).await;
                pause = pause.saturating_add(pause);
            }
            match self.once(shard, batch.clone()).await {
                Outcome::Committed(rows) => return Ok(rows),
                Outcome::Refused(refusal) => return Err(refusal.into()),
                Outcome::NotStarted(NotStarted::Overloaded) => last = DbError::Overloaded,
                Outcome::NotStarted(NotStarted::Unavailable) | Outcome::Unknown => last = DbError::Unavailable,
            }
        }
        Err(last)
    }

    /// Writes `batch` once. A lost reply is resolved by `read_back`, whose answer `resolve` turns into the result
    /// (`None`: it was not committed).
    ///
    /// A refusal that follows a lost reply is read back too: the lost batch may be the one that made the guard false.
    pub async fn write<T>(
        &self,
        shard: Shard,
        batch: Vec<Statement>,
        done: impl Fn(&[Rows]) -> Result<T, RowError>,
        read_back: Vec<Statement>,
        resolve: impl Fn(&[Rows]) -> Result<Option<T>, RowError>,
    ) -> Result<T, DbError> {
        let mut pause = FIRST_PAUSE;
        let mut last = DbError::Unavailable;
        let mut in_doubt = false;
        for attempt in 0..TRIES {
            if attempt > 0 {
                self.clock.sleep(pause).await;
                pause = pause.saturating_add(pause);
            }
            match self.once(shard, batch.clone()).await {
                Outcome::Committed(rows) => return Ok(done(&rows)?),
                Outcome::Refused(refusal) => {
                    if in_doubt && let Some(result) = resolve(&self.read(shard, read_back.clone()).await?)? {
                        return Ok(result);
                    }
                    return Err(refusal.into());
                }
                Outcome::NotStarted(NotStarted::Overloaded) => last = DbError::Overloaded,
                Outcome::NotStarted(NotStarted::Unavailable) => last = DbError::Unavailable,
                Outcome::Unknown => {
                    in_doubt = true;
                    last = DbError::Unavailable;
                    if let Some(result) = resolve(&self.read(shard, read_back.clone()).await?)? {
                        return Ok(result);
                    }
                }
            }
        }
        Err(last)
    }
}
