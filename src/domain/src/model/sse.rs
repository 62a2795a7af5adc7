//! Decoding of `text/event-stream` (HTML Living Standard §9.2.6), fed with whatever pieces the network gives.

/// The largest event that is taken, in bytes: far above what one piece of an answer needs.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Why a stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SseError {
    /// One event grew over [`EVENT_BYTES_MAX`].
    TooLong,
    /// The data of an event is not UTF-8.
    Encoding,
}

/// A decoder of one stream. Only the `data` of events is kept; names, ids and reconnection times are not used.
#[derive(Default)]
pub struct Decoder {
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// The data lines of the event so far, joined by line feeds.
    data: Option<Vec<u8>>,
    /// The last line ended with CR, so that a LF right behind it belongs to the same end.
    after_cr: bool,
    /// At least one line has been read: a byte order mark counts only before that.
    started: bool,
}

impl Decoder {
    /// Takes the next piece and gives the data of every event it completes.
    ///
    /// An event that the stream ends within is never given, as the standard wants it.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<String>, SseError> {
        let mut events = Vec::new();
        for byte in piece {
            let after_cr = std::mem::replace(&mut self.after_cr, *byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => events.extend(self.end_line()?),
                _ if self.held() >= EVENT_BYTES_MAX => return Err(SseError::TooLong),
                _ => self.line.push(*byte),
            }
        }
        Ok(events)
    }

    fn held(&self) -> usize {
        self.line.len().saturating_add(self.data.as_ref().map_or(0, Vec::len))
    }

    fn end_line(&mut self) -> Result<Option<String>, SseError> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.started, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            let Some(data) = self.data.take() else { return Ok(None) };
            return String::from_utf8(data).map(Some).map_err(|_| SseError::Encoding);
        }
        let value = match line.strip_prefix(b"data") {
            Some([]) => [].as_slice(),
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            // Another field, or a comment.
            Some(_) | None => return Ok(None),
        };
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = Decoder::default();
        pieces.iter().flat_map(|piece| decoder.push(piece).unwrap()).collect()
    }

    const STREAM: &str = "\u{feff}data: {\"a\":\"ä€😀\"}\n\n: a comment\r\n\r\nevent: x\rdata:second\rdata:  third\r\r\
        id: 7\ndata\n\ndatax: no\nretry: 5\n\ndata: [DONE]\r\n\r\ndata: cut off";

    #[test]
    fn fields_comments_and_all_line_ends_are_understood() {
        assert_eq!(
            decode(&[STREAM.as_bytes()]),
            ["{\"a\":\"ä€😀\"}", "second\n third", "", "[DONE]"]
        );
    }

    #[test]
    fn it_does_not_matter_where_the_stream_is_split() {
        let whole = decode(&[STREAM.as_bytes()]);
        for at in 0..=STREAM.len() {
            let (head, tail) = STREAM.as_bytes().split_at(at);
            assert_eq!(decode(&[head, tail]), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = STREAM.as_bytes().chunks(1).collect();
        assert_eq!(decode(&bytes), whole);
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_start() {
        assert_eq!(decode(&["data: a\n\n\u{feff}data: b\n\n".as_bytes()]), ["a"]);
    }

    #[test]
    fn endless_events_and_broken_text_are_refused() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(&vec![b'x'; EVENT_BYTES_MAX]), Ok(Vec::new()));
        assert_eq!(decoder.push(b"x"), Err(SseError::TooLong));

        let mut decoder = Decoder::default();
        let line = [b"data:".as_slice(), &vec![b'x'; EVENT_BYTES_MAX / 2], b"\n"].concat();
        assert_eq!(decoder.push(&line), Ok(Vec::new()));
        assert_eq!(decoder.push(&line), Err(SseError::TooLong));

        assert_eq!(Decoder::default().push(b"data: \xff\n\n"), Err(SseError::Encoding));
    }
}
