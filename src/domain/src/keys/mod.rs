//! Keys and what they protect.
//!
//! A versioned [`MasterSecrets`] never encrypts content itself: HKDF-SHA256 derives from each version a key that wraps
//! data keys, and from one fixed version the keys of the keyed hashes, so rotating the wrapping version never changes a
//! hash that rows are found by. A [`DataKey`] belongs to one user or one family; destroying its row makes everything it
//! sealed unreadable. What the service holds for itself or for a stranger, such as a bot's token, is sealed under a key
//! derived from the master secret: see [`OwnSealed`].
//!
//! Every ciphertext is bound to its place: table, row, column, subject and the key's own id are associated data, so
//! a value that was moved to another row does not open.

mod aead;
mod data_key;
mod derive;
mod hash;
mod master;
mod own;

pub use aead::{OpenError, SealError};
pub use data_key::{Aad, DataKey, KeySubject};
pub use hash::{HashLabel, hashes_equal};
pub use master::{MasterError, MasterSecrets, MasterVersion, WrappedKey};
pub use own::OwnSealed;
