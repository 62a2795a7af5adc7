//! Content negotiation: what a client accepts (RFC 9110 §12.5.1) and what its body claims to be (§8.3).

use super::routes::Media;

/// Chooses the media type to answer with: of those that `produces` lists, the one the client prefers, and the earlier
/// one when it has no preference. `None` when it accepts none of them.
///
/// An absent header accepts everything. A range that cannot be understood accepts nothing.
pub fn accept(header: Option<&str>, produces: &[Media]) -> Option<Media> {
    let Some(header) = header.filter(|header| !header.trim().is_empty()) else {
        return produces.first().copied();
    };
    let ranges: Vec<Range> = header.split(',').filter_map(Range::parse).collect();
    let mut best: Option<(Media, u16)> = None;
    for media in produces {
        let weight = weight(*media, &ranges);
        if weight > 0 && best.is_none_or(|(_, known)| weight > known) {
            best = Some((*media, weight));
        }
    }
    best.map(|(media, _)| media)
}

/// The most specific range that covers `media` decides.
fn weight(media: Media, ranges: &[Range]) -> u16 {
    ranges
        .iter()
        .filter_map(|range| {
            range
                .specificity(media.as_str())
                .map(|specificity| (specificity, range.thousandths))
        })
        .max()
        .map_or(0, |(_, weight)| weight)
}

struct Range {
    /// In lower case.
    media: String,
    thousandths: u16,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let media = parts.next()?.trim().to_ascii_lowercase();
        if media.split('/').filter(|part| !part.is_empty()).count() != 2 {
            return None;
        }
        let mut thousandths = 1_000;
        for parameter in parts {
            let (name, value) = parameter.split_once('=')?;
            if name.trim().eq_ignore_ascii_case("q") {
                thousandths = quality(value.trim())?;
            }
        }
        Some(Self { media, thousandths })
    }

    fn specificity(&self, media: &str) -> Option<u8> {
        if self.media == media {
            return Some(2);
        }
        if self.media == "*/*" {
            return Some(0);
        }
        let kind = self.media.strip_suffix("/*")?;
        (media.split('/').next() == Some(kind)).then_some(1)
    }
}

/// A weight (RFC 9110 §12.4.2) in thousandths: 0 to 1 with at most three decimals.
fn quality(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals: u16 = format!("{decimals:0<3}").parse().ok()?;
    match whole {
        "0" => Some(decimals),
        "1" if decimals == 0 => Some(1_000),
        _ => None,
    }
}

/// Whether `Content-Type` names JSON in UTF-8: `application/json`, with no parameter but `charset=utf-8`.
pub fn is_json(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else { return false };
    let mut parts = content_type.split(';').map(str::trim);
    parts
        .next()
        .is_some_and(|media| media.eq_ignore_ascii_case("application/json"))
        && parts.all(|parameter| {
            parameter.is_empty()
                || parameter.split_once('=').is_some_and(|(name, value)| {
                    name.eq_ignore_ascii_case("charset") && value.trim_matches('"').eq_ignore_ascii_case("utf-8")
                })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &[Media] = &[Media::Json, Media::EventStream];

    #[test]
    fn the_preferred_type_wins() {
        let rows: &[(Option<&str>, Option<Media>)] = &[
            (None, Some(Media::Json)),
            (Some(""), Some(Media::Json)),
            (Some("*/*"), Some(Media::Json)),
            (Some("application/json"), Some(Media::Json)),
            (Some("text/event-stream"), Some(Media::EventStream)),
            (Some("Text/Event-Stream; charset=utf-8"), Some(Media::EventStream)),
            (Some("text/*"), Some(Media::EventStream)),
            (
                Some("application/json;q=0.5, text/event-stream"),
                Some(Media::EventStream),
            ),
            (Some("text/event-stream;q=0.5, application/json"), Some(Media::Json)),
            (Some("text/event-stream, application/json"), Some(Media::Json)),
            (Some("*/*, application/json;q=0"), Some(Media::EventStream)),
            (Some("application/problem+json, */*;q=0.1"), Some(Media::Json)),
            (Some("text/html"), None),
            (Some("application/json;q=0"), None),
            (Some("application/json;q=2"), None),
            (Some("application/json;q=0.0001"), None),
            (Some("json"), None),
            (Some("/"), None),
            (Some(";;;,,,"), None),
        ];
        for (header, expected) in rows {
            assert_eq!(accept(*header, BOTH), *expected, "{header:?}");
        }
        assert_eq!(accept(Some("text/event-stream"), &[Media::Json]), None);
    }

    #[test]
    fn bodies_are_json_in_utf_8() {
        for good in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
        ] {
            assert!(is_json(Some(good)), "{good}");
        }
        for bad in [
            "",
            "text/json",
            "application/json; charset=latin1",
            "application/json; v=1",
            "application/jsonx",
            "application/json, text/html",
        ] {
            assert!(!is_json(Some(bad)), "{bad}");
        }
        assert!(!is_json(None));
    }
}
