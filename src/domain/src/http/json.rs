//! Strict JSON: what two readers could understand differently is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The deepest nesting that is read.
pub const DEPTH_MAX: u8 = 32;

/// Not one well-formed JSON value in UTF-8 (RFC 8259), or a member named twice, or nested too deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedJson;

/// Reads one JSON value. Refused besides bad syntax: duplicate members, more than [`DEPTH_MAX`] levels, numbers beyond
/// a double, anything after the value.
pub fn parse(text: &str) -> Result<Value, MalformedJson> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }
        .deserialize(&mut deserializer)
        .map_err(|_| MalformedJson)?;
    deserializer.end().map_err(|_| MalformedJson)?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Strict {
    depth: u8,
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.saturating_add(1);
        if depth > DEPTH_MAX {
            Err(E::custom("nested too deep"))
        } else {
            Ok(Self { depth })
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inside = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inside)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inside = self.deeper()?;
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(inside)?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is named twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_json_is_read() {
        let value = parse(r#" {"a":[1,-2,2.5,true,null,"\u00e9"],"b":{}} "#).unwrap();
        assert_eq!(value, serde_json::json!({"a": [1, -2, 2.5, true, null, "é"], "b": {}}));
    }

    #[test]
    fn ambiguous_or_broken_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "{} {}",
            "{}x",
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"b":{"x":1,"x":2}}]"#,
            "[1,]",
            "{a:1}",
            "01",
            "1e999",
            "NaN",
            "'a'",
            r#""\ud800""#,
            "\"\u{0}\"",
            "\u{feff}{}",
            "// comment\n{}",
        ] {
            assert_eq!(parse(text), Err(MalformedJson), "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(&nested(32)).is_ok());
        assert_eq!(parse(&nested(33)), Err(MalformedJson));
        assert_eq!(parse(&"[".repeat(60_000)), Err(MalformedJson));
    }
}
