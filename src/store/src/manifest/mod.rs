//! The schema manifest: what every table and column is, as data.
//!
//! Encryption, deletion, export, purge and the checks of logs read from here what belongs to whom. A test holds it
//! against the migrations, both ways: nothing is stored that is not declared, nothing declared that is not stored.

mod directory;
mod ledger;
mod outbox;

pub use directory::DIRECTORY;
pub use ledger::LEDGER;
pub use outbox::OUTBOX;

/// Whose data a table holds, and how a row is traced to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    User(Link),
    Family(Link),
    Gateway(Link),
    /// A user or a family, whichever the row says.
    UserOrFamily {
        kind: &'static str,
        id: &'static str,
    },
    /// The service itself.
    System,
}

/// The way from a row to its owner's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// This column holds it.
    Column(&'static str),
    /// This column names a row of `table`, which is traced in its turn.
    Through { column: &'static str, table: &'static str },
}

/// Which database a row stands in, once there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The shard that the id in this column names.
    Shard(&'static str),
    /// The directory: looked up before anyone's shard is known.
    Directory,
    /// Each database has rows of its own.
    Everywhere,
}

/// How long a row is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// Until its owner is deleted; rows of the service stay.
    WhileOwned,
    /// Until the instant in this column has passed.
    Until(&'static str),
    /// Until so many days after the instant in this column.
    After { column: &'static str, days: i64 },
    /// As long as the row of `table` that this column names.
    With { column: &'static str, table: &'static str },
    /// The row outlives its subject emptied, as proof that it was destroyed.
    Tombstone,
}

/// What a column may give away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// What people said, or a hash of it: sealed, or hashed under a key.
    Content,
    /// What names a person or a secret outside this service: sealed, or hashed under a key.
    Identifier,
    /// Needed to run the service, and free of the two above.
    Operational,
}

/// One table. Each of its columns stands in exactly one of the three lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    pub name: &'static str,
    pub owner: Owner,
    pub placement: Placement,
    pub retention: Retention,
    pub content: &'static [&'static str],
    pub identifier: &'static [&'static str],
    pub operational: &'static [&'static str],
}

impl Table {
    /// Every column with its class.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, Class)> {
        let of = |names: &'static [&'static str], class| names.iter().map(move |name| (*name, class));
        of(self.content, Class::Content)
            .chain(of(self.identifier, Class::Identifier))
            .chain(of(self.operational, Class::Operational))
    }
}

/// Every table there is.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    DIRECTORY.iter().chain(LEDGER).chain(OUTBOX)
}

/// The table of this name.
pub fn table(name: &str) -> Option<&'static Table> {
    tables().find(|table| table.name == name)
}
