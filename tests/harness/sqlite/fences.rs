//! Statements without some of their fences.

use std::borrow::Cow;
use std::collections::BTreeSet;

use domain::fence::Fence;

/// What stands between a fence's condition and its label.
const MARK: &str = " -- fence: ";

/// `sql` with each line `AND <condition> -- fence: <label>` of these fences made true. The condition stays in the text,
/// because its parameters are bound all the same.
pub fn without_fences<'a>(sql: &'a str, fences: &BTreeSet<Fence>) -> Cow<'a, str> {
    if fences.is_empty() || !sql.contains(MARK) {
        return Cow::Borrowed(sql);
    }
    let lines: Vec<Cow<'_, str>> = sql.lines().map(|line| opened(line, fences)).collect();
    Cow::Owned(lines.join("\n"))
}

fn opened<'a>(line: &'a str, fences: &BTreeSet<Fence>) -> Cow<'a, str> {
    let Some((code, label)) = line.split_once(MARK) else {
        return Cow::Borrowed(line);
    };
    let fence = Fence::from_label(label.trim()).unwrap_or_else(|| panic!("no fence is called {label}"));
    if !fences.contains(&fence) {
        return Cow::Borrowed(line);
    }
    let condition = code
        .trim()
        .strip_prefix("AND ")
        .unwrap_or_else(|| panic!("{line} does not begin with AND"));
    Cow::Owned(format!("AND (TRUE OR ({condition}))"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &str = "UPDATE t SET a = 1\nWHERE b = ?1\n  AND c > ?2 -- fence: due\n  AND d > ?3 -- fence: lane_paced";

    #[test]
    fn only_the_named_fence_opens() {
        let without = without_fences(SQL, &BTreeSet::from([Fence::Due]));
        assert_eq!(
            without,
            "UPDATE t SET a = 1\nWHERE b = ?1\nAND (TRUE OR (c > ?2))\n  AND d > ?3 -- fence: lane_paced"
        );
        assert_eq!(without_fences(SQL, &BTreeSet::new()), SQL);
    }
}
