//! Reading from the database within a request.

use std::rc::Rc;

use domain::problem::Problem;
use domain::sql::{Rows, Shard, Statement};
use store::db::Db;

use super::Call;
use super::problem::of_db;

/// Runs a batch that only reads, and says to the caller what stood in its way.
pub async fn read(call: &Call, shard: Shard, batch: Vec<Statement>) -> Result<Vec<Rows>, Problem> {
    let db = Db::new(&call.sql, &call.app.clock, Rc::default());
    db.read(shard, batch).await.map_err(of_db)
}
