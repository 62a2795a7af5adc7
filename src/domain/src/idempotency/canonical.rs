//! One text for every way of writing the same JSON, after RFC 8785: no white space, members sorted by their names'
//! UTF-16 units, strings escaped in one way.
//!
//! Numbers differ from the RFC on purpose. It rounds them to doubles, so that 9007199254740992 and 9007199254740993
//! become equal; here they are compared exactly, and only different spellings of one number (1, 1.0, 1e0) agree.

use std::collections::BTreeMap;

/// The deepest nesting that is read.
pub const DEPTH_MAX: usize = 64;

/// Why there is no canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanonicalError {
    /// Not JSON (RFC 8259).
    Malformed,
    /// Nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// An object names a member twice, so its meaning depends on the reader.
    DuplicateMember,
}

/// The canonical text of a JSON document.
pub fn canonical_json(text: &str) -> Result<String, CanonicalError> {
    let mut reader = Reader { rest: text };
    let mut out = String::with_capacity(text.len());
    reader.value(&mut out, 0)?;
    reader.space();
    if reader.rest.is_empty() {
        Ok(out)
    } else {
        Err(CanonicalError::Malformed)
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Whether the next thing is `wanted`, which is then passed over.
    fn take(&mut self, wanted: &str) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Cuts off the first `length` bytes.
    fn cut(&mut self, length: usize) -> Result<&'a str, CanonicalError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(CanonicalError::Malformed)?;
        self.rest = rest;
        Ok(head)
    }

    fn value(&mut self, out: &mut String, depth: usize) -> Result<(), CanonicalError> {
        if depth > DEPTH_MAX {
            return Err(CanonicalError::TooDeep);
        }
        self.space();
        let inside = depth.saturating_add(1);
        match self.rest.bytes().next() {
            Some(b'{') => self.object(out, inside),
            Some(b'[') => self.array(out, inside),
            Some(b'"') => {
                let text = self.string()?;
                write_string(&text, out)
            }
            Some(b'-' | b'0'..=b'9') => self.number(out),
            Some(_) => {
                let word = ["null", "true", "false"].into_iter().find(|word| self.take(word));
                out.push_str(word.ok_or(CanonicalError::Malformed)?);
                Ok(())
            }
            None => Err(CanonicalError::Malformed),
        }
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Result<(), CanonicalError> {
        self.take("[");
        out.push('[');
        self.space();
        if !self.take("]") {
            loop {
                self.value(out, depth)?;
                self.space();
                if self.take("]") {
                    break;
                }
                if !self.take(",") {
                    return Err(CanonicalError::Malformed);
                }
                out.push(',');
            }
        }
        out.push(']');
        Ok(())
    }

    fn object(&mut self, out: &mut String, depth: usize) -> Result<(), CanonicalError> {
        self.take("{");
        // Sorted by the UTF-16 units of the name.
        let mut members: BTreeMap<Vec<u16>, String> = BTreeMap::new();
        self.space();
        if !self.take("}") {
            loop {
                self.space();
                let name = self.string()?;
                self.space();
                if !self.take(":") {
                    return Err(CanonicalError::Malformed);
                }
                let mut member = String::new();
                write_string(&name, &mut member)?;
                member.push(':');
                self.value(&mut member, depth)?;
                if members.insert(name.encode_utf16().collect(), member).is_some() {
                    return Err(CanonicalError::DuplicateMember);
                }
                self.space();
                if self.take("}") {
                    break;
                }
                if !self.take(",") {
                    return Err(CanonicalError::Malformed);
                }
            }
        }
        out.push('{');
        out.push_str(&members.into_values().collect::<Vec<_>>().join(","));
        out.push('}');
        Ok(())
    }

    fn string(&mut self) -> Result<String, CanonicalError> {
        if !self.rest.starts_with('"') {
            return Err(CanonicalError::Malformed);
        }
        let mut escaped = false;
        let end = self.rest.bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        let length = end.ok_or(CanonicalError::Malformed)?.saturating_add(2);
        serde_json::from_str(self.cut(length)?).map_err(|_| CanonicalError::Malformed)
    }

    fn number(&mut self, out: &mut String) -> Result<(), CanonicalError> {
        let ends = |byte: u8| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.rest.bytes().position(ends).unwrap_or(self.rest.len());
        out.push_str(&number(self.cut(length)?).ok_or(CanonicalError::Malformed)?);
        Ok(())
    }
}

fn write_string(text: &str, out: &mut String) -> Result<(), CanonicalError> {
    out.push_str(&serde_json::to_string(text).map_err(|_| CanonicalError::Malformed)?);
    Ok(())
}

/// Whether `text` is one or more digits.
fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `[-]digits[e exponent]` without zeros at either end of the digits: one spelling for each number.
fn number(text: &str) -> Option<String> {
    let (sign, magnitude) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, exponent) = magnitude
        .split_once(['e', 'E'])
        .map_or((magnitude, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    if !digits(whole) || leading_zero || fraction.is_some_and(|fraction| !digits(fraction)) {
        return None;
    }
    let (down, exponent) = match exponent {
        None => (false, "0"),
        Some(exponent) => match exponent.strip_prefix('-') {
            Some(down) => (true, down),
            None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
        },
    };
    if !digits(exponent) {
        return None;
    }
    let fraction = fraction.unwrap_or_default();
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    let exponent = exponent.trim_start_matches('0');
    // An exponent of more digits than any number needs: its spelling stands for itself.
    if exponent.len() > 15 {
        return Some(format!(
            "{sign}{all}f{}e{}{exponent}",
            fraction.len(),
            if down { "-" } else { "" }
        ));
    }
    let exponent: i64 = if exponent.is_empty() { 0 } else { exponent.parse().ok()? };
    let exponent = if down { exponent.saturating_neg() } else { exponent };
    let trailing = all.len().saturating_sub(all.trim_end_matches('0').len());
    let scale = exponent
        .saturating_sub(i64::try_from(fraction.len()).ok()?)
        .saturating_add(i64::try_from(trailing).ok()?);
    Some(if scale == 0 {
        format!("{sign}{significant}")
    } else {
        format!("{sign}{significant}e{scale}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(left: &str, right: &str) -> bool {
        canonical_json(left).unwrap() == canonical_json(right).unwrap()
    }

    #[test]
    fn order_space_and_escapes_do_not_matter() {
        let text = " {\"b\" : [ 1 , true,null ], \"a\":\"\\u0041\\/\\n\" } ";
        assert_eq!(canonical_json(text), Ok(r#"{"a":"A/\n","b":[1,true,null]}"#.to_owned()));
        assert!(same("[]", " [ ] "));
        assert!(!same("[1,2]", "[2,1]"));
        assert!(!same(r#"{"a":null}"#, "{}"));
        assert!(!same(r#""1""#, "1"));
    }

    /// The example of RFC 8785 section 3.2.3: names by UTF-16 units put the emoji before U+FB33.
    #[test]
    fn members_are_sorted_by_utf16_units() {
        let text = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        let expected = "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}";
        assert_eq!(canonical_json(text), Ok(expected.to_owned()));
    }

    #[test]
    fn numbers_are_compared_exactly() {
        for (left, right) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("100", "1E+2"),
            ("0.001", "1e-3"),
            ("-0", "0.0"),
            ("0e999999999999999999", "0"),
            ("12300", "123e2"),
            ("1.50", "15e-1"),
        ] {
            assert!(same(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("9007199254740992", "9007199254740993"),
            ("0.1", "0.10000000000000000001"),
            ("1e400", "1e401"),
            ("1", "-1"),
            ("10", "1"),
            ("1e99999999999999999999", "1e99999999999999999998"),
            ("1e99999999999999999999", "1e-99999999999999999999"),
        ] {
            assert!(!same(left, right), "{left} {right}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let rows = [
            "",
            "nul",
            "nulll",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{a:1}",
            "{\"a\":1,}",
            "01",
            "+1",
            "1.",
            ".5",
            "1e",
            "1e+",
            "--1",
            "1 2",
            "\"",
            "\"\n\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "[",
            "{",
            "{\"a\":",
            "NaN",
            "'a'",
            "[1}",
            "1-2",
            "1e2.5",
        ];
        for text in rows {
            assert_eq!(canonical_json(text), Err(CanonicalError::Malformed), "{text}");
        }
        assert_eq!(
            canonical_json(r#"{"a":1,"\u0061":2}"#),
            Err(CanonicalError::DuplicateMember)
        );
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(canonical_json(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(canonical_json(&nested(DEPTH_MAX + 2)), Err(CanonicalError::TooDeep));
        assert_eq!(canonical_json(&"[".repeat(60_000)), Err(CanonicalError::TooDeep));
    }

    /// A made-up document and a shuffled, respelled copy of it have one canonical form, which is its own.
    #[test]
    fn respelled_documents_agree() {
        let seed = 4_711_u64;
        println!("seed {seed}");
        let mut state = seed;
        let mut next = move |end: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        for _ in 0..300 {
            let mut members: Vec<(String, String)> = (0..next(8))
                .map(|at| (format!("\"m{at}\""), format!("[{},\"é{}\"]", next(1_000), next(9))))
                .collect();
            let plain: Vec<String> = members.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            if !members.is_empty() {
                let turn = usize::try_from(next(8)).unwrap() % members.len();
                members.rotate_left(turn);
            }
            let spaced: Vec<String> = members
                .iter()
                .map(|(name, value)| format!(" {} : {}", name.replace('m', "\\u006d"), value.replace('é', "\\u00e9")))
                .collect();
            let (left, right) = (
                format!("{{{}}}", plain.join(",")),
                format!("{{{}}}", spaced.join(" ,\n")),
            );
            let canonical = canonical_json(&left).unwrap();
            assert_eq!(canonical_json(&right), Ok(canonical.clone()), "{left} {right}");
            assert_eq!(canonical_json(&canonical), Ok(canonical.clone()));
            let changed = left.replace("[1", "[2");
            assert_eq!(same(&left, &changed), left == changed);
        }
    }
}
