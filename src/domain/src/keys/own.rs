//! Values that the service seals for itself: they belong to no person who could have a data key.

use super::aead::{self, OpenError, SealError, frame};
use super::data_key::Aad;
use super::master::{MasterSecrets, MasterVersion};
use crate::ports::Entropy;

/// A value sealed under a key derived from the master secret, as its two columns hold it.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnSealed {
    pub master_version: MasterVersion,
    pub sealed: Vec<u8>,
}

impl MasterSecrets {
    /// Encrypts `plaintext` for exactly `place`, under the current version.
    pub fn seal_own(&self, place: &Aad<'_>, plaintext: &[u8], entropy: &impl Entropy) -> Result<OwnSealed, SealError> {
        let key = self.own.get(&self.current).ok_or(SealError)?;
        let sealed = aead::seal(key, &associated(place, self.current), plaintext, entropy)?;
        Ok(OwnSealed {
            master_version: self.current,
            sealed,
        })
    }

    /// Decrypts what [`Self::seal_own`] gave for the same place. [`OpenError::Form`] also when the version is not
    /// configured.
    pub fn open_own(&self, place: &Aad<'_>, value: &OwnSealed) -> Result<Vec<u8>, OpenError> {
        let key = self.own.get(&value.master_version).ok_or(OpenError::Form)?;
        aead::open(key, &associated(place, value.master_version), &value.sealed)
    }
}

fn associated(place: &Aad<'_>, version: MasterVersion) -> Vec<u8> {
    frame(
        "hermod own value 1",
        &[
            place.table.as_bytes(),
            place.row.as_bytes(),
            place.column.as_bytes(),
            &version.get().to_be_bytes(),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fives;
    impl Entropy for Fives {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(5);
        }
    }

    const ONE: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    const TWO: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
    const PLACE: Aad<'_> = Aad {
        table: "gateways",
        row: "gateway_00a",
        column: "channel_token_sealed",
    };

    fn secrets(current: u32) -> MasterSecrets {
        let text = format!(r#"{{"current":{current},"versions":{{"1":"{ONE}","2":"{TWO}"}},"hash_version":1}}"#);
        MasterSecrets::from_json(&text).unwrap()
    }

    #[test]
    fn a_value_opens_only_in_its_own_place_and_version() {
        let value = secrets(1).seal_own(&PLACE, b"1:token", &Fives).unwrap();
        assert_eq!(value.master_version, MasterVersion::new(1));
        assert_eq!(secrets(1).open_own(&PLACE, &value), Ok(b"1:token".to_vec()));
        let places = [
            Aad {
                table: "outbound_messages",
                ..PLACE
            },
            Aad {
                row: "gateway_00b",
                ..PLACE
            },
            Aad {
                column: "other",
                ..PLACE
            },
        ];
        for place in places {
            assert_eq!(
                secrets(1).open_own(&place, &value),
                Err(OpenError::Authentication),
                "{place:?}"
            );
        }
        let version = |version| OwnSealed {
            master_version: MasterVersion::new(version),
            ..value.clone()
        };
        assert_eq!(secrets(1).open_own(&PLACE, &version(2)), Err(OpenError::Authentication));
        assert_eq!(secrets(1).open_own(&PLACE, &version(3)), Err(OpenError::Form));
    }

    #[test]
    fn after_a_rotation_old_values_open_and_new_ones_stand_under_the_new_version() {
        let old = secrets(1).seal_own(&PLACE, b"1:token", &Fives).unwrap();
        let words = secrets(2).open_own(&PLACE, &old).unwrap();
        let new = secrets(2).seal_own(&PLACE, &words, &Fives).unwrap();
        assert_eq!(new.master_version, MasterVersion::new(2));
        assert_eq!(secrets(1).open_own(&PLACE, &new), Ok(b"1:token".to_vec()));
    }
}
