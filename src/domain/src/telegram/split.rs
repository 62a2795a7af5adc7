//! Cuts a text into messages that Telegram takes: at most 4,096 UTF-16 units each, none without anything to see.
//!
//! The cut goes where a reader would make it: behind a paragraph, else a line, a sentence, a word, and only in a word
//! that fills a message behind one of its characters, as people see them (UAX #29 grapheme clusters). A single such
//! character longer than a message is cut between code points.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// The longest text of one message, in UTF-16 units.
pub const UNITS_MAX: usize = 4_096;

/// A cut at a paragraph, line or sentence leaves at least this much in the message before it; a shorter one would be
/// torn off for little.
const FILLED: usize = UNITS_MAX / 2;

/// The byte ranges of the parts of `text`, in order.
///
/// Joined they are the whole text, but for a stretch without anything to see that would fill a message of its own.
/// There is none for a text in which nothing can be seen.
pub fn parts(text: &str) -> Vec<Range<usize>> {
    let pieces = pieces(text);
    let Some(last_seen) = pieces.iter().rposition(|piece| !piece.unseen) else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    let mut at = 0;
    while at <= last_seen {
        let rest = pieces.get(at..).unwrap_or_default();
        let fitting = fitting(rest);
        let first_seen = rest.iter().position(|piece| !piece.unseen).unwrap_or(0);
        if first_seen >= fitting {
            // Nothing to see in a whole message: left out.
            at = at.saturating_add(first_seen);
            continue;
        }
        let taken = if fitting == rest.len() {
            fitting
        } else {
            // What follows must have something to see as well.
            let last = last_seen.saturating_sub(at);
            let limit = if last < fitting { last } else { fitting };
            if limit > first_seen {
                best_cut(rest, first_seen, limit)
            } else {
                fitting
            }
        };
        let end = at.saturating_add(taken);
        let range = pieces.get(at).zip(pieces.get(end.saturating_sub(1)));
        if let Some((first, last)) = range {
            parts.push(first.from..last.to);
        }
        at = end;
    }
    parts
}

/// How much of a text one message can hold: what is never cut.
struct Piece {
    from: usize,
    to: usize,
    units: usize,
    /// White space at which a line may break.
    space: bool,
    line_ends: usize,
    /// Telegram shows nothing for it.
    unseen: bool,
    ending: Ending,
}

/// What a piece says about the end of a sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Ends one if white space follows.
    Mark,
    /// Ends one whatever follows.
    WideMark,
    /// Quotes and brackets that may stand behind a mark.
    Closing,
    Nothing,
}

/// Where a cut may be, the better the greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Character,
    Word,
    Sentence,
    Line,
    Paragraph,
}

fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).fold(0, usize::saturating_add)
}

/// Characters that Telegram counts as nothing: a message of these and white space only is refused.
fn is_unseen(char: char) -> bool {
    char.is_whitespace()
        || char.is_control()
        || matches!(char, '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{2800}' | '\u{3164}' | '\u{FEFF}' | '\u{FFFC}')
}

fn is_break(char: char) -> bool {
    char.is_whitespace() && !matches!(char, '\u{A0}' | '\u{2007}' | '\u{202F}')
}

fn piece(text: &str, from: usize) -> Piece {
    let line_ends = match text {
        "\r\n" => 1,
        other => other
            .chars()
            .filter(|char| matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}'))
            .count(),
    };
    let ending = match text {
        "." | "!" | "?" | "…" | "؟" | "۔" | "։" => Ending::Mark,
        "。" | "！" | "？" | "।" | "॥" => Ending::WideMark,
        "\"" | "'" | "”" | "’" | "»" | "«" | "“" | ")" | "]" | "}" | "」" | "』" | "）" | "*" | "_" => {
            Ending::Closing
        }
        _ => Ending::Nothing,
    };
    Piece {
        from,
        to: from.saturating_add(text.len()),
        units: units(text),
        space: text.chars().all(is_break),
        line_ends,
        unseen: text.chars().all(is_unseen),
        ending,
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (from, cluster) in text.grapheme_indices(true) {
        if units(cluster) <= UNITS_MAX {
            pieces.push(piece(cluster, from));
        } else {
            let chars = cluster.char_indices();
            pieces.extend(chars.map(|(at, char)| piece(char.encode_utf8(&mut [0; 4]), from.saturating_add(at))));
        }
    }
    pieces
}

/// How many of the pieces fit into one message.
fn fitting(rest: &[Piece]) -> usize {
    let mut total = 0_usize;
    rest.iter()
        .take_while(|piece| {
            total = total.saturating_add(piece.units);
            total <= UNITS_MAX
        })
        .count()
}

/// How many pieces of `rest` the next message takes: more than `first_seen`, at most `limit`.
fn best_cut(rest: &[Piece], first_seen: usize, limit: usize) -> usize {
    let mut filled = [None; 4];
    let mut any = None;
    let (mut used, mut line_ends, mut sentence) = (0_usize, 0_usize, Ending::Nothing);
    for (index, piece) in rest.iter().enumerate().take(limit) {
        let end = index.saturating_add(1);
        used = used.saturating_add(piece.units);
        let next = rest.get(end).filter(|_| end < limit);
        let rank = if piece.space {
            line_ends = line_ends.saturating_add(piece.line_ends);
            match (next.is_some_and(|next| next.space), line_ends) {
                // The cut stands behind the white space, not in it.
                (true, _) => Rank::Character,
                (false, 0) if sentence == Ending::Nothing => Rank::Word,
                (false, 0) => Rank::Sentence,
                (false, 1) => Rank::Line,
                (false, _) => Rank::Paragraph,
            }
        } else {
            line_ends = 0;
            if piece.ending != Ending::Closing {
                sentence = piece.ending;
            }
            let closed = next.is_none_or(|next| next.ending == Ending::Nothing && !next.space);
            if sentence == Ending::WideMark && closed {
                Rank::Sentence
            } else {
                Rank::Character
            }
        };
        if index < first_seen || rank == Rank::Character {
            continue;
        }
        any = Some(end);
        if used >= FILLED {
            for (slot, least) in filled
                .iter_mut()
                .zip([Rank::Paragraph, Rank::Line, Rank::Sentence, Rank::Word])
            {
                if rank >= least {
                    *slot = Some(end);
                }
            }
        }
    }
    filled.into_iter().flatten().next().or(any).unwrap_or(limit)
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
